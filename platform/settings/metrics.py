"""A trial's figures by name: who may see them, its accuracy, and a choice among trials by one.

An estimate of accuracy is unbiased, but the best of k equally good trials looks better than it is
by the largest of k draws of noise. Where that is much, the choice is a lottery, and is refused.

>>> is_owners("private/epsilon_one_run"), is_owners("epsilon_m_low"), is_owners("epsilon")
(True, True, False)
>>> accuracy_text(figures_of(AccuracyEstimate(accuracy=0.8, sampling_error=0.01)))
'accuracy about 80.0% +- 1.0 (estimated)'
>>> swamped = ChoiceNoise(candidates=9, noise=0.28)
>>> swamped.swamps, round(swamped.luck, 2)
(True, 0.42)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.trainers.methods.settings import STACKED

#: Beside bounds that are proven at delta 0, of models whose epsilon holds at a larger one.
DAGGER = "†"
#: Errors of predicted amounts, in words.
ERRORS = {
    "mean_squared_error": "mean squared error",
    "mean_absolute_error": "mean absolute error",
    "relative_error": "relative error",
}
#: Figures of a model's scores, in words; the last three are the better the smaller, as errors are.
SCORES = {
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "lift": "lift at 10%",
    "log_loss": "log loss",
    "brier_score": "Brier score",
    "calibration_error": "calibration error",
    **ERRORS,
}
_LOSSES = ("log_loss", "brier_score", "calibration_error", *ERRORS)
_PARTS = ("", "_error", "_low", "_high", "_noise")
#: Figures whose names begin so are for the owner of the labels alone: they are made of true labels,
#: or of which labels the audits spoiled, outside of every guarantee.
PRIVATE_PREFIX = "private/"
_OWNERS = (PRIVATE_PREFIX, "epsilon_m", "ensemble_accuracy", "vote_label_accuracy")
#: Of scores and of shares of classes, on test labels and estimated.
SCORE_FIGURES = (
    *SCORES,
    *(f"{name}_estimated{part}" for name in (*SCORES, "positive_share") for part in _PARTS),
    "majority_share",
    "minority_share",
    "majority_share_estimated",
    "minority_share_estimated",
    "threshold_estimated",
    "share_beyond_bounds",
    "share_at_bounds_estimated",
)
#: Of a stack of models, by kind: their weight, and the best one's held-out log-likelihood of the
#: release of a row; and the information that a single label keeps, of 1.
STACK_FIGURES = (
    *(f"stack/{kind}_{part}" for kind in STACKED for part in ("weight", "likelihood")),
    "stack/information",
)
#: May be published: measured on public test labels, or part of releases that are paid for.
PUBLIC = (
    "accuracy",
    *(f"accuracy_estimated{part}" for part in (*_PARTS[:4], "_sampling_error", "_count_scale")),
    *SCORE_FIGURES,
    *STACK_FIGURES,
    "majority_share_by_model",
    "epsilon",
    "delta",
    "gaussian_mu",
    "epsilon_sanitized",
)
_ESTIMATED = "accuracy_estimated"
#: Behind the end of a figure's range that noise took it over.
BEYOND = " (noise reaches beyond)"
#: Models with a smaller weight are not named.
_SHOWN = 0.01
#: A class with a smaller share, and a small one beside the largest class, is rare.
_RARE = 0.1
_BESIDE_LARGEST = 0.25
#: The most noise, and luck of the best, that a choice may rest on, as shares of the labels.
MOST_NOISE = 0.1


def is_owners(name: str) -> bool:
    """Whether a figure is for the owner of the labels alone."""
    return name.startswith(_OWNERS)


def attack_published(figures: Mapping[str, float]) -> bool:
    """Whether the attack as published has a result: it has none if it guessed no canary.

    >>> attack_published({"epsilon_m_paper_low": 0.0, "epsilon_m_paper_high": 0.0})
    False
    """
    high = figures.get("epsilon_m_paper_high", 0.0)
    return figures.get("epsilon_m_paper_low", 0.0) > 0 or 0 < high < math.inf


def tracked_figures(figures: Mapping[str, float]) -> dict[str, float]:
    """Return a trial's figures as the tracking store has them.

    `epsilon_m` is what the attack proved, the lower end of its interval. What no attack measured is
    left out.
    """
    found = dict(figures)
    if not attack_published(figures):
        found.pop("epsilon_m_paper_low", None)
        found.pop("epsilon_m_paper_high", None)
    if figures.get("epsilon_m_ceiling", 0.0) > 0:
        found["epsilon_m"] = figures["epsilon_m_low"]
    return found


class ChooseBy(StrEnum):
    """The figure that trials are compared by: accuracy, or one of their scores by its name.

    TEST is measured on the public test split, so that a choice by it tunes on those labels.
    ESTIMATED is a paid estimate on held-out labels, and leaves the test split untouched.

    >>> ChooseBy.LOG_LOSS_ESTIMATED.words, ChooseBy.LOG_LOSS_ESTIMATED.rank(0.25)
    ('estimated log loss', -0.25)
    """

    TEST = "test"
    ESTIMATED = "estimated"
    ROC_AUC = "roc_auc"
    ROC_AUC_ESTIMATED = "roc_auc_estimated"
    AVERAGE_PRECISION = "average_precision"
    AVERAGE_PRECISION_ESTIMATED = "average_precision_estimated"
    LIFT = "lift"
    LIFT_ESTIMATED = "lift_estimated"
    LOG_LOSS = "log_loss"
    LOG_LOSS_ESTIMATED = "log_loss_estimated"
    BRIER_SCORE = "brier_score"
    BRIER_SCORE_ESTIMATED = "brier_score_estimated"
    CALIBRATION_ERROR = "calibration_error"
    CALIBRATION_ERROR_ESTIMATED = "calibration_error_estimated"
    MEAN_SQUARED_ERROR = "mean_squared_error"
    MEAN_SQUARED_ERROR_ESTIMATED = "mean_squared_error_estimated"
    MEAN_ABSOLUTE_ERROR = "mean_absolute_error"
    MEAN_ABSOLUTE_ERROR_ESTIMATED = "mean_absolute_error_estimated"
    RELATIVE_ERROR = "relative_error"

    @property
    def metric(self) -> str:
        """Its name among a trial's figures."""
        return {"test": "accuracy", "estimated": _ESTIMATED}.get(self.value, self.value)

    @property
    def estimated(self) -> bool:
        """Whether held-out labels pay for it."""
        return self.value.endswith("estimated")

    @property
    def of_scores(self) -> bool:
        """Whether it is another figure than an accuracy."""
        return self not in (ChooseBy.TEST, ChooseBy.ESTIMATED)

    @property
    def of_amounts(self) -> bool:
        """Whether it is an error of predicted amounts."""
        return self.value.removesuffix("_estimated") in ERRORS

    @property
    def error(self) -> "ChooseBy":
        """The same of amounts, whose mean squared error is in the place of accuracy."""
        errors = {
            ChooseBy.TEST: ChooseBy.MEAN_SQUARED_ERROR,
            ChooseBy.ESTIMATED: ChooseBy.MEAN_SQUARED_ERROR_ESTIMATED,
        }
        return errors.get(self, self)

    @property
    def words(self) -> str:
        """Its name."""
        name = SCORES.get(self.value.removesuffix("_estimated"), "accuracy")
        return f"estimated {name}" if self.estimated else name

    @property
    def long_words(self) -> str:
        """Its name, and its labels."""
        name = self.words.removeprefix("estimated ")
        where = "estimated on held-out labels" if self.estimated else "on the public test split"
        return f"{name} {where}"

    def rank(self, value: float) -> float:
        """Return the figure such that more is better."""
        return -value if self.value.removesuffix("_estimated") in _LOSSES else value

    def unit(self, values: Iterable[float]) -> float:
        """Return what differences are shares of: the largest error or lift; 1 of other figures."""
        of_units = self.of_amounts or self.value.startswith("lift")
        return max(map(abs, values)) or 1.0 if of_units else 1.0

    def noise(self, figures: Mapping[str, float]) -> float:
        """Standard deviation of privacy's noise in a trial's figure."""
        if self.of_scores:
            return figures.get(f"{self.metric}_noise", 0.0)
        found = estimate_of(figures) if self.estimated else None
        # Of a release all noise is in the sampling error; trials share an unknown part of it.
        return 0.0 if found is None else math.sqrt(2) * found.count_scale or found.sampling_error


