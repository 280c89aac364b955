"""A search that learns: twenty trials on one release of the labels, in two minutes on a laptop.

ALIBI at epsilon 4 on scikit-learn's digits. Optuna searches settings that touch no release, so that
the training labels pay 4 once. Each trial requests one noisy count of right answers on the held-out
fifth: twenty counts of .2 are 4, paid by those labels alone. No label pays more than 4. The public
test split takes no part in the search. docs/search.md has the figures of a run.

`--stop asha evaluation.estimate=release` ends trials that fall behind: one release of the held-out
labels serves every rung, and costs them 4 once.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import (
    AuditSettings,
    DataSettings,
    EvaluationSettings,
    OptunaSearch,
    TrialConfig,
)
from labeldp.platform.settings.sweep import Choice, LogUniform, Preset, Sweep
from labeldp.trainers.methods.settings import AlibiConfig

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
    smoke=Preset(changes={"trainer.epochs": 3}, samples=3),
)

if __name__ == "__main__":
    main(SWEEP)
