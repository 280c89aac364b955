"""Settings of PATE: teachers vote, votes become answers, and students learn from answers."""

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms._validate import LARGEST_WHOLE_SCALE
from labeldp.mechanisms.accounting import USUAL_DELTA, composed
from labeldp.mechanisms.ledger import Priced, failure_of, total_of_prices
from labeldp.mechanisms.pate.accounting import CheckNoise
from labeldp.mechanisms.pate.aggregators import (
    Aggregator,
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    least_noise,
)
from labeldp.mechanisms.pate.releases import NeighborAnswers, PateAnswers, PublishedCost
from labeldp.trainers.base import (
    Count,
    FeatureSet,
    Flag,
    ModelName,
    NonNegative,
    Positive,
    Seed,
    Share,
    Weight,
    key,
    settings,
)
from labeldp.trainers.data.files import content_of
from labeldp.trainers.settings.trainer import PlannedCharge, TrainerDefaults
from labeldp.trainers.settings.training import (
    FewLabelsConfig,
    FixMatchConfig,
    LearnerConfig,
    SemiSupervisedConfig,
    Work,
    with_source,
)

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.pate import Pate

#: A vote is one byte.
MOST_CLASSES = 256
_FEATURES = "Features of the teachers: the trial's, or others as in `data.features`."


@settings
class ForestSettings:
    """Settings of a random forest."""

    trees: Count = key(100, "Number of trees.")
    min_samples_leaf: Count = key(1, "Smallest number of examples in a leaf.")


class TeacherKind(StrEnum):
    """Kinds of teachers; SMOOTH and FIXMATCH see all features, and NEIGHBORS are no models."""

    PROBE = "probe"
    SMOOTH = "smooth"
    FOREST = "forest"
    NETWORK = "network"
    FIXMATCH = "fixmatch"
    NEIGHBORS = "neighbors"


class StudentKind(StrEnum):
    """Kinds of students; PROBE has nothing to draw: its students are all the same."""

    PROBE = "probe"
    FOREST = "forest"
    NETWORK = "network"
    FIXMATCH = "fixmatch"
    SEMI_SUPERVISED = "semi_supervised"


@settings
class _Models:
    """Settings of the models that teachers and students can be."""

    ridge: Positive = key(0.1, "L2 penalty of probes (ridge regressions).")
    forest: ForestSettings = key(ForestSettings(), "Of forests.")
    network: LearnerConfig = key(LearnerConfig(), "Of networks.")
    fixmatch: FixMatchConfig = key(FixMatchConfig(), "Of FixMatch.")
    kind: TeacherKind | StudentKind = key(StudentKind.PROBE, "Kind of the model.")
    features: FeatureSet = key(FeatureSet.AS_THEY_ARE, _FEATURES)

    @property
    def epochs(self) -> int:
        """Calls of `epoch` until it is trained."""
        network = self.network_settings()
        return 1 if network is None else network.epochs

    def network_settings(self) -> "LearnerConfig | FewLabelsConfig | None":
        """Settings of the network that the model is; None for another kind."""
        if self.kind == StudentKind.NETWORK:
            return self.network
        return self.fixmatch if self.kind == StudentKind.FIXMATCH else None

    def _check_model(self, data: "PublicData", key_of_kind: str) -> None:
        own = self.features is not FeatureSet.AS_THEY_ARE
        network = self.network_settings()
        if network is not None:
            network.check_data(data)
        if own and data.kind.value != "image":
            raise ValueError(
                f"{key_of_kind.replace('kind', 'features')} is {self.features}, which are features "
                f"of images, but {data.name} is {data.kind.value} here; set "
                "data.features=as_they_are, or leave them out"
            )
        if self.kind == "probe" and data.kind.value == "image" and not own:
            raise ValueError(
                f"{data.name} holds images, and a probe is linear in its features; set "
                f"data.features=patches, or another {key_of_kind}"
            )


