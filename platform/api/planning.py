"""What a trial or a sweep would run and cost, from Python; nothing is started or released."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.platform.api.running import Runnable
    from labeldp.platform.cli.sweep_plan import PlanResult


def plan(
    what: "Runnable",
    *,
    overrides: Mapping[str, Any] | None = None,
    smoke: bool = False,
    **options: Any,
) -> "PlanResult":
    """Return a sweep's trials and cost, as `labeldp plan` does.

    Args:
        what: As for `run`.
        overrides: Dotted key -> value on top; a list makes an axis.
        smoke: The sweep's small size.
        **options: Further ones of `SweepOptions`, as for `run`.

    Raises:
        ValueError: A key or value that can't be used.
    """
    from labeldp.platform.api.running import sweep_of
    from labeldp.platform.cli.sweep_plan import plan_of
    from labeldp.platform.sweep_options import SweepOptions

    asked = SweepOptions(smoke=smoke, results=Path(), overrides=overrides or {}, **options)
    return plan_of(sweep_of(what), asked)
