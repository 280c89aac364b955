"""Networks by their names; `models` builds them."""

from enum import StrEnum


class ModelName(StrEnum):
    """Which network; `width` means something else in each.

    MLP: one hidden layer of `width` units (512). SMALL_CNN: two convolutions of `width` (16) and
    twice as many channels. FAST_CNN: `width` (64) channels in the first block and four times as
    many in the others; 32 is half of it. RESNET18: `width` (64) channels at first. WIDE_RESNET28:
    widening factor `width` (4; the papers take 8 on CIFAR-100). TWO_BRANCH: embeddings of `width`
    (16).
    """

    MLP = "mlp"
    SMALL_CNN = "small_cnn"
    FAST_CNN = "fast_cnn"
    RESNET18 = "resnet18"
    WIDE_RESNET28 = "wide_resnet28"
    TWO_BRANCH = "two_branch"

    @property
    def default_width(self) -> int:
        """The width that None stands for."""
        widths = {
            **{"mlp": 512, "small_cnn": 16, "fast_cnn": 64},
            **{"resnet18": 64, "wide_resnet28": 4, "two_branch": 16},
        }
        return widths[self.value]

    @property
    def needs_images(self) -> bool:
        """Whether the network convolves, and cannot take tabular features [B, D]."""
        return self not in (ModelName.MLP, ModelName.TWO_BRANCH)
