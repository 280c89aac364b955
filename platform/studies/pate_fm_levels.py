"""What the sweeps of PATE-FM share: a privacy level of the paper, and how small to try it.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, Table 3.
"""

from collections.abc import Mapping
from typing import Any

from labeldp.platform.sweep.sweep import Smoke, Variant
from labeldp.trainers.performance import Precision
from labeldp.trainers.settings.base import ModelName


def level(
    name: str,
    *,
    teachers: int,
    queries: int,
    sigma1: float,
    sigma2: float,
    tau: float,
    answers: int,
) -> Variant:
    """Return a row of the paper's Table 3 as a variant of a sweep.

    Args:
        name: The level.
        teachers: T.
        queries: How many may be checked: enough for the answers, where about half of them pass.
        sigma1: Of the check.
        sigma2: Of the answers.
        tau: The threshold.
        answers: K.
    """
    return Variant(
        name=name,
        changes={
            "trainer.ensemble.teachers": teachers,
            "trainer.ensemble.queries": queries,
            "trainer.sigma1": sigma1,
            "trainer.sigma2": sigma2,
            "trainer.threshold": tau,
            "trainer.answers": answers,
        },
    )


def _tiny(role: str) -> Mapping[str, Any]:
    """Return what makes the FixMatch of teachers or students small enough to try."""
    return {
        f"trainer.{role}.fixmatch.model": ModelName.SMALL_CNN,
        f"trainer.{role}.fixmatch.width": 8,
        f"trainer.{role}.fixmatch.epochs": 1,
        f"trainer.{role}.fixmatch.steps_per_epoch": 2,
        f"trainer.{role}.fixmatch.batch_size": 16,
        f"trainer.{role}.fixmatch.unlabeled_ratio": 2,
    }


#: 300 images, four teachers of a small CNN, two steps.
SMOKE = Smoke(
    changes={
        "data.limit": 300,
        "audit.canaries": 100,
        "trainer.ensemble.teachers": 4,
        "trainer.ensemble.queries": 100,
        "trainer.answers": 20,
        "trainer.students": 1,
        **_tiny("ensemble"),
        **_tiny("student"),
        "performance.precision": Precision.FP32,
        "performance.channels_last": False,
    },
)
