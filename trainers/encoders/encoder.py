"""An encoder: a network and its weights, its images and their preparation, and its vectors.

A library is loaded when one of its encoders is requested. Weights come from a file, or from the
library's cache or its downloads, and are read without running code.

| address | encoder |
|---|---|
| `torchvision:NAME` | a classifier of torchvision without its last layer |
| `timm:NAME` | a model of timm without its classifier |
| `pretrained:NAME` | the fast network, trained here on a data set with public labels |
| `module:function` | the user's own |
"""

import hashlib
import importlib
import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from labeldp.mechanisms import _validate
from labeldp.trainers.base import near_miss
from labeldp.trainers.data.catalog import DATASETS, find
from labeldp.trainers.data.files import (
    DataFileError,
    FileRefused,
    data_root,
    first_line,
    open_regular,
)
from labeldp.trainers.data.own_files import npy_array, npz_arrays
from labeldp.trainers.data.splits import (
    UNSAID,
    FeatureProvenance,
    League,
    checked_images,
    digest_of_images,
    images_of,
)
from labeldp.trainers.models.networks import seeded
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.training import OwnModel, OwnModuleMissing, own_module

#: The name of weights that were not trained.
RANDOM = "random"
_FILES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_NOTHING = "nothing: random weights"

#: Means and deviations of ImageNet's channels, which most encoders were trained with.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class WeightsRefused(ValueError):
    """Weights that are missing or do not fit; the message names them and the fix."""


def digest_of(network: nn.Module) -> str:
    """Return the SHA-256 of a network's parameters and buffers by name."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        array = value.detach().to("cpu").contiguous()
        digest.update(f"{name} {array.dtype} {tuple(array.shape)};".encode())
        # As bytes, since NumPy has no name for some of torch's types.
        digest.update(array.reshape(-1).view(torch.uint8).numpy().data if array.numel() else b"")
    return digest.hexdigest()


def read_saved(file: Path) -> Any:
    """Return the tensors and plain values that `torch.save` wrote; runs no code in the file."""
    try:
        with open_regular(file) as opened:
            return torch.load(opened, map_location="cpu", weights_only=True)
    except (
        EOFError,
        KeyError,
        MemoryError,
        OSError,
        RuntimeError,
        ValueError,
        pickle.UnpicklingError,
    ) as error:
        raise WeightsRefused(
            f"weights {file} can't be read ({first_line(error)}); name a file of tensors and plain "
            "values, such as torch.save(network.state_dict(), FILE) or `labeldp self-supervise` "
            "writes"
        ) from error


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Size, crop and scale of images.

    The shorter side becomes `resize` (both with `square`), and the middle square of side `crop` is
    kept. `raw` images stay bytes.
    """

    resize: int | None = None
    crop: int | None = None
    square: bool = False
    interpolation: str = "bilinear"
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    raw: bool = False

    def __call__(self, images: Tensor | Sequence[Tensor]) -> Tensor:
        """Return a batch [B, C, H, W]: single precision with C = 3, or bytes if `raw`.

        Images are bytes [B, C, H, W] with 1 or 3 channels, or B of [C, H, W] of any sizes.
        """
        if isinstance(images, Tensor):
            return self._prepared(images)
        done = [self._prepared(image[None])[0] for image in images]
        return of_one_size(done, fix="bring them to one with --image-size N")

    @property
    def words(self) -> str:
        """All of it in a line."""
        sides = "both sides" if self.square else "shorter side"
        steps = [
            *([f"{sides} to {self.resize} ({self.interpolation})"] if self.resize else []),
            *([f"middle {self.crop}"] if self.crop else []),
        ]
        if not self.raw:
            numbers = (", ".join(f"{n:.4g}" for n in each) for each in (self.mean, self.std))
            steps.append("mean {}, std {}".format(*numbers))
        return "; ".join(steps) or "none"

    def _prepared(self, images: Tensor) -> Tensor:
        from torchvision.transforms.v2 import InterpolationMode, functional  # a second

        # On bytes and on the CPU, as the libraries do it: single precision gives other pixels.
        if self.resize is not None:
            size = [self.resize] * (2 if self.square else 1)
            images = functional.resize(images, size, InterpolationMode(self.interpolation))
        if self.crop is not None:
            images = functional.center_crop(images, [self.crop])
        if self.raw:
            return images
        pixels = images.expand(-1, 3, -1, -1).float() / 255
        prepared: Tensor = functional.normalize(pixels, list(self.mean), list(self.std))
        return prepared


