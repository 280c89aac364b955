"""FixMatch: a few labels, many examples without (Sohn et al. 2020, arXiv:2001.07685).

A confident prediction on a slightly changed example becomes the label of a greatly changed
one. PATE-FM (Malek et al. 2021, section 3) trains its teachers and its student like this: labels
are the private part, and everything that is learned from unlabeled examples costs nothing.

A weak view keeps what a person would need to name the class; a strong one makes it hard. For
images these are crops and flips, and on top of them `RandAugment`. For tables with standardized
columns: a little noise, and on top of more noise columns that are blanked, that is, set to their
mean.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from labeldp.trainers.data.labelled_data import PublicData, normalize
from labeldp.trainers.methods.rand_augment import RandAugment
from labeldp.trainers.models.learner import Classifying, CropAndFlip
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import (
    FewLabelsConfig,
    FixMatchConfig,
    VatConfig,
    WeakBranch,
)


def fixmatch_loss(
    *,
    logits_labeled: Tensor,
    labels: Tensor,
    logits_weak: Tensor,
    logits_strong: Tensor,
    threshold: float,
    temperature: float = 1.0,
    unlabeled_weight: float = 1.0,
) -> Tensor:
    """Return the loss of labels, and of strong views against what weak views are sure of.

    `logits_labeled` [B, K] go with `labels` int64 [B]; `logits_weak` and `logits_strong` [U, K] are
    of the same examples, and no gradient flows through the former.
    """
    labeled = functional.cross_entropy(logits_labeled, labels)
    probability, pseudo_labels = (logits_weak.detach() / temperature).softmax(1).max(1)
    confident = (probability >= threshold).float()
    distances = functional.cross_entropy(logits_strong, pseudo_labels, reduction="none")
    return labeled + unlabeled_weight * (distances * confident).mean()


def cosine_factor(step: int, *, steps: int) -> float:
    """Return the factor of the learning rate: cos(7 pi step / (16 steps)), 1 down to 0.195."""
    return math.cos(7 * math.pi * step / (16 * steps))


class ShuffledStream:
    """Positions 0..count-1, over and over."""

    def __init__(self, count: int, *, seed: int) -> None:
        """Start the first pass."""
        self._count = count
        self._generator = torch.Generator().manual_seed(seed)
        self._rest = torch.empty(0, dtype=torch.int64)

    def take(self, size: int) -> Tensor:
        """Return the next positions, int64 [size]."""
        parts, missing = [self._rest], size - len(self._rest)
        while missing > 0:
            parts.append(torch.randperm(self._count, generator=self._generator))
            missing -= self._count
        positions = torch.cat(parts)
        self._rest = positions[size:]
        return positions[:size]

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the stream's state, to continue from."""
        return {"generator": self._generator.get_state(), "rest": self._rest.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken."""
        self._generator.set_state(state["generator"].cpu())
        self._rest = state["rest"].cpu().clone()


class FewLabels(Classifying):
    """A network in training on some labels and all examples; a subclass has the loss of a step."""

    def __init__(
        self,
        config: FewLabelsConfig,
        *,
        data: PublicData,
        examples: NDArray[np.integer[Any]],
        labels: NDArray[np.integer[Any]],
        seed: int,
        performance: Performance | None = None,
    ) -> None:
        """Set up the first step."""
        performance = Performance() if performance is None else performance
        super().__init__(seed=seed, performance=performance)
        rows, classes = (torch.from_numpy(part.astype(np.int64)) for part in (examples, labels))
        self.config = config
        self._features = data.train_features.to(self.device)
        self._rows, self._labels = rows.to(self.device), classes.to(self.device)
        initial, *streams = np.random.SeedSequence(seed).generate_state(4).tolist()
        average = partial(moving_average, decay=config.average_decay)
        self._build(config, data, initial, average=average, decay_all=False)
        self._labeled = ShuffledStream(len(rows), seed=streams[0])
        self._unlabeled = ShuffledStream(len(self._features), seed=streams[1])
        self._generator = torch.Generator().manual_seed(streams[2])
        published_steps = max(1, len(self._features) // config.batch_size)
        self.steps_per_epoch = config.steps_per_epoch or published_steps

    @abstractmethod
    def _loss(self, step: int) -> Tensor:
        """Return the loss of a step, counted from 0 over all epochs."""

    def _losses(self) -> Iterator[Tensor]:
        first = (self.epoch_number - 1) * self.steps_per_epoch
        return map(self._loss, range(first, first + self.steps_per_epoch))

    def _mean_loss(self, total: Tensor, steps: int) -> float:
        return float(total / steps)

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), "labeled": self._labeled, "unlabeled": self._unlabeled}

    def _rate(self, step: int) -> float:
        steps = self.config.epochs * self.steps_per_epoch
        return self.config.learning_rate * cosine_factor(step, steps=steps)

    def _next(self, step: int) -> tuple[Tensor, Tensor]:
        """Set the rate of a step; return its places among the labels, and its examples without."""
        config = self.config
        self._optimizer.learning_rate = self._rate(step)
        chosen = self._take(self._labeled, config.batch_size)
        return chosen, self._take(self._unlabeled, config.batch_size * config.unlabeled_ratio)

    def _take(self, stream: ShuffledStream, size: int) -> Tensor:
        return stream.take(size).to(self.device, non_blocking=True)


class FixMatch(FewLabels):
    """A network that is trained on some labels and all examples, by views of these."""

    config: FixMatchConfig

    def __init__(self, config: FixMatchConfig, *, data: PublicData, **given: Any) -> None:
        """Set up the first step; `given` are as for `FewLabels`."""
        super().__init__(config, data=data, **given)
        self._views = _views(config, data, self.device)

    def _loss(self, step: int) -> Tensor:
        config, generator = self.config, self._generator
        chosen, others = self._next(step)
        unlabeled = self._features[others]
        labeled = self._views.weak(self._features[self._rows[chosen]], generator)
        weak = self._views.weak(unlabeled, generator)
        strong = self._views.strong(unlabeled, generator)
        if config.weak_branch is WeakBranch.JOINT:
            logits = self._logits(torch.cat((labeled, weak, strong)))
            logits_weak = logits[len(labeled) : -len(strong)]
        else:
            with torch.no_grad():
                logits_weak = self._logits(weak)
            logits = self._logits(torch.cat((labeled, strong)))
        return fixmatch_loss(
            logits_labeled=logits[: len(labeled)],
            labels=self._labels[chosen],
            logits_weak=logits_weak,
            logits_strong=logits[-len(strong) :],
            threshold=config.threshold,
            temperature=config.temperature,
            unlabeled_weight=config.unlabeled_weight,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageViews:
    """Views of uint8 images [B, C, H, W]; `pixels` are mean and deviation of each channel [C]."""

    pixels: tuple[Tensor, Tensor]
    crop: CropAndFlip
    augment: RandAugment

    def weak(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Cropped, perhaps mirrored, standardized."""
        return normalize(self.crop(examples, generator), *self.pixels)

    def strong(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Cropped, perhaps mirrored, RandAugment, a gray box, standardized."""
        return normalize(self.augment(self.crop(examples, generator), generator), *self.pixels)


@dataclass(frozen=True, kw_only=True)
class TableViews:
    """Views of standardized columns [B, D]; noise is in standard deviations of a column."""

    config: FixMatchConfig

    def weak(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """With a little noise."""
        noise = torch.randn(examples.shape, generator=generator, device=generator.device)
        return examples + self.config.weak_noise_std * noise.to(examples.device)

    def strong(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """With noise, and some entries blanked."""
        device = generator.device
        noise = torch.randn(examples.shape, generator=generator, device=device)
        drawn = torch.rand(examples.shape, generator=generator, device=device)
        kept = (drawn >= self.config.masked_share).to(examples.device)
        noisy = examples + self.config.strong_noise_std * noise.to(examples.device)
        return noisy * kept


def moving_average(network: nn.Module, decay: float) -> AveragedModel:
    """Return the exponential moving average of a network's parameters, which starts at them.

    `update_parameters` moves it on; statistics of batch normalization are copied as they are.
    """
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]
    # The first update would copy the network: let it be this one, at the initial weights.
    average.update_parameters(network)
    return average


def _views(
    config: FixMatchConfig, data: PublicData, device: torch.device
) -> ImageViews | TableViews:
    if data.pixels is None:
        return TableViews(config=config)
    side = min(data.train_features.shape[2:])
    return ImageViews(
        pixels=data.pixels.on(device),
        crop=CropAndFlip(padding=config.padding, flip=config.flip),
        augment=RandAugment(box=side // 2 if config.box is None else config.box),
    )


# Virtual adversarial training: predictions that hold still where they would change the most.
# Miyato, Maeda, Koyama and Ishii, "Virtual Adversarial Training", IEEE TPAMI 2018, with entropy
# minimization (Grandvalet and Bengio 2004): the student of the semi-supervised runs of PATE 2018.

#: Length of the step that the power iteration looks along, as a share of the radius.
_PROBE = 0.1


def adversarial_divergence(
    forward: Callable[[Tensor], Tensor],
    inputs: Tensor,
    logits: Tensor,
    *,
    radius: float,
    generator: torch.Generator,
) -> Tensor:
    """Return the mean KL divergence of predictions at the worst perturbation from those given.

    `logits` [B, K] are those of `inputs` [B, ...], and no gradient flows through them. `radius` is
    the root mean square of the perturbation's numbers.
    """
    expected = logits.detach().log_softmax(1)

    def moved(perturbation: Tensor) -> Tensor:
        found = forward(inputs + perturbation).log_softmax(1)
        return functional.kl_div(found, expected, reduction="batchmean", log_target=True)

    direction = torch.randn(inputs.shape, generator=generator).to(inputs.device)
    probe = _of_size(direction, _PROBE * radius).requires_grad_()
    (steepest,) = torch.autograd.grad(moved(probe), probe)
    return moved(_of_size(steepest, radius))


def entropy(logits: Tensor) -> Tensor:
    """Return the mean entropy of predictions [B, K], in nats."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


def _of_size(direction: Tensor, size: float) -> Tensor:
    """The same direction of each example, with numbers of this root mean square."""
    norms: Tensor = torch.linalg.vector_norm(direction.flatten(1), dim=1)
    # A gradient of 0, where the network is flat, stays 0.
    norms = norms.clamp_min(torch.finfo(norms.dtype).tiny).view(-1, *[1] * (direction.ndim - 1))
    return size * math.sqrt(direction[0].numel()) * direction / norms


class Vat(FewLabels):
    """A network that is trained on some labels and all examples, by perturbing these."""

    config: VatConfig

    def _loss(self, step: int) -> Tensor:
        config = self.config
        chosen, others = self._next(step)
        labeled = self._logits(self._inputs(self._features[self._rows[chosen]]))
        unlabeled = self._inputs(self._features[others])
        # By themselves, so that batch statistics are those of the perturbed.
        logits = self._logits(unlabeled)
        divergence = adversarial_divergence(
            self._logits, unlabeled, logits, radius=config.radius, generator=self._generator
        )
        free = config.unlabeled_weight * divergence + entropy(logits)
        return functional.cross_entropy(labeled, self._labels[chosen]) + free

    def _inputs(self, examples: Tensor) -> Tensor:
        pixels = self._predictor.pixels
        return examples if pixels is None else pixels.normalized(examples)
