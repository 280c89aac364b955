"""What a trial or a sweep would run and cost, from Python; nothing is started or released."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.platform.api.running import Runnable
    from labeldp.platform.cli.sweep_plan import PlanResult


def plan(
    what: "Runnable",
    *,
    results: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    smoke: bool = False,
    **options: Any,
) -> "PlanResult":
    """Return a sweep's trials and cost, as `labeldp plan` does.

    Args:
        what: As for `run`.
        results: The folder that it would go on in; `results/NAME` if not given.
        overrides: Dotted key -> value on top; a list makes an axis.
        smoke: The sweep's small size.
        **options: Further ones of `SweepOptions`, as for `run`.

    Raises:
        ValueError: A key or value that can't be used.
    """
    from labeldp.platform.api.running import sweep_of
    from labeldp.platform.cli.sweep_plan import plan_of
    from labeldp.platform.sweep.sweep import SweepOptions

    sweep = sweep_of(what)
    folder = Path(results) if results is not None else Path("results", sweep.name)
    asked = SweepOptions(smoke=smoke, results=folder, overrides=overrides or {}, **options)
    return plan_of(sweep, asked)