@settings
class EnsembleConfig(_Models):
    """Everything that decides an ensemble's votes, except data and labels."""

    kind: TeacherKind = key(
        TeacherKind.PROBE,
        "Kind of teacher: `probe` (linear), `smooth` (linear in smooth functions of all examples), "
        "`forest`, `network`, `fixmatch` (PATE-FM) or `neighbors` (the labels nearest to a query "
        "vote).",
    )
    teachers: Count = key(
        250, "Number of teachers (T); with `neighbors`, number of labels that vote on a query (k)."
    )
    queries: Count = key(3000, "Number of training examples that the teachers vote on (Q).")
    seed: Seed = key(0, "Seed of the shards, the choice of queries and the teachers' training.")
    queries_per_label: Count | None = key(
        None,
        "With `neighbors`: largest number of queries that a label votes on and pays for. "
        "Later queries skip such labels. Null: all queries.",
    )

    def __post_init__(self) -> None:
        if self.queries_per_label is not None and self.kind is not TeacherKind.NEIGHBORS:
            raise ValueError(
                f"queries_per_label is {self.queries_per_label}, but each of {self.kind} teachers "
                "votes on every query; set ensemble.kind=neighbors, or leave it out"
            )

    def work(self, examples: int) -> tuple[Work, ...]:
        """Return what all teachers learn from where there are N training examples."""
        network = self.network_settings()
        if network is None:
            return ()
        # A network learns from its own labels alone; FixMatch from the features of all.
        seen = examples // self.teachers if network is self.network else examples
        return tuple(part.times(self.teachers) for part in network.work(seen))

    @property
    def batch(self) -> int:
        """Teachers that an actor trains in a call, and that are lost together when it dies."""
        if self.kind in (TeacherKind.NEIGHBORS, TeacherKind.SMOOTH):
            return self.teachers
        # A GPU trains small networks in one step; together they fill it, and take little memory.
        small = self.network.model in (ModelName.MLP, ModelName.SMALL_CNN)
        networks = 8 if small else 1
        kinds = {TeacherKind.PROBE: 100, TeacherKind.FOREST: 5, TeacherKind.NETWORK: networks}
        return kinds.get(self.kind, 1)

    def facts(self) -> dict[str, Any]:
        """Return all that decides the votes, as plain values."""
        found = asdict(self)
        # Later settings: votes and answers of earlier versions are found, and not paid again.
        if not self.network.recipe.cutout:
            del found["network"]["recipe"]["cutout"]
        if self.features is FeatureSet.AS_THEY_ARE:
            del found["features"]
        if self.fixmatch.encoder is None:
            del found["fixmatch"]["encoder"]
        for part in (found["network"], found["fixmatch"]):
            part["model"] = with_source(part["model"])
            if part.get("encoder"):
                part["encoder"] = content_of(part["encoder"])
        return found

    def check_count(self, examples: int) -> None:
        """Refuse more teachers or queries than training examples."""
        if self.kind is TeacherKind.NEIGHBORS:
            self._check_neighbors(examples)
        elif self.teachers > examples:
            raise ValueError(
                f"ensemble.teachers is {self.teachers}, but there are {examples} labels: some "
                "teachers would have none; take fewer teachers, or more data"
            )
        self.query_positions(examples)

    def check_data(self, data: "PublicData") -> None:
        """Refuse data that these teachers cannot learn from, before any of them starts."""
        self.check_count(len(data.train_features))
        if data.num_classes > MOST_CLASSES:
            raise ValueError(
                f"{data.name} has {data.num_classes} classes, but a vote is kept in one byte, so "
                f"that teachers distinguish at most {MOST_CLASSES} classes; take another method"
            )
        if self.kind in (TeacherKind.NEIGHBORS, TeacherKind.SMOOTH):
            data.require_numbers(user="the distance between examples")
        self._check_model(data, "ensemble.kind")
        network = self.network_settings()
        own = self.features is not FeatureSet.AS_THEY_ARE
        if own and network is not None and getattr(network.model, "needs_images", False):
            raise ValueError(
                f"ensemble.features is {self.features}, which are vectors, but {network.model} "
                "needs images: set ensemble.features=as_they_are, or take teachers of mlp"
            )

    def _check_neighbors(self, examples: int) -> None:
        k = self.teachers
        most = self.queries_per_label
        if k >= examples:
            raise ValueError(
                f"ensemble.teachers is {k}, but there are {examples} labels: every query would be "
                "answered alike, by all of them; take fewer neighbors, a hundredth of the labels"
            )
        least = math.ceil((self.queries - 1) * k / (examples - k))
        if most is not None and most < least:
            raise ValueError(
                f"ensemble.queries_per_label is {most}, but {self.queries} queries with {k} "
                f"neighbors each among {examples} labels need {least}; raise it, or take fewer "
                "queries or neighbors"
            )

    def query_positions(self, examples: int) -> NDArray[np.intp]:
        """Return the training examples that are voted on [Q], in the order of asking; public."""
        if self.queries > examples:
            raise ValueError(
                f"ensemble.queries is {self.queries}, but there are {examples} training examples "
                "to vote on; set fewer queries"
            )
        generator = np.random.default_rng([self.seed, 1])
        return generator.permutation(examples)[: self.queries].astype(np.intp)


