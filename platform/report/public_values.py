"""The parts of a trial that anybody may see: named values, rebuilt one by one, and nothing else.

A value is public because it is named, never because it was forgotten: metrics one by one in
`accuracy_figures.py`, settings here. Settings of a method are those that its own class
declares, and of them numbers, truth values and words of an enumeration: text is typed by people,
and may be a path, a person's name or a password.

A model is read and written anew. Nothing of its files is copied: a predictor and a preprocessing
have fields for what predicts and for nothing else, so that arrays that no prediction uses, further
keys, and notes in a file's header are gone.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.ledger import Total
from labeldp.platform.report.selection import NotPublishable
from labeldp.platform.sweep.accuracy_figures import PUBLIC
from labeldp.platform.sweep.configuration import METHODS, EvaluationSettings
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.models.trained_model import DESCRIPTION, load_model
from labeldp.trainers.settings.base import FeatureSet

#: A finished record must have the attack's interval, which is the owner's: one that says nothing.
_NOTHING = {"epsilon_m_low": 0.0, "epsilon_m_high": math.inf}
#: Figures of an epoch: on public test labels.
_PUBLIC_CURVES = ("epoch", "val_accuracy")
#: Settings whose values are numbers, truth values or nothing.
_PLAIN_SETTINGS = (
    *("seed", "data.limit", "noise.secure", "noise.draw"),
    *("evaluation.held_out_share", "evaluation.epsilon"),
)
#: Published as their sum.
_REPLACED = ("audit.canaries", "audit.coin_canaries")
#: Where an architecture and a preprocessing may hold text: words of ours, and names of public
#: columns and of their categories.
_WORDS = {
    "architecture": ("kind", "model", "precision"),
    "preprocessing": ("kind", "name", "names", "categories"),
}
_HASH = re.compile(r"[0-9a-f]{8,64}")
_NAME = re.compile(r"(setting|figure) [a-z][a-z0-9_./]{0,60}")
_NOT_PUBLIC = object()


def public_record(
    record: TrialRecord, *, fingerprint: str, noise: NoiseKind | None = None
) -> TrialRecord:
    """Return the public values of a trial, by its public name.

    That name is made of public values only. A trial's own hash is made of all its settings, so that
    a reader could check guesses of those that stay (a seed, a path). Names of variants stay, for
    pages show them; published folders don't. `noise` is its source by the ledger; None: by the
    record.
    """
    config = public_config(record.config)
    for key, what in (("method", "method"), ("data.name", "data set")):
        if key not in config:
            raise ValueError(
                f"trial {record.hash} has a {what} that is not known here, so that nothing says "
                "which of its settings are public; install the package that brings it"
            )
    releases = [key for key in record.release_keys if _HASH.fullmatch(key)]
    known = [config, public_digest(fingerprint), sorted(releases)]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    # A record's noise is read off its seed; which seed that was stays.
    seeded = (noise or record.noise) is NoiseKind.SEEDED
    return TrialRecord(
        hash=digest[:16],
        variant=record.variant,
        config={"noise.seed": "withheld" if seeded else None, **config},
        point={key: config[key] for key in record.point if key in config},
        finished=record.finished,
        reason="" if record.finished else "it failed; the reason is for the owner of the labels",
        metrics={**public_metrics(record.metrics), **(_NOTHING if record.finished else {})},
        curves=[
            {name: epoch[name] for name in _PUBLIC_CURVES if name in epoch}
            for epoch in record.curves
        ],
        release_keys=releases,
        features=record.features,
        reliability=record.reliability,
    )


def public_records(records: Iterable[TrialRecord], *, fingerprint: str) -> list[TrialRecord]:
    """Return public records, each under a name of its own."""
    found: dict[str, TrialRecord] = {}
    for record in records:
        public = public_record(record, fingerprint=fingerprint)
        # Trials may differ in nothing that is public.
        number = sum(each.startswith(public.hash) for each in found)
        name = f"{public.hash}-{number + 1}" if number else public.hash
        found[name] = replace(public, hash=name)
    return list(found.values())


def public_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the figures that anybody may see."""
    return {name: metrics[name] for name in PUBLIC if name in metrics}


