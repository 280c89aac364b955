"""Settings of a student (`pate.students`)."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.trainers.settings.fixmatch import FixMatchConfig
from labeldp.trainers.settings.forest import ForestSettings
from labeldp.trainers.settings.learner import LearnerConfig

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData


class StudentKind(StrEnum):
    """What a student is: as `TeacherKind`, and SELF_TRAINED, a probe that goes on by itself.

    SELF_TRAINED fits a probe to the answers, takes its own most confident guesses for half of all
    features as further labels, and fits again; public features are free. Each student of an
    ensemble draws a half of its own. PROBE has nothing to draw: its students are all the same.
    """

    PROBE = "probe"
    SELF_TRAINED = "self_trained"
    FOREST = "forest"
    NETWORK = "network"
    FIXMATCH = "fixmatch"


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """A student's settings.

    Attributes:
        kind: What it is.
        ridge: Of probes.
        rounds: Of self-training.
        trusted: Share of the half whose guesses are taken in the last round of self-training.
        forest: Of forests.
        network: Of networks.
        fixmatch: Of FixMatch.
    """

    kind: StudentKind = StudentKind.PROBE
    ridge: float = 0.1
    rounds: int = 5
    trusted: float = 0.8
    forest: ForestSettings = field(default_factory=ForestSettings)
    network: LearnerConfig = field(default_factory=LearnerConfig)
    fixmatch: FixMatchConfig = field(default_factory=FixMatchConfig)

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.members(self)
        _validate.positive(ridge=self.ridge)
        _validate.whole(minimum=1, rounds=self.rounds)
        _validate.between(0, 1, trusted=self.trusted)

    @property
    def epochs(self) -> int:
        """Calls of `epoch` until it is trained."""
        if self.kind is StudentKind.NETWORK:
            return self.network.epochs
        return self.fixmatch.epochs if self.kind is StudentKind.FIXMATCH else 1

    def check_data(self, data: "PublicData") -> None:
        """Refuse data that this student can't learn from.

        Raises:
            ValueError: A probe of images.
        """
        from labeldp.trainers.data.labelled_data import FeatureKind
        from labeldp.trainers.models.predictors import NetworkSettings

        if self.kind in (StudentKind.NETWORK, StudentKind.FIXMATCH):
            trained = self.network if self.kind is StudentKind.NETWORK else self.fixmatch
            NetworkSettings.check_own(data, model=trained.model, width=trained.width)
        if self.kind in (StudentKind.PROBE, StudentKind.SELF_TRAINED) and (
            data.kind is FeatureKind.IMAGE
        ):
            raise ValueError(
                f"{data.name} holds images, and a probe is linear in its features; set "
                "data.features=patches, or another student.kind"
            )
