"""ALIBI on all 60,000 images of Fashion-MNIST with a small CNN on a CPU, beside LP-MST's rows.

Ghazi et al. 2021, "Deep Learning with Label Differential Privacy" (small Inception, two stages):
83.26 at epsilon 1, 91.24 at 2, 94.10 at 4, 94.28 without privacy. Three seeds each read one release
per epsilon. docs/reproduction.md has the numbers of a full run.

Hardware: two cores; each trial takes minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.platform.studies.presets import audited
from labeldp.trainers.base import ModelName
from labeldp.trainers.methods.settings import AlibiConfig, Noise
from labeldp.trainers.settings.training import Schedule

SWEEP = Sweep(
    name="alibi_fashion_mnist",
    base=audited(
        "fashion_mnist",
        AlibiConfig(
            model=ModelName.SMALL_CNN,
            epochs=12,
            batch_size=128,
            learning_rate=0.05,
            weight_decay=5e-4,
            schedule=Schedule.COSINE,
        ),
    ),
    variants=[
        Variant(name="ALIBI", space={"trainer.epsilon": Grid(1.0, 2.0, 4.0)}),
        Variant(name="no privacy", changes={"trainer.noise": Noise.NONE}),
    ],
    space={"seed": Grid(0, 1, 2)},
    smoke=Preset(
        changes={"data.limit": 4000, "audit.canaries": 100, "trainer.epochs": 2},
        space={"seed": Grid(0)},
    ),
)

if __name__ == "__main__":
    main(SWEEP)
