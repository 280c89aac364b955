"""What a long computation does at the moment, for the process that shows it to a person.

Nothing is told, and nothing is spent on it, unless the caller listens.

>>> with listening(lambda text, share: print(text, share)):
...     parts = list(counted([1, 2], "describing images"))
describing images 0.0
describing images 0.5
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

#: Told the step's name, and the share of it that is done; None where nobody can say.
Listener = Callable[[str, float | None], None]
_T = TypeVar("_T")
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` of the steps of whatever is computed meanwhile in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(text: str, share: float | None = None) -> None:
    """Say what is being computed."""
    listener = _listener.get()
    if listener is not None:
        listener(text, share)


def counted(parts: Sequence[_T], text: str) -> Iterator[_T]:
    """Yield the parts of a step, and tell before each how much of it is done."""
    for number, part in enumerate(parts):
        tell(text, number / len(parts))
        yield part
