"""Everything that decides a trial's numbers: one frozen configuration, changed by `key=value`.

`settings.methods` has the methods.
"""

import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from labeldp.mechanisms.amounts import to_levels
from labeldp.mechanisms.auditing.one_run import FRACTIONS, canaries_needed, check_enough_canaries
from labeldp.mechanisms.randomness import (
    NoiseSource,
    OsEntropy,
    SecureEntropy,
    SeededNoise,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.trainers.base import (
    PRETRAINED,
    Count,
    FeatureSet,
    Flag,
    KeyRefused,
    Positive,
    Seed,
    Share,
    Text,
    Two,
    Whole,
    allowed,
    fields_of,
    key,
    near_miss,
    settings,
)
from labeldp.trainers.data.columns import TextColumns
from labeldp.trainers.data.files import content_of
from labeldp.trainers.data.own_files import HoldOut, OwnSource, StatedClasses
from labeldp.trainers.data.splits import FeatureProvenance, fine_tuned
from labeldp.trainers.methods.settings import AlibiConfig, AmountsConfig, Noise, Task
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import with_source

#: Scale of ALIBI's Laplace noise, as the paper states it: another way to set `trainer.epsilon`.
LAMBDA = "trainer.lambda"
#: Keys that ALIBI without noise does not use.
_OF_NOISE = ("trainer.epsilon", "trainer.delta", "trainer.post_processing")

#: Keys that name places on one machine, or files to keep, and change no number: what is read there
#: is in the fingerprint, or locked in the vault.
LOCAL_KEYS = {
    "models.keep",
    "data.root",
    "data.encoding",
    "data.path",
    "data.labels",
    "data.test_path",
    "data.test_labels",
}

#: One label in so many is spoiled by default, for both audits together.
LABELS_PER_CANARY = 100
#: Canaries of each kind at most by default: more cost labels and prove little more.
MOST_BY_DEFAULT = 1000
#: Epsilon that canaries must be able to prove, if everything leaks, to be planted by default.
WORTHWHILE_EPSILON = 1.0

#: Share of the training examples that is held out by default without a public test split.
DEFAULT_SHARE = 0.1
#: Epsilon of each count by default: at least so much,
LEAST_EPSILON = 0.05
#: at most so much,
MOST_EPSILON = 1.0
#: and between them what makes the standard deviation of the count's noise this share of the
#: held-out labels. With that of sampling, 3 points at 90% of a hundred labels, that is 5 points.
AIMED_NOISE = 0.04


class ConfigurationError(ValueError):
    """A key or value that cannot be used; the message names it and the nearest one that can."""


#: A variable of the environment in a text, and what stands for one that is not set.
ENVIRONMENT = re.compile(r"\$\{oc\.env:\s*(\w+)\s*(?:,\s*([^${}]*))?\}")


def _variable(found: re.Match[str]) -> str:
    name, default = found.groups()
    known = os.environ.get(name, default)
    if known is None:
        raise ConfigurationError(f"{found[0]}: the environment has no {name}; export it")
    return known


@settings
class DataSettings:
    """The data set.

    >>> DataSettings(name="own", path="mine.csv", classes="no, yes", drop="id").own_source.classes
    ('no', 'yes')
    """

    name: Text = key(
        "digits",
        "Name of a data set (`labeldp data list`), or `own` for your own file (`data.path`).",
    )
    root: Text | None = key(
        None,
        "Folder of the data sets. Null: the environment variable LABELDP_DATA, or else `data` "
        "here.",
    )
    path: Text | None = key(
        None, "Your own file, with `data.name=own`: `.csv`, `.xlsx`, `.parquet`, `.npz` or `.npy`."
    )
    encoding: Text | None = key(
        None, "Encoding of a `.csv`, such as `cp1252`. Null: UTF-8, or UTF-16 with a mark."
    )
    labels: Text | None = key(None, "File of the labels, if `data.path` is an `.npy` of features.")
    label_column: Text | None = key(None, "Column of the labels in a table. Null: `label`.")
    split_column: Text | None = key(
        None,
        "Column of a table, or array of an `.npz`, that marks rows as `train` or `test`. "
        "Null: `split`, if there is one.",
    )
    group_column: Text | None = key(
        None,
        "Column of a table that names each row's person. Only one row of each person is used, "
        "so epsilon covers all labels of a person.",
    )
    drop: Text | None = key(None, "Columns of a table to leave out, separated by commas.")
    keep: Text | None = key(
        None,
        "Columns of a table to keep although they look like identifiers, separated by commas. "
        "Other such columns are left out.",
    )
    text: TextColumns = key(
        TextColumns.TFIDF,
        "Columns of sentences: `tfidf` learns from their words, `drop` leaves them out, `category` "
        "takes each text as a category.",
    )
    test_path: Text | None = key(
        None,
        "Second file of your own, with test rows. Their labels are public.",
    )
    test_labels: Text | None = key(
        None, "File of the test labels, if `data.test_path` is an `.npy`."
    )
    limit: Count | None = key(
        None, "Number of training examples to use: a fixed random subset. Null: all."
    )
    features: FeatureSet = key(
        FeatureSet.AS_THEY_ARE,
        "Features that models see: `as_they_are`, or features of images that need no labels: "
        "`patches` (k-means) or `random_patches` (for photographs).",
    )
    hold_out: HoldOut | None = key(
        None,
        "Test labels, if your file has no test rows. `public` **publishes** the labels of one "
        "row in five, `none` publishes none. Null: such a file is refused.",
    )
    hold_out_seed: Whole = key(
        0, "Seed that selects the test rows of `data.hold_out=public`. It is public."
    )
    classes: Text | None = key(
        None,
        "Number of classes in your file, or their names in order, separated by commas. Null: "
        "the file lists its classes.",
    )
    bounds: Text | None = key(
        None,
        "Smallest and largest amount, separated by a comma, if labels are amounts. Bounds are "
        "public: choose them without the labels. Amounts outside count as the nearest bound "
        "(docs/amounts.md).",
    )
    embeddings: Text | None = key(
        None,
        "`.npy` that `labeldp embed NAME` made of the set's images; models see it instead of "
        "them. Not for `own`: name embeddings in `data.path`.",
    )

    @contextmanager
    def looked_up(self) -> Iterator["DataSettings"]:
        """Give these settings with values of the environment, to read files with.

        Configurations, their hashes and records hold references: a secret could be found by its
        hash. Refusals and warnings hide the values too.
        """
        texts = [(name, text) for name, text in vars(self).items() if type(text) is str]
        named = ENVIRONMENT.findall(" ".join(text for _, text in texts))
        if not named:
            yield self
            return

        def hidden(told: Exception | Warning | str) -> str:
            text = str(told)
            for name, _ in named:
                if value := os.environ.get(name, "").rstrip("/"):
                    text = text.replace(value, f"${{oc.env:{name}}}")
            return text

        try:
            known: dict[str, Any] = {name: ENVIRONMENT.sub(_variable, text) for name, text in texts}
            with warnings.catch_warnings(record=True) as told:
                yield replace(self, **known)
        except (ValueError, OSError) as error:
            if hidden(error) == str(error):
                raise
            raise ConfigurationError(hidden(error)) from None
        for each in told:
            warnings.warn_explicit(hidden(each.message), each.category, each.filename, each.lineno)

    @property
    def own_source(self) -> OwnSource:
        """These settings of the user's own files."""
        own = {name: getattr(self, name) for name in OWN_KEYS}
        lists = {"drop": _names(self.drop), "keep": _names(self.keep)}
        stated = {"classes": self.stated_classes, "bounds": self.stated_bounds}
        return OwnSource(**{**own, **lists, **stated})

    @property
    def stated_bounds(self) -> tuple[float, float] | None:
        """The bounds of amounts; None where labels are classes."""
        if self.bounds is None:
            return None
        try:
            low, high = map(float, self.bounds.split(","))
            to_levels(np.zeros(0), bounds=(low, high))
        except ValueError:
            raise ValueError(
                f"data.bounds is {self.bounds!r}; state two numbers, the smaller first, such as "
                "data.bounds=0,500, that are known without the labels"
            ) from None
        return low, high

    @property
    def stated_classes(self) -> StatedClasses | None:
        """The number of classes, or their names; None where they are not stated."""
        if self.classes is None:
            return None
        return int(self.classes) if self.classes.isdecimal() else _names(self.classes)


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(name.strip() for name in text.split(","))


#: Texts of which records hold the reference to the environment: the driver alone reads them.
KEPT_TEXTS = frozenset(
    f"data.{name}"
    for name, field in fields_of(DataSettings).items()
    if allowed(field).type == "text, or null"
)
#: The settings that are for data of the user's own.
OWN_KEYS = tuple(entry.name for entry in fields(OwnSource))


@settings
class AuditSettings:
    """How privacy is attacked, by labels that are wrong on purpose (canaries).

    By default they are so few that they cost less than half a point of accuracy (docs/audits.md has
    the measurements), and none where so few could prove nothing.

    >>> AuditSettings().settled(num_labels=60_000, num_classes=10).spoiled
    600
    >>> AuditSettings().settled(num_labels=500, num_classes=10).spoiled
    0
    >>> AuditSettings(canaries=50).settled(num_labels=500, num_classes=10).spoiled
    50
    """

    canaries: Whole | None = key(
        None,
        "Number of training labels replaced by wrong ones, for the memorization attack; 0 for "
        "none. Null: together with `coin_canaries` at most 1% of the labels, or 0 if so few "
        "could prove nothing.",
    )
    canary_seed: Whole = key(
        11337,
        "Seed that selects the canaries. The default selects those of the published attack.",
    )
    canary_block: Whole | None = key(
        None,
        "Index, from 0, of one of several disjoint sets of canaries. Null: 0.",
    )
    coin_canaries: Whole | None = key(
        None,
        "Number of labels that coins choose between two candidates, for the one-run audit; 0 "
        "for none. Null: as for `canaries`, and 0 beside `canaries=0`.",
    )
    confidence: Share = key(
        0.95, "Confidence level of each bound on epsilon_m by itself, not of all together."
    )

    def __post_init__(self) -> None:
        if self.canaries:
            check_enough_canaries(self.canaries, self.confidence)
        if self.coin_canaries and self.coin_canaries < (needed := self.coins_for(0.0)):
            raise ValueError(
                f"coin_canaries is {self.coin_canaries}; at confidence {self.confidence} so few "
                f"prove nothing: it takes {needed}, or 0 to go without the one-run audit"
            )

    @property
    def spoiled(self) -> int:
        """How many labels are wrong on purpose, both kinds together, as far as it is stated."""
        return (self.canaries or 0) + (self.coin_canaries or 0)

    def settled(self, *, num_labels: int, num_classes: int) -> "AuditSettings":
        """Return these settings with both numbers in them, as they are hashed and recorded.

        Both kinds share what may be spoiled, half of it each; where that is too little for both,
        the memorization attack has all of it, and nothing where there are two classes.
        """
        canaries = self.canaries
        coins = self.coin_canaries
        left = num_labels // LABELS_PER_CANARY - self.spoiled
        for_attack = canaries_needed(epsilon=WORTHWHILE_EPSILON, confidence=self.confidence)
        for_coins = self.coins_for(WORTHWHILE_EPSILON)
        if canaries is None:
            both = coins is None and left // 2 >= max(for_attack, for_coins)
            canaries = min(left // 2 if both else left, MOST_BY_DEFAULT)
            canaries = canaries if num_classes > 2 and canaries >= for_attack else 0
            left -= canaries
        if coins is None:
            coins = min(left, MOST_BY_DEFAULT)
            coins = coins if coins >= for_coins and self.canaries != 0 else 0
        return replace(self, canaries=canaries, coin_canaries=coins)

    def coins_for(self, epsilon: float) -> int:
        """Return how few coins could prove `epsilon`."""
        # The best of several numbers of guesses is shown, and each of them pays for the choice.
        each = 1 - (1 - self.confidence) / len(FRACTIONS)
        return canaries_needed(epsilon=epsilon, confidence=each)


def spoiled_text(kinds: tuple[int, int], *, num_labels: int | None = None) -> str:
    """Return how many labels were spoiled for both audits, or why epsilon_m is missing."""
    canaries, coin_canaries = kinds
    spoiled = canaries + coin_canaries
    of_all = "" if num_labels is None else f" of {num_labels:,} labels"
    if spoiled:
        share = "" if num_labels is None else f" ({100 * spoiled / num_labels:.2g}%)"
        return (
            f"{spoiled:,}{of_all} were made wrong on purpose for the audits{share}: {canaries:,} "
            f"for the memorization attack, {coin_canaries:,} for the one-run audit"
        )
    return (
        f"none{of_all} was made wrong for audits, so epsilon_m is missing "
        "(audit.coin_canaries=100 spoils 100 for them)"
    )


@settings
class NoiseSettings:
    """Where the labels' noise comes from; never the seed that training uses."""

    seed: Whole | None = key(
        None,
        "Seed of the noise, for repeatable experiments. Anyone with the seed can remove the "
        "noise. Null: the operating system's entropy.",
    )
    draw: Whole = key(0, "Index of a release. Another index draws new noise and is charged again.")
    secure: Flag | None = key(
        None,
        "Draw exact noise on a lattice, which resists attacks on floating-point numbers. "
        "Null: true for `data.name=own` without `noise.seed`, otherwise false.",
    )

    def __post_init__(self) -> None:
        if self.seed is not None and self.secure:
            raise ValueError(
                f"noise.secure is true and noise.seed is {self.seed}; anyone with the seed can "
                "remove the noise: leave out noise.seed or noise.secure"
            )

    def source(self) -> NoiseSource:
        """Return the source of noise that these settings select."""
        if self.secure:
            return SecureEntropy(draw=self.draw)
        if self.seed is None:
            return OsEntropy(draw=self.draw)
        return SeededNoise(seed=self.seed, draw=self.draw)


class Estimate(StrEnum):
    """Where an estimate of accuracy comes from.

    COUNT requests a noisy number of right answers: charged for each trial. RELEASE reads
    it off a release of the held-out labels by the trial's own mechanism: one for all trials that
    share their noise, but hundreds of times as noisy. HISTOGRAM requests the numbers of labels by
    the scores that a trial gives them: charged like a count, and the figures of rare classes too.
    """

    COUNT = "count"
    RELEASE = "release"
    HISTOGRAM = "histogram"


class Checkpoint(StrEnum):
    """The epoch whose model is evaluated, audited and kept.

    TEST_SELECTED is the epoch of the largest accuracy on the public test split, as some papers
    report it: too high a number, since the same labels chose and measure. Lines of such trials are
    labeled so wherever they are shown.
    """

    LAST = "last"
    TEST_SELECTED = "test_selected"


@settings
class EvaluationSettings:
    """Held-out labels, and how accuracy is estimated on them."""

    held_out_share: Share | None = key(
        None,
        "Share of the training examples that no trial trains on, to estimate accuracy. Null: "
        "0.1 without a public test split, none with one.",
    )
    held_out_seed: Whole = key(0, "Seed that selects the held-out examples. It is public.")
    estimate: Estimate = key(
        Estimate.COUNT,
        "Source of estimated accuracy: `count` (noisy count of right predictions, charged per "
        "trial), `histogram` (noisy counts of labels by score, charged per trial) or "
        "`release` (noisy held-out labels, shared by trials, far less exact).",
    )
    epsilon: Positive | None = key(
        None,
        "Epsilon of each trial's `count` or `histogram`. Only held-out labels pay it, so a "
        "trial costs the larger of it and the training's epsilon. Null: 0.05 to 1 for a "
        "count, by its number of labels, and 1 for a histogram; a folder keeps the price of its "
        "first start. The default raises the cost of a sweep only with many trials on one release, "
        "or with cheaper trials than those of that start (docs/epsilon.md).",
    )
    checkpoint: Checkpoint = key(
        Checkpoint.LAST,
        "Epoch whose model counts: the `last`, or `test_selected`, the best by test accuracy. The "
        "latter is too high, and labeled so.",
    )
    largest_error: Share | None = key(
        None,
        "With amounts: larger errors count as this share of the distance between the bounds. "
        "A smaller share needs less noise and hides large errors. Null: all errors count in "
        "full.",
    )

    @property
    def count_epsilon(self) -> float:
        """The cost of a COUNT or HISTOGRAM; the least where nothing is stated or settled."""
        return LEAST_EPSILON if self.epsilon is None else self.epsilon

    def share(self, *, has_test_split: bool) -> float | None:
        """Return the share of training examples to hold out; None for none."""
        if self.held_out_share is None and not has_test_split:
            return DEFAULT_SHARE
        return self.held_out_share


def default_epsilon(*, held_out: int, free: float, histogram: bool = False) -> float:
    """Return what a count of `held_out` labels costs by default: enough to be of use, up to `free`.

    A histogram costs the most that is allowed: its noise is spread over many counts.

    >>> default_epsilon(held_out=6000, free=1.0), default_epsilon(held_out=100, free=2.0)
    (0.05, 0.36)
    >>> default_epsilon(held_out=100, free=0.1), default_epsilon(held_out=10, free=2.0)
    (0.1, 1.0)
    """
    aimed = two_digits(math.sqrt(2) / (AIMED_NOISE * held_out), math.ceil)
    aimed = MOST_EPSILON if histogram else aimed
    most = MOST_EPSILON if free >= MOST_EPSILON else two_digits(free, math.floor)
    return max(LEAST_EPSILON, min(aimed, most))


def two_digits(value: float, rounding: Callable[[float], int]) -> float:
    """A number with two significant digits, rounded up or down."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # The tolerance keeps 0.1 / 0.01 at ten.
    return float(f"{rounding(round(value / unit, 6)) * unit:.2g}")


@settings
class ModelSettings:
    """Models to keep; this changes no number of a trial, and not its hash."""

    keep: Flag = key(
        True, "Keep the model of each trial, in `models/HASH` of the results folder and in MLflow."
    )


@settings
class OptunaSearch:
    """Random axes are searched: each trial's values follow from what earlier trials found.

    By tree-structured Parzen estimators (Bergstra et al. 2011), of Optuna. The first ten trials are
    random draws. Axes that are grids stay grids: there is one search at each of their points and
    for each variant.
    """

    trials: Count = key(40, "Number of trials of each search.")
    # Trials that run side by side end in an order of their own, and what is suggested depends on
    # what has ended.
    seed: Whole = key(0, "Seed of the suggested values.")


@settings
class AshaStop:
    """Trials that fall behind are stopped (ASHA; Li et al. 2020), by Ray Tune's scheduler.

    Each trial is compared at its rungs, epochs `grace_epochs * keep_one_in**k`, with all that got
    there before it. One that is not among the best there ends as every trial does: it is
    evaluated, audited and recorded, after fewer epochs.

    With `brackets` above 1 it is HyperBand (Li et al. 2018): a trial is compared within its bracket
    alone, and each bracket begins `keep_one_in` times later than the one before.

    >>> AshaStop(grace_epochs=2, keep_one_in=3).rungs(30)
    (2, 6, 18)
    >>> AshaStop(grace_epochs=2, keep_one_in=3, brackets=2).of("f").rungs(30)
    (6, 18)
    """

    grace_epochs: Count = key(1, "First rung: no trial stops before this epoch.")
    keep_one_in: Two = key(4, "One trial in this many continues at each rung.")
    brackets: Count = key(1, "Groups that begin at later and later rungs; 1 is ASHA.")

    def of(self, digest: str) -> "AshaStop":
        """Return the rule of a trial's bracket, which follows from its hash: a resumed one's too.

        Its rungs are among those of the rule itself, whose number thus bounds the price.
        """
        later = self.keep_one_in ** (int(digest, 16) % self.brackets)
        return replace(self, grace_epochs=self.grace_epochs * later, brackets=1)

    def rungs(self, epochs: int) -> tuple[int, ...]:
        """Return after which epochs a trial of so many is compared; its last is none of them."""
        found = []
        rung = self.grace_epochs
        while rung < epochs:
            found.append(rung)
            rung *= self.keep_one_in
        return tuple(found)


@settings
class TrialConfig:
    """Everything that decides a trial's numbers."""

    method: Text = key("alibi", "Training method. It decides which `trainer` keys exist.")
    seed: Seed = key(
        0,
        "Seed of training: initial weights, order of batches, augmentation. Noise has a seed "
        "of its own.",
    )
    data: DataSettings = key(DataSettings(), "The data set.")
    audit: AuditSettings = key(AuditSettings(), "How privacy is attacked.")
    noise: NoiseSettings = key(NoiseSettings(), "Where the labels' noise comes from.")
    trainer: Any = key(AlibiConfig(), "The method's settings.")
    performance: Performance = key(Performance(), "Device and precision.")
    evaluation: EvaluationSettings = key(EvaluationSettings(), "How accuracy is estimated.")
    models: ModelSettings = key(ModelSettings(), "Whether the trained model is kept.")

    def __post_init__(self) -> None:
        kind = _method(self.method)
        if not isinstance(self.trainer, kind):
            raise ConfigurationError(
                f"method {self.method!r} takes {kind.__name__}, not {type(self.trainer).__name__}"
            )
        selects = self.evaluation.checkpoint is Checkpoint.TEST_SELECTED
        students = getattr(self.trainer, "ensemble", None) is not None
        if selects and (students or self.of_amounts):
            raise ConfigurationError(
                f"evaluation.checkpoint is test_selected, but method {self.method!r} has no one "
                "model that every epoch improves; set evaluation.checkpoint=last"
            )

    @property
    def of_amounts(self) -> bool:
        """Whether labels are levels of amounts, and errors take the place of accuracy."""
        return isinstance(self.trainer, AmountsConfig)


def provenance_of(config: TrialConfig, features: FeatureProvenance) -> FeatureProvenance:
    """Return where a trial's knowledge comes from: of its features, or of a network's start."""
    for name, value in flatten(config).items():
        if name.endswith(".encoder") and str(value).startswith(PRETRAINED):
            return fine_tuned(value)
    return features


def _method(name: object) -> type:
    if not isinstance(name, str) or name not in METHODS:
        raise ConfigurationError(f"method is {name!r}; {near_miss(str(name), METHODS)}")
    return METHODS[name]


def with_changes(config: TrialConfig, changes: Mapping[str, Any]) -> TrialConfig:
    """Return `config` with dotted keys changed; `method` comes first and brings its defaults."""
    base = _of_method(config, changes)
    changes = _with_epsilon_of_lambda(base, changes)
    known = _known(base)
    for name in changes:
        if name in known:
            continue
        inner = [each for each in known if each.startswith(f"{name}.")]
        if inner:
            raise ConfigurationError(
                f"{name} is a section, not a value; set one of its keys: {', '.join(inner)}"
            )
        hint = near_miss(name, known)
        raise ConfigurationError(f"unknown key {name!r}; {hint}")
    changed = _with_values(base, changes, "")
    assert isinstance(changed, TrialConfig)
    return changed


def _with_values(section: Any, values: Mapping[str, Any], prefix: str) -> Any:
    own: dict[str, Any] = {}
    for name in fields_of(type(section)):
        key = f"{prefix}{name}"
        if key in values:
            own[name] = values[key]
        elif any(each.startswith(f"{key}.") for each in values):
            own[name] = _with_values(getattr(section, name), values, f"{key}.")
    try:
        return replace(section, **own)
    except KeyRefused as error:
        raise ConfigurationError(f"{prefix}{error}") from error
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _of_method(base: TrialConfig, changes: Mapping[str, Any]) -> TrialConfig:
    named = "amounts" if changes.get("trainer.task") == Task.REGRESSION else base.method
    method = changes.get("method", named)
    if method == base.method:
        return base
    return replace(base, method=method, trainer=_method(method)())


def with_calibration(config: TrialConfig) -> TrialConfig:
    """Return the configuration with the values that its trainer derives from an epsilon."""
    calibrated = getattr(config.trainer, "calibrated", None)
    if calibrated is None:
        return config
    try:
        return replace(config, trainer=calibrated())
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def takes(config: TrialConfig, changes: Mapping[str, Any], key: str) -> bool:
    """Return whether `key` means something to a configuration with these changes; sections do."""
    base = _of_method(config, changes)
    noise = changes.get("trainer.noise", getattr(base.trainer, "noise", None))
    alibi = isinstance(base.trainer, AlibiConfig)
    if key == LAMBDA:
        return alibi and noise == Noise.LAPLACE
    if alibi and noise == Noise.NONE and key in _OF_NOISE:
        return False
    return any(each == key or each.startswith(f"{key}.") for each in _known(base))


def _with_epsilon_of_lambda(base: TrialConfig, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    value = changes.get(LAMBDA)
    if value is None or not takes(base, changes, LAMBDA):
        return changes
    if "trainer.epsilon" in changes:
        raise ConfigurationError(
            f"{LAMBDA} is {value!r} and trainer.epsilon is {changes['trainer.epsilon']!r}; epsilon "
            "is 2 / lambda: set one of them"
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigurationError(f"{LAMBDA} is {value!r}; it must be a finite number above 0")
    rest = {key: each for key, each in changes.items() if key != LAMBDA}
    return {**rest, "trainer.epsilon": 2 / value}


def flatten(config: TrialConfig) -> dict[str, Any]:
    """Return dotted key -> plain value, in the order of the sections."""
    return flat_of(to_jsonable_python(config))


def flat_of(
    values: Mapping[str, Any], prefix: str = "", *, whole: Collection[str] = ()
) -> dict[str, Any]:
    """Return dotted key -> value of nested sections, in order; those with a key in `whole` stay."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and not any(each in value for each in whole):
            flat |= flat_of(value, f"{prefix}{name}.", whole=whole)
        else:
            flat[f"{prefix}{name}"] = value
    return flat


_known = lru_cache(maxsize=64)(flatten)


def to_yaml(values: TrialConfig | Mapping[str, Any], section: str = "") -> str:
    """Return a configuration, or settings of a dotted `section`, as YAML that `--config` reads."""
    from omegaconf import OmegaConf  # takes a quarter of a second

    def escaped(text: str, path: str) -> str:
        kept = ENVIRONMENT.pattern if path in KEPT_TEXTS else "(?!)"
        return re.sub(
            rf"(?P<kept>{kept})|(?P<slashes>\\*)\$\{{",
            lambda found: found["kept"] or found["slashes"] * 2 + r"\${",
            text,
        )

    return OmegaConf.to_yaml(
        OmegaConf.create(each_text(to_jsonable_python(values), escaped, section))
    )


def each_text(value: object, change: Callable[[str, str], Any], path: str = "") -> Any:
    """Return a value with `change(text, path)` in place of each text."""
    if isinstance(value, Mapping):
        return {k: each_text(v, change, f"{path}.{k}".lstrip(".")) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [each_text(each, change, f"{path}[{n}]") for n, each in enumerate(value)]
    return change(value, path) if isinstance(value, str) else value


def config_hash(config: TrialConfig, *, data_fingerprint: str) -> str:
    """Return a hash of what decides a trial's numbers, but for the noise: 16 hexadecimal digits.

    The place of the data does not count; `data_fingerprint` of the public features does. So does
    what is in the file of an encoder, and not its name, and the source of a network of the user's.
    """
    flat = {name: value for name, value in flatten(config).items() if name not in LOCAL_KEYS}
    for name, value in flat.items():
        if name.endswith(".encoder") and value is not None:
            flat[name] = content_of(value)  # a missing file is refused with its path
        elif not name.startswith("data."):
            flat[name] = with_source(value)
    text = json.dumps({**flat, "fingerprint": data_fingerprint}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
