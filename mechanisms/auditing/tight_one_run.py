"""The one-run audit of noise on single labels, as tight as one run can be.

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

**It assumes the family**, and that what the attacker saw is made of the noisy labels and of public
things alone: "if this is Gaussian noise, its epsilon is at least ...". `one_run` assumes neither.

>>> counts = {"canaries": 1000, "guesses": 1000, "correct": 691, "guesses_fixed": True}
>>> round(tight_lower_bound(**counts, family=GaussianFamily(), delta=1e-5), 3)
3.67
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from scipy.special import bdtr, betaincinv, expit, roots_legendre

from labeldp.mechanisms import _validate
from labeldp.mechanisms._roots import brentq
from labeldp.mechanisms.auditing.label_channels import Channel, Family, GaussianFamily, mean_error
from labeldp.mechanisms.auditing.one_run import check_counts

__all__ = ["GaussianFamily", "best_tight_bound", "chance_of_errors", "tight_lower_bound"]

_NODES, _WEIGHTS = roots_legendre(64)
#: Probabilities of W at which the mean over W is taken, and their weights.
_PLACES, _SHARES = (_NODES + 1) / 2, _WEIGHTS / 2
#: The search's least strength, which tells nothing, and how near it comes to its end.
_WEAKEST, _SLACK = 1e-6, 1e-10


@lru_cache(maxsize=256)  # a sweep's trials ask for the same ceilings
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

    Args:
        canaries: M, canaries in the run, guessed or not.
        guesses: R, how many coins were guessed.
        correct: How many of the guesses are right.
        family: What noise the labels had, but for its strength.
        guesses_fixed: Whether R was fixed without looking at the outputs. Required for Gaussian
            noise.
        delta: At which epsilon is stated, in [0, 1); above 0 for Gaussian noise.
        confidence: The bound exceeds the true epsilon with probability at most 1 - confidence.

    Raises:
        ValueError: Counts that contradict each other, an argument out of range, a family without a
            largest ratio where R was not fixed.
    """
    check_counts(canaries, guesses, correct, confidence)
    strongest = family.channel(family.strongest)
    strongest.epsilon(delta=delta)  # refuses a delta that it has none at
    if not guesses_fixed and math.isinf(strongest.largest):
        raise ValueError(
            f"the number of guesses ({guesses} of {canaries} canaries) was not fixed beforehand, "
            "and a few outputs of Gaussian noise can be as sure as any: no bound of that family "
            "holds; fix the number before looking at the outputs, and say so (guesses_fixed, "
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

    Args:
        tries: Guesses and how many of them are right, for each number that was tried; the numbers
            fixed without looking at the outputs.
        canaries: M.
        family: As in `tight_lower_bound`, and so the others.
        delta: At which epsilon is stated.
        confidence: Of the best bound; the error is divided among the tries (Bonferroni).

    Raises:
        ValueError: As `tight_lower_bound`.
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
    """P[T <= u]: how likely the best attacker makes at most so many errors, or an upper bound.

    Args:
        channel: One label's way out.
        canaries: M.
        guesses: R; if it was fixed, the surest of the M are guessed.
        errors: u.
        guesses_fixed: Whether R was fixed without looking at the outputs; if not, an upper bound.
    """
    _validate.whole(errors=errors)
    if not guesses_fixed:
        return float(bdtr(errors, guesses, expit(-channel.largest)))
    if guesses == canaries:
        every = mean_error(channel, np.ones(1))
        return float(bdtr(errors, guesses, every[0]))
    less_sure = betaincinv(canaries - guesses, guesses + 1, _PLACES)
    return float(bdtr(errors, guesses, mean_error(channel, 1 - less_sure)) @ _SHARES)
