"""A door: the public names of `pate.vote_leakage`, under the path that is promised."""

from labeldp.mechanisms.pate.vote_leakage import (
    CONCENTRATIONS,
    answer_jacobian,
    answer_log_probabilities,
    error_rate,
    fit_concentration,
    queries_within_budget,
    reconstruct,
)

__all__ = [
    "CONCENTRATIONS",
    "answer_jacobian",
    "answer_log_probabilities",
    "error_rate",
    "fit_concentration",
    "queries_within_budget",
    "reconstruct",
]
