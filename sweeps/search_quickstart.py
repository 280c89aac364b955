"""A search that learns: twenty trials on one release of the labels, in two minutes on a laptop.

ALIBI at epsilon 4 on scikit-learn's digits. Learning rate, weight decay and width are searched by
Optuna (tree-structured Parzen estimators); none of them touches the release, so that the training
labels pay 4 once, however many trials read it. A fifth of the training examples is held out, and
each trial asks for one noisy count of right answers there: twenty counts of .2 are 4, paid by
those labels alone. What any label pays is the larger of the two sums: 4. The public test split
takes no part in the search.

Expect: random draws at first, then rates near the best; docs/search.md has the figures of a run.
`--stop asha evaluation.estimate=release` ends trials that fall behind: one release of the held-out
labels tells how far along everybody is, at every rung, and costs 4 once, again paid by them alone.

Hardware: two cores, about two minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.sweep.configuration import (
    AuditSettings,
    DataSettings,
    EvaluationSettings,
    OptunaSearch,
    TrialConfig,
)
from labeldp.platform.sweep.space import Choice, LogUniform
from labeldp.platform.sweep.sweep import Smoke, Sweep
from labeldp.trainers.settings.methods import AlibiConfig

SWEEP = Sweep(
    name="search_quickstart",
    base=TrialConfig(
        data=DataSettings(name="digits"),
        audit=AuditSettings(canaries=50, coin_canaries=0),
        evaluation=EvaluationSettings(held_out_share=0.2, epsilon=0.2),
        trainer=AlibiConfig(epsilon=4.0, epochs=30, batch_size=64),
    ),
    space={
        "trainer.learning_rate": LogUniform(1e-4, 1.0),
        "trainer.weight_decay": LogUniform(1e-6, 1e-1),
        "trainer.width": Choice(32, 64, 128, 256),
    },
    search=OptunaSearch(trials=20),
    smoke=Smoke(changes={"trainer.epochs": 3}, samples=3),
)

if __name__ == "__main__":
    main(SWEEP)
