"""`--smoke` of the sweeps of CIFAR: small enough to see in minutes on two cores that all goes."""

from collections.abc import Mapping
from typing import Any

from labeldp.trainers.performance import Precision
from labeldp.trainers.settings.base import ModelName

#: 2,000 images, two epochs of a small CNN in single precision; its rate is the sweep's to say.
SMALL_CNN: Mapping[str, Any] = {
    "data.limit": 2000,
    "audit.canaries": 100,
    "trainer.model": ModelName.SMALL_CNN,
    "trainer.epochs": 2,
    "performance.precision": Precision.FP32,
    "performance.channels_last": False,
}