def of_one_size(images: Sequence[Tensor], *, fix: str) -> Tensor:
    """Return B images of [C, H, W] as one batch; the error for several sizes ends in `fix`."""
    shapes = sorted({tuple(image.shape) for image in images})
    if len(shapes) > 1:
        raise ValueError(
            f"images have several sizes ({shapes[0]} and {shapes[1]} among them); {fix}"
        )
    return torch.stack(list(images))


@dataclass(frozen=True, kw_only=True)
class EncoderRequest:
    """The encoder that a user requests.

    With `no_outside_data` the user states that the weights have seen these images only, and none of
    their secret labels; with `public_labels` that the labels are public which it is trained on.
    """

    address: str
    weights: str | None = None
    image_size: int | None = None
    seed: int = 0
    trained_on: str = ""
    trained_by: str = ""
    no_outside_data: bool = False
    public_labels: bool = False
    device: Device = Device.AUTO

    def __post_init__(self) -> None:
        if not self.library or not self.name:
            raise ValueError(
                f"encoder is {self.address!r}; it is named torchvision:NAME, timm:NAME, "
                "pretrained:NAME of a data set with public labels, or module:function for one of "
                "your own"
            )
        if self.public_labels and self.library != "pretrained":
            raise ValueError(
                f"public_labels is for pretrained:NAME, and the encoder is {self.address}, which "
                "is not trained here; state what its weights were trained on (--trained-on)"
            )
        if self.image_size is not None:
            _validate.whole(minimum=1, image_size=self.image_size)
        _validate.whole(seed=self.seed)
        # Check that these texts can be shown, before hours of work.
        FeatureProvenance(trained_on=self.trained_on, trained_by=self.trained_by)

    @property
    def library(self) -> str:
        """The part before the colon."""
        return self.address.partition(":")[0]

    @property
    def name(self) -> str:
        """The part after the colon."""
        return self.address.partition(":")[2]

    @property
    def random(self) -> bool:
        """Whether the weights are random."""
        return self.weights == RANDOM

    @property
    def file(self) -> Path | None:
        """The file of weights; None for random ones and for the library's own."""
        if self.weights is None or self.random:
            return None
        place = Path(self.weights).expanduser()
        named = self.weights.lower().endswith(_FILES) or "/" in self.weights
        return place if named or place.exists() else None


#: Files of a folder that are taken for images.
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
#: Names of arrays of images in an `.npz`; of several, in this order.
_ARRAYS = (("train_features", "test_features"), ("features",), ("images",))


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSource:
    """Images in a fixed order: of a data set training images, then testing ones.

    They are `parts` in memory, uint8 [N, C, H, W] of one shape, or `files` by path.
    """

    parts: tuple[NDArray[np.uint8], ...] = ()
    files: tuple[Path, ...] = ()

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.files) or sum(map(len, self.parts))

    def digest(self) -> str:
        """Return the SHA-256 of all images, or of all files' contents, in order."""
        if not self.files:
            return digest_of_images(*self.parts)
        digest = hashlib.sha256(b"files")
        for file in self.files:
            with open_regular(file) as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        return digest.hexdigest()

    def batches(self, size: int) -> Iterator[Tensor | list[Tensor]]:
        """Return them some at a time: bytes [B, C, H, W], or of files B of [3, H, W]."""
        for start in range(0, len(self.files), size):
            yield [_read_image(file) for file in self.files[start : start + size]]
        for part in self.parts:
            for start in range(0, len(part), size):
                yield torch.tensor(part[start : start + size])


