"""A campaign for an accelerator: the most useful experiments, some minutes at a time.

    python -m tests.benchmarks.gpu_campaign --folder DIR --minutes 9.5 --noise-seed 0

Each call continues where the last one stopped; docs/reproduction/accelerator.md describes steps.

A later stage's release (LP-MST, moment labels in stages) depends on a trained network, so the state
is written right before it: if a resumed network gave another last digit, the ledger would charge a
second release.
"""

import argparse
import io
import json
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import NoiseSource, OsEntropy, SeededNoise
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release
from labeldp.platform.vault.vault_store import SqliteStore, StoreUnusable
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.files import DatasetMissing, private_folder, replacing
from labeldp.trainers.data.labelled_data import LabelledData, PublicData, load
from labeldp.trainers.data.splits import League
from labeldp.trainers.encoders.image_encoder import build, described, pretrain
from labeldp.trainers.methods.settings import (
    AlibiConfig,
    AlibiPriorConfig,
    LpMstConfig,
    Noise,
    PriorLabelsConfig,
    PriorSettings,
    PriorSource,
    PriorStudentConfig,
    Randomizer,
    StagedMomentsConfig,
)
from labeldp.trainers.models.features import ScaledStep
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.trainer import TrainerDefaults
from labeldp.trainers.settings.training import (
    LABEL_SMOOTHING,
    Flip,
    LearnerConfig,
    Schedule,
    SelfSupervisedConfig,
    fast_training,
)
from tests.benchmarks.benchmark import commit, machine

_SMALL_LIMIT = 100
#: States are written at most so often, and at the end of a call.
_KEEP_SECONDS = 20.0
_DESCRIBING_SECONDS = 20.0
#: Penalty of the probe, on standardized vectors.
_RIDGE = 10.0
#: Epochs of long training, and other numbers of epochs for each of two stages.
_LONG, _OTHERS = 20, (10, 30)
#: Bfloat16 where the device supports it.
_FAST = Performance(precision=Precision.AUTO, channels_last=True)


@dataclass(kw_only=True)
class StepLabels:
    """The labels of one step: a vault, a source of noise, and the keys of its releases."""

    vault: LabelVault
    noise: NoiseSource
    keys: list[str] = field(default_factory=list)
    persons: NDArray[np.intp] | None = None

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        release = self.vault.release(mechanism, *public, indices=indices, noise=self.noise)
        self.keys = list(dict.fromkeys([*self.keys, release.key]))
        return release


