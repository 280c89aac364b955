"""A sweep's results folder: its identity, the records of its trials, and the JSON they are in.

A trial that has ended is a file `trials/<hash>.json`, which the driver writes before anything else
learns of it. Those files decide what a resumed sweep skips; tracking can be filled from them again.
Its model is in `models/<hash>/`: the keeper beside the driver (`checkpoints`) writes it before the
trial reports its end, so a finished trial has its model, unless `models.keep` is false.

>>> SweepIdentity(sweep="small", num_labels=50).to_json()
{'sweep': 'small', 'num_labels': 50}
"""

import fcntl
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import to_jsonable_python

import labeldp
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.trainers.data.columns import is_number
from labeldp.trainers.data.files import (
    DRAFT_ENDING,
    NotOurs,
    inner_folder,
    open_private,
    private_folder,
    read_bytes,
    replacing,
)
from labeldp.trainers.data.splits import FeatureProvenance
from labeldp.trainers.settings.trainer import OfAmounts

if TYPE_CHECKING:  # it loads torch, which readers of results do without
    import pandas as pd

    from labeldp.trainers.models.trained_model import TrainedModel

#: Of results folders; see docs/upgrading.md.
FORMAT = 1
#: Records hold a number per metric and epoch: a few megabytes at most.
_RECORD_BYTES = 100_000_000
#: A finished trial has these metrics, and at least one of the accuracies.
_REPORTED = ("epsilon", "delta", "epsilon_m_low", "epsilon_m_high")
_ACCURACIES = tuple(
    name
    for each in (ChooseBy.TEST, ChooseBy.ESTIMATED)
    for name in (each.metric, each.error.metric)
)
#: Files of a sweep's report.
REPORT_FILES = ("report.html", "pareto.png", "pareto.csv")
#: The description is written last: where it is, the model is whole.
DESCRIPTION = "model.json"
ARRAYS = "model.safetensors"
#: A results folder has one of these at least, however early it was cut off.
_OF_RESULTS = {"trials", "sweep.json", "vault.db", "mlflow.db", "together"}
#: Strings are matched so that a text with the word "Infinity" is passed over as a whole.
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity|NaN')
_CONSTANTS = {"Infinity": "1e999", "NaN": "null"}


def dumps(value: object, *, indent: int | None = None) -> str:
    """Return standard JSON: infinity as 1e999, which every reader takes for it, NaN as null."""
    text = json.dumps(to_jsonable_python(value, fallback=str), indent=indent)
    return _STRING_OR_CONSTANT.sub(lambda found: _CONSTANTS.get(found[0], found[0]), text)


def write_json(path: Path, value: object) -> None:
    """Write JSON as `write_text` does."""
    write_text(path, dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never half of it."""
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except NotOurs as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        raise ValueError(
            f"{path} can't be written ({error.strerror}); free the disk, make the folder "
            "writable or name another place, and run the command again"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        loaded = json.loads(read_bytes(path, most_bytes=_RECORD_BYTES))
        if not isinstance(loaded, dict):
            raise ValueError("it holds no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} can't be read ({error}); restore it, or move the folder away and start again"
        ) from error
    return loaded


def _not_nan(value: float) -> float:
    if math.isnan(value):
        raise ValueError("it must be a number")
    return value


_Number = Annotated[float, AfterValidator(_not_nan)]
_STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class TrialRecord:
    """The result of a trial in plain values, so that it is JSON.

    Reports and tracking use records without checking them again, so each field is checked here.
    """

    hash: str
    variant: str
    config: Mapping[str, Any]
    point: Mapping[str, Any]
    finished: bool
    reason: str = ""  # why it did not finish; empty if it did
    over_budget: bool = False  # whether a release would have exceeded the budget
    metrics: Mapping[str, _Number] = field(default_factory=dict)
    curves: list[dict[str, int | float]] = field(default_factory=list)  # one mapping per epoch
    release_keys: list[str] = field(default_factory=list)
    seconds: _Number = 0.0  # wall time
    git_commit: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    stopped_early: int = 0  # epochs after which a sweep's `stop` ended it; 0 where nothing did
    features: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        FeatureProvenance.restored(self.features)
        if self.finished and self.over_budget:
            raise ValueError("it is finished and over_budget")
        if not all(math.isfinite(epoch.get("epoch", math.nan)) for epoch in self.curves):
            raise ValueError("curves have an epoch without its number")
        missing = [name for name in _REPORTED if name not in self.metrics]
        if not any(name in self.metrics for name in _ACCURACIES):
            missing.insert(0, _ACCURACIES[0])
        if self.finished and missing:
            raise ValueError(f"it is finished and has no metric {missing[0]!r}")

    @property
    def noise(self) -> NoiseKind:
        """The origin of its noise; without one in the configuration, the noise is not secret."""
        if self.config.get("noise.seed", "unknown") is not None:
            return NoiseKind.SEEDED
        return NoiseKind.SECURE if self.config.get("noise.secure") is True else NoiseKind.PLAIN

    @property
    def features_from(self) -> FeatureProvenance:
        """The encoder that made its features, if one did, and its league."""
        return FeatureProvenance.restored(self.features)

    @property
    def canaries(self) -> tuple[int, int] | None:
        """Labels spoiled for the memorization attack and for the one-run audit, if known."""
        kinds = ("audit.canaries", "audit.coin_canaries")
        first, second = (self.config.get(kind) for kind in kinds)
        if not (isinstance(first, int) and isinstance(second, int)):
            return None
        return first, second

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the record in a file."""
        content = read_json(path)
        content.pop("reliability", None)  # earlier versions drew a figure of it
        try:
            record = cls(**content)
            if record.hash != path.stem:
                raise ValueError(f"it is of trial {record.hash!r}")
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a trial record of this version of labeldp ({first_wrong(error)}); "
                "restore it, or move it away to run the trial again"
            ) from error
        return record


