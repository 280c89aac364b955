"""PATE on MNIST: linear-probe teachers on features that no label went into, a grid of noises.

Label-free k-means patch features (Coates and Ng) feed 250 or 800 ridge-regression teachers, all
trained in seconds; 36 settings of sigma1, sigma2, tau and K then reuse their votes. Marks:
Papernot et al. 2018, Table 1, 98.5% at epsilon 1.97 with 250 convolutional teachers (for 286
answers on test images, delta 1e-5); linear probes like these, 92.0% at .46. Both epsilons depend on
the votes, which is no guarantee.

`epsilon` here is what is guaranteed for any votes, checks and unused answers included;
`epsilon_sanitized` is a published bound by smooth sensitivity; `private/epsilon_data_dependent` is
the marks' kind of number. docs/reproduction/pate.md has the numbers of a full run. `--smoke`: 2,000
images (scikit-learn's digits where MNIST is not there), 24 settings.

Hardware: two cores, three minutes, most of them for the features.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.pate_grids import VARIANTS, smoke
from labeldp.platform.sweep.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.sweep.sweep import Sweep
from labeldp.trainers.settings.base import FeatureSet
from labeldp.trainers.settings.pate import EnsembleConfig, PateConfig, StudentConfig, StudentKind

SWEEP = Sweep(
    name="pate_mnist",
    base=TrialConfig(
        method="pate",
        data=DataSettings(name="mnist", features=FeatureSet.PATCHES),
        audit=AuditSettings(canaries=1000, coin_canaries=100),
        trainer=PateConfig(
            ensemble=EnsembleConfig(queries=1000),
            student=StudentConfig(kind=StudentKind.SELF_TRAINED),
            answers=500,
        ),
    ),
    variants=VARIANTS,
    smoke=smoke("mnist", changes={"trainer.students": 1}),
)

if __name__ == "__main__":
    main(SWEEP)
