"""`--preset network` of comparisons on photographs: the fast network in place of features.

The network sees the images, at half width. Its moment labels and moment priors are learned of
label-free features all the same (`trainer.prior.features`): what is smooth in pixels tells little
of things. Lines stand in the order of their worth, so that a run that is stopped has the best of
them. One seed each, but three for moment labels in stages, the line that small epsilons are for;
at half width, but for two lines that tell what full width is worth.

>>> [line.name for line in network_comparison().variants][:3]
['moment labels in stages', 'moment labels', 'ALIBI, randomized response']
"""

from dataclasses import replace
from typing import Any

from labeldp.platform.studies.home_preset import EPOCHS, network_preset
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import Preset, Variant
from labeldp.trainers.models.schedules import FULL_WIDTH, LABEL_SMOOTHING
from labeldp.trainers.settings.base import FeatureSet
from labeldp.trainers.settings.methods import Noise, PriorSource

#: Repetitions of moment labels in stages.
REPETITIONS = 3
#: Where sums of labels tell more, where single labels do, and where full width is worth its time.
_LEAST, _MANY, _MOST = (0.1, 0.2, 0.5, 1.0, 2.0), (1.0, 2.0, 4.0), (2.0, 4.0)
_FEW = (0.5, 1.0)
_MOMENTS = {
    "trainer.prior.source": PriorSource.MOMENTS,
    "trainer.prior.features": FeatureSet.RANDOM_PATCHES,
}
#: Epochs of both stages: networks learn soon what is in moment labels, and then what is wrong in
#: them. Chosen by a look at how accuracy on the test images of CIFAR-10 went, epoch by epoch.
_SHORT = {"trainer.epochs": 8, "trainer.earlier_epochs": 4}


def network_comparison() -> Preset:
    """Return the preset, whatever the sweep's own lines and features are."""
    staged = _line("moment labels in stages", "staged_moments", _LEAST, **_MOMENTS, **_SHORT)
    labels = _line("moment labels", "prior_labels", _FEW, **_MOMENTS)
    share = {"trainer.prior.share": 0.8}
    full = {"trainer.width": FULL_WIDTH}
    response = {"trainer.noise": Noise.RANDOMIZED_RESPONSE}
    two_stages = {"trainer.stages": 2, "trainer.epochs": 2 * EPOCHS}
    return network_preset(
        {"data.features": FeatureSet.AS_THEY_ARE},
        variants=(
            staged,
            labels,
            _line("ALIBI, randomized response", "alibi", _MANY, **response),
            _line("ALIBI", "alibi", _MANY),
            _line("ALIBI + moment prior", "alibi_prior", _MANY, **_MOMENTS, **share),
            _line("LP-2ST", "lp_mst", _MANY, **two_stages),
            _without_noise("no privacy"),
            _line("ALIBI, randomized response, full width", "alibi", _MOST, **response, **full),
            _without_noise("no privacy, full width", **full),
            *(_repeated(staged, repetition) for repetition in range(1, REPETITIONS)),
        ),
    )


def _line(name: str, key: str, epsilons: tuple[float, ...], **settings: Any) -> Variant:
    """A line of the comparison, of the method of this key."""
    return Variant(
        name=name,
        changes={"method": key, "trainer.epochs": EPOCHS, **settings},
        space={"trainer.epsilon": Grid(*epsilons)},
    )


def _without_noise(name: str, **settings: Any) -> Variant:
    own = {
        "method": "alibi",
        "trainer.epochs": EPOCHS,
        "trainer.noise": Noise.NONE,
        "trainer.recipe.label_smoothing": LABEL_SMOOTHING,
    }
    return Variant(name=name, changes={**own, **settings})


def _repeated(line: Variant, repetition: int) -> Variant:
    own = {"seed": repetition, "noise.draw": repetition}
    return replace(line, changes={**line.changes, **own})
