"""Comparisons of methods on images: the same features, model, epochs and seeds for all.

Features are of patches, without labels: k-means features, or random patches for photographs. The
model is an MLP on them: minutes on a CPU. Settings were chosen on one seed of one data set and are
the same for every method and epsilon. Two constants in `priors` were chosen among three values
each, by accuracy on true training labels: no epsilon pays for that. PATE's teachers and student are
ridge regressions on the same features.

A repetition draws noise and initial weights anew. Partitions into stages, clusters and landmarks
are public, and the same in all; PATE's shards are cut anew.

`--preset network` trains the fast network on the images, at half width but for two lines, and
`--preset night` at full width for three times as long. Lines stand in the order of their worth, so
that a run that is stopped has the best of them.

>>> [line.name for line in network_comparison().variants][:3]
['moment labels in stages', 'moment labels', 'subset selection']
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from labeldp.platform.settings.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.settings.methods import EVERY
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.platform.studies.presets import EPOCHS as NETWORK_EPOCHS
from labeldp.platform.studies.presets import network_preset
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.methods.pate_settings import AggregatorKind, StudentKind
from labeldp.trainers.methods.settings import AlibiConfig, PriorSource
from labeldp.trainers.settings.training import (
    FULL_WIDTH,
    HALF_WIDTH,
    LABEL_SMOOTHING,
    Flip,
    Schedule,
)

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
    epsilons: Sequence[float] = EPSILONS,
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
_OWN: Mapping[str, Any] = {"consensus": {"retrain_epochs": _EPOCHS // 2}}
METHOD_LINES = tuple(
    _line(name, **_OWN.get(name, {}))
    for name in (
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
)

NO_PRIVACY = _line("no_privacy", ())


def _pate(repetition: int, epsilons: Sequence[float]) -> Variant:
    """PATE that costs the same epsilons whatever the votes: GNMax, which answers every query."""
    return Variant(
        name=_BY_NAME["pate"].line,
        changes={
            "method": "pate",
            "trainer.aggregator": AggregatorKind.GNMAX,
            "trainer.ensemble.teachers": _TEACHERS,
            "trainer.ensemble.queries": _ANSWERS,
            "trainer.answers": _ANSWERS,
            "trainer.student.kind": StudentKind.PROBE,
            "trainer.students": 1,
        },
        space={
            "trainer.epsilon": Grid(*epsilons),
            "trainer.ensemble.seed": Grid(repetition),
        },
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
    at = {"trainer.epsilon": Grid(*epsilons)}
    lines = [replace(line, space=at) for line in METHOD_LINES]
    repetitions = [
        [_repeated(line, number) for line in (*lines, _pate(number, epsilons), NO_PRIVACY)]
        for number in range(REPETITIONS)
    ]
    return Sweep(
        name=f"compare_{dataset}",
        base=TrialConfig(
            data=DataSettings(name=dataset, features=features),
            audit=AuditSettings(canaries=1000, coin_canaries=100),
            trainer=AlibiConfig(),
        ),
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

    `mirrored`: whether a mirror image shows the same class. `night`: full width and thirty epochs,
    some hours a trial, for every line.
    """
    epochs = _NIGHT if night else NETWORK_EPOCHS
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