def public_digest(text: str) -> str:
    """Return the text if it is a digest, else nothing."""
    return text if _HASH.fullmatch(text) else ""


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that anybody may see; enumerations are their values."""
    found: dict[str, Any] = {}
    if config.get("method") in METHODS:
        found["method"] = config["method"]
    if config.get("data.name") in DATASETS:
        found["data.name"] = config["data.name"]
    named: dict[str, Any] = {key: float | int | bool | None for key in _PLAIN_SETTINGS}
    named["data.features"] = FeatureSet
    named["data.hold_out"] = HoldOut | None
    named["evaluation.estimate"] = get_type_hints(EvaluationSettings)["estimate"]
    if "method" in found:
        named |= dict(_declared("trainer.", METHODS[found["method"]]))
    for key, kind in named.items():
        if key in config and (value := _checked(config[key], kind)) is not _NOT_PUBLIC:
            found[key] = value
    return found


def _declared(prefix: str, settings: type) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(settings)
    for entry in fields(settings):
        kind = hints[entry.name]
        if is_dataclass(kind):
            assert isinstance(kind, type)
            yield from _declared(f"{prefix}{entry.name}.", kind)
        else:
            yield f"{prefix}{entry.name}", kind


def _checked(value: Any, kind: Any) -> Any:
    """Return a value of a type that can hold no text, rebuilt; `_NOT_PUBLIC` for any other."""
    if get_origin(kind) in (Union, UnionType):
        options = (_checked(value, each) for each in get_args(kind))
        return next((each for each in options if each is not _NOT_PUBLIC), _NOT_PUBLIC)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        each = [_checked(item, get_args(kind)[0]) for item in value]
        return _NOT_PUBLIC if _NOT_PUBLIC in each else each
    if kind is type(None) or kind is None:
        fits = value is None
    elif kind is bool:
        fits = isinstance(value, bool)
    elif kind in (int, float):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        fits = value in [each.value for each in kind]
    else:
        fits = False
    return value if fits else _NOT_PUBLIC


def left_out(record: TrialRecord, public: TrialRecord) -> list[str]:
    """Return what stays of a trial, by name and never by value; empty settings are not listed."""
    kept = {*public.config, *_REPLACED} - {"noise.seed"}
    settings = [f"setting {k}" for k, v in record.config.items() if k not in kept and v is not None]
    figures = [f"figure {name}" for name in record.metrics if name not in PUBLIC]
    # Names are ours, unless the record was written by hand: those are counted only.
    named = [each for each in (*settings, *figures) if _NAME.fullmatch(each)]
    more = len(settings) + len(figures) - len(named)
    parts = ("curves", "reason", "git_commit", "environment")
    whole = [name for name in parts if getattr(record, name)]
    others = [f"{more} more settings and figures"] if more else []
    return [*named, *others, "name of the variant", "hash of the trial", *whole]


def public_model(
    folder: Path,
    *,
    record: TrialRecord,
    public: TrialRecord,
    fingerprint: str,
    cost: Total,
    own: Total,
) -> dict[str, bytes]:
    """Return the files of a trial's model as they are published, by name.

    `cost` is the price of the releases on which the trial depends, `own` of those that it read
    itself, as the model has it.

    Raises:
        ModelFileError: It can't be read.
        NotPublishable: It is another trial's, or holds text where none belongs.
    """
    model = load_model(folder)
    origin, config = model.origin, public.config
    facts: dict[str, tuple[Any, Any]] = {
        "trial": (origin.trial, record.hash),
        "method": (origin.method, config["method"]),
        "data.name": (origin.data_name, config["data.name"]),
        "data.fingerprint": (origin.fingerprint, public_digest(fingerprint)),
        "seed": (origin.seed, config.get("seed")),
        "noise": (origin.noise, record.noise),
    }
    if record.features:  # a trial without an encoder has none
        facts["features"] = (origin.provenance.described(), dict(record.features))
    for name, (stated, known) in facts.items():
        if stated != known:
            raise NotPublishable(
                f"the model in {folder} is not that of trial {record.hash}: its {name} is another "
                "one; put the right folder there, or publish without it (--without-model)"
            )
    if not Budget(epsilon=origin.epsilon, delta=origin.delta).allows(own.epsilon):
        raise NotPublishable(
            f"the model in {folder} says that it cost epsilon {origin.epsilon:g}, and by the "
            f"ledger its releases cost {own.epsilon:g}; find out which is right before you "
            "publish anything"
        )
    origin = replace(
        origin, trial=public.hash, epsilon=cost.epsilon, delta=cost.delta, noise=public.noise
    )
    files = replace(model, origin=origin).files()
    described = json.loads(files[DESCRIPTION])
    for part, allowed in _WORDS.items():
        place = _text_elsewhere(described[part], allowed)
        if place is not None:
            raise NotPublishable(
                f"{folder / DESCRIPTION} holds text in {part}.{place}, where a model has none; "
                "train the model again, or publish without it (--without-model)"
            )
    return files


def _text_elsewhere(value: Any, allowed: tuple[str, ...], key: str = "") -> str | None:
    if isinstance(value, str):
        return None if key in allowed else key
    if isinstance(value, Mapping):
        inner = [(str(name), part) for name, part in value.items()]
    else:
        inner = [(key, part) for part in value] if isinstance(value, list) else []
    found = (_text_elsewhere(part, allowed, name) for name, part in inner)
    return next((place for place in found if place is not None), None)