def resolve(
    asked: ChooseBy | None,
    *,
    has_test_split: bool,
    has_held_out: bool,
    has_histogram: bool = True,
    learns: bool = False,
    amounts: bool = False,
) -> ChooseBy:
    """Return the given figure, or the default: TEST where test labels are public.

    A sweep that `learns` tunes on the labels that it reads: test labels serve only on request. Of
    `amounts`, errors take the place of accuracy.
    """
    if asked is not None and asked.error.of_amounts != amounts and asked.of_scores:
        kind = "classes" if asked.of_amounts else "amounts"
        others = "amounts" if asked.of_amounts else "classes"
        raise ValueError(
            f"trials can't be chosen by {asked.words}: it is a figure of {others}, and these "
            f"labels are {kind}; leave --choose-by out, or choose by test or estimated"
        )
    if asked is None and learns:
        if has_held_out:
            return ChooseBy.ESTIMATED
        raise ValueError(
            "searches and early stopping need an accuracy, and no labels are held out to estimate "
            "it: set evaluation.held_out_share=0.1, or tune on the public test labels "
            "(--choose-by test)"
        )
    if asked is not None and not asked.estimated and not has_test_split:
        raise ValueError(
            f"trials can't be chosen by test {asked.words}: these data have no public test split; "
            "choose by estimated accuracy (--choose-by estimated)"
        )
    if asked is not None and asked.estimated and not has_held_out:
        raise ValueError(
            f"trials can't be chosen by {asked.words}: no labels are held out; set "
            "evaluation.held_out_share=0.1, or choose by test accuracy (--choose-by test)"
        )
    if asked is not None and asked.estimated and asked.of_scores and not has_histogram:
        raise ValueError(
            f"trials can't be chosen by {asked.words}: no histogram of scores is released; set "
            "evaluation.estimate=histogram, or choose by accuracy (--choose-by estimated)"
        )
    found = asked or (ChooseBy.TEST if has_test_split else ChooseBy.ESTIMATED)
    return found.error if amounts else found


