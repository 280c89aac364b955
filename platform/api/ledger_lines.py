"""What fits of an estimator paid: `ledger_`, a line for each release, in words and numbers.

>>> from labeldp.mechanisms.accounting import PureEvent
>>> mechanism = {"name": "LaplaceNoise", "noise": {"name": "OsEntropy", "draw": 0}}
>>> charge = Charge(key="9a", event=PureEvent(epsilon=2.0), indices=None, mechanism=mechanism,
...                 failure_probability=0.0)
>>> print(line_of(charge, num_labels=800, delta=1e-5))
one release of Laplace noise: epsilon 2 for each of 800 labels, paid now
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_store import Charge


@dataclass(frozen=True, kw_only=True)
class PaidRelease:
    """One release, and what it cost each label that it touches.

    Attributes:
        key: Of the release; empty for what was published without one.
        mechanism: What was done to the labels.
        labels: How many of them.
        epsilon: Of this release alone.
        delta: At which it holds; 0 where it is pure.
        seeded: Whether its noise came from a seed, which takes it off again, or from a source that
            is not known here.
        new: Whether it was paid for now; else an earlier fit paid, and it was read again for free.
    """

    key: str
    mechanism: str
    labels: int
    epsilon: float
    delta: float
    seeded: bool
    new: bool

    def __str__(self) -> str:
        """Return the line for people."""
        from labeldp.platform.report.ledger_words import price, what_of

        paid = "paid now" if self.new else "paid by an earlier fit and read again"
        seeded = "; noise from a seed: no guarantee for who knows it" if self.seeded else ""
        what = what_of(self.mechanism) if self.key else self.mechanism
        cost = price(self.epsilon, self.delta)
        return f"{what}: {cost} for each of {self.labels:,} labels, {paid}{seeded}"


def line_of(charge: Charge, *, num_labels: int, delta: float, new: bool = True) -> PaidRelease:
    """Return a charge as a line.

    Args:
        charge: Of the ledger.
        num_labels: N, what `indices` None stands for.
        delta: At which it is stated where it is not pure.
        new: Whether it was paid for now.
    """
    at = delta_of_total([charge], delta=delta)
    return PaidRelease(
        key=charge.key,
        mechanism=str(charge.mechanism.get("name", "unknown")),
        labels=num_labels if charge.indices is None else len(charge.indices),
        epsilon=epsilon_of_prices([charge], delta=at),
        delta=at,
        seeded=charge.noise is NoiseKind.SEEDED,
        new=new,
    )


def guarantee(
    *,
    epsilon: float,
    delta: float,
    total: tuple[float, float],
    scope: str,
    noise_seed: int | None,
    seeded: bool,
    not_counted: Sequence[str] = (),
) -> str:
    """Return what a fit guarantees, in a sentence.

    Args:
        epsilon: Of the fit.
        delta: At which it holds.
        total: Epsilon of all fits that are known of, and the delta at which that holds.
        scope: Which fits these are, in words.
        noise_seed: Of the fit's noise; None for a secret one.
        seeded: Whether noise of any of those came from a seed, or a source not known.
        not_counted: What the total leaves out, in words.
    """
    if noise_seed is not None:
        return (
            f"not private: the noise comes from seed {noise_seed}, and who knows it takes it off "
            "again"
        )
    if not math.isfinite(epsilon):
        return "not private: labels were published"
    kind = "pure" if delta == 0 else f"at delta {delta:g}"
    every = "without any bound"
    if math.isfinite(total[0]):
        every = f"{total[0]:.4g}{f' at delta {total[1]:g}' if total[1] != delta else ''}"
    void = "; noise of some of those came from a seed, and hides nothing from who knows it"
    left_out = "".join(f"; not counted: {each}" for each in not_counted)
    return (
        f"label differential privacy, epsilon {epsilon:.4g} ({kind}) for this fit and {every} for "
        f"{scope}{void if seeded else ''}; features are not protected{left_out}"
    )
