"""Two trials on one release, and a driver that kills itself at a write of its choosing.

It counts what it writes from the record of the last trial on: files of the results folder,
statements and commits of the tracking store, and its own end. With `--kill-at 17` it ends at the
17th as by a power cut, before it does it; without, it writes what it counted into `DIR.moments`.
Vault and trials are in its own process.
"""

import atexit
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

TRIALS = 2


class Moments:
    """What the driver's main thread is about to write, counted from the last trial's end on."""

    def __init__(self, results: Path, kill_at: str) -> None:
        self._results, self._kill_at = str(results), kill_at
        self._begun = False
        self.passed: list[str] = []

    def watch(self) -> None:
        """Look on at everything that leaves something behind."""
        import sqlalchemy

        from labeldp.platform.records.results import ResultsFolder, TrialRecord

        keep = ResultsFolder.keep

        def kept(self_: ResultsFolder, record: TrialRecord) -> None:
            if len(list((self_.path / "trials").glob("*.json"))) == TRIALS - 1:
                self._begun = True
            keep(self_, record)

        setattr(ResultsFolder, "keep", kept)  # noqa: B010
        engines = sqlalchemy.engine.Engine
        sqlalchemy.event.listen(engines, "before_cursor_execute", self._statement)
        sqlalchemy.event.listen(engines, "commit", lambda _: self.comes("COMMIT"))
        sys.addaudithook(self._audited)
        atexit.register(self._at_exit)

    def comes(self, what: str) -> None:
        """Count one, and end here if it is the one."""
        if not self._begun or threading.current_thread() is not threading.main_thread():
            return
        self.passed.append(what)
        if str(len(self.passed)) == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _statement(self, connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            self.comes(" ".join(statement.split()[:3]).strip('"'))

    def _audited(self, event: str, details: tuple[Any, ...]) -> None:
        if not self._begun or not details or not isinstance(details[0], str | os.PathLike):
            return
        path = os.fspath(details[0])
        if not path.startswith(self._results):
            return
        writes = event == "open" and details[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
            self.comes(f"{event} {os.path.relpath(path, self._results)}")

    def _at_exit(self) -> None:
        self.comes("exit")
        if not self._kill_at:
            Path(f"{self._results}.moments").write_text("\n".join(self.passed) + "\n")


def main() -> None:
    """Run the sweep, with its moments watched."""
    from labeldp.platform.cli import sweep_command
    from labeldp.platform.sweep.configuration import (
        AuditSettings,
        DataSettings,
        NoiseSettings,
        TrialConfig,
    )
    from labeldp.platform.sweep.space import Grid
    from labeldp.platform.sweep.sweep import Sweep
    from labeldp.trainers.settings.methods import AlibiConfig
    from tests.faults.without_cluster import without_cluster

    sweep = Sweep(
        name="ending",
        base=TrialConfig(
            data=DataSettings(limit=200),
            noise=NoiseSettings(seed=7),
            audit=AuditSettings(canaries=20),
            trainer=AlibiConfig(epochs=2, batch_size=100),
        ),
        space={"seed": Grid(*range(TRIALS))},
    )
    arguments, kill_at = sys.argv[1:], ""
    if "--kill-at" in arguments:
        place = arguments.index("--kill-at")
        kill_at = arguments[place + 1]
        del arguments[place : place + 2]
    Moments(Path(arguments[arguments.index("--results") + 1]), kill_at).watch()
    with without_cluster():
        sweep_command.main(sweep, arguments)
