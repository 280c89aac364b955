"""Work of the driver that is done in a thread while it waits for something else: for Ray, mostly.

>>> meanwhile(lambda: 1 + 1).result()
2
"""

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


def meanwhile(work: Callable[[], _Result]) -> "Future[_Result]":
    """Do `work` in a thread that holds nobody up at the end; returns what becomes of it."""
    future: Future[_Result] = Future()

    def carry_out() -> None:
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