def chosen_by(figures: Iterable[Mapping[str, float]], asked: ChooseBy | None = None) -> ChooseBy:
    """Return the accuracy that all of these finished trials [T] have; or the given one."""
    every = list(figures)
    amounts = any("mean_squared_error" in " ".join(each) for each in every)
    test, estimated = (
        each.error.metric if amounts else each.metric
        for each in (ChooseBy.TEST, ChooseBy.ESTIMATED)
    )
    found = resolve(
        asked,
        has_test_split=all(test in each for each in every),
        has_held_out=all(estimated in each for each in every),
        has_histogram=amounts or all("roc_auc_estimated" in each for each in every),
        amounts=amounts,
    )
    if not all(found.metric in each for each in every):
        raise ValueError(
            f"trials can't be chosen by {found.words}: some of them did not measure it; "
            "run them again, or choose by accuracy (--choose-by test)"
        )
    return found


def is_rare(figures: Mapping[str, float]) -> bool:
    """Whether a class is so rare that a trial's accuracy means little.

    It has fewer than a tenth of the labels, and fewer than a quarter of the largest class's.

    >>> is_rare({"minority_share": 0.02, "majority_share": 0.98}), is_rare({"accuracy": 0.9})
    (True, False)
    """
    return any(
        figures.get(f"minority_share{end}", 1.0)
        < min(_RARE, _BESIDE_LARGEST * figures.get(f"majority_share{end}", 0.0))
        for end in ("", "_estimated")
    )


def scores_text(figures: Mapping[str, float]) -> str:
    """Return the figures that come first where a class is rare; empty where there are none.

    >>> scores_text({"roc_auc": 0.874, "average_precision": 0.31})
    'ROC AUC 0.874, average precision 0.310'
    """
    parts = []
    for name in ("roc_auc", "average_precision"):
        if name in figures:
            parts.append(f"{SCORES[name]} {figures[name]:.3f}")
        elif (estimated := f"{name}_estimated") in figures:
            value = figure_text(estimated, figures[estimated])
            parts.append(f"{SCORES[name]} about {value}{interval_text(estimated, figures)}")
    return ", ".join(parts)


def mixture_text(models: Iterable[tuple[str, float, float]]) -> str:
    """Return names of models, each with its weight and held-out log-likelihood; empty for none.

    >>> mixture_text([("constant", 0.0, -0.69), ("linear", 0.4, -0.63), ("boosting", 0.6, -0.61)])
    'boosting 60% (-0.610), linear 40% (-0.630)'
    """
    weighed = sorted(models, key=lambda model: -model[1])
    return ", ".join(
        f"{name} {weight:.0%} ({likelihood:.3f})"
        for name, weight, likelihood in weighed
        if weight >= _SHOWN
    )


