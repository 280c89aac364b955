"""Epsilon as a risk: how often is the best guess of one label right, before and after a release?

Let an attacker know everything but one label, and let no value of it be more probable than p to
them. Their best guess is right with probability p, and after the release with at most q:

    p q + (1 - p) f(1 - q) = p,    f the trade-off curve between any two values of the label.

f(a) is the least rate of misses of a test that raises false alarms at rate a (Dong, Roth and Su,
"Gaussian Differential Privacy", 2022). Let S_y be the probability of guessing y where y is the
label. For another value z the guess y has at least f(1 - S_y), and the guesses under z add up to 1:
S_z + sum over y != z of f(1 - S_y) <= 1. Weighted by the probabilities p_z <= p, and since f is
convex, this is 1 >= S + (1 - p) / p f(1 - S) for the mean S. At p = 1/2 it is the Bayes risk of
Kulynych et al., "Unifying Re-Identification, Attribute Inference, and Data Reconstruction Risks in
Differential Privacy", 2025 (`riskcal`).

Label DP limits the rise q - p alone, the *advantage* of an attack (Wu et al., AISTATS 2023): what a
model trained on other people's labels infers is learning, not a leak. Of a canary's label, drawn
uniformly from m candidates, p is 1/m. Randomized response over the candidates that shows the label
itself with probability delta attains q, so no smaller bound holds. For other labels the best guess
without the release is unknown, and an advantage measured against a weaker one errs upward.

At delta 0 the bound holds for more: q bounds what the attacker believes of any value of probability
p, whatever they have seen. At a delta above 0 that belief has no bound, but q is right on average.

>>> round(guess_after(0.5, epsilon=1.0), 4), round(guess_after_gaussian(0.5, mu=1.0), 4)
(0.7311, 0.6915)
>>> round(guess_rise(1 / 9, epsilon=2.0), 4)  # a canary's label, one of nine
0.369
"""

import math
from collections.abc import Iterable

from scipy.special import ndtr, ndtri

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import L2_SENSITIVITY, GaussianEvent, brentq
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Priced, failure_of

#: Guesses before the release that pages show: of ten equally probable values, and of two.
PRIORS = (0.1, 0.5)


def guess_after(prior: float, *, epsilon: float, delta: float = 0.0) -> float:
    """Return q for a `prior` p in (0, 1): (p e^epsilon + (1 - p) delta) / (p e^epsilon + 1 - p)."""
    return prior + guess_rise(prior, epsilon=epsilon, delta=delta)


def guess_rise(prior: float, *, epsilon: float, delta: float = 0.0) -> float:
    """Return q - p, exact to the last digits also where it is small."""
    _validate.between(0, 1, prior=prior)
    _validate.number(epsilon=epsilon, delta=delta)
    if epsilon < 0:
        raise ValueError(f"epsilon is {epsilon}; it must be 0 or above (inf: no privacy)")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is {delta}; it must lie in [0, 1]")
    # Numerator and denominator times e^-epsilon: also for an infinite epsilon.
    share = math.exp(-epsilon)
    rest = 1 - prior
    return rest * (delta * share - prior * math.expm1(-epsilon)) / (prior + rest * share)


def guess_after_gaussian(prior: float, *, mu: float) -> float:
    """Return q for a `prior` p in (0, 1) under mu-Gaussian DP, whose f(1 - q) is F(F^-1(q) - mu).

    F is the normal distribution function. Noise of one standard deviation for each unit of L2
    sensitivity has mu 1; mu of several releases of one label add up in squares.
    """
    _validate.between(0, 1, prior=prior)
    _validate.positive(mu=mu)

    def excess(z: float) -> float:
        return float(prior * ndtr(z) + (1 - prior) * ndtr(z - mu) - prior)

    low = float(ndtri(prior))
    return float(ndtr(brentq(excess, low, low + mu, xtol=1e-14)))


def gaussian_mu(prices: Iterable[Priced], *, epsilon: float, delta: float) -> float | None:
    """Return mu of the worst label, whose releases cost `epsilon` at `delta`.

    None where they are not all of Gaussian noise. Of Gaussians, the label with the largest epsilon
    has the largest mu.
    """
    listed = list(prices)
    gaussian = all(type(price.event) is GaussianEvent for price in listed)
    if not listed or not gaussian or failure_of(listed) or not epsilon > 0:
        return None
    return L2_SENSITIVITY / calibrate_gaussian(epsilon=epsilon, delta=delta)


def guesses_after(
    *, epsilon: float, delta: float = 0.0, mu: float | None = None
) -> dict[float, float]:
    """Return q for each of `PRIORS`, by the smaller of the bounds that hold."""
    bounds = {prior: guess_after(prior, epsilon=epsilon, delta=delta) for prior in PRIORS}
    if mu is None:
        return bounds
    return {p: min(q, guess_after_gaussian(p, mu=mu)) for p, q in bounds.items()}


def percent(share: float) -> str:
    """Return a probability in percent with one digit, rounded up."""
    return f"{math.ceil(round(1000 * share, 9)) / 10:g}"


def risk_in_words(*, epsilon: float, delta: float = 0.0, mu: float | None = None) -> str:
    """Return the risk of one label in words.

    >>> risk_in_words(epsilon=1.0)
    'right with 10% before, at most 23.2% after; 50% before, at most 73.2% after'
    """
    after = guesses_after(epsilon=epsilon, delta=delta, mu=mu)
    parts = (f"{p:.0%} before, at most {percent(q)}% after" for p, q in after.items())
    return f"right with {'; '.join(parts)}"