@cache
def _loaded(dataset: str, limit: int | None) -> LabelledData:
    return load(dataset, limit=limit)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Folder, noise and size of a campaign.

    `noise_seed` makes noise that anybody can repeat; `moved` states that the folder was carried
    here and no other copy is in use; `commit` is of the code, where this copy has no git.
    """

    folder: Path
    noise_seed: int | None = None
    limit: int | None = None
    moved: bool = False
    commit: str | None = None

    def public(self, dataset: str) -> PublicData:
        """Return the public part of a data set, with a folder for computed features."""
        public = _loaded(dataset, self.limit).public
        return replace(public, features_folder=self.folder / "features")

    def labels(self, dataset: str, *, draw: int) -> StepLabels:
        labelled, seed = _loaded(dataset, self.limit), self.noise_seed
        store = SqliteStore(self.folder / "private" / f"{dataset}.db", moved=self.moved)
        vault = LabelVault(
            labels=labelled.train_labels, num_classes=labelled.public.num_classes, store=store
        )
        noise = OsEntropy(draw=draw) if seed is None else SeededNoise(seed=seed, draw=draw)
        return StepLabels(vault=vault, noise=noise)

    def encoder(self, name: str) -> Path:
        """Return the file of the encoder that a step trains."""
        return self.folder / "encoders" / f"{name}.pt"

    def kept(self, folder: str, name: str) -> dict[str, Any] | None:
        """Return a finished step's result (`results`), or why it failed (`failed`); else None."""
        path = self.folder / folder / f"{name}.json"
        return dict(json.loads(path.read_text())) if path.exists() else None

    def finish(self, step: "Step", found: Mapping[str, Any]) -> bool:
        """Write a step's result with where it was made, and delete its state.

        Where `found` does not state it, the step learned from images alone.
        """
        cuda = _FAST.torch_device().type == "cuda"
        every = {
            "step": step.name,
            "dataset": step.dataset,
            "network": step.network,
            "epsilon": 0.0,
            "delta": 0.0,
            "noise": "none: reads no label",
            "league": League.NONE.words,
            "seed": 0,
            **found,
            "accelerator": torch.cuda.get_device_name() if cuda else machine().partition(",")[0],
            "machine": machine(),
            "precision": _FAST.precision_here().value,
            "commit": self.commit or commit(),
            "date": datetime.now(UTC).date().isoformat(),
        }
        self.write("results", step.name, every)
        self._state(step.name).unlink(missing_ok=True)
        return True

    def write(self, folder: str, name: str, value: Mapping[str, Any]) -> None:
        with replacing(self.folder / folder / f"{name}.json") as file:
            file.write((json.dumps(value, indent=1) + "\n").encode())

    def keep_state(self, name: str, key: str, state: Mapping[str, Any]) -> None:
        buffer = io.BytesIO()
        torch.save({"key": key, **state}, buffer)
        with replacing(self._state(name)) as file:
            file.write(buffer.getbuffer())

    def state(self, name: str, key: str) -> dict[str, Any]:
        """Return a step's state; nothing if there is none, or if it has other settings."""
        if not self._state(name).exists():
            return {}
        content = io.BytesIO(self._state(name).read_bytes())
        found = dict(torch.load(content, map_location="cpu", weights_only=True))
        return found if found["key"] == key else {}

    def _state(self, name: str) -> Path:
        return self.folder / "states" / f"{name}.pt"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A piece of work that can pause and resume; its settings decide its result.

    A call with less than `needs_seconds` left ends before it; `after` is the step that must finish
    first. `network` is a part of its table's title.
    """

    name: str
    dataset: str
    needs_seconds: float
    network: str = ""
    after: str | None = None

    def advance(self, place: Place, end: float) -> bool:
        """Work until the step is done, or the time is over; return whether it is done."""
        raise NotImplementedError


class Start(StrEnum):
    """Input of a trial: images; the vectors of the step `after`; or images and its weights."""

    IMAGES = "images"
    VECTORS = "vectors"
    WEIGHTS = "weights"


@dataclass(frozen=True, kw_only=True)
class TrialStep(Step):
    """One trainer, from its releases to its accuracy, some epochs at a time.

    With `start=weights`, a moment prior is learned from the encoder's vectors. `row` names a
    row of the tables; `seed` is also the number of the draw of noise.
    """

    row: str
    config: TrainerDefaults
    seed: int = 0
    start: Start = Start.IMAGES
    needs_seconds: float = 30.0

    def _config(self, place: Place) -> TrainerDefaults:
        if self.start is not Start.WEIGHTS:
            return self.config
        assert isinstance(self.config, LearnerConfig | PriorStudentConfig)
        assert self.after is not None
        file = str(place.encoder(self.after))
        changes: dict[str, Any] = {"encoder": file}
        prior = getattr(self.config, "prior", None)
        if prior is not None and prior.source is not PriorSource.UNIFORM:
            changes["prior"] = replace(prior, encoder=file)
        return replace(self.config, **changes)

    def advance(self, place: Place, end: float) -> bool:
        """Train until all epochs are done or the time is over."""
        data, labels = place.public(self.dataset), place.labels(self.dataset, draw=self.seed)
        if self.start is Start.VECTORS:
            kept = np.load(place.folder / "features" / f"{self.after}.npz")
            train, test = (torch.from_numpy(kept[part]) for part in ("train", "test"))
            scaled = ScaledStep.fit(train)
            data = PublicData(
                name=data.name,
                num_classes=data.num_classes,
                train_features=scaled(train),
                test_features=scaled(test),
                test_labels=data.test_labels,
                class_names=data.class_names,
            )
        key = repr((self, place.limit, place.noise_seed))
        config = self._config(place)
        trainer = config.start(data=data, labels=labels, seed=self.seed, performance=_FAST)
        seconds, curve = 0.0, list[float]()
        if state := place.state(self.name, key):
            trainer.load_state_dict(state["trainer"])
            labels.keys = list(dict.fromkeys([*state["keys"], *labels.keys]))
            seconds, curve = state["seconds"], list(state["curve"])
        releases: list[int] = []  # epochs that begin with one
        if isinstance(self.config, LpMstConfig | StagedMomentsConfig):
            stages = range(self.config.stages)
            releases = list(accumulate(self.config.stage_epochs(stage) for stage in stages))
        kept_at, last = time.monotonic(), 0.0
        while len(curve) < self.config.epochs:
            over = time.monotonic() + last > end
            due = time.monotonic() - kept_at >= _KEEP_SECONDS or len(curve) in releases
            if curve and (over or due):
                now = {"trainer": dict(trainer.state_dict()), "keys": labels.keys}
                place.keep_state(self.name, key, {**now, "seconds": seconds, "curve": curve})
                kept_at = time.monotonic()
            if over:
                return False
            began = time.monotonic()
            metrics = trainer.epoch()
            last = time.monotonic() - began
            seconds += metrics.seconds
            curve.append(metrics.val_accuracy)
        delta, epsilon = 0.0, 0.0
        if labels.keys:
            try:
                epsilon = labels.vault.epsilon(delta=0.0, keys=labels.keys)
            except ValueError:  # a release that holds at a positive delta only
                delta = self.config.delta
                epsilon = labels.vault.epsilon(delta=delta, keys=labels.keys)
        seed = place.noise_seed
        return place.finish(
            self,
            {
                "method": self.row,
                "features": "images" if self.after is None else f"{self.start} of {self.after}",
                "training_images": len(data.train_features),
                "accuracy": trainer.evaluate(),
                "epsilon": epsilon,
                "delta": delta,
                "seed": self.seed,
                "noise": "secret" if seed is None else f"seed {seed}: anybody can repeat it",
                "epochs": len(curve),
                "train_seconds": round(seconds, 1),
                "curve": curve,
                **{f"figure {name}": value for name, value in trainer.figures().items()},
            },
        )


@dataclass(frozen=True, kw_only=True)
class EncoderStep(Step):
    """An encoder trained on a data set's training images alone, and its features of all images."""

    config: SelfSupervisedConfig
    needs_seconds: float = 60.0

    def advance(self, place: Place, end: float) -> bool:
        """Train until all epochs are done or the time is over; then compute the features."""
        data, key = place.public(self.dataset), repr(self.config)
        labelled = _loaded(self.dataset, place.limit)
        file = place.encoder(self.name)
        seconds = [float(place.state(self.name, key).get("seconds", 0.0))]
        done = pretrain(
            data.train_features,
            file,
            self.config,
            seconds=max(1e-3, end - time.monotonic() - _DESCRIBING_SECONDS),
            performance=_FAST,
            report=lambda metrics, _: seconds.append(metrics.seconds),
        )
        if not done["finished"]:
            place.keep_state(self.name, key, {"seconds": sum(seconds)})
            return False
        encoder = build(file)
        train, test = (
            described(encoder, images, performance=_FAST).numpy()
            for images in (data.train_features, data.test_features)
        )
        with replacing(place.folder / "features" / f"{self.name}.npz") as opened:
            np.savez(opened, train=train, test=test)
        return place.finish(
            self,
            {
                "method": "self-supervised (coding_rate)",
                "training_images": len(data.train_features),
                "accuracy": _probed(train, labelled.train_labels, test, data.test_labels),
                "dimensions": done["dimensions"],
                "epochs": done["epochs"],
                "loss": done["loss"],
                "train_seconds": round(sum(seconds), 1),
            },
        )


