"""Settings of an ensemble of teachers (`pate.teachers`): all that decides its votes."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.models.schedules import Recipe
from labeldp.trainers.settings.fixmatch import FixMatchConfig
from labeldp.trainers.settings.forest import ForestSettings
from labeldp.trainers.settings.learner import LearnerConfig

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData


class TeacherKind(StrEnum):
    """What a teacher is.

    PROBE: a linear probe on frozen label-free features, hundreds at once. FOREST: a random forest,
    for tables. NETWORK: a network on its shard alone. FIXMATCH: a network on its shard and on all
    features, PATE-FM's own.
    """

    PROBE = "probe"
    FOREST = "forest"
    NETWORK = "network"
    FIXMATCH = "fixmatch"


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    """All that decides an ensemble's votes, but for data and labels.

    Attributes:
        kind: What a teacher is.
        teachers: T.
        queries: Q, how many training examples the teachers vote on.
        seed: Of the shards, the choice of queries and the teachers' training.
        ridge: Of probes.
        forest: Of forests.
        network: Of networks.
        fixmatch: Of FixMatch.
    """

    kind: TeacherKind = TeacherKind.PROBE
    teachers: int = 250
    queries: int = 3000
    seed: int = 0
    ridge: float = 0.1
    forest: ForestSettings = field(default_factory=ForestSettings)
    network: LearnerConfig = field(default_factory=LearnerConfig)
    fixmatch: FixMatchConfig = field(default_factory=FixMatchConfig)

    def __post_init__(self) -> None:
        """Check the counts."""
        _validate.members(self)
        _validate.whole(minimum=1, teachers=self.teachers, queries=self.queries)
        _validate.whole(seed=self.seed)
        _validate.positive(ridge=self.ridge)

    @property
    def batch(self) -> int:
        """Teachers that an actor trains together, and that are lost together when it dies."""
        if self.kind is TeacherKind.NETWORK:
            from labeldp.trainers.methods.pate.teachers import fits_one_batch

            return 25 if fits_one_batch(self.network) else 1
        return {TeacherKind.PROBE: 100, TeacherKind.FOREST: 5, TeacherKind.FIXMATCH: 1}[self.kind]

    def facts(self) -> dict[str, Any]:
        """Return all that decides the votes, as plain values.

        What came later is left out where nobody sets it: older votes keep their address.
        """
        found = asdict(self)
        if self.network.recipe == Recipe():
            del found["network"]["recipe"]
        return found

    def check_count(self, examples: int) -> None:
        """Refuse too few training examples.

        Raises:
            ValueError: More teachers or queries than examples.
        """
        if self.teachers > examples:
            raise ValueError(
                f"ensemble.teachers is {self.teachers}, but there are {examples} labels: some "
                "teachers would have none; take fewer teachers, or more data"
            )
        self.query_positions(examples)

    def check_data(self, data: "PublicData") -> None:
        """Refuse data that these teachers can't learn from, before any of them starts.

        Raises:
            ValueError: More teachers or queries than examples, more classes than a vote can name,
                or probes of images.
        """
        from labeldp.trainers.data.labelled_data import FeatureKind
        from labeldp.trainers.methods.pate.closed_forms import MOST_CLASSES
        from labeldp.trainers.models.predictors import NetworkSettings

        self.check_count(len(data.train_features))
        if data.num_classes > MOST_CLASSES:
            raise ValueError(
                f"{data.name} has {data.num_classes} classes, but a vote is kept in one byte, so "
                f"that teachers tell {MOST_CLASSES} classes apart at most; take another method"
            )
        if self.kind in (TeacherKind.NETWORK, TeacherKind.FIXMATCH):
            trained = self.network if self.kind is TeacherKind.NETWORK else self.fixmatch
            NetworkSettings.check_own(data, model=trained.model, width=trained.width)
        if self.kind is TeacherKind.PROBE and data.kind is FeatureKind.IMAGE:
            raise ValueError(
                f"{data.name} holds images, and a probe is linear in its features; set "
                "data.features=patches, or another ensemble.kind"
            )

    def query_positions(self, examples: int) -> NDArray[np.intp]:
        """Training examples that are voted on [Q], in the order of asking; public.

        Raises:
            ValueError: More queries than examples.
        """
        if self.queries > examples:
            raise ValueError(
                f"ensemble.queries is {self.queries}, but there are {examples} training examples "
                "to ask about; ask about fewer"
            )
        generator = np.random.default_rng([self.seed, 1])
        return generator.permutation(examples)[: self.queries].astype(np.intp)
