"""From a noisy release to soft labels: Bayes' rule, and what the paper compares it with.

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

from enum import StrEnum
from typing import Any

import numpy as np

from labeldp.mechanisms._validate import AnyArray, as_numpy, is_torch, refuse_entries


class PostProcessing(StrEnum):
    """How a release becomes soft labels.

    MAP_WITH_PRIOR is ALIBI: the posterior under the model's own prediction as the prior. MAP is the
    posterior under a uniform prior. The others look at the noisy vector alone: MIN_MAX moves its
    smallest entry to 0 and rescales, SOFTMAX exponentiates, MIN_PROJECTION finds the nearest point
    of the simplex, ARG_MAX takes the largest entry as a hard label.
    """

    MAP_WITH_PRIOR = "map_with_prior"
    MAP = "map"
    MIN_MAX = "min_max"
    SOFTMAX = "softmax"
    MIN_PROJECTION = "min_projection"
    ARG_MAX = "arg_max"

    @property
    def uses_prior(self) -> bool:
        """Whether the soft labels change with the model's prediction."""
        return self is PostProcessing.MAP_WITH_PRIOR


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


def soft_labels(
    post_processing: PostProcessing,
    *,
    noisy: AnyArray,
    log_likelihood: AnyArray,
    log_prior: AnyArray | None = None,
) -> AnyArray:
    """Soft labels [N, K] of a release, by any of the paper's rules.

    MAP and MAP_WITH_PRIOR use the log-likelihood, MAP_WITH_PRIOR also the log of the model's
    prediction; the other rules use the noisy one-hot vectors.
    """
    match post_processing:
        case PostProcessing.MAP_WITH_PRIOR:
            if log_prior is None:
                raise ValueError(
                    "log_prior is missing; MAP_WITH_PRIOR needs the model's log-probabilities "
                    "(MAP is the rule with a uniform prior)"
                )
            return posterior(log_likelihood, log_prior)
        case PostProcessing.MAP:
            return _softmax(log_likelihood, name="log_likelihood")
        case PostProcessing.SOFTMAX:
            return _softmax(noisy, name="noisy")
        case PostProcessing.MIN_PROJECTION:
            return project_to_simplex(noisy)
        case PostProcessing.MIN_MAX:
            return _min_max(noisy)
        case PostProcessing.ARG_MAX:
            return _arg_max(noisy)


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


def _check_possible(top: object, *, name: str) -> None:
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
    array = as_numpy(rows)
    refuse_entries(~np.isfinite(array).all(1), array, name, "its entries must be finite")


def _min_max(noisy: AnyArray) -> AnyArray:
    """(o - min) / (max - min), made to sum to 1; a row of equal entries becomes uniform.

    The rescaling by max - min cancels. Dividing by the maximum instead, as published code does,
    breaks on a row whose maximum is 0.
    """
    _check_rows(noisy, name="noisy")
    values: Any = noisy
    low = values.amin(1, keepdim=True) if is_torch(noisy) else values.min(1, keepdims=True)
    raised = values - low
    raised = raised + (raised.sum(1) == 0)[:, None]
    shares: AnyArray = raised / raised.sum(1)[:, None]
    return shares


def _arg_max(noisy: AnyArray) -> AnyArray:
    """One-hot rows of the largest entry; the first one where several are equal."""
    _check_rows(noisy, name="noisy")
    values: Any = noisy
    result: AnyArray
    if is_torch(noisy):
        result = values.new_zeros(values.shape).scatter_(1, values.argmax(1)[:, None], 1)
    else:
        result = np.eye(values.shape[1], dtype=values.dtype)[values.argmax(1)]
    return result
