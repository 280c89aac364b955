"""Priors over the classes of every example, made without looking at single labels.

Three sources beside the uniform one. CLUSTERS: features that no label went into are grouped by
k-means, and the classes of each group counted with noise (`ClusterHistograms`; Algorithm 4 of Ghazi
et al., NeurIPS 2021). MOMENTS: a smooth function of the features, fitted to noisy sums of labels
(`prior_inputs`). FILE: the user's own, made without the labels. What a prior costs is a share of
the budget; whoever uses it has the rest.

CLUSTERS and MOMENTS may be learned of features of images that the network itself does not see:
pixels make a poor prior, and a network of convolutions wants pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.cluster_prior import ClusterHistograms, prior_from_histograms
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.posterior import project_to_simplex
from labeldp.trainers.data.regular_files import FileRefused, open_regular
from labeldp.trainers.settings.feature_set import FeatureSet
from labeldp.trainers.trainer import LabelSource, PlannedCharge

if TYPE_CHECKING:  # torch, which settings and prices have no use for
    from torch import Tensor

    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.prior_inputs import Directions, Rows


class PriorSource(StrEnum):
    """Where a prior comes from; the module's first lines say what each is."""

    UNIFORM = "uniform"
    CLUSTERS = "clusters"
    MOMENTS = "moments"
    FILE = "file"

    @property
    def asks_labels(self) -> bool:
        """Whether it costs something."""
        return self in (PriorSource.CLUSTERS, PriorSource.MOMENTS)