def stack_text(figures: Mapping[str, float]) -> str:
    """Return the kinds of models that a trial's stack mixes, as `mixture_text` does."""
    kinds = [kind for kind in STACKED if f"stack/{kind}_weight" in figures]
    return mixture_text(
        (kind, figures[f"stack/{kind}_weight"], figures[f"stack/{kind}_likelihood"])
        for kind in kinds
    )


def figures_of(estimate: AccuracyEstimate) -> dict[str, float]:
    """Return an estimate as figures of a trial: value, standard error and 95% interval."""
    low, high = estimate.interval()
    return {
        _ESTIMATED: estimate.accuracy,
        f"{_ESTIMATED}_error": estimate.error,
        f"{_ESTIMATED}_low": low,
        f"{_ESTIMATED}_high": high,
        f"{_ESTIMATED}_sampling_error": estimate.sampling_error,
        f"{_ESTIMATED}_count_scale": estimate.count_scale,
    }


def estimate_of(figures: Mapping[str, float]) -> AccuracyEstimate | None:
    """Return the estimate among a trial's figures, if there is one."""
    if _ESTIMATED not in figures:
        return None
    return AccuracyEstimate(
        accuracy=figures[_ESTIMATED],
        sampling_error=figures[f"{_ESTIMATED}_sampling_error"],
        count_scale=figures[f"{_ESTIMATED}_count_scale"],
    )


def majority_text(figures: Mapping[str, float]) -> str:
    """Report an accuracy that hardly beats the answer "largest class"; empty if it does.

    It does by more than a point and more than twice its standard error; if it is nearer, the two
    can't be told apart. The share among secret labels is private: without a public test split it is
    that of the model's own probabilities.

    >>> majority_text({"accuracy": 0.728, "majority_share": 0.771})
    'no better than always answering the largest class (77.1% of the public test split)'
    >>> majority_text({"accuracy": 0.9, "majority_share": 0.771})
    ''
    """
    found = estimate_of(figures)
    accuracy = figures.get("accuracy", math.inf if found is None else found.accuracy)
    error = 0.0 if found is None or "accuracy" in figures else found.error
    where = "of the public test split"
    share = figures.get("majority_share")
    if share is None:
        where = "by the model's own probabilities"
        share = figures.get("majority_share_by_model", -math.inf)
    margin = max(0.01, 2 * error)
    if accuracy > share + margin:
        return ""
    answer = f"always answering the largest class ({100 * share:.1f}% {where})"
    if accuracy <= share - margin:
        return f"no better than {answer}"
    return f"within {_points(margin)} of {answer}, so the two cannot be told apart"


def figure_text(name: str, value: float) -> str:
    """Return a figure's value for a table; errors of amounts have units of any size.

    >>> figure_text("roc_auc", 0.87432), figure_text("mean_squared_error_estimated", 1234567.8)
    ('0.874', '1.235e+06')
    >>> figure_text("mean_squared_error_estimated", -1.6e8), figure_text("roc_auc_estimated", 1.2)
    ('0 (noise reaches beyond)', '1.000 (noise reaches beyond)')
    """
    base = name.removesuffix("_estimated")
    most = math.inf if base in (*ERRORS, "lift", "log_loss") else 1.0
    text = format(min(max(value, 0.0), most), ".4g" if base in ERRORS else ".3f")
    return text + (BEYOND if value < 0 or value > most else "")


def interval_text(name: str, figures: Mapping[str, float]) -> str:
    """Return a figure's 95% interval in brackets; empty where it has none."""
    keys = [key for key in (f"{name}_low", f"{name}_high") if key in figures]
    return f" ({' to '.join(figure_text(name, figures[key]) for key in keys)})" if keys else ""


def accuracy_text(figures: Mapping[str, float]) -> str:
    """Return a trial's accuracies, or errors of amounts, for a line of text."""
    if errors := [name for name in ChooseBy if name.of_amounts and name.value in figures]:
        shown = {each: figure_text(each, figures[each]) for each in errors}
        return ", ".join(
            f"{each.words} {shown[each]}{interval_text(each, figures)}" for each in shown
        )
    parts = []
    if "accuracy" in figures:
        parts.append(f"{100 * figures['accuracy']:.1f}%")
    found = estimate_of(figures)
    if found is not None:
        parts.append(f"about {share_text(found.accuracy)} +- {100 * found.error:.1f} (estimated)")
    if is_rare(figures) and (scores := scores_text(figures)):
        parts.append(scores)
    return f"accuracy {', '.join(parts)}"


