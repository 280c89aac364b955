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
    from labeldp.platform.sweep.open_sweep import OpenSweep
    from labeldp.platform.sweep.sweep_report import SweepOutcome


@owner_only()
def run_sweep(sweep: Sweep, options: SweepOptions) -> "SweepOutcome":
    """Run a sweep's unfinished trials and report on all of them.

    Raises:
        ValueError: Bad input of any kind (configuration, data, results folder, tracking store).
        CannotFit: The cluster can't hold a trial.
        BudgetExceeded: The sweep would cost more than its budget.
        KeyboardInterrupt: As it came; what has finished is kept.
    """
    steps = Steps(quiet=options.quiet)
    with steps.during(f"{sweep.name}: planning trials, reading and checking data"):
        checked = check(sweep, options)
    from labeldp.platform.sweep.open_sweep import opened

    with opened(checked, steps=steps) as open_sweep:
        run(open_sweep)
        from labeldp.platform.sweep.sweep_report import report

        return report(open_sweep)


def run(sweep: "OpenSweep") -> None:
    """Train the teachers whose votes are missing, then run the trials that are left.

    Raises:
        ResultsFolderError: Records can't be written.
        CannotFit: No trial or teacher got a place for too long.
        EnsembleIncomplete: Teachers that failed again and again.
        VaultLost: The vault is gone.
    """
    import ray

    from labeldp.platform.sweep.trial_runs import run_trials
    from labeldp.platform.vault.ensembles import train_missing

    checked = sweep.checked
    left = list(sweep.left.values()) if sweep.book is None else list(sweep.plan.trials)
    data = ray.put(checked.data.public)
    try:
        ensembles = train_missing(
            left if sweep.unfinished else [],
            home=sweep.home,
            data=data,
            each=sweep.sizes.teacher,
            available=sweep.capacity,
            progress=sweep.progress,
        )
        if ensembles.teachers_trained or ensembles.teachers_reused:
            # A later start that has nothing left to do tells tracking the same.
            checked.folder.identify(
                teachers_trained=ensembles.teachers_trained,
                teachers_reused=ensembles.teachers_reused,
            )
        if sweep.unfinished:
            run_trials(sweep)
    finally:
        sweep.progress.close()