@dataclass(frozen=True, kw_only=True)
class PriorSettings:
    """A prior and its share of the budget.

    Attributes:
        source: Where it comes from.
        share: Part of epsilon that the prior gets, in (0, 1); sources that do not ask for labels
            take nothing.
        most_epsilon: The most that the prior gets, however large its share is: single labels gain
            more from a large budget than a prior does.
        clusters: Groups of k-means.
        landmarks: Examples that stand for all in the kernel of MOMENTS, and the most directions
            that are asked about; there are never more than half the examples.
        tolerated_noise: Standard deviation of the noise in a prediction by MOMENTS, which lies
            between 0 and 1: less noise allows fewer directions.
        smoothing: Share of the uniform distribution in every row, so that no class is ruled out.
        path: The user's own prior for FILE, an `.npy` of probabilities [N, K].
        seed: Of k-means and landmarks; public.
        features: What a prior that asks for labels is learned of: the trial's features
            AS_THEY_ARE, or others that are computed of its images and that no label goes into.
    """

    source: PriorSource = PriorSource.UNIFORM
    share: float = 0.5
    most_epsilon: float = 1.0
    clusters: int = 800
    landmarks: int = 1500
    tolerated_noise: float = 0.1
    smoothing: float = 0.01
    path: str | None = None
    seed: int = 0
    features: FeatureSet = FeatureSet.AS_THEY_ARE

    def __post_init__(self) -> None:
        """Check every field."""
        _validate.members(self)
        _validate.between(0, 1, share=self.share, smoothing=self.smoothing)
        _validate.whole(minimum=1, clusters=self.clusters)
        _validate.whole(minimum=2, landmarks=self.landmarks)
        _validate.positive(most_epsilon=self.most_epsilon, tolerated_noise=self.tolerated_noise)
        _validate.whole(seed=self.seed)
        if (self.path is None) is (self.source is PriorSource.FILE):
            raise ValueError(
                f"path is {self.path!r} for source {self.source}; FILE needs a path to an .npy of "
                "probabilities [N, K], and no other source takes one"
            )
        if self.features is not FeatureSet.AS_THEY_ARE and not self.source.asks_labels:
            raise ValueError(
                f"prior.features is {self.features}, but a prior from {self.source} is learned of "
                "no features; set prior.source to clusters or moments, or leave features out"
            )

    def split(self, epsilon: float) -> tuple[float, float]:
        """Return what the prior gets of epsilon, and what is left."""
        if not self.source.asks_labels:
            return 0.0, epsilon
        spent = min(self.share * epsilon, self.most_epsilon)
        return spent, epsilon - spent

    def check_size(self, *, examples: int, num_classes: int) -> None:
        """Refuse data that the prior can't be made of, before anything is asked or paid for.

        Args:
            examples: N, to train on.
            num_classes: K.
        """
        if self.source is PriorSource.CLUSTERS:
            check_clusters(self.clusters, examples=examples)
        if self.path is not None:
            _read(Path(self.path), examples=examples, num_classes=num_classes)

    def check_features(self, data: "PublicData") -> None:
        """Refuse features that the prior can't be learned of, likewise; computes what it needs.

        What is computed is kept (`PublicData.features_folder`): trials that start at once all find
        it, and ask for the same release.

        Args:
            data: Public features.
        """
        if self.source.asks_labels:
            self._features_of(data)

    def mechanism(
        self, *, epsilon: float, delta: float, num_classes: int
    ) -> ClusterHistograms | LabelMoments:
        """Return what asks for the labels at a cost of `epsilon`, all of it the prior's."""
        match self.source:
            case PriorSource.CLUSTERS:
                return ClusterHistograms(epsilon=epsilon, num_classes=num_classes)
            case PriorSource.MOMENTS:
                # As for Gaussian noise on one-hot labels: the same sensitivity, the same noise.
                noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta).noise_std
                return LabelMoments(noise_std=noise_std, num_classes=num_classes)
            case _:
                raise ValueError(f"source is {self.source}, which asks for no labels")

    def planned_charge(
        self, *, epsilon: float, delta: float, num_classes: int
    ) -> PlannedCharge | None:
        """Return what the prior will pay, `epsilon` being the prior's own; None if nothing."""
        if not self.source.asks_labels:
            return None
        return self.planned_release(
            self.mechanism(epsilon=epsilon, delta=delta, num_classes=num_classes)
        )

    def planned_release(self, mechanism: ClusterHistograms | LabelMoments) -> PlannedCharge:
        """Return what one release by this mechanism pays, of the prior's own features."""
        asked: tuple[float | str, ...] = (self.clusters, self.seed)
        if self.source is PriorSource.MOMENTS:
            asked = (self.landmarks, self.tolerated_noise, self.seed)
        if self.features is not FeatureSet.AS_THEY_ARE:
            asked = (*asked, self.features.value)
        return PlannedCharge.of(mechanism, release=(mechanism, asked))

    def learn(
        self, data: "PublicData", labels: LabelSource, *, epsilon: float, delta: float
    ) -> NDArray[np.float64]:
        """Return the prior of every training example [N, K].

        Args:
            data: Public features.
            labels: Where labels are asked for.
            epsilon: What the prior may cost, all of it.
            delta: At which epsilon holds; MOMENTS alone needs it.
        """
        return self._smooth(self._learned(data, labels, epsilon, delta))

    def learn_moments(
        self,
        data: "PublicData",
        labels: LabelSource,
        *,
        mechanism: LabelMoments,
        beside: "Sequence[Tensor]" = (),
    ) -> NDArray[np.float64]:
        """Return the prior of MOMENTS of every training example [N, K], by a mechanism of its own.

        Args:
            data: Public features.
            labels: Where labels are asked for.
            mechanism: With what noise.
            beside: More features, several kinds of them, each [N, ...]; of labels only what was
                released may have gone into them.
        """
        data.require_numbers(user=f"a prior from {self.source}")
        rows = self._features_of(data)
        if not beside:
            directions = self._directions(rows)
        else:
            from labeldp.trainers.methods.prior_inputs import kernel_directions, side_by_side

            all_kinds = side_by_side(rows.features, *beside)
            directions = kernel_directions(
                all_kinds, landmarks=self._landmarks(rows), seed=self.seed
            )
        return self._smooth(self._read_out(directions, labels, mechanism))

    def _learned(
        self, data: "PublicData", labels: LabelSource, epsilon: float, delta: float
    ) -> NDArray[np.float64]:
        features, classes = data.train_features, data.num_classes
        match self.source:
            case PriorSource.UNIFORM:
                return np.full((len(features), classes), 1 / classes)
            case PriorSource.FILE:
                assert self.path is not None
                return _read(Path(self.path), examples=len(features), num_classes=classes)
        data.require_numbers(user=f"a prior from {self.source}")
        from labeldp.trainers.methods.prior_inputs import remembered_clusters

        mechanism = self.mechanism(epsilon=epsilon, delta=delta, num_classes=classes)
        rows = self._features_of(data)
        if isinstance(mechanism, ClusterHistograms):
            groups = remembered_clusters(rows, clusters=self.clusters, seed=self.seed)
            counts = labels.release(mechanism, groups).values
            return np.asarray(prior_from_histograms(counts, groups))
        return self._read_out(self._directions(rows), labels, mechanism)

    def _directions(self, rows: "Rows") -> "Directions":
        from labeldp.trainers.methods.prior_inputs import remembered_directions

        return remembered_directions(rows, landmarks=self._landmarks(rows), seed=self.seed)

    def _landmarks(self, rows: "Rows") -> int:
        return min(self.landmarks, max(2, len(rows.features) // 2))

    def _read_out(
        self, directions: "Directions", labels: LabelSource, mechanism: LabelMoments
    ) -> NDArray[np.float64]:
        """Ask for moments along the directions, and return what they say of every example."""
        from labeldp.trainers.methods.prior_inputs import moment_query

        query = moment_query(
            directions, noise_std=mechanism.noise_std, tolerated=self.tolerated_noise
        )
        moments = labels.release(mechanism, query.weights).values
        scores = query.scores(moments, noise_std=mechanism.noise_std)
        return project_to_simplex(scores.astype(np.float64))

    def _smooth(self, prior: NDArray[np.float64]) -> NDArray[np.float64]:
        smooth: NDArray[np.float64] = (1 - self.smoothing) * prior + self.smoothing / prior.shape[1]
        return smooth

    def _features_of(self, data: "PublicData") -> "Rows":
        """The training examples as the prior sees them."""
        from labeldp.trainers.methods.prior_inputs import PriorImages, Rows, remembered_features

        if self.features is FeatureSet.AS_THEY_ARE:
            return Rows(data.fingerprint, data.train_features, data.features_folder)
        from labeldp.trainers.data.labelled_data import FeatureKind

        if data.kind is not FeatureKind.IMAGE:
            raise ValueError(
                f"prior.features is {self.features}, which are features of images, but {data.name} "
                f"is {data.kind.value} here; set data.features=as_they_are if these are features "
                "of images, or leave prior.features out: the prior then sees what the model sees"
            )
        return remembered_features(PriorImages(data.fingerprint, data), self.features)


def check_clusters(clusters: int, *, examples: int) -> None:
    """Refuse more clusters than examples."""
    if clusters > examples:
        raise ValueError(
            f"clusters is {clusters}, but there are {examples} examples; take at most one "
            "cluster per example, and far fewer for counts that noise does not drown"
        )


def _read(path: Path, *, examples: int, num_classes: int) -> NDArray[np.float64]:
    try:
        with open_regular(path) as file:
            values: Any = np.load(file, allow_pickle=False)
    except FileRefused:
        raise
    except (OSError, EOFError, ValueError, MemoryError) as error:
        raise ValueError(
            f"{path} can't be read as a prior: {error}; write one with numpy.save"
        ) from error
    if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, np.number):
        raise ValueError(f"{path} holds no array of numbers; write one with numpy.save")
    prior = _validate.probabilities(values, name=f"prior in {path}", num_classes=num_classes)
    if len(prior) != examples:
        raise ValueError(
            f"prior in {path} has {len(prior)} rows, but there are {examples} training examples; "
            "it needs a row for each, in their order"
        )
    return prior
