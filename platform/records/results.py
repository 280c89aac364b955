"""A sweep's results folder: who owns it, and which trials it holds.

A finished trial is a file `trials/<hash>.json`, written by the driver before anything else hears of
it. Those files decide what a resumed sweep skips; tracking can always be filled again from them.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from labeldp.platform.records.json_files import (
    ResultsFolderError,
    dumps,
    read_json,
    write_json,
    write_text,
)
from labeldp.platform.records.private_files import (
    DRAFT_ENDING,
    NotOurs,
    inner_folder,
    open_private,
    private_folder,
)
from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.records.trial_record import TrialRecord

__all__ = [
    "ResultsFolder",
    "ResultsFolderError",
    "TrialRecord",
    "dumps",
    "identity_of",
    "write_json",
    "write_text",
]


class ResultsFolder:
    """The folder, held by one driver at a time and closed to every other user."""

    def __init__(self, path: Path, *, sweep: str) -> None:
        """Make the folder if need be, close it to others, and check that it is this sweep's.

        Raises:
            ResultsFolderError: It can't be written, or belongs to another sweep or user.
        """
        self.path = path.expanduser().absolute()
        self.sweep = sweep
        try:
            # What is computed from true labels lies in records, tracking and artifacts in here.
            private_folder(self.path)
            inner_folder(self.path / "trials")
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except NotOurs as error:
            raise ResultsFolderError(
                f"results folder {self.path} can't be used: {error} with --results DIR"
            ) from error
        except OSError as error:
            raise ResultsFolderError(
                f"results folder {self.path} can't be written ({error.strerror}); choose another "
                "one with --results DIR"
            ) from error
        owner = self.identity().sweep
        if owner is not None and owner != sweep:
            raise ResultsFolderError(
                f"results folder {self.path} holds sweep {owner!r}, not {sweep!r}; choose another "
                "one with --results DIR"
            )

    @property
    def checkpoints(self) -> Path:
        """Where states of trials in training are kept."""
        return self.path / "checkpoints"

    @property
    def models(self) -> Path:
        """The trained models, a folder per trial."""
        return self.path / "models"

    @property
    def scratch(self) -> Path:
        """What Tune keeps while a sweep runs; of no use to the next start."""
        return self.path / "tune"

    @property
    def store(self) -> Path:
        """The vault's releases and ledger."""
        return self.path / "vault.db"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder; the lock goes with the process, however it ends.

        Raises:
            ResultsFolderError: Another driver holds it, or its lock is a link.
        """
        try:
            descriptor = open_private(self.path / "driver.lock", os.O_RDWR | os.O_CREAT)
        except NotOurs as error:
            raise ResultsFolderError(f"{error} with --results DIR") from error
        with open(descriptor, "r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ResultsFolderError(
                    f"results folder {self.path} is in use by process {lock.read() or '?'}; wait "
                    "until that sweep ends, or choose another folder with --results DIR"
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            self._clear_leftovers()
            yield

    def _clear_leftovers(self) -> None:
        """Delete Tune's files of a driver that was killed, and what it had not written whole."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        drafts = [*self.path.glob(f".*{DRAFT_ENDING}")]
        for folder in (self.path / "trials", self.path / "private", self.checkpoints, self.models):
            drafts.extend(folder.rglob(f".*{DRAFT_ENDING}"))
        drafts.extend((self.path / "artifacts").rglob(".artifact.uploading.*"))  # MLflow's
        for draft in drafts:
            draft.unlink(missing_ok=True)

    def identity(self) -> SweepIdentity:
        """Return what the folder says of itself; nothing for a new one.

        Raises:
            ResultsFolderError: The file is damaged.
        """
        return identity_of(self.path / "sweep.json")

    def identify(self, **facts: Any) -> None:
        """Add facts of `SweepIdentity` to what the folder says of itself; None says nothing new."""
        new = {name: fact for name, fact in facts.items() if fact is not None}
        told = replace(self.identity(), **{**new, "sweep": self.sweep})
        write_json(self.path / "sweep.json", told.to_json())

    def records(self) -> dict[str, TrialRecord]:
        """Return the records of trials that ended, by hash.

        Raises:
            ResultsFolderError: One is damaged; the message names it.
        """
        found = sorted((self.path / "trials").glob("*.json"))
        return {record.hash: record for record in map(TrialRecord.read, found)}

    def keep(self, record: TrialRecord) -> None:
        """Write a trial's record.

        Raises:
            ResultsFolderError: It can't be written.
        """
        write_json(self.path / "trials" / f"{record.hash}.json", asdict(record))


def identity_of(path: Path) -> SweepIdentity:
    """Return what the `sweep.json` at `path` says; nothing where there is none.

    Raises:
        ResultsFolderError: It is damaged.
    """
    if not path.exists():
        return SweepIdentity()
    try:
        return SweepIdentity.from_json(read_json(path))
    except ResultsFolderError:
        raise
    except ValueError as error:
        raise ResultsFolderError(
            f"{path} is damaged ({error}); restore it, or move the folder away and start anew"
        ) from error