def first_wrong(error: Exception) -> str:
    """Return the first thing that is wrong with a record, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    why = first["msg"].removeprefix("Value error, ")
    return f"{place} is {first['input']!r:.80}: {why}" if place else why


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class SweepIdentity:
    """Facts of a sweep that trials' records lack: `sweep.json`, whose keys are these fields."""

    format: int | None = None  # of the folder; counted up when an older version can't read it
    sweep: str | None = None
    sweep_id: str | None = None  # tag of its run in tracking, wherever the folder is moved
    fingerprint: str | None = None  # of the public data
    vault: str | None = None
    path: str | None = None  # where the folder was when it was last opened
    parent_run_id: str | None = None
    tracking_uri: str | None = None  # the store of that run, without passwords
    num_labels: int | None = None
    held_out_labels: int | None = None
    choose_by: Annotated[ChooseBy, Field(strict=False)] | None = None
    count_epsilon: float | None = None  # default price of a count of right answers
    teachers_trained: int | None = None
    teachers_reused: int | None = None  # teachers of that start whose votes were stored already
    # Of a sweep that learns: the plan's epsilon, of all trials with noise; of their counts on
    # held-out labels alone; and the delta at which both hold.
    learned_epsilon: float | None = None
    learned_counts: float | None = None
    learned_delta: float | None = None
    learned_releases: bool | None = None  # whether an axis that is searched touches a release

    def __bool__(self) -> bool:
        return bool(self.to_json())

    @property
    def all_labels(self) -> int | None:
        """Labels in the vault, those that are held out among them."""
        return None if self.num_labels is None else self.num_labels + (self.held_out_labels or 0)

    @property
    def of_the_owner(self) -> dict[str, str]:
        """The owner's places, runs and vault, by key; nothing public names them."""
        names = ("path", "tracking_uri", "vault", "sweep_id", "parent_run_id")
        return {name: found for name in names if (found := getattr(self, name)) is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the facts that are known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def identity_of(path: Path) -> SweepIdentity:
    """Return the identity in the `sweep.json` at `path`; an empty one without a file."""
    if not path.exists():
        return SweepIdentity()
    facts = read_json(path)
    if facts.get("format", FORMAT) != FORMAT:
        raise ValueError(
            f"{path} is of format {facts['format']!r}, and this labeldp ({labeldp.__version__}) "
            f"reads format {FORMAT}; use the version that wrote it, or another folder"
        )
    try:
        return SweepIdentity(**facts)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged ({first_wrong(error)}); restore it, or move the folder away and "
            "start again"
        ) from error


def records_in(folder: Path) -> dict[str, TrialRecord]:
    """Return the records of trials that ended in a results folder, by hash."""
    files = sorted((folder.expanduser() / "trials").glob("*.json"))
    return {record.hash: record for record in map(TrialRecord.read, files)}


