"""Work beside the driver: results and errors come where they are asked for; imports never break."""

import sys
import threading

import pytest

from labeldp.platform.sweep.meanwhile import load, meanwhile


def test_results_and_errors_come_when_asked_for() -> None:
    def fail() -> int:
        raise KeyError("of the thread")

    assert meanwhile(lambda: 3).result(timeout=10) == 3
    failed = meanwhile(fail)
    with pytest.raises(KeyError, match="of the thread"):
        failed.result(timeout=10)


def test_modules_are_loaded_up_to_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    load("json", "labeldp.no_such_module", "this")
    assert "this" not in sys.modules


def test_what_is_begun_after_something_waits_for_its_end() -> None:
    """Two threads that import the same packages at once may see them half made."""
    gate, order = threading.Event(), list[str]()

    def first() -> None:
        gate.wait(10)
        order.append("first")
        raise ValueError("it may fail")

    begun = meanwhile(first)
    after = meanwhile(lambda: order.append("second"), after=[begun])
    assert not after.done()
    gate.set()
    after.result(timeout=10)
    assert order == ["first", "second"]
