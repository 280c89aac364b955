"""The earlier starts of a sweep: what they left in its results folder, and whether to continue."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import ResultsFolder, ResultsFolderError, TrialRecord
from labeldp.platform.sweep.sweep import Resume
from labeldp.platform.vault.vault_identity import refuse_if_gone
from labeldp.platform.vault.vault_store import SqliteStore


def finished_before(
    folder: ResultsFolder, resume: Resume, fingerprint: str
) -> dict[str, TrialRecord]:
    """Return the finished trials of earlier starts by hash.

    Args:
        folder: The results folder.
        resume: What to do about them.
        fingerprint: Of the public data; a folder of other data is refused.

    Raises:
        ResultsFolderError: The folder can't be gone on with; the message says why.
    """
    identity, records = folder.identity(), folder.records()
    if identity.fingerprint not in (None, fingerprint):
        raise ResultsFolderError(
            f"results folder {folder.path} holds this sweep on other data; choose another one with "
            "--results DIR"
        )
    if resume is Resume.NEVER and records:
        raise ResultsFolderError(
            f"results folder {folder.path} holds {len(records)} trials and --resume never was "
            "asked for; choose another folder with --results DIR, or use --resume auto"
        )
    if resume is Resume.MUST and not identity:
        raise ResultsFolderError(
            f"results folder {folder.path} holds no sweep to resume; check --results DIR, or use "
            "--resume auto"
        )
    return {digest: record for digest, record in records.items() if record.finished}


@dataclass(frozen=True, kw_only=True)
class KnownLedger:
    """What earlier starts have spent.

    Attributes:
        charges: Lines of the ledger.
        vault: Id of the vault; None where there is none yet.
    """

    charges: Sequence[Charge] = ()
    vault: str | None = None


def known_ledger(folder: ResultsFolder, *, moved: bool) -> KnownLedger:
    """Return the folder's ledger; refuse one that has forgotten what is known elsewhere.

    Whatever the trials that are asked for now: what was released stays released, and a ledger that
    began anew would grant the budget a second time.

    Args:
        folder: The results folder.
        moved: Somebody said that the folder was moved, and that no other copy of it is in use.

    Raises:
        ResultsFolderError: `sweep.json` or a record knows what the ledger lacks.
        StoreUnusable: The vault's store is damaged, is a copy or lacks lines.
    """
    named, records = folder.identity().vault, folder.records()
    if not folder.store.exists():
        spent = [record.hash for record in records.values() if record.release_keys]
        if named is not None or spent:
            known = f"trial {spent[0]} read releases" if spent else "sweep.json knows of it"
            raise ResultsFolderError(
                f"{folder.store} is gone, and with it what this folder spent ({known}); restore "
                "it from a copy, or choose another folder with --results and count what this one "
                "spent as spent"
            )
        refuse_if_gone(folder.store)
        return KnownLedger()
    store = SqliteStore(folder.store, moved=moved)
    if named not in (None, store.id):
        raise ResultsFolderError(
            f"{folder.store} is not the vault that this folder's sweep.json names; restore that "
            "one from a copy, or choose another folder with --results and count what this one "
            "spent as spent"
        )
    charges = store.charges()
    check_ledger(folder, records, charges)
    return KnownLedger(charges=charges, vault=store.id)


def check_ledger(
    folder: ResultsFolder, records: Mapping[str, TrialRecord], charges: Sequence[Charge]
) -> None:
    """Refuse to go on where trials read releases that the ledger does not know.

    Raises:
        ResultsFolderError: Names the trial and the release.
    """
    known = {charge.key for charge in charges}
    for record in records.values():
        missing = [key for key in record.release_keys if key not in known]
        if missing:
            raise ResultsFolderError(
                f"{folder.store} has lost lines of its ledger: trial {record.hash} "
                f"read release {missing[0]}, which is not there; restore the file from a copy, or "
                "choose another folder with --results and count what this one spent as spent"
            )


def other_code(records: Iterable[TrialRecord], *, commit: str) -> str:
    """Return a warning where trials were run by other code than goes on now; empty if none was."""
    others = Counter(record.git_commit or "unknown" for record in records)
    others.pop(commit, None)
    if not others:
        return ""
    named = ", ".join(f"{number} at {each}" for each, number in sorted(others.items()))
    return (
        f"warning: this sweep goes on with other code than it was begun with: the code is at "
        f"{commit} now, and trials that are kept were run by other code ({named}); their records "
        "and runs say by which. For numbers of one kind choose another folder with --results"
    )
