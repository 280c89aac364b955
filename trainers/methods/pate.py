"""PATE-FM: an ensemble of teachers answers under noise, students learn from the answers.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 3, on
the aggregators of Papernot et al., ICLR 2018.

`TeacherVotes` runs inside the trust boundary: a teacher learns from its own shard of true labels,
and its votes have no noise. A batch of teachers depends on its own shards and seeds, and on public
features; the same batch gives the same votes on every actor, and however often.

`Pate`, the trainer, sees answers alone. They have been paid for, so a student may look at them as
often as it likes; three students of the same answers cost what one costs. Teachers were trained
before (platform/ does that once for all settings of the noise).

A linear probe is a ridge regression: 800 of them take seconds, where 800 networks take days.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms.pate.releases import LABEL, PateAnswers
from labeldp.mechanisms.vault import Shard
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.fixmatch import FixMatch
from labeldp.trainers.methods.pate_settings import (
    EnsembleConfig,
    ForestSettings,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.methods.semi_supervised import (
    SemiSupervised,
    read_answers,
    smooth_functions,
)
from labeldp.trainers.models.features import described_by_features, image_features
from labeldp.trainers.models.learner import OnLabels, train_together
from labeldp.trainers.models.predictors import MeanPredictor, ProbePredictor
from labeldp.trainers.performance import Performance, threads
from labeldp.trainers.settings.trainer import (
    EstimatorPredictor,
    FittedAtOnce,
    LabelSource,
    Predictor,
    Trainer,
)
from labeldp.trainers.settings.training import EpochMetrics

#: Teachers that are trained or vote at once, and queries of one matrix product.
_TEACHERS_AT_ONCE = 100
_QUERIES_AT_ONCE = 2000


def train_probes(
    features: Tensor,
    shards: Sequence[NDArray[np.integer[Any]]],
    labels_of_shards: Sequence[NDArray[np.integer[Any]]],
    num_classes: int,
    *,
    ridge: float = 0.1,
) -> Tensor:
    """Train a ridge regression on each shard; return weights [T, D + 1, K], the bias last.

    Each minimizes sum_i |y_i - W x_i|^2 + ridge |W|^2 over its own examples, where x ends with a
    constant 1 and y is the one-hot label less 1/K. The result of a shard depends on the labels
    of that shard alone.

    `features` [N, D] are computed without labels, centered and with a mean squared norm of about 1,
    as `described_by_features` gives them, for the default ridge to fit; it is fixed beforehand,
    never chosen by labels. `shards` are indices of each teacher's examples, T times [n_t], which
    the vault cuts, disjoint; K is 256 at most.
    """
    weights = features.new_empty((len(shards), features.shape[1] + 1, num_classes))
    for teachers in _groups_of_one_size(shards):
        indices, labels = (
            torch.from_numpy(np.stack([part[t] for t in teachers]).astype(np.int64))
            for part in (shards, labels_of_shards)
        )
        indices = indices.to(features.device)
        labels = labels.to(features.device)
        targets = functional.one_hot(labels, num_classes).to(features.dtype) - 1 / num_classes
        inputs = functional.pad(features[indices], (0, 1), value=1.0)  # the constant
        weights[teachers] = _ridge_regression(inputs, targets, ridge)
    return weights


def vote(probes: Tensor, query_features: Tensor) -> NDArray[np.uint8]:
    """Return each teacher's vote [T, Q] on queries [Q, D]: its first highest score."""
    teachers, width, classes = probes.shape
    votes = np.empty((teachers, len(query_features)), dtype=np.uint8)
    for first in range(0, teachers, _TEACHERS_AT_ONCE):
        some = probes[first : first + _TEACHERS_AT_ONCE]
        flat = some.transpose(0, 1).reshape(width, -1)
        # All scores of all teachers would take gigabytes.
        for start in range(0, len(query_features), _QUERIES_AT_ONCE):
            queries = query_features[start : start + _QUERIES_AT_ONCE].to(flat)
            scores = torch.addmm(flat[-1], queries, flat[:-1]).view(len(queries), -1, classes)
            chosen = scores.argmax(2).to(torch.uint8).T
            votes[first : first + len(some), start : start + len(queries)] = chosen.cpu().numpy()
    return votes


