"""The files of two parties: a request for labels, and a release that answers it.

Each is a folder of two files: facts in a `.json`, with the digest of the arrays in an `.npz`. No
code is in them, and reading one loads neither torch, Ray nor MLflow. Nothing in them is trusted.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.ledger import total_of_prices
from labeldp.mechanisms.persons import Groups, normal_name, shares_of_persons
from labeldp.mechanisms.randomness import SecureEntropy
from labeldp.mechanisms.release_store import describe, write_event
from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.platform.api.label_release import MOST_CLASSES, LabelRelease, mechanism_for
from labeldp.platform.api.process_ledger import PaidRelease
from labeldp.platform.settings.methods import RELEASED
from labeldp.platform.vault.witness import Line
from labeldp.trainers.data.files import draft_of, file_digest, make_folder, read_bytes
from labeldp.trainers.data.own_files import npz_arrays
from labeldp.trainers.methods.preferences import PairQuestion
from labeldp.trainers.methods.smooth_sums import SumQuestion, unpacked

FORMAT = 1
REQUEST = "request.json"
RELEASE = "release.json"
_ARRAYS = "arrays.npz"
_DEPTHS = ("*", "*/part*")  # of a whole release, and of one of many parts
#: Bounds on what a stranger's file may make this process read.
_MOST_BYTES = 2_000_000_000
_MOST_DIRECTIONS = 4096
_LONGEST_ID = 1000
#: Steps of a prior in a file.
PRIOR_STEPS = 65_535


class FileNotAsWritten(ValueError):
    """A request or release that is not what its writer wrote, or that can't be answered."""