def _probed(
    train: NDArray[np.float32],
    labels: NDArray[np.int64],
    test: NDArray[np.float32],
    test_labels: NDArray[np.int64],
) -> float:
    """Return the test accuracy of ridge regression on vectors [N, D] and all true labels."""
    mean, std = train.mean(0), train.std(0) + 1e-6
    rows, others = (np.c_[(part - mean) / std, np.ones(len(part))] for part in (train, test))
    square = rows.T @ rows + _RIDGE * np.eye(len(rows.T))
    weights = np.linalg.solve(square, rows.T @ np.eye(labels.max() + 1)[labels])
    return float(((others @ weights).argmax(1) == test_labels).mean())


# The steps, ordered by their worth: an accelerator's first minutes go to the first ones.

#: The wide network of encoders and of long training.
WIDE = 128
_SEEDS = range(3)
_MOMENTS = PriorSettings(source=PriorSource.MOMENTS)
_TWICE: dict[str, Any] = {"stages": 2}
_OPTIMAL: dict[str, Any] = {**_TWICE, "randomizer": Randomizer.OPTIMAL, "temperature": 1.0}
#: Views are crops at the image's resolution; chosen on CIFAR-10 (docs/encoders.md).
_ENCODER = SelfSupervisedConfig(
    width=WIDE,
    crop=20,
    views=8,
    epochs=59,  # two minutes of an H200
    batch_size=256,
)


