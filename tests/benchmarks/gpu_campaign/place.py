"""The campaign's folder: results, states, vaults, encoders; every file whole or not there.

| in the folder | is |
|---|---|
| `results/NAME.json` | a step that is done |
| `failed/NAME.json` | one that failed, and why; it is not tried again until the file is gone |
| `states/NAME.pt` | what a step that was stopped goes on from; of a teacher, as secret as labels |
| `private/` | vaults, and teachers' votes |
| `encoders/`, `features/` | what was learned of images alone |
"""

import fcntl
import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.records.private_files import private_folder, replacing
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.trainers.data.labelled_data import LabelledData, PublicData, load
from tests.benchmarks.gpu_campaign.labels import NoiseChoice, StepLabels


class CampaignBusy(RuntimeError):
    """Another call is at work in the same folder."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a campaign lies, and what it is of.

    Attributes:
        folder: Of its own.
        noise: Where all noise comes from.
        data: Folder of the data sets; LABELDP_DATA if not given.
        limit: Training images of each data set; None for all.
        moved: Whether somebody said that the folder was carried here from another machine, and
            that no other copy is in use.
        commit: Of the code, as the user says.
    """

    folder: Path
    noise: NoiseChoice = field(default_factory=NoiseChoice)
    data: Path | None = None
    limit: int | None = None
    moved: bool = False
    commit: str | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder: two calls at once would train the same step twice.

        Raises:
            CampaignBusy: Somebody holds it.
        """
        private_folder(self.folder)
        for name in ("results", "failed", "states", "private", "encoders", "features"):
            (self.folder / name).mkdir(exist_ok=True, mode=0o700)
        with (self.folder / "campaign.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise CampaignBusy(
                    f"another call is at work in {self.folder}; wait for its end, or take another "
                    "folder"
                ) from error
            yield

    def labelled(self, dataset: str) -> LabelledData:
        """Return a data set; its labels go into the vault and nowhere else."""
        return _loaded(dataset, self.data, self.limit)

    def public(self, dataset: str) -> PublicData:
        """Return its public part, with a place for features that are computed of it."""
        return _public(dataset, self.data, self.limit, self.folder / "features")

    def labels(self, dataset: str, *, draw: int) -> StepLabels:
        """Return what a step may ask about the labels of a data set.

        Args:
            dataset: Its name.
            draw: Of the repetition: other draws are other noise, and are paid for again.

        Raises:
            StoreUnusable: The vault's file is a copy, or has lost lines.
        """
        labelled = self.labelled(dataset)
        store = SqliteStore(self.folder / "private" / f"{dataset}.db", moved=self.moved)
        vault = LabelVault(
            labels=labelled.train_labels, num_classes=labelled.public.num_classes, store=store
        )
        return StepLabels(vault=vault, noise=self.noise.source(draw))

    def result(self, name: str) -> dict[str, Any] | None:
        """Return what a step found; None where it is not done."""
        return _json(self.folder / "results" / f"{name}.json")

    def failure(self, name: str) -> dict[str, Any] | None:
        """Return why a step failed; None where it did not."""
        return _json(self.folder / "failed" / f"{name}.json")

    def finish(self, name: str, found: Mapping[str, Any]) -> None:
        """Keep a step's result, and forget its state."""
        _write_json(self.folder / "results" / f"{name}.json", found)
        with suppress(FileNotFoundError):
            self._state(name).unlink()

    def fail(self, name: str, why: str) -> None:
        """Keep why a step failed."""
        _write_json(self.folder / "failed" / f"{name}.json", {"step": name, "why": why})

    def keep_state(self, name: str, key: str, state: Mapping[str, Any]) -> None:
        """Keep what a step goes on from; `key` says which step, in full."""
        buffer = io.BytesIO()
        torch.save({"key": _digest(key), "state": dict(state)}, buffer)
        with replacing(self._state(name)) as file:
            file.write(buffer.getbuffer())

    def state(self, name: str, key: str) -> dict[str, Any] | None:
        """Return what a step goes on from; None where there is nothing, or of another step."""
        try:
            content = self._state(name).read_bytes()
        except FileNotFoundError:
            return None
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        if found["key"] != _digest(key):
            return None
        state: dict[str, Any] = found["state"]
        return state

    def _state(self, name: str) -> Path:
        return self.folder / "states" / f"{name}.pt"


@cache
def _loaded(dataset: str, root: Path | None, limit: int | None) -> LabelledData:
    return load(dataset, root=root, limit=limit)


@cache
def _public(dataset: str, root: Path | None, limit: int | None, features: Path) -> PublicData:
    return replace(_loaded(dataset, root, limit).public, features_folder=features)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON, whole or not; what is infinite as a word, which every reader takes."""
    plain = {
        name: ("infinite" if isinstance(each, float) and math.isinf(each) else each)
        for name, each in value.items()
    }
    with replacing(path) as file:
        file.write((json.dumps(plain, indent=1) + "\n").encode())
