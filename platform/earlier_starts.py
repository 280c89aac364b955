"""What earlier starts of a sweep left in its results folder, and whether to go on with it."""

from collections.abc import Mapping, Sequence
from enum import Enum

from labeldp.mechanisms.vault import Charge
from labeldp.platform.results import ResultsFolder, ResultsFolderError, TrialRecord


class Resume(Enum):
    """What to do about trials that an earlier start left in the results folder."""

    AUTO = "auto"
    MUST = "must"
    NEVER = "never"


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
    if identity.get("fingerprint", fingerprint) != fingerprint:
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


def check_ledger(
    folder: ResultsFolder, records: Mapping[str, TrialRecord], charges: Sequence[Charge]
) -> None:
    """Refuse to go on where finished trials read releases that the ledger does not know.

    Raises:
        ResultsFolderError: Names the trial and the release.
    """
    known = {charge.key for charge in charges}
    for record in records.values():
        missing = [key for key in record.release_keys if key not in known]
        if missing:
            raise ResultsFolderError(
                f"{folder.path / 'vault.db'} has lost lines of its ledger: trial {record.hash} "
                f"read release {missing[0]}, which is not there; restore the file from a copy, or "
                "choose another folder with --results and count what this one spent as spent"
            )