def campaign() -> Iterator[Step]:
    """Yield all steps; CIFAR-100 confirms the choices of CIFAR-10."""
    for dataset, epsilons in (
        ("cifar10", (1.0, 2.0, 4.0)),
        ("cifar100", (2.0, 3.0, 4.0, 6.0, 8.0)),
    ):
        yield EncoderStep(
            name=f"{dataset}-encoder",
            dataset=dataset,
            network=f"fast network, width {_ENCODER.width}",
            config=_ENCODER,
        )
        yield from _channels(dataset, epsilons)
        yield from _on_vectors(dataset, (0.05, 0.1, 0.18, 0.5, 1.0, 2.0, 4.0))
        yield from _students(dataset)
        yield from _long(dataset, epsilons, encoder=True)
        yield from _long(dataset, epsilons, encoder=False)
    for dataset in ("mnist", "fashion_mnist"):
        yield from _long(dataset, (1.0, 2.0, 4.0), encoder=False)


def small_campaign() -> tuple[Step, ...]:
    """Return a step of each kind with networks that train in seconds on a processor."""
    network = fast_training(epochs=2, width=2) | {"batch_size": 50}
    prior = replace(_MOMENTS, landmarks=20)
    encoder = replace(_ENCODER, width=2, epochs=2, views=2, batch_size=50, projection=8)
    fast = _trial("cifar10", "ALIBI", AlibiConfig(epsilon=2.0, **network), kind="channels")
    name = "cifar10-encoder"
    staged = LpMstConfig(epsilon=2.0, **network, **_OPTIMAL)
    both = AlibiPriorConfig(epsilon=1.0, prior=prior, noise=Noise.OPTIMAL, **network)
    moments = PriorLabelsConfig(epsilon=1.0, prior=prior, **_ON_VECTORS)
    student = PriorStudentConfig(epsilon=1.0, prior=prior, width=2, epochs=1, labeled=5)
    steps: tuple[Step, ...] = (
        EncoderStep(name=name, dataset="cifar10", config=encoder),
        fast,
        _trial("cifar10", "two stages", staged, kind="channels"),
        _trial("cifar10", "moment labels", moments, kind="probe", start=Start.VECTORS),
        _trial("cifar10", "both", both, kind="long", start=Start.WEIGHTS),
        _trial("cifar10", "student", student, kind="student", start=Start.WEIGHTS),
    )
    return tuple(replace(step, needs_seconds=0.0) for step in steps)


def _trial(
    dataset: str,
    row: str,
    config: Any,
    *,
    kind: str,
    seed: int = 0,
    start: Start = Start.IMAGES,
) -> TrialStep:
    """Return a trial; `kind` is the second word of its name."""
    words = row.lower().replace(" + ", "-").replace(", ", "-").replace(" ", "-")
    bare = getattr(config, "noise", None) is Noise.NONE
    at = "" if bare else f"-e{config.epsilon:g}"
    width = "" if config.width is None else f", width {config.width}"
    return TrialStep(
        name=f"{dataset}-{kind}-{words}{at}-s{seed}",
        row=row,
        network=f"{config.model}{width}",
        dataset=dataset,
        config=config,
        seed=seed,
        start=start,
        after=None if start is Start.IMAGES else f"{dataset}-encoder",
    )


def _channels(dataset: str, epsilons: Sequence[float]) -> Iterator[TrialStep]:
    """Yield methods for single labels, three seeds, in the fast network at half width."""
    once, twice = (fast_training(epochs=epochs) for epochs in (10, 20))
    for seed in _SEEDS:
        for epsilon in epsilons:
            lines: dict[str, Any] = {
                "subset selection": AlibiConfig(epsilon=epsilon, noise=Noise.SUBSET, **once),
                "randomized response": AlibiConfig(
                    epsilon=epsilon, noise=Noise.RANDOMIZED_RESPONSE, **once
                ),
                "ALIBI": AlibiConfig(epsilon=epsilon, **once),
                "optimal channels in 2 stages": LpMstConfig(epsilon=epsilon, **_OPTIMAL, **twice),
                "LP-2ST": LpMstConfig(epsilon=epsilon, **_TWICE, **twice),
            }
            for row, config in lines.items():
                if row != "LP-2ST" or dataset == "cifar10":
                    yield _trial(dataset, row, config, kind="channels", seed=seed)


