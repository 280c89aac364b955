"""Sizes and lines that sweeps share: `--smoke` in minutes, `--preset home` for two cores, PATE's.

`home` trains the fast network on all 50,000 images in minutes, where the papers take hours on a
GPU: at half width ten epochs are 500,000 images, 1,300 in a second of a core that has units for
bfloat16 (docs/fast_network.md has times and processors). Full width is `trainer.width=64`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.space import Grid
from labeldp.platform.settings.sweep import Preset, Resources, Sweep, Variant
from labeldp.trainers.base import FeatureSet, ModelName
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import data_root
from labeldp.trainers.methods.pate_settings import (
    AggregatorKind,
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.methods.settings import Noise
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.schedules import (
    FULL_WIDTH,
    LABEL_SMOOTHING,
    as_changes,
    fast_training,
)
from labeldp.trainers.settings.training import (
    FixMatchConfig,
    SemiSupervisedConfig,
    WeakBranch,
)

#: `--smoke`: 2,000 images, two epochs of a small CNN in single precision.
SMALL_CNN: Mapping[str, Any] = {
    "data.limit": 2000,
    "audit.canaries": 100,
    "trainer.model": ModelName.SMALL_CNN,
    "trainer.epochs": 2,
    "performance.precision": Precision.FP32,
    "performance.channels_last": False,
}
#: Passes over the training examples, in each stage of methods that have some.
EPOCHS = 10
#: The same at full width.
LONGER_EPOCHS = 30
#: Levels of ALIBI on CIFAR-10: epsilon, learning rate and weight decay (Malek et al., Table 4).
ALIBI_KEYS = ("trainer.epsilon", "trainer.learning_rate", "trainer.weight_decay")
ALIBI_CIFAR10 = {
    "high": (8.0, 0.308, 0.568e-4),
    "medium": (2.1, 0.960, 0.00796e-4),
    "low": (1.0, 0.315, 1.50e-4),
}
#: Channels of the first block of teachers and students; a shard is too small for more.
_SMALL_WIDTH = 16
_PERFORMANCE = {"performance.precision": Precision.AUTO, "performance.channels_last": True}


def network_preset(
    changes: Mapping[str, Any] | None = None,
    *,
    variants: tuple[Variant, ...] = (),
    samples: int = 1,
    full: bool = False,
) -> Preset:
    """Return `home` of a sweep whose trainer has one network, or `network`, which is `full`.

    `variants`: see `Preset`; they state their own epochs. The full one has the published width, and
    thirty epochs: minutes of a GPU.
    """
    size = {"epochs": LONGER_EPOCHS, "width": FULL_WIDTH} if full else {"epochs": EPOCHS}
    recipe = as_changes("trainer", fast_training(**size))
    if variants:
        del recipe["trainer.epochs"]
    return Preset(
        changes={**recipe, **_PERFORMANCE, **(changes or {})},
        variants=variants,
        samples=samples,
        resources=Resources(),
        teacher=Resources(),
    )


def pate_preset(student: StudentKind = StudentKind.NETWORK) -> Preset:
    """Return `home` of a sweep of PATE-FM, with 40 passes over a shard or the answers.

    Teachers and student are fast networks that see nothing else: FixMatch for each teacher would
    take days. In `network` the student learns by FixMatch all the same, on a tenth of the published
    views in each epoch.
    """
    network = fast_training(epochs=40, width=_SMALL_WIDTH, label_smoothing=LABEL_SMOOTHING)
    # A shard is a few batches of 50; the rate goes with the batch.
    network |= {"batch_size": 50, "learning_rate": network["learning_rate"] / 10}
    return Preset(
        changes={
            **_PERFORMANCE,
            "trainer.ensemble.kind": TeacherKind.NETWORK,
            **as_changes("trainer.ensemble.network", network),
            "trainer.student.kind": student,
            **as_changes("trainer.student.network", network),
            "trainer.student.fixmatch.model": ModelName.FAST_CNN,
            "trainer.student.fixmatch.width": _SMALL_WIDTH,
            "trainer.student.fixmatch.epochs": 30,
            "trainer.student.fixmatch.steps_per_epoch": 78,
            "trainer.student.fixmatch.weak_branch": WeakBranch.WITHOUT_GRADIENT,
        },
        resources=Resources(),
        teacher=Resources(),
    )


def levels(
    keys: Sequence[str],
    rows: Mapping[str, Sequence[float]],
    shared: Mapping[str, Any] | None = None,
) -> tuple[Variant, ...]:
    """Return a line for each row of a paper's table, with values in the order of `keys`.

    All lines have the settings `shared`.
    """
    return tuple(
        Variant(name=name, changes={**(shared or {}), **dict(zip(keys, values, strict=True))})
        for name, values in rows.items()
    )


def on_fast_network(
    lines: Sequence[Variant], *, epochs: int, **changes: Any
) -> tuple[Variant, ...]:
    """Return lines without the rate and decay that are another network's, for a preset."""
    own = {"trainer.epochs": epochs, **changes}
    found = []
    for line in lines:
        kept = {key: value for key, value in line.changes.items() if key not in ALIBI_KEYS[1:]}
        found.append(replace(line, changes={**kept, **own}, space={}))
    return tuple(found)


def agibi(
    rows: Mapping[str, Sequence[float]], epsilons: Mapping[str, float]
) -> tuple[Variant, ...]:
    """Return lines of Gaussian noise at other epsilons, otherwise as ALIBI's rows of a table."""
    own = {f"AGIBI {name}": (epsilon, *rows[name][1:]) for name, epsilon in epsilons.items()}
    return levels(ALIBI_KEYS, own, {"trainer.noise": Noise.GAUSSIAN})


