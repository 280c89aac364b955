"""What of a trial may leave the house: named values, rebuilt one by one, and nothing else.

A value is public because it is named, never because nobody thought of it: metrics one by one in
`platform/sweep/figure_names.py`, settings here. Settings of a method are those that its own class
declares, and of them numbers, truth values and words of an enumeration: text is what people type,
and may be a path, a person's name or a password.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from labeldp.mechanisms.randomness import NoiseKind, is_private
from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.sweep.configuration import METHODS, EvaluationSettings
from labeldp.platform.sweep.figure_names import PUBLIC
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.encoders.provenance import FeatureProvenance
from labeldp.trainers.settings.base import FeatureSet

#: What a page's rows can't be without: an interval that says nothing, in place of the owner's.
_NOTHING_SAID = {"epsilon_m_low": 0.0, "epsilon_m_high": math.inf}
#: Figures of an epoch: on public test labels.
_PUBLIC_CURVES = ("epoch", "val_accuracy")
#: Settings whose values are numbers, truth values or nothing.
_PLAIN_SETTINGS = (
    "seed",
    "data.limit",
    "evaluation.held_out_share",
    "evaluation.epsilon",
    "noise.secure",
    "noise.draw",
)
#: How many labels were replaced on purpose, by kind.
_REPLACED = ("audit.canaries", "audit.coin_canaries")
_HASH = re.compile(r"[0-9a-f]{8,64}")
_NAME = re.compile(r"(setting|figure) [a-z][a-z0-9_./]{0,60}")
_NOT_PUBLIC = object()


@dataclass(frozen=True, kw_only=True)
class PublicTrial:
    """What anybody may know of a trial.

    Attributes:
        name: Of what is published, made of public values only. A trial's own hash is made of all
            its settings, so that who guesses those that stay (a seed, a path) could check them.
        method: Of training.
        data: Name of the data set; `own` for a file of the user's.
        fingerprint: Of the public data.
        config: Dotted key -> value.
        metrics: Name -> number.
        finished: Whether it came to its end.
        noise: Where its noise came from.
        replaced: How many labels were replaced on purpose, to audit it; None where that is unknown.
        releases: Keys of the releases that it read.
        features: What is said of the making of its features, to be shown beside every result.
        left_out: What stays, by name and never by value.
    """

    name: str
    method: str
    data: str
    fingerprint: str
    config: Mapping[str, Any]
    metrics: Mapping[str, float]
    finished: bool
    noise: NoiseKind
    replaced: int | None
    releases: tuple[str, ...]
    features: FeatureProvenance
    left_out: tuple[str, ...]

    @property
    def private(self) -> bool:
        """Whether it is private at all, as far as the trial's own record says."""
        return is_private(self.metrics.get("epsilon", math.inf), self.noise)


def public_trial(record: TrialRecord, *, fingerprint: str) -> PublicTrial:
    """Return what anybody may know of a trial.

    Args:
        record: What it left behind.
        fingerprint: Of the public data, as the sweep's folder has it.

    Raises:
        ValueError: Its method or its data set is not known here.
    """
    config = public_config(record.config)
    if "method" not in config or "data.name" not in config:
        missing = "method" if "method" not in config else "data set"
        raise ValueError(
            f"trial {record.hash} has a {missing} that is not known here, so that nothing says "
            "which of its settings are public; install the package that brings it"
        )
    releases = tuple(key for key in record.release_keys if _HASH.fullmatch(key))
    known = [config, _digits(fingerprint), sorted(releases)]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    return PublicTrial(
        name=digest[:16],
        method=config["method"],
        data=config["data.name"],
        fingerprint=_digits(fingerprint),
        config=config,
        metrics=public_metrics(record.metrics),
        finished=record.finished,
        noise=record.noise,
        replaced=_replaced(record.config),
        releases=releases,
        features=record.features_from,
        left_out=_left_out(record, config),
    )


