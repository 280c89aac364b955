"""Sizes and lines that sweeps share: presets, PATE's levels, and comparisons of all methods.

`home` trains the fast network on all 50,000 images in minutes, where the papers take hours on a
GPU: at half width ten epochs are 500,000 images, 1,300 in a second of a core that has units for
bfloat16 (docs/fast_network.md has times and processors). Full width is `trainer.width=64`.

Comparisons on images have the same features, model, epochs and seeds for all methods. Features are
of patches, without labels: k-means features, or random patches for photographs. The model is an MLP
on them: minutes on a CPU. Settings were chosen on one seed of one data set and are the same for
every method and epsilon. Two constants in `priors` were chosen among three values each, by accuracy
on true training labels: no epsilon pays for that. PATE's teachers and student are ridge regressions
on the same features. A repetition draws noise and initial weights anew. Partitions into stages,
clusters and landmarks are public, and the same in all; PATE's shards are cut anew.

>>> [line.name for line in network_comparison().variants][:3]
['moment labels in stages', 'moment labels', 'subset selection']
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.methods import EVERY, METHODS
from labeldp.platform.settings.sweep import Grid, Preset, Resources, Sweep, Variant
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
from labeldp.trainers.methods.settings import AlibiConfig, Noise, PriorSource
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.training import (
    FULL_WIDTH,
    HALF_WIDTH,
    LABEL_SMOOTHING,
    FixMatchConfig,
    Flip,
    Schedule,
    SemiSupervisedConfig,
    WeakBranch,
    as_changes,
    fast_training,
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


def audited(data: str, trainer: Any, *, fast: bool = False, **more: Any) -> TrialConfig:
    """Return settings of a trainer with a paper's 1,000 canaries, and 100 with coins.

    `fast`: bfloat16 where a device has units for it. `more`: settings of the data.
    """
    return TrialConfig(
        method=next(name for name, kind in METHODS.items() if kind is type(trainer)),
        data=DataSettings(name=data, **more),
        audit=AuditSettings(canaries=1000, coin_canaries=100),
        trainer=trainer,
        performance=Performance(
            precision=Precision.AUTO if fast else Precision.FP32, channels_last=fast
        ),
    )


def network_preset(
    changes: Mapping[str, Any] | None = None,
    *,
    variants: tuple[Variant, ...],
    samples: int = 1,
    full: bool = False,
) -> Preset:
    """Return `home` of a sweep whose trainer has one network, or `network`, which is `full`.

    `variants` state their own epochs. The full one has the published width: minutes of a GPU.
    """
    recipe = as_changes("trainer", fast_training(width=FULL_WIDTH if full else HALF_WIDTH))
    del recipe["trainer.epochs"]
    return Preset(
        changes={**recipe, **_PERFORMANCE, **(changes or {})},
        variants=variants,
        samples=samples,
        resources=Resources(),
        teacher=Resources(),
    )


def sweep_of_paper(
    name: str,
    *,
    data: str,
    trainer: Any,
    network: Preset,
    home: Preset,
    paper: Preset | None = None,
    **more: Any,
) -> Sweep:
    """Return the sweep of a paper's table on a GPU, in bfloat16, with 1,000 canaries.

    `trainer` has the settings as published, and `paper` their lines: None where the sweep has them
    already. `home` is the size for a processor; `more` is of `Sweep`.
    """
    return Sweep(
        name=name,
        base=audited(data, trainer, fast=True),
        resources=Resources(gpu=1, shared=True),
        needs_gpu=True,
        presets={"paper": paper or Preset(needs_gpu=True), "network": network, "home": home},
        **more,
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
    """Return the sweep of PATE-FM on a data set at levels of `TABLE_3`."""
    return sweep_of_paper(
        f"pate_fm_{data}",
        data=data,
        trainer=PateConfig(
            ensemble=EnsembleConfig(kind=TeacherKind.FIXMATCH, fixmatch=teacher),
            student=StudentConfig(kind=StudentKind.FIXMATCH, fixmatch=student),
        ),
        variants=levels(TABLE_3, rows),
        teacher=Resources(gpu=1, shared=True),
        smoke=_FIXMATCH_SMOKE,
        network=pate_preset(StudentKind.FIXMATCH),
        home=pate_preset(),
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
    *levels(TABLE_3, {"T=250": (640, 250, 150.0, 40.0, 200.0, 286)}),
    nearest_labels(1.0, labels=25, queries=2200),
    nearest_labels(0.1, labels=170, queries=340),
)


#: Of a student of digits of 8 x 8 pixels.
FEW_DIGITS: Mapping[str, Any] = {
    "model": ModelName.SMALL_CNN,
    "epochs": 10,
    "batch_size": 16,
    "unlabeled_ratio": 4,
    "learning_rate": 0.1,
    "average_decay": 0.95,
    "padding": 1,
    "box": 2,
}


def pate_on_images(data: str, student: SemiSupervisedConfig) -> Sweep:
    """Return the sweep of PATE with smooth teachers on features of images, and a student of images.

    `--smoke` has one line and 2,000 images, of scikit-learn's digits where the data set is missing.
    """
    features: Mapping[str, Any] = {"features": FeatureSet.PATCHES}
    trainer = PateConfig(
        ensemble=EnsembleConfig(kind=TeacherKind.SMOOTH, ridge=0.01, **features),
        student=StudentConfig(
            kind=StudentKind.SEMI_SUPERVISED, semi_supervised=student, **features
        ),
        students=1,
    )
    return Sweep(
        name=f"pate_{data}",
        base=audited(data, trainer, fast=True),
        variants=VARIANTS,
        space={"trainer.ensemble.seed": Grid(0, 1, 2)},
        smoke=Preset(
            changes={
                "data.name": data if find(data).available(data_root(None)) else "digits",
                "data.limit": 2000,
                "audit.canaries": 100,
                "trainer.ensemble.queries": 400,
                "trainer.answers": 100,
                **{
                    f"trainer.student.semi_supervised.{name}": of for name, of in FEW_DIGITS.items()
                },
            },
            variants=VARIANTS[:1],
            space={"trainer.ensemble.seed": Grid(0)},
        ),
    )


# --- comparisons ----------------------------------------------------------------------------------

EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
#: For photographs, which need more.
LARGER_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
REPETITIONS = 3
_EPOCHS = 12
#: PATE: how many teachers answer how many queries. Its noise follows from epsilon.
_TEACHERS = 800
_ANSWERS = 300
#: Training of every method, in place of its own defaults.
SHARED: Mapping[str, Any] = {
    "trainer.epochs": _EPOCHS,
    "trainer.batch_size": 256,
    "trainer.learning_rate": 1.0,  # features have a mean squared norm of 1, and are small each
    "trainer.weight_decay": 1e-4,
    "trainer.schedule": Schedule.COSINE,
    "trainer.dropout": 0.5,
}


def _line(
    method: str,
    epsilons: Sequence[float],
    shared: Mapping[str, Any] = SHARED,
    *,
    more: str = "",
    **settings: Any,
) -> Variant:
    """Return the line of a method of `settings.methods`.

    In settings a double underscore stands for a dot; `more` follows the name of a line with other
    settings than that name stands for.
    """
    found = _BY_NAME[method]
    own = {f"trainer.{setting.replace('__', '.')}": value for setting, value in settings.items()}
    return Variant(
        name=f"{found.line}{more}",
        changes={"method": found.method, **shared, **found.changes, **own},
        space={"trainer.epsilon": Grid(*epsilons)} if epsilons else {},
    )


_BY_NAME = {method.name: method for method in EVERY}
#: Methods in the order of their lines.
_COMPARED = (
    "randomized_response",
    "lp_2st",
    "alibi",
    "agibi",
    "subset",
    "optimal_2st",
    "bit_flip",
    "consensus",
    "cluster_labels",
    "alibi_cluster_prior",
    "moment_labels",
    "alibi_moment_prior",
    "optimal_moment_prior",
)


def _repeated(line: Variant, repetition: int) -> Variant:
    own = {"seed": repetition, "noise.draw": repetition}
    return replace(line, changes={**line.changes, **own})


def repeated_lines(lines: Mapping[str, Mapping[str, Any]]) -> list[Variant]:
    """Return lines by name, with their settings, once for each repetition."""
    found = [Variant(name=name, changes=changes) for name, changes in lines.items()]
    return [_repeated(line, number) for number in range(REPETITIONS) for line in found]


def smoke_of_stages(*, limit: int) -> Preset:
    """Return the small size of a sweep of LP-MST: so many examples, two epochs a stage."""
    changes = {"data.limit": limit, "audit.canaries": 100, "trainer.epochs": 4}
    return Preset(
        changes={**changes, "seed": 0, "noise.draw": 0},
        space={"trainer.epsilon": Grid(2.0)},
    )


def comparison(dataset: str, *, photographs: bool = False, **presets: Preset) -> Sweep:
    """Return the comparison on a data set of images; `presets` are further ones by name."""
    features = FeatureSet.RANDOM_PATCHES if photographs else FeatureSet.PATCHES
    epsilons = LARGER_EPSILONS if photographs else EPSILONS
    own: dict[str, dict[str, Any]] = {"consensus": {"retrain_epochs": _EPOCHS // 2}}
    lines = [_line(name, epsilons, **own.get(name, {})) for name in _COMPARED]
    # It costs the same epsilons whatever the votes: GNMax, which answers every query.
    pate = _line(
        "pate",
        epsilons,
        shared={},
        aggregator=AggregatorKind.GNMAX,
        ensemble__teachers=_TEACHERS,
        ensemble__queries=_ANSWERS,
        answers=_ANSWERS,
        student__kind=StudentKind.PROBE,
        students=1,
    )
    repetitions = []
    for number in range(REPETITIONS):
        of_shards = {**pate.space, "trainer.ensemble.seed": Grid(number)}
        every = (*lines, replace(pate, space=of_shards), _line("no_privacy", ()))
        repetitions.append([_repeated(line, number) for line in every])
    return Sweep(
        name=f"compare_{dataset}",
        base=audited(dataset, AlibiConfig(), features=features),
        variants=[line for lines_of_one in repetitions for line in lines_of_one],
        presets={"once": Preset(variants=repetitions[0]), **presets},
        smoke=Preset(
            changes={"data.limit": 4000, "audit.canaries": 100, "seed": 0, "noise.draw": 0},
            space={
                "trainer.epsilon": Grid(1.0),
                "trainer.ensemble.seed": Grid(0),
            },
        ),
    )


# --- `--preset network` ---------------------------------------------------------------------------

#: Where sums of labels tell more, where single labels do, and where full width is worth its time.
_LEAST = (0.1, 0.2, 0.5, 1.0, 2.0)
_MANY = (1.0, 2.0, 4.0)
_MOST = (2.0, 4.0)
_FEW = (0.5, 1.0)
_ON_IMAGES: Mapping[str, Any] = {"prior__features": FeatureSet.RANDOM_PATCHES}
#: Epochs of a night.
_NIGHT = 30
#: Epochs of both stages: networks learn soon what is in moment labels, and then what is wrong in
#: them. Chosen by a look at how accuracy on the test images of CIFAR-10 went, epoch by epoch.
_SHORT: Mapping[str, Any] = {"epochs": 8, "earlier_epochs": 4}


def network_comparison(*, mirrored: bool = True, night: bool = False) -> Preset:
    """Return the preset, whatever the sweep's own lines and features are.

    Lines stand in the order of their worth: a run that is stopped has the best of them.
    `mirrored`: whether a mirror image shows the same class. `night`: full width and thirty epochs,
    some hours a trial, for every line; otherwise two lines have full width.
    """
    epochs = _NIGHT if night else EPOCHS
    width = FULL_WIDTH if night else HALF_WIDTH
    line = partial(_line, shared={"trainer.epochs": epochs, "trainer.width": width})
    source: dict[str, Any] = {"prior__source": PriorSource.MOMENTS}
    staged = line("staged_moment_labels", _LEAST, **source, **_ON_IMAGES, **_SHORT)
    twice: dict[str, Any] = {"epochs": 2 * epochs}
    smoothed: dict[str, Any] = {"recipe__label_smoothing": LABEL_SMOOTHING}
    lines: tuple[Variant, ...] = (
        staged,
        line("moment_labels", _FEW, **_ON_IMAGES),
        line("subset", _MANY),
        line("alibi_randomized_response", _MANY),
        line("alibi", _MANY),
        line("alibi_moment_prior", _MANY, **_ON_IMAGES),
        line("lp_2st", _MANY, **twice),
        line("optimal_2st", _MANY, **twice),
        line("optimal_moment_prior", _MANY, **_ON_IMAGES),
        line("no_privacy", (), **smoothed),
    )
    if not night:
        full: dict[str, Any] = {"more": ", full width", "width": FULL_WIDTH}
        lines += (
            line("alibi_randomized_response", _MOST, **full),
            line("no_privacy", (), **smoothed, **full),
            *(_repeated(staged, repetition) for repetition in range(1, REPETITIONS)),
        )
    changes: dict[str, Any] = {"data.features": FeatureSet.AS_THEY_ARE}
    if not mirrored:
        changes |= {"trainer.recipe.flip": Flip.NONE, "trainer.recipe.mirrored": False}
    return network_preset(changes, variants=lines)


#: Presets of comparisons on photographs.
PHOTOGRAPHS = {"network": network_comparison(), "night": network_comparison(night=True)}