class FileAltered(FileNotAsWritten):
    """A whole request or release whose bytes are not those that were digested."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Asked:
    """The fields that a request and its release share.

    Attributes:
        ids: Whose labels, as text, each once [N].
        question: Of the sums; None without sums.
        clusters: Numbers of the groups whose labels are counted [N]; None without counts.
        columns: Names of the features that sums are of, in order; empty without sums.
        pairs: Whether it is for choices between pairs.
    """

    id_column: str
    ids: NDArray[np.str_]
    question: SumQuestion | PairQuestion | None
    clusters: NDArray[np.uint32] | None
    columns: tuple[str, ...]
    pairs: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Request(_Asked):
    """A request of the party with features.

    Attributes:
        weights: Of the sums, in units of the question [N, M]; None without sums.
        prior: Of each label in whole shares of `PRIOR_STEPS` [N, K]; None for a flat one.
        digest: Of the whole request.
    """

    folder: Path
    method: str
    classes: tuple[str, ...]
    weights: NDArray[np.int8] | None
    prior: NDArray[np.uint16] | None
    digest: str

    def public(
        self, groups: Groups
    ) -> tuple[tuple[NDArray[Any], ...], float, NDArray[np.float32] | None]:
        """Return the public inputs of the mechanism.

        And, of sums, the factor that made rows fit it, and the shares [N] that shortened those of
        persons.
        """
        if self.weights is not None and self.question is not None:
            try:
                weights, length = self.question.no_longer_than_one(self.weights)
            except ValueError as error:
                raise FileNotAsWritten(f"{self.folder}: {error}") from error
            if groups.persons is None:
                return (weights,), length, None
            shares = shares_of_persons(weights, groups.persons)
            return (weights * shares[:, None],), length, shares
        if self.clusters is not None:
            return (self.clusters.astype(np.int64),), 1.0, None
        if self.method == "stages":
            # A step more for each class: no class is impossible, whatever the request says.
            flat = np.full((len(self.ids), len(self.classes)), PRIOR_STEPS, np.uint16)
            steps = (flat if self.prior is None else self.prior).astype(np.float64) + 1
            return (steps / steps.sum(1, keepdims=True),), 1.0, None
        return (), 1.0, None

    def answered_by(
        self, values: NDArray[Any], shares: NDArray[np.float32] | None
    ) -> dict[str, NDArray[Any]]:
        """Return the arrays of a release of these values, or refuse more than a reader takes."""
        # Sets as bits, labels as the smallest whole numbers, others in single precision.
        kind = np.float32 if values.ndim > 1 else np.min_scalar_type(int(values.max()))
        sets = values.dtype == bool
        small = np.packbits(values, axis=1) if sets else values.astype(kind)
        arrays: dict[str, NDArray[Any]] = {"values": small}
        if self.question is not None and self.weights is not None:
            arrays |= self.question.arrays()
            arrays["row_marks"] = self.question.marks(self.weights)
        if self.clusters is not None:
            arrays["clusters"] = self.clusters
        if shares is not None:
            arrays["shares"] = shares
        ids = np.char.encode(self.ids, "utf-8")
        # NumPy adds less than a thousand bytes to each.
        size = sum(array.nbytes + 1000 for array in (ids, *arrays.values()))
        if size > _MOST_BYTES:
            raise FileNotAsWritten(
                f"a release of {len(ids):,} labels would have {size:,} bytes, and a reader takes "
                f"{_MOST_BYTES:,}; request them in parts: labeldp request --rows-at-once ROWS"
            )
        return arrays

    def only(self, kept: NDArray[np.intp]) -> "Request":
        """Return a request for these of its labels."""
        clusters = self.clusters
        if clusters is not None:
            clusters = np.unique(clusters[kept], return_inverse=True)[1].astype(np.uint32)
        prior = None if self.prior is None else self.prior[kept]
        return replace(self, ids=self.ids[kept], clusters=clusters, prior=prior)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartyRelease(_Asked, LabelRelease):
    """A release with the ids that it speaks of [N], and the question that it answers.

    `shares` [N] shortened the rows of the question, where persons have several. `mark` names its
    vault and line there (`SharedVault.mark`). Of sums, `row_marks` [M] tell whether rows are those
    of its sums.
    """

    length: float
    shares: NDArray[np.float32] | None
    mark: Mapping[str, str]
    row_marks: NDArray[np.float32] | None

    def soft_labels_of(
        self, rows: NDArray[np.floating], places: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return soft labels [n, K] of the rows at `places` [n], from sums over all rows [N, D]."""
        question = self.question
        shares = self.shares
        assert isinstance(question, SumQuestion)
        if shares is not None:
            question = question.shortened(rows, shares)
            shares = shares[places]
        return question.soft_labels(
            rows[places],
            self.values,
            count=len(self.ids),
            noise_std=self.mechanism.noise_std,
            length=self.length,
            shares=shares,
        )


