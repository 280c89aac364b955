"""Three kinds of noise on labels: trials of known numbers (`tests.frozen`), and a small sweep.

ALIBI (Laplace), AGIBI (Gaussian, delta 1e-5) and randomized response at epsilon .5 to 8, and the
same network without any privacy, on scikit-learn's digits. 100 labels are wrong on purpose, and the
attack looks whether the model remembers them.

Expect: without privacy some 96%, and a proof that the model leaks (its epsilon is at least 1.9); at
epsilon 1 some 70%, and no proof; at epsilon 8 nearly the accuracy without privacy. AGIBI is far
below the others at small epsilon, since Gaussian noise pays for its delta. Wrong labels are
memorized after 80 epochs, not after 30; they cost some accuracy on every line (docs/audits.md).
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.trainers.methods.settings import AlibiConfig, Noise

EPSILONS = {"trainer.epsilon": Grid(0.5, 1.0, 2.0, 4.0, 8.0)}

SWEEP = Sweep(
    name="three_noises",
    base=TrialConfig(
        data=DataSettings(name="digits"),
        audit=AuditSettings(canaries=100, coin_canaries=0),
        trainer=AlibiConfig(epochs=80, batch_size=64),
    ),
    variants=[
        Variant(name="ALIBI", changes={"trainer.noise": Noise.LAPLACE}, space=EPSILONS),
        Variant(name="AGIBI", changes={"trainer.noise": Noise.GAUSSIAN}, space=EPSILONS),
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
