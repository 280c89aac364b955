"""A trial or a sweep from Python, as the command line runs it: Ray, tracking, results folder."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.api.result import Result

if TYPE_CHECKING:
    from labeldp.platform.sweep.configuration import TrialConfig
    from labeldp.platform.sweep.sweep import Sweep

    Runnable = TrialConfig | Sweep | Mapping[str, Any] | str | os.PathLike[str]


def run(
    what: "Runnable",
    *,
    results: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    smoke: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Result:
    """Run a trial or a sweep, and return what it left behind.

    A results folder that holds finished trials of it is gone on with: they are not run again, and
    nothing is paid twice.

    Args:
        what: A `TrialConfig` or its dotted key -> value, a `Sweep`, or the path of a file that
            holds one.
        results: The results folder; `results/NAME` if not given.
        overrides: Dotted key -> value on top; a list makes an axis.
        smoke: The sweep's small size.
        quiet: Say nothing on standard error.
        **options: Further ones of `SweepOptions`: `address`, `max_epsilon_total`, ...

    Raises:
        ValueError: Bad input of any kind (configuration, data, results folder).
        BudgetExceeded: It would cost more than `max_epsilon_total`.
        CannotFit: The cluster can't hold a trial.
    """
    from labeldp.platform.sweep.driver import run_sweep
    from labeldp.platform.sweep.sweep import SweepOptions

    sweep = sweep_of(what)
    folder = Path(results) if results is not None else Path("results", sweep.name)
    asked = SweepOptions(results=folder, overrides=overrides or {}, smoke=smoke, **options)
    with contextlib.redirect_stderr(io.StringIO() if quiet else sys.stderr):
        run_sweep(sweep, asked)
    return Result(folder=folder.expanduser().absolute())


def sweep_of(what: "Runnable") -> "Sweep":
    """Return what is to be run as a sweep; a trial alone is one of a single trial.

    Raises:
        ValueError: Neither, or a file that holds no sweep.
    """
    from labeldp.platform.cli.sweep_plan import load_sweep
    from labeldp.platform.sweep.configuration import TrialConfig, with_changes
    from labeldp.platform.sweep.sweep import Sweep

    if isinstance(what, Sweep):
        return what
    if isinstance(what, Mapping):
        what = with_changes(TrialConfig(), what)
    if isinstance(what, TrialConfig):
        return Sweep(name=re.sub(r"[^\w.-]", "_", f"{what.method}_{what.data.name}"), base=what)
    if isinstance(what, str | os.PathLike):
        return load_sweep(os.fspath(what))
    raise ValueError(
        f"{type(what).__name__} can't be run; give a TrialConfig, keys and values of one, a Sweep, "
        "or the path of a sweep file"
    )
