"""One network in training on one device: batches, steps, evaluation, exact resume.

Trainers differ in their loss and share this. Data lies whole on the device; nothing is loaded
while training, and the device is not waited for until an epoch ends.
"""

import copy
import itertools
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import FeatureKind, PublicData, normalize
from labeldp.trainers.models.optimization import AdamW, Sgd, WeightAverage, batches
from labeldp.trainers.models.predictors import NetworkPredictor, NetworkSettings, logits_of
from labeldp.trainers.models.training_step import Recorder, TrainingStep, cuda_graph
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.trainer import Trainer
from labeldp.trainers.settings.training import (
    EpochMetrics,
    FewLabelsConfig,
    Flip,
    LearnerConfig,
    Schedule,
    TrainingDiverged,
    rate_factor,
)

if TYPE_CHECKING:
    from labeldp.trainers.encoders.image_encoder import ImageEncoder

#: How steps are recorded, by the type of the device.
RECORDERS = {"cuda": cuda_graph}

#: (logits [B, K] in single precision, places in the release [B]) -> loss.
BatchLoss = Callable[[Tensor, Tensor], Tensor]


def seeds_of(seed: int) -> tuple[int, int]:
    """Seeds of initial weights and of the order: two, so that other networks see equal batches."""
    initial, order = np.random.SeedSequence(seed).generate_state(2).tolist()
    return initial, order


@dataclass(frozen=True, kw_only=True)
class CropAndFlip:
    """Random crops and flips in batches on the device, each image with a draw of its own.

    The same law as padding by reflection, cutting out a window and mirroring half of the images,
    one at a time; here every pixel is fetched from its source, which needs no padded copy.
    """

    padding: int = 4
    flip: bool = True

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return an augmented copy of each image [B, C, H, W], of the same type."""
        return self.carry_out(images, self.draw(len(images), generator))

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw for `count` images: row and column of the window, and 1 to mirror; int64 [3, B]."""
        window = torch.randint(
            2 * self.padding + 1, (2, count), generator=generator, device=generator.device
        )
        mirror = torch.randint(2, (1, count), generator=generator, device=generator.device)
        return torch.cat((window, mirror if self.flip else torch.zeros_like(mirror)))

    def carry_out(self, images: Tensor, draws: Tensor) -> Tensor:
        """Return the images [B, C, H, W] after the draws [3, B]."""
        if images.ndim != 4 or min(images.shape[2:]) <= self.padding:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; they must be [B, C, H, W], with more "
                f"than padding = {self.padding} rows and columns to reflect"
            )
        height, width = images.shape[2:]
        top, left, mirror = draws.to(images.device, non_blocking=True).unsqueeze(2)
        rows = self._reflected(top, height)
        columns = self._reflected(left, width)
        columns = torch.where(mirror == 1, columns.flip(1), columns)
        source = (rows[:, :, None] * width + columns[:, None, :]).flatten(1).unsqueeze(1)
        pixels = images.flatten(2)
        return pixels.gather(2, source.expand_as(pixels)).view(images.shape)

    def _reflected(self, start: Tensor, length: int) -> Tensor:
        """Where each place of a window comes from [B, length]; borders are not repeated."""
        places = start - self.padding + torch.arange(length, device=start.device)
        return (length - 1) - (places.abs() - (length - 1)).abs()


def square(centers: Tensor, side: int, sides: torch.Size) -> Tensor:
    """Return where a square lies in each image of these sides, bool [B, 1, H, W].

    `centers` [2, B] are rows and columns anywhere in the image, so that a part may lie outside
    (DeVries and Taylor 2017, arXiv:1708.04552).
    """
    inside = []
    for center, length in zip(centers, sides, strict=True):
        first = center[:, None] - side // 2
        places = torch.arange(length, device=centers.device)
        inside.append((places >= first) & (places < first + side))
    hidden: Tensor = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return hidden


