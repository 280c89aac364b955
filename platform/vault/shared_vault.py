"""The labels of a fit in this process, and one ledger for many fits in one process or several.

Fits on the same rows and classes, to the last bit and in the same order, have one vault: a later
fit reads the releases of an earlier one, and pays nothing. Their labels must be equal: a fit with
others is refused until `relabel` states publicly that labels may have changed, so that no total
depends on whether any did. The costs of all other fits add up (`PrivacyLedger.include`): label by
label where fits name the label of each row, and as if one label had been in all of them where none
do. Equal features under other names are taken for the same people, in any order and table: a
mistake in the names costs nobody their privacy.

A vault that holds the labels itself hands out tokens, which `fit` takes in place of labels. Each
counts labels or persons, never both: payments of single labels do not bound those of a person.
"""

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import PrivacyLedger, Total
from labeldp.mechanisms.persons import Groups, event_of_several, normal_name
from labeldp.mechanisms.randomness import NoiseKind, NoiseSource, SeededNoise
from labeldp.mechanisms.release_store import Charge, MemoryStore, OtherLabels, ReleaseStore
from labeldp.platform.records.results import lasting
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.platform.vault.audits import check_room
from labeldp.platform.vault.label_home import LabelHome, SecretLabels, TrialLabels
from labeldp.platform.vault.signing import refuse_changed, sign_folder, signing_key
from labeldp.platform.vault.vault_store import (
    KeptLedger,
    SqliteStore,
    StoreUnusable,
    behind,
    read_ledger,
)
from labeldp.platform.vault.witness import Line, Witness, not_among, state_folder
from labeldp.trainers.data.files import inner_folder, private_folder, replacing
from labeldp.trainers.methods.pate_settings import EnsembleConfig

if TYPE_CHECKING:  # they load torch, which a shared vault does without
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.performance import Performance

#: A home of one fit has one trial.
_TRIAL = "0"


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicSide:
    """Public facts about the labels of a fit, or about the persons who pay in place of labels.

    `values` [2, M] are a digest of the features of each row by value, and the place of its label,
    or person, among the names: what equal features paid under other names counts.
    """

    #: Begins the `classes` of choices between pairs, which the ledger counts as pairs.
    CHOICES: ClassVar[str] = "which of two is preferred"

    rows: str  # digest of the features
    classes: str  # the classes in order, or a digest of them
    num_labels: int
    people: NDArray[Any] | None = None  # name of each label [N], which means it in every fit
    planted: str = ""  # the canaries that an audit plants
    grouping: str = ""  # digest of whose each row is, where persons pay
    kept: int = 0  # the most rows of a person that are used
    values: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        if self.people is None:
            return
        if self.people.shape != (self.num_labels,) or self.people.dtype.kind not in "iuU":
            raise ValueError(
                f"rows has shape {self.people.shape} and type {self.people.dtype} for "
                f"{self.num_labels} labels; it must name each of them by a whole number or a text, "
                "the same one in every fit"
            )
        if len(np.unique(self.names)) < self.num_labels:
            raise ValueError(
                "rows names one label twice; every row has a label of its own, whose name differs "
                "by more than white space or zeros of a number"
            )

    def of_persons(self, groups: Groups) -> "PublicSide":
        """Return the side on which these persons, if any, pay in place of single labels."""
        if groups.persons is None or groups.names is None:
            return self
        return replace(
            self,
            num_labels=len(groups.names),
            people=groups.names,
            grouping=hashlib.sha256(groups.persons.tobytes()).hexdigest(),
            kept=0 if groups.kept is None else groups.most,
        )

    @property
    def unit(self) -> str:
        """The unit that a charge counts: `person`, `pair` or `label`."""
        if self.grouping:
            return "person"
        return "pair" if self.classes.startswith(self.CHOICES) else "label"

    @cached_property
    def names(self) -> NDArray[np.str_]:
        """`people` as texts [N]: 7 and "07" are one."""
        assert self.people is not None
        return np.array([normal_name(name) for name in self.people.tolist()])

    @property
    def values_digest(self) -> str | None:
        """A digest of `values`, which the key does not depend on."""
        return None if self.values is None else hashlib.sha256(self.values.tobytes()).hexdigest()

    @property
    def key(self) -> str:
        """A name for files."""
        people = None if self.people is None else self.people.astype(str).tolist()
        facts = [self.rows, self.classes, self.num_labels, people, self.planted]
        facts += [self.grouping, self.kept] if self.grouping else []
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


