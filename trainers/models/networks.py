"""The networks: MLP, CNNs small and fast, ResNet18, WRN-28-k, Inception; from explicit seeds.

ResNet18: He et al. 2016 (arXiv:1512.03385) with the 3x3 stem that CIFAR needs; V2, which LP-MST was
published with, activates before it convolves (arXiv:1603.05027). WRN-28-k: Zagoruyko and Komodakis
2016 (arXiv:1605.07146) as ALIBI and PATE-FM were published with it. `Inception` is the small one of
Zhang et al. 2017 (arXiv:1611.03530), for images of 28 x 28 pixels. `FastCnn` learns
small photographs in minutes: a frozen first layer that whitens patches, convolutions that start as
the identity, max-pooling before normalization, logits scaled down (Jordan, "94% on CIFAR-10 in 3.29
seconds on a single GPU", arXiv:2404.00498). Its first layer is fitted to training images without
labels, which costs no privacy. `TwoBranch` is NeuMF (He et al., "Neural Collaborative Filtering",
WWW 2017): a product of the embeddings of user and movie, beside an MLP on embeddings of its own.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.trainers.base import ModelName

#: Below this height or width the small CNN keeps every pixel in its first layer.
_SMALLEST_STRIDED = 16


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make the weights of networks built within depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def settled(vectors: Tensor) -> Tensor:
    """Return eigenvectors in columns with signs that are the same on every machine."""
    return vectors * vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()


def build_model(
    name: ModelName,
    *,
    input_shape: tuple[int, ...],
    num_classes: int,
    seed: int,
    width: int | None = None,
    dropout: float = 0.0,
    cardinalities: tuple[int, ...] | None = None,
) -> nn.Module:
    """Build a network with weights that depend on `seed` alone; global random state stays as it is.

    Args:
        name: Architecture.
        input_shape: Shape of one example, (D,) or (C, H, W).
        num_classes: Number K of logits [B, K].
        seed: Seed of the weights.
        width: None for the network's own (`ModelName.default_width`).
        dropout: Share of the MLP's hidden units that each step leaves out.
        cardinalities: Those of `PublicData`, for features that are identifiers.
    """
    width = name.default_width if width is None else width
    if dropout and name is not ModelName.MLP:
        raise ValueError(f"dropout is {dropout} for {name}; it is for {ModelName.MLP} only")
    _check_features(name, input_shape, cardinalities)
    sizes = {"width": width, "num_classes": num_classes}
    with seeded(seed):
        match name:
            case ModelName.TWO_BRANCH:
                assert cardinalities is not None
                return TwoBranch(cardinalities=cardinalities, **sizes)
            case ModelName.MLP:
                left_out = Dropout(dropout, seed=seed) if dropout else None
                return _mlp(math.prod(input_shape), width, num_classes, left_out)
            case ModelName.SMALL_CNN:
                return _small_cnn(input_shape, width, num_classes)
            case ModelName.FAST_CNN:
                return FastCnn(input_shape=input_shape, **sizes)
            case ModelName.RESNET18:
                return _resnet18(channels=input_shape[0], **sizes)
            case ModelName.RESNET18_V2:
                return _resnet18_v2(channels=input_shape[0], **sizes)
            case ModelName.WIDE_RESNET28:
                return _wide_resnet28(channels=input_shape[0], **sizes)
            case ModelName.INCEPTION:
                return _inception(channels=input_shape[0], **sizes)


def _check_features(
    name: ModelName, input_shape: tuple[int, ...], cardinalities: tuple[int, ...] | None
) -> None:
    if name.needs_images and len(input_shape) != 3:
        raise ValueError(
            f"input_shape is {input_shape}, but {name} needs images (C, H, W); "
            f"{ModelName.MLP} takes any features"
        )
    if name is ModelName.FAST_CNN and min(input_shape[1:]) < _PATCH:
        raise ValueError(
            f"images have {input_shape[1]} x {input_shape[2]} pixels, but {name} looks at patches "
            f"of {_PATCH} x {_PATCH}; take {ModelName.MLP}"
        )
    if (name is ModelName.TWO_BRANCH) != (cardinalities is not None):
        kind = "numbers" if cardinalities is None else "identifiers"
        raise ValueError(
            f"model is {name}, but the features are {kind}; {ModelName.TWO_BRANCH} takes "
            "identifiers, and every other network takes numbers"
        )


class Dropout(nn.Module):
    """Dropout with random numbers of its own, so that training repeats and resumes to the bit.

    torch's own draws from global state, which nobody saves. The state is part of `state_dict`.
    """

    def __init__(self, share: float, *, seed: int) -> None:
        super().__init__()
        self.share = share
        # Of the CPU: one seed leaves out the same units on every device.
        self._generator = torch.Generator().manual_seed(seed)

    def forward(self, x: Tensor) -> Tensor:
        """Set a share of the entries to 0 and scale the others up; only while training."""
        if not self.training:
            return x
        kept = torch.rand(x.shape, generator=self._generator) >= self.share
        return x * kept.to(x.device) / (1 - self.share)

    def get_extra_state(self) -> Tensor:
        """Return the generator's state."""
        return self._generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from a state."""
        self._generator.set_state(state.cpu())


def _mlp(inputs: int, width: int, num_classes: int, dropout: Dropout | None) -> nn.Module:
    layers = OrderedDict[str, nn.Module](
        flatten=nn.Flatten(), hidden=nn.Linear(inputs, width), activation=nn.ReLU()
    )
    if dropout is not None:
        layers["dropout"] = dropout
    layers["head"] = nn.Linear(width, num_classes)
    return nn.Sequential(layers)


def _small_cnn(input_shape: tuple[int, ...], width: int, num_classes: int) -> nn.Module:
    """Two convolutions with GroupNorm, which treats every image alike at any batch size.

    Images of 16 pixels and more are halved by the first convolution already: all that follows then
    costs a quarter, on a CPU the difference between minutes and a night.
    """
    channels, height, breadth = input_shape
    stride = 2 if min(height, breadth) >= _SMALLEST_STRIDED else 1
    groups = math.gcd(width, 4)
    body = _named(
        conv1=nn.Conv2d(channels, width, 5, stride=stride, padding=2, bias=False),
        norm1=nn.GroupNorm(groups, width),
        relu1=nn.ReLU(inplace=True),
        conv2=nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
        norm2=nn.GroupNorm(groups, 2 * width),
        relu2=nn.ReLU(inplace=True),
        flatten=nn.Flatten(),
    )
    with torch.no_grad():
        features = body(torch.zeros(1, *input_shape)).shape[1]
    body.add_module("head", nn.Linear(features, num_classes))
    return body


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, ReLU after the sum."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = _conv3x3(outputs, outputs)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, H, W] to [B, outputs, H / stride, W / stride]."""
        out = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        out = self.norm2(self.conv2(out))
        return functional.relu(out + self.shortcut(x), inplace=True)


