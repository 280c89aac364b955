"""The one-run audit within a family of mechanisms, as tight as one run can be.

Two bounds, each "if this is that noise, its epsilon is at least ...". `one_run` assumes neither.

**By the law of single labels** (`tight_lower_bound`), for noise on each label by itself.
Where each label passes a channel of its own, M coins are guessed independently. Of M canaries the R
with the surest ratios are guessed; the share W that is less sure is Beta(M - R, R + 1), and given W
each guess errs by itself with the mean error g(W) of the surest 1 - W. So for the best attacker

    P[T <= u] = E_W[ BinCDF(u; R, g(W)) ]

of T errors, and no other attacker who guesses R errs less (statement: Xiang et al. 2026, "Tight
privacy audit in one run"; that one run suffices for such mechanisms: Keinan et al. 2025,
corollary 5.4). The strengths of a family at which u errors or fewer have a chance of at most
1 - confidence are refuted.

**That law needs an R that was fixed before the outputs were seen**, such as half of the canaries.
An attacker who guesses wherever randomized response names one of the two labels makes surer guesses
than the law allows for, and the bound would exceed the true epsilon in up to 15% of runs. Unless
`guesses_fixed`, R may follow the outputs in any way. Then only the largest ratio bounds the
errors: given the outputs, each guess errs by itself with probability at least
1 / (1 + exp(largest |L|)), and P[T <= u] is at most BinCDF(u; R, that). Gaussian noise has no
largest ratio and needs a fixed R.

It assumes the family, and that the attacker saw nothing but the noisy labels and public things.

**By a trade-off curve** (`f_dp_lower_bound`), for a whole run whose curve of false positives
against false negatives is known: Mahloujifar, Melis and Chaudhuri, "Auditing f-Differential Privacy
in One Run", ICML 2025 (arXiv:2410.22235). Epsilon-DP allows the worst mechanism of that epsilon;
Gaussian noise or K-class randomized response is a whole curve, which fewer right guesses refute:
much tighter for Gaussian noise, little for randomized response, whose surest outputs are those of
the worst.

>>> from labeldp.mechanisms.label_channels import GaussianFamily
>>> family = GaussianFamily()
>>> counts = {"canaries": 1000, "guesses": 1000, "correct": 691, "guesses_fixed": True}
>>> round(tight_lower_bound(**counts, family=family, delta=1e-5), 3)
3.67
>>> counts = {"canaries": 1000, "guesses": 600, "correct": 450}
>>> round(f_dp_lower_bound(**counts, curve=GaussianCurve(delta=1e-5)), 2)
1.66
>>> round(f_dp_lower_bound(**counts, curve=PureCurve()), 2)
0.93
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import bdtr, betaincinv, expit, ndtr, ndtri, roots_legendre

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import brentq, log_gaussian_delta
from labeldp.mechanisms.auditing.one_run import check_counts, largest_refuted
from labeldp.mechanisms.label_channels import Channel, Family, mean_error

_NODES, _WEIGHTS = roots_legendre(64)
#: Probabilities of W at which the mean over W is taken, and their weights.
_PLACES, _SHARES = (_NODES + 1) / 2, _WEIGHTS / 2
#: The search's least strength, which shows nothing, and how near it comes to its end.
_WEAKEST, _SLACK = 1e-6, 1e-10


@lru_cache(maxsize=256)  # a sweep's trials need the same ceilings
def tight_lower_bound(
    *,
    canaries: int,
    guesses: int,
    correct: int,
    family: Family,
    guesses_fixed: bool = False,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Largest epsilon at `delta` of the family that the guesses refute; 0 where they refute none.

    It is infinite where they refute all: sets of several classes leave some guesses to chance at
    any epsilon.

    Of M `canaries` R were guessed, `correct` rightly; `guesses_fixed` means that R was fixed
    without looking at the outputs, which Gaussian noise requires, as a delta above 0. The bound
    exceeds the true epsilon with probability at most 1 - confidence.
    """
    check_counts(canaries, guesses, correct, confidence)
    strongest = family.channel(family.strongest)
    strongest.epsilon(delta=delta)  # refuses a delta that it has none at
    if not guesses_fixed and math.isinf(strongest.largest):
        raise ValueError(
            f"the number of guesses ({guesses} of {canaries} canaries) was not fixed beforehand. "
            "Gaussian noise can make a few outputs arbitrarily certain, so no bound of that "
            "family holds; fix the number before looking at the outputs (guesses_fixed, "
            "--guesses-fixed)"
        )
    errors = guesses - correct

    def excess(strength: float) -> float:
        channel = family.channel(strength)
        chance = chance_of_errors(
            channel,
            canaries=canaries,
            guesses=guesses,
            errors=errors,
            guesses_fixed=guesses_fixed,
        )
        return chance - (1 - confidence)

    if correct == 0 or excess(_WEAKEST) > 0:
        return 0.0
    if excess(family.strongest) <= 0:
        return math.inf
    # Chances grow with the strength: the root is the weakest that is not refuted.
    refuted = brentq(excess, _WEAKEST, family.strongest, xtol=_SLACK) - 2 * _SLACK
    return family.channel(max(refuted, _WEAKEST)).epsilon(delta=delta)


