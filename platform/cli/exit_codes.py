"""Exit codes of `labeldp` and of every sweep: one table, by what went wrong.

>>> exit_code(FileNotFoundError("votes.npy")), exit_code(KeyError("a defect"))
(<ExitCode.BAD_INPUT: 2>, None)
"""

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell is told.

    DONE: all is well. NOT_OK: it ran, and something in it failed. BAD_INPUT: nothing was done, the
    message says why. CANNOT_FIT: no machine is large enough. OVER_BUDGET: it would cost more
    privacy than is allowed. INTERRUPTED: somebody stopped it.
    """

    DONE = 0
    NOT_OK = 1
    BAD_INPUT = 2
    CANNOT_FIT = 3
    OVER_BUDGET = 4
    INTERRUPTED = 130


_BUILT_IN: Mapping[type[BaseException], ExitCode] = {
    ValueError: ExitCode.BAD_INPUT,
    OSError: ExitCode.BAD_INPUT,
    MemoryError: ExitCode.BAD_INPUT,
    KeyboardInterrupt: ExitCode.INTERRUPTED,
}


def exit_code(error: BaseException) -> ExitCode | None:
    """Return the code of an error's nearest class that has one; None for a defect of ours."""
    kinds = type(error).__mro__
    # A bare ValueError is told without NumPy, which the import of our own errors takes along.
    table = _BUILT_IN if kinds[0] in _BUILT_IN else {**_BUILT_IN, **_ours()}
    return next((table[kind] for kind in kinds if kind in table), None)


def _ours() -> Mapping[type[BaseException], ExitCode]:
    from labeldp.mechanisms.ledger import BudgetExceeded
    from labeldp.platform.sweep.sweep import CannotFit, Unfinished

    return {
        BudgetExceeded: ExitCode.OVER_BUDGET,
        CannotFit: ExitCode.CANNOT_FIT,
        Unfinished: ExitCode.NOT_OK,
    }
