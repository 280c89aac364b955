"""Does a model remember wrong labels? The attack of Malek et al. 2021, as published and corrected.

A model was trained with canaries: examples with one wrong label each, uniform among the wrong ones
(`canaries.Canaries`). For each canary and each of the K - 2 *other* wrong labels, the attacker
guesses that the more probable of the two was trained on, and abstains where both lie below a
threshold. Under epsilon-label-DP no guess is right with probability above e^eps / (1 + e^eps)
(their Thm B.1), so accuracy translates to epsilon_m = log(accuracy / (1 - accuracy)).

`paper` is the published estimate: the mean of the canaries' accuracies weighted by their numbers of
guesses, a normal interval, and of seven thresholds the one with the highest lower end. Use it to
compare with published tables. It is not a 95% interval: nothing pays for choosing among thresholds,
a mean below one half is turned around after the fact, and few canaries make a normal interval void.

`corrected` is what the same confidences prove. Guesses within a canary depend on each other, and
canaries on each other through the model, so it counts neither as independent. Instead it bets
(Waudby-Smith and Ramdas 2024; Shafer 2021): given the model and the other canaries' labels,
epsilon-label-DP bounds the odds of any two wrong labels of a canary by e^eps (the argument of
Steinke, Nasr and Jagielski 2023, Prop. 5.1). A canary whose label beats a share w of the others and
loses to a share l turns a stake f into 1 + f (w e^-eps - l), whose mean is then at most 1. So is
the mean of the product over all canaries, averaged over stakes and thresholds; that it grows to
1 / (1 - confidence) has probability at most 1 - confidence (Markov). The largest epsilon at which
it does is `epsilon_low`.

Guaranteed: if the run is epsilon-label-DP (delta 0), and the canaries' labels were drawn uniformly
and kept from the attacker, `corrected.epsilon_low` exceeds epsilon with probability at most
1 - confidence, thresholds and dependence included. `epsilon_high` is of another kind: a bound on
this attack's success at the chosen threshold, valid if canaries behave independently. A stronger
attack may do better; it bounds no mechanism's epsilon.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array
from labeldp.mechanisms.auditing.one_run import (
    check_enough_canaries,
    largest_refuted,
    one_run_ceiling,
)

#: The seven thresholds of the published attack.
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
# Shares of the capital put on each canary: small ones win on many weak guesses, large on few clear.
_STAKES = np.array([0.1, 0.25, 0.5, 0.75, 0.95, 0.995])
_LARGEST_EPSILON = 40.0


@dataclass(frozen=True, kw_only=True)
class EpsilonInterval:
    """An interval for the epsilon that the attack achieves."""

    epsilon_low: float
    epsilon_high: float  # `inf` where there is none
    threshold: float | None  # below this confidence the attacker abstains; None if none helps
    guesses: int  # pairs of labels guessed at that threshold, over all canaries


@dataclass(frozen=True, kw_only=True)
class MemorizationAudit:
    """Both readings of the attack; see the module's text for what each is worth."""

    paper: EpsilonInterval
    corrected: EpsilonInterval  # a lower end that holds; each end has the stated confidence
    ceiling: float  # the most that as many canaries could prove with any attack
    canaries: int


def memorization_interval(
    confidences: Array, canary_labels: Array, true_labels: Array, confidence: float = 0.95
) -> MemorizationAudit:
    """Audit a model by its probabilities on the canaries [N, K], K at least 3.

    `canary_labels` [N] are the wrong labels that it was trained on, `true_labels` [N] those that
    they replaced; `confidence` is of each end of an interval.
    """
    rows = _validate.probabilities(confidences, name="confidences")
    size, num_classes = rows.shape
    planted = _validate.labels(canary_labels, num_classes=num_classes, name="canary_labels")
    true = _validate.labels(true_labels, num_classes=num_classes, name="true_labels", secret=True)
    _validate.same_length(confidences=size, canary_labels=planted.size, true_labels=true.size)
    same = np.flatnonzero(planted == true)
    if same.size:
        raise ValueError(
            f"canary_labels[{same[0]}] is the true label of that example; a "
            f"canary must be mislabeled ({same.size} of {size} are not)"
        )
    if num_classes < 3:
        raise ValueError(
            f"confidences has {num_classes} classes; this attack compares wrong labels with each "
            "other and needs at least 3 (two classes: use coin canaries and the one-run audit)"
        )
    every = np.arange(size)
    other = np.ones(rows.shape, dtype=bool)
    other[every, planted] = other[every, true] = False
    return memorization_interval_from_pairs(
        rows[every, planted], rows[other].reshape(size, num_classes - 2), confidence
    )


def memorization_interval_from_pairs(
    own: NDArray[np.floating], others: NDArray[np.floating], confidence: float = 0.95
) -> MemorizationAudit:
    """As `memorization_interval`, for confidences that are sorted already.

    `own` are confidences in each canary's own label [N], `others` those in the other wrong labels
    [N, K - 2].
    """
    if own.ndim != 1 or others.ndim != 2 or len(own) != len(others) or others.shape[1] == 0:
        raise ValueError(
            f"own has shape {own.shape} and others {others.shape}; they must be [N] and [N, K - 2]"
        )
    check_enough_canaries(own.size, confidence)
    won = np.empty((len(THRESHOLDS), own.size), dtype=np.int64)
    lost = np.empty_like(won)
    beats = own[:, None] > others  # a tie is lost: preferring neither is not evidence
    strongest = np.maximum(own[:, None], others)
    for row, threshold in enumerate(THRESHOLDS):
        guessed = strongest >= threshold
        won[row] = (guessed & beats).sum(axis=1)
        lost[row] = guessed.sum(axis=1) - won[row]
    return MemorizationAudit(
        paper=_paper(won, lost, confidence),
        corrected=_corrected(won, lost, others.shape[1], confidence),
        ceiling=one_run_ceiling(canaries=own.size, confidence=confidence),
        canaries=own.size,
    )


