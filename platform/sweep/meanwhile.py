"""Work of the driver that is done in a thread while it waits for something else: for Ray, mostly.

Threads that import the same packages at once may see them half made, so one imports at a time:
what is begun `after` something waits for it, and the driver waits before it goes on to import more.

>>> meanwhile(lambda: 1 + 1).result()
2
"""

import importlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def meanwhile(
    work: Callable[[], _Result], *, after: "Iterable[Future[Any]]" = ()
) -> "Future[_Result]":
    """Do `work` in a thread that holds nobody up at the end; returns what becomes of it.

    Args:
        work: What to do.
        after: What has to have ended before, well or not.
    """
    future: Future[_Result] = Future()

    def carry_out() -> None:
        wait(after)
        try:
            future.set_result(work())
        except BaseException as error:  # raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=carry_out, name="labeldp-meanwhile", daemon=True).start()
    return future


def load(*modules: str) -> None:
    """Import modules ahead of time; whoever needs one that can't be imported is told why."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:
            return