def best_tight_bound(
    tries: Iterable[tuple[int, int]],
    *,
    canaries: int,
    family: Family,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Largest of the bounds of several numbers of guesses, each of which pays for the choice.

    `tries` are guesses and how many of them are right, the numbers fixed without looking at the
    outputs; the error 1 - confidence is divided among them (Bonferroni).
    """
    counts = list(tries)
    each = 1 - (1 - confidence) / max(1, len(counts))
    return max(
        (
            tight_lower_bound(
                canaries=canaries,
                guesses=guesses,
                correct=correct,
                family=family,
                guesses_fixed=True,
                delta=delta,
                confidence=each,
            )
            for guesses, correct in set(counts)
        ),
        default=0.0,
    )


def chance_of_errors(
    channel: Channel, *, canaries: int, guesses: int, errors: int, guesses_fixed: bool
) -> float:
    """P[T <= u]: how likely the best attacker makes at most u `errors`, or an upper bound.

    If R was fixed, the surest R of the M canaries are guessed; if not, this is an upper bound.
    """
    _validate.whole(errors=errors)
    if not guesses_fixed:
        return float(bdtr(errors, guesses, expit(-channel.largest)))
    if guesses == canaries:
        every = mean_error(channel, np.ones(1))
        return float(bdtr(errors, guesses, every[0]))
    less_sure = betaincinv(canaries - guesses, guesses + 1, _PLACES)
    return float(bdtr(errors, guesses, mean_error(channel, 1 - less_sure)) @ _SHARES)


# By a trade-off curve

_LARGEST_EPSILON = 40.0


@dataclass(frozen=True, kw_only=True)
class PureCurve:
    """Any epsilon-DP mechanism at all: chances differ by at most a factor e^epsilon."""

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """How likely a wrong guess must at least be, given the likelihood of a right one."""
        # both lines of the curve: e^-eps x, and 1 - e^eps (1 - x) near certainty
        shrink, grow = math.exp(-epsilon), math.exp(epsilon)
        return lambda right: max(shrink * right, 1 - grow * (1 - right))


@dataclass(frozen=True, kw_only=True)
class RandomizedResponseCurve:
    """K-class randomized response."""

    num_classes: int  # K, at least 2

    def __post_init__(self) -> None:
        _validate.whole(minimum=2, num_classes=self.num_classes)

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """How likely a wrong guess must at least be, given the likelihood of a right one."""
        other = 1 / (math.exp(epsilon) + self.num_classes - 1)
        keep = 1 - (self.num_classes - 1) * other
        # Outputs in the order in which they speak for a label: itself, those that say nothing, the
        # label it is tested against. Sums of their chances under that label, and under the other.
        right = [0.0, keep, 1 - other, 1.0]
        wrong = [0.0, other, 1 - keep, 1.0]
        return lambda likelihood: float(np.interp(likelihood, right, wrong))


@dataclass(frozen=True, kw_only=True)
class GaussianCurve:
    """The Gaussian mechanism, once or composed; its epsilon is stated at `delta`."""

    delta: float  # in (0, 1)

    def __post_init__(self) -> None:
        _validate.between(0, 1, delta=self.delta)

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """How likely a wrong guess must at least be, given the likelihood of a right one."""
        target = math.log(self.delta)

        def excess(log_separation: float) -> float:
            multiplier = math.exp(-log_separation)
            log_delta = log_gaussian_delta(noise_multiplier=multiplier, epsilon=epsilon)
            return max(log_delta, -1e300) - target

        separation = math.exp(brentq(excess, -20.0, 5.0, xtol=1e-12))
        return lambda right: float(ndtr(ndtri(right) - separation))


Curve = PureCurve | RandomizedResponseCurve | GaussianCurve


def f_dp_lower_bound(
    *, canaries: int, guesses: int, correct: int, curve: Curve, confidence: float = 0.95
) -> float:
    """Largest epsilon of the family `curve` that the guesses refute; 0 where they refute none.

    Of M `canaries` R were guessed, fixed without looking at the outputs, `correct` of them rightly.
    The bound exceeds the true epsilon with probability at most 1 - confidence.

    By the paper's recursion for two candidates: if `correct` guesses or more were right with
    probability 1 - confidence, then, going down one right guess at a time, right and wrong guesses
    would have to be at least this likely; together they cannot exceed the share that is guessed.
    """
    check_counts(canaries, guesses, correct, confidence)
    error, share = 1 - confidence, guesses / canaries

    def refuted(epsilon: float) -> bool:
        smallest_wrong = curve.smallest_wrong(epsilon)
        right, wrong = error * correct / canaries, error * (guesses - correct) / canaries
        for fewer in range(correct - 1, -1, -1):
            next_wrong = max(wrong, smallest_wrong(right))
            right = min(1.0, right + fewer / (guesses - fewer) * (next_wrong - wrong))
            wrong = next_wrong
            if right + wrong > share:
                return True  # both only grow
        return False

    if correct == 0 or not refuted(1e-9):
        return 0.0
    return largest_refuted(refuted, 0.0, _LARGEST_EPSILON, steps=26)  # to 1e-6
