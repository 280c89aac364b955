"""A trained model as it may leave the house: read as what it is, and written anew.

Nothing of the files is copied. What they hold is turned into a predictor and a preprocessing, which
have fields for what predicts and for nothing else, and those are written down again: arrays that
nobody predicts with, further keys, and notes in a file's header are gone.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labeldp.mechanisms.ledger import Budget
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.public_values import PublicTrial
from labeldp.platform.report.selection import NotPublishable
from labeldp.platform.report.total_ledger import Total
from labeldp.trainers.models.trained_model import DESCRIPTION, TrainedModel, load_model

#: Where an architecture and a preprocessing may hold text: words of ours, and names of public
#: columns and of their categories.
_WORDS = ("kind", "model", "precision")
_COLUMNS = ("kind", "name", "names", "categories")


def public_model(
    folder: Path, *, record: TrialRecord, trial: PublicTrial, cost: Total, own: Total
) -> dict[str, bytes]:
    """Return the files of a trial's model as they may leave the house, by name.

    Args:
        folder: Where the model is kept.
        record: The trial's record, which the model must be of.
        trial: Its public values.
        cost: What the releases on which it depends cost, by the ledger.
        own: What those cost that it read itself, as the model has it.

    Raises:
        ModelFileError: It can't be read.
        NotPublishable: It is another trial's, or holds text where none belongs.
    """
    model = load_model(folder)
    _check(model, folder, record=record, trial=trial, cost=own)
    origin = replace(
        model.origin,
        trial=trial.name,
        epsilon=cost.epsilon,
        delta=cost.delta,
        data_name=trial.data,
        fingerprint=trial.fingerprint,
        noise=trial.noise,
    )
    files = replace(model, origin=origin).files()
    described = json.loads(files[DESCRIPTION])
    for part, allowed in (("architecture", _WORDS), ("preprocessing", _COLUMNS)):
        place = _text_elsewhere(described[part], allowed)
        if place is not None:
            raise NotPublishable(
                f"{folder / DESCRIPTION} holds text in {part}.{place}, where a model has none; "
                "train the model again, or publish without it (--without-model)"
            )
    return files


def _check(
    model: TrainedModel, folder: Path, *, record: TrialRecord, trial: PublicTrial, cost: Total
) -> None:
    """Refuse a model that is not what the trial's record and the ledger say."""
    origin = model.origin
    facts: dict[str, tuple[Any, Any]] = {
        "trial": (origin.trial, record.hash),
        "method": (origin.method, trial.method),
        "data.name": (origin.data_name, trial.data),
        "data.fingerprint": (origin.fingerprint, trial.fingerprint),
        "seed": (origin.seed, trial.config.get("seed")),
        "noise": (origin.noise, record.noise),
    }
    if record.features:  # older records say nothing of them
        facts["features"] = (origin.provenance.described(), dict(record.features))
    for name, (said, known) in facts.items():
        if said != known:
            raise NotPublishable(
                f"the model in {folder} is not that of trial {record.hash}: its {name} is another "
                "one; put the right folder there, or publish without it (--without-model)"
            )
    if not Budget(epsilon=origin.epsilon, delta=origin.delta).allows(cost.epsilon):
        raise NotPublishable(
            f"the model in {folder} says that it cost epsilon {origin.epsilon:g}, and by the "
            f"ledger its releases cost {cost.epsilon:g}; find out which before anything leaves"
        )
    assert not math.isnan(cost.epsilon)


def _text_elsewhere(value: Any, allowed: tuple[str, ...], key: str = "") -> str | None:
    """The first place that holds text under another key than those; None where none does."""
    if isinstance(value, str):
        return None if key in allowed else key
    if isinstance(value, Mapping):
        inner = ((f"{name}", part) for name, part in value.items())
    elif isinstance(value, list):
        inner = ((key, part) for part in value)
    else:
        return None
    found = (_text_elsewhere(part, allowed, name) for name, part in inner)
    return next((place for place in found if place is not None), None)
