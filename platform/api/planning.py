"""What a trial or a sweep would run and cost, from Python; nothing is started or released."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.platform.api.running import Runnable
    from labeldp.platform.cli.sweep_plan import PlanResult


def plan(
    what: "Runnable", *, overrides: Mapping[str, Any] | None = None, smoke: bool = False
) -> "PlanResult":
    """Return a sweep's trials and cost, as `labeldp plan` does.

    Args:
        what: A `TrialConfig`, a `Sweep`, or the path of a file that holds one.
        overrides: Dotted key -> value on top; a list makes an axis.
        smoke: The sweep's small size.

    Raises:
        ValueError: A key or value that can't be used.
    """
    from labeldp.platform.api.running import sweep_of
    from labeldp.platform.cli.sweep_plan import plan_sweep

    return plan_sweep(sweep_of(what), changes=overrides or {}, smoke=smoke)