def _ridge_regression(x: Tensor, y: Tensor, ridge: float) -> Tensor:
    """Solve for the weights [T, D, K] of x [T, n, D] and y [T, n, K], in the smaller dimension."""
    tall = x.shape[1] > x.shape[2]
    # Products in single precision, the solution in double: a small ridge leaves the matrix nearly
    # singular.
    gram = (x.mT @ x if tall else x @ x.mT).double()
    gram.diagonal(dim1=1, dim2=2).add_(ridge)
    right = x.mT @ y if tall else y
    # On one thread: MKL's batched LU fails on several once their number has changed.
    with threads(1):
        solution: Tensor = torch.linalg.solve(gram, right.double()).to(x)
    return solution if tall else x.mT @ solution


def _groups_of_one_size(rows: Sequence[NDArray[Any]]) -> Iterator[list[int]]:
    """Teachers whose shards are equally large can be stacked; bounded groups bound the memory."""
    sizes = np.array([len(indices) for indices in rows])
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size).tolist()
        for start in range(0, len(same), _TEACHERS_AT_ONCE):
            yield same[start : start + _TEACHERS_AT_ONCE]


def fit_forest(
    features: torch.Tensor, labels: NDArray[np.int64], *, settings: ForestSettings, seed: int
) -> Any:
    """Fit a forest to features [N, D], or to images pixel by pixel, and labels [N]."""
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(
        n_estimators=settings.trees,
        min_samples_leaf=settings.min_samples_leaf,
        random_state=seed % 2**32,
        n_jobs=1,
    )
    return model.fit(features.flatten(1).float().numpy(), labels)


def start_student(
    config: StudentConfig | EnsembleConfig,
    *,
    examples: NDArray[np.intp],
    labels: NDArray[np.int64],
    functions: NDArray[np.float32] | None = None,
    **given: Any,
) -> Trainer:
    """Set up a student that learns from answers [M], or a teacher, on training `examples` [M].

    A semi-supervised student needs smooth `functions` of all training examples [N, D]. `given` are
    data, seed and performance.
    """
    if len(examples) == 0:
        raise ValueError(
            "no query was answered, so there is nothing for a student to learn from; lower the "
            "threshold or sigma1, or let more teachers vote"
        )
    config.check_data(given["data"])
    given |= {"examples": examples, "labels": labels}
    match StudentKind(config.kind):
        case StudentKind.FIXMATCH:
            return FixMatch(config.fixmatch, **given)
        case StudentKind.NETWORK:
            return OnLabels(config.network, **given)
        case StudentKind.SEMI_SUPERVISED:
            assert isinstance(config, StudentConfig) and functions is not None
            classes = given["data"].num_classes
            posterior = read_answers(functions, examples, labels, num_classes=classes)
            return SemiSupervised(config.semi_supervised, posterior=posterior, **given)
    return _ClosedFormStudent(config=config, **given)


# Labels of a teacher are secret: no text shows them.
@dataclass(kw_only=True, eq=False, repr=False)
class _ClosedFormStudent(FittedAtOnce[Predictor]):
    """A probe or a forest; both compute on the CPU, in single precision."""

    config: StudentConfig | EnsembleConfig
    data: PublicData
    examples: NDArray[np.intp]
    labels: NDArray[np.int64]
    seed: int
    performance: Performance

    def _fitted(self) -> Predictor:
        config = self.config
        features = self.data.train_features
        classes = self.data.num_classes
        if config.kind == StudentKind.FOREST:
            rows = features[torch.from_numpy(self.examples)]
            forest = fit_forest(rows, self.labels, settings=config.forest, seed=self.seed)
            return EstimatorPredictor(estimator=forest, num_classes=classes)
        probes = train_probes(features, [self.examples], [self.labels], classes, ridge=config.ridge)
        return ProbePredictor(weights=probes[0])

    def _loss(self) -> float:
        """Cross-entropy to the answers, from probabilities that a forest may round to 0."""
        likely = self.predict(self.data.train_features[torch.from_numpy(self.examples)])
        chosen = likely[np.arange(len(self.labels)), self.labels]
        return float(-np.log(np.maximum(chosen, 1e-12)).mean())

    def evaluate(self) -> float:
        return self.data.test_accuracy(self.predict(self.data.test_features).argmax(1))