_Place = tuple[PublicSide, ReleaseStore]
_Paid = tuple[PublicSide, Sequence[Charge]]


class SharedVault:
    """One ledger and stored releases for several fits.

    Pass it, or the name of its folder, to `LabelPrivateClassifier(vault=...)`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        moved: bool = False,
        labels: object = None,
        classes: object = None,
    ) -> None:
        """Open it, in a folder for its owner alone, or in memory for this process only.

        Args:
            folder: Several processes may share it.
            moved: Confirms that it was moved or restored, and that no other copy will be used;
                what it has lost is charged to everybody then.
            labels: Secret labels or amounts [N] of persons whose order stays the same whenever
                the vault is opened. They stay in this process. `fit` then takes `tokens`.
            classes: As of `LabelPrivateClassifier`, for models that state none.
        """
        if folder is not None and not os.fspath(folder):
            raise ValueError(
                "the folder of a vault is '', which would be the current folder; name one of its "
                "own, SharedVault('labels.vault'), or none for a vault in memory"
            )
        self.folder = None
        if folder is not None:
            self.folder = lasting(folder, name_with="vault= or --vault").expanduser().absolute()
        #: Its name in a process's ledger: an address may be another vault's later.
        self.name = str((self.folder and self.folder.resolve()) or f"memory {secrets.token_hex(8)}")
        self._memory: dict[str, _Place] = {}
        self._sides: dict[Path, PublicSide] = {}
        self._relabeled = 0
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._moved = moved
        self.classes = classes
        self._labels = None
        if labels is not None:
            if np.ma.isMaskedArray(labels):
                raise ValueError("labels is a masked array; give the rows that have a label")
            self._labels = np.asarray(labels)
            if self._labels.ndim != 1 or not len(self._labels):
                raise ValueError(
                    f"labels has shape {self._labels.shape}; it must hold a label for each row [N]"
                )
            # At random, so that a token says nothing about its row or its label.
            self._tokens = _drawn_tokens(len(self._labels))
            self._order = np.argsort(self._tokens)
        if self.folder is None:
            return
        # A key that can't be read is refused now, and not after a release.
        signing_key()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{self.folder} is a file; a vault takes a folder of its own")
        fits = self.folder / "fits"
        if self.folder.is_dir() and any(self.folder.iterdir()) and not fits.is_dir():
            raise ValueError(
                f"{self.folder} is not a vault: it contains files, but not the folder fits/. A "
                "vault denies other users access to its folder. Name a new or empty folder, or "
                "restore fits/"
            )
        private_folder(self.folder)
        inner_folder(fits)

    def __repr__(self) -> str:
        return "SharedVault()" if self.folder is None else f"SharedVault({str(self.folder)!r})"

    def __deepcopy__(self, memo: object) -> "SharedVault":
        """Stay one: scikit-learn copies an estimator's parameters, and a copy would forget."""
        return self

    def __reduce__(self) -> tuple[Callable[..., "SharedVault"], tuple[str]]:
        """Travel as the name of a folder and the classes, or not at all."""
        if self._labels is not None:
            raise TypeError(
                "the labels of a SharedVault(labels=...) stay in their process: take n_jobs=None, "
                "or threads, joblib.parallel_config('threading')"
            )
        if self.folder is None:
            raise TypeError(
                "a SharedVault in memory can't go to another process, where it would have a "
                "ledger of its own: give it a folder, SharedVault(FOLDER)"
            )
        if self._moved:  # a word about this place: it is kept here, and does not travel
            self.charges()
        return (partial(SharedVault, classes=self.classes), (str(self.folder),))

    @property
    def has_labels(self) -> bool:
        """Whether fits take tokens in place of labels."""
        return self._labels is not None

    @property
    def tokens(self) -> NDArray[np.int64]:
        """A public number for each label [N], drawn at random: y for scikit-learn's wrappers.

        Nothing can be computed from tokens, and `fit` refuses changed ones.
        """
        if self._labels is None:
            raise ValueError("this vault holds no labels; SharedVault(labels=y) has tokens")
        return self._tokens.copy()

    def looked_up(self, tokens: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the row and the true label of each token [M], to lock away in a fit.

        Raises:
            ValueError: Something is no token.
        """
        assert self._labels is not None
        self._refuse_a_fork()
        try:
            given = np.asarray(tokens if tokens.dtype.kind in "iuf" else tokens.astype(np.int64))
        except (TypeError, ValueError, OverflowError):
            given = np.full(len(tokens), -1)
        ordered = self._tokens[self._order]
        places = np.searchsorted(ordered, given).clip(max=len(ordered) - 1)
        wrong = int((ordered[places] != given).sum())
        if wrong:
            raise ValueError(
                f"{wrong:,} of the {len(given):,} values of y are no tokens of this vault; nothing "
                "was released. Give vault.tokens of the same rows as X. A wrapper changes tokens "
                "if it would change labels: voting, bagging, stacking, calibration and "
                "cross_val_predict(method='predict_proba') number those that occur, one-vs-rest "
                "makes other targets, TransformedTargetRegressor scales them. Fit the private "
                "models by themselves and average their predict_proba, or give the private model "
                "the other one as estimator=, which learns from the release. Splits: "
                "cv=KFold(5, shuffle=True), since StratifiedKFold counts each token as a class"
            )
        rows = self._order[places]
        return rows, self._labels[rows]

    @property
    def votes(self) -> Path | None:
        """Folder of the ensembles' votes; None for a vault in memory."""
        return None if self.folder is None else self.folder / "votes"

    def relabel(self) -> None:
        """State publicly that labels may have changed: later releases are drawn and paid again.

        Earlier payments still count. Call it on a schedule, or with each delivery of labels, rather
        than only if one changed: the totals show that it was called.
        """
        self._refuse_a_fork()
        with self._lock:
            self._relabeled = self._edition() + 1
            if self.folder is not None:
                with replacing(self.folder / "edition") as file:
                    file.write(str(self._relabeled).encode())

    def _edition(self) -> int:
        file = None if self.folder is None else self.folder / "edition"
        if file is None or not file.exists():
            return self._relabeled
        text = file.read_text(errors="replace").strip()
        if not text.isdecimal():
            raise StoreUnusable(
                f"{file} holds {text!r:.30}; it must be the number of calls of relabel, and was "
                "damaged or edited: restore it from a copy, or write a number larger than those at "
                "which the names in fits/ end, which counts as one more relabel"
            )
        return int(text)

    def charges(self) -> list[Charge]:
        """Return every line of every fit's ledger."""
        return [charge for _, charges in self._paid() for charge in charges]

    @property
    def id(self) -> str | None:
        """Its public id, which copies have; None for a vault in memory."""
        if self.folder is None:
            return None
        file = self.folder / "id"
        if not file.exists():
            made = file.with_name(f".id-{secrets.token_hex(8)}")
            made.write_text(secrets.token_hex(16))
            with suppress(FileExistsError):  # another process was first
                os.link(made, file)
            made.unlink()
        return file.read_text().strip()

    def refuse_ahead(self, lines: Sequence[Line]) -> None:
        """Refuse this vault if it does not know lines of its own releases, or charge them."""
        places = list(self._places())
        stores = (store for _, store in places if isinstance(store, SqliteStore))
        if missing := not_among(lines, [line for store in stores for line in store.lines()]):
            self._refuse_or_charge(missing, places)

    def mark(self, store: ReleaseStore, key: str) -> dict[str, str]:
        """Return what a release that goes out says of its line in a store; nothing if in memory."""
        if not isinstance(store, SqliteStore):
            return {}
        (line,) = (line.digest for line in store.lines() if line.key == key)
        return {"vault": str(self.id), "line": line}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Block releases of other processes and threads meanwhile, so that a budget holds.

        The ledger in its folder is signed at the end, if there is a key.
        """
        if self.folder is None:
            with self._lock:
                yield
            return
        try:
            # Longer than any release takes. An answer to two parties holds it for all parts.
            held = FileLock(self.folder / "lock", timeout=600).acquire()
        except Timeout as error:
            raise ValueError(
                f"another process releases from {self.folder}; wait for it, or end it"
            ) from error
        with held:
            refuse_changed(self.folder)  # before a release, and not after it
            yield
            sign_folder(self.folder, records=True)

    def total(
        self, *, delta: float = USUAL_DELTA, planned: _Paid | None = None
    ) -> tuple[float, float]:
        """Return the largest epsilon of a label over all fits, and the delta at which it holds.

        This delta is 0 where the sum of pure releases is the smaller total, and above `delta` if
        failures need more. `planned` charges of a public side are added.
        """
        found = self.spent(delta=delta, planned=planned)
        return found.epsilon, found.delta

    def spent(self, *, delta: float, planned: _Paid | None = None) -> Total:
        """Return `total`, and whether a seed made some of the noise."""
        paid = self._paid()
        if planned is not None and planned[1]:
            paid.append(planned)
        epsilon, at = joint_ledger(paid)[0].total(delta=delta)
        seeded = any(line.noise is NoiseKind.SEEDED for _, lines in paid for line in lines)
        return Total(epsilon=epsilon, delta=at, seeded=seeded)

    def epsilon(self, *, delta: float = USUAL_DELTA) -> float:
        """Return the largest epsilon of a label over all fits at this delta.

        It is infinite if the releases need a larger delta, which `total` states.
        """
        return joint_ledger(self._paid())[0].epsilon_or_infinity(delta=delta)

    def paid_before(self, side: PublicSide) -> int:
        """Return the number of people of a fit that other fits with releases named."""
        others = [
            other.names
            for other, _ in self._paid()
            if other.people is not None and other.key != side.key
        ]
        return len(np.intersect1d(side.names, np.concatenate(others))) if others else 0

    def store(self, side: PublicSide, *, create: bool = True) -> ReleaseStore:
        """Return the store of all fits with this public side since the last `relabel`.

        A missing store is created; with `create=False` the vault does not keep it.
        """
        self._refuse_a_fork()
        # Before the store is made: a store of another unit would stay in the folder.
        self._refuse_other_persons(side)
        with self._lock:
            name = f"{side.key}-{self._edition()}"
            if self.folder is None:
                known = self._memory if create else dict(self._memory)
                return known.setdefault(name, (side, MemoryStore()))[1]
        folder = self.folder / "fits" / name
        if not create and not (folder / "vault.db").exists():
            return MemoryStore()
        return self._made(folder, side)

    def _made(self, folder: Path, side: PublicSide) -> SqliteStore:
        inner_folder(folder)
        # One that is not whole has no lines, or they were charged to everybody (`_places`).
        if not self._is_whole(folder):
            for name in ("people", "values"):
                if (array := getattr(side, name)) is not None:
                    with replacing(folder / f"{name}.npy") as file:
                        np.save(file, array, allow_pickle=False)
            names = ("rows", "classes", "num_labels", "planted", "grouping", "kept")
            facts = {name: getattr(side, name) for name in names}
            facts["values_digest"] = side.values_digest
            with replacing(folder / "fit.json") as file:
                file.write(json.dumps(facts).encode())
        return self._opened(folder)

    def _is_whole(self, folder: Path) -> bool:
        """Whether the public side of a fit is in its folder, as it was written."""
        with suppress(StoreUnusable):
            return (folder / "fit.json").exists() and bool(self._side_of(folder))
        return False

    def _side_of(self, folder: Path) -> PublicSide:
        """Return the public side of a fit, read once: it never changes, and has many people."""
        if folder not in self._sides:
            self._sides[folder] = _side_of(folder)
        return self._sides[folder]

    def _opened(self, folder: Path) -> SqliteStore:
        try:
            return SqliteStore(folder / "vault.db", vault=str(self.id), moved=self._moved)
        except StoreUnusable as error:
            raise StoreUnusable(self._in_words(str(error))) from error

    def _in_words(self, why: str) -> str:
        return (
            f"{why} (of a SharedVault: SharedVault({str(self.folder)!r}, moved=True) in place of "
            "--moved, and another folder for it in place of --results)"
        )

    def _paid(self) -> list[_Paid]:
        """The fits that released something, with their lines."""
        return [(side, paid) for side, store in self._places() if (paid := store.charges())]

    def _places(self) -> Iterator[_Place]:
        if self.folder is None:
            yield from list(self._memory.values())
            return
        # The witness first: its stores are in the folder before it hears of them.
        witness = Witness()
        places = list[tuple[PublicSide, SqliteStore]]()
        known = witness.of_vault(str(self.id), at=self.folder)
        unusable = None
        for folder in sorted((self.folder / "fits").iterdir()):
            if not (folder / "vault.db").exists():  # the fit was cut off before its request
                continue
            store = self._opened(folder)
            vault = witness.vault_of(store.id)
            if vault not in (None, self.id):  # the id was edited
                known = list({*known, *witness.of_vault(str(vault), at=self.folder)})
            try:
                places.append((self._side_of(folder), store))
            except StoreUnusable as error:  # nobody knows whose the lines of this fit are
                unusable = error
                known += store.lines()
        own = [line for _, store in places for line in store.lines()]
        if missing := not_among(known, own):
            if unusable is not None and not self._moved:
                raise unusable
            self._refuse_or_charge(missing, places)
            yield from self._places()
        else:
            yield from places

    def _refuse_or_charge(self, missing: Sequence[Line], places: Sequence[_Place]) -> None:
        """Refuse a vault that has lost whole fits, or charge them to everybody."""
        assert self.folder is not None
        if not self._moved:
            raise StoreUnusable(self._in_words(behind(self.folder, missing)))
        side = PublicSide(
            rows=f"lost {secrets.token_hex(8)}",
            classes="",
            num_labels=1,
            grouping=next((side.grouping for side, _ in places if side.grouping), ""),
        )
        self._made(self.folder / "fits" / f"{side.key}-0", side).charge_lost(missing)

    def _refuse_other_persons(self, side: PublicSide) -> None:
        """Refuse persons that others in the vault can't be added up with."""
        for other, _ in self._places():
            if side.grouping and other.rows.startswith("lost ") and not other.grouping:
                raise ValueError(
                    "this vault has lost fits that may have counted single labels, which do not "
                    "bound what a person has paid; nothing was released. Take another vault "
                    "(vault= or --vault), and add the costs of this one"
                )
            same_rows = other.rows == side.rows and other.grouping != side.grouping
            if bool(other.grouping) != bool(side.grouping) or same_rows:
                unit = "persons" if other.grouping else "single labels"
                raise ValueError(
                    f"this vault counts {unit}{' of other persons' if same_rows else ''}, and no "
                    "total would hold for both; nothing was released. Take the same persons each "
                    "time (groups= or --person-column), or another vault (vault= or --vault)"
                )

    def _refuse_a_fork(self) -> None:
        """Refuse a copy of this process's memory: this one would never know its charges."""
        if self.folder is None and os.getpid() != self._process:
            raise TypeError(
                f"this SharedVault is in the memory of process {self._process}, and process "
                f"{os.getpid()} is a fork of it, whose releases the ledger would miss: give the "
                "vault a folder, SharedVault(FOLDER)"
            )


def _side_of(folder: Path) -> PublicSide:
    """Return the public side of a fit from its folder."""
    why = "they do not match"
    try:
        known: dict[str, Any] = {
            name: np.load(file, allow_pickle=False)
            for name in ("people", "values")
            if (file := folder / f"{name}.npy").exists()
        }
        facts = dict(json.loads((folder / "fit.json").read_text()))
        digest = facts.pop("values_digest")
        side = PublicSide(**facts, **known)
        if side.key == folder.name.rpartition("-")[0] and digest == side.values_digest:
            return side
    except (OSError, EOFError, KeyError, ValueError, TypeError, AttributeError) as error:
        why = str(error)
    raise StoreUnusable(
        f"{folder} has changed since its labels were locked away: fit.json, people.npy or "
        f"values.npy, which list whose labels paid, was changed or is missing ({why}); restore it "
        "from a copy, or pass --moved, as SharedVault(FOLDER, moved=True), to charge its releases "
        "to everybody"
    )


def kept_fits(folder: Path) -> list[tuple[PublicSide, KeptLedger]]:
    """Return the fits of a vault that released something, by their first releases, read only."""
    stores = sorted((folder / "fits").glob("*/vault.db"))
    fits = [(_side_of(store.parent), read_ledger(store)) for store in stores]
    return sorted((fit for fit in fits if fit[1].charges), key=lambda fit: fit[1].charges[0].made)


def labels_of_one(vault: Path) -> dict[Path, int]:
    """Return the most labels of one person in a release of each fit, by the names in a vault."""
    fits = [fit for fit in kept_fits(vault) if fit[0].people is not None]
    *_, places = _persons_of([side for side, _ in fits])
    return {
        kept.path.parent: int(np.bincount(persons).max())
        for (_, kept), (_, persons) in zip(fits, places, strict=True)
    }


def names_in(folder: Path) -> tuple[list[str], NDArray[np.uint64]]:
    """Return the names of all people of a folder that may be a vault on disk, and their values."""
    people, values = (
        [np.load(file, allow_pickle=False) for file in sorted((folder / "fits").glob(f"*/{name}"))]
        for name in ("people.npy", "values.npy")
    )
    names = [normal_name(name) for some in people for name in some.tolist()]
    return names, np.concatenate([np.empty(0, np.uint64), *(some[0] for some in values)])


def lost_fits(folder: Path) -> list[str]:
    """Return what to say of a vault on disk that has lost lines; nothing of another folder."""
    if not (folder / "fits").is_dir() or not state_folder().exists():
        return []
    file = folder / "id"
    vault = file.read_text().strip() if file.exists() else ""
    stores = (folder / "fits").glob("*/vault.db")
    own = [line for store in stores for line in read_ledger(store).lines]
    missing = not_among(Witness().of_vault(vault, at=folder, opened=False), own)
    return [behind(folder, missing)] if missing else []


def joint_ledger(paid: Sequence[_Paid]) -> tuple[PrivacyLedger, NDArray[np.str_]]:
    """Return one ledger of the charges of several fits over people numbered alike, and their names.

    It has one label, anybody's, where no fit names its people.
    """
    named = [(side, charges) for side, charges in paid if side.people is not None]
    everybody, person_of, places = _persons_of([side for side, _ in named])
    ledger = PrivacyLedger(num_labels=max(len(everybody), 1))
    for side, charges in paid:
        if side.people is None:
            ledger.include(charges, num_labels=side.num_labels)
    for (_, charges), (apart, persons) in zip(named, places, strict=True):
        ledger.add_failures(charges)
        for charge in charges:
            paying = apart if charge.indices is None else apart[charge.indices]
            times = np.bincount(persons[np.unique(paying)], minlength=len(everybody))[person_of]
            # A person of several names pays for all of its labels that may be in the release.
            for count in np.unique(times[times > 0]).tolist():
                event = event_of_several(charge, count)
                ledger.charge(event, indices=np.flatnonzero(times == count))
    return ledger, everybody


def _persons_of(
    named: Sequence[PublicSide],
) -> tuple[NDArray[np.str_], NDArray[np.intp], list[tuple[NDArray[np.intp], NDArray[np.intp]]]]:
    """Return all names of fits that name people, each name's person, and the persons of each fit.

    A fit has the number of each label [N], which equal features share, and each number's person.
    """
    names = [np.empty(0, dtype=str), *(side.names for side in named)]
    # Sorted, so that `searchsorted` finds the number of each name.
    everybody = np.unique(np.concatenate(names))
    with_values = list[tuple[NDArray[np.intp], NDArray[np.uint64]]]()
    tables = dict[Any, Any]()
    for side in named:
        if side.values is not None:
            own = np.searchsorted(everybody, side.names)[side.values[1].astype(np.intp)]
            with_values.append((own, side.values[0]))
            # One table, however its cells were written: its rows are also those of the first fit.
            first = tables.setdefault((side.rows, side.values.shape), side.values)
            if first is not side.values:
                with_values.append((own, first[0]))
    person_of = np.arange(len(everybody))
    if with_values:
        people, values = map(np.concatenate, zip(*with_values, strict=True))
        person_of = _joined(people, values, count=len(everybody))
    places = []
    for side in named:
        # A person under several names of one fit has paid under each. But names with equal values
        # in it are several people's, only one of whom is this person.
        apart = np.arange(side.num_labels)
        if side.values is not None:
            apart = _joined(side.values[1].astype(np.intp), side.values[0], count=side.num_labels)
        persons = np.empty(apart.max() + 1, dtype=np.intp)
        persons[apart] = person_of[np.searchsorted(everybody, side.names)]
        places.append((apart, persons))
    return everybody, person_of, places


def _joined(
    members: NDArray[np.intp], values: NDArray[np.uint64], *, count: int
) -> NDArray[np.intp]:
    """Number `count` members so that those with a value in common have one number, [count].

    `members` [M] have the `values` [M].
    """
    _, found = np.unique(values, return_inverse=True)
    size = count + len(found)
    pairs = (members, count + found)
    graph = coo_array((np.ones(len(found), dtype=bool), pairs), shape=(size, size))
    numbers: NDArray[np.intp] = connected_components(graph, directed=False)[1][:count]
    return numbers


def _drawn_tokens(count: int) -> NDArray[np.int64]:
    """Draw distinct numbers [N] that a float carries exactly, too large for ranks and amounts."""
    generator = np.random.default_rng(secrets.randbits(128))
    while True:
        # A float holds all whole numbers below 2^53. Those from 2^52 can't be mistaken for classes.
        drawn = generator.integers(2**52, 2**53, size=count)
        if len(np.unique(drawn)) == count:
            return drawn


class FitLabels(TrialLabels):
    """The labels of one fit, in this process: a sweep has the same in an actor, through Ray.

    Canaries are planted only on request: each of them spoils a label.
    """

    def __init__(
        self,
        labels: SecretLabels,
        *,
        side: PublicSide,
        shared: SharedVault,
        noise: NoiseSource,
        audit: AuditSettings | None = None,
        fingerprint: str = "",
    ) -> None:
        """Lock the labels away, with the canaries of an `audit` among them, if there is one."""
        seed = noise.seed if isinstance(noise, SeededNoise) else None
        if audit is not None:  # equal labels differ by it, which is public
            side = replace(side, planted=f"{audit}, seed {seed}")
        self._audit = audit or AuditSettings(canaries=0, coin_canaries=0)
        check_room(self._audit, num_labels=len(labels.training))  # before a store is made
        # Nobody outside this object can read figures or shards of the home.
        self._authority = secrets.token_bytes(32)
        try:
            home = LabelHome(
                labels,
                audit=self._audit,
                coin_seed=seed,
                store=shared.store(side),
                votes=shared.votes,
                fingerprint=fingerprint,
                budget=None,
                authority=self._authority,
            )
        except OtherLabels as error:
            raise OtherLabels(
                "an earlier fit with this vault had other labels for these rows; nothing was "
                "released. If labels were corrected, call vault.relabel(): later fits then draw "
                "new noise and pay again. Another target of the same rows needs its own "
                "SharedVault; the totals add up. (labeldp does not relabel by itself: a total "
                "that grows only if labels changed would reveal the change.)"
            ) from error
        home.begin(self._authority, _TRIAL)
        super().__init__(home=home, noise=noise, trial=_TRIAL)
        # Before the first release: what is not among these is paid by this fit.
        self._charged_before = {charge.key for charge in home.ledger()}

    def teach(
        self,
        ensemble: EnsembleConfig,
        *,
        data: "PublicData",
        performance: "Performance",
        tell: Callable[[str], None],
    ) -> None:
        """Train an ensemble's teachers here, as far as their votes are missing."""
        from labeldp.trainers.methods.pate import TeacherVotes

        journal = self.home.journal(ensemble)()
        finished = journal.finished
        missing = [one for one in range(ensemble.teachers) if one not in finished]
        if not missing:
            return
        vote = TeacherVotes(config=ensemble, performance=performance)
        shards = self.home.shards(self._authority, ensemble)
        with journal.writing():
            for start in range(0, len(missing), ensemble.batch):
                batch = missing[start : start + ensemble.batch]
                journal.append(batch, vote(batch, [shards[one] for one in batch], data))
                tell(f"{min(start + ensemble.batch, len(missing))} of {len(missing)} teachers")

    def new_charges(self) -> list[Charge]:
        """Return the lines of the ledger that this fit added."""
        return [each for each in self.home.ledger() if each.key not in self._charged_before]

    def figures(
        self, probabilities: Callable[[NDArray[np.intp]], NDArray[np.float32]], *, delta: float
    ) -> Mapping[str, float]:
        """Return figures for the labels' owner alone, given positions [M] -> probabilities [M, K].

        They are those of a sweep's audits, where there are canaries, and the training accuracy.
        """
        guesses: NDArray[Any] = probabilities(np.arange(self.home.num_labels())).argmax(1)
        positions = self.canary_positions()
        return self.home.figures_of_model(
            self._authority,
            guesses,
            probabilities(positions) if len(positions) else np.empty(0),
            self._audit.confidence,
            self.keys,
            delta,
        )
