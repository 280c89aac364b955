"""Whether a sweep keeps the models that its trials trained."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What becomes of trained models; it changes no number of a trial, and not its hash.

    Attributes:
        keep: Keep each trial's model in `models/HASH` of the results folder, and in tracking.
    """

    keep: bool = True
