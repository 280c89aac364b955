"""Label inference: how much better can an attack guess labels than one that never saw them?

A model that classifies well also "infers" training labels well, and so would a model trained on
other people's labels: that is learning, not a leak. Label DP limits the *advantage* of an attack
over the best guess made without the labels (Wu et al., AISTATS 2023). Where a label was drawn
uniformly from m candidates, as a canary's, epsilon-label-DP lets no attack be right more often than
e^epsilon / (e^epsilon + m - 1), against 1 / m without the release: `advantage_bound`. For other
labels the best label-independent guess is unknown, and a stand-in for it is weaker, so that an
advantage measured against it errs upward.

>>> round(advantage_bound(epsilon=1.0, candidates=2), 4)
0.2311
>>> round(advantage_bound(epsilon=2.0, candidates=9), 4)
0.369
"""

from labeldp.mechanisms import _validate
from labeldp.mechanisms.guess_risk import guess_rise


def advantage_bound(*, epsilon: float, candidates: int, delta: float = 0.0) -> float:
    """Largest advantage of any attack on a label drawn uniformly from m `candidates`.

    Let P be the mean over the m candidates y of Pr[guess y | label y]. Label DP, for every other
    candidate z, has Pr[guess y | label y] <= e^epsilon Pr[guess y | label z] + delta. Summed over
    all pairs, where the guesses made under one label have probability 1 together:

        m (m - 1) P <= e^epsilon (m - m P) + m (m - 1) delta,
        P <= (e^epsilon + (m - 1) delta) / (e^epsilon + m - 1).

    The advantage is P - 1/m. Randomized response over the m candidates that shows the label itself
    with probability delta attains it, so no smaller bound holds; to add delta to the bound of
    pure epsilon is never below it. It holds given all other labels, and so for the mean over many
    labels drawn independently, each guessed by who knows the rest.
    """
    _validate.whole(minimum=2, candidates=candidates)
    return guess_rise(1 / candidates, epsilon=epsilon, delta=delta)
