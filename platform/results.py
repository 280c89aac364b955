"""A sweep's results folder: who owns it, which trials it holds, and writing that is all or nothing.

A finished trial is a file `trials/<hash>.json`, written by the driver before anything else hears of
it. Those files decide what a resumed sweep skips; tracking can always be filled again from them.
"""

import fcntl
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from labeldp.trainers.regular_files import read_bytes


class ResultsFolderError(ValueError):
    """A results folder that can't be used; the message says why and what to do."""


class NoiseKind(StrEnum):
    """PLAIN floating-point noise; SECURE against attacks on its bits; SEEDED, no secret at all."""

    PLAIN = "plain"
    SECURE = "secure"
    SEEDED = "seeded"


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """What a trial left behind; plain values, so that it is JSON.

    Attributes:
        hash: The trial's identity.
        variant: Name of its line in the comparison.
        config: The resolved configuration, flattened.
        point: The values of the axes.
        finished: Whether it came to its end.
        reason: Why it did not; empty if it did.
        metrics: Name -> number.
        curves: One mapping per epoch.
        release_keys: The releases that it read.
        notes: What a reader of the numbers must know.
        seconds: Wall time.
    """

    hash: str
    variant: str
    config: Mapping[str, Any]
    point: Mapping[str, Any]
    finished: bool
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: list[dict[str, float]] = field(default_factory=list)
    release_keys: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def noise(self) -> NoiseKind:
        """Where its noise came from; records and tracking (all text) of any age say it."""
        if str(self.config.get("noise.seed")) != "None":
            return NoiseKind.SEEDED
        secure = str(self.config.get("noise.secure", False)).lower() == "true"
        return NoiseKind.SECURE if secure else NoiseKind.PLAIN


class ResultsFolder:
    """The folder, held by one driver at a time."""

    def __init__(self, path: Path, *, sweep: str) -> None:
        """Make the folder if need be, for its owner alone, and check that it is this sweep's.

        Raises:
            ResultsFolderError: It can't be written, or belongs to another sweep.
        """
        self.path = path.expanduser().absolute()
        self.sweep = sweep
        try:
            # What is computed from true labels lies in records, tracking and artifacts in here.
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.path / "trials").mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise ResultsFolderError(
                f"results folder {self.path} can't be written ({error.strerror}); choose another "
                "one with --results DIR"
            ) from error
        owner = self.identity().get("sweep", sweep)
        if owner != sweep:
            raise ResultsFolderError(
                f"results folder {self.path} holds sweep {owner!r}, not {sweep!r}; choose another "
                "one with --results DIR"
            )

    @property
    def checkpoints(self) -> Path:
        """Where states of trials in training are kept."""
        return self.path / "checkpoints"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder; the lock goes with the process, however it ends.

        Raises:
            ResultsFolderError: Another driver holds it.
        """
        with open(self.path / "driver.lock", "a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                raise ResultsFolderError(
                    f"results folder {self.path} is in use by process {lock.read() or '?'}; wait "
                    "until that sweep ends, or choose another folder with --results DIR"
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def identity(self) -> dict[str, Any]:
        """Return what the folder says of itself; empty for a new one.

        Raises:
            ResultsFolderError: The file is damaged.
        """
        path = self.path / "sweep.json"
        return _read(path) if path.exists() else {}

    def identify(self, **facts: Any) -> None:
        """Add facts to what the folder says of itself."""
        write_json(self.path / "sweep.json", {**self.identity(), "sweep": self.sweep, **facts})

    def records(self) -> dict[str, TrialRecord]:
        """Return the records of trials that ended, by hash."""
        found = sorted((self.path / "trials").glob("*.json"))
        return {record.hash: record for record in map(_read_record, found)}

    def keep(self, record: TrialRecord) -> None:
        """Write a trial's record.

        Raises:
            ResultsFolderError: It can't be written.
        """
        write_json(self.path / "trials" / f"{record.hash}.json", asdict(record))


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return standard JSON: infinity as 1e999, which every reader takes for it, NaN as null."""
    text = json.dumps(_plain(value), indent=indent)
    return _STRING_OR_INFINITY.sub(lambda m: "1e999" if m[0] == "Infinity" else m[0], text)


#: Records hold a number per metric and epoch: a few megabytes at the most.
_RECORD_BYTES = 100_000_000
#: Strings are matched so that a text that says "Infinity" is passed over as a whole.
_STRING_OR_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity')


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it.

    Raises:
        ResultsFolderError: The disk is full or the folder can't be written.
    """
    write_text(path, dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never half of it."""
    try:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(draft, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ResultsFolderError(
            f"{path} can't be written ({error.strerror}); free the disk or make the folder "
            "writable, and run again with --resume auto"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(read_bytes(path, most_bytes=_RECORD_BYTES))
        if not isinstance(loaded, dict):
            raise ValueError("it holds no JSON object")
    except (OSError, ValueError) as error:
        raise ResultsFolderError(
            f"{path} can't be read ({error}); restore it, or move the folder away and start anew"
        ) from error
    return loaded


def _read_record(path: Path) -> TrialRecord:
    try:
        return TrialRecord(**_read(path))
    except TypeError as error:
        raise ResultsFolderError(
            f"{path} is no trial record of this labeldp ({error}); move it away to run the trial "
            "again"
        ) from error