def share_text(share: float, *, digits: int = 1) -> str:
    """Return an estimated share in percent; noise may take it outside of 0 to 100%.

    Records keep it as it is: clipped estimates would be biased.

    >>> share_text(0.81), share_text(1.06)
    ('81.0%', '100.0% (noise reaches beyond)')
    """
    return f"{min(max(share, 0.0), 1.0):.{digits}%}{'' if 0 <= share <= 1 else BEYOND}"


@dataclass(frozen=True, kw_only=True)
class ChoiceNoise:
    """How noise affects a choice among trials by their estimated accuracy.

    Attributes:
        noise: Standard deviation of the noise of the noisiest estimate. The choice of held-out
            labels is chance as well, but one that all trials share.
        lead: Distance of the best from the next; None for a plan, and for one alone.
    """

    candidates: int
    noise: float
    lead: float | None = None
    words: str = ChooseBy.ESTIMATED.words

    @classmethod
    def among(
        cls, values: Sequence[float], noises: Sequence[float], *, by: ChooseBy
    ) -> "ChoiceNoise":
        """Measure it among values of a figure, at least one, and their noise.

        Errors of amounts and lifts are shares of the largest, since they have units.
        """
        unit = by.unit(values)
        found = sorted(by.rank(each) / unit for each in values)
        noises = [x / unit for x in noises]
        lead = found[-1] - found[-2] if len(found) > 1 else None
        return cls(candidates=len(found), noise=max(noises), lead=lead, words=by.words)

    @property
    def luck(self) -> float:
        """Mean excess of the best of equally good trials: of the largest of k normal draws.

        By Blom (1958): within 0.03 standard deviations.
        """
        if self.candidates < 2:
            return 0.0
        share = (self.candidates - 0.375) / (self.candidates + 0.25)
        return NormalDist().inv_cdf(share) * self.noise

    @property
    def swamps(self) -> bool:
        """Whether noise would decide the choice, and could cost much."""
        return self.candidates > 1 and max(self.noise, self.luck) > MOST_NOISE

    @property
    def within_noise(self) -> bool:
        """Whether noise alone explains the lead of the best."""
        return self.lead is not None and self.lead <= math.sqrt(2) * self.noise

    @property
    def text(self) -> str:
        """The noise in words."""
        words = f"an estimate's noise has a standard deviation of {_points(self.noise)}"
        if self.candidates > 1:
            words += (
                f", so the luckiest of {self.candidates} equally good trials looks "
                f"{_points(self.luck)} too good"
            )
        return words

    def refuse(self, *, instead: str) -> None:
        """Raise a ValueError where noise would decide, with the way `instead` at the end."""
        if not self.swamps:
            return
        raise ValueError(
            f"noise is too large to choose by {self.words}: {self.text}, and more than "
            f"{_points(MOST_NOISE)} of noise or luck is refused; hold more labels out "
            f"(evaluation.held_out_share), pay more for a count (evaluation.epsilon), or {instead}"
        )


def refuse_lottery(figures: Iterable[Mapping[str, float]], *, by: ChooseBy) -> None:
    """Raise a ValueError where noise would decide which of these finished trials is the best."""
    if (noise := _among(figures, by=by)) is not None:
        noise.refuse(instead="name a trial, or an epsilon that leaves fewer to choose from")


def doubt_of(figures: Iterable[Mapping[str, float]], *, by: ChooseBy) -> str:
    """Report that the best of finished trials may be so by noise alone; empty if unlikely."""
    noise = _among(figures, by=by)
    if noise is None or not noise.within_noise:
        return ""
    return (
        f"another trial may be as good or better: the next is {_points(noise.lead or 0.0)} behind, "
        f"and {noise.text}"
    )


def _among(figures: Iterable[Mapping[str, float]], *, by: ChooseBy) -> ChoiceNoise | None:
    found = [each for each in figures if by.metric in each]
    if not by.estimated or not found:
        return None
    return ChoiceNoise.among([x[by.metric] for x in found], list(map(by.noise, found)), by=by)


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
