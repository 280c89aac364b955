"""Faults that happen while a sweep runs in this process: a thread that waits for its moments."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults.processes import wait_until
from tests.faults.sweep_runs import TIME_LIMIT_SECONDS, records


class Mischief:
    """Does each act once so many trials have ended; an act that fails fails the `with` block."""

    def __init__(self, results: Path, acts: Sequence[tuple[int, Callable[[], object]]]) -> None:
        self._results, self._acts = results, acts
        self._error: BaseException | None = None
        self._called_off = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._called_off.set()
        self._thread.join(timeout=60)
        if error is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for number, act in self._acts:
                wait_until(
                    lambda number=number: (  # type: ignore[misc]
                        len(records(self._results)) >= number or self._called_off.is_set()
                    ),
                    what=f"{number} trials end",
                    seconds=TIME_LIMIT_SECONDS,
                )
                assert len(records(self._results)) >= number, "the sweep ended early"
                act()
        except BaseException as error:  # handed to the test's own thread
            self._error = error
