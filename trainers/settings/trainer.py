"""A trainer: one frozen configuration that starts it, and one object that runs epochs.

The platform drives every trainer through these protocols. A trainer sees public data and a source
of releases; true labels it never sees. Nothing here loads torch.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import Event
from labeldp.mechanisms.amounts import LEVELS
from labeldp.mechanisms.ledger import Priced
from labeldp.mechanisms.vault import Mechanism, Release
from labeldp.trainers.base import is_settings
from labeldp.trainers.data.stored import Stored
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import EpochMetrics

if TYPE_CHECKING:  # torch, which plans and prices have no use for
    from torch import Tensor

    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.settings.training import Work

P = TypeVar("P", bound="Predictor")

#: Of the levels around a predicted amount, between bounds 0 and 1.
_DEVIATION = 0.1


class Predictor(Stored, ABC):
    """Features in, probabilities out."""

    @abstractmethod
    def predict(self, features: Any) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, ...]."""

    @property
    def models(self) -> list[tuple[str, float, float]]:
        """Name, weight and held-out log-likelihood of each model that it mixes; none by default."""
        return []


class OfAmounts(Predictor):
    """What predicts an amount of each row; its probabilities are for attacks on a model."""

    @abstractmethod
    def amounts(self, features: Any) -> NDArray[np.float64]:
        """Return the predicted amounts [N] of features [N, ...]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AmountPredictor(OfAmounts):
    """A fitted regressor of amounts on the scale where the `bounds` are 0 and 1."""

    kind: ClassVar[str] = "amounts"
    kept: ClassVar[str] = "estimator"

    estimator: Any
    bounds: tuple[float, float]

    def amounts(self, features: object) -> NDArray[np.float64]:
        """Return the predicted amounts [N] of features [N, ...], within the bounds."""
        low, high = self.bounds
        return np.asarray(low + self._scaled(features) * (high - low), dtype=np.float64)

    def predict(self, features: object) -> NDArray[np.float32]:
        """Return probabilities of the levels [N, K], as attacks on a model take them.

        They are normal around the prediction, with a fixed deviation: the order of the levels is
        all that there is to know.
        """
        middles = (np.arange(LEVELS) + 0.5) / LEVELS
        distances = (middles - self._scaled(features)[:, None]) / _DEVIATION
        chances = np.exp(-(distances**2) / 2)
        return np.asarray(chances / chances.sum(1, keepdims=True), dtype=np.float32)

    def _scaled(self, features: Any) -> NDArray[np.float64]:
        rows = np.asarray(features, dtype=np.float32).reshape(len(features), -1)
        return np.clip(np.asarray(self.estimator.predict(rows), np.float64), 0, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimatorPredictor(Predictor):
    """A fitted classifier, whose classes are places among the model's `num_classes`."""

    kind: ClassVar[str] = "estimator"
    kept: ClassVar[str] = "estimator"

    estimator: Any
    num_classes: int

    def predict(self, features: Any) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for rows [N, D]."""
        found = np.zeros((len(features), self.num_classes), dtype=np.float32)
        if len(features) == 0:  # without canaries; scikit-learn refuses no rows
            return found
        rows = np.asarray(features).reshape(len(features), -1)
        seen = np.asarray(self.estimator.classes_, dtype=int)
        found[:, seen] = self.estimator.predict_proba(rows)
        return found


class LabelSource(Protocol):
    """A source of releases for a trainer: a `LabelVault`, or a client of one."""

    @property
    def persons(self) -> NDArray[np.intp] | None:
        """Numbers of the persons of the rows [N], who pay for all of their labels.

        None where every label is a person's only one.
        """

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return the release of `mechanism`, drawn and charged once."""


class Given(TypedDict):
    """Arguments that start a trainer, beside its settings."""

    data: "PublicData"
    labels: LabelSource
    seed: int
    performance: Performance


def without_labels(given: Given) -> dict[str, Any]:
    """Return what a network is started with."""
    return {name: of for name, of in given.items() if name != "labels"}


def released(labels: LabelSource, mechanism: Mechanism, data: "PublicData") -> Release:
    """Return a release of the labels of these data, or refuse one of other labels."""
    release = labels.release(mechanism)
    expected = len(data.train_features if release.indices is None else release.indices)
    if len(release.values) != expected:
        raise ValueError(
            f"the release has {len(release.values)} labels, but {data.name} has {expected} "
            "training examples"
        )
    return release


