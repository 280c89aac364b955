"""A network as one of the models of a stack."""

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.features import ScaledStep
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.predictors import NetworkPredictor
from labeldp.trainers.models.table_models import Constant, Family, Table
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import LearnerConfig, TrainingDiverged

#: First weights come from a generator that threads share.
_BUILDING = threading.Lock()


@dataclass(frozen=True, kw_only=True, eq=False)
class TableNetwork(Family):
    """A network, after the step that brings rows into its units."""

    kind: ClassVar[str] = "table_network"

    parts: tuple[ScaledStep, NetworkPredictor]

    @property
    def names(self) -> tuple[str, ...]:
        """As in `Family`."""
        return ("network",)

    def predict(self, table: Table) -> NDArray[np.float64]:
        """As in `Family`."""
        scaled, network = self.parts
        return network.predict(scaled(_single(table.rows)))[None].astype(np.float64)

    def fits(self, classes: int, kinds: set[str]) -> bool:
        """As in `Family`."""
        return self.parts[1].settings.num_classes == classes


def fit_network(
    table: Table,
    evidence: Any,
    *,
    config: LearnerConfig,
    performance: Performance,
    seed: int,
) -> Family:
    """Return a network that learned from a release of the labels of rows.

    Of one whose loss is not finite nothing is left but the shares of the classes, since labels are
    paid for by then and other models of a stack know more.

    Args:
        table: The rows.
        evidence: `LabelEvidence` of them.
        config: How it is trained.
        performance: Where it is trained.
        seed: Of its first weights and the order of the rows.
    """
    rows = _single(table.rows)
    scaled = ScaledStep.fit(rows)
    features = scaled(rows)
    chances = torch.from_numpy(evidence.chances).float().to(performance.torch_device())

    def loss(logits: Tensor, places: Tensor) -> Tensor:
        seen = (logits.softmax(1) * chances[places]).sum(1)
        return -seen.clamp(min=torch.finfo(seen.dtype).tiny).log().mean()

    with _BUILDING:
        learner = Learner(
            config,
            data=PublicData(
                name="own",
                num_classes=chances.shape[1],
                train_features=features,
                test_features=features[:0],
                test_labels=np.zeros(0, np.int64),
            ),
            seed=seed,
            performance=performance,
            loss=loss,
        )
    network = TableNetwork(parts=(scaled, learner.predictor()))
    try:
        for _ in range(config.epochs):
            learner.epoch()
        network.predict(table)
    except TrainingDiverged:
        return Constant(shares=evidence.shares)
    return network


def _single(rows: NDArray[np.floating]) -> Tensor:
    return torch.from_numpy(np.asarray(rows, np.float32))
