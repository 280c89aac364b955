"""Label inference: how much better does an attack guess labels than one that never saw them?

A model that classifies well also "infers" training labels well, and so would a model trained on
other people's labels: that is learning, not a leak. What label DP limits is the *advantage* of an
attack over the best guess made without the labels (Wu et al., AISTATS 2023). Where a label was
drawn uniformly from m candidates, as a canary's, epsilon-label-DP lets no attack be right more
often than e^epsilon / (e^epsilon + m - 1), against 1 / m without the release: `advantage_bound`.

For other labels the best label-independent guess is unknown. A stand-in that never saw the label in
question, such as an out-of-fold model, is weaker, so the advantage measured against it is an
estimate that errs upward: above a bound it shows a weak stand-in before it shows a broken
mechanism. Only the one-run audit proves the latter.

>>> round(advantage_bound(epsilon=1.0, candidates=2), 4)
0.2311
>>> round(advantage_bound(epsilon=2.0, candidates=9), 4)
0.369
"""

import math
from dataclasses import dataclass

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array, as_numpy


@dataclass(frozen=True, kw_only=True)
class LabelInference:
    """How well labels were inferred.

    Attributes:
        accuracy: Share of labels that the attack guessed.
        baseline_accuracy: Share that the label-independent predictor guessed.
        advantage: The difference; negative if the attack is the worse of the two.
        standard_error: Of the advantage; guesses about one example are paired.
    """

    accuracy: float
    baseline_accuracy: float
    advantage: float
    standard_error: float


def label_inference(guesses: Array, baseline: Array, labels: Array) -> LabelInference:
    """Compare an attack's guesses with a label-independent predictor's.

    Args:
        guesses: What the attack, which saw a model or a release, says the labels are [N].
        baseline: What a predictor says that saw none of these labels [N].
        labels: The true training labels [N].

    Returns:
        Figures computed from true labels: private.

    Raises:
        ValueError: Arrays that are not whole numbers [N] of one length.
    """
    arrays = {"guesses": guesses, "baseline": baseline, "labels": labels}
    numbers = {}
    for name, values in arrays.items():
        array = as_numpy(values)
        highest = int(array.max()) + 1 if array.size and array.dtype.kind in "iu" else 1
        numbers[name] = _validate.labels(array, num_classes=max(1, highest), name=name)
        if numbers[name].size != numbers["guesses"].size:
            raise ValueError(
                f"{name} has {numbers[name].size} entries, guesses {numbers['guesses'].size}; "
                "they must be about the same examples"
            )
    right = (numbers["guesses"] == numbers["labels"]).astype(np.float64)
    by_baseline = (numbers["baseline"] == numbers["labels"]).astype(np.float64)
    difference = right - by_baseline
    return LabelInference(
        accuracy=float(right.mean()),
        baseline_accuracy=float(by_baseline.mean()),
        advantage=float(difference.mean()),
        standard_error=float(difference.std() / math.sqrt(difference.size)),
    )


def advantage_bound(*, epsilon: float, candidates: int, delta: float = 0.0) -> float:
    """Largest advantage of any attack on a label drawn uniformly from so many candidates.

    Let P be the mean over the m candidates y of Pr[guess y | label y]. Label DP, for every other
    candidate z, says Pr[guess y | label y] <= e^epsilon Pr[guess y | label z] + delta. Summed over
    all pairs, where the guesses made under one label have probability 1 together:

        m (m - 1) P <= e^epsilon (m - m P) + m (m - 1) delta,
        P <= (e^epsilon + (m - 1) delta) / (e^epsilon + m - 1).

    The advantage is P - 1/m. Randomized response over the m candidates that shows the label itself
    with probability delta attains it, so there is no smaller bound; to add delta to the bound of
    pure epsilon is never below it. It holds given all other labels, and so for the mean over many
    labels drawn independently, each guessed by who knows the rest.

    Args:
        epsilon: Of the substitution of one label; inf for no privacy.
        candidates: m, from which the secret label was drawn uniformly.
        delta: In [0, 1].

    Raises:
        ValueError: epsilon negative, fewer than two candidates or delta outside [0, 1].
    """
    _validate.number(epsilon=epsilon, delta=delta)
    _validate.whole(minimum=2, candidates=candidates)
    if epsilon < 0:
        raise ValueError(f"epsilon is {epsilon}; it must be 0 or above (inf: no privacy)")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is {delta}; it must lie in [0, 1]")
    # Numerator and denominator times e^-epsilon: an infinite epsilon is no exception.
    share, others = math.exp(-epsilon), candidates - 1
    gain = -math.expm1(-epsilon) + candidates * delta * share
    return others * gain / (candidates * (1 + others * share))