def _paper(won: NDArray[np.int64], lost: NDArray[np.int64], confidence: float) -> EpsilonInterval:
    """The published rule over thresholds; won and lost are guesses of each canary [S, N]."""
    best = EpsilonInterval(epsilon_low=0.0, epsilon_high=0.0, threshold=None, guesses=0)
    for row, threshold in enumerate(THRESHOLDS):
        low, high = _paper_accuracy(won[row], lost[row], confidence)
        interval = EpsilonInterval(
            epsilon_low=_log_odds(low),
            epsilon_high=_log_odds(high),
            threshold=threshold,
            guesses=int(won[row].sum() + lost[row].sum()),
        )
        wider = best.epsilon_high < interval.epsilon_high < math.inf
        if interval.epsilon_low > best.epsilon_low or (
            interval.epsilon_low == best.epsilon_low and wider
        ):
            best = interval
    return best


def _paper_accuracy(
    won: NDArray[np.int64], lost: NDArray[np.int64], confidence: float
) -> tuple[float, float]:
    """Interval of the accuracy at one threshold; the supplement's reliability weights."""
    guessed = won + lost
    guessing = int((guessed > 0).sum())
    if guessing == 0:
        return 0.0, 1.0
    if won.sum() == 0 or lost.sum() == 0:
        # Decided on counts: a floating-point mean of ones may miss 1. At 95% the rule of three.
        three = round(-math.log(1 - confidence), 1)
        return (1 - three / guessing if guessing > 50 else 0.5), 1.0
    weights = guessed / guessed.sum()
    accuracy = won / np.maximum(guessed, 1)
    mean = float(weights @ accuracy)
    variance = float(weights @ (accuracy - mean) ** 2) / (1 - float(weights @ weights) + 1e-8)
    mean = max(mean, 1 - mean)
    # the published 1.96, which is the quantile to two digits
    half_width = round(float(ndtri((1 + confidence) / 2)), 2) * math.sqrt(variance / guessing)
    return max(0.5, mean - half_width), min(1.0, mean + half_width)


def _log_odds(accuracy: float) -> float:
    if accuracy <= 0.5:
        return 0.0
    return math.inf if accuracy >= 1 else math.log(accuracy / (1 - accuracy))


def _corrected(
    won: NDArray[np.int64], lost: NDArray[np.int64], alternatives: int, confidence: float
) -> EpsilonInterval:
    error = 1 - confidence
    shares_won = won / alternatives
    shares_lost = lost / alternatives
    low = max(0.0, _bound_by_betting(shares_won, shares_lost, error))
    if low > 0:  # show the threshold that earned most at the bound, else the most informative one
        shown = [int(np.argmax(_log_capital(low, shares_won, shares_lost).max(axis=1)))]
    else:
        shown = list(range(len(THRESHOLDS)))
    # The same bet with the sides exchanged bounds the success at a threshold from above. Any of the
    # thresholds might have been the one shown, so each pays a share of the error.
    highs = {
        row: -_bound_by_betting(shares_lost[[row]], shares_won[[row]], error / len(THRESHOLDS))
        for row in shown
    }
    row = min(highs, key=lambda candidate: highs[candidate])
    high = max(low, highs[row])
    guesses = int(won[row].sum() + lost[row].sum())
    return EpsilonInterval(
        epsilon_low=low,
        epsilon_high=high,
        threshold=THRESHOLDS[row] if guesses else None,
        guesses=guesses,
    )


def _log_capital(
    log_odds: float, won: NDArray[np.float64], lost: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log of what each stake grows to at each threshold [S, F], if the odds were `log_odds`."""
    gain = won * math.exp(-log_odds) - lost
    return np.stack([np.log1p(stake * gain).sum(axis=1) for stake in _STAKES], axis=1)


def _log_average_capital(
    log_odds: float, won: NDArray[np.float64], lost: NDArray[np.float64]
) -> float:
    """Log of what one unit grows to that is spread over all stakes and thresholds.

    The best of the bets, picked afterwards, would have an expectation above 1.
    """
    capital = _log_capital(log_odds, won, lost)
    return float(np.logaddexp.reduce(capital, axis=None) - math.log(capital.size))


def _bound_by_betting(won: NDArray[np.float64], lost: NDArray[np.float64], error: float) -> float:
    """Largest log odds at which the average capital reaches 1 / error; -inf where it never does.

    Capital falls as the odds rise, so bisection finds the largest.
    """

    def refuted(log_odds: float) -> bool:
        return _log_average_capital(log_odds, won, lost) >= -math.log(error)

    if not refuted(-_LARGEST_EPSILON):
        return -math.inf
    return largest_refuted(refuted, -_LARGEST_EPSILON, _LARGEST_EPSILON, steps=40)