def _four_stages(block: Callable[[int, int, int], nn.Module], width: int) -> nn.Sequential:
    """Two blocks in each stage; from the second on, channels double and the resolution halves."""
    blocks = [block(width, width, 1), block(width, width, 1)]
    for outputs in (2 * width, 4 * width, 8 * width):
        blocks += [block(outputs // 2, outputs, 2), block(outputs, outputs, 1)]
    return nn.Sequential(*blocks)


class _MeanOfPlaces(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, H, W] to [B, C]."""
        return x.mean((2, 3))


def _named(**layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layers))


def _resnet18(*, channels: int, width: int, num_classes: int) -> nn.Module:
    """ResNet18 for small images: a 3x3 stem without pooling, then four stages of two blocks."""
    return _named(
        conv1=_conv3x3(channels, width),
        norm1=nn.BatchNorm2d(width),
        relu1=nn.ReLU(inplace=True),
        blocks=_four_stages(_BasicBlock, width),
        pool=_MeanOfPlaces(),
        head=nn.Linear(8 * width, num_classes),
    )


def _wide_norm(channels: int) -> nn.BatchNorm2d:
    # 1,000 steps pass until the running statistics have forgotten their start: meant for long
    # training and for averaged weights, useless after a few dozen steps.
    return nn.BatchNorm2d(channels, momentum=0.001)


#: Slope of the wide network's activation below 0.
_LEAK = 0.1


class _PreActivationBlock(nn.Module):
    """Norm and activation before each convolution; the shortcut is a 1x1 one if channels change."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int,
        *,
        first: bool = True,
        norm: Callable[[int], nn.Module] = nn.BatchNorm2d,
        slope: float = 0.0,
    ) -> None:
        super().__init__()
        self.slope = slope
        # Usually the branch sees the activated input and the sum the raw one. Where channels change
        # both see the same: the activated one at first, the raw one in groups 2 and 3.
        self.both = inputs != outputs
        self.raw = self.both and not first
        # A raw block never uses norm1. It has one because the published network does: counts of
        # parameters and stored weights keep their shape.
        self.norm1 = norm(inputs)
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.norm2 = norm(outputs)
        self.conv2 = _conv3x3(outputs, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, H, W] to [B, outputs, H / stride, W / stride]."""
        branch = x if self.raw else self._activated(self.norm1(x))
        skipped = branch if self.both else x
        out = self.conv2(self._activated(self.norm2(self.conv1(branch))))
        total: Tensor = out + self.shortcut(skipped)
        return total

    def _activated(self, x: Tensor) -> Tensor:
        return functional.leaky_relu(x, self.slope)


def _resnet18_v2(*, channels: int, width: int, num_classes: int) -> nn.Module:
    """ResNet18 with pre-activation: the last norm and activation follow the last block."""
    return _named(
        conv1=_conv3x3(channels, width),
        blocks=_four_stages(_PreActivationBlock, width),
        norm=nn.BatchNorm2d(8 * width),
        relu=nn.ReLU(inplace=True),
        pool=_MeanOfPlaces(),
        head=nn.Linear(8 * width, num_classes),
    )


def _wide_resnet28(*, channels: int, width: int, num_classes: int) -> nn.Module:
    """WRN-28-k as ALIBI and PATE-FM used it (their papers say Wide-ResNet18).

    Three groups of four blocks with 16k, 32k and 64k channels. In groups 2 and 3 the first block
    convolves its input as it comes, neither normalized nor activated.
    """
    conv1 = _conv3x3(channels, 16)
    blocks = []
    inputs = 16
    for group in range(3):
        outputs = 16 * width * 2**group
        for block in range(4):
            stride = 2 if group > 0 and block == 0 else 1
            first = group == 0
            blocks.append(
                _PreActivationBlock(
                    inputs, outputs, stride, first=first, norm=_wide_norm, slope=_LEAK
                )
            )
            inputs = outputs
    network = _named(
        conv1=conv1,
        blocks=nn.Sequential(*blocks),
        norm=_wide_norm(inputs),
        activation=nn.LeakyReLU(_LEAK),
        pool=_MeanOfPlaces(),
        head=(head := nn.Linear(inputs, num_classes)),
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="leaky_relu")
    nn.init.xavier_normal_(head.weight)
    nn.init.zeros_(head.bias)
    return network


def _conv_norm(inputs: int, outputs: int, side: int, stride: int = 1) -> nn.Module:
    """Convolution, normalization that shifts and does not scale, ReLU."""
    conv = nn.Conv2d(inputs, outputs, side, stride=stride, padding=side // 2, bias=False)
    return nn.Sequential(conv, _shifting_norm(outputs, momentum=0.1), nn.ReLU(inplace=True))


class _Branches(nn.Module):
    """Outputs of two branches side by side, along the channels."""

    def __init__(self, one: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.one = one
        self.other = other

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, H, W] to the channels of both branches."""
        return torch.cat((self.one(x), self.other(x)), dim=1)


#: Channels of the 1x1 and 3x3 convolutions of each block at `width` 96. A block without a 1x1 one
#: halves the resolution: its 3x3 convolution stands beside a max-pooling of its input.
_INCEPTION = (
    (32, 32),
    (32, 48),
    (0, 80),
    (112, 48),
    (96, 64),
    (80, 80),
    (48, 96),
    (0, 96),
    (176, 160),
    (176, 160),
)
_INCEPTION_WIDTH = 96


def _inception(*, channels: int, width: int, num_classes: int) -> nn.Module:
    """The small Inception of Zhang et al. 2017, Appendix A; `width` scales all channels.

    It has 1,649,402 weights that learn for three channels and ten classes, as published.
    """
    conv1 = _conv_norm(channels, width, 3)
    blocks: list[nn.Module] = []
    inputs = width
    for single, triple in _INCEPTION:
        ones, threes = (max(1, n * width // _INCEPTION_WIDTH) for n in (single, triple))
        if single:
            blocks.append(_Branches(_conv_norm(inputs, ones, 1), _conv_norm(inputs, threes, 3)))
            inputs = ones + threes
        else:
            halved = _conv_norm(inputs, threes, 3, stride=2)
            blocks.append(_Branches(halved, nn.MaxPool2d(3, stride=2, padding=1)))
            inputs += threes
    return _named(
        conv1=conv1,
        blocks=nn.Sequential(*blocks),
        pool=_MeanOfPlaces(),
        head=nn.Linear(inputs, num_classes),
    )


#: Side of the whitened patches; smaller images have none.
_PATCH = 2
#: Numbers of all patches that are in memory at once: those of 5,000 images of 32 x 32 pixels.
_AT_ONCE = 2**26
#: Added to the eigenvalues of the patches' covariance (pixels of variance 1): below it there is
#: more rounding than image.
_WHITENING = 1e-3
#: From this height and width on, a pooling leaves an odd last row and column out; smaller images
#: would have nothing left.
_SPARED = 16
#: The logits are divided by this: large features and a slow head, which a large rate needs.
_HEAD_SCALE = 9.0
#: Of a head that is fitted alone.
_HEAD_STEPS = 60
_HEAD_PENALTY = 5e-6
#: New statistics of normalization count so much: weights move fast, and old ones are soon wrong.
_NORM_MOMENTUM = 0.4


def smallest_view(side: int) -> int:
    """Return the side of the smallest crop of images of this side that FastCnn can look at."""
    return _PATCH if side < _SPARED else _PATCH - 1 + 2**3


class FastCnn(nn.Module):
    """Whitening, then three blocks of conv, max-pool, norm, GELU, conv, norm, GELU.

    Widths are `width`, 4 `width` and 4 `width`; the maximum over all places of the last block is
    what the head sees.
    """

    filters: Tensor

    def __init__(self, *, input_shape: tuple[int, ...], width: int, num_classes: int) -> None:
        super().__init__()
        channels = input_shape[0]
        every_row = min(input_shape[1:]) < _SPARED
        size = channels * _PATCH**2
        # As for pixels that have nothing to do with each other, until images say otherwise.
        self.register_buffer("filters", _both_signs(torch.eye(size), channels))
        self.blocks = _named(
            block1=_block(2 * size, width, every_row=every_row),
            block2=_block(width, 4 * width, every_row=every_row),
            block3=_block(4 * width, 4 * width, every_row=every_row),
        )
        self.head = nn.Linear(4 * width, num_classes, bias=False)

    @torch.no_grad()
    def fit_first(
        self, images: Tensor, normalized: Callable[[Tensor], Tensor] = Tensor.float
    ) -> None:
        """Whiten the patches of these images [N, C, H, W]; `normalized` ones have a variance of 1.

        Memory is bounded, whatever the size of the images.
        """
        parts = torch.split(images, max(1, _AT_ONCE // (images[0].numel() * _PATCH**2)))
        means: list[Tensor] = []
        within: list[Tensor] = []
        for part in parts:
            patches = functional.unfold(normalized(part), _PATCH).mT.flatten(0, 1).double()
            means.append(patches.mean(0))
            centered = patches.sub_(means[-1])
            within.append(centered.mT @ centered / len(centered))
        shares = means[0].new_tensor([len(part) / len(images) for part in parts])
        between = torch.cov(torch.stack(means, 1), correction=0, aweights=shares)
        covariance = torch.tensordot(shares, torch.stack(within), 1) + between
        values, vectors = torch.linalg.eigh(covariance)
        whitening = settled(vectors) / (values.clamp(min=0) + _WHITENING).sqrt()
        self.filters.copy_(_both_signs(whitening.mT.float(), images.shape[1]))

    def forward(self, x: Tensor) -> Tensor:
        """Map images [B, C, H, W] to logits [B, K]."""
        return self.logits(self.maps(x)[-1])

    def maps(self, x: Tensor) -> list[Tensor]:
        """Map images [B, C, H, W] to what each block finds [B, D, H', W']."""
        found = [functional.gelu(functional.conv2d(x, self.filters))]
        for block in self.blocks:
            found.append(block(found[-1]))
        return found[1:]

    def logits(self, last: Tensor) -> Tensor:
        """Map what the last block finds to logits [B, K]."""
        logits: Tensor = self.head(last.amax((2, 3))) / _HEAD_SCALE
        return logits

    def fit_head(self, inputs: Tensor, targets: Tensor) -> None:
        """Fit the head alone: from its inputs [N, D] to probabilities of the classes [N, K]."""
        scaled = inputs / inputs.std()
        weights = torch.zeros_like(self.head.weight, requires_grad=True)
        descent = torch.optim.LBFGS([weights], max_iter=_HEAD_STEPS, line_search_fn="strong_wolfe")

        def cost() -> Tensor:
            descent.zero_grad()
            loss = -(targets * (scaled @ weights.mT).log_softmax(1)).sum(1).mean()
            loss = loss + _HEAD_PENALTY * weights.square().sum()
            torch.autograd.backward(loss)
            return loss

        # torch has no types here.
        descent.step(cost)  # type: ignore[no-untyped-call]
        self.head.weight.data.copy_(_HEAD_SCALE * weights / inputs.std())

    def described(self, x: Tensor) -> tuple[Tensor, ...]:
        """Map images [B, C, H, W] to what the second block finds in each quarter, and the third.

        The last block alone knows little but the classes that it was taught.
        """
        _, second, third = self.maps(x)
        quarters = functional.adaptive_avg_pool2d(second.float(), 2).flatten(1)
        return quarters, third.float().amax((2, 3))


def _both_signs(rows: Tensor, channels: int) -> Tensor:
    """Return filters [2 D, C, patch, patch] of rows [D, D]: the activation keeps one sign each."""
    return torch.cat((rows, -rows)).view(-1, channels, _PATCH, _PATCH)


def _block(inputs: int, outputs: int, *, every_row: bool) -> nn.Module:
    return _named(
        conv1=_conv(inputs, outputs),
        pool=nn.MaxPool2d(2, ceil_mode=every_row),
        norm1=_shifting_norm(outputs, momentum=_NORM_MOMENTUM),
        activation1=nn.GELU(),
        conv2=_conv(outputs, outputs),
        norm2=_shifting_norm(outputs, momentum=_NORM_MOMENTUM),
        activation2=nn.GELU(),
    )


#: Up to so many pixels a gradient by shifted maps is faster than the library's.
_FEW_PIXELS = 16


class _ByShiftedMaps(torch.autograd.Function):
    """A 3x3 convolution whose weights get their gradient by a matrix product for each place.

    For maps of a few pixels on a processor with units for bf16 that takes a fifth of the time.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Convolve maps [B, C, H, W] with filters [D, C, 3, 3]."""
        ctx.save_for_backward(x, weight)
        return functional.conv2d(x, weight, padding=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of maps and filters."""
        x, weight = ctx.saved_tensors
        to_maps = functional.conv_transpose2d(gradients[0], weight, padding=1)
        source = x.permute(0, 2, 3, 1)
        target = gradients[0].permute(0, 2, 3, 1)
        products = [
            (target[:, _kept(-down), _kept(-right)].flatten(0, 2).mT)
            @ source[:, _kept(down), _kept(right)].flatten(0, 2)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
        ]
        return to_maps, torch.stack(products, dim=2).view(weight.shape)


def _kept(shift: int) -> slice:
    """Rows or columns that have a neighbor at this distance in the map that is moved against it."""
    return slice(max(shift, 0), shift if shift < 0 else None)


class _Conv3x3(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, H, W] to [B, D, H, W]."""
        on_cpu = x.device.type == "cpu"
        in_halves = torch.is_autocast_enabled("cpu") and self.weight.requires_grad
        if on_cpu and in_halves and x.shape[2] * x.shape[3] <= _FEW_PIXELS:
            kind = torch.get_autocast_dtype("cpu")
            convolved: Tensor = _ByShiftedMaps.apply(x.to(kind), self.weight.to(kind))
            return convolved
        return super().forward(x)


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    """A 3x3 convolution; as many of its filters as there are inputs hand one of them on at first.

    A picture then arrives at the head of an untrained network, if a blurred one.
    """
    conv = _Conv3x3(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight[: min(inputs, outputs)])
    return conv


def _shifting_norm(channels: int, *, momentum: float) -> nn.BatchNorm2d:
    """Normalization that shifts and does not scale: the next convolution can do that."""
    norm = nn.BatchNorm2d(channels, momentum=momentum)
    norm.weight.requires_grad_(False)
    return norm


#: Of the embeddings' first values: products of two entries must not be lost at once.
_INITIAL_STD = 0.1
#: A batch holds few ratings of any one user, and its mean gradient has little about each. Weights
#: that are a fifth of what they stand for get five times the gradient, and every change of theirs
#: counts five times: 25 times the learning rate of the layers above, which theirs would destroy.
_GAIN = 5.0


class TwoBranch(nn.Module):
    """The network; rows of identifiers [B, 2] in, logits [B, K] out.

    Place 0 of either column stands for users and movies that training did not see. Its embedding
    is 0, which is the mean of all others when training starts, and stays.
    """

    def __init__(self, *, cardinalities: tuple[int, ...], width: int, num_classes: int) -> None:
        """Draw the weights; `cardinalities` count users and movies, place 0 included."""
        super().__init__()
        if len(cardinalities) != 2:
            raise ValueError(
                f"two_branch got {len(cardinalities)} columns of identifiers; it takes two: the "
                "user and the rated item"
            )
        self.factors = nn.ModuleList(_embedding(count, width) for count in cardinalities)
        self.sides = nn.ModuleList(_embedding(count, width) for count in cardinalities)
        self.hidden = nn.Sequential(
            nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU()
        )
        self.head = nn.Linear(2 * width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map identifiers [B, 2] to logits [B, K]."""
        columns = x.unbind(1)
        user, movie = (_GAIN * table(ids) for table, ids in zip(self.factors, columns, strict=True))
        beside = [_GAIN * table(ids) for table, ids in zip(self.sides, columns, strict=True)]
        branches = (user * movie, self.hidden(torch.cat(beside, dim=1)))
        logits: Tensor = self.head(torch.cat(branches, dim=1))
        return logits


def _embedding(count: int, width: int) -> nn.Embedding:
    table = nn.Embedding(count, width, padding_idx=0)
    with torch.no_grad():
        table.weight[1:].normal_(std=_INITIAL_STD / _GAIN)
    return table
