"""What is done to each label, by name and by its target epsilon.

>>> label_mechanism(Noise.LAPLACE, epsilon=2.0, delta=1e-5, num_classes=3)
LaplaceNoise(epsilon=2.0, num_classes=3)
"""

from enum import StrEnum

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse

LabelMechanism = LaplaceNoise | GaussianNoise | RandomizedResponse | NoNoise


class Noise(StrEnum):
    """What is done to each label. NONE is the baseline without any privacy."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    RANDOMIZED_RESPONSE = "randomized_response"
    NONE = "none"


def label_mechanism(
    noise: Noise, *, epsilon: float, delta: float, num_classes: int
) -> LabelMechanism:
    """Return the mechanism of a target epsilon.

    Args:
        noise: Which one.
        epsilon: Privacy loss per label; NONE does not look at it.
        delta: Used by GAUSSIAN only.
        num_classes: K.

    Raises:
        ValueError: A number out of range.
    """
    match noise:
        case Noise.LAPLACE:
            return LaplaceNoise(epsilon=epsilon, num_classes=num_classes)
        case Noise.GAUSSIAN:
            noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta).noise_std
            return GaussianNoise(noise_std=noise_std, num_classes=num_classes)
        case Noise.RANDOMIZED_RESPONSE:
            return RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
        case Noise.NONE:
            return NoNoise(num_classes=num_classes)
