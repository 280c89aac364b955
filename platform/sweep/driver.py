"""Run a sweep from its plan to its report; resume one that was cut off.

The order matters: everything that can be refused is refused before the first label is released, and
what can be refused without Ray and MLflow before those are loaded, which takes seconds.
"""

from typing import TYPE_CHECKING

from labeldp.platform.records.private_files import owner_only
from labeldp.platform.records.progress import Steps
from labeldp.platform.sweep.sweep import Sweep, SweepOptions
from labeldp.platform.sweep.sweep_check import check

if TYPE_CHECKING:
    from labeldp.platform.sweep.sweep_report import SweepOutcome


@owner_only()
def run_sweep(sweep: Sweep, options: SweepOptions) -> "SweepOutcome":
    """Run a sweep's unfinished trials and report on all of them.

    Raises:
        CannotFit: The cluster can't hold a trial.
        BudgetExceeded: The sweep would cost more than its budget.
        KeyboardInterrupt: As it came; what has finished is kept.
    """
    steps = Steps(quiet=options.quiet)
    with steps.during(f"{sweep.name}: planning trials, reading and checking data"):
        checked = check(sweep, options)
    from labeldp.platform.sweep.open_sweep import opened

    with opened(checked, steps=steps) as open_sweep:
        from labeldp.platform.sweep.sweep_report import report
        from labeldp.platform.sweep.trial_runs import run

        run(open_sweep)
        return report(open_sweep)
