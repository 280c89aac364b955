"""An encoder in training on images alone: epochs, and a state to go on from bit for bit.

There is no argument that a label could come in by.

>>> images = torch.randint(256, (32, 3, 8, 8), dtype=torch.uint8)
>>> config = SelfSupervisedConfig(width=2, projection=8, epochs=1, batch_size=16)
>>> training = Pretraining(config, images=images, seed=0)
>>> training.epoch().epoch, training.encoder()(images).shape
(1, torch.Size([32, 8]))
"""

import copy
import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labeldp.mechanisms import _validate
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.encoders.distortions import Distortions
from labeldp.trainers.encoders.image_encoder import ImageEncoder
from labeldp.trainers.encoders.vicreg import vicreg
from labeldp.trainers.models.evaluation import logits_of
from labeldp.trainers.models.learner import seeds_of
from labeldp.trainers.models.optimization import sgd
from labeldp.trainers.models.predictors import Pixels
from labeldp.trainers.models.schedules import Schedule, TrainingDiverged, batches, rate_factor
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.self_supervised import SelfSupervisedConfig

#: Images that are described at once when nothing is learned.
_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class PretrainingMetrics:
    """Figures of one epoch.

    Attributes:
        epoch: Counted from 1.
        loss: Mean over the steps.
        seconds: Wall time.
    """

    epoch: int
    loss: float
    seconds: float


class Pretraining:
    """An encoder, what follows it in training, and an optimizer."""

    def __init__(
        self,
        config: SelfSupervisedConfig,
        *,
        images: Tensor,
        seed: int,
        performance: Performance | None = None,
    ) -> None:
        """Set up the first step.

        Args:
            config: How to train.
            images: All that is learned from, uint8 [N, C, H, W].
            seed: Of initial weights, order and views.
            performance: Where and how fast; the defaults if not given.

        Raises:
            ValueError: No images, or one only.
        """
        _validate.whole(seed=seed)
        pixels = _pixels_of(images)
        self.config = config
        self.performance = Performance() if performance is None else performance
        self.performance.limit_threads()
        self.device = self.performance.torch_device()
        self.epoch_number = 0
        initial, order = seeds_of(seed)
        self._encoder = ImageEncoder(
            config.model,
            shape=tuple(images.shape[1:]),
            pixels=pixels,
            width=config.width,
            mirrored=config.flip,
            seed=initial,
        )
        self._encoder.fit_first(images)
        projector = _projector(self._encoder.dimensions, config.projection, initial)
        both = nn.ModuleDict({"encoder": self._encoder, "projector": projector})
        self._both = both.to(self.device).to(memory_format=self.performance.memory_format())
        whole = nn.Sequential(self._encoder.network, projector)
        self._forward = self.performance.compiled(whole)
        self._optimizer = sgd(
            self._both,
            learning_rate=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            decay_all=False,
        )
        self._images = images.to(self.device)
        self._generator = torch.Generator().manual_seed(order)
        self._distort = Distortions(
            smallest_area=config.smallest_area,
            jitter=config.jitter,
            grey=config.grey,
            flip=config.flip,
        )

    def epoch(self) -> PretrainingMetrics:
        """Train for one epoch.

        Raises:
            TrainingDiverged: The loss or a weight is not finite any more.
        """
        started = time.perf_counter()
        before = self.epoch_number
        self.epoch_number += 1
        self._both.train()
        total, steps = torch.zeros((), device=self.device), 0
        for order in batches(len(self._images), self.config.batch_size, self._generator):
            self._optimizer.learning_rate = self._rate(before, steps)
            rows = order.to(self.device, non_blocking=True)
            total += self._step(self._images[rows])
            steps += 1
        loss = float(total) / steps
        if not math.isfinite(loss):
            raise TrainingDiverged.at(
                epoch=self.epoch_number, learning_rate=self._optimizer.learning_rate
            )
        # The last step of all is followed by no loss that would show what it did.
        if not all(bool(each.isfinite().all()) for each in self._both.state_dict().values()):
            raise TrainingDiverged.at(
                epoch=self.epoch_number,
                learning_rate=self._optimizer.learning_rate,
                what="weights are",
            )
        return PretrainingMetrics(
            epoch=self.epoch_number, loss=loss, seconds=time.perf_counter() - started
        )

    def encoder(self) -> ImageEncoder:
        """Return the encoder as it is now, a copy on the CPU that does not learn."""
        encoder = copy.deepcopy(self._encoder).to("cpu")
        encoder.to(memory_format=torch.contiguous_format)
        return encoder.eval().requires_grad_(False)

    def describe(self, images: Tensor) -> Tensor:
        """Return what the encoder says of images now, single precision [N, D], on the CPU.

        Args:
            images: uint8 [N, C, H, W], on any device.
        """
        return described(self._encoder, images, performance=self.performance)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs."""
        return copy.deepcopy(
            {
                "epoch": self.epoch_number,
                "networks": self._both.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "generator": self._generator.get_state(),
            }
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken, with the same settings, images and seed."""
        state = copy.deepcopy(dict(state))
        self._both.load_state_dict(state["networks"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._generator.set_state(state["generator"].cpu())
        self.epoch_number = int(state["epoch"])

    def _step(self, images: Tensor) -> Tensor:
        config = self.config
        # One view after the other: each has batch statistics of its own.
        first, second = (
            logits_of(
                self._forward,
                self._encoder.normalized(self._distort(images, self._generator)),
                self.performance,
            )
            for _ in range(2)
        )
        loss = vicreg(
            first,
            second,
            invariance=config.invariance,
            variance=config.variance,
            covariance=config.covariance,
        )
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        self._optimizer.step()
        return loss.detach()

    def _rate(self, epoch: int, step: int) -> float:
        """Learning rate of a step of an epoch, both counted from 0."""
        config = self.config
        done = epoch + step / max(1, len(self._images) // config.batch_size)
        factor = rate_factor(
            done, epochs=config.epochs, schedule=Schedule.COSINE, warmup=config.warmup
        )
        return config.learning_rate * factor


@torch.inference_mode()
def described(encoder: ImageEncoder, images: Tensor, *, performance: Performance) -> Tensor:
    """Return what an encoder says of images, single precision [N, D], on the CPU.

    Args:
        encoder: It goes to the device, and is left judging.
        images: uint8 [N, C, H, W], on any device.
        performance: Where, and in which precision.
    """
    device = performance.torch_device()
    encoder.to(device).eval()
    blocks = []
    for part in torch.split(images, _AT_ONCE):
        with performance.autocast():
            blocks.append(encoder(part.to(device)).float().cpu())
    # Out of the mode, for those who learn from it.
    return torch.cat(blocks).clone()


def _pixels_of(images: Tensor) -> Pixels:
    """Mean and deviation of the channels; refuses what is no images."""
    if images.ndim != 4 or images.dtype != torch.uint8 or len(images) < 2:
        raise ValueError(
            f"images are {images.dtype} of shape {tuple(images.shape)}; an encoder is trained on "
            "bytes [N, C, H, W], two images at least"
        )
    data = PublicData(
        name="images",
        num_classes=2,  # of labels that nobody has
        train_features=images,
        test_features=images[:0],
        test_labels=np.zeros(0, dtype=np.int64),
    )
    return Pixels(mean=data.mean, std=data.std)


def _projector(inputs: int, units: int, seed: int) -> nn.Module:
    """Two layers between encoder and loss; weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(
            OrderedDict(
                hidden=nn.Linear(inputs, units, bias=False),
                norm=nn.BatchNorm1d(units),
                activation=nn.ReLU(),
                out=nn.Linear(units, units, bias=False),
            )
        )
