"""A door: the public names of `pate.smooth_sensitivity`, under the path that is promised."""

from labeldp.mechanisms.pate.smooth_sensitivity import (
    AnswerPrice,
    ConditionsFailed,
    ReleaseNoise,
    SanitizedEpsilon,
    local_sensitivity_gnmax,
    local_sensitivity_threshold,
    public_order,
    release_epsilon,
    smooth_sensitivity,
)

__all__ = [
    "AnswerPrice",
    "ConditionsFailed",
    "ReleaseNoise",
    "SanitizedEpsilon",
    "local_sensitivity_gnmax",
    "local_sensitivity_threshold",
    "public_order",
    "release_epsilon",
    "smooth_sensitivity",
]
