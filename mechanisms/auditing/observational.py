"""An audit that spoils no label: is a model's own label distinct from a proxy's?

After Kalemaj et al. 2025, "Observational auditing of label privacy" (arXiv:2511.14084). For each
audited example a proxy q, made without its label, draws another label; where the two differ, the
attacker is shown both and names the one the model was trained on. Nothing is planted, so the
coin between them is as fair as the proxy is right: if true labels are drawn from p(y|x), the odds
of two labels before the model is looked at are

    p(a) q(b) / (p(b) q(a)) <= exp(2 tau),    tau = max |log p(y|x) - log q(y|x)|,

and after it, under epsilon-label-DP, at most exp(epsilon + 2 tau). So the one-run bound is one on
epsilon + 2 tau, whatever the attacker does, and 2 tau is its slack. **Tau is an assumption**: no
data can show it. Without it nothing is bounded, and the published figure, a percentile
at the best of many thresholds, is not a bound either.

>>> generator = np.random.default_rng(0)
>>> proxy = np.full((2000, 4), 0.25)
>>> labels = generator.integers(4, size=2000)
>>> memory = np.where(np.eye(4)[labels] == 1, 0.7, 0.1)
>>> known = {"labels": labels, "proxy": proxy, "generator": generator}
>>> audit = observational_audit(memory, **known, proxy_log_error=0.1)
>>> audit.slack, round(audit.epsilon_low, 1)
(0.2, 5.6)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array
from labeldp.mechanisms.auditing.one_run import one_run_audit

_LEAST = np.finfo(np.float64).tiny


@dataclass(frozen=True, kw_only=True)
class ObservationalAudit:
    """Lower bound on a model's epsilon, if the proxy is as good as stated."""

    epsilon_low: float  # epsilon (at delta 0) is at least this; the slack is taken off already
    slack: float  # 2 tau, what the proxy's error may explain
    ceiling: float  # what as many examples could have proven at most, less the slack
    guesses: int  # how many labels were guessed, in the best try
    correct: int  # how many of them rightly
    examples: int  # those whose two labels differ


def observational_audit(
    confidences: Array,
    *,
    labels: Array,
    proxy: Array,
    proxy_log_error: float,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> ObservationalAudit:
    """Audit a model on examples whose labels it was trained on, none of them spoiled.

    `confidences` are the model's probabilities [N, K], `labels` the secret labels it was trained on
    [N], `proxy` the probabilities q of a model that never saw them [N, K], and `proxy_log_error` is
    tau. Guesses rest on how much more likely than the proxy the model finds each of two labels. The
    bound exceeds the true epsilon with probability at most 1 - confidence.
    """
    _validate.non_negative(proxy_log_error=proxy_log_error)
    rows, chances, true = _checked(confidences, labels, proxy)
    sums = np.cumsum(chances, axis=1)
    uniform = generator.random((len(sums), 1)) * sums[:, -1:]
    drawn = (sums <= uniform).sum(axis=1)  # a label of each row, with the chances that it states
    differ = drawn != true
    if not differ.any():
        raise ValueError(
            f"the proxy drew the true label of all {len(true)} examples, so there is nothing "
            "to distinguish; audit more examples, or take a proxy that is less sure"
        )
    pairs = np.stack([true, drawn], axis=1)[differ]
    coins = generator.integers(2, size=len(pairs))  # which of the two is shown first
    pairs = np.where(coins[:, None] == 0, pairs, pairs[:, ::-1])
    model, known = (
        np.log(np.maximum(np.take_along_axis(values[differ], pairs, axis=1), _LEAST))
        for values in (rows, chances)
    )
    evidence = model - known
    found = one_run_audit(evidence[:, 0] - evidence[:, 1], coins, confidence=confidence)
    slack = 2 * proxy_log_error
    return ObservationalAudit(
        epsilon_low=max(0.0, found.epsilon_low - slack),
        slack=slack,
        ceiling=max(0.0, found.ceiling - slack),
        guesses=found.guesses,
        correct=found.correct,
        examples=len(pairs),
    )


def _checked(
    confidences: Array, labels: Array, proxy: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    rows = _validate.probabilities(confidences, name="confidences")
    chances = _validate.probabilities(proxy, name="proxy", num_classes=rows.shape[1])
    true = _validate.labels(labels, num_classes=rows.shape[1], name="labels", secret=True)
    _validate.same_length(confidences=len(rows), proxy=len(chances), labels=len(true))
    impossible = np.flatnonzero(np.take_along_axis(chances, true[:, None], axis=1) <= 0)
    if impossible.size:
        raise ValueError(
            f"proxy gives the label of example {impossible[0]} probability 0 ({impossible.size} "
            "examples), so its error has no bound; mix it with a little of the uniform "
            "distribution"
        )
    return rows, chances, true