def image_source(named: str) -> ImageSource:
    """Return the images that a user names."""
    place = Path(named).expanduser()
    if place.is_dir():
        found = sorted(path for path in place.rglob("*") if path.suffix.lower() in ENDINGS)
        if files := tuple(path for path in found if path.is_file()):
            return ImageSource(files=files)
        raise DataFileError(f"{place} holds no image (no file in it ends in {', '.join(ENDINGS)})")
    if place.suffix.lower() in (".npy", ".npz"):
        return ImageSource(parts=_of_file(place))
    if named not in DATASETS and ("/" in named or place.suffix):
        raise DataFileError(
            f"{named} is not a folder, an .npz, an .npy or a data set; check where the images are"
        )
    if named == "own":
        raise ValueError("name the file of your images itself: labeldp embed IMAGES.npz")
    return ImageSource(parts=images_of(named, find(named).read(data_root())))


def _of_file(file: Path) -> tuple[NDArray[np.uint8], ...]:
    if not file.exists():
        raise DataFileError(f"{file.absolute()} is not there; check where the images are")
    if file.suffix.lower() == ".npy":
        return checked_images(file, npy_array(file))
    arrays = npz_arrays(file)
    for names in _ARRAYS:
        if set(names) <= set(arrays):
            return checked_images(file, *(arrays[name] for name in names))
    raise DataFileError(
        f"{file} holds {', '.join(arrays) or 'nothing'}; images are called features or images, or "
        "train_features and test_features"
    )


def _read_image(file: Path) -> Tensor:
    """An image as bytes [3, H, W]."""
    try:
        with open_regular(file) as opened, Image.open(opened) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, FileRefused, SyntaxError, ValueError) as error:
        raise DataFileError(
            f"{file} can't be read as an image ({str(error)[:200]}); repair it, or take it away"
        ) from error
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """An encoder that is ready; `forward` takes a prepared batch [B, C, H, W]."""

    forward: Callable[[Tensor], Any]
    preparation: Preparation
    provenance: FeatureProvenance
    device: torch.device

    def __call__(self, images: Any) -> Tensor:
        """Return vectors [B, D] in single precision, on the CPU, of images on the CPU."""
        name = self.provenance.encoder
        batch = self.preparation(images).to(self.device)
        try:
            with torch.inference_mode():
                output = self.forward(batch)
        except Exception as error:  # whatever a library's or the user's network raises
            raise ValueError(
                f"{name} fails on a batch of shape {tuple(batch.shape)} "
                f"({type(error).__name__}: {first_line(error)}); if it takes images "
                "of another size, set --image-size N"
            ) from error
        if not isinstance(output, Tensor):
            raise ValueError(f"{name} returns a {type(output).__name__}; it must return a tensor")
        if output.ndim == 4 and output.shape[2:] == (1, 1):
            output = output.flatten(1)
        if output.ndim != 2 or not output.shape[1] or not output.is_floating_point():
            raise ValueError(
                f"{name} returns {output.dtype} of shape {tuple(output.shape)}, not vectors "
                "[B, D]; write a function of your own that takes the first or the mean (--encoder "
                "module:function)"
            )
        if len(output) != len(batch):
            raise ValueError(
                f"{name} returns {len(output)} vectors for {len(batch)} images; it must be "
                "one each, in order"
            )
        return output.to("cpu", torch.float32)


def finished(
    request: EncoderRequest,
    forward: Callable[[Tensor], Any],
    *,
    preparation: Preparation,
    weights: str = "",
) -> Encoder:
    """Return an encoder, with what is stated of its weights.

    A network in `forward` is sent to its device, and its `weights` (a SHA-256) are found by
    themselves.
    """
    device = Performance(device=request.device).torch_device()
    if isinstance(forward, nn.Module):
        weights = weights or digest_of(forward)
        forward = forward.to(device).eval().requires_grad_(False)
    on = request.trained_on
    by = request.trained_by
    untouched = request.random and not on
    if untouched:
        on = _NOTHING
        by = by or "nobody"
    league = League.NONE if untouched or request.no_outside_data else League.PUBLIC_ENCODER
    if request.image_size is not None:
        preparation = replace(preparation, resize=request.image_size, crop=None, square=True)
    provenance = FeatureProvenance(
        league=league,
        encoder=request.address,
        weights=weights,
        preparation=preparation.words,
        trained_on=on or UNSAID,
        trained_by=by or UNSAID,
    )
    return Encoder(forward=forward, preparation=preparation, provenance=provenance, device=device)


