"""What is said of a sweep, or refused, before anything is released: by its start and by its plan.

Nothing here loads data, so that a plan starts without what trains.
"""

import os
from collections.abc import Sequence

from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.audit_settings import refuse_useless
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.count_price import choice_beforehand, count_note
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, lines, unfit_notes
from labeldp.platform.sweep.sweep_options import SweepOptions, canaries_left_out, sized_sweep
from labeldp.trainers.performance import Device, Precision, lacks_bf16_units


def check_canaries(config: TrialConfig, options: SweepOptions, *, num_classes: int) -> None:
    """Refuse canaries that the user asks for, or that are for a user's file, and prove nothing.

    What a sweep plants in its own data set is its own affair.

    Raises:
        ValueError: There are two classes, and canaries for the memorization attack.
    """
    if config.data.name == "own" or "audit.canaries" in options.overrides:
        refuse_useless(config.audit, num_classes=num_classes)


def notes_of(
    sweep: Sweep, options: SweepOptions, trials: Sequence[PlannedTrial], *, held_out: int
) -> list[str]:
    """Return what a person should know of a sweep before anything is released.

    Args:
        sweep: As it is in its file.
        options: How to run it.
        trials: As they will be.
        held_out: H, labels that are held out of training.
    """
    notes = (
        *unfit_notes(lines(sized_sweep(sweep, options), options.overrides)),
        canaries_left_out(sweep, options.overrides),
        count_note(trials, held_out=held_out),
        _precision_note(trials, options),
    )
    return [note for note in notes if note]


def _precision_note(trials: Sequence[PlannedTrial], options: SweepOptions) -> str:
    """Say that bfloat16 is asked for and slows down; empty where it does not, or nobody knows."""
    settings = [trial.config.performance for trial in trials]
    asked = any(
        each.precision is Precision.BF16 and each.device is not Device.CUDA for each in settings
    )
    elsewhere = options.address or os.environ.get("RAY_ADDRESS")  # on a cluster's machines
    if not asked or elsewhere or not lacks_bf16_units():
        return ""
    return (
        "performance.precision is bf16, and this machine has neither a processor with units for "
        "bfloat16 (amx_bf16 or avx512_bf16) nor a GPU: training takes longer than in single "
        "precision; performance.precision=auto takes bf16 only where there are units for it"
    )


def wants_estimates(sized: Sweep, options: SweepOptions, *, by: ChooseBy) -> bool:
    """Whether somebody asks for trials to be told apart by estimates, or the sweep does it."""
    asked = options.choose_by or sized.choose_by
    return by is ChooseBy.ESTIMATED and (asked is by or sized.learns)


def refuse_planned_lottery(trials: Sequence[PlannedTrial], *, held_out: int) -> None:
    """Refuse to pay for counts that trials are to be chosen by and that say nothing.

    Raises:
        ValueError: Noise would choose; names it and the ways out.
    """
    noise = choice_beforehand(trials, held_out=held_out)
    if noise is not None:
        noise.refuse(instead="compare fewer trials, or leave --choose-by and the search out")
