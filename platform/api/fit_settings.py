"""How a fit trains: settings by size and kind of the features, public all of them.

Tables are standardized and scaled to a mean squared norm of 1, images of 16 pixels and more are
described by their patches, which have it too: one learning rate fits all (docs/reproduction.md's,
for the same network). What single settings cost and bring is in docs/python.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.platform.api.method_names import NamedMethod

if TYPE_CHECKING:
    from labeldp.platform.sweep.configuration import TrialConfig

#: Images at least so high and wide are described by patches; smaller ones are taken as they are.
SMALLEST_PATCHED = 16
#: Rows times landmarks of the moments' kernel: what holds time and memory where rows are many.
_MOST_KERNEL = 100_000_000
#: PATE: teachers, each of so many labels at least, and how many queries they answer.
_MOST_TEACHERS, _LABELS_EACH, _MOST_ANSWERS = 800, 20, 300
#: Steps of training, about: 12 epochs up to 85,000 rows, and fewer where there are more.
_MOST_STEPS = 4_000
_MOST_EPOCHS, _FEWEST_EPOCHS = 12, 5
#: Settings that say what is paid; the estimator has parameters for them.
_PAID = ("epsilon", "delta")


@dataclass(frozen=True, kw_only=True)
class FitSize:
    """Public facts that settings follow from.

    Attributes:
        rows: N.
        shape: Of a row's features, (D,) or (C, H, W).
        num_classes: K.
    """

    rows: int
    shape: tuple[int, ...]
    num_classes: int


def fit_changes(
    method: NamedMethod, size: FitSize, *, epsilon: float, delta: float
) -> dict[str, Any]:
    """Return dotted key -> value of a method's settings for data of this size.

    Args:
        method: Which one.
        size: Of the data.
        epsilon: Privacy loss per label.
        delta: At which it may hold; methods that are pure don't look at it.
    """
    changes: dict[str, Any] = {"method": method.method, **method.changes}
    at_delta = {} if delta == 0 else {"trainer.delta": delta}
    if method.method == "pate":
        return {**changes, **_pate(size, epsilon=epsilon, delta=delta), **at_delta}
    if method.method == "convex":
        return {**changes, "trainer.epsilon": epsilon, **at_delta}
    usual = {"trainer.epsilon": epsilon, **at_delta, **_training(size)}
    changes |= {key: value for key, value in usual.items() if key in _keys(method.method)}
    if method.method == "consensus":
        changes["trainer.retrain_epochs"] = changes["trainer.epochs"] // 2
    if changes.get("trainer.prior.source") == "clusters":
        changes["trainer.prior.clusters"] = max(1, min(200, size.rows // 20))
    if changes.get("trainer.prior.source") == "moments":
        changes["trainer.prior.landmarks"] = max(300, min(1500, _MOST_KERNEL // size.rows))
    return changes


def refuse_prices(settings: Mapping[str, Any]) -> None:
    """Refuse settings of the user's that say what is paid, and are parameters.

    Raises:
        ValueError: Names the parameter.
    """
    for key in map(str, settings):
        name = key.removeprefix("trainer.")
        if name in _PAID:
            raise ValueError(
                f"settings has {key!r}; what a fit costs is the estimator's own parameter: "
                f"LabelPrivateClassifier({name}=...)"
            )


def configured(
    changes: Mapping[str, Any], *, seed: int, settings: Mapping[str, Any]
) -> "TrialConfig":
    """Return the configuration of a fit.

    Args:
        changes: What `fit_changes` says.
        seed: Of training.
        settings: The user's own on top: keys of the trainer, such as `epochs`.

    Raises:
        ConfigurationError: A key or value that can't be used; the near miss is named.
    """
    from labeldp.platform.sweep.configuration import TrialConfig, with_changes

    own = {
        key if key.startswith("trainer.") else f"trainer.{key}": settings[key] for key in settings
    }
    return with_changes(TrialConfig(), {**changes, "seed": seed, **own})


@cache
def _keys(method: str) -> frozenset[str]:
    """Return the keys that a method has; pure ones have no delta, those of other packages any."""
    from labeldp.platform.sweep.configuration import TrialConfig, flatten, with_changes

    return frozenset(flatten(with_changes(TrialConfig(), {"method": method})))


def _training(size: FitSize) -> dict[str, Any]:
    batch = 64 if size.rows <= 8_000 else 256 if size.rows <= 100_000 else 512
    steps = max(1, size.rows // batch)
    return {
        "trainer.epochs": max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, _MOST_STEPS // steps)),
        "trainer.batch_size": batch,
        # Pixels have a mean square of 1 each: what is right for a norm of 1 is too much for them.
        "trainer.learning_rate": 1.0 if len(size.shape) == 1 else 6.0 / math.prod(size.shape),
        "trainer.schedule": "cosine",
        "trainer.dropout": 0.5,
    }


def _pate(size: FitSize, *, epsilon: float, delta: float) -> dict[str, Any]:
    """PATE that costs epsilon whatever the votes are: its noise is set by the budget."""
    teachers = max(1, min(_MOST_TEACHERS, size.rows // _LABELS_EACH))
    answers = max(1, min(_MOST_ANSWERS, size.rows))
    # A label moves one vote, two counts, as it does in a one-hot label: K answers are K releases.
    noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta).noise_std
    return {
        "trainer.aggregator": "gnmax",
        "trainer.ensemble.teachers": teachers,
        "trainer.ensemble.queries": answers,
        "trainer.answers": answers,
        "trainer.sigma2": noise_std * math.sqrt(answers),
        "trainer.publish_cost": False,
        "trainer.student.kind": "probe",
        "trainer.students": 1,
    }