class AnswerSource(LabelSource, Protocol):
    """A source of an ensemble's answers, which are paid for."""

    def answers(
        self,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Return answers [Q, 2] to the ensemble's first queries.

        `requests` are all rounds so far; earlier answers are not paid again. An interactive round
        takes `student_scores` [Q, K]. `publish_cost` releases a bound on the real cost too.
        """


def start(
    config: PateConfig,
    *,
    data: PublicData,
    labels: AnswerSource,
    seed: int,
    performance: Performance,
) -> "Pate":
    """Request the answers, and set the students up."""
    positions = config.ensemble.query_positions(len(data.train_features))
    rounds = config.rounds
    functions = None
    if config.student.kind is StudentKind.SEMI_SUPERVISED:
        # Before the answers are paid: not all data have such functions.
        functions = smooth_functions(config.student.features, data)

    def ask(count: int, scores: NDArray[np.float32] | None = None) -> NDArray[np.int64]:
        publish = config.publishes
        return labels.answers(
            config.ensemble, rounds[:count], scores, delta=config.delta, publish_cost=publish
        )

    def student(released: NDArray[np.int64], seed: int) -> Trainer:
        known = released[:, LABEL] >= 0
        return start_student(
            config.student,
            data=data,
            examples=positions[: len(released)][known],
            labels=released[known, LABEL].astype(np.int64),
            functions=functions,
            seed=seed,
            performance=performance,
        )

    # The first round before a student: an interactive check needs its predictions.
    released = ask(1)
    if len(rounds) > 1:
        first = student(released, seed)
        for _ in range(config.student.epochs):
            first.epoch()
        later = positions[rounds[0].queries : config.ensemble.queries]
        # Both rounds are requested. The first is read again, for free.
        released = ask(2, first.predict(data.train_features[later]))
    students = [student(released, config.students * seed + n) for n in range(config.students)]
    answered = int((released[:, LABEL] >= 0).sum())
    return Pate(students, epochs_each=config.student.epochs, answered=answered)


class Pate(Trainer):
    """Students of one ensemble, trained one after the other."""

    def __init__(self, students: list[Trainer], *, epochs_each: int, answered: int) -> None:
        self.students = students
        self._epochs_each = epochs_each
        self._answered = answered
        self._epoch = 0

    def epoch(self) -> EpochMetrics:
        """Train the student whose turn it is for one epoch."""
        metrics = self.students[self._epoch // self._epochs_each].epoch()
        self._epoch += 1
        return replace(metrics, epoch=self._epoch)

    @property
    def _trained(self) -> list[Trainer]:
        """Students that are trained to their end; before there is one, the first student."""
        return self.students[: max(1, self._epoch // self._epochs_each)]

    def predictor(self) -> MeanPredictor:
        """Return the students, apart from what trains them."""
        found = (student.predictor() for student in self._trained)
        return MeanPredictor(parts=tuple(part for part in found if part is not None))

    def evaluate(self) -> float:
        """Mean accuracy of the students on the public test split; NaN where there is none."""
        return fmean(student.evaluate() for student in self._trained)

    def figures(self) -> dict[str, float]:
        """How far the students are apart, and how many labels they had."""
        accuracies = [student.evaluate() for student in self._trained]
        if math.isnan(accuracies[0]):  # without a public test split
            return {"answered": float(self._answered)}
        spread = stdev(accuracies) if len(accuracies) > 1 else 0.0
        return {"answered": float(self._answered), "student_accuracy_std": spread}

    def state_dict(self) -> dict[str, Any]:
        """Return all that a bit-identical continuation needs."""
        return {
            "epoch": self._epoch,
            "students": [student.state_dict() for student in self.students],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._epoch = int(state["epoch"])
        for student, its in zip(self.students, state["students"], strict=True):
            student.load_state_dict(its)


@dataclass(frozen=True, kw_only=True)
class TeacherVotes:
    """Trains batches of an ensemble's teachers; sent to the actors of a pool."""

    config: EnsembleConfig
    performance: Performance = field(default_factory=Performance)

    def __call__(
        self, teachers: Sequence[int], shards: Sequence[Shard], data: PublicData
    ) -> NDArray[np.uint8]:
        """Train n teachers, by their numbers, on their shards; return their votes [n, Q]."""
        config = self.config
        config.check_data(data)
        positions = config.query_positions(len(data.train_features))
        if config.kind is TeacherKind.SMOOTH:
            functions = torch.from_numpy(smooth_functions(config.features, data))
            return self._votes_of_probes(shards, functions, positions, data.num_classes)
        if config.features is not FeatureSet.AS_THEY_ARE:
            own = image_features(config.features)
            data = described_by_features(data, own, folder=data.features_folder)
            config = replace(config, features=FeatureSet.AS_THEY_ARE)
        if config.kind is TeacherKind.NEIGHBORS:
            return self._votes_of_neighbors(shards, data, positions)
        if config.kind is TeacherKind.PROBE:
            return self._votes_of_probes(shards, data.train_features, positions, data.num_classes)
        queries = data.train_features[torch.from_numpy(positions)]
        # A single teacher's accuracy is not used: one test row instead of thousands per epoch.
        silent = replace(
            data, test_features=data.test_features[:1], test_labels=data.test_labels[:1]
        )
        started = []
        for number, shard in zip(teachers, shards, strict=True):
            # A seed of its own, however teachers are cut into batches.
            text = f"labeldp teacher {config.seed} {number}".encode()
            teacher = start_student(
                config,
                data=silent,
                examples=shard.indices,
                labels=shard.labels,
                seed=int.from_bytes(hashlib.sha256(text).digest()[:4], "little"),
                performance=self.performance,
            )
            started.append(teacher)
        for group in _groups_of_one_size([shard.indices for shard in shards]):
            train_together([started[each] for each in group], epochs=config.epochs)
        return np.stack([each.predict(queries).argmax(1).astype(np.uint8) for each in started])

    def _votes_of_probes(
        self,
        shards: Sequence[Shard],
        features: Tensor,
        positions: NDArray[np.intp],
        num_classes: int,
    ) -> NDArray[np.uint8]:
        probes = train_probes(
            features,
            [shard.indices for shard in shards],
            [shard.labels for shard in shards],
            num_classes,
            ridge=self.config.ridge,
        )
        return vote(probes, features[torch.from_numpy(positions)])

    def _votes_of_neighbors(
        self, shards: Sequence[Shard], data: PublicData, positions: NDArray[np.intp]
    ) -> NDArray[np.uint8]:
        """Vote with each query's nearest labels, out of all shards together [T, Q]."""
        config = self.config
        assert len(shards) == config.teachers, "they are one batch"
        rows = nearest(
            data.train_features,
            positions,
            count=config.teachers,
            most=config.queries_per_label or config.queries,
        )
        labels = np.empty(len(data.train_features), dtype=np.uint8)
        for shard in shards:
            labels[shard.indices] = shard.labels
        return labels[rows.T]


#: Queries whose distances to all examples are in memory at once.
_NEIGHBORS_AT_ONCE = 100


def nearest(
    features: Tensor, queries: NDArray[np.intp], *, count: int, most: int
) -> NDArray[np.intp]:
    """Return the `count` nearest examples of each query [Q, count], the nearest first.

    Their labels vote, and no teacher is trained: Zhu et al., "Private-kNN: Practical Differential
    Privacy for Computer Vision", CVPR 2020. There a query's neighbors are private rows; here
    features are public, and so is which example is near which query. One label is one vote of each
    query that it is near, as for PATE. If no label is near more than `most` queries, each pays for
    so many alone (`mechanisms.pate.releases.NeighborAnswers`). That takes the place of the
    published subsampling, whose amplification is stated for rows that come and go.

    Distances are Euclidean between features [N, ...], raw pixels or columns; `queries` [Q] are
    positions among them, each its own nearest. An example that is near `most` queries already is
    passed over by later ones: there are enough if (Q - 1) count <= most (N - count).
    """
    rows = features.flatten(1).float()
    used = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    found = []
    for start in range(0, len(queries), _NEIGHBORS_AT_ONCE):
        asked = torch.from_numpy(queries[start : start + _NEIGHBORS_AT_ONCE])
        for distances in torch.cdist(rows[asked], rows):
            distances[used >= most] = torch.inf
            chosen = distances.topk(count, largest=False).indices
            used[chosen] += 1
            found.append(chosen.cpu().numpy())
    if int(used.max()) > most:  # a guarantee: not an assertion, which python -O removes
        raise ArithmeticError(f"a label votes on {int(used.max())} queries, above {most}")
    return np.stack(found)
