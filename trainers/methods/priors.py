"""Priors over the classes of every example, made without looking at single labels.

Three sources beside the uniform one. MOMENTS: a smooth function of the features, fitted to noisy
sums of labels. CLUSTERS: the same, fitted to noisy counts of the classes in groups that k-means
finds without labels (`ClusterHistograms`; Ghazi et al., NeurIPS 2021, Algorithm 4, take the counts
themselves). Such counts are pure, for a label lies in one group.
SMOOTH_SUMS: the same for the columns of a table, as `smooth_sums` asks and reads.

CLUSTERS and MOMENTS may be learned of features of images that the network itself does not see.
Features, groups and directions are public, and kept in files beside the results (`made_once`).

Kernel ridge regression needs of the labels only their sums along directions of the features
(`LabelMoments`). The number of directions, and the trust in each answer, follow from the noise and
the features by Bayes' rule under the kernel's (Gaussian process) prior; labels do not affect them.
Least squares from noisy sums is older: Mehta et al. ("Differentially Private Image Classification
from Features", TMLR 2023), under full differential privacy; Cond-DP (arXiv:2606.18773) makes the
conditioner public.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from labeldp.mechanisms.label_moments import LabelMoments, rows_too_long
from labeldp.mechanisms.persons import shares_of_persons
from labeldp.mechanisms.posterior import project_to_simplex
from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.labelled_data import FeatureKind, PublicData
from labeldp.trainers.methods.settings import PriorSettings, PriorSource
from labeldp.trainers.methods.smooth_sums import labels_of_sums
from labeldp.trainers.models.features import (
    Arrays,
    ScaledStep,
    described_by_features,
    image_features,
    made_once,
)
from labeldp.trainers.performance import Performance, Precision, threads
from labeldp.trainers.settings.trainer import LabelSource

#: Counted up when the same features and settings give other groups or directions, if only in a last
#: digit, so that stale files are not read.
DIRECTIONS_VERSION = 1
_ROWS_AT_ONCE = 4096
_DIRECTIONS_AT_ONCE = 10
#: Landmarks between which the width of the kernel is measured.
_MEASURED = 1000
#: Squared width of the kernel in units of the median squared distance. Like `_SMOOTHNESS` it was
#: chosen once, among three values, by accuracy on the true training labels of MNIST and
#: Fashion-MNIST, which no epsilon pays for: state it beside numbers on these two. Both are the same
#: for all data sets.
_WIDTH = 1.5
#: Rows with more leverage than this share of all rows have are shortened: a few odd examples would
#: otherwise decide how much noise all need.
_KEPT_WHOLE = 0.9
#: How much more of the labels lies along the directions that are queried than along the average
#: direction of the features: labels vary more smoothly than features do. Once most labels can be
#: guessed, what is left of them varies less smoothly, and the sums choose one of these.
_SMOOTHNESS = 10.0
_LATER_SMOOTHNESS = (10.0, 3.0, 1.0)
#: Directions that hold less than this share of the strongest one are numerical noise.
_LEAST_SHARE = 1e-7
#: Standard deviation of the noise in a prediction by MOMENTS, which lies between 0 and 1.
_TOLERATED = 0.1
#: Exponents of scores of MOMENTS in probabilities, of which the sums choose one.
_CONTRASTS = (1, 1.5, 2)
#: Rounds in which sums are read. Right guesses and log loss on the true training labels of
#: CIFAR-10, MNIST, Fashion-MNIST, digits and Adult chose it and what the sums choose among; no
#: epsilon pays for that either.
_ROUNDS = 3


def learned_prior(
    settings: PriorSettings,
    data: PublicData,
    labels: LabelSource,
    *,
    epsilon: float,
    delta: float,
) -> NDArray[np.float64]:
    """Return the prior of every training example [N, K], at a cost of `epsilon`."""
    count = len(data.train_features)
    classes = data.num_classes
    if settings.source is PriorSource.UNIFORM:
        return _smooth(np.full((count, classes), 1 / classes), settings)
    mechanism = settings.mechanism(epsilon=epsilon, delta=delta, num_classes=classes)
    if settings.source is PriorSource.MOMENTS:
        assert isinstance(mechanism, LabelMoments), "as the settings make it"
        return learned_moments(settings, data, labels, mechanism=mechanism)
    data.require_numbers(user=f"a prior from {settings.source}")
    rows = prior_features(settings, data)
    if isinstance(mechanism, LabelMoments):
        soft = labels_of_sums(
            rows.features.flatten(1).float().numpy(),
            labels,
            mechanism=mechanism,
            seed=settings.seed,
            kept=rows.kept,
        )
        return _smooth(soft, settings)
    return _smooth(_learned_of_counts(settings, rows, labels, mechanism=mechanism), settings)


def _learned_of_counts(
    settings: PriorSettings, rows: "Rows", labels: LabelSource, *, mechanism: ClusterHistograms
) -> NDArray[np.float64]:
    """Return the prior of CLUSTERS [N, K]: counts are sums along indicators of the clusters."""
    clusters = settings.number_of_clusters(mechanism, examples=len(rows.features))
    # Kept on disk: k-means of another run could differ in the last digits, and would be another
    # release.
    (groups,) = rows.kept(
        "clusters",
        lambda *given, **how: (clusters_of(*given, **how),),
        clusters=clusters,
        seed=settings.seed,
    )
    directions = rows.directions(settings)
    # Clusters were made of features alone, so that they may be shown beside the counts.
    counts = labels.release(mechanism, groups).values
    shape = (len(groups), len(counts))
    places = np.arange(len(groups))
    members = csr_array((np.ones(len(groups), np.float32), (places, groups)), shape=shape)
    return probabilities_from(
        np.asarray(counts, np.float64),
        MomentQuery(weights=members, directions=directions, scale=1.0),
        directions,
        # A little noise keeps the normal equations regular: there are fewer counts than directions.
        noise_std=max(1.0, mechanism.noise_std),
        seed=settings.seed,
    )


def learned_moments(
    settings: PriorSettings,
    data: PublicData,
    labels: LabelSource,
    *,
    mechanism: LabelMoments,
    beside: Sequence[Tensor] = (),
    before: NDArray[np.floating] | None = None,
) -> NDArray[np.float64]:
    """Return the prior of MOMENTS of every training example [N, K], by this mechanism.

    `beside` are more kinds of features, each [N, ...], and `before` probabilities known so far
    [N, K], both made of releases and public features alone.
    """
    data.require_numbers(user=f"a prior from {settings.source}")
    rows = prior_features(settings, data)
    if beside:
        rows = Rows("of a network in training", side_by_side(rows.features, *beside))
    directions = rows.directions(settings)
    query = moment_query(directions, noise_std=mechanism.noise_std)
    if labels.persons is not None:
        # A person moves the sums by all of its rows, and the noise is made for one of length 1.
        shares = shares_of_persons(query.weights, labels.persons)
        query = replace(query, weights=query.weights * shares[:, None])
    moments = labels.release(mechanism, query.weights).values
    found = probabilities_from(
        moments,
        query,
        directions,
        noise_std=mechanism.noise_std,
        seed=settings.seed,
        before=before,
    )
    return _smooth(found, settings)


def _smooth(prior: NDArray[np.float64], settings: PriorSettings) -> NDArray[np.float64]:
    share = settings.smoothing
    # A class of probability 0 could never be learned, whatever is released later.
    smooth: NDArray[np.float64] = (1 - share) * prior + share / prior.shape[1]
    return smooth


def prior_features(settings: PriorSettings, data: PublicData) -> "Rows":
    """Return the training examples as the prior sees them, or refuse data without such features.

    Computed features are kept (`PublicData.features_folder`): trials that start at once all find
    them, and ask for the same release.
    """
    if settings.encoder is not None:
        vectors = _by_encoder(settings.encoder, data)
        if settings.features is FeatureSet.AS_THEY_ARE:
            return vectors
        others = prior_features(replace(settings, encoder=None), data)
        both = side_by_side(others.features, vectors.features)
        return Rows(f"{others.fingerprint} {vectors.fingerprint}", both, data.features_folder)
    if settings.features is FeatureSet.AS_THEY_ARE:
        return Rows(data.fingerprint, data.train_features, data.features_folder)
    if data.kind is not FeatureKind.IMAGE:
        raise ValueError(
            f"prior.features is {settings.features}, which are features of images, but {data.name} "
            f"is {data.kind.value} here; set data.features=as_they_are if these are features of "
            "images, or leave prior.features out: the prior then sees what the model sees"
        )
    # On one thread, as `kernel_directions`: other last digits would be another release.
    with threads(1):
        found = described_by_features(
            data, image_features(settings.features), folder=data.features_folder
        )
    name = f"{data.fingerprint} {settings.features}"
    return Rows(name, found.train_features, data.features_folder)


def _by_encoder(file: str, data: PublicData) -> "Rows":
    """Return the training images as vectors of an encoder that learned of them alone."""
    from labeldp.trainers.encoders.encoder import digest_of
    from labeldp.trainers.encoders.image_encoder import described, of_same_images

    encoder = of_same_images(file, data, key="trainer.prior.encoder")
    fast = Performance(precision=Precision.AUTO, channels_last=True)
    weights = digest_of(encoder)
    (found,) = made_once(
        lambda: (described(encoder, data.train_features, performance=fast).numpy(),),
        folder=data.features_folder,
        name="vectors",
        key={"encoder": weights, "images": data.fingerprint},
    )
    vectors = torch.from_numpy(found)
    scaled = ScaledStep.fit(vectors)(vectors)  # a kernel measures distances
    return Rows(f"{data.fingerprint} {weights}", scaled, data.features_folder)


class Directions(NamedTuple):
    """Orthonormal functions on the examples, the smoothest first.

    `values` are single precision [N, M], columns of norm 1; `strengths` eigenvalues [M].
    """

    values: NDArray[np.float32]
    strengths: NDArray[np.float64]


@threads(1)
def kernel_directions(features: Tensor, *, landmarks: int, seed: int) -> Directions:
    """Find the strongest directions of a Gaussian kernel on features [N, ...], by Nystroem.

    `landmarks` random examples stand for all. On one thread, however many there are: sums are split
    among threads, other splits give other last digits, and a release is addressed by its public
    inputs to the last bit.
    """
    rows = features.flatten(1).float().cpu()
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:landmarks]
    centers = rows[chosen]
    distances = torch.cdist(centers[:_MEASURED], centers[:_MEASURED]).square()
    # The median distance is the scale of the data: no setting has to be tuned on labels.
    median = float(distances.median())
    # Half of the distances are 0 between two landmarks, and where most rows are equal.
    width = _WIDTH * (median if median > 0 else float(distances.mean()))

    def kernel(some: Tensor) -> Tensor:
        return torch.cdist(some, centers).square_().mul_(-1 / max(width, 1e-30)).exp_()

    # In double precision: small eigenvalues are divided by, and single precision would leave noise
    # of them.
    values, vectors = torch.linalg.eigh(kernel(centers).double())
    kept = values > _LEAST_SHARE * values[-1]
    inverse_root = (vectors[:, kept] * values[kept].rsqrt()).float()
    gram = torch.zeros(len(inverse_root.T), len(inverse_root.T))
    embedded = torch.empty(len(rows), len(gram))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = kernel(rows[start : start + _ROWS_AT_ONCE]) @ inverse_root
        embedded[start : start + _ROWS_AT_ONCE] = block
        gram += block.mT @ block
    strengths, rotation = (part.flip(-1) for part in torch.linalg.eigh(gram.double()))
    strong = strengths > _LEAST_SHARE * strengths[0]
    turned = (rotation[:, strong] * strengths[strong].rsqrt()).float()
    return Directions(values=(embedded @ turned).numpy(), strengths=strengths[strong].numpy())


def side_by_side(*parts: Tensor) -> Tensor:
    """Return features of several kinds [N, ...] as one [N, D], each kind with equal weight.

    Each is centered and brought to a mean squared norm of 1: a kernel measures distances.
    """
    shares = []
    for part in parts:
        rows = part.flatten(1).float()
        rows = rows - rows.mean(0)
        shares.append(rows / rows.square().sum(1).mean().sqrt().clamp(min=1e-12))
    return torch.cat(shares, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentQuery:
    """A question about labels, and the way to read its answer.

    `weights` are rows of length 1 at most [N, M], for `LabelMoments`, or indicators of clusters;
    `scale` is a factor on the sums, the length of the longest unscaled row.
    """

    weights: NDArray[np.float32] | csr_array
    directions: Directions
    scale: float

    @cached_property
    def _mixing(self) -> NDArray[np.float64]:
        """The matrix [M, M] that maps coefficients of the directions to scaled sums."""
        return (self.weights.T @ self.directions.values).astype(np.float64) * self.scale

    def scores(
        self,
        moments: NDArray[np.floating],
        *,
        noise_std: float,
        expected: NDArray[np.float32] | None = None,
        smoothness: float = _SMOOTHNESS,
    ) -> NDArray[np.float32]:
        """Return the posterior mean of the one-hot labels [N, K]: near 0..1, rows near a sum of 1.

        `moments` are noisy sums [M, K] of one-hot labels along the weights; `expected` is the prior
        mean [N, K], by default the same for all classes, and `smoothness` the share of the
        variance around it along these directions, in units of the average direction's.
        """
        values = self.directions.values
        strengths = self.directions.strengths
        examples = len(values)
        classes = moments.shape[1]
        mean = 1 / classes
        if expected is None:
            expected = np.full((examples, classes), mean, np.float32)
        sums = np.asarray(moments, np.float64) - self.weights.T @ expected
        mixing = self._mixing
        sums *= self.scale
        # Each direction carries labels with a variance in proportion to its strength; in all there
        # is the variance of a one-hot entry, times the number of examples.
        variance = examples * mean * (1 - mean) * smoothness * strengths / strengths.sum()
        noise = (self.scale * noise_std) ** 2
        normal = mixing.T @ mixing + np.diag(noise / variance)
        coefficients = np.linalg.solve(normal, mixing.T @ sums)
        scores: NDArray[np.float32] = values @ coefficients.astype(np.float32) + expected
        return scores


def moment_query(directions: Directions, *, noise_std: float) -> MomentQuery:
    """Decide how many directions to request: as many as leave little noise in a prediction.

    `noise_std` is that of each sum, for rows of length 1.
    """
    examples, most = directions.values.shape
    leverage = np.zeros(examples)
    count = min(most, _DIRECTIONS_AT_ONCE)  # the strongest few always
    for end in range(count, most + 1, _DIRECTIONS_AT_ONCE):
        block = directions.values[:, end - _DIRECTIONS_AT_ONCE : end]
        leverage += np.einsum("ij,ij->i", block, block)
        longest = float(np.quantile(leverage, _KEPT_WHOLE))
        if noise_std * math.sqrt(longest * end / examples) > _TOLERATED:
            break
        count = end
    values = directions.values[:, :count]
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    scale = float(np.quantile(lengths, _KEPT_WHOLE))
    weights = values / np.maximum(lengths, scale)[:, None]
    # Shorten rows that a release would refuse; all others keep their bits. Lengths were summed in
    # single precision, which errs by more than a release allows where a thousand directions are
    # requested. Of an exact length, entries that are rounded once are off by 2^-24 each, and so is
    # their length.
    longer = rows_too_long(weights)
    exact = weights[longer].astype(np.float64)
    weights[longer] = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return MomentQuery(
        weights=weights,
        directions=Directions(values=values, strengths=directions.strengths[:count]),
        scale=scale,
    )


def probabilities_from(
    moments: NDArray[np.floating],
    query: MomentQuery,
    directions: Directions,
    *,
    noise_std: float,
    seed: int,
    before: NDArray[np.floating] | None = None,
) -> NDArray[np.float64]:
    """Return probabilities of the classes [N, K] from noisy sums of labels [M, K].

    Where labels are random given the features, a regression of zeros and ones finds their
    probabilities. Where features determine the label it understates how sure a class is; a power of
    its scores is right. They then are the prior mean of the next reading, and `before` [N, K], if
    known, that of the first.

    The sums themselves choose this power, and how smooth labels are around that mean: as much noise
    again, once added and once subtracted, makes two independent answers of them, one to learn from
    and one to check.
    """
    values = directions.values

    def along(probabilities: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return probabilities [N, K] as far as all directions tell them."""
        projected: NDArray[np.float32] = values @ (values.T @ probabilities.astype(np.float32))
        return projected

    first = None if before is None else along(before)

    def read(
        sums: NDArray[np.floating], noise_std: float, contrast: float, smoothness: float
    ) -> NDArray[np.float64]:
        """Return probabilities in proportion to scores to the power of `contrast`."""
        expected = first
        smooth = _SMOOTHNESS
        for _ in range(_ROUNDS):
            scores = query.scores(sums, noise_std=noise_std, expected=expected, smoothness=smooth)
            smooth = smoothness
            powers = project_to_simplex(scores.astype(np.float64)) ** contrast
            found: NDArray[np.float64] = powers / powers.sum(1, keepdims=True)
            # Sums tell of few directions. Probabilities of more contrast than scores tell of all.
            if contrast > 1:
                expected = along(found)
            elif first is None:  # no more than the frequencies of the classes
                expected = np.broadcast_to(found.mean(0, dtype=np.float32), found.shape)
        return found

    noise = np.random.default_rng((seed, 1)).normal(scale=noise_std, size=moments.shape)

    def error(contrast: float, smoothness: float) -> float:
        found = read(moments + noise, math.sqrt(2) * noise_std, contrast, smoothness)
        # In single precision: a copy of the weights in double would be large.
        answer = query.weights.T @ found.astype(np.float32)
        return float(np.square(answer - (moments - noise)).sum())

    contrast = min(_CONTRASTS, key=lambda each: error(each, _SMOOTHNESS))
    smoothness = min(_LATER_SMOOTHNESS, key=lambda each: error(contrast, each))
    return read(moments, noise_std, contrast, smoothness)


