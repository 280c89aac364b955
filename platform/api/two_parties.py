"""Two parties, one folder each way: one has the features, the other one the labels.

The party with features writes a request (`write_request`): whose labels, by what method, and for
moment labels the directions of the sums. The party with labels answers it (`answer`): it joins by
id, charges its own vault, and writes a release. The first party fits a model to that
(`fit_release`). `party_files` reads and writes the folders. Nothing here loads torch, Ray or
MLflow.

Nothing in a request is trusted. The longest row of its directions, whatever they are, sets the
noise, so that each label pays the stated epsilon and no more. Requests for some of the ids, in any
order and of later weeks, add up person by person.
"""

import hashlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA, PureEvent
from labeldp.mechanisms.ledger import Budget, BudgetExceeded, PrivacyLedger, stated
from labeldp.mechanisms.persons import Groups, normal_name, refuse_rounded
from labeldp.mechanisms.randomness import NoiseKind, SecureEntropy, generator_for
from labeldp.mechanisms.release_store import Charge, MemoryStore, OtherLabels, ReleaseStore
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.api.fitting import number_rows, teller
from labeldp.platform.api.label_release import class_numbers, mechanism_for
from labeldp.platform.api.party_files import (
    PRIOR_STEPS,
    RELEASE,
    REQUEST,
    Parts,
    PartyRelease,
    Request,
    check_new,
    lines_beside,
    new_folder,
    parameters_of,
    read_request,
    write_folder,
)
from labeldp.platform.api.process_ledger import line_of, text_digests
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault, names_in
from labeldp.platform.vault.signing import sign_folder
from labeldp.trainers.data.columns import MISSING, class_name, class_places
from labeldp.trainers.data.tables import QueriedLabels
from labeldp.trainers.methods.any_model import fit_to_soft_labels, named_estimator, some_of
from labeldp.trainers.methods.preferences import (
    NoisyChoices,
    PairQuestion,
    RewardFunctions,
    fitted,
    sums_along,
)
from labeldp.trainers.methods.settings import worthwhile
from labeldp.trainers.methods.smooth_sums import SumQuestion, groups_of_rows, packed
from labeldp.trainers.methods.table_stack import (
    CountEvidence,
    Evidence,
    LabelEvidence,
    fit_stack,
    fit_to_evidence,
)
from labeldp.trainers.models.table_models import RewardPredictor
from labeldp.trainers.models.trained_model import Origin, TrainedModel
from labeldp.trainers.settings.trainer import EstimatorPredictor, Predictor

#: The largest share of a request's ids that may have no label, if not stated.
MOST_MISSING = 0.99
_FEW = 10
#: Releases of choices between pairs.
_OF_PAIRS = ("moments", "randomized_response")
#: Passes on the parts of a request, for the work that is named.
Progress = Callable[[Iterable[Any], str], Iterable[Any]]


# ------------------------------------------------------------------------ the party with features


