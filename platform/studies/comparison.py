"""One comparison of methods for any set of images: same features, model, epochs and seeds for all.

Features are of patches, and no label goes into them: k-means features, or, of photographs, random
patches. The model is an MLP on them: minutes on a CPU, and differences that come from the methods
alone. Settings were looked at on one
seed of one data set, coarsely, and are the same for every method and epsilon. So were, among three
values each, two constants in `priors`, by accuracy on true training labels: no epsilon pays
for that. PATE has teachers and a student of its own: ridge regressions on the same features.

A repetition draws noise and initial weights anew. Partitions into stages, clusters and landmarks
are public, and the same in all; PATE's shards are cut anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labeldp.platform.sweep.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import Preset, Smoke, Sweep, Variant
from labeldp.trainers.models.schedules import Schedule
from labeldp.trainers.settings.base import FeatureSet
from labeldp.trainers.settings.methods import AlibiConfig, Noise, PriorSource
from labeldp.trainers.settings.pate import AggregatorKind, StudentKind

EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
#: For photographs, which need more.
LARGER_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
REPETITIONS = 3
_EPOCHS = 12
#: PATE: how many teachers answer how many queries. Its noise follows from epsilon.
_TEACHERS, _ANSWERS = 800, 300
#: How every method trains; a method brings its own defaults, so that each is told.
SHARED: Mapping[str, Any] = {
    "trainer.epochs": _EPOCHS,
    "trainer.batch_size": 256,
    "trainer.learning_rate": 1.0,  # features have a mean squared norm of 1, and are small each
    "trainer.weight_decay": 1e-4,
    "trainer.schedule": Schedule.COSINE,
    "trainer.dropout": 0.5,
}


def method(name: str, key: str, **settings: Any) -> Variant:
    """Return a line of the comparison.

    Args:
        name: As it is shown.
        key: Of the method.
        **settings: Of its trainer; a double underscore stands for a dot.
    """
    own = {f"trainer.{setting.replace('__', '.')}": value for setting, value in settings.items()}
    return Variant(
        name=name,
        changes={"method": key, **SHARED, **own},
        space={"trainer.epsilon": Grid(*EPSILONS)},
    )


_CLUSTERS: Mapping[str, Any] = {"prior__source": PriorSource.CLUSTERS}
_MOMENTS: Mapping[str, Any] = {"prior__source": PriorSource.MOMENTS}

METHOD_LINES = (
    method("RR", "lp_mst", stages=1),
    method("LP-2ST", "lp_mst", stages=2),
    method("ALIBI", "alibi"),
    method("AGIBI", "alibi", noise=Noise.GAUSSIAN),
    method("BitFlip", "bit_flip"),
    method("ALIBI, consensus", "consensus", retrain_epochs=_EPOCHS // 2),
    method("cluster labels", "prior_labels", **_CLUSTERS, prior__clusters=200),
    method("ALIBI + cluster prior", "alibi_prior", **_CLUSTERS, prior__most_epsilon=0.3),
    method("moment labels", "prior_labels", **_MOMENTS),
    method("ALIBI + moment prior", "alibi_prior", **_MOMENTS, prior__share=0.8),
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
    """Return the comparison on a data set of images.

    Args:
        name: Of the sweep.
        dataset: Name of the data set.
        features: What all methods see of it.
        epsilons: At which methods are compared.
        presets: Other sizes, or other models, beside `once`: one repetition of every trial.
    """
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
        smoke=Smoke(
            changes={"data.limit": 4000, "audit.canaries": 100, "seed": 0, "noise.draw": 0},
            space={
                "trainer.epsilon": Grid(1.0),
                "trainer.ensemble.seed": Grid(0),
            },
        ),
    )