# ------------------------------------------------------------------------------------ weights


def read_weights(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a `.safetensors`, or of a file that `torch.save` wrote, by name."""
    if file.suffix == ".safetensors":
        # A machine without safetensors can train an encoder all the same.
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            with open_regular(file) as opened:
                return dict(load(opened.read()))
        except (OSError, SafetensorError, ValueError) as error:
            raise WeightsRefused(
                f"weights {file} can't be read ({first_line(error)}); check --weights"
            ) from error
    found = read_saved(file)
    if not isinstance(found, Mapping) or not all(
        isinstance(each, Tensor) for each in found.values()
    ):
        raise WeightsRefused(
            f"weights {file} hold more than tensors by name; save network.state_dict() alone"
        )
    return dict(found)


def put_in(
    network: nn.Module, weights: Mapping[str, Tensor], *, what: str, without: str | None
) -> None:
    """Give a network these weights, except for its head `without`, or refuse them."""
    head = "\0" if without is None else f"{without}."
    try:
        network.load_state_dict({k: v for k, v in weights.items() if not k.startswith(head)})
    except RuntimeError as error:
        raise WeightsRefused(
            f"{what} do not fit ({' '.join(str(error).split())[:300]}); name the encoder that they "
            "were trained as, or the file of this one's"
        ) from error


def without_head(network: nn.Module) -> str:
    """Take the last linear layer, which names classes, off a network; return its name."""
    layers = [name for name, part in network.named_modules() if isinstance(part, nn.Linear)]
    if not layers:
        raise WeightsRefused(
            f"a {type(network).__name__} ends in no linear layer, so that the place of its "
            "vectors is unknown; write a function of your own that returns them (--encoder "
            "module:function)"
        )
    parent, _, name = layers[-1].rpartition(".")
    setattr(network.get_submodule(parent), name, nn.Identity())
    return str(layers[-1])


def _put_file_in(network: nn.Module, request: EncoderRequest, *, without: str | None) -> None:
    if request.file is not None:
        what = f"weights {request.file} for {request.address}"
        put_in(network, read_weights(request.file), what=what, without=without)


def _from_library(request: EncoderRequest, *, named: str = "") -> bool:
    """Whether the library's own weights are requested; other names of them are refused."""
    if request.random or request.file is not None:
        return False
    if request.weights is not None:
        raise WeightsRefused(f"--weights is {request.weights}, which is not a file{named}")
    return True


def _known_name(request: EncoderRequest, names: Iterable[str]) -> None:
    known = list(names)
    if request.name not in known and request.name.partition(".")[0] not in known:
        hint = near_miss(request.address, [f"{request.library}:{name}" for name in known])
        raise ValueError(f"{request.library} has no model {request.name!r}; {hint}")


# -------------------------------------------------------------------------------- torchvision


def torchvision_encoder(request: EncoderRequest) -> Encoder:
    """Return a classifier of torchvision without its last layer."""
    models = importlib.import_module("torchvision.models")
    _known_name(request, models.list_models(module=models))
    published = models.get_model_weights(request.name)
    names = [each.name for each in published]
    member = published[request.weights] if request.weights in names else published.DEFAULT
    with seeded(request.seed):
        network = models.get_model(request.name, weights=None)
    head = without_head(network)
    named = f"; torchvision's are {', '.join(names)}, or random"
    if request.weights in names or _from_library(request, named=named):
        try:
            weights = member.get_state_dict(progress=False, check_hash=True)
        except (OSError, RuntimeError) as error:
            raise WeightsRefused(
                f"weights {member.name} can't be downloaded ({first_line(error)}); fetch "
                f"{member.url} on a machine that can, and name the file: --weights FILE"
            ) from error
        put_in(network, weights, what=f"weights {member.name}", without=head)
    else:
        _put_file_in(network, request, without=head)
    transforms = member.transforms()
    return finished(
        request,
        network,
        preparation=Preparation(
            resize=transforms.resize_size[0],
            crop=transforms.crop_size[0],
            interpolation=str(transforms.interpolation.value),
            mean=tuple(transforms.mean),
            std=tuple(transforms.std),
        ),
    )


# --------------------------------------------------------------------------------------- timm


def timm_encoder(request: EncoderRequest) -> Encoder:
    """Return a model of timm without its classifier."""
    try:
        timm = importlib.import_module("timm")
    except ImportError as error:
        raise ValueError(
            f"encoders of timm need the package, which can't be imported ({error}); install it: "
            "pip install timm"
        ) from error
    _known_name(request, [*timm.list_models(), *timm.list_pretrained()])
    with seeded(request.seed):
        network = timm.create_model(request.name, pretrained=False, num_classes=0)
    settings = network.pretrained_cfg
    tag = f"; timm's own are named with the model: {request.address.partition('.')[0]}.TAG"
    if _from_library(request, named=tag):
        place = settings.get("hf_hub_id") or settings.get("url") or request.name
        try:
            network = timm.create_model(request.name, pretrained=True, num_classes=0)
        except (OSError, RuntimeError) as error:
            raise WeightsRefused(
                f"weights of {request.address} can't be downloaded ({first_line(error)}); fetch "
                f"model.safetensors of {place} on a machine that can, and name it: --weights FILE"
            ) from error
    else:
        heads = settings.get("classifier") or ()
        head = heads if isinstance(heads, str) else (heads or (None,))[0]
        _put_file_in(network, request, without=head)
    found = timm.data.resolve_model_data_config(network)
    side = int(found["input_size"][1])
    kind = found["interpolation"]
    return finished(
        request,
        network,
        preparation=Preparation(
            resize=round(side / found["crop_pct"]),
            crop=side,
            interpolation=kind if kind == "bilinear" else "bicubic",
            mean=tuple(found["mean"]),
            std=tuple(found["std"]),
        ),
    )


# ------------------------------------------------------------------------------ the user's own


def own_encoder(request: EncoderRequest) -> Encoder:
    """Return the encoder of the user's `module:function`, which is called once.

    `function(weights)` gets the path that `--weights` names, or None, and returns a function (or a
    `torch.nn.Module`) of a batch of images, bytes [B, C, H, W], to vectors [B, D].
    """
    if request.random:
        raise WeightsRefused(
            f"--weights is random, and {request.address} chooses its own; leave --weights out, and "
            "add --no-outside-data if its network has seen nothing"
        )
    address = OwnModel(request.address)
    try:
        module = own_module(address.module)
    except OwnModuleMissing as error:
        raise ValueError(
            f"encoder is {address}, but {error} (libraries are torchvision and timm)"
        ) from error
    function = getattr(module, address.name, None)
    if not callable(function):
        raise ValueError(
            f"encoder is {address}, but {address.module} ({getattr(module, '__file__', None)}) has "
            "no function of that name"
        )
    _from_library(request)
    source = str(address)
    with suppress(OSError, TypeError):  # compiled, or typed in
        source = inspect.getsource(module)
    digest = hashlib.sha256(source.encode())
    if request.file is not None:
        try:
            with open_regular(request.file) as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        except OSError as error:
            raise WeightsRefused(
                f"weights {request.file} can't be read ({error.strerror}); check --weights"
            ) from error
    try:
        with seeded(request.seed):
            encode = function(request.file)
    except Exception as error:  # whatever the user's function raises
        raise ValueError(
            f"{request.address}({request.weights!r}) raises {type(error).__name__}: "
            f"{' '.join(str(error).split())}"
        ) from error
    if not callable(encode):
        raise ValueError(
            f"{request.address} returns {encode!r:.80}; it must return what maps a batch of "
            "images, uint8 [B, C, H, W], to vectors [B, D]"
        )
    if isinstance(encode, nn.Module):
        digest.update(digest_of(encode).encode())
    return finished(request, encode, preparation=Preparation(raw=True), weights=digest.hexdigest())


#: Library -> what loads its encoders; other addresses name the user's own.
LOADERS = {"torchvision": torchvision_encoder, "timm": timm_encoder}