@_validate.plain_numbers
def write_request(
    features: pd.DataFrame,
    to: str | Path,
    *,
    id_column: str,
    method: str,
    classes: Sequence[str],
    epsilon: float = 1.0,
    delta: float = USUAL_DELTA,
    after: Sequence[PartyRelease] = (),
    estimator: object = None,
    seed: int = 0,
    pairs: bool = False,
) -> Request:
    """Write a request for labels of the rows of a table, and return it.

    Args:
        features: One row per id; no label has a part in it.
        to: A new folder.
        id_column: Names the rows; not a feature.
        method: One of `RELEASED`.
        classes: All classes, as the labels are written.
        epsilon: At which an answer is expected, by which the number of directions is chosen. The
            party with labels decides.
        delta: Likewise.
        after: Releases of other ids of this table, for the second round of `stages`: a model of
            them gives each of the remaining labels its prior.
        estimator: The model of that round.
        seed: Chooses the half that the first round of `stages` requests, and landmarks.
        pairs: Rows are pairs (`stacked_sides`), and labels say whether a is preferred: classes are
            False and True, or 0 and 1.
    """
    class_numbers((), classes)
    mechanism = mechanism_for(method, epsilon=epsilon, delta=delta, num_classes=len(classes))
    if after and method != "stages":
        raise ValueError(f"only stages build on earlier releases, but the method is {method}")
    ids = checked_ids(features, id_column, what="the features")
    names = list(map(str, classes))
    if pairs:
        names.sort(key=class_name)
        known = tuple(map(class_name, names))
        if method not in _OF_PAIRS or known not in (("false", "true"), ("0", "1")):
            raise ValueError(
                f"pairs are requested by {method!r} with classes {', '.join(names)}; take one of "
                f"{', '.join(_OF_PAIRS)}, and False,True or 0,1: whether a is preferred"
            )
    # Whatever the method: features that `fit` would refuse are refused before a release is paid.
    table = stacked_sides(features, id_column) if pairs else features.drop(columns=id_column)
    data = number_rows(table, num_classes=2)
    rows = data.scaled
    facts: dict[str, Any] = {"method": method, "classes": names, "id_column": id_column}
    facts |= {"pairs": True} if pairs else {}
    arrays: dict[str, NDArray[Any]] = {}
    chosen = np.arange(len(ids))
    if method == "stages" and not after:
        # By a public seed: a half that followed labels would be a release.
        order = np.random.default_rng(seed).permutation(len(ids))
        chosen = np.sort(order[: (len(ids) + 1) // 2])
    if after:
        chosen = np.flatnonzero(~np.isin(ids, np.concatenate([each.ids for each in after])))
        if not len(chosen):
            raise ValueError("the releases of `after` cover every id; no label is left to request")
        model = fit_release(features, after, estimator=estimator, seed=seed)
        # Another order would give each label the prior of another class.
        if list(model.classes) != names:
            raise ValueError(
                f"classes are {', '.join(names)}, but those of the first round "
                f"{', '.join(model.classes)}; give the same in the same order"
            )
        prior = model.predict_proba(features.drop(columns=id_column))[chosen]
        # In whole steps, which read back to the same channel on any machine.
        arrays["prior"] = np.round(prior * PRIOR_STEPS).astype(np.uint16)
    if method == "moments":
        question: SumQuestion | PairQuestion
        if pairs:
            functions = RewardFunctions.learned(data.train_features, epsilon=epsilon)
            differences = functions.differences(data.train_features)
            weights, question = PairQuestion.asked(differences, epsilon=epsilon)
        else:
            count = worthwhile(rows=len(rows), noise_std=mechanism.noise_std)
            weights, question = SumQuestion.asked(rows, count=count, seed=seed)
        arrays |= {"weights": packed(weights), **question.arrays()}
        facts["columns"] = [str(name) for name in features.columns if name != id_column]
    if method == "clusters":
        arrays["clusters"] = groups_of_rows(rows, epsilon=epsilon, seed=seed)
    with new_folder(to) as draft:
        write_folder(draft, REQUEST, {**facts, "rows": len(chosen)}, ids[chosen], arrays)
        return replace(read_request(draft), folder=Path(to))


def checked_ids(table: pd.DataFrame, column: str, *, what: str) -> NDArray[np.str_]:
    """Return the ids of a table's rows as text [N], each once, as `normal_name` writes them."""
    _refuse_missing(table, column, what=what)
    if not len(table):
        raise ValueError(f"{what} have no rows; check the file, or the query")
    refuse_rounded(table[column], what=f"column {column!r} of {what}")
    names = [normal_name(value) for value in table[column].tolist()]
    if not all(names):
        raise ValueError(f"column {column!r} of {what} lacks an id in some rows; every row has one")
    ids = np.array(names, dtype=str)
    distinct = len(np.unique(ids))
    if distinct < len(ids):
        raise ValueError(
            f"column {column!r} of {what} has {len(ids):,} rows and {distinct:,} ids; every row "
            "needs an id of its own, which differs by more than white space, invisible or "
            "composed characters, or zeros of a number"
        )
    return ids


def _refuse_missing(table: pd.DataFrame, column: str, *, what: str) -> None:
    """Refuse a table without a column.

    Columns of labels are not named: without a header, they are a row with its label.
    """
    if column in table:
        return
    known = f"they have {', '.join(map(str, table.columns))}"
    if what == "the labels":
        known = "check the name, and that the first line of the file holds names of columns"
    raise ValueError(f"{what} have no column {column!r}; {known}")


def stacked_sides(features: pd.DataFrame, id_column: str) -> pd.DataFrame:
    """Return the sides a of N pairs, and below them the sides b [2 N, D].

    Columns are a_NAME and b_NAME, or texts a and b, which become the column "text".
    """
    sides: dict[str, dict[str, Any]] = {"a": {}, "b": {}}
    for column in features.columns.drop(id_column, errors="ignore"):
        side, _, name = str(column).partition("_")
        sides.setdefault(side, {})[name or "text"] = column
    if len(sides) > 2 or not sides["a"] or sides["a"].keys() != sides["b"].keys():
        raise ValueError(
            f"pairs have the columns {', '.join(map(str, features.columns[:10]))}; beside "
            f"{id_column} they must be a_NAME and b_NAME for each NAME, or texts a and b"
        )
    both = (features[[of[name] for name in sides["a"]]] for of in sides.values())
    return pd.concat([side.set_axis([*sides["a"]], axis=1) for side in both], ignore_index=True)


# -------------------------------------------------------------------------- the party with labels


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The cost of an answer, drawn or planned.

    Attributes:
        rows: Labels that it is of.
        persons: Whose labels they are, where persons pay for all of theirs; otherwise None.
        epsilon, delta: Its price for each label, or person.
        new: Whether it was drawn and charged now; an equal request reads the same release again.
        known: Ids that earlier requests for other lists of ids had named, which pay on top.
        total_epsilon, total_delta: Of the label that has paid most to this vault, with it.
        absent: Ids without a label, which got the class `missing`; as secret as labels.
        vault: Folder of the ledger; None for one in memory.
        new_vault: Whether it had no releases before: nothing counts that another one knows of.
        unit: Who pays: a label, a pair or a person.
    """

    rows: int
    method: str
    epsilon: float
    delta: float
    new: bool
    known: int
    total_epsilon: float
    total_delta: float
    absent: int
    vault: str | None = None
    persons: int | None = None
    new_vault: bool = False
    unit: str = "label"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question:
    """A request, joined with the labels that it is about [N] as numbers.

    `priced_at` is the epsilon of each label; persons with several share more.
    """

    parts: Parts
    side: PublicSide
    numbers: NDArray[np.int64]
    groups: Groups
    mechanism: Any
    priced_at: float
    delta: float
    absent: int
    relabel: bool
    progress: Progress

    def locked_away(self, store: ReleaseStore) -> LabelVault:
        """Return a vault of the labels."""
        try:
            return LabelVault(
                labels=self.numbers,
                num_classes=len(self.parts.first.classes),
                store=store,
                persons=self.groups.used,
            )
        except OtherLabels as error:
            raise OtherLabels(
                "an earlier request for these ids had other labels; nothing was released. Use "
                "--relabel with each delivery of labels: releases then draw new noise and are "
                "charged again"
            ) from error

    def priced(self, shared: SharedVault, to: Path | None, budget: float | None) -> Answered:
        """Return the price.

        All that can be refused is refused here, and the draw is rehearsed on random labels: from
        here on only a disk can fail.
        """
        mechanism = self.mechanism
        store = shared.store(self.side, create=False)  # which refuses a vault that lost lines
        # A relabeled vault has no earlier releases: it is priced as an empty one.
        own = self.locked_away(MemoryStore() if self.relabel else store)
        random = np.random.default_rng(0)
        known = {charge.key for charge in own.charges()}
        planned: list[Charge] = []
        for part, indices in self.progress(self.parts, "prices"):
            public, _, shares = part.public(self.groups)
            # The same code as the draw, on labels of no meaning.
            generator = generator_for(mechanism, SecureEntropy(), "rehearsal")
            labels = random.integers(own.num_classes, size=len(part.ids))
            values = np.asarray(mechanism.release(labels, *public, generator=generator))
            part.answered_by(values, shares)
            noise = SecureEntropy()
            planned.append(own.charge_of(mechanism, *public, indices=indices, noise=noise))
            del public, values  # matrices of a large part, which are made again for the draw
        if to is not None:
            check_new(to)
            if shared.folder is not None:
                shared.refuse_ahead(lines_beside(to, vault=shared.id))
        # A release that is stored is read again, and costs nothing.
        new = [charge for charge in planned if charge.key not in known]
        total, at = shared.total(delta=self.delta, planned=(self.side, new))
        limit = Budget(epsilon=np.inf if budget is None else budget, delta=at)
        if new and not limit.allows(total):
            raise BudgetExceeded(
                budget=limit,
                spent=shared.total(delta=self.delta)[0],
                requested=total,
                request=f"{self.parts.first.method} at {self.priced_at:g}",
            )
        unit = self.side.unit
        line = line_of(planned[0], num_labels=own.num_people, delta=self.delta, unit=unit)
        return Answered(
            rows=own.num_labels,
            method=self.parts.first.method,
            epsilon=line.epsilon,
            delta=line.delta,
            new=bool(new),
            known=shared.paid_before(self.side),
            total_epsilon=total,
            total_delta=at,
            absent=self.absent,
            persons=None if self.groups.persons is None else own.num_people,
            new_vault=not shared.charges(),
            unit=unit,
        )

    def draw(self, shared: SharedVault, to: Path, answered: Answered) -> None:
        """Draw and charge what was priced, and write the release of each part."""
        mechanism = self.mechanism
        payers = answered.persons or answered.rows
        paying = {} if answered.unit == "label" else {"unit": answered.unit, "payers": payers}
        with new_folder(to) as draft:
            # Under the lock, and after all refusals: a relabeled vault draws everything anew.
            if self.relabel:
                shared.relabel()
            store = shared.store(self.side)
            own = self.locked_away(store)
            for part, indices in self.progress(self.parts, "draws"):
                public, length, shares = part.public(self.groups)
                release = own.release(mechanism, *public, indices=indices, noise=SecureEntropy())
                facts = {
                    "method": part.method,
                    "classes": list(part.classes),
                    "id_column": part.id_column,
                    "rows": len(part.ids),
                    "request": part.digest,
                    "asked_epsilon": self.priced_at,
                    **paying,
                    "epsilon": answered.epsilon,
                    "delta": answered.delta,
                    "mechanism": type(mechanism).__name__,
                    "parameters": parameters_of(mechanism),
                    "length": length,
                    "ledger": shared.mark(store, release.key),
                    **({"pairs": True} if part.pairs else {}),
                }
                if part.question is not None:
                    facts["columns"] = list(part.columns)
                arrays = part.answered_by(release.values, shares)
                folder = draft / part.folder.name if len(self.parts) > 1 else draft
                write_folder(folder, RELEASE, facts, part.ids, arrays)
            sign_folder(draft)


@_validate.plain_numbers
def answer(
    labels: pd.DataFrame | QueriedLabels,
    request: Request | Sequence[Path],
    to: str | Path | None,
    *,
    id_column: str,
    label_column: str,
    epsilon: float,
    vault: SharedVault | str | Path,
    budget: float | None = None,
    delta: float = USUAL_DELTA,
    missing: str | None = None,
    most_missing: float = MOST_MISSING,
    relabel: bool = False,
    person_column: str | None = None,
    max_labels_per_person: int = 1,
    moved: bool = False,
    vault_is_guessed: bool = False,
    progress: Progress = lambda parts, _: parts,
) -> Answered:
    """Draw, charge and write the requested release, or state its price.

    Args:
        labels: Secret: one row per id. Those of a query are counted by its database, and none
            leaves it: for counts of classes, in one part and without persons.
        request: As `read_request` returns it, or the folders of its parts (`parts_of`): of several
            parts one is in memory at a time. No id is in two of them.
        to: A new folder; None for a dry run, which charges nothing.
        id_column: Of the labels' table.
        label_column: Likewise.
        epsilon: Price of each label of the request.
        vault: Ledger of the labels' owner, or its folder. Requests to one vault add up person by
            person.
        budget: The most that any label may pay in all, at `delta`; None for no bound.
        delta: At which prices are stated that are not pure.
        missing: Class of ids without a row; None to refuse such a request. Whether an id has a row
            is as secret as its label then.
        most_missing: The largest share of ids that may get this class: a larger one is a mistake.
        relabel: State that labels may have changed, so that every release is drawn and paid anew.
        person_column: Of the labels' table: whose label each is. Prices then hold for all labels of
            a person together. `missing` takes ids whose row has no label, since one without a row
            has no person either.
        max_labels_per_person: Of each person so many labels are used by other methods than moments;
            they share epsilon, and the others are left out.
        moved: State that no other copy of `vault` is in use, as `SharedVault(moved=True)`.
        vault_is_guessed: Nobody named `vault`: a new one is refused beside another one that knows
            any of these ids.
        progress: Passes on the parts of a request, of which it may count those that are done. It is
            called once for prices and once for draws.

    Raises:
        BudgetExceeded: A label would pay more than the budget.
        ValueError: Something else is refused. Nothing was released, relabeled or written either.
    """
    _validate.number(most_missing=most_missing)
    if not 0 <= most_missing <= 1:
        raise ValueError(f"most_missing is {most_missing}; it is a share, and must lie in [0, 1]")
    if person_column is None:
        Groups.of(None, count=0, most=max_labels_per_person)  # before a database is asked
    parts = Parts.of(request)
    counted_for = ""
    if isinstance(labels, QueriedLabels):
        if parts.first.clusters is None or len(parts) > 1 or person_column is not None:
            raise ValueError(
                "a database computes counts of classes alone (--method clusters), for a request in "
                "one part and without --person-column; leave out --push-down"
            )
        labels = _counted(labels, parts.first, id_column, label_column)
        # Whose label is whose holds for this request alone, so that its releases are kept apart.
        counted_for = f" counted for {parts.first.digest}"
    _refuse_missing(labels, label_column, what="the labels")
    ids = checked_ids(labels, id_column, what="the labels")
    # By id, never by the order of rows: the two files were made by different people.
    places = pd.Index(ids).get_indexer(parts.ids)
    numbers, absent = _joined(labels[label_column], ids, places, parts, missing, most_missing)
    persons = None
    if person_column is not None:
        persons = _persons(labels, places, parts, label_column, person_column)
    parts, side, groups = _payers(parts, persons, most=max_labels_per_person)
    side = replace(side, rows=side.rows + counted_for)
    priced_at = epsilon / groups.most
    question = _Question(
        parts=parts,
        side=side,
        numbers=groups.rows_of(numbers),
        groups=groups,
        # Made here, so that a price without a mechanism is refused before a vault is opened.
        mechanism=mechanism_for(
            parts.first.method,
            epsilon=priced_at,
            delta=delta,
            num_classes=len(parts.first.classes),
        ),
        priced_at=priced_at,
        delta=delta,
        absent=absent,
        relabel=relabel,
        progress=progress,
    )
    shared = vault if isinstance(vault, SharedVault) else None
    place = Path(shared.name if shared else str(vault)).expanduser().absolute()
    guessed = vault_is_guessed and shared is None
    # An empty folder stays as it is if the request is refused.
    if shared is None and (place / "fits").is_dir():
        shared = SharedVault(place, moved=moved)
    if guessed and not (shared and shared.charges()):
        _refuse_second_ledger(side, place)
    if shared is None and place.exists():
        shared = SharedVault(place, moved=moved)
    out = None if to is None else Path(to)
    there = shared is not None
    if out is None or shared is None:
        # A dry run changes nothing, so that it needs no lock and no new signature. A vault that is
        # not there is priced as an empty one, and made when nothing is refused.
        found = question.priced(shared or SharedVault(), out, budget)
    if out is not None:
        shared = shared or SharedVault(place, moved=moved)
        with shared.alone():
            if there or shared.charges():  # of another process that was first
                found = question.priced(shared, out, budget)
            question.draw(shared, out, found)
    return replace(found, vault=None if shared and shared.folder is None else str(place))


def _counted(
    labels: QueriedLabels, request: Request, id_column: str, label_column: str
) -> pd.DataFrame:
    """Return ids and labels that have the counts of each group in a database, which are exact.

    Which label of a group is whose is not known: labels are in the order of their names, and rows
    in that of their ids, so that an equal request finds its release whatever order a query has.
    """
    assert request.clusters is not None
    labels.check(id_column, label_column)
    table = labels.table(id_column)
    ids = checked_ids(table, id_column, what="the labels")
    places = pd.Index(request.ids).get_indexer(ids)
    groups = np.where(places < 0, -1, request.clusters.astype(np.int64)[places])
    found = labels.counts(table[id_column], groups, id_column=id_column, label_column=label_column)
    found = found.sort_values(["part", "label"], key=lambda column: column.astype(str))
    each = np.repeat(np.arange(len(found)), found["count"].astype(np.int64))
    order = np.lexsort((ids, groups.astype(str)))
    if not np.array_equal(found["part"].to_numpy(np.int64)[each], groups[order]):
        raise ValueError(
            "the query gave other rows when its labels were counted than when its ids were read; "
            "nothing was released. Run the command again when the table is at rest, and let the "
            "query give equal rows each time"
        )
    known = np.empty(len(table), object)
    known[order] = found["label"].astype(object).to_numpy()[each]
    return table.assign(**{label_column: known})


def _payers(
    parts: Parts, persons: NDArray[Any] | None, *, most: int
) -> tuple[Parts, PublicSide, Groups]:
    """Return the part of a request that is answered, and who pays: its ids, or their persons."""
    first = parts.first
    ids = parts.ids
    side = PublicSide(
        rows=hashlib.sha256("\n".join(ids.tolist()).encode()).hexdigest(),
        classes=f"{PublicSide.CHOICES if first.pairs else ''}{first.classes!r}",
        num_labels=len(ids),
        people=ids,
    )
    groups = Groups.of(persons, count=len(ids), most=None if first.method == "moments" else most)
    if groups.persons is None:
        return parts, side, groups
    # Whose id each is: a person under another name has paid under both.
    values = np.stack([text_digests(ids.tolist()), groups.persons.astype(np.uint64)])
    side = replace(side.of_persons(groups), values=values)
    return (parts if groups.kept is None else Parts.of(first.only(groups.kept))), side, groups


def _refuse_second_ledger(side: PublicSide, place: Path) -> None:
    """Refuse a new vault beside one that knows these people: nobody would add up the two."""
    # Of persons, `values` are digests of their ids, as exact as a float.
    own = [text_digests(side.names.tolist()), *([] if side.values is None else side.values[:1])]
    # Its own names have paid nothing: a command may have been killed before its first release.
    for other in sorted({*place.parent.glob("*/fits")} - {place / "fits"}):
        names, values = names_in(other.parent)
        theirs = np.concatenate([text_digests(names), values])
        common = np.intersect1d(np.concatenate(own).astype(float), theirs.astype(float))
        if known := min(side.num_labels, len(common)):
            raise ValueError(
                f"{place} would be a new vault, and {known:,} of {side.num_labels:,} names of this "
                f"request are known to {other.parent}, whose payments it would not count; nothing "
                f"was released. Pass --vault {shlex.quote(str(other.parent))} if they are the same "
                f"people, or --vault {shlex.quote(str(place))} if they are others"
            )


def _persons(
    labels: pd.DataFrame,
    places: NDArray[np.intp],
    request: Parts,
    label_column: str,
    person_column: str,
) -> NDArray[Any]:
    """The person of each id of the request [N], whose rows are at `places` [N]."""
    if person_column == label_column:
        raise ValueError(
            f"column {label_column!r} can't hold both labels and persons: a release shows which "
            "rows a person has"
        )
    if len(request) > 1:
        raise ValueError(
            f"{request.first.folder.parent} is a request in parts, and a person with rows in "
            "several parts would pay for each; let the other party write a request in one part "
            "(without --rows-at-once), or leave out --person-column"
        )
    _refuse_missing(labels, person_column, what="the labels")
    refuse_rounded(labels[person_column], what=f"column {person_column!r} of the labels")
    known = labels[person_column].astype(object).to_numpy()
    persons: NDArray[Any] = np.where(places < 0, np.array(None), known[places])
    if unknown := [place for place, name in enumerate(persons) if not normal_name(name)]:
        raise ValueError(
            f"{len(unknown):,} of {len(places):,} ids of the request have no person in the labels, "
            f"such as {str(request.ids[unknown[0]])!r}; give each a row with its person, whose "
            "label may be empty, and --missing CLASS"
        )
    return persons


def _joined(
    labels: pd.Series,
    ids: NDArray[np.str_],
    places: NDArray[np.intp],
    request: Parts,
    missing: str | None,
    most_missing: float,
) -> tuple[NDArray[np.int64], int]:
    """The label of each id of the request as a number [N], and how many ids have none.

    `labels` have `ids`; `places` [N] are the rows of the request's, or below 0.
    """
    column = labels.astype(object).to_numpy()
    classes = request.first.classes
    # Each label by itself: a word for none, unless a class is called so.
    none = [pd.isna(label) or str(label).strip() in MISSING for label in column.tolist()]
    known = ~np.array(none) | (class_places(column, classes) >= 0)
    # All labels are checked for any request: otherwise a refused request for one id and some of
    # the classes would reveal that the label is another one.
    class_numbers(column[known], classes)
    if missing is not None and class_places([missing], classes)[0] < 0:
        raise ValueError(
            f"missing (--missing) is {missing!r}, which is not among the classes of the request: "
            f"{', '.join(classes)}"
        )
    absent = (places < 0) | ~known[places]
    # A refusal would reveal the labels of a few ids that have no row: nothing depends on these.
    if len(absent) >= _FEW and absent.mean() > most_missing:
        raise ValueError(
            f"{absent.sum():,} of {len(absent):,} ids of the request have no label, more than a "
            f"share of {most_missing:g}; both files must write ids alike: the request has "
            f"{str(request.ids[absent][0])!r}, the labels have {str(ids[0])!r}. If so few are "
            "known, state it with --most-missing SHARE; tell nobody that the request was refused"
        )
    if absent.any() and missing is None:
        raise ValueError(
            f"{absent.sum():,} of {len(absent):,} ids of the request have no label, such as "
            f"{str(request.ids[absent][0])!r}; if both files write ids alike, give their class "
            "with --missing CLASS (such as no purchase), or let the other party write a request "
            "without them"
        )
    joined = np.where(absent, missing, column[places])
    return class_numbers(joined, classes), int(absent.sum())


# ------------------------------------------------------------------------- the party with features


def fit_release(
    features: pd.DataFrame | Iterable[pd.DataFrame],
    releases: Sequence[PartyRelease],
    *,
    estimator: object = None,
    seed: int = 0,
) -> TrainedModel:
    """Fit a classifier to released labels of the rows of a table, or of a table for each release.

    Its price is that of the id that paid most for all of them; its rows have no ids.

    Args:
        features: The table of the requests; rows may have another order, and others may be there.
            Or one table for each release, in their order: then an id may be in several, as of a
            person who came again with other features. Of an iterator one is in memory at a time,
            and of all no more rows are kept than sums need.
        releases: One, those of both rounds of `stages`, or those of several weeks.
        estimator: Any scikit-learn classifier. If None, a stack learns from single labels and
            counts, and boosted trees from sums. Numbers reach it as they are.
        seed: Of folds and samples.
    """
    if isinstance(features, pd.DataFrame):
        wanted = np.concatenate([each.ids for each in releases])
        if twice := len(wanted) - len(np.unique(wanted)):
            raise ValueError(
                f"{twice:,} ids are in several releases; releases with one table of features must "
                "have different ids. If an id has rows in several weeks, give one table per "
                "release, in the same order"
            )
        tables = iter([features] * len(releases))
    else:
        tables = iter(features)
    # Counts of two classes are of one of them now, and were of both.
    kinds = {
        (each.classes, each.pairs, each.clusters is None and type(each.mechanism))
        for each in releases
    }
    if len(kinds) > 1:
        raise ValueError("the releases differ in their method or classes; give some that agree")
    first = releases[0]
    if first.pairs and (len(releases) > 1 or estimator is not None):
        raise ValueError("a reward is fitted to one release of pairs, without another estimator")
    found = [
        _known_of(release, table, parts=len(releases), seed=seed)
        for release, table in zip(releases, tables, strict=False)
    ]
    more = next(tables, None) is not None
    if more or len(found) < len(releases):
        raise ValueError(
            f"{'more' if more else 'fewer'} tables of features are given than the {len(releases)} "
            "releases; give one for all of them, or one for each in their order"
        )
    kept, known = zip(*found, strict=True)
    count = sum(len(each.ids) for each in releases)
    model = estimator
    if model is None and first.question is not None:
        model = named_estimator("boosting", rows=count, seed=seed)
    together = pd.concat(kept, ignore_index=True).drop(columns=first.id_column)
    if first.pairs:
        together = stacked_sides(together, first.id_column)
    data = number_rows(together, num_classes=2, own=model is not None or first.pairs)
    rows = data.train_features
    predictor: Predictor
    if first.pairs:
        predictor = _reward_of(first, rows)
        learned_by = "a reward"
    elif model is None:
        tell = teller(verbose=False)
        predictor = fit_stack(rows, _together(known), seed=seed, tell=tell, classes=first.classes)
        learned_by = "a stack"
    else:
        if first.question is not None:
            fitted = fit_to_soft_labels(model, rows, np.concatenate(known), seed=seed)
        else:
            fitted = fit_to_evidence(model, rows, _together(known), seed=seed)
        predictor = EstimatorPredictor(estimator=fitted, num_classes=len(first.classes))
        learner = model.steps[-1][1] if hasattr(model, "steps") else model  # of a pipeline
        learned_by = type(learner).__name__
    epsilon, delta = _paid(releases)
    origin = Origin(
        method=f"{learned_by} on {first.ledger[0].mechanism}",
        epsilon=epsilon,
        delta=delta,
        num_classes=len(first.classes),
        classes=tuple(map(str, first.classes)),
        seed=0,
        noise=NoiseKind.SECURE,
    )
    return TrainedModel(predictor=predictor, preprocessing=data.preprocessing, origin=origin)


def _reward_of(release: PartyRelease, rows: NDArray[np.floating]) -> RewardPredictor:
    """Return a reward by released choices between pairs, whose sides are rows [2 N, D]."""
    question = release.question
    epsilon = question.epsilon if isinstance(question, PairQuestion) else release.epsilon
    functions = RewardFunctions.learned(rows, epsilon=epsilon)
    differences = functions.differences(rows)
    if not isinstance(question, PairQuestion):
        evidence = NoisyChoices(flip_probability=release.flip_probability, choices=release.values)
        return functions.reward(fitted(differences, evidence))
    assert release.row_marks is not None, "a release of sums has marks"
    whole = question.weights(differences)
    question.refuse_other_weights(whole, release.row_marks)
    weights = whole * (question.units / np.float32(release.length))
    if release.shares is not None:
        weights *= release.shares[:, None]
    plan = sums_along(weights, noise_std=release.mechanism.noise_std)
    return functions.reward(fitted(differences, plan.read(release.values)))


def _known_of(
    release: PartyRelease, table: pd.DataFrame, *, parts: int, seed: int
) -> tuple[pd.DataFrame, Any]:
    """Return the rows [n] that a release, one of several, speaks of, and what it says of them.

    Soft labels [n, K] of sums, for as many rows as a model needs; otherwise evidence.
    """
    ids = checked_ids(table, release.id_column, what="the features")
    places = pd.Index(ids).get_indexer(release.ids)
    if missing := int((places < 0).sum()):
        raise ValueError(
            f"{missing:,} of {len(places):,} ids of the release are not in the features; give the "
            "table that the request was made of"
        )
    part = table.iloc[places]
    if release.clusters is not None:
        noise_std = release.mechanism.noise_std
        return part, CountEvidence.of(release.values, release.clusters, noise_std=noise_std)
    question = release.question
    if question is None:
        return part, release.log_likelihood
    part = _columns_of(release, part)
    if isinstance(question, PairQuestion):
        return part, None
    some = some_of(len(part), parts=parts, seed=seed)
    # As its request prepared it: rows of other weeks would shift its scales.
    own = number_rows(part.drop(columns=release.id_column), num_classes=2).scaled
    if own.shape[1] != question.scales.shape[1]:
        raise ValueError(
            f"the features give {own.shape[1]} columns of numbers, and the request was made of "
            f"{question.scales.shape[1]}; give the table that the request was made of"
        )
    if release.row_marks is not None:
        question.refuse_other_rows(own, release.row_marks)
    return part.iloc[some], release.soft_labels_of(own, some)


def _together(known: Sequence[Any]) -> Evidence:
    """Return what releases of counts, or of single labels, say of all their rows."""
    if isinstance(known[0], CountEvidence):
        return CountEvidence.together(known)
    return LabelEvidence.of(np.concatenate(known))


def _columns_of(release: PartyRelease, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its columns in the order of a request, or refuse other columns."""
    known = {str(name): name for name in table.columns if name != release.id_column}
    if other := sorted(known.keys() ^ {*release.columns}):
        raise ValueError(
            f"the features and those of the request differ in column {other[0]!r} (one of "
            f"{len(other)}); give the columns that the request was made of"
        )
    return table[[release.id_column, *(known[name] for name in release.columns)]]


def _paid(releases: Sequence[PartyRelease]) -> tuple[float, float]:
    """Epsilon of the id that paid most for these releases, and the delta at which it holds.

    Of persons with several ids this party knows none: as if one person paid for all releases.
    """
    if len(releases) == 1:
        return releases[0].epsilon, releases[0].delta
    units = {each.ledger[0].unit for each in releases}
    if len(units) > 1:
        raise ValueError(
            "some releases were priced per label and others per person; no guarantee holds for "
            "both: request one kind"
        )
    everybody = np.unique(np.concatenate([each.ids for each in releases]))
    ledger = PrivacyLedger(num_labels=len(everybody))
    for each in releases:
        if units == {"label"}:
            ledger.charge(each.mechanism.event, indices=np.searchsorted(everybody, each.ids))
        else:
            ledger.charge(each.mechanism.event if each.delta else PureEvent(epsilon=each.epsilon))
    ledger.add_failures(each.mechanism for each in releases)
    delta = max(each.delta for each in releases) or USUAL_DELTA
    epsilon, at = ledger.total(delta=delta)
    return stated(epsilon), at
