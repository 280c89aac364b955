"""A network that learns small photographs in minutes: a frozen first layer, three wide blocks.

The ideas are those of a line of speed records on CIFAR-10, which ends with Jordan, "94% on CIFAR-10
in 3.29 seconds on a single GPU" (arXiv:2404.00498): a first layer that whitens small patches and
stays as it is, convolutions that start as the identity, max-pooling before normalization, and a
head whose logits are scaled down. How it is trained is in `recipe`.

The first layer is fitted to the training images and to no label: it costs no privacy. Its filters
are arrays of the network, kept with its weights.

>>> network = FastCnn(input_shape=(3, 32, 32), width=4, num_classes=10)
>>> network.fit_first(torch.rand(16, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
>>> network(torch.zeros(5, 3, 32, 32)).shape
torch.Size([5, 10])
"""

from abc import abstractmethod
from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

#: Side of the whitened patches.
_PATCH = 2
#: Added to the eigenvalues of the patches' covariance (pixels of variance 1): below it there is
#: more rounding than image.
_WHITENING = 1e-3
#: Smaller images have no patch.
SMALLEST_SIDE = _PATCH
#: From this height and width on, a pooling leaves an odd last row and column out; smaller images
#: would have nothing left.
_SPARED = 16
#: The logits are divided by this: large features and a slow head, which a large rate needs.
_HEAD_SCALE = 9.0
#: New statistics of normalization count so much: weights move fast, and old ones are soon wrong.
_NORM_MOMENTUM = 0.4


class FittedFirst(nn.Module):
    """A network with something to learn from features before it is trained, without labels."""

    @abstractmethod
    def fit_first(self, inputs: Tensor) -> None:
        """Learn it from inputs of the network [N, ...]; the same inputs give the same bits."""


class FastCnn(FittedFirst):
    """Whitening, then three blocks of conv, max-pool, norm, GELU, conv, norm, GELU.

    Widths are `width`, 4 `width` and 4 `width`; the maximum over all places of the last block is
    what the head sees. Normalization shifts and does not scale: the next convolution can do that.
    """

    filters: Tensor

    def __init__(self, *, input_shape: tuple[int, ...], width: int, num_classes: int) -> None:
        super().__init__()
        channels, every_row = input_shape[0], min(input_shape[1:]) < _SPARED
        size = channels * _PATCH**2
        # As for pixels that have nothing to do with each other, until images say otherwise.
        self.register_buffer("filters", _both_signs(torch.eye(size), channels))
        blocks, inputs = OrderedDict[str, nn.Module](), 2 * size
        for number, outputs in enumerate((width, 4 * width, 4 * width), start=1):
            blocks[f"block{number}"] = _block(inputs, outputs, every_row=every_row)
            inputs = outputs
        self.blocks = nn.Sequential(blocks)
        self.head = nn.Linear(inputs, num_classes, bias=False)

    @torch.no_grad()
    def fit_first(self, inputs: Tensor) -> None:
        """Whiten the patches of these images [N, C, H, W], whose pixels have a variance near 1."""
        channels = inputs.shape[1]
        patches = functional.unfold(inputs.float(), _PATCH).mT.flatten(0, 1).double()
        centered = patches - patches.mean(0)
        values, vectors = torch.linalg.eigh(centered.mT @ centered / len(centered))
        # The sign of an eigenvector is arbitrary, and differs between machines.
        vectors = vectors * vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()
        whitening = vectors / (values.clamp(min=0) + _WHITENING).sqrt()
        self.filters.copy_(_both_signs(whitening.mT.float(), channels))

    def forward(self, x: Tensor) -> Tensor:
        """Map images [B, C, H, W] to logits [B, K]."""
        logits: Tensor = self.head(self.features(x)) / _HEAD_SCALE
        return logits

    def features(self, x: Tensor) -> Tensor:
        """Map images [B, C, H, W] to what the head sees [B, 4 width]."""
        return _largest(self.blocks(self._whitened(x)))

    def described(self, x: Tensor) -> tuple[Tensor, ...]:
        """Map images [B, C, H, W] to what the second block finds in each quarter, and the third.

        The last block alone knows little but the classes that it was taught.
        """
        second = self.blocks[:2](self._whitened(x))
        third = self.blocks[2](second)
        quarters = functional.adaptive_avg_pool2d(second.float(), 2).flatten(1)
        return quarters, _largest(third.float())

    def _whitened(self, x: Tensor) -> Tensor:
        return functional.gelu(functional.conv2d(x, self.filters))


def _largest(found: Tensor) -> Tensor:
    """The maximum over all places, [B, C, H, W] to [B, C]."""
    if torch.compiler.is_compiling():
        # Going backward, `amax` looks for the values that equal its maximum. Compiled, these are
        # worked out anew and may differ from it in a rounding to half precision: none is found, and
        # it divides by zero. `max` keeps the place.
        return found.flatten(2).max(2).values
    return found.amax((2, 3))


def _both_signs(rows: Tensor, channels: int) -> Tensor:
    """Return filters [2 D, C, patch, patch] of rows [D, D]: the activation keeps one sign each."""
    return torch.cat((rows, -rows)).view(-1, channels, _PATCH, _PATCH)


def _block(inputs: int, outputs: int, *, every_row: bool) -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv1=_conv(inputs, outputs),
            pool=nn.MaxPool2d(2, ceil_mode=every_row),
            norm1=_norm(outputs),
            activation1=nn.GELU(),
            conv2=_conv(outputs, outputs),
            norm2=_norm(outputs),
            activation2=nn.GELU(),
        )
    )


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    """A 3x3 convolution; as many of its filters as there are inputs hand one of them on at first.

    A picture then arrives at the head of an untrained network, if a blurred one.
    """
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight[: min(inputs, outputs)])
    return conv


def _norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels, momentum=_NORM_MOMENTUM)
    norm.weight.requires_grad_(False)
    return norm
