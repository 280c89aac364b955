"""From a noisy release to soft labels: Bayes' rule, and the nearest probabilities.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 5.2
and supplement D. All of it is post-processing: it costs no privacy, however often it is repeated.
N examples, K classes; NumPy arrays and torch tensors alike, in the precision that they come in.

>>> import numpy as np
>>> log_likelihood = np.log([[0.8, 0.1, 0.1]])
>>> posterior(log_likelihood, np.log([[0.2, 0.4, 0.4]])).round(3)
array([[0.667, 0.167, 0.167]])
>>> project_to_simplex(np.array([[1.2, 0.6, -0.3]])).round(3)
array([[0.8, 0.2, 0. ]])
"""

from typing import Any

import numpy as np

from labeldp.mechanisms._validate import AnyArray, as_numpy, is_torch


def posterior(log_likelihood: AnyArray, log_prior: AnyArray) -> AnyArray:
    """Bayes' rule in log space: softmax of the sum (the paper's Eqs. 1 and 3).

    A log-likelihood [N, K] and a log-prior [N, K], or one prior [K] for all rows; a term that the
    classes of a row share may be missing, and -inf rules a class out. A row in which every class is
    ruled out is refused, except on an accelerator, where every step would wait for the check: there
    it comes out as NaN, which the check of the loss finds.
    """
    if log_likelihood.ndim != 2 or log_prior.shape not in (
        log_likelihood.shape,
        log_likelihood.shape[1:],
    ):
        raise ValueError(
            f"log_likelihood has shape {tuple(log_likelihood.shape)} and log_prior "
            f"{tuple(log_prior.shape)}; they must be [N, K] and [N, K] or [K]"
        )
    return _softmax(log_likelihood + log_prior, name="log_likelihood + log_prior")


def project_to_simplex(x: AnyArray) -> AnyArray:
    """Nearest probability vector to each row [N, K] (Duchi et al. 2008, Fig. 1)."""
    _check_rows(x, name="x")
    values: Any = x
    if is_torch(x):
        # A shift of the whole row does not move its projection, and saves digits.
        values = values - values.amax(1, keepdim=True)
        descending = values.sort(1, descending=True).values
        rank = descending.new_ones(descending.shape).cumsum(1)
    else:
        values = np.asarray(values, dtype=np.result_type(values, np.float32))
        values = values - values.max(1, keepdims=True)
        descending = -np.sort(-values, axis=1)
        rank = np.arange(1, values.shape[1] + 1, dtype=values.dtype)
    # Water level at which the r largest entries would hold exactly 1; it is right for the largest r
    # whose smallest entry still rises above it.
    level = (descending.cumsum(1) - 1) / rank
    count = (descending > level).sum(1)[:, None]
    if is_torch(x):
        result: AnyArray = (values - level.gather(1, count - 1)).clamp(min=0)
    else:
        result = np.maximum(values - np.take_along_axis(level, count - 1, axis=1), 0)
    return result


def _softmax(scores: AnyArray, *, name: str) -> AnyArray:
    values: Any = scores
    if is_torch(scores):
        result: AnyArray = values.softmax(1)
        if values.device.type == "cpu":
            _check_possible(values.detach().amax(1), name=name)
        return result
    top = values.max(1, keepdims=True)
    _check_possible(top[:, 0], name=name)
    weights = np.exp(values - top)
    result = weights / weights.sum(1, keepdims=True)
    return result


def _check_possible(top: Any, *, name: str) -> None:
    """Refuse rows whose largest score is NaN or infinite."""
    tops = as_numpy(top)
    bad = np.flatnonzero(~np.isfinite(tops))
    if bad.size:
        row = int(bad[0])
        cause = (
            "every class is ruled out; evidence and prior contradict each other"
            if tops[row] == -np.inf
            else "scores must be finite, or -inf for a class that is ruled out"
        )
        raise ValueError(f"{name} row {row} has {tops[row]} as its largest entry: {cause}")


def _check_rows(rows: Any, *, name: str) -> None:
    if rows.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(rows.shape)}; it must be [N, K]")
    if is_torch(rows) and rows.device.type != "cpu":
        return
    bad = np.flatnonzero(~np.isfinite(as_numpy(rows)).all(1))
    if bad.size:
        row = int(bad[0])
        raise ValueError(f"{name} row {row} is {as_numpy(rows[row])}; its entries must be finite")
