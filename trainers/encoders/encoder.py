"""An encoder: which network, with which weights, on what pixels, and what its vectors are.

| address | is |
|---|---|
| `torchvision:NAME` | a classifier of torchvision's, less its last layer |
| `timm:NAME` | a model of timm's, less its classifier |
| `huggingface:NAME` or `huggingface:FOLDER` | a vision model of transformers |
| `pretrained:NAME` | the fast network, trained here on a data set with public labels |
| `module:function` | the user's own (`own_encoder`) |

>>> EncoderRequest(address="torchvision:resnet18").library
'torchvision'
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labeldp.mechanisms import _validate
from labeldp.trainers.encoders.known_weights import known
from labeldp.trainers.encoders.pooling import Pool, vectors_of
from labeldp.trainers.encoders.preparation import Preparation
from labeldp.trainers.encoders.provenance import UNSAID, FeatureProvenance, League
from labeldp.trainers.performance import Device, Performance

if TYPE_CHECKING:  # it looks at the data sets, which know encoders
    from labeldp.trainers.encoders.image_sources import ImageSource

#: What stands for weights that nobody trained.
RANDOM = "random"
_FILES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_NOTHING = "nothing: random weights"


class WeightsKind(StrEnum):
    """Weights that are the LIBRARY's own, of a FILE, or RANDOM."""

    LIBRARY = "library"
    FILE = "file"
    RANDOM = "random"


@dataclass(frozen=True, kw_only=True)
class EncoderRequest:
    """Which encoder is wanted.

    Attributes:
        address: See the module's first lines.
        weights: A file of weights, `random`, or one of the library's names for them; the library's
            own choice if not given.
        image_size: Side of the square that images become; the encoder's own if not given.
        pool: What becomes of sequences.
        seed: Of random weights, and of what is trained here.
        trained_on: What the weights were trained on, as the user says; for well-known ones it is
            known.
        trained_by: By whom.
        no_outside_data: Whether the user says that they have seen nothing but these images, and
            none of their secret labels.
        public_labels: Whether the user says that the labels are nobody's secret which an encoder is
            trained on here.
        device: Where it runs.
    """

    address: str
    weights: str | None = None
    image_size: int | None = None
    pool: Pool | None = None
    seed: int = 0
    trained_on: str = ""
    trained_by: str = ""
    no_outside_data: bool = False
    public_labels: bool = False
    device: Device = Device.AUTO

    def __post_init__(self) -> None:
        """Check every field."""
        library, _, name = self.address.partition(":")
        if not library or not name:
            raise ValueError(
                f"encoder is {self.address!r}; it is named torchvision:NAME, timm:NAME, "
                "huggingface:NAME (or a folder), pretrained:NAME of a data set with public labels, "
                "or module:function for one of your own"
            )
        if self.public_labels and self.library != "pretrained":
            raise ValueError(
                f"public_labels is for pretrained:NAME, and the encoder is {self.address}, which "
                "is not trained here; say what its weights were trained on (--trained-on)"
            )
        if self.image_size is not None:
            _validate.whole(minimum=1, image_size=self.image_size)
        _validate.whole(seed=self.seed)
        # That what is said of it can be shown, before hours of work.
        FeatureProvenance(trained_on=self.trained_on, trained_by=self.trained_by)

    @property
    def library(self) -> str:
        """What stands before the colon."""
        return self.address.partition(":")[0]

    @property
    def name(self) -> str:
        """What stands behind it."""
        return self.address.partition(":")[2]

    @property
    def kind(self) -> WeightsKind:
        """What `weights` names."""
        if self.weights is None:
            return WeightsKind.LIBRARY
        if self.weights == RANDOM:
            return WeightsKind.RANDOM
        named = self.weights.lower().endswith(_FILES) or "/" in self.weights
        return WeightsKind.FILE if named or self.file.exists() else WeightsKind.LIBRARY

    @property
    def file(self) -> Path:
        """The file of weights, where it is one."""
        return Path(self.weights or "").expanduser()