_ON_VECTORS: dict[str, Any] = {
    "model": ModelName.MLP,
    "epochs": 12,
    "batch_size": 256,
    "learning_rate": 1.0,  # features have a mean squared norm of 1 in all
    "weight_decay": 1e-4,
    "schedule": Schedule.COSINE,
    "dropout": 0.5,
}


def _on_vectors(dataset: str, epsilons: Sequence[float]) -> Iterator[TrialStep]:
    """Yield an MLP on the encoder's vectors; three seeds of moment labels up to 1."""
    trial = partial(_trial, dataset, kind="vectors", start=Start.VECTORS)
    for epsilon in epsilons:
        moments = PriorLabelsConfig(epsilon=epsilon, prior=_MOMENTS, **_ON_VECTORS)
        for seed in _SEEDS if epsilon <= 1 else (0,):
            yield trial("moment labels", moments, seed=seed)
        if epsilon >= 1:
            subset = AlibiConfig(epsilon=epsilon, noise=Noise.SUBSET, **_ON_VECTORS)
            yield trial("subset selection", subset)
    yield trial("no noise", AlibiConfig(noise=Noise.NONE, **_ON_VECTORS))


def _students(dataset: str) -> Iterator[TrialStep]:
    """Yield semi-supervised students of moment labels, from the encoder's weights."""
    few = 500
    epsilons: tuple[float, ...] = (0.05, 0.1, 0.5, 1.0, 2.0)
    if dataset == "cifar100":
        few = 50
        epsilons = (1.0, 2.0, 4.0)
    for epsilon in epsilons:
        student = PriorStudentConfig(
            epsilon=epsilon,
            prior=_MOMENTS,
            width=WIDE,
            epochs=_LONG,
            batch_size=250,
            unlabeled_ratio=3,
            learning_rate=0.6,
            labeled=few,
        )
        for seed in _SEEDS:
            yield _trial(
                dataset,
                "moment labels + student",
                student,
                kind="student",
                seed=seed,
                start=Start.WEIGHTS,
            )


def _long(dataset: str, epsilons: Sequence[float], *, encoder: bool) -> Iterator[TrialStep]:
    """Yield long training of the wide network, from the encoder's weights or from none."""
    start = Start.WEIGHTS if encoder else Start.IMAGES
    trial = partial(_trial, dataset, kind="tuned" if encoder else "long", start=start)
    network = fast_training(epochs=_LONG, width=WIDE)
    smooth = fast_training(epochs=_LONG, width=WIDE, label_smoothing=LABEL_SMOOTHING)
    if dataset == "mnist":  # a mirrored digit is another one, or none
        for each in (network, smooth):
            each["recipe"] = replace(each["recipe"], flip=Flip.NONE, mirrored=False)
    yield trial("no noise", AlibiConfig(noise=Noise.NONE, **smooth))
    for epsilon in epsilons:
        yield trial("subset selection", AlibiConfig(epsilon=epsilon, noise=Noise.SUBSET, **network))
        for epochs in (_LONG, *_OTHERS):
            staged = LpMstConfig(epsilon=epsilon, **_OPTIMAL, **{**network, "epochs": 2 * epochs})
            length = "" if epochs == _LONG else f", {epochs} epochs each"
            yield trial(f"optimal channels in 2 stages{length}", staged)
        if encoder:
            prior: dict[str, Any] = {"prior": _MOMENTS, "noise": Noise.OPTIMAL}
            both = AlibiPriorConfig(epsilon=epsilon, **prior, **network)
            yield trial("moment prior + optimal channel", both)
    if encoder:
        short = {**network, "epochs": 6, "earlier_epochs": 2}
        for epsilon in (0.05, 0.1, 0.5, 1.0, 2.0):
            moments = StagedMomentsConfig(epsilon=epsilon, prior=_MOMENTS, **short)
            for seed in _SEEDS if epsilon <= 1 else (0,):
                yield trial("moment labels in stages", moments, seed=seed)


# The command