@dataclass(frozen=True)
class Rows:
    """Features [N, ...] of the training examples, and the fingerprint of their content.

    `folder` is where results computed of them are kept; None for nowhere.
    """

    fingerprint: str
    features: Tensor
    folder: Path | None = None

    def kept(self, name: str, make: Callable[..., Arrays], **settings: float) -> Arrays:
        """Return what `make` finds of the features, once for all trials: up to a minute's work."""
        key = {"version": DIRECTIONS_VERSION, "features": self.fingerprint, **settings}
        return made_once(
            lambda: make(self.features, **settings), folder=self.folder, name=name, key=key
        )

    def directions(self, settings: PriorSettings) -> Directions:
        """Return the directions of the kernel on the features."""
        landmarks = min(settings.landmarks, max(2, len(self.features) // 2))
        how = {"landmarks": landmarks, "seed": settings.seed}
        return Directions(*self.kept("directions", kernel_directions, **how))


def clusters_of(features: Tensor, *, clusters: int, seed: int) -> NDArray[np.int64]:
    """Return the group of every example [N] by k-means on features [N, ...], without gaps."""
    rows = features.flatten(1).float().cpu().numpy()
    from sklearn.cluster import MiniBatchKMeans  # a second, which most trials have no use for

    means = MiniBatchKMeans(
        clusters, batch_size=max(4096, 2 * clusters), max_iter=20, n_init=1, random_state=seed
    )
    # Clusters may stay empty; numbers without gaps keep the histograms short.
    _, groups = np.unique(means.fit(rows).predict(rows), return_inverse=True)
    return groups.astype(np.int64)
