"""A step of FixMatch, against Pillow's views, torch's optimizer and an average by hand."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.fixmatch import FixMatch, ImageViews, ShuffledStream
from labeldp.trainers.methods.rand_augment import RandAugment
from labeldp.trainers.models.learner import CropAndFlip
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.training import FixMatchConfig
from tests.benchmarks.benchmark import Work, benchmark
from tests.benchmarks.hot_paths.views import PillowViews, photographs_of
from tests.trainers.pillow_reference import sample_tiles

_LABELED = 64
_CONFIG = FixMatchConfig(
    model=ModelName.SMALL_CNN, batch_size=_LABELED, epochs=1000, steps_per_epoch=1, threshold=0.2
)
_UNLABELED = _LABELED * _CONFIG.unlabeled_ratio


class PlainStep:
    """FixMatch's step as its paper says it, on a network of its own."""

    def __init__(self, weights: dict[str, Any]) -> None:
        """Begin with these weights."""
        network = build_model(ModelName.SMALL_CNN, input_shape=(3, 32, 32), num_classes=10, seed=0)
        network.load_state_dict(weights)
        self.network: nn.Module = network
        self.average = copy.deepcopy(network)
        pulled = [p for p in network.parameters() if p.ndim > 1]
        others = [p for p in network.parameters() if p.ndim <= 1]
        self._optimizer = torch.optim.SGD(
            [
                {"params": pulled, "weight_decay": _CONFIG.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=_CONFIG.learning_rate,
            momentum=_CONFIG.momentum,
            nesterov=True,
        )

    def __call__(self, labeled: Tensor, labels: Tensor, weak: Tensor, strong: Tensor) -> None:
        """Learn from views of labeled and unlabeled photographs, float32 [B, 3, 32, 32]."""
        self.network.train()
        logits = self.network(torch.cat((labeled, weak, strong)))
        known, sure, unsure = logits.split([len(labeled), len(weak), len(strong)])
        probability, guesses = sure.detach().softmax(1).max(1)
        apart = functional.cross_entropy(unsure, guesses, reduction="none")
        guessed = (apart * (probability >= _CONFIG.threshold)).mean()
        self._optimizer.zero_grad()
        (functional.cross_entropy(known, labels) + guessed).backward()
        self._optimizer.step()
        with torch.no_grad():
            both = zip(self.average.parameters(), self.network.parameters(), strict=True)
            for average, weight in both:
                average.mul_(_CONFIG.average_decay).add_(weight, alpha=1 - _CONFIG.average_decay)


@benchmark(
    "fixmatch-step",
    "step of FixMatch: 64 photographs with labels, 448 without, small CNN",
    "Pillow's views, torch's SGD, an average by hand",
    mark=1.6,
)
def _step(scratch: Path) -> Work:
    images = sample_tiles(count=_UNLABELED)
    data = PublicData(
        name="photographs",
        num_classes=10,
        train_features=images,
        test_features=images[:0].clone(),
        test_labels=np.zeros(0, dtype=np.int64),
    )
    labels = np.random.default_rng(0).integers(0, 10, _LABELED)

    def begun() -> FixMatch:
        return FixMatch(
            _CONFIG,
            data=data,
            indices=np.arange(_LABELED),
            labels=labels,
            seed=0,
            performance=Performance(device=Device.CPU),
        )

    ours = begun()
    views, classes = PillowViews(mean=data.mean, std=data.std), torch.from_numpy(labels)
    plain = PlainStep(ours.state_dict()["network"])
    photographs = photographs_of(images)

    def reference() -> None:
        weak, strong = views.weak(photographs), views.strong(photographs)
        plain(views.weak(photographs[:_LABELED]), classes, weak, strong)

    def check() -> None:
        """Fed with the views that the library draws, it ends at the library's weights.

        Of a first step, before either has any momentum.
        """
        first = begun()
        before = first.state_dict()
        same = PlainStep(before["network"])
        labeled, weak, strong, chosen = _drawn(before, data)
        same(labeled, classes[chosen], weak, strong)
        first.epoch()
        for name, weights in first.state_dict()["network"].items():
            assert not torch.equal(weights, before["network"][name]), name
            torch.testing.assert_close(
                same.network.state_dict()[name], weights, rtol=1e-3, atol=1e-5
            )

    return Work(ours=ours.epoch, reference=reference, check=check)


def _drawn(state: dict[str, Any], data: PublicData) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The views that a step from this state sees, and which of the labeled examples are first."""
    generator = torch.Generator()
    generator.set_state(state["generator"])
    streams = {
        "labeled": ShuffledStream(_LABELED, seed=0),
        "unlabeled": ShuffledStream(len(data.train_features), seed=0),
    }
    for name, stream in streams.items():
        stream.load_state_dict(state[name])
    chosen = streams["labeled"].take(_LABELED)
    others = data.train_features[streams["unlabeled"].take(_UNLABELED)]
    views = ImageViews(
        mean=torch.tensor(data.mean),
        std=torch.tensor(data.std),
        crop=CropAndFlip(),
        augment=RandAugment(),
    )
    labeled = views.weak(data.train_features[:_LABELED][chosen], generator)
    weak = views.weak(others, generator)
    return labeled, weak, views.strong(others, generator), chosen
