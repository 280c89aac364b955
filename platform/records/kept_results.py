"""A results folder as it lies on disk, read without making, closing or holding anything in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labeldp.platform.records.results import ResultsFolderError, identity_of
from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.records.trial_record import TrialRecord


@dataclass(frozen=True, kw_only=True)
class KeptResults:
    """What a results folder says of its sweep.

    Attributes:
        path: The folder.
        identity: What `sweep.json` holds; nothing where there is none.
        records: Of the trials that ended, by hash.
    """

    path: Path
    identity: SweepIdentity
    records: Mapping[str, TrialRecord]

    @property
    def sweep(self) -> str:
        """Name of the sweep; the folder's where nothing says it."""
        return self.identity.sweep or self.path.name

    @property
    def store(self) -> Path:
        """The vault's releases and ledger."""
        return self.path / "vault.db"

    def trial(self, named: str) -> TrialRecord:
        """Return the trial whose hash begins with `named`.

        Raises:
            ResultsFolderError: None does, or several do.
        """
        found = [digest for digest in self.records if named and digest.startswith(named)]
        if len(found) == 1:
            return self.records[found[0]]
        if found:
            raise ResultsFolderError(
                f"{len(found)} trials of {self.path} begin with {named!r} ({', '.join(found[:3])}"
                f"{', ...' if len(found) > 3 else ''}); name one of them in full"
            )
        known = ", ".join(list(self.records)[:3])
        raise ResultsFolderError(
            f"no trial of {self.path} that has ended begins with {named!r}; it has "
            f"{len(self.records)} ({known}{', ...' if len(self.records) > 3 else ''})"
            if known
            else f"no trial of {self.path} has ended yet; wait for the sweep, or start it again"
        )


def read_results(path: Path) -> KeptResults:
    """Return what the folder at `path` holds.

    Raises:
        ResultsFolderError: It is no results folder, or a file in it is damaged.
    """
    folder = path.expanduser().absolute()
    if not folder.is_dir():
        raise ResultsFolderError(f"there is no folder {folder}; name the results of a sweep")
    identity = identity_of(folder / "sweep.json")
    files = sorted((folder / "trials").glob("*.json"))
    kept = any((folder / name).exists() for name in ("vault.db", "vault.lines"))
    if not identity and not files and not kept:
        raise ResultsFolderError(
            f"{folder} holds no results: neither sweep.json, nor trials, nor a vault; name the "
            "folder that a sweep was given with --results"
        )
    records = {record.hash: record for record in map(TrialRecord.read, files)}
    return KeptResults(path=folder, identity=identity, records=records)
