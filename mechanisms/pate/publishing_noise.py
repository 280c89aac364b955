"""Order and noise for publishing an epsilon, by rules that see no votes.

An order or a noise that was tuned on the votes says something about them, and no theorem charges
for it. So both are fixed beforehand, from what anybody knows: how many queries, teachers and
classes there are, and the noise of the answers.

>>> public_order(num_queries=1500, num_answers=500, noise_std=40.0, sigma1=200.0, delta=1e-5)
8.5
>>> noise = ReleaseNoise.public(order=8.5, tail=1e-6, sensitivity_guess=0.05)
>>> round(noise.beta, 4), round(noise.cost_multiplier, 2)
(0.0501, 3.26)
"""

import math
from dataclasses import dataclass

from scipy.special import ndtri

from labeldp.mechanisms import _validate
from labeldp.mechanisms.pate.answer_price import checked_order
from labeldp.mechanisms.pate.renyi_bounds import checked_noise

#: Part of delta that a published bound may fail with: one policy for sweeps and the command line.
TAIL_SHARE = 0.01
#: Guess of the smooth sensitivity, as a share of the most that it could be with any votes.
GUESS_SHARE = 0.1
#: The same for exact costs of two classes, which are smaller, and vary more for their size. Chosen
#: on the published votes of 250 forests on UCI Adult, and on no other votes.
EXACT_GUESS_SHARE = 0.3


def tail_deviations(tail: float) -> float:
    """Standard deviations that a normal variable exceeds with probability tail/2."""
    return -float(ndtri(tail / 2))


@dataclass(frozen=True, kw_only=True)
class ReleaseNoise:
    """How much noise a release gets; to be fixed before the votes are seen.

    Attributes:
        beta: How fast sensitivities are discounted with distance. Larger makes smooth sensitivity
            smaller and its own release noisier.
        sensitivity_multiplier: Noise on log SS, in units of beta.
        cost_multiplier: Noise on the cost, in units of the published bound on SS.
    """

    beta: float
    sensitivity_multiplier: float
    cost_multiplier: float

    def __post_init__(self) -> None:
        """Check that all are positive."""
        _validate.positive(
            beta=self.beta,
            sensitivity_multiplier=self.sensitivity_multiplier,
            cost_multiplier=self.cost_multiplier,
        )

    def rdp(self, order: float) -> float:
        """Renyi cost of both steps of a release at `order`."""
        return (self.sensitivity_multiplier**-2 + self.cost_multiplier**-2) * order / 2

    @classmethod
    def public(cls, *, order: float, tail: float, sensitivity_guess: float) -> "ReleaseNoise":
        """The noise that is best if the guess is right, by a rule that sees no votes.

        beta is such that the bound on smooth sensitivity usually lies exp(0.8), about twice, above
        it. Both steps then cost order / s^2 at noise s and add 2 z s guess to the bound, the sum of
        which is least at s^3 = order / (z guess).

        Args:
            order: The Renyi order.
            tail: Probability that what is published is no bound.
            sensitivity_guess: Guess of the smooth sensitivity, from public knowledge only.
        """
        checked_order(order)
        _validate.between(0, 1, tail=tail)
        _validate.positive(sensitivity_guess=sensitivity_guess)
        deviations = tail_deviations(tail)
        multiplier = (order / (deviations * sensitivity_guess)) ** (1 / 3)
        return cls(
            beta=0.8 / (deviations * multiplier),
            sensitivity_multiplier=multiplier,
            cost_multiplier=multiplier,
        )


def public_order(
    *,
    num_queries: int,
    num_answers: int,
    noise_std: float,
    delta: float,
    sigma1: float | None = None,
) -> float:
    """An order for `release_epsilon` by a rule that sees no votes.

    It is best if answers cost a third of their worst case and the release order/12.

    Args:
        num_queries: How many queries will be checked.
        num_answers: How many answers are planned; not how many were given.
        noise_std: Standard deviation of the noise on every count.
        delta: In (0, 1).
        sigma1: Standard deviation of the noise of the check, where there is one.

    Raises:
        ValueError: An argument out of range.
    """
    _validate.whole(minimum=1, num_queries=num_queries)
    _validate.whole(minimum=0, num_answers=num_answers)
    checked_noise(noise_std=noise_std)
    _validate.between(0, 1, delta=delta)
    slope = num_answers / noise_std**2
    if sigma1 is not None:
        checked_noise(sigma1=sigma1)
        slope += num_queries / (2 * sigma1**2)
    return best_order(expected_slope=slope / 3, delta=delta)


def best_order(*, expected_slope: float, delta: float) -> float:
    """The order that is best if answers cost so much per unit of it and the release 1/12.

    Args:
        expected_slope: A guess by public knowledge.
        delta: In (0, 1).
    """
    order = 1 + math.sqrt(-math.log(delta) / (expected_slope + 1 / 12))
    return max(1.5, round(2 * order) / 2)
