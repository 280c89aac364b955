"""Five ways to protect labels side by side, in minutes on a laptop.

ALIBI (Laplace noise), PATE (noisy votes of teachers), LP-MST (randomized response in two stages),
the default for tables (a stack of models, which chooses its release) and randomized response, at
epsilon 1, 2 and 8, and a network without any privacy, on scikit-learn's digits. 100 labels are
wrong on purpose, and the attack looks whether the model remembers them.

Expect: without privacy some 96%, and a proof that the model leaks (its epsilon is at least 1.9);
the default above 90% at epsilon 1; networks from 40% to 75% there, and above 90% at epsilon 8. PATE
shares 1,438 labels among 60 teachers, which is too few at epsilon 1 and 2.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.trainers.methods.settings import AlibiConfig, Noise

EPSILONS = {"trainer.epsilon": Grid(1.0, 2.0, 8.0)}
TRAINING = {"trainer.epochs": 80, "trainer.batch_size": 64}

SWEEP = Sweep(
    name="quickstart",
    base=TrialConfig(
        data=DataSettings(name="digits"),
        audit=AuditSettings(canaries=100, coin_canaries=0),
        trainer=AlibiConfig(epochs=80, batch_size=64),
    ),
    variants=[
        Variant(name="ALIBI", changes={"trainer.noise": Noise.LAPLACE}, space=EPSILONS),
        Variant(
            name="PATE",
            changes={
                "method": "pate",
                "trainer.aggregator": "gnmax",
                "trainer.ensemble.kind": "forest",
                "trainer.ensemble.forest.trees": 10,
                "trainer.ensemble.teachers": 60,
                "trainer.ensemble.queries": 40,
                "trainer.answers": 40,
                "trainer.student.kind": "forest",
                "trainer.students": 1,
            },
            space=EPSILONS,
        ),
        Variant(name="LP-MST", changes={"method": "lp_mst", **TRAINING}, space=EPSILONS),
        Variant(name="default", changes={"method": "table_stack"}, space=EPSILONS),
        Variant(
            name="randomized response",
            changes={"trainer.noise": Noise.RANDOMIZED_RESPONSE},
            space=EPSILONS,
        ),
        Variant(name="no privacy", changes={"trainer.noise": Noise.NONE}),
    ],
    smoke=Preset(changes={"trainer.epochs": 3}),
)

if __name__ == "__main__":
    main(SWEEP)
