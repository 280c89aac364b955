"""Moment labels on the vectors of an encoder (docs/encoders.md), at seven epsilons.

    labeldp embed cifar10 --encoder torchvision:resnet18 -o cifar10-resnet18.npy
    python sweeps/moments_on_embeddings.py data.name=cifar10 data.embeddings=cifar10-resnet18.npy

or any matrix of your own (data.name=own data.path=X.npy data.labels=y.npy ...). Without options it
runs on scikit-learn's digits. No labels are spoiled for an audit: add audit.canaries=1000 for
epsilon_m.

Hardware: two cores; 60,000 vectors of 768 numbers take under three minutes in all.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.trainers.methods.settings import PriorLabelsConfig, PriorSource
from labeldp.trainers.settings.training import Schedule

SWEEP = Sweep(
    name="moments_on_embeddings",
    base=TrialConfig(
        method="prior_labels",
        audit=AuditSettings(canaries=0, coin_canaries=0),
        trainer=PriorLabelsConfig(
            epochs=12,
            batch_size=256,
            schedule=Schedule.COSINE,
            dropout=0.5,
        ),
    ),
    variants=[
        Variant(
            name="moment labels",
            changes={"trainer.prior.source": PriorSource.MOMENTS},
            space={"trainer.epsilon": Grid(0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)},
        )
    ],
    smoke=Preset(changes={"trainer.epochs": 2}, space={"trainer.epsilon": Grid(1.0)}),
)

if __name__ == "__main__":
    main(SWEEP)
