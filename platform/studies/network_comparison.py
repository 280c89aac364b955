"""`--preset network` of comparisons on photographs: the fast network in place of features.

The network sees the images, at half width. Its moment labels and moment priors are learned of
label-free features all the same (`trainer.prior.features`): what is smooth in pixels tells little
of things. Lines stand in the order of their worth, so that a run that is stopped has the best of
them. One seed each, but three for moment labels, the line that small epsilons are for.

>>> [line.name for line in network_comparison().variants][:3]
['moment labels', 'ALIBI', 'ALIBI + moment prior']
"""

from dataclasses import replace
from typing import Any

from labeldp.platform.configuration import FeatureSet
from labeldp.platform.space import Grid
from labeldp.platform.studies.home_preset import EPOCHS, network_preset
from labeldp.platform.sweep import Preset, Variant
from labeldp.trainers.priors import PriorSource
from labeldp.trainers.settings.noise import Noise

#: Repetitions of moment labels.
REPETITIONS = 3
#: Where all that is known of labels is a prior, and where single labels tell more.
_FEW, _MANY = (0.5, 1.0), (1.0, 2.0, 4.0)
_MOMENTS = {
    "trainer.prior.source": PriorSource.MOMENTS,
    "trainer.prior.features": FeatureSet.RANDOM_PATCHES,
}


def network_comparison() -> Preset:
    """Return the preset; whatever the sweep's own lines and features are."""
    labels = _line("moment labels", "prior_labels", _FEW, **_MOMENTS)
    share = {"trainer.prior.share": 0.8}
    two_stages = {"trainer.stages": 2, "trainer.epochs": 2 * EPOCHS}
    return network_preset(
        {"data.features": FeatureSet.AS_THEY_ARE},
        variants=(
            labels,
            _line("ALIBI", "alibi", _MANY),
            _line("ALIBI + moment prior", "alibi_prior", _MANY, **_MOMENTS, **share),
            _line("LP-2ST", "lp_mst", _MANY, **two_stages),
            _without_noise(),
            *(_repeated(labels, repetition) for repetition in range(1, REPETITIONS)),
        ),
    )


def _line(name: str, key: str, epsilons: tuple[float, ...], **settings: Any) -> Variant:
    """A line of the comparison, of the method of this key."""
    return Variant(
        name=name,
        changes={"method": key, "trainer.epochs": EPOCHS, **settings},
        space={"trainer.epsilon": Grid(*epsilons)},
    )


def _without_noise() -> Variant:
    return Variant(
        name="no privacy",
        changes={"method": "alibi", "trainer.epochs": EPOCHS, "trainer.noise": Noise.NONE},
    )


def _repeated(line: Variant, repetition: int) -> Variant:
    own = {"seed": repetition, "noise.draw": repetition}
    return replace(line, changes={**line.changes, **own})