def run(place: Place, steps: Sequence[Step], *, end: float) -> None:
    """Continue where the last call stopped; a failed step is written down and does not stop it."""
    first = True
    for step in steps:
        if place.kept("results", step.name) or place.kept("failed", step.name):
            continue
        if step.after is not None and place.kept("results", step.after) is None:
            continue
        left = end - time.monotonic()
        # The first step of a call always begins: with calls shorter than it needs it never would.
        if not first and left < step.needs_seconds:
            break
        first = False
        print(f"{step.name}: begins, {left:.0f} s left", flush=True)
        try:
            done = step.advance(place, end)
        except (StoreUnusable, DatasetMissing):
            raise  # no step can continue
        except (RuntimeError, ValueError, MemoryError) as error:
            why = f"{type(error).__name__}: {error}"
            place.write("failed", step.name, {"step": step.name, "why": why})
            print(f"{step.name}: failed\n{traceback.format_exc()}", flush=True)
            continue
        print(f"{step.name}: {'done' if done else 'continues in the next call'}", flush=True)
        if not done:
            break


def tables(place: Place, steps: Sequence[Step]) -> str:
    """Return all results as Markdown: a table for each data set, input and network.

    Accuracy in %, with the standard deviation over seeds. Encoders stand in the column of no label.
    """
    groups: dict[str, dict[str, dict[float, list[float]]]] = {}
    for step in steps:
        found = place.kept("results", step.name)
        if found is None:
            continue
        title = f"{found['dataset']}, {found['network']}, on {found.get('features', 'images')}"
        of_row = groups.setdefault(title, {}).setdefault(str(found["method"]), {})
        of_row.setdefault(found["epsilon"], []).append(100 * found["accuracy"])
    lines = []
    for title, rows in groups.items():
        columns = sorted({round(epsilon, 6) for row in rows.values() for epsilon in row})
        lines += [f"| {' | '.join([title, *(f'{each:g}' for each in columns)])} |"]
        lines += ["|---" * (1 + len(columns)) + "|"]
        for method, row in rows.items():
            cells = {round(epsilon, 6): _cell(values) for epsilon, values in row.items()}
            lines += [f"| {' | '.join([method, *(cells.get(each, '') for each in columns)])} |"]
        lines.append("")
    count = sum(place.kept("results", step.name) is not None for step in steps)
    return "\n".join([*lines, f"{count} of {len(steps)} steps were run."])


def _cell(values: Sequence[float]) -> str:
    spread = f"±{np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.gpu_campaign",
        description="Run the most useful experiments on an accelerator, some minutes at a time.",
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="all results")
    parser.add_argument("--minutes", type=float, default=9.5, help="of this call (default: 9.5)")
    text = "repeatable noise, for machines without randomgen; experiments on public labels only"
    parser.add_argument("--noise-seed", type=int, metavar="N", help=text)
    text = "the folder was carried here from another machine, and no other copy is in use"
    parser.add_argument("--moved", action="store_true", help=text)
    text = "only steps whose names begin with NAME"
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help=text)
    parser.add_argument("--commit", metavar="HASH", help="of the code, for a copy without git")
    parser.add_argument("--small", action="store_true", help="tiny sizes: check that all runs")
    parser.add_argument("--list", action="store_true", help="list the steps in order")
    parser.add_argument("--table", action="store_true", help="print results as Markdown and end")
    wanted = parser.parse_args()
    every = small_campaign() if wanted.small else campaign()
    steps = [step for step in every if step.name.startswith(tuple(wanted.only) or ("",))]
    if wanted.list:
        print("\n".join(step.name for step in steps))
        return 0
    if wanted.folder is None:
        parser.error("--folder is required (--list alone works without it)")
    place = Place(
        folder=wanted.folder,
        noise_seed=wanted.noise_seed,
        limit=_SMALL_LIMIT if wanted.small else None,
        moved=wanted.moved,
        commit=wanted.commit,
    )
    if wanted.table:
        print(tables(place, steps))
        return 0
    torch.backends.cudnn.benchmark = True
    try:
        private_folder(place.folder)
        for name in ("results", "failed", "states", "private", "encoders", "features"):
            (place.folder / name).mkdir(exist_ok=True, mode=0o700)
        run(place, steps, end=time.monotonic() + 60 * wanted.minutes)
    except (ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    done = sum(place.kept("results", step.name) is not None for step in steps)
    failed = sum(place.kept("failed", step.name) is not None for step in steps)
    print(f"{done} done, {failed} failed, {len(steps) - done - failed} left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
