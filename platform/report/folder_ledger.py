"""A results folder's ledger as a person asks about it: what, when, for whom, at what price.

The vault's store knows what was charged and when; the trials' records know who read it. Both are
read as they lie there, and whatever one of them knows and the other lacks is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import KeptResults, TrialRecord, read_results
from labeldp.platform.vault.vault_store import KeptLedger, read_ledger


class Audience(StrEnum):
    """Who may see a release, and what is made of it."""

    ANYBODY = "anybody"
    OWNER = "the owner of the labels only"


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """One release and what it cost.

    Attributes:
        folder: The results folder that it is of.
        sweep: Name of the sweep.
        number: Which line of the folder's ledger it is, from 1.
        charge: What the ledger has.
        made: When, in UTC; None where that was not kept.
        epsilon: Of this release alone.
        delta: At which that holds; 0 for a pure one.
        labels: How many it touched; None for all of a number that was not kept.
        readers: The trials that read it.
        repeats: The folder that this one is a copy of, where that one has the same line; empty
            else. It is one release, and counts once.
        handed_out: Keys of the folder's releases that are the labels themselves.
    """

    folder: str
    sweep: str
    number: int
    charge: Charge
    made: str | None
    epsilon: float
    delta: float
    labels: int | None
    readers: tuple[TrialRecord, ...] = ()
    repeats: str = ""
    handed_out: frozenset[str] = frozenset()

    @property
    def noise(self) -> NoiseKind | None:
        """Where its noise came from; None where the labels were handed out as they are."""
        return None if self.charge.hands_out else self.charge.noise

    @property
    def is_of_baseline(self) -> bool:
        """Whether trials without noise alone read it, or may have, where no record says.

        A noisy count of a baseline's right answers is private for held-out labels alone: the
        answers were made of the labels to train on.
        """
        read = [not self.handed_out.isdisjoint(each.release_keys) for each in self.readers]
        return all(read) if read else bool(self.handed_out)

    @property
    def audience(self) -> Audience:
        """Who may see it."""
        hidden = self.noise in (None, NoiseKind.SEEDED) or self.is_of_baseline
        return Audience.OWNER if hidden else Audience.ANYBODY


@dataclass(frozen=True, kw_only=True)
class FolderLedger:
    """All lines of a results folder.

    Attributes:
        results: What the folder holds beside its vault.
        delta: At which epsilon is stated where releases are not pure.
        lines: In the order in which they were charged.
        vault: Id of the vault; empty where there is none, or an old one.
        labels: Mark of the labels, as `KeptLedger.labels`; empty likewise.
        problems: What says that lines are missing.
        kept: The store as it was read; None where it is gone.
    """

    results: KeptResults
    delta: float
    lines: tuple[LedgerLine, ...]
    vault: str = ""
    labels: str = field(default="", repr=False)
    problems: tuple[str, ...] = ()
    kept: KeptLedger | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        return self.results.path

    @property
    def fingerprint(self) -> str:
        """Of the public data; empty where nobody says it."""
        return self.results.identity.fingerprint or ""

    @property
    def num_labels(self) -> int | None:
        """How many labels the vault has, those that are held out among them."""
        return self.results.identity.all_labels

    def lines_of(self, keys: tuple[str, ...] | list[str]) -> tuple[LedgerLine, ...]:
        """Return the lines of the releases at `keys`."""
        return tuple(line for line in self.lines if line.charge.key in keys)


def read_folder(path: Path, *, delta: float | None = None) -> FolderLedger:
    """Return the ledger of the results folder at `path`.

    Args:
        path: The folder.
        delta: At which epsilon is stated where releases are not pure; the largest that a trial of
            it was given if None.

    Raises:
        ResultsFolderError: It is no results folder, or a file in it is damaged.
        StoreUnusable: Its vault can't be read.
    """
    results = read_results(path)
    at = _delta_of(results.records) if delta is None else delta
    if not results.store.exists():
        gone = _gone(results)
        return FolderLedger(results=results, delta=at, lines=(), problems=gone)
    kept = read_ledger(results.store)
    bare = frozenset(charge.key for charge, _ in kept.lines if charge.hands_out)
    lines = tuple(
        replace(
            _line(results, charge, made, number=number, delta=at),
            handed_out=bare,
        )
        for number, (charge, made) in enumerate(kept.lines, start=1)
    )
    return FolderLedger(
        results=results,
        delta=at,
        lines=lines,
        vault=kept.vault,
        labels=kept.labels,
        problems=(*kept.problems, *_contradictions(results, kept)),
        kept=kept,
    )


def _line(
    results: KeptResults, charge: Charge, made: str | None, *, number: int, delta: float
) -> LedgerLine:
    at = delta_of_total([charge], delta=delta)
    touched = charge.indices
    return LedgerLine(
        folder=str(results.path),
        sweep=results.sweep,
        number=number,
        charge=charge,
        made=made,
        epsilon=epsilon_of_prices([charge], delta=at),
        delta=at,
        labels=results.identity.all_labels if touched is None else len(touched),
        readers=tuple(
            record for record in results.records.values() if charge.key in record.release_keys
        ),
    )


def _delta_of(records: Mapping[str, TrialRecord]) -> float:
    """The largest delta that a trial was given."""
    given = (record.config.get("trainer.delta") for record in records.values())
    return max(
        (each for each in given if isinstance(each, float) and 0 < each < 1), default=USUAL_DELTA
    )


def _gone(results: KeptResults) -> tuple[str, ...]:
    spent = any(record.release_keys for record in results.records.values())
    told = results.identity.vault is not None or results.store.with_suffix(".lines").exists()
    if not spent and not told:
        return ()
    return (
        f"{results.store} is gone, and with it the ledger of what this folder spent; restore it "
        "from a copy: until then no sum here is one",
    )


def _contradictions(results: KeptResults, kept: KeptLedger) -> tuple[str, ...]:
    found = []
    named = results.identity.vault
    if named not in (None, kept.vault):
        found.append(
            f"{kept.path} is not the vault that sweep.json beside it names; what the other one "
            "spent is not in any sum"
        )
    known = {charge.key for charge, _ in kept.lines}
    for record in results.records.values():
        missing = [key for key in record.release_keys if key not in known]
        if missing:
            found.append(
                f"trial {record.hash} of {results.path} read release {missing[0]}, which the "
                "ledger lacks; what it cost is not in any sum"
            )
    return tuple(found)