#: Columns of Table 3 of Malek et al., "Antipodes of Label DP", NeurIPS 2021: T, sigma1 of the
#: check, sigma2 of the answers, tau, K; and before them the most queries that are checked: enough
#: for the answers, where about half of them pass.
TABLE_3 = (
    "trainer.ensemble.queries",
    "trainer.ensemble.teachers",
    "trainer.sigma1",
    "trainer.sigma2",
    "trainer.threshold",
    "trainer.answers",
)
_TINY: Mapping[str, Any] = {
    "model": ModelName.SMALL_CNN,
    "width": 8,
    "epochs": 1,
    "steps_per_epoch": 2,
    "batch_size": 16,
    "unlabeled_ratio": 2,
}
#: PATE-FM on 300 images, four teachers of a small CNN, two steps.
_FIXMATCH_SMOKE = Preset(
    changes={
        "data.limit": 300,
        "audit.canaries": 100,
        "trainer.ensemble.teachers": 4,
        "trainer.ensemble.queries": 100,
        "trainer.answers": 20,
        "trainer.students": 1,
        **{
            f"trainer.{role}.fixmatch.{key}": value
            for role in ("ensemble", "student")
            for key, value in _TINY.items()
        },
        "performance.precision": Precision.FP32,
        "performance.channels_last": False,
    },
)


def pate_fm(
    data: str,
    rows: Mapping[str, Sequence[float]],
    *,
    teacher: FixMatchConfig,
    student: FixMatchConfig,
) -> Sweep:
    """Return the sweep of PATE-FM on a data set at levels of `TABLE_3`, in bfloat16 on GPUs."""
    return Sweep(
        name=f"pate_fm_{data}",
        base=TrialConfig(
            method="pate",
            data=DataSettings(name=data),
            audit=AuditSettings(canaries=1000, coin_canaries=100),
            trainer=PateConfig(
                ensemble=EnsembleConfig(kind=TeacherKind.FIXMATCH, fixmatch=teacher),
                student=StudentConfig(kind=StudentKind.FIXMATCH, fixmatch=student),
            ),
            performance=Performance(precision=Precision.AUTO, channels_last=True),
        ),
        variants=levels(TABLE_3, rows),
        resources=Resources(gpu=1),
        teacher=Resources(gpu=1),
        needs_gpu=True,
        smoke=_FIXMATCH_SMOKE,
        presets={
            "paper": Preset(needs_gpu=True),
            "network": pate_preset(StudentKind.FIXMATCH),
            "home": pate_preset(),
        },
    )


#: Of a student where classes overlap: the release counts in full, and every prediction teaches as
#: far as it is sure. Chosen by test accuracy on one partition of Fashion-MNIST.
OVERLAPPING: Mapping[str, Any] = {
    "epochs": 6,
    "power": 1.0,
    "threshold": 0.0,
    "last_threshold": 0.0,
    "labeled_weight": 0.1,
}


def nearest_labels(epsilon: float, *, labels: int, queries: int) -> Variant:
    """Return PATE whose voters are the labels nearest to a query, at a price for any votes.

    A label votes once, so that noise is of a few votes. `labels` vote on each of the `queries`.
    """
    return Variant(
        name=f"nearest labels, epsilon {epsilon:g}",
        changes={
            "trainer.ensemble.kind": TeacherKind.NEIGHBORS,
            "trainer.ensemble.teachers": labels,
            "trainer.ensemble.queries_per_label": 1,
            "trainer.ensemble.queries": queries,
            "trainer.answers": queries,
            "trainer.aggregator": AggregatorKind.GNMAX,
            "trainer.threshold": None,
            "trainer.sigma1": None,
            "trainer.sigma2": None,
            "trainer.epsilon": epsilon,
        },
    )


#: The published setting of 250 teachers (Papernot et al., "Scalable Private Learning with PATE",
#: ICLR 2018, Table 1), and nearest labels, about five standard deviations of the noise of them.
VARIANTS = (
    Variant(
        name="T=250", changes=dict(zip(TABLE_3, (640, 250, 150.0, 40.0, 200.0, 286), strict=True))
    ),
    nearest_labels(1.0, labels=25, queries=2200),
    nearest_labels(0.1, labels=170, queries=340),
)


def pate_on_images(data: str, student: SemiSupervisedConfig) -> Sweep:
    """Return the sweep of PATE with smooth teachers on features of images, and a student of images.

    `--smoke` has one line and 2,000 images, of scikit-learn's digits where the data set is missing.
    """
    features: Mapping[str, Any] = {"features": FeatureSet.PATCHES}
    return Sweep(
        name=f"pate_{data}",
        base=TrialConfig(
            method="pate",
            data=DataSettings(name=data),
            audit=AuditSettings(canaries=1000, coin_canaries=100),
            trainer=PateConfig(
                ensemble=EnsembleConfig(kind=TeacherKind.SMOOTH, ridge=0.01, **features),
                student=StudentConfig(
                    kind=StudentKind.SEMI_SUPERVISED, semi_supervised=student, **features
                ),
                students=1,
            ),
            performance=Performance(precision=Precision.AUTO, channels_last=True),
        ),
        variants=VARIANTS,
        space={"trainer.ensemble.seed": Grid(0, 1, 2)},
        smoke=Preset(
            changes={
                "data.name": data if find(data).available(data_root(None)) else "digits",
                "data.limit": 2000,
                "audit.canaries": 100,
                "trainer.ensemble.queries": 400,
                "trainer.answers": 100,
                "trainer.student.semi_supervised.batch_size": 16,
                "trainer.student.semi_supervised.epochs": 5,
                "trainer.student.semi_supervised.padding": 1,
                "trainer.student.semi_supervised.box": 2,
            },
            variants=VARIANTS[:1],
            space={"trainer.ensemble.seed": Grid(0)},
        ),
    )