def public_record(record: TrialRecord) -> TrialRecord:
    """Return a record as pages for the public may show it.

    Names of variants stay: a sweep's file gives them to be shown. What a row of a table can't be
    without and is the owner's, the interval of an attack, is one that says nothing (0 to infinite).
    """
    config = public_config(record.config)
    # A record says of its noise what its seed says; which seed it was is nobody's business.
    seeded = {"noise.seed": "withheld"} if record.noise is NoiseKind.SEEDED else {}
    metrics = {**public_metrics(record.metrics), **(_NOTHING_SAID if record.finished else {})}
    return replace(
        record,
        config={"noise.seed": None, **config, **seeded},
        point={key: config[key] for key in record.point if key in config},
        reason="" if record.finished else "it failed; why is for the owner of the labels to know",
        metrics=metrics,
        curves=[
            {name: epoch[name] for name in _PUBLIC_CURVES if name in epoch}
            for epoch in record.curves
        ],
        seconds=0.0,
        git_commit="",
        environment={},
    )


def public_records(records: Iterable[TrialRecord], *, fingerprint: str) -> list[TrialRecord]:
    """Return records as pages for the public may show them, each by its public name."""
    found: dict[str, TrialRecord] = {}
    for record in records:
        name = public_trial(record, fingerprint=fingerprint).name
        # Trials that differ in nothing that is public.
        number = sum(each.startswith(name) for each in found)
        name = f"{name}-{number + 1}" if number else name
        found[name] = replace(public_record(record), hash=name)
    return list(found.values())


def public_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return those figures that may leave the house."""
    return {name: metrics[name] for name in PUBLIC if name in metrics}


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings that may leave the house.

    Args:
        config: Dotted key -> plain value, as records keep it; enumerations by their values.
    """
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
    """Dotted keys that a class of settings declares, with the type of each."""
    hints = get_type_hints(settings)
    for entry in fields(settings):
        kind = hints[entry.name]
        if is_dataclass(kind):
            assert isinstance(kind, type)
            yield from _declared(f"{prefix}{entry.name}.", kind)
        else:
            yield f"{prefix}{entry.name}", kind


def _checked(value: Any, kind: Any) -> Any:
    """A value of a type that can hold no text, rebuilt; `_NOT_PUBLIC` for any other."""
    if get_origin(kind) in (Union, UnionType):
        options = (_checked(value, each) for each in get_args(kind))
        return next((each for each in options if each is not _NOT_PUBLIC), _NOT_PUBLIC)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        each = [_checked(item, get_args(kind)[0]) for item in value]
        return _NOT_PUBLIC if _NOT_PUBLIC in each else each
    if kind is type(None) or kind is None:
        return None if value is None else _NOT_PUBLIC
    if kind is bool:
        return value if isinstance(value, bool) else _NOT_PUBLIC
    if kind in (int, float):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return value if number else _NOT_PUBLIC
    if isinstance(kind, type) and issubclass(kind, Enum):
        return value if value in [each.value for each in kind] else _NOT_PUBLIC
    return _NOT_PUBLIC


def _digits(text: str) -> str:
    """The text if it is a digest, else nothing."""
    return text if _HASH.fullmatch(text) else ""


def _replaced(config: Mapping[str, Any]) -> int | None:
    """How many labels the audits have replaced."""
    asked = [config.get(key) for key in _REPLACED]
    known = [each for each in asked if isinstance(each, int) and not isinstance(each, bool)]
    return sum(known) if len(known) == len(_REPLACED) else None


def _left_out(record: TrialRecord, config: Mapping[str, Any]) -> tuple[str, ...]:
    """What stays, by name; settings that say nothing are not worth a word."""
    kept = [*config, *_REPLACED]
    settings = [
        f"setting {key}"
        for key, value in record.config.items()
        if key not in kept and value is not None
    ]
    figures = [f"figure {name}" for name in record.metrics if name not in PUBLIC]
    # Names are ours, unless somebody wrote the record by hand: those are counted only.
    named = [each for each in (*settings, *figures) if _NAME.fullmatch(each)]
    more = len(settings) + len(figures) - len(named)
    parts = ("curves", "reason", "git_commit", "environment")
    whole = [name for name in parts if getattr(record, name)]
    others = [f"{more} more settings and figures"] if more else []
    return (*named, *others, "name of the variant", "hash of the trial", *whole)