def in_ray_job(path: Path) -> bool:
    """Whether a path is in the working folder of a Ray job, a copy that is deleted with the job."""
    # Not `absolute`: a path may lead out of it by `..`.
    return "working_dir_files" in Path(os.path.abspath(path.expanduser())).parts


def default_results(name: str) -> Path:
    """Return the folder `results/NAME` here; in a Ray job, of the home folder's `labeldp`."""
    here = Path.cwd()
    return (Path.home() / "labeldp" if in_ray_job(here) else here) / "results" / name


def lasting(folder: str | os.PathLike[str], *, name_with: str) -> Path:
    """Return a folder to keep results or a vault in; `ValueError` for one that would not last."""
    path = Path(folder)
    if ":/" in str(path):  # a `Path` has one slash left of an address's two
        raise ValueError(
            f"{folder} is an address, and a folder is needed; name one on a disk of this machine "
            f"with {name_with}"
        )
    if in_ray_job(path):
        raise ValueError(
            f"{folder} is in the working folder of a Ray job, which Ray deletes with the job: the "
            "next job would draw and charge everything anew; name an absolute folder on the head "
            f"with {name_with}, such as {Path.home() / 'labeldp' / path.name}"
        )
    return path


def close_results(folder: Path) -> None:
    """Create a folder of results, or close it to others; raises as `private_folder`.

    A folder with other things alone is refused before anything in it is changed.
    """
    held = os.listdir(folder) if folder.is_dir() else []
    # .gitkeep is nothing, and a new disk holds nothing of its user.
    other = sorted(name for name in held if not name.startswith((".", "lost+found")))
    if other and _OF_RESULTS.isdisjoint(other):
        raise NotOurs(
            f"{folder} holds more than results ({other[0]!r}), and all of a results folder is "
            "closed to other users; choose a folder of its own"
        )
    private_folder(folder)


