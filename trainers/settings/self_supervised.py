"""Settings of self-supervised training (`self_supervised`): VICReg on distorted views.

The weights of the three parts of the loss are the published ones (Bardes, Ponce and LeCun, "VICReg:
Variance-Invariance-Covariance Regularization for Self-Supervised Learning", ICLR 2022); what is
done to images is customary for photographs of 32 x 32 pixels. No label was looked at to choose any
of it: the rate was chosen by the loss.
"""

from dataclasses import dataclass

from labeldp.mechanisms import _validate
from labeldp.trainers.settings.model_name import ModelName

_ENCODERS = (ModelName.FAST_CNN, ModelName.RESNET18, ModelName.WIDE_RESNET28, ModelName.SMALL_CNN)


@dataclass(frozen=True, kw_only=True)
class SelfSupervisedConfig:
    """How an encoder is trained without labels.

    Attributes:
        model: Which network of convolutions; its head is taken off.
        width: Its width, see `ModelName`; None takes the network's own.
        projection: Units of each of the two layers between encoder and loss, which are left out
            afterwards.
        epochs: Passes over the images; the rate falls to 0 over them all.
        batch_size: Images in a step, each in two views.
        learning_rate: Highest rate of SGD.
        momentum: In [0, 1), with Nesterov's look ahead.
        weight_decay: Pull of weights, but not of biases and normalization, to 0.
        warmup: Fraction of the epochs in which the rate rises.
        invariance: Weight of how far apart two views of an image are.
        variance: Weight of how little the numbers vary among images.
        covariance: Weight of how much one number tells of another.
        smallest_area: Of the window that a view shows, as a share of the image.
        jitter: How far brightness, contrast and saturation are changed, and half as much of a
            quarter turn of the hue; 0 for not at all.
        grey: Share of the views without color.
        flip: Whether views may be mirrored: wrong for digits and letters.
    """

    model: ModelName = ModelName.FAST_CNN
    width: int | None = None
    projection: int = 1024
    epochs: int = 100
    batch_size: int = 512
    learning_rate: float = 0.03
    momentum: float = 0.9
    weight_decay: float = 1e-4
    warmup: float = 0.1
    invariance: float = 25.0
    variance: float = 25.0
    covariance: float = 1.0
    smallest_area: float = 0.25
    jitter: float = 0.4
    grey: float = 0.2
    flip: bool = True

    def __post_init__(self) -> None:
        """Check every field."""
        _validate.members(self)
        if self.model not in _ENCODERS:
            raise ValueError(
                f"model is {self.model}; views are of images, which {', '.join(_ENCODERS)} look at"
            )
        if self.width is not None:
            _validate.whole(minimum=1, width=self.width)
        _validate.whole(minimum=1, epochs=self.epochs, projection=self.projection)
        # Variance and covariance are of the images in a step.
        _validate.whole(minimum=2, batch_size=self.batch_size)
        _validate.positive(learning_rate=self.learning_rate, smallest_area=self.smallest_area)
        shares = ("momentum", "warmup", "jitter", "grey")
        weights = ("weight_decay", "invariance", "variance", "covariance")
        _validate.non_negative(**{name: getattr(self, name) for name in (*shares, *weights)})
        for name in ("momentum", "warmup"):
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be below 1")
        for name in ("smallest_area", "jitter", "grey"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 at most")