def _nobody(said: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Surroundings:
    """What an encoder that is trained here has to know beside what is asked for.

    Attributes:
        images: That it is for, which it must not be trained on; None where they are not known.
        name: How the user names them; of a data set its name.
        root: Folder of the data sets; LABELDP_DATA if not given.
        told: How far it is, in words.
    """

    images: "ImageSource | None" = None
    name: str = ""
    root: Path | None = None
    told: Callable[[str], None] = _nobody


#: Where nothing is known.
_NOWHERE = Surroundings()


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """An encoder that is ready.

    Attributes:
        name: Its address, less the folders of a place on this machine.
        forward: Prepared batch [B, C, H, W] -> what it returns.
        preparation: What prepares images.
        weights: SHA-256 of them.
        provenance: What is said of its vectors.
        device: Where it runs.
        pool: What becomes of sequences.
    """

    name: str
    forward: Callable[[Tensor], Any]
    preparation: Preparation
    weights: str
    provenance: FeatureProvenance
    device: torch.device
    pool: Pool | None = None

    def __call__(self, images: Any) -> Tensor:
        """Return vectors [B, D] in single precision, on the CPU.

        Args:
            images: As `Preparation` takes them, on the CPU.

        Raises:
            ValueError: It fails, or returns no vectors; the message says why.
        """
        batch = self.preparation(images).to(self.device)
        try:
            with torch.inference_mode():
                output = self.forward(batch)
        except Exception as error:  # whatever a library's or the user's network raises
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ValueError(
                f"{self.name} fails on a batch of shape {tuple(batch.shape)} "
                f"({type(error).__name__}: {first[:200]}); if it wants another size of images, say "
                "--image-size N"
            ) from error
        vectors = vectors_of(output, pool=self.pool, encoder=self.name)
        if len(vectors) != len(batch):
            raise ValueError(
                f"{self.name} returns {len(vectors)} vectors for {len(batch)} images; it must be "
                "one each, in order"
            )
        return vectors.to("cpu", torch.float32)


def load_encoder(request: EncoderRequest, around: Surroundings = _NOWHERE) -> Encoder:
    """Return the encoder that is asked for, with its weights.

    Args:
        request: Which one.
        around: For one that is trained here.

    Raises:
        WeightsRefused: Weights that are not there, can't be downloaded, or do not fit.
        ValueError: There is no such encoder, its library is not installed, or it may not be trained
            on what it asks for.
    """
    # Here, since each loads the library that it is of.
    match request.library:
        case "torchvision":
            from labeldp.trainers.encoders.libraries import torchvision_encoder as load
        case "timm":
            from labeldp.trainers.encoders.libraries import timm_encoder as load
        case "huggingface":
            from labeldp.trainers.encoders.hugging_face import hugging_face_encoder as load
        case "pretrained":
            from labeldp.trainers.encoders.pretrained import pretrained_encoder

            return pretrained_encoder(request, around)
        case _:
            from labeldp.trainers.encoders.own_encoder import own_encoder as load
    return load(request)


def finished(
    request: EncoderRequest,
    forward: Callable[[Tensor], Any],
    *,
    name: str,
    preparation: Preparation,
    weights: str,
    known_as: str = "",
) -> Encoder:
    """Return an encoder, with what is known or said of its weights.

    Args:
        request: What was asked for.
        forward: As `Encoder` has it; a network is sent to its device.
        name: Of the encoder.
        preparation: Of images.
        weights: SHA-256.
        known_as: Under which name its own weights may be known.
    """
    device = Performance(device=request.device).torch_device()
    if isinstance(forward, torch.nn.Module):
        forward = forward.to(device).eval().requires_grad_(False)
    training = known(known_as) if request.kind is WeightsKind.LIBRARY and known_as else None
    on, by = request.trained_on, request.trained_by
    untouched = request.kind is WeightsKind.RANDOM and not on
    if untouched:
        on, by = _NOTHING, by or "nobody"
    elif training is not None:
        on, by = on or training.trained_on, by or training.trained_by
    league = League.NONE if untouched or request.no_outside_data else League.PUBLIC_ENCODER
    provenance = FeatureProvenance(
        league=league,
        encoder=name,
        weights=weights,
        preparation=preparation.words,
        trained_on=on or UNSAID,
        trained_by=by or UNSAID,
    )
    return Encoder(
        name=name,
        forward=forward,
        preparation=preparation,
        weights=weights,
        provenance=provenance,
        device=device,
        pool=request.pool,
    )


def sized(preparation: Preparation, image_size: int | None) -> Preparation:
    """Return the same for images of another size, if one is asked for: the whole image, no crop."""
    if image_size is None:
        return preparation
    return replace(preparation, resize=image_size, crop=None, square=True)
