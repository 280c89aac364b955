"""A door: the public names of `pate.accounting`, under the path that is promised."""

from labeldp.mechanisms.pate.accounting import (
    CheckNoise,
    PateCost,
    PatePrefixCosts,
    QueryCosts,
    confident_gnmax_costs,
    gnmax_costs,
    lnmax_costs,
    log_probability_answered,
    log_probability_answered_per_class,
    log_q_gaussian,
    log_q_gaussian_exact,
    log_q_laplace,
    rdp_gnmax,
    rdp_lnmax,
    rdp_threshold,
)

__all__ = [
    "CheckNoise",
    "PateCost",
    "PatePrefixCosts",
    "QueryCosts",
    "confident_gnmax_costs",
    "gnmax_costs",
    "lnmax_costs",
    "log_probability_answered",
    "log_probability_answered_per_class",
    "log_q_gaussian",
    "log_q_gaussian_exact",
    "log_q_laplace",
    "rdp_gnmax",
    "rdp_lnmax",
    "rdp_threshold",
]