@settings
class StudentConfig(_Models):
    """A student's settings."""

    kind: StudentKind = key(
        StudentKind.PROBE,
        "Kind of student: `probe` (linear), `forest`, `network`, `fixmatch`, or `semi_supervised` "
        "(a network that learns from the answers, and from all features with the answers as "
        "evidence).",
    )
    semi_supervised: SemiSupervisedConfig = key(
        SemiSupervisedConfig(), "Of students that learn from all features."
    )
    features: FeatureSet = key(
        FeatureSet.AS_THEY_ARE,
        "Features along which `semi_supervised` reads the answers: the trial's, or others as in "
        "`data.features`.",
    )

    def __post_init__(self) -> None:
        own = self.features is not FeatureSet.AS_THEY_ARE
        if own and self.kind is not StudentKind.SEMI_SUPERVISED:
            raise ValueError(
                f"student.features is {self.features}, but student.kind {self.kind} predicts from "
                "the trial's features alone; set data.features, or student.kind=semi_supervised"
            )

    def network_settings(self) -> "LearnerConfig | FewLabelsConfig | None":
        """Settings of the network that the student is; None for another kind."""
        if self.kind is StudentKind.SEMI_SUPERVISED:
            return self.semi_supervised
        return super().network_settings()

    def check_data(self, data: "PublicData") -> None:
        """Refuse data that this student cannot learn from."""
        if self.kind is StudentKind.SEMI_SUPERVISED:
            data.require_numbers(user="a semi-supervised student")
        self._check_model(data, "student.kind")


class AggregatorKind(StrEnum):
    """How votes become answers (`mechanisms/pate/aggregators.py`)."""

    CONFIDENT = "confident"
    GNMAX = "gnmax"
    LNMAX = "lnmax"
    INTERACTIVE = "interactive"