class ResultsFolder:
    """The folder of a sweep, held by one driver at a time and closed to every other user."""

    def __init__(self, path: Path, *, sweep: str) -> None:
        """Create the folder if needed, close it to others, and check that it is this sweep's."""
        self.path = path.expanduser().absolute()
        self.sweep = sweep
        #: States of trials in training, trained models, and Tune's files while a sweep runs.
        self.checkpoints = self.path / "checkpoints"
        self.models = self.path / "models"
        self.scratch = self.path / "tune"
        #: The vault's releases and ledger.
        self.store = self.path / "vault.db"
        try:
            # Records, tracking and artifacts hold figures computed from true labels.
            close_results(self.path)
            inner_folder(self.path / "trials")
            # Rights alone do not tell: the disk may be full or read-only.
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except NotOurs as error:
            raise ValueError(
                f"results folder {self.path} can't be used: {error} with --results DIR"
            ) from error
        except OSError as error:
            raise ValueError(
                f"results folder {self.path} can't be written ({error.strerror}); choose another "
                "one with --results DIR"
            ) from error
        owner = self.identity().sweep
        if owner is not None and owner != sweep:
            raise ValueError(
                f"results folder {self.path} holds sweep {owner!r}, not {sweep!r}; choose another "
                "one with --results DIR"
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder; the lock goes with the process, however it ends."""
        try:
            descriptor = open_private(self.path / "driver.lock", os.O_RDWR | os.O_CREAT)
        except NotOurs as error:
            raise ValueError(f"{error} with --results DIR") from error
        with open(descriptor, "r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ValueError(
                    f"results folder {self.path} is in use by process {lock.read() or '?'}; wait "
                    "until that sweep ends, or choose another folder with --results DIR"
                ) from error
            # For the message that the next driver gets.
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            # Only while the folder is held: drafts of another driver may be in use.
            self._clear_leftovers()
            yield

    def _clear_leftovers(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        drafts = [*self.path.glob(f".*{DRAFT_ENDING}*")]  # SQLite adds endings
        for folder in (self.path / "trials", self.path / "private", self.checkpoints, self.models):
            drafts.extend(folder.rglob(f".*{DRAFT_ENDING}"))
        drafts.extend((self.path / "artifacts").rglob(".artifact.uploading.*"))  # MLflow's
        for draft in drafts:
            draft.unlink(missing_ok=True)

    def identity(self) -> SweepIdentity:
        """Return the content of `sweep.json`; see `identity_of`."""
        return identity_of(self.path / "sweep.json")

    def identify(self, **facts: Any) -> None:
        """Add facts to `sweep.json`; one that is None stays as it is."""
        # A start that knows less must not erase what an earlier one wrote.
        new = {name: fact for name, fact in facts.items() if fact is not None}
        identity = replace(self.identity(), **{**new, "sweep": self.sweep, "format": FORMAT})
        write_json(self.path / "sweep.json", identity.to_json())

    def records(self) -> dict[str, TrialRecord]:
        """Return the records of trials that ended, by hash."""
        return records_in(self.path)

    def keep(self, record: TrialRecord) -> None:
        """Write a trial's record."""
        write_json(self.path / "trials" / f"{record.hash}.json", asdict(record))


@dataclass(frozen=True, kw_only=True)
class KeptResults:
    """The content of a results folder."""

    path: Path
    identity: SweepIdentity  # content of `sweep.json`; empty where there is none
    records: Mapping[str, TrialRecord]

    @property
    def sweep(self) -> str:
        """Name of the sweep, or of the folder if it is unknown."""
        return self.identity.sweep or self.path.name

    @property
    def store(self) -> Path:
        """The vault's releases and ledger."""
        return self.path / "vault.db"

    def trial(self, named: str) -> TrialRecord:
        """Return the trial whose hash begins with `named`."""
        found = [digest for digest in self.records if named and digest.startswith(named)]
        if len(found) == 1:
            return self.records[found[0]]
        shown = found or list(self.records)
        examples = ", ".join([*shown[:3], *(["..."] if len(shown) > 3 else [])]) or "none yet"
        raise ValueError(
            f"{len(found) or 'no'} trials of {self.path} begin with {named!r}; give the beginning "
            f"of one hash. Trials that have ended: {examples}"
        )


def read_results(path: Path) -> KeptResults:
    """Return the content of the results folder at `path`, without changing anything in it."""
    folder = path.expanduser().absolute()
    if not folder.is_dir():
        raise ValueError(f"folder {folder} does not exist; name the results of a sweep")
    identity = identity_of(folder / "sweep.json")
    records = records_in(folder)
    if not (identity or records or (folder / "vault.db").exists()):
        raise ValueError(
            f"{folder} holds no results: neither sweep.json, nor trials, nor a vault; name the "
            "folder that a sweep was given with --results"
        )
    return KeptResults(path=folder, identity=identity, records=records)


def write_model(models: Path, digest: str, files: Mapping[str, bytes]) -> None:
    """Write a trial's model for its owner alone; an earlier one is replaced file by file.

    Raises:
        NotOurs: A folder or file of another user, or a link, is in the way.
    """
    folder = models / digest
    # A cluster that runs already has an umask of its own.
    for each in (models, folder):
        inner_folder(each)
    # Of an earlier start of the same trial: until both files are new, no model exists.
    (folder / DESCRIPTION).unlink(missing_ok=True)
    for name in sorted(files, key=lambda name: name == DESCRIPTION):
        with replacing(folder / name) as file:
            file.write(files[name])


def kept_model(models: Path, digest: str) -> Path | None:
    """Return the folder of a trial's model; None where none was kept."""
    folder = models / digest
    return folder if (folder / DESCRIPTION).is_file() else None


def csv_text(table: "pd.DataFrame", **how: Any) -> str:
    """Return a table as CSV in which no cell is a formula: such a text gets an apostrophe first.

    Spreadsheets run text that begins like a formula, and strangers choose names of classes.
    """

    def cell(value: object) -> Any:
        # A sign alone, such as the classes + and -, is no formula.
        risky = isinstance(value, str) and value[1:] and value.startswith(tuple("=+-@\t\r"))
        return f"'{value}" if risky and not is_number(value) else value

    plain = table.rename(columns=cell)
    texts = plain.select_dtypes(exclude="number").columns
    plain = plain.assign(**{name: plain[name].map(cell) for name in texts})
    return str(plain.to_csv(index=False, **how))


def prediction_columns(model: "TrainedModel", rows: object) -> dict[str, Any]:
    """Return predictions for N raw rows as columns.

    Returns:
        `prediction`, the name or number of the likeliest class [N], and a column
        `probability_CLASS` [N] for each class. Of amounts and rewards `prediction` alone.
    """
    if isinstance(model.predictor, OfAmounts):
        return {"prediction": model.predict(rows)}
    probabilities = model.predict_proba(rows)
    columns: dict[str, Any] = {"prediction": model.classes[probabilities.argmax(1)]}
    for name, column in zip(model.classes, probabilities.T, strict=True):
        columns[f"probability_{name}"] = column
    return columns