def read_request(folder: str | Path) -> Request:
    """Return a request, or refuse one that was altered or is too large."""
    place = Path(folder)
    with _as_written(place, REQUEST):
        facts, arrays, asked, values = _opened(place, REQUEST)
        method = facts["method"]
        if method not in RELEASED:
            raise FileNotAsWritten(
                f"{place} requests method {method!r}; an answer takes one of {', '.join(RELEASED)}"
            )
        for needs, name in (("moments", "weights"), ("clusters", "clusters")):
            if (method == needs) != (name in arrays):
                raise FileNotAsWritten(f"{place}: {needs} need {name}, and {method} takes none")
        labels = len(asked["ids"])
        if (weights := arrays.get("weights")) is not None:
            _expect(place, weights, np.uint8, (labels, (values + 1) // 2))
            weights = unpacked(weights, values)
        if (prior := arrays.get("prior")) is not None:
            _expect(place, prior, np.uint16, (labels, len(asked["classes"])))
        return Request(
            **asked,
            folder=place,
            method=method,
            weights=weights,
            prior=prior,
            digest=facts["digest"],
        )


def _opened(
    place: Path, name: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Any], int]:
    """Return facts and arrays; the classes and what `_Asked` has; and the number of values.

    Ids or classes that are none, double or too many are refused before any array is used whose size
    they state: the file comes from another party.
    """
    facts, ids, arrays = read_folder(place, name)
    classes = tuple(map(str, facts["classes"]))
    if not 2 <= len(set(classes)) == len(classes) <= MOST_CLASSES:
        raise FileNotAsWritten(
            f"{place} names {len(classes)} classes, {len(set(classes))} of them different; labels "
            f"have 2 to {MOST_CLASSES} classes, each named once"
        )
    if not len(ids) or len(np.unique(ids)) < len(ids) or not all(ids):
        raise FileNotAsWritten(f"{place} has an id twice, or none; each label is requested once")
    pairs = facts.get("pairs") is True
    question = None
    values = len(ids)
    most = values
    if facts["method"] == "moments":
        question = (PairQuestion if pairs else SumQuestion).of_arrays(arrays)
        values = len(question.units)
        most = _MOST_DIRECTIONS
    if (clusters := arrays.get("clusters")) is not None:
        _expect(place, clusters, np.uint32, (len(ids),))
        values = int(clusters.max()) + 1
        most = min(_MOST_DIRECTIONS, len(ids))
    if values > most:
        raise FileNotAsWritten(f"{place} is of {values:,} sums or counts; the most is {most:,}")
    asked = {
        "classes": classes,
        "id_column": str(facts["id_column"]),
        "ids": ids,
        "question": question,
        "clusters": clusters,
        "columns": tuple(map(str, facts.get("columns", ()))),
        "pairs": pairs,
    }
    return facts, arrays, asked, values


def _expect(place: Path, array: NDArray[Any], kind: Any, shape: tuple[int, ...]) -> None:
    if array.dtype != kind or array.shape != shape:
        raise FileNotAsWritten(
            f"{place} has an array {array.dtype}{array.shape} where {np.dtype(kind)}{shape} belongs"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """A request, of which one part is in memory at a time, with the ids of all [N]."""

    folders: Sequence[Path]
    first: Request
    ids: NDArray[np.str_]

    @classmethod
    def of(cls, request: Request | Sequence[Path]) -> "Parts":
        """Read a request once, and refuse parts that do not belong together."""
        if isinstance(request, Request):
            return cls(folders=[request.folder], first=request, ids=request.ids)
        # Lazily, so that one part is in memory at a time.
        parts = map(read_request, request)
        first = next(parts)
        ids = [first.ids]
        for part in parts:
            if (part.method, part.classes) != (first.method, first.classes):
                raise FileNotAsWritten(
                    f"{part.folder} has another method or other classes than {first.folder}; parts "
                    "of a request have the same"
                )
            ids.append(part.ids)
        together = np.concatenate(ids)
        if twice := len(together) - len(np.unique(together)):
            raise FileNotAsWritten(
                f"{first.folder.parent} has {twice:,} ids in two parts; each label is requested "
                "once"
            )
        return cls(folders=request, first=first, ids=together)

    def __len__(self) -> int:
        return len(self.folders)

    def __iter__(self) -> Iterator[tuple[Request, NDArray[np.intp] | None]]:
        """Yield each part with the places of its labels [n]; None for all of them."""
        if len(self) == 1:
            yield self.first, None
            return
        start = 0
        for part in map(read_request, self.folders):
            yield part, np.arange(start, start + len(part.ids))
            start += len(part.ids)


def lines_beside(folder: Path, *, vault: str | None) -> list[Line]:
    """Return the lines of a vault that releases beside a folder are of: they went out earlier."""
    place = folder.parent
    # `Path.glob` fails when another request moves its draft meanwhile; `glob` does not.
    files = (glob(f"{each}/{RELEASE}", root_dir=place, include_hidden=True) for each in _DEPTHS)
    found = []
    for file in chain.from_iterable(files):
        try:
            release = read_release((place / file).parent)
        except FileNotAsWritten:
            continue  # unfinished, or of another program
        # Releases of other vaults lie in the same folder, and are none of this one's lines.
        if release.mark.get("vault") == vault is not None:
            event = release.mechanism.event
            if not release.delta:  # that of a person with several labels
                event = PureEvent(epsilon=release.epsilon)
            found.append(
                Line(
                    store="",
                    position=0,
                    digest=str(release.mark.get("line")),
                    key="",
                    event=write_event(event),
                    mechanism=json.dumps({"name": release.ledger[0].mechanism}),
                    failure_probability=release.mechanism.failure_probability,
                )
            )
    return found


def parameters_of(mechanism: object) -> dict[str, Any]:
    """Return the parameters of a mechanism as a release states them."""
    described = describe(mechanism, SecureEntropy())
    return {name: described[name] for name in described if name != "noise"}


def read_release(folder: str | os.PathLike[str]) -> PartyRelease:
    """Return a release, or refuse one that is not as it was written."""
    place = Path(folder)
    with _as_written(place, RELEASE):
        facts, arrays, asked, expected = _opened(place, RELEASE)
        classes = asked["classes"]
        labels = len(asked["ids"])
        values = arrays["values"]
        length = float(facts["length"])
        payers = int(facts.get("payers", labels))
        mark = facts["ledger"]
        if not (0 < length < math.inf and payers > 0 and mark.keys() in (set(), {"vault", "line"})):
            raise FileNotAsWritten(
                f"{place} states length {length:g}, {payers} payers and ledger {mark!r}, which no "
                "release has; get it from its writer again"
            )
        mechanism = mechanism_for(
            facts["method"],
            epsilon=facts["asked_epsilon"],
            delta=facts["delta"],
            num_classes=len(classes),
        )
        # Of two classes, too, in earlier releases.
        if facts["method"] == "clusters" and facts["mechanism"] == ClusterHistograms.__name__:
            mechanism = ClusterHistograms(epsilon=mechanism.epsilon, num_classes=len(classes))
        if facts["method"] in ("subset", "stages"):
            _expect(place, values, np.uint8, (labels, (len(classes) + 7) // 8))
            values = np.unpackbits(values, axis=1, count=len(classes)).astype(bool)
        row_marks = None
        if facts["method"] == "moments":
            row_marks = arrays["row_marks"]
            _expect(place, row_marks, np.float32, (expected,))
        if (shares := arrays.get("shares")) is not None:
            _expect(place, shares, np.float32, (labels,))
        shape = (
            (expected,) if facts["method"] == "randomized_response" else (expected, len(classes))
        )
        _expect(place, values, values.dtype, shape)
        single = values.ndim == 1 and not np.isin(values, np.arange(len(classes))).all()
        if single or not np.isfinite(values).all():
            raise FileNotAsWritten(f"{place} has values that are not of {len(classes)} classes")
        _check_price(place, facts, mechanism)
        line = PaidRelease(
            key=facts["request"],
            mechanism=facts["mechanism"],
            labels=payers,
            unit=str(facts.get("unit", "label")),
            epsilon=facts["epsilon"],
            delta=facts["delta"],
            seeded=False,
            new=False,
        )
        return PartyRelease(
            **asked,
            mechanism=mechanism,
            values=values,
            ledger=(line,),
            length=length,
            shares=shares,
            mark=mark,
            row_marks=row_marks,
        )


def _check_price(place: Path, facts: Mapping[str, Any], mechanism: Any) -> None:
    """Refuse a release that states less than its noise costs, or other noise."""
    least, at = total_of_prices([mechanism], delta=facts["delta"])
    said = float(facts["epsilon"])
    of_persons = facts.get("unit") == "person"  # several of them share one epsilon
    same = of_persons or said <= least * (1 + 1e-9)
    own = parameters_of(mechanism)
    stated = facts["parameters"]
    problem = ""
    if not (least * (1 - 1e-9) <= said < math.inf and same and facts["delta"] == at):
        problem = (
            f"epsilon {said:g} at delta {facts['delta']:g}, but its noise costs {least:g} at {at:g}"
        )
    elif stated != own or facts["mechanism"] != stated["name"]:
        problem = f"{facts['mechanism']}, noise of {stated}, but its price is that of {own}"
    if problem:
        raise FileNotAsWritten(f"{place} states {problem}; get it from its writer again")


def check_answers(release: PartyRelease, request: Request) -> None:
    """Refuse a release that does not answer a request of one's own."""
    own = {} if request.question is None else request.question.arrays()
    other = {} if release.question is None else release.question.arrays()
    alike = own.keys() == other.keys() and all(
        np.array_equal(own[x], other[x], equal_nan=True) for x in own
    )
    alike = alike and release.pairs == request.pairs
    if not (alike and release.classes == request.classes and set(release.ids) <= set(request.ids)):
        raise FileNotAsWritten(
            f"the release of {len(release.ids):,} ids does not answer {request.folder}, whose "
            "digest it states: it has another question, other classes or other ids; get it from "
            "its writer again"
        )


def parts_of(folder: str | Path, *, name: str = REQUEST) -> list[Path]:
    """Return the folders of a request (or release) that was written in parts, or it alone."""
    place = Path(folder)
    # Path.exists raises an error if another user owns the folder; os.path.exists does not.
    if os.path.exists(place / name):
        return [place]
    files = glob(f"*/{name}", root_dir=place, include_hidden=True)
    return sorted((place / file).parent for file in files) or [place]


def check_new(folder: Path) -> None:
    """Refuse a folder that is there already, or can't be made."""
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder} exists already; name a new folder")
    above = next(path for path in folder.absolute().parents if path.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise ValueError(f"{folder} can't be made, since {above} can't be written; name another")


@contextmanager
def new_folder(to: str | Path) -> Iterator[Path]:
    """Yield a draft of a new folder, which gets its name at the end: it is whole, or not there."""
    folder = Path(to).absolute()
    check_new(Path(to))
    draft = draft_of(folder)
    make_folder(draft)
    try:
        yield draft
        draft.replace(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_folder(
    folder: Path,
    name: str,
    facts: Mapping[str, Any],
    ids: NDArray[np.str_],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write the files of a folder, which is made if need be."""
    make_folder(folder)
    with (folder / _ARRAYS).open("wb") as opened:
        # NumPy's types take one of the arrays for `allow_pickle`.
        np.savez(opened, ids=np.char.encode(ids, "utf-8"), **arrays)  # type: ignore[arg-type]
    digest = file_digest(folder / _ARRAYS, most_bytes=_MOST_BYTES)
    described = {"format": FORMAT, **facts, "arrays": digest}
    described["digest"] = _digest_of(described)
    (folder / name).write_text(json.dumps(described, indent=1) + "\n")


def read_folder(
    folder: Path, name: str
) -> tuple[dict[str, Any], NDArray[np.str_], dict[str, NDArray[Any]]]:
    """Return a folder's facts, ids and other arrays, or refuse what is not as it was written."""
    facts = json.loads(read_bytes(folder / name))
    stated = facts.pop("digest")
    if facts["format"] != FORMAT:
        raise FileNotAsWritten(
            f"{folder} has format {facts['format']}, and this labeldp reads {FORMAT}"
        )
    for path, then, now in (
        (folder / name, stated, _digest_of(facts)),
        (folder / _ARRAYS, facts["arrays"], file_digest(folder / _ARRAYS, most_bytes=_MOST_BYTES)),
    ):
        if then != now:
            raise FileAltered(f"{path} was altered; get it from its writer again")
    arrays = npz_arrays(folder / _ARRAYS, stored=True)
    ids = arrays.pop("ids")
    if ids.dtype.itemsize > _LONGEST_ID:  # NumPy gives every id the room of the longest
        raise FileNotAsWritten(f"{folder} has an id of more than {_LONGEST_ID:,} bytes")
    names = [normal_name(name) for name in np.char.decode(ids, "utf-8").tolist()]
    return {**facts, "digest": stated}, np.array(names, dtype=str), arrays


@contextmanager
def _as_written(folder: Path, name: str) -> Iterator[None]:
    """Refuse a folder on whatever error a stranger's bytes lead to."""
    try:
        yield
    except FileNotAsWritten:
        raise
    except Exception as error:
        raise FileNotAsWritten(
            f"{folder} can't be read as a folder with {name} ({type(error).__name__}: {error})"
        ) from error


def _digest_of(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