@settings
class PateConfig(TrainerDefaults):
    """Settings of PATE-FM."""

    ensemble: EnsembleConfig = key(
        EnsembleConfig(), "The teachers; everything else here reuses their votes."
    )
    aggregator: AggregatorKind = key(
        AggregatorKind.CONFIDENT,
        "Aggregation of votes: `gnmax` and `lnmax` answer every query; `confident` answers if "
        "the largest noisy count passes `threshold`, `interactive` if teachers contradict the "
        "student.",
    )
    epsilon: Positive | None = key(
        None,
        "Privacy loss per label for checks and answers together, whatever the votes. "
        "It calibrates noise that is not set. Null: 1, unless `sigma1` and `sigma2` set the "
        "noise.",
    )
    threshold: NonNegative | None = key(
        None,
        "Noisy count that the check of `confident` and `interactive` requires, in votes "
        "(tau). Null: 60% of the teachers.",
    )
    sigma1: Positive | None = key(
        None, "Standard deviation of the check's noise, in votes. Null: calibrated."
    )
    sigma2: Positive | None = key(
        None,
        "Standard deviation of the answers' noise, in votes. Null: calibrated. `lnmax` uses "
        "Laplace noise of scale sigma2 / sqrt 2, which `labeldp epsilon pate --aggregator "
        "lnmax` takes as --sigma2.",
    )
    check_noise: CheckNoise = key(
        CheckNoise.ON_MAXIMUM,
        "Counts to which the check of `confident` adds noise: the largest (`on_maximum`), or every "
        "count (`per_class`, as Algorithm 2 of PATE-FM is printed), which is priced as two checks.",
    )
    confidence: Weight = key(
        0.95, "With `interactive`: a student more confident than this keeps its own label."
    )
    answers: Count = key(500, "Largest number of answered queries (K).")
    delta: Share = key(USUAL_DELTA, "Delta of epsilon.")
    publish_cost: Flag | None = key(
        None,
        "Release a noisy estimate of the real cost of the answers (`epsilon_sanitized`), with a "
        "charge of its own. Null: only if all noise is set.",
    )
    student: StudentConfig = key(StudentConfig(), "The model that learns from the answers.")
    students: Count = key(3, "Number of students. Their mean and spread are reported.")

    def __post_init__(self) -> None:
        teachers = self.ensemble.teachers
        # Three standard deviations above what a unanimous vote has, one query in a thousand passes.
        if (
            self._has_check
            and self.threshold is not None
            and self.sigma1 is not None
            and self.threshold > teachers + 3 * self.sigma1
        ):
            raise ValueError(
                f"threshold is {self.threshold:g}, but {teachers} teachers that all agree reach "
                f"{teachers} votes and with noise of sigma1 {self.sigma1:g} hardly more than "
                f"{teachers + 3 * self.sigma1:g}: nothing would pass; the papers take 10% to 75% "
                f"of the teachers, {0.1 * teachers:g} to {0.75 * teachers:g}"
            )
        if self.answers > self.ensemble.queries:
            raise ValueError(
                f"answers is {self.answers}, but ensemble.queries is {self.ensemble.queries}; "
                "request fewer answers, or let teachers vote on more queries"
            )
        confident = self.aggregator is AggregatorKind.CONFIDENT
        if self.check_noise is CheckNoise.PER_CLASS and not confident:
            raise ValueError(
                f"check_noise is {self.check_noise} for aggregator {self.aggregator}; noise on "
                "every count before the check is an option of confident alone: leave it out"
            )
        if self.aggregator is AggregatorKind.INTERACTIVE and self.answers < 2:
            raise ValueError("an interactive run has two rounds; request at least 2 answers")

    @property
    def _has_check(self) -> bool:
        return self.aggregator in (AggregatorKind.CONFIDENT, AggregatorKind.INTERACTIVE)

    def work(self, examples: int) -> tuple[Work, ...]:
        """Return what all students learn from; the teachers' work is the ensemble's."""
        network = self.student.network_settings()
        if network is None:
            return ()
        seen = self.answers if network is self.student.network else examples
        return tuple(part.times(self.students) for part in network.work(seen))

    def calibrated(self) -> "PateConfig":
        """Return these settings with the noise and threshold that they lead to.

        They depend on neither the data nor the votes, and cost nothing.
        """
        # Seeds, students and settings of teachers change no price: settings that differ in them
        # alone are calibrated once.
        priced = ("kind", "teachers", "queries", "queries_per_label")
        asked = EnsembleConfig(**{name: getattr(self.ensemble, name) for name in priced})
        found = _calibrated(replace(self, ensemble=asked, student=StudentConfig(), students=1))
        return replace(found, ensemble=self.ensemble, student=self.student, students=self.students)

    def check_data(self, data: "PublicData") -> None:
        """Refuse data that do not fit, before any teacher or trial starts."""
        self.ensemble.check_data(data)
        self.student.check_data(data)

    def fits_all(self, *, images: bool) -> bool:
        """Whether `check_data` accepts all images, or all tables of numbers."""
        simple = ["forest"] if images else ["forest", "probe"]
        student = self.student
        teaches = self.ensemble.kind in (*simple, TeacherKind.SMOOTH)
        learns = student.kind in simple
        if student.kind is StudentKind.SEMI_SUPERVISED:
            learns = student.semi_supervised.model is ModelName.MLP
        as_they_are = {self.ensemble.features, student.features} == {FeatureSet.AS_THEY_ARE}
        return teaches and learns and (images or as_they_are)

    @property
    def epochs(self) -> int:
        """Of all students, one after the other."""
        return self.students * self.student.epochs

    @property
    def rounds(self) -> tuple[PateAnswers, ...]:
        """The requests: one, or two of half the queries and answers each."""
        noise: dict[str, Any] = {
            name: getattr(self.calibrated(), name) for name in ("threshold", "sigma1", "sigma2")
        }
        queries = self.ensemble.queries
        answers = self.answers
        most = self.ensemble.queries_per_label
        request: Callable[..., PateAnswers] = PateAnswers
        if most is not None:
            request = partial(NeighborAnswers, queries_per_label=most)
        if self.aggregator is AggregatorKind.GNMAX:
            aggregator: Aggregator = GNMax(noise_std=noise["sigma2"])
        elif self.aggregator is AggregatorKind.LNMAX:
            aggregator = LNMax(scale=noise["sigma2"] / 2**0.5)
        else:
            aggregator = ConfidentGNMax(**noise, check_noise=self.check_noise)
            if self.aggregator is AggregatorKind.INTERACTIVE:
                half = queries // 2
                some = answers // 2
                second = InteractiveGNMax(**noise, confidence=self.confidence)
                return (
                    request(aggregator=aggregator, queries=half, max_answers=some),
                    request(aggregator=second, queries=queries - half, max_answers=answers - some),
                )
        return (request(aggregator=aggregator, queries=queries, max_answers=answers),)

    @property
    def price(self) -> float:
        """Epsilon of a trial for any votes, of settings whose noise is all given."""
        charge = replace(self, epsilon=None).planned_charge(num_classes=2, seed=0)
        return total_of_prices([charge], delta=self.delta)[0]

    @property
    def publishes(self) -> bool:
        """Whether a bound on the cost is published: it is proven for one round, not for two."""
        return bool(self.calibrated().publish_cost) and len(self.rounds) == 1

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay for its answers, and for publishing what they cost."""
        rounds = self.rounds
        published = None
        if self.publishes:
            published = PublishedCost.of(
                rounds[0],
                teachers=self.ensemble.teachers,
                classes=num_classes,
                delta=self.delta,
            )
        paid: list[Priced] = [*rounds, *([] if published is None else [published])]
        known: tuple[object, ...] | None = None
        if len(rounds) > 1:
            # Each student shows scores of its own to the teachers in an interactive round.
            known = (self.student, seed)
        return PlannedCharge(
            event=composed([each.event for each in paid]),
            failure_probability=failure_of(paid),
            release=(self.ensemble, rounds, self.delta, published, known),
            releases=len(paid),
            mechanisms=tuple(paid),
        )

    def start(self, **given: Any) -> "Pate":
        """Return the trainer; the `labels` that are given answer by votes (`AnswerSource`)."""
        from labeldp.trainers.methods.pate import start

        return start(self, **given)


#: Share of epsilon that pays for the checks: among published settings it is 5% to 20%.
_CHECK_SHARE = 0.1
#: The papers' thresholds are 10% to 75% of the teachers, most of them about so much.
_THRESHOLD_SHARE = 0.6
#: A difference from the requested epsilon beyond rounding.
_OTHER = 1e-6


@lru_cache(maxsize=256)
def _calibrated(settings: PateConfig) -> PateConfig:
    names = ("sigma1", "sigma2") if settings._has_check else ("sigma2",)
    missing = [name for name in names if getattr(settings, name) is None]
    threshold = settings.threshold
    publish = settings.publish_cost
    if settings._has_check and threshold is None:
        threshold = _THRESHOLD_SHARE * settings.ensemble.teachers
    by_noise = settings.epsilon is None and not missing
    if publish is None:
        publish = by_noise
    if by_noise:
        return replace(settings, threshold=threshold, publish_cost=publish)
    target = 1.0 if settings.epsilon is None else settings.epsilon
    if publish:
        raise ValueError(
            f"publish_cost is True and epsilon is {target:g}: the published bound is charged "
            "beside the answers, and epsilon is the price of the answers; set publish_cost=false, "
            f"or leave epsilon out and set {' and '.join(names)}"
        )
    # Without the threshold, which changes no price: noise that is only tried must not refuse it.
    found = replace(settings, epsilon=target, threshold=None, publish_cost=False)
    most = settings.ensemble.queries_per_label or settings.ensemble.queries
    checks = min(settings.ensemble.queries, most) / _CHECK_SHARE
    answers = 2 * min(settings.answers, most) / (1 - _CHECK_SHARE)
    parts = {"sigma1": checks**0.5, "sigma2": answers**0.5}

    def at(scale: float) -> PateConfig:
        noise = {name: min(scale * parts[name], LARGEST_WHOLE_SCALE) for name in missing}
        return replace(found, **noise)

    given = ", ".join(
        f"{name}={getattr(settings, name):g}" for name in names if name not in missing
    )
    if given:
        alone = at(LARGEST_WHOLE_SCALE).price
        if alone > target or (not missing and alone < target * (1 - _OTHER)):
            other = "" if not missing else f" or more, whatever {missing[0]} is"
            default = " (where none is given)" if settings.epsilon is None else ""
            raise ValueError(
                f"epsilon is {target:g}{default}, but with {given} {settings.answers} answers to "
                f"{settings.ensemble.queries} queries cost {alone:.4g} at delta "
                f"{settings.delta:g}{other}; set epsilon or {', '.join(names)}, and not both: "
                f"{' '.join(f'trainer.{name}=null' for name in names)} calibrates them"
            )
    found = at(least_noise(lambda scale: at(scale).price, target)) if missing else found
    return replace(found, threshold=threshold)


#: Raised when the same settings would give other votes than before.
VOTES_VERSION = 1