class Training(Trainer):
    """Epochs and exact resume of a network, whose steps a subclass takes."""

    network: nn.Module
    _optimizer: Sgd | AdamW
    _generator: torch.Generator
    _average: WeightAverage | None = None
    _step: TrainingStep | None = None
    _last_epoch = math.inf

    def __init__(self, *, performance: Performance) -> None:
        performance.limit_threads()
        self.performance = performance
        self.device = performance.torch_device()
        self.epoch_number = 0

    @abstractmethod
    def _batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Yield what each step of an epoch learns from, on the device; set its learning rate.

        The step is taken before the next batch is asked for.
        """

    @abstractmethod
    def _loss_of_batch(self, *batch: Tensor) -> Tensor:
        """Return the loss of a batch."""

    def _recorder(self) -> Recorder | None:
        """How steps are recorded; None, unless a subclass knows that its loss allows it."""
        return None

    def epoch(self) -> EpochMetrics:
        """Train for one epoch, and evaluate."""
        started = time.perf_counter()
        self.epoch_number += 1
        self.network.train()
        if self._step is None:
            self._step = TrainingStep(self._loss_of_batch, self._optimizer, record=self._recorder())
        total = torch.zeros((), device=self.device)
        steps = 0
        with self._own_draws():
            for batch in self._batches():
                total += self._step(*batch)
                steps += 1
                # On an accelerator to look is to wait: there the end of the epoch shows it.
                if self.device.type == "cpu" and not total.isfinite():
                    break
        mean = float(total) / steps
        if not math.isfinite(mean):
            raise self._diverged()
        if self.epoch_number == self._last_epoch:  # other networks may need the memory
            self._step = None
            torch.cuda.empty_cache()
        return EpochMetrics(
            epoch=self.epoch_number,
            loss=mean,
            val_accuracy=self.evaluate(),
            seconds=time.perf_counter() - started,
        )

    def _own_draws(self) -> AbstractContextManager[None]:
        """Seed what a user's own layers draw from; networks of ours draw nothing there."""
        return nullcontext()

    def _diverged(self, what: str = "the loss is") -> TrainingDiverged:
        rate = self._optimizer.learning_rate
        return TrainingDiverged.at(epoch=self.epoch_number, learning_rate=rate, what=what)

    def _parts(self) -> dict[str, Any]:
        parts = {"network": self.network, "optimizer": self._optimizer}
        return parts if self._average is None else {**parts, "average": self._average}

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs; no true label is in it."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        own = {"epoch": self.epoch_number, "generator": self._generator.get_state()}
        # A copy, since training goes on while the state is being sent.
        return copy.deepcopy({**own, **parts})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken; settings and data must be the same."""
        # Optimizers keep the tensors that they are given.
        state = copy.deepcopy(dict(state))
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self._generator.set_state(state["generator"].cpu())
        self.epoch_number = int(state["epoch"])


def train_together(trainers: Sequence[Trainer], *, epochs: int) -> None:
    """Train models from their first epoch on; TrainingDiverged when a loss is not finite.

    They are of one method, with as many labels each, so that batches of networks have one shape. On
    a GPU one recorded step is a step of all networks: its branches run side by side, so that small
    networks fill a card which each by itself would leave idle. Elsewhere, and where steps can't be
    recorded, models learn one after another, which gives the same ones.
    """
    trainings = [each for each in trainers if isinstance(each, Training)]
    record = trainings[0]._recorder() if len(trainings) > 1 else None
    if record is None:
        for trainer in trainers:
            for _ in range(epochs):
                trainer.epoch()
        return
    streams = [_stream(trainings[0].device) for _ in trainings]

    def loss(*batch: Tensor) -> Tensor:
        # The gradients of a sum of losses of different networks are those of each.
        branches = [stream for stream in streams if stream is not None]
        width = len(batch) // len(trainings)
        losses = []
        # All begin before the first is waited for: a later one would wait for it, too.
        for stream in branches:
            stream.wait_stream(torch.cuda.current_stream())
        for number, each in enumerate(trainings):
            with torch.cuda.stream(streams[number]):  # None changes nothing
                losses.append(each._loss_of_batch(*batch[number * width : (number + 1) * width]))
        for stream in branches:
            torch.cuda.current_stream().wait_stream(stream)
        return torch.stack(losses).sum()

    step = TrainingStep(loss, *(each._optimizer for each in trainings), record=record)
    for _ in range(epochs):
        for each in trainings:
            each.epoch_number += 1
            each.network.train()
        total = torch.zeros((), device=trainings[0].device)
        for parts in zip(*(each._batches() for each in trainings), strict=True):
            total += step(*itertools.chain.from_iterable(parts))
        if not total.isfinite():
            raise trainings[0]._diverged()
    del step
    torch.cuda.empty_cache()


def _stream(device: torch.device) -> torch.cuda.Stream | None:
    # torch has no types here.
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


class Classifying(Training):
    """Training of a network that predicts classes, or of the average of its weights."""

    def _build(
        self,
        config: LearnerConfig | FewLabelsConfig,
        data: PublicData,
        seed: int,
        *,
        average: Mapping[str, Any] | None,
        dropout: float = 0.0,
        mirrored: bool = False,
        **descent: Any,
    ) -> None:
        """Set up the network and its optimizer.

        `average` are settings of `WeightAverage`, or None, and `descent` further ones of `Sgd`.
        """
        self._data = data
        self._last_epoch = config.epochs
        self._dropout = dropout
        settings = NetworkSettings.for_data(data, model=config.model, width=config.width)
        network = settings.for_training(data, seed, dropout=dropout)
        found = starting_weights(config, data)
        if found is not None:
            network.load_state_dict(found.network.state_dict(), strict=False)  # but for the head
        self.network = network.to(self.device).to(memory_format=self.performance.memory_format())
        if average is not None:
            self._average = WeightAverage(self.network, **average)
        self._predictor = NetworkPredictor(
            network=self.network if self._average is None else self._average.module,
            settings=settings,
            pixels=data.pixels,
            performance=self.performance,
            mirrored=mirrored,
        )
        self._optimizer = Sgd(
            self.network,
            learning_rate=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            average=self._average,
            **descent,
        )

    @contextmanager
    def _own_draws(self) -> Iterator[None]:
        """Let layers of a user's own, such as dropout, draw as the seed and the epoch say.

        They draw from torch's generator, which no state holds, and which threads share.
        """
        if isinstance(self._predictor.settings.model, ModelName):
            yield
            return
        seed = self._generator.initial_seed() + self.epoch_number
        cards = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cards):
            torch.default_generator.manual_seed(seed)
            if cards:
                with torch.cuda.device(self.device):
                    torch.cuda.manual_seed(seed)
            yield

    def _logits(self, inputs: Tensor) -> Tensor:
        return logits_of(self.network, inputs, self.performance)

    def _recorder(self) -> Recorder | None:
        # Own networks may do anything; dropout draws on the processor.
        ours = isinstance(self._predictor.settings.model, ModelName) and not self._dropout
        return RECORDERS.get(self.device.type) if ours and self.performance.capture else None

    def predictor(self) -> NetworkPredictor:
        """Return the network apart from its training; it is the same one, not a copy."""
        return self._predictor

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""
        if not self._data.has_test_split:
            return math.nan
        return self._data.test_accuracy(self.predict(self._data.test_features).argmax(1))


class Learner(Classifying):
    """A network, its optimizer, its loss and the public data."""

    def __init__(
        self,
        config: LearnerConfig,
        *,
        data: PublicData,
        seed: int,
        performance: Performance,
        loss: BatchLoss,
        examples: NDArray[np.intp] | None = None,
    ) -> None:
        """Set up the first step; `examples` [M] have targets, in their order, or all (None)."""
        super().__init__(performance=performance)
        self.config = config
        self._loss_of = loss
        check_fit(config, data)
        features = data.train_features
        chosen = features if examples is None else features[torch.tensor(examples)]
        self._features = chosen.to(self.device)
        # On the device once: to send them there in every step would be to wait for it.
        self._pixels = None if data.pixels is None else data.pixels.on(self.device)
        initial, order = seeds_of(seed)
        recipe = config.recipe
        average = {"decay": recipe.average_decay, "young": True}
        self._build(
            config,
            data,
            initial,
            average=average if recipe.average_decay else None,
            dropout=config.dropout,
            mirrored=recipe.mirrored,
            nesterov=config.nesterov,
            bias_rate=recipe.bias_rate,
            decoupled=recipe.decoupled_decay,
        )
        self._generator = torch.Generator().manual_seed(order)
        flip = recipe.flip is Flip.RANDOM
        self._augmentation = CropAndFlip(padding=recipe.crop, flip=flip)
        # An alternating flip mirrors about half of the examples in the first epoch, by the seed
        # alone, the others in the second, and so on.
        own = torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(3)[2]))
        self._mirrored_first = (torch.rand(len(chosen), generator=own) < 0.5).to(self.device)
        self._nothing = torch.empty(0, device=self.device)

    def _batches(self) -> Iterator[tuple[Tensor, ...]]:
        # The generator of the processor draws all of it, so that a seed gives one order on every
        # device.
        order = batches(len(self._features), self.config.batch_size, self._generator)
        for step, places in enumerate(order):
            self._optimizer.learning_rate = self._rate(self.epoch_number - 1, step)
            rows = places.to(self.device, non_blocking=True)
            draws = self._draws(rows)
            yield rows, draws, self._mixup_shares()

    def _loss_of_batch(self, *batch: Tensor) -> Tensor:
        rows, draws, shares = batch
        inputs = self._inputs(rows, draws)
        if self.config.mixup:
            inputs = shares[0] * inputs + shares[1] * inputs.flip(0)
        logits = self._logits(inputs)
        # Losses refuse other logits. On an accelerator to look is to wait.
        if self.device.type == "cpu" and not logits.isfinite().all():
            raise self._diverged()
        loss = self._loss_of(logits, rows)
        if self.config.mixup:  # for cross-entropy the same as mixing the targets
            loss = shares[0] * loss + shares[1] * self._loss_of(logits, rows.flip(0))
        return loss

    def _rate(self, epoch: int, step: int) -> float:
        """Learning rate of a step of an epoch, both counted from 0."""
        config = self.config
        done = 0.0
        if config.schedule is Schedule.TRIANGLE:
            done = step / max(1, len(self._features) // config.batch_size)
        return config.learning_rate * rate_factor(
            epoch + done, epochs=config.epochs, schedule=config.schedule, warmup=config.warmup
        )

    def _mixup_shares(self) -> Tensor:
        """Shares of the batch in its own order and in the reverse one [2]; none without mixup."""
        alpha = self.config.mixup
        if not alpha:
            return self._nothing
        # Torch has no beta distribution with a generator. Its own state would not be in the kept
        # state.
        seed = torch.randint(2**62, (), generator=self._generator)
        share = float(np.random.default_rng(int(seed)).beta(alpha, alpha))
        shares = torch.tensor((share, 1 - share), dtype=torch.float32)
        return shares.to(self.device, non_blocking=True)

    def _draws(self, rows: Tensor) -> Tensor:
        """Draws of the augmentation for a batch on the device; none without it.

        Row and column of the window and whether to mirror [3, B]; with cutout its centers, too.
        """
        if not self.config.augment:
            return self._nothing
        draws = self._augmentation.draw(len(rows), self._generator)
        if self.config.recipe.cutout:
            sides = self._features.shape[2:]
            shape = (len(rows),)
            centers = [torch.randint(side, shape, generator=self._generator) for side in sides]
            draws = torch.cat((draws, torch.stack(centers)))
        draws = draws.to(self.device, non_blocking=True)
        if self.config.recipe.flip is Flip.ALTERNATING:
            draws[2] = self._mirrored_first[rows] ^ (self.epoch_number % 2 == 0)
        return draws

    def _inputs(self, rows: Tensor, draws: Tensor) -> Tensor:
        batch = self._features[rows]
        if self.config.augment:
            batch = self._augmentation.carry_out(batch, draws[:3])
        inputs = batch if self._pixels is None else normalize(batch, *self._pixels)
        if not self.config.recipe.cutout:
            return inputs
        # Hidden pixels are the mean of all, which normalization makes 0.
        hidden = square(draws[3:], self.config.recipe.cutout, batch.shape[2:])
        return inputs.masked_fill(hidden, 0.0)


class OnLabels(Learner):
    """A network that learns from labels as they are."""

    def __init__(
        self, config: LearnerConfig, *, labels: NDArray[np.integer[Any]], **given: Any
    ) -> None:
        """Set up the first step on labels [M] of the examples; `given` is as for `Learner`."""
        super().__init__(config, loss=self._loss, **given)
        self._labels = torch.from_numpy(labels).to(self.device)

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        smoothing = self.config.recipe.label_smoothing
        return functional.cross_entropy(logits, self._labels[rows], label_smoothing=smoothing)


def check_network(config: Any, data: PublicData) -> None:
    """Refuse a network that does not fit these data, or its encoder.

    They are `config.model`, `.width`, `.dropout` and `.encoder`.
    """
    network = NetworkSettings.for_data(data, model=config.model, width=config.width)
    network.seeded(0, dropout=config.dropout)
    _check_start(config, data)


def _check_start(config: Any, data: PublicData) -> None:
    if config.encoder is not None:
        from labeldp.trainers.encoders.image_encoder import check_start

        check_start(config.encoder, data, model=config.model, width=config.width)


def starting_weights(
    config: LearnerConfig | FewLabelsConfig, data: PublicData
) -> "ImageEncoder | None":
    """Return the encoder that a network starts from, which may be trained for it; None for none."""
    if config.encoder is None:
        return None
    _check_start(config, data)
    from labeldp.trainers.encoders.image_encoder import starting_encoder

    return starting_encoder(config.encoder, data)


def check_fit(config: LearnerConfig, data: PublicData) -> None:
    """Refuse views that data do not have."""
    mirrors = config.augment or config.recipe.mirrored
    if mirrors and data.kind is not FeatureKind.IMAGE:
        raise ValueError(
            f"augment is {config.augment} and recipe.mirrored {config.recipe.mirrored}, but "
            f"{data.name} holds no images: set both to False"
        )
    side = min(data.train_features.shape[2:], default=0)
    crop = config.recipe.crop
    if config.recipe.cutout and not config.augment:
        raise ValueError(
            f"recipe.cutout is {config.recipe.cutout}, but augment is False, and it is one of the "
            "augmentations: set augment=True (for digits with recipe.flip=none), or leave it out"
        )
    if config.recipe.cutout >= side > 0:
        raise ValueError(
            f"recipe.cutout is {config.recipe.cutout}, but images of {data.name} have {side} rows "
            "or columns: most of each would be hidden; take a quarter of them"
        )
    if config.augment and side <= crop:
        raise ValueError(
            f"recipe.crop is {crop}, but images of {data.name} have {side} rows or columns; take "
            "a smaller one, or augment=False"
        )
    # Of later stages, too: what they refuse would be refused after the first one was paid.
    for mixed in ("mixup", "later_mixup"):
        alpha = getattr(config, mixed, None)
        if alpha and data.kind is FeatureKind.IDENTIFIERS:
            raise ValueError(
                f"{mixed} is {alpha}, but {data.name} holds identifiers, and there is nothing "
                f"halfway between two names: set {mixed}=0"
            )
