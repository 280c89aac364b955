"""Planning: twenty thousand trials resolved, checked and priced."""

from pathlib import Path

from labeldp.platform.sweep.configuration import TrialConfig, config_hash, with_changes
from labeldp.platform.sweep.cost import cost_of
from labeldp.platform.sweep.plan import plan_of
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, SweepOptions
from tests.benchmarks.benchmark import Work, benchmark

_TRIALS, _ONE_BY_ONE, _EPSILONS = 20_000, 500, (0.5, 1.0, 2.0, 4.0)


@benchmark(
    "plan",
    "plan of 20,000 trials",
    "each trial's configuration, hash and price by itself, nothing else",
    mark=0.28,
    most_seconds=60.0,
)
def _plan(scratch: Path) -> Work:
    seeds = _TRIALS // len(_EPSILONS)
    base = with_changes(TrialConfig(), {"audit.canaries": 20})

    def of(seeds: int) -> Sweep:
        axes = {"trainer.epsilon": Grid(*_EPSILONS), "seed": Grid(*range(seeds))}
        return Sweep(name="planned", base=base, space=axes)

    options = SweepOptions(results=scratch)
    sweep, small = of(seeds), of(_ONE_BY_ONE // len(_EPSILONS))

    def plain() -> tuple[int, list[float]]:
        """Every trial by itself: its configuration, its hash, its price."""
        found = {}
        for epsilon in _EPSILONS:
            for seed in range(_ONE_BY_ONE // len(_EPSILONS)):
                point = {"trainer.epsilon": epsilon, "seed": seed}
                config = with_changes(base, point)
                trial = PlannedTrial(variant="planned", config=config, point=point)
                price = cost_of([trial], num_classes=10).epsilon_total
                found[config_hash(config, data_fingerprint="")] = price
        return len(found), sorted(set(found.values()))

    def check() -> None:
        planned = plan_of(small, options)
        assert (planned.trials, planned.epsilons) == plain()
        assert not planned.problems

    return Work(
        ours=lambda: plan_of(sweep, options),
        reference=plain,
        part=_ONE_BY_ONE / _TRIALS,
        check=check,
    )
