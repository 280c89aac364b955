"""What a trial left behind, checked where it is made and where it is read.

Reports, figures and tracking are made of records without looking at them again: what is not
a number where one belongs, or a text that no page can show, is refused here and named.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.records.json_files import ResultsFolderError, read_json
from labeldp.trainers.encoders.provenance import NO_OUTSIDE_DATA, FeatureProvenance, League

#: What a row of the report is made of, beside one accuracy at least.
REPORTED = ("epsilon", "delta", "epsilon_m_low", "epsilon_m_high")
#: Measured on public test labels, or estimated without any.
ACCURACIES = ("accuracy", "accuracy_estimated")

#: Fields of records of earlier versions; they were always empty.
_NO_LONGER_KEPT = ("notes",)


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """What a trial left behind; plain values, so that it is JSON.

    Attributes:
        hash: The trial's identity.
        variant: Name of its line in the comparison.
        config: The resolved configuration, flattened.
        point: The values of the axes.
        finished: Whether it came to its end.
        reason: Why it did not, in words; empty if it did.
        over_budget: Whether it did not because a release would have gone over the budget.
        metrics: Name -> number.
        curves: One mapping per epoch; what was not a number is NaN.
        release_keys: The releases that it read.
        seconds: Wall time.
        git_commit: Of the code that ran it; empty in records of before this was kept.
        environment: Versions and devices that it ran on; empty likewise.
        stopped_early: After how many epochs a sweep's `stop` ended it; 0 where nothing did.
        features: What is said of the making of its features, as `FeatureProvenance` describes
            it; empty in records of before this was kept.
    """

    hash: str
    variant: str
    config: Mapping[str, Any]
    point: Mapping[str, Any]
    finished: bool
    reason: str = ""
    over_budget: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: list[dict[str, float]] = field(default_factory=list)
    release_keys: list[str] = field(default_factory=list)
    seconds: float = 0.0
    git_commit: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    stopped_early: int = 0
    features: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            ValueError: Names the first that is not what it should be.
        """
        for name in ("hash", "variant", "reason", "git_commit"):
            _need(name, getattr(self, name), isinstance(getattr(self, name), str), "a text")
        for name in ("finished", "over_budget"):
            value = getattr(self, name)
            _need(name, value, isinstance(value, bool), "true or false")
        _need("over_budget", True, not (self.finished and self.over_budget), "false if finished")
        _need("seconds", self.seconds, _is_number(self.seconds), "a number")
        _need("stopped_early", self.stopped_early, type(self.stopped_early) is int, "a number")
        for name in ("config", "point", "metrics", "environment", "features"):
            value = getattr(self, name)
            named = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
            _need(name, value, named, "an object")
        for name in ("curves", "release_keys"):
            _need(name, getattr(self, name), isinstance(getattr(self, name), list), "a list")
        for key in (*self.release_keys, *self.environment.values()):
            _need("release_keys or environment", key, isinstance(key, str), "texts")
        try:
            FeatureProvenance.restored(self.features)
        except ValueError as error:
            raise ValueError(f"features can't be read: {error}") from error
        for name, value in self.metrics.items():
            _need(f"metric {name!r}", value, _is_number(value), "a number")
        for epoch in self.curves:
            _need("curves", epoch, _is_epoch(epoch), "epochs with a number each")
        missing = [name for name in REPORTED if name not in self.metrics]
        if not any(name in self.metrics for name in ACCURACIES):
            missing.insert(0, ACCURACIES[0])
        if self.finished and missing:
            raise ValueError(f"it is finished and has no metric {missing[0]!r}")
        try:
            json.dumps(asdict(self), ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"it holds half a character ({error.object[error.start]!a}) that no page can show"
            ) from error

    @property
    def noise(self) -> NoiseKind:
        """Where its noise came from; records and tracking (all text) of any age say it.

        One that does not was made by other hands, and its noise is no secret as far as anybody
        knows.
        """
        if str(self.config.get("noise.seed", "unknown")) != "None":
            return NoiseKind.SEEDED
        secure = str(self.config.get("noise.secure", False)).lower() == "true"
        return NoiseKind.SECURE if secure else NoiseKind.PLAIN

    @property
    def features_from(self) -> FeatureProvenance:
        """Which encoder made its features, if one did, and the league that it is in."""
        if self.features:
            return FeatureProvenance.restored(self.features)
        own = str(self.config.get("data.name")) == "own"
        return FeatureProvenance(league=League.NOT_STATED) if own else NO_OUTSIDE_DATA

    @property
    def canaries(self) -> tuple[int, int] | None:
        """Labels spoiled for the memorization attack and for the one-run audit, as far as known."""
        kinds = ("audit.canaries", "audit.coin_canaries")
        first, second = (str(self.config.get(kind)) for kind in kinds)
        return (int(first), int(second)) if first.isdecimal() and second.isdecimal() else None

    @classmethod
    def read(cls, path: Path) -> "TrialRecord":
        """Read the record at `path`.

        Raises:
            ResultsFolderError: It holds no record; the message says where and why.
        """
        fields = read_json(path)
        for name in _NO_LONGER_KEPT:
            fields.pop(name, None)
        try:
            if isinstance(curves := fields.get("curves"), list):
                fields["curves"] = [_with_nan(epoch) for epoch in curves]
            fields.setdefault("over_budget", _over_budget_formerly(fields.get("reason")))
            record = cls(**fields)
            if record.hash != path.stem:
                raise ValueError(f"it is of trial {record.hash!r}")
        except (TypeError, ValueError, RecursionError) as error:
            raise ResultsFolderError(
                f"{path} is no trial record of this labeldp ({error}); restore it, or move it away "
                "to run the trial again"
            ) from error
        return record


def _over_budget_formerly(reason: Any) -> bool:
    """What records of before the field was kept say of it: their reason began with the error."""
    return isinstance(reason, str) and reason.startswith("BudgetExceeded: ")


def _with_nan(epoch: Any) -> Any:
    """JSON has no NaN: null is what `dumps` writes for it."""
    if not isinstance(epoch, dict):
        return epoch
    return {key: math.nan if value is None else value for key, value in epoch.items()}


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:  # an integer that no float holds
        return False


def _is_epoch(epoch: Any) -> bool:
    return (
        isinstance(epoch, Mapping)
        and _is_number(epoch.get("epoch"))
        and math.isfinite(epoch["epoch"])
        and all(isinstance(value, float) or _is_number(value) for value in epoch.values())
    )


def _need(name: str, value: Any, good: bool, what: str) -> None:
    if not good:
        raise ValueError(f"{name} is {value!r:.80}, and should be {what}")
