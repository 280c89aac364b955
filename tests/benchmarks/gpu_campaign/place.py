"""The campaign's folder: results, states, vaults, encoders.

| in the folder | content |
|---|---|
| `results/NAME.json` | a finished step |
| `failed/NAME.json` | a failed step and the reason; delete the file to try again |
| `states/NAME.pt` | the state that an interrupted step resumes from |
| `private/` | one vault per data set |
| `encoders/`, `features/` | networks and features learned from images alone |

Releases, their price and the vault's secret salt lie in one SQLite file, written in one
transaction. A resumed step requests the same release under the same noise and receives the stored
one: nothing is drawn twice.
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

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import NoiseSource, OsEntropy, SeededNoise
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release
from labeldp.platform.records.private_files import private_folder, replacing
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.trainers.data.labelled_data import LabelledData, PublicData, load


class CampaignBusy(RuntimeError):
    """Another call works in the same folder."""


@dataclass(kw_only=True)
class StepLabels:
    """The labels of one step: a vault, a source of noise, and the keys of what was read."""

    vault: LabelVault
    noise: NoiseSource
    keys: list[str] = field(default_factory=list)

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return the release of `mechanism`: the stored one, or one drawn and charged now."""
        release = self.vault.release(mechanism, *public, indices=indices, noise=self.noise)
        if release.key not in self.keys:
            self.keys.append(release.key)
        return release

    def epsilon(self, delta: float) -> float:
        """Epsilon at `delta` of all releases that the step read; 0 for none."""
        return self.vault.epsilon(delta=delta, keys=self.keys) if self.keys else 0.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """Folder, noise and size of a campaign.

    Attributes:
        noise_seed: Of noise that anybody can repeat; None for the operating system's entropy.
        limit: Training images of each data set; None for all.
        moved: The folder was carried here and no other copy is in use.
        commit: Of the code, where this copy has no git.
    """

    folder: Path
    noise_seed: int | None = None
    limit: int | None = None
    moved: bool = False
    commit: str | None = None

    @property
    def noise_words(self) -> str:
        """The source of noise, for results."""
        if self.noise_seed is None:
            return "secret (operating system)"
        return f"seed {self.noise_seed}: an experiment, anybody can repeat it"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder: two calls at once would train the same step twice.

        Raises:
            CampaignBusy: Another call holds it.
        """
        private_folder(self.folder)
        for name in ("results", "failed", "states", "private", "encoders", "features"):
            (self.folder / name).mkdir(exist_ok=True, mode=0o700)
        with (self.folder / "campaign.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise CampaignBusy(
                    f"another call works in {self.folder}; wait for its end or take another folder"
                ) from error
            yield

    def public(self, dataset: str) -> PublicData:
        """Return the public part of a data set, with a folder for computed features."""
        return _public(dataset, self.limit, self.folder / "features")

    def labels(self, dataset: str, *, draw: int) -> StepLabels:
        """Return a data set's labels; each `draw` is another release, charged again.

        Raises:
            StoreUnusable: The vault's file is a copy, or lost lines.
        """
        labelled = _loaded(dataset, self.limit)
        store = SqliteStore(self.folder / "private" / f"{dataset}.db", moved=self.moved)
        vault = LabelVault(
            labels=labelled.train_labels, num_classes=labelled.public.num_classes, store=store
        )
        seed = self.noise_seed
        noise = OsEntropy(draw=draw) if seed is None else SeededNoise(seed=seed, draw=draw)
        return StepLabels(vault=vault, noise=noise)

    def result(self, name: str) -> dict[str, Any] | None:
        """Return a finished step's result, or None."""
        return _json(self.folder / "results" / f"{name}.json")

    def failure(self, name: str) -> dict[str, Any] | None:
        """Return why a step failed, or None."""
        return _json(self.folder / "failed" / f"{name}.json")

    def finish(self, name: str, found: Mapping[str, Any]) -> None:
        """Write a step's result and delete its state."""
        _write_json(self.folder / "results" / f"{name}.json", found)
        with suppress(FileNotFoundError):
            self._state(name).unlink()

    def fail(self, name: str, why: str) -> None:
        """Write why a step failed."""
        _write_json(self.folder / "failed" / f"{name}.json", {"step": name, "why": why})

    def keep_state(self, name: str, key: str, state: Mapping[str, Any]) -> None:
        """Write a step's state; `key` names the step's settings in full."""
        buffer = io.BytesIO()
        torch.save({"key": _digest(key), "state": dict(state)}, buffer)
        with replacing(self._state(name)) as file:
            file.write(buffer.getbuffer())

    def state(self, name: str, key: str) -> dict[str, Any] | None:
        """Return a step's state; None if there is none, or if it has other settings."""
        try:
            content = self._state(name).read_bytes()
        except FileNotFoundError:
            return None
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        return dict(found["state"]) if found["key"] == _digest(key) else None

    def _state(self, name: str) -> Path:
        return self.folder / "states" / f"{name}.pt"


@cache
def _loaded(dataset: str, limit: int | None) -> LabelledData:
    return load(dataset, limit=limit)


@cache
def _public(dataset: str, limit: int | None, features: Path) -> PublicData:
    return replace(_loaded(dataset, limit).public, features_folder=features)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    # JSON has no infinity: a word is read everywhere.
    plain = {
        name: ("infinite" if isinstance(each, float) and math.isinf(each) else each)
        for name, each in value.items()
    }
    with replacing(path) as file:
        file.write((json.dumps(plain, indent=1) + "\n").encode())
