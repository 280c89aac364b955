"""Comparisons of methods on images: the same features, model, epochs and seeds for all.

Features are of patches, without labels: k-means features, or random patches for photographs. The
model is an MLP on them: minutes on a CPU. Settings were chosen on one seed of one data set and are
the same for every method and epsilon. Two constants in `priors` were chosen among three values
each, by accuracy on true training labels: no epsilon pays for that. PATE's teachers and student are
ridge regressions on the same features.

A repetition draws noise and initial weights anew. Partitions into stages, clusters and landmarks
are public, and the same in all; PATE's shards are cut anew.

`--preset network` trains the fast network on the images, at half width but for two lines. Lines
stand in the order of their worth, so that a run that is stopped has the best of them.

>>> [line.name for line in network_comparison().variants][:3]
['moment labels in stages', 'moment labels', 'subset selection']
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labeldp.platform.studies.cifar_sizes import EPOCHS as NETWORK_EPOCHS
from labeldp.platform.studies.cifar_sizes import network_preset
from labeldp.platform.sweep.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import Preset, Sweep, Variant
from labeldp.trainers.models.schedules import FULL_WIDTH, LABEL_SMOOTHING, Schedule
from labeldp.trainers.settings.base import FeatureSet
from labeldp.trainers.settings.methods import AlibiConfig, Noise, PriorSource, Randomizer
from labeldp.trainers.settings.pate import AggregatorKind, StudentKind

EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
#: For photographs, which need more.
LARGER_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
REPETITIONS = 3
_EPOCHS = 12
#: PATE: how many teachers answer how many queries. Its noise follows from epsilon.
_TEACHERS, _ANSWERS = 800, 300
#: Training of every method, in place of its own defaults.
SHARED: Mapping[str, Any] = {
    "trainer.epochs": _EPOCHS,
    "trainer.batch_size": 256,
    "trainer.learning_rate": 1.0,  # features have a mean squared norm of 1, and are small each
    "trainer.weight_decay": 1e-4,
    "trainer.schedule": Schedule.COSINE,
    "trainer.dropout": 0.5,
}


def _method(name: str, key: str, **settings: Any) -> Variant:
    """Return a line of the method `key`; in settings a double underscore stands for a dot."""
    own = {f"trainer.{setting.replace('__', '.')}": value for setting, value in settings.items()}
    return Variant(
        name=name,
        changes={"method": key, **SHARED, **own},
        space={"trainer.epsilon": Grid(*EPSILONS)},
    )


_CLUSTERS: Mapping[str, Any] = {"prior__source": PriorSource.CLUSTERS}
_MOMENTS: Mapping[str, Any] = {"prior__source": PriorSource.MOMENTS}
_OPTIMAL: Mapping[str, Any] = {"stages": 2, "randomizer": Randomizer.OPTIMAL, "temperature": 1.0}

METHOD_LINES = (
    _method("RR", "lp_mst", stages=1),
    _method("LP-2ST", "lp_mst", stages=2),
    _method("ALIBI", "alibi"),
    _method("AGIBI", "alibi", noise=Noise.GAUSSIAN),
    _method("subset selection", "alibi", noise=Noise.SUBSET),
    _method("optimal channels in 2 stages", "lp_mst", **_OPTIMAL),
    _method("BitFlip", "bit_flip"),
    _method("ALIBI, consensus", "consensus", retrain_epochs=_EPOCHS // 2),
    _method("cluster labels", "prior_labels", **_CLUSTERS, prior__clusters=200),
    _method("ALIBI + cluster prior", "alibi_prior", **_CLUSTERS, prior__most_epsilon=0.3),
    _method("moment labels", "prior_labels", **_MOMENTS),
    _method("ALIBI + moment prior", "alibi_prior", **_MOMENTS, prior__share=0.8),
    _method("moment prior + optimal channel", "alibi_prior", **_MOMENTS, noise=Noise.OPTIMAL),
)

NO_PRIVACY = Variant(
    name="no privacy", changes={"method": "alibi", **SHARED, "trainer.noise": Noise.NONE}
)


def _pate(repetition: int, epsilons: Sequence[float]) -> Variant:
    """PATE that costs the same epsilons whatever the votes: GNMax, which answers every query."""
    return Variant(
        name="PATE with probes",
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


def comparison(
    name: str,
    *,
    dataset: str,
    features: FeatureSet = FeatureSet.PATCHES,
    epsilons: Sequence[float] = EPSILONS,
    presets: Mapping[str, Preset] | None = None,
) -> Sweep:
    """Return the comparison on a data set of images."""
    at = {"trainer.epsilon": Grid(*epsilons)}
    lines = [replace(line, space=at) for line in METHOD_LINES]
    repetitions = [
        [_repeated(line, number) for line in (*lines, _pate(number, epsilons), NO_PRIVACY)]
        for number in range(REPETITIONS)
    ]
    return Sweep(
        name=name,
        base=TrialConfig(
            data=DataSettings(name=dataset, features=features),
            audit=AuditSettings(canaries=1000, coin_canaries=100),
            trainer=AlibiConfig(),
        ),
        variants=[line for lines_of_one in repetitions for line in lines_of_one],
        presets={"once": Preset(variants=repetitions[0]), **(presets or {})},
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
_LEAST, _MANY, _MOST = (0.1, 0.2, 0.5, 1.0, 2.0), (1.0, 2.0, 4.0), (2.0, 4.0)
_FEW = (0.5, 1.0)
_ON_IMAGES = {
    "trainer.prior.source": PriorSource.MOMENTS,
    "trainer.prior.features": FeatureSet.RANDOM_PATCHES,
}
#: Epochs of both stages: networks learn soon what is in moment labels, and then what is wrong in
#: them. Chosen by a look at how accuracy on the test images of CIFAR-10 went, epoch by epoch.
_SHORT = {"trainer.epochs": 8, "trainer.earlier_epochs": 4}


def network_comparison() -> Preset:
    """Return the preset, whatever the sweep's own lines and features are."""
    staged = _line("moment labels in stages", "staged_moments", _LEAST, **_ON_IMAGES, **_SHORT)
    share, full = {"trainer.prior.share": 0.8}, {"trainer.width": FULL_WIDTH}
    response = {"trainer.noise": Noise.RANDOMIZED_RESPONSE}
    two_stages = {"trainer.stages": 2, "trainer.epochs": 2 * NETWORK_EPOCHS}
    optimal = {f"trainer.{key}": value for key, value in _OPTIMAL.items()}
    bare = {"trainer.noise": Noise.NONE, "trainer.recipe.label_smoothing": LABEL_SMOOTHING}
    return network_preset(
        {"data.features": FeatureSet.AS_THEY_ARE},
        variants=(
            staged,
            _line("moment labels", "prior_labels", _FEW, **_ON_IMAGES),
            _line("subset selection", "alibi", _MANY, **{"trainer.noise": Noise.SUBSET}),
            _line("ALIBI, randomized response", "alibi", _MANY, **response),
            _line("ALIBI", "alibi", _MANY),
            _line("ALIBI + moment prior", "alibi_prior", _MANY, **_ON_IMAGES, **share),
            _line("LP-2ST", "lp_mst", _MANY, **two_stages),
            _line("optimal channels in 2 stages", "lp_mst", _MANY, **(two_stages | optimal)),
            _line(
                "moment prior + optimal channel",
                "alibi_prior",
                _MANY,
                **_ON_IMAGES,
                **{"trainer.noise": Noise.OPTIMAL},
            ),
            _line("no privacy", "alibi", (), **bare),
            _line("ALIBI, randomized response, full width", "alibi", _MOST, **response, **full),
            _line("no privacy, full width", "alibi", (), **bare, **full),
            *(_repeated(staged, repetition) for repetition in range(1, REPETITIONS)),
        ),
    )


def _line(name: str, key: str, epsilons: tuple[float, ...], **settings: Any) -> Variant:
    return Variant(
        name=name,
        changes={"method": key, "trainer.epochs": NETWORK_EPOCHS, **settings},
        space={"trainer.epsilon": Grid(*epsilons)} if epsilons else {},
    )