@dataclass(frozen=True, kw_only=True)
class PlannedCharge:
    """The price of a trial, known before it runs.

    Attributes:
        event: The most that a touched label pays.
        failure_probability: Part of delta that all of its releases take together, since each may
            fail to be as in `event`; what their mechanisms declare.
        release: Two trials with an equal `release` (and equal noise settings) share one.
        releases: How many charges of the ledger that is.
        before: Of another release of the same labels that this one builds on, such as a prior's.
        mechanisms: What the vault is asked for, as its ledger describes it; empty if not known.
    """

    event: Event
    failure_probability: float
    release: Hashable
    releases: int = 1
    before: "PlannedCharge | None" = None
    mechanisms: tuple[Priced, ...] = ()

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        *,
        release: Hashable | None = None,
        releases: int = 1,
        before: "PlannedCharge | None" = None,
    ) -> "PlannedCharge":
        """Return the charge of `mechanism`, at the price that it states.

        With several `releases` each time other labels are requested: a label pays once, but any of
        them may fail. `release` is the mechanism if not given.
        """
        return cls(
            event=mechanism.event,
            failure_probability=releases * mechanism.failure_probability,
            release=mechanism if release is None else release,
            releases=releases,
            before=before,
            mechanisms=(mechanism,),
        )

    def chain(self) -> "list[PlannedCharge]":
        """Return this charge and all that it builds on; a label pays for each of them."""
        return [self, *(self.before.chain() if self.before else ())]


class Trainer(Protocol):
    """A model in training."""

    def epoch(self) -> EpochMetrics:
        """Train for one epoch; TrainingDiverged when the loss is not finite any more."""

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""

    def predict(self, features: "Tensor") -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for unaugmented features [N, ...]."""
        predictor = self.predictor()
        assert predictor is not None, "a trainer without a predictor predicts by itself"
        return predictor.predict(features)

    def figures(self) -> Mapping[str, float]:
        """Return name -> number, of its own, computed from releases and the public test split.

        They are logged beside those that all trials have; by default there are none.
        """
        return {}

    def predictor(self) -> "Predictor | None":
        """Return what predicts, apart from what trains: it is kept as the trial's model.

        Its predictions are those of `predict`, bit for bit. By default no model is kept.
        """
        return None

    def state_dict(self) -> Mapping[str, Any]:
        """Return all that a bit-identical continuation needs."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""


class FittedAtOnce(Trainer, Generic[P]):
    """A model that is fitted in its only epoch, by releases and a seed alone."""

    _predictor: P | None = None

    @abstractmethod
    def _fitted(self) -> P:
        """Return what predicts."""

    def _loss(self) -> float:
        return math.nan

    def epoch(self) -> EpochMetrics:
        """Fit the model."""
        started = time.perf_counter()
        self._predictor = self._fitted()
        accuracy = self.evaluate()
        loss = self._loss()
        seconds = time.perf_counter() - started
        return EpochMetrics(epoch=1, loss=loss, val_accuracy=accuracy, seconds=seconds)

    def predictor(self) -> P:
        """Return what predicts."""
        assert self._predictor is not None, "predict before the first epoch"
        return self._predictor

    def state_dict(self) -> dict[str, Any]:
        """Return whether it was fitted."""
        return {"fitted": self._predictor is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Fit it again."""
        if state["fitted"]:
            self._predictor = self._fitted()


class TrainerDefaults(ABC):
    """What settings of a method have: classes made by `settings`, with plain keys, inherit it."""

    #: The `EnsembleConfig` whose votes must be there before a trial starts; None for none.
    ensemble: Any = None
    #: The `PriorSettings` of what a trial learns from beside the labels; None for none.
    prior: Any = None

    @property
    @abstractmethod
    def epochs(self) -> int:
        """How often `epoch` is called."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """Delta at which epsilon is stated where releases are not pure."""

    def check_data(self, data: "PublicData") -> None:
        """Refuse data that do not fit, before any trial starts; `prior` is checked beside this."""
        return None  # all data fit

    def work(self, examples: int) -> "tuple[Work, ...]":
        """Return what networks learn from where there are N training examples; there are none."""
        return ()

    @abstractmethod
    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge | None:
        """Return what a trial will pay; None where it requests no labels at all."""

    @abstractmethod
    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> Trainer:
        """Request the releases that the training needs and set the model up.

        It imports what trains, so that no plan loads torch.
        BudgetExceeded: a release would take a label over the budget.
        """


def what_is_missing(settings: object) -> str | None:
    """Say why a thing is not the settings of a method; None where it is."""
    if not is_settings(settings):
        return f"{settings!r} is not a class of settings: put `@settings` above it"
    if not (isinstance(settings, type) and issubclass(settings, TrainerDefaults)):
        return "it does not inherit from `TrainerDefaults` (labeldp.trainers.settings.trainer)"
    missing = sorted(settings.__abstractmethods__)
    return f"it has no {' and no '.join(missing)}" if missing else None
