"""PATE on MNIST: linear-probe teachers on features that no label went into, a grid of noises.

Label-free k-means patch features (Coates and Ng) feed 250 or 800 ridge-regression teachers; 36
settings of sigma1, sigma2, tau and K reuse their votes. Marks: Papernot et al. 2018, Table 1, 98.5%
at epsilon 1.97 with 250 convolutional teachers (286 answers on test images, delta 1e-5); linear
probes like these, 92.0% at .46. Both epsilons depend on the votes, like
`private/epsilon_data_dependent`; `epsilon` here is guaranteed for any votes, checks and unused
answers included. docs/reproduction/pate.md has the numbers of a full run.

Hardware: two cores, three minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.sweep import Sweep
from labeldp.platform.studies.presets import VARIANTS, smoke
from labeldp.trainers.base import FeatureSet
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
