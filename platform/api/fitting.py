"""One fit in this process: lock the labels away, pay what was promised, train, look at the model.

A sweep's trial does the same with Ray around it. What a fit may cost is checked before anything is
released, whatever settings say.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.platform.api.ledger_lines import PaidRelease, line_of
from labeldp.platform.api.private_figures import PrivateFigures
from labeldp.platform.sweep.accuracy_figures import is_owners
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.vault.fit_labels import FitLabels
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.models.predictors import Predictor
from labeldp.trainers.performance import Performance

#: Off a terminal, progress is told at most so often.
_TELL_SECONDS = 5.0
#: Columns of a table that one thread trains on as quickly as two.
_NARROW = 256
#: Sums of the same epsilons in another order differ in the last bits.
_LAST_BITS = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """What came out of a fit.

    Attributes:
        predictor: Features in, probabilities out.
        epsilon: Of the worst label, for what this fit has read.
        delta: At which it holds.
        lines: Its ledger.
        figures: Name -> number, those of the labels' owner alone among them.
        spoiled: Labels that were replaced by canaries.
    """

    predictor: Predictor
    epsilon: float
    delta: float
    lines: list[PaidRelease]
    figures: Mapping[str, float]
    spoiled: int


class Teller:
    """Says on standard error how a fit goes: a line that is written over, or one now and then."""

    def __init__(self, *, quiet: bool) -> None:
        """Say nothing if `quiet`."""
        self._quiet, self._started, self._told = quiet, time.monotonic(), -math.inf
        self._over = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        """Say how far it is."""
        now = time.monotonic()
        if self._quiet or (not self._over and now - self._told < _TELL_SECONDS):
            return
        self._told = now
        line = f"{text}, {now - self._started:.0f} s"
        print(
            f"\r{line}\x1b[K" if self._over else line,
            end="" if self._over else "\n",
            file=sys.stderr,
        )

    def close(self) -> None:
        """End the line that was written over."""
        if self._over and self._told > -math.inf:
            print(file=sys.stderr)


def check_price(config: TrialConfig, *, epsilon: float, delta: float, num_classes: int) -> None:
    """Refuse a fit that would cost more than was promised, before anything is released.

    Raises:
        ValueError: Says what it would cost.
    """
    planned = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    if planned is None:
        return
    chain = planned.chain()
    at = delta_of_total(chain, delta=config.trainer.delta)
    cost = epsilon_of_prices(chain, delta=at)
    if cost > epsilon * (1 + _LAST_BITS) or at > delta:
        raise ValueError(
            f"with these settings a fit costs epsilon {cost:.4g} at delta {at:g}, and epsilon="
            f"{epsilon:g}, delta={delta:g} were asked for; leave out of settings what changes the "
            "noise, or ask for as much"
        )


def fit(
    config: TrialConfig,
    *,
    data: PublicData,
    labels: FitLabels,
    performance: Performance,
    tell: Callable[[str], None],
) -> Fitted:
    """Train a model and say what it cost.

    Args:
        config: Of the method.
        data: Public features.
        labels: Where labels can be asked for.
        performance: Where and how fast.
        tell: Told how it goes.

    Raises:
        TrainingDiverged: The loss is not finite any more.
        ValueError: Settings that don't fit the data.
    """
    with _few_threads(data):
        return _fit(config, data=data, labels=labels, performance=performance, tell=tell)


@contextmanager
def _few_threads(data: PublicData) -> Iterator[None]:
    """Compute narrow tables in one thread: a step takes less than two need to meet.

    On two cores with other work beside, 5,000 rows of 15 columns take 0.8 seconds of processor time
    in one thread and 20 in two, which wait for each other actively.
    """
    before = torch.get_num_threads()
    narrow = data.train_features.ndim == 2 and data.train_features.shape[1] <= _NARROW
    torch.set_num_threads(1 if narrow else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit(
    config: TrialConfig,
    *,
    data: PublicData,
    labels: FitLabels,
    performance: Performance,
    tell: Callable[[str], None],
) -> Fitted:
    settings = config.trainer
    settings.check_data(data)
    if settings.prior is not None:
        settings.prior.check_size(examples=len(data.train_features), num_classes=data.num_classes)
        prior_features(settings.prior, data)
    try:
        if settings.ensemble is not None:
            labels.teach(settings.ensemble, data=data, performance=performance, tell=tell)
        trainer = settings.start(
            data=data, labels=labels, seed=config.seed, performance=performance
        )
        for epoch in range(settings.epochs):
            trainer.epoch()
            tell(f"epoch {epoch + 1} of {settings.epochs}")
        predictor = trainer.predictor()
        if predictor is None:
            raise ValueError(
                f"method {config.method!r} keeps no model; take another one, or give its trainer a "
                "predictor"
            )

        def probabilities(places: NDArray[np.intp]) -> NDArray[np.float32]:
            found: NDArray[np.float32] = predictor.predict(
                data.train_features[torch.from_numpy(places)]
            )
            return found

        figures = labels.figures(probabilities, delta=settings.delta)
    finally:
        labels.home.end()
    epsilon, at = labels.epsilon(delta=settings.delta)
    return Fitted(
        predictor=predictor,
        epsilon=epsilon,
        delta=at,
        lines=_lines(labels, num_labels=len(data.train_features), delta=settings.delta),
        figures=figures,
        spoiled=len(labels.canary_positions()),
    )


def _lines(labels: FitLabels, *, num_labels: int, delta: float) -> list[PaidRelease]:
    return [
        line_of(charge, num_labels=num_labels, delta=delta, new=labels.is_new(charge))
        for charge in labels.charges()
    ]


def private_figures_of(fitted: Fitted) -> PrivateFigures:
    """Return what was computed from true labels or about canaries."""
    return PrivateFigures(
        {name: value for name, value in fitted.figures.items() if is_owners(name)}
    )


def facts_of_audit(fitted: Fitted) -> dict[str, Any]:
    """Return what attacks could have found at most, and how many labels that cost.

    What they found, epsilon_m with it, is the owner's alone (`private_figures_of`).
    """
    found: dict[str, Any] = {
        name: value for name, value in fitted.figures.items() if not is_owners(name)
    }
    found["spoiled_labels"] = fitted.spoiled
    if not fitted.spoiled:
        found["reason"] = (
            "not audited: no canaries were planted, each of which spoils a label; canaries=100 "
            "plants two hundred"
        )
    return found
