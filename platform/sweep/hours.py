"""Hours of a sweep on one device: examples that networks learn from, over a measured rate.

A rate is measured by the trainer itself on made-up images, for some seconds, and kept by device in
the user's folder of state. A sweep that wants a GPU where there is none is stated for another one,
by counted operations.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.platform.settings.sweep import PlannedTrial, ensembles_of
from labeldp.platform.vault.witness import state_folder
from labeldp.trainers.base import FeatureSet, ModelName
from labeldp.trainers.data.files import private_folder, replacing
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.methods.pate_settings import EnsembleConfig
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import (
    FewLabelsConfig,
    FixMatchConfig,
    LearnerConfig,
    SemiSupervisedConfig,
    Work,
)

if TYPE_CHECKING:  # a plan does without torch where nothing is to be measured
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.models.learner import Training

#: Convolutional networks that learn from fewer examples, in all, take minutes: not measured.
_SMALL = 200_000
#: Seconds that a rate is measured for, after a first epoch.
_SECONDS = 1.0
#: Steps of a made-up epoch on a GPU: enough for a recording (`training_step`).
_STEPS = 6
#: Settings of a network that decide how fast it learns.
_SPEED = (
    "model",
    "width",
    "batch_size",
    "augment",
    "mixup",
    "recipe",
    "unlabeled_ratio",
    "weak_branch",
    "box",
)
#: Seconds of a step that shows the rate of a processor: a larger step would have about the same.
_LONG = 0.5
#: An example that is judged takes a forward pass, a third of one that is learned from.
_JUDGED = 1 / 3
#: Operations a second of an H200 that trains WRN-28-4 in bfloat16: 36,830 images of 5.0e9 each.
#: It stands for a GPU where there is none.
_OPERATIONS = 36_830 * 5.0e9


@dataclass(frozen=True, kw_only=True)
class Images:
    """Size of a data set of images: `shape` is [C, H, W], `test` images are judged each epoch."""

    shape: tuple[int, ...]
    num_classes: int
    train: int
    test: int

    def made_up(self, count: int) -> "PublicData":
        """Return as many images of noise, without a test split."""
        import torch

        from labeldp.trainers.data.labelled_data import PublicData

        generator = np.random.default_rng(0)
        images = generator.integers(0, 256, (count, *self.shape), dtype=np.uint8)
        return PublicData(
            name="made-up images",
            num_classes=self.num_classes,
            train_features=torch.from_numpy(images),
            test_features=torch.from_numpy(images[:0]),
            test_labels=np.empty(0, dtype=np.int64),
        )


@dataclass(frozen=True, kw_only=True)
class Hours:
    """Hours of one device that a sweep takes.

    Attributes:
        lines: Hours by line; an ensemble of teachers counts for the first line that uses it.
        device: Where they were measured, or what they are stated for.
        measured: Whether rates were measured here, or counted for another device.
    """

    lines: Mapping[str, float]
    device: str
    measured: bool

    @property
    def total(self) -> float:
        """Of all lines together."""
        return math.fsum(self.lines.values())


def planned_hours(
    trials: Sequence[PlannedTrial], size: DataSize, *, on_gpu: bool | None = None
) -> Hours | None:
    """Return the hours of a sweep's trials; None if they are not known, or only minutes.

    Args:
        trials: Each standing for as many as it is priced for.
        size: Of the data; hours are known of images as they are.
        on_gpu: Measure on the GPU of this machine, or on its processor; None counts operations
            for a GPU that is not here.
    """
    data = trials[0].config.data
    if len(size.shape) != 3 or data.features is not FeatureSet.AS_THEY_ARE:
        return None
    images = Images(
        shape=size.shape,
        num_classes=size.num_classes,
        train=size.num_labels,
        test=size.num_test,
    )
    if _is_small(trials, examples=images.train):
        return None
    paid: set[EnsembleConfig] = set()
    lines: dict[str, float] = {}
    for trial in trials:
        ensembles = set(ensembles_of([trial])) - paid
        paid |= ensembles
        parts = [each.times(trial.stands_for) for each in trial.config.trainer.work(images.train)]
        parts += [each for ensemble in ensembles for each in ensemble.work(images.train)]
        performance = trial.config.performance
        seconds = [
            _seconds(each, images, performance, measured=on_gpu is not None) for each in parts
        ]
        lines[trial.variant] = lines.get(trial.variant, 0.0) + math.fsum(seconds) / 3600
    if on_gpu is None:
        return Hours(lines=lines, device="an H200, by counted operations", measured=False)
    return Hours(lines=lines, device=device_name(on_gpu=on_gpu), measured=True)


def has_gpu() -> bool:
    """Whether torch sees a GPU on this machine."""
    import torch  # more than a second, which plans without a GPU do without

    return torch.cuda.is_available()


def _is_small(trials: Sequence[PlannedTrial], *, examples: int) -> bool:
    """Whether all networks together learn from so little that minutes will do."""
    works = [
        *(trial.config.trainer.work(examples) for trial in trials),
        *(ensemble.work(examples) for ensemble in ensembles_of(trials)),
    ]
    parts = [part for work in works for part in work if part.network.model is not ModelName.MLP]
    return bool(sum(part.examples for part in parts) < _SMALL)


def device_name(*, on_gpu: bool) -> str:
    """Return the name of the GPU, or of the processor with its number of cores."""
    import torch

    if on_gpu:
        return torch.cuda.get_device_name()
    return f"{torch.get_num_threads()} threads of {_processor()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "a processor")


def _seconds(part: Work, images: Images, performance: Performance, *, measured: bool) -> float:
    network = part.network
    if measured:
        rate = _rate(network, images, performance)
    else:
        rate = _OPERATIONS / _operations(network.model, network.width, images)
    return (part.examples + _JUDGED * part.epochs * images.test) / rate


def _rate(
    network: LearnerConfig | FewLabelsConfig, images: Images, performance: Performance
) -> float:
    """Return examples a second, from the kept record of this device or measured now."""
    on_gpu = performance.torch_device().type == "cuda"
    facts = {name: getattr(network, name, None) for name in _SPEED}
    facts |= {"shape": images.shape, "classes": images.num_classes}
    key = json.dumps({**facts, **asdict(performance)}, sort_keys=True, default=str)
    file = state_folder() / "rates.json"
    device = device_name(on_gpu=on_gpu)
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = {}
    own = kept.setdefault(device, {})
    if key not in own:
        own[key] = _measured(network, images, performance)
        private_folder(file.parent)
        with replacing(file) as written:
            written.write(json.dumps(kept, indent=1).encode())
    return float(own[key])


def _measured(
    network: LearnerConfig | FewLabelsConfig, images: Images, performance: Performance
) -> float:
    """Return examples a second, in steps of full size; on a processor of a size that takes long."""
    if performance.torch_device().type == "cuda":
        return _rate_of_steps(network, images, performance, steps=_STEPS)[0]
    batch = 1
    while True:
        batch = min(4 * batch, network.batch_size)
        part = replace(network, batch_size=batch)
        rate, seconds = _rate_of_steps(part, images, performance, steps=1)
        if batch == network.batch_size or seconds > _LONG:
            return rate


def _rate_of_steps(
    network: LearnerConfig | FewLabelsConfig,
    images: Images,
    performance: Performance,
    *,
    steps: int,
) -> tuple[float, float]:
    """Return examples a second in epochs of so many steps, and seconds of an epoch."""
    if isinstance(network, LearnerConfig):
        network = replace(network, encoder=None)
        each = network.batch_size
    else:
        network = replace(network, steps_per_epoch=steps)
        each = network.examples_a_step
    trainer = _trainer(network, images.made_up(steps * network.batch_size), performance)
    trainer.epoch()  # chooses kernels, and records the step
    epochs = 0
    begun = time.perf_counter()
    while True:
        trainer.epoch()
        epochs += 1
        seconds = time.perf_counter() - begun
        if seconds > _SECONDS or (epochs == 1 and seconds > _LONG):
            return epochs * steps * each / seconds, seconds / epochs


def _trainer(
    network: LearnerConfig | FewLabelsConfig, data: "PublicData", performance: Performance
) -> "Training":
    from labeldp.trainers.methods.fixmatch import FixMatch
    from labeldp.trainers.methods.semi_supervised import SemiSupervised
    from labeldp.trainers.models.learner import OnLabels

    count = len(data.train_features)
    labels = np.arange(count) % data.num_classes
    if isinstance(network, LearnerConfig):
        return OnLabels(network, data=data, seed=0, performance=performance, labels=labels)
    given: dict[str, Any] = {"examples": np.arange(count), "labels": labels, "seed": 0}
    given |= {"data": data, "performance": performance}
    if isinstance(network, FixMatchConfig):
        return FixMatch(network, **given)
    assert isinstance(network, SemiSupervisedConfig)
    even = np.full((count, data.num_classes), 1 / data.num_classes)
    return SemiSupervised(network, posterior=even, **given)


@lru_cache(maxsize=32)
def _operations(model: ModelName | str, width: int | None, images: Images) -> float:
    """Return operations to learn from an image: three times those to judge it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from labeldp.trainers.models.predictors import NetworkSettings

    data = images.made_up(1)
    network = NetworkSettings.for_data(data, model=model, width=width).seeded(0).eval()
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        network(data.train_features.float())
    return 3 * counter.get_total_flops()
