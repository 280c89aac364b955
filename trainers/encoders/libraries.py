"""Encoders of torchvision, timm and transformers, and the user's own.

A library is loaded when one of its encoders is requested. Weights come from a file, or from the
library's cache or its downloads, and are read without running code.
"""

import hashlib
import importlib
import inspect
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from torch import Tensor, nn

from labeldp.trainers.data.files import first_line, open_regular
from labeldp.trainers.encoders.encoder import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Encoder,
    EncoderRequest,
    Preparation,
    WeightsRefused,
    digest_of,
    finished,
    read_saved,
)
from labeldp.trainers.models.networks import seeded
from labeldp.trainers.models.own_models import OwnModel, OwnModuleMissing, own_module
from labeldp.trainers.settings.base import near_miss

_HUB_FILES = "config.json, preprocessor_config.json and model.safetensors"
#: Pillow's numbers of interpolations.
_RESAMPLING = {2: "bilinear", 3: "bicubic"}
#: Part of a model that pools, which not all published weights hold.
_POOLER = "pooler."


# ------------------------------------------------------------------------------------ weights


def read_weights(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a `.safetensors`, or of a file that `torch.save` wrote, by name."""
    if file.suffix == ".safetensors":
        try:
            with open_regular(file) as opened:
                return dict(read_safetensors(opened.read()))
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
    network: nn.Module, weights: Mapping[str, Tensor], *, what: str, without: str | None = None
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
    models: Any = importlib.import_module("torchvision.models")
    _known_name(request, models.list_models(module=models))
    published = models.get_model_weights(request.name)
    names = [each.name for each in published]
    member = published[request.weights] if request.weights in names else published.DEFAULT
    with seeded(request.seed):
        network = models.get_model(request.name, weights=None)
    head = without_head(network)
    from_library = request.weights in names or _from_library(
        request, named=f"; torchvision's are {', '.join(names)}, or random"
    )
    if from_library:
        put_in(network, _downloaded(member), what=f"weights {member.name}", without=head)
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
        known_as=f"torchvision:{member.name}" if from_library else "",
    )


def _downloaded(member: Any) -> Any:
    try:
        return member.get_state_dict(progress=False, check_hash=True)
    except (OSError, RuntimeError) as error:
        raise WeightsRefused(
            f"weights {member.name} can't be downloaded ({first_line(error)}); fetch {member.url} "
            "on a machine that can, and name the file: --weights FILE"
        ) from error


# ----------------------------------------------------------------------- timm and transformers


def library(name: str) -> Any:
    """Import a library of the extra `encoders`, or refuse with the way to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"encoders of {name} need the package, which can't be imported ({error}); install it: "
            "pip install 'labeldp[encoders]'"
        ) from error


def timm_encoder(request: EncoderRequest) -> Encoder:
    """Return a model of timm without its classifier."""
    timm = library("timm")
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
    side, kind = int(found["input_size"][1]), found["interpolation"]
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
        known_as=f"timm:{request.name.partition('.')[0]}.{settings.get('tag') or ''}",
    )


class _Vectors(nn.Module):
    """A vision model, and the part of its output that is taken."""

    def __init__(self, network: nn.Module, *, pooled: bool) -> None:
        super().__init__()
        self.network, self._pooled = network, pooled

    def forward(self, batch: Tensor) -> Any:
        output = self.network(pixel_values=batch)
        found = getattr(output, "pooler_output", None) if self._pooled else None
        return output.last_hidden_state if found is None else found


def hugging_face_encoder(request: EncoderRequest) -> Encoder:
    """Return a vision model of transformers, by name or of a folder.

    The pooled vector is taken if the weights hold that part; otherwise `Pool` decides.
    """
    transformers = library("transformers")
    place = Path(request.name).expanduser()
    local = place.is_dir()
    where = str(place) if local else request.name
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    from_library, missing = _from_library(request), tuple[str, ...]()
    try:
        if from_library:
            model = transformers.AutoModel
            network, missing = _fitting(model, where, what=where, local_files_only=local)
        else:
            config = transformers.AutoConfig.from_pretrained(where, local_files_only=local)
            with seeded(request.seed):
                network = transformers.AutoModel.from_config(config)
            if request.file is not None:
                # By the library too, since files and networks differ in the names of weights.
                given = {"config": config, "state_dict": read_weights(request.file)}
                network, missing = _fitting(type(network), None, what=str(request.file), **given)
        processor = transformers.AutoImageProcessor.from_pretrained(where, local_files_only=local)
    except WeightsRefused:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise WeightsRefused(
            f"{request.address} can't be loaded ({first_line(error)}); fetch {_HUB_FILES} on a "
            "machine that can, put them into a folder here, and name it: --encoder "
            "huggingface:FOLDER"
        ) from error
    network = getattr(network, "vision_model", network)  # of a model of images and text
    whole = not any(_POOLER in name for name in missing)
    return finished(
        request,
        _Vectors(network, pooled=request.pool is None and whole),
        name=f"huggingface:{place.resolve().name}" if local else "",
        preparation=_published_preparation(processor.to_dict()),
        known_as="" if local else request.address,
    )


def _fitting(
    model: Any, where: str | None, *, what: str, **given: Any
) -> tuple[nn.Module, tuple[str, ...]]:
    """A model with weights that fit, except for a pooler's; the names of missing ones."""
    network, loading = model.from_pretrained(where, output_loading_info=True, **given)
    missing = tuple(sorted(map(str, loading["missing_keys"])))
    others = [name for name in missing if _POOLER not in name]
    wrong = [*others, *(str(name) for name in loading.get("mismatched_keys", ()))]
    if wrong:
        raise WeightsRefused(
            f"weights of {what} do not fit: {len(wrong)} of the model's tensors are not in them "
            f"({wrong[0]}, ...); they are another model's, or only a part"
        )
    return network, missing


def _published_preparation(settings: Mapping[str, Any]) -> Preparation:
    size = settings.get("size") if settings.get("do_resize", True) else None
    crop = settings.get("crop_size") if settings.get("do_center_crop", False) else None
    return Preparation(
        resize=_side(size),
        crop=_side(crop),
        square=isinstance(size, Mapping) and "height" in size,
        interpolation=_RESAMPLING.get(settings.get("resample", 2), "bilinear"),
        mean=tuple(settings.get("image_mean") or IMAGENET_MEAN),
        std=tuple(settings.get("image_std") or IMAGENET_STD),
    )


def _side(size: Any) -> int | None:
    if isinstance(size, Mapping):
        size = size.get("shortest_edge") or size.get("height")
    return int(size) if size else None


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
    function, source = _own_function(OwnModel(request.address))
    _from_library(request)
    digest = hashlib.sha256(source)
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


def _own_function(address: OwnModel) -> tuple[Any, bytes]:
    try:
        module = own_module(address.module)
    except OwnModuleMissing as error:
        raise ValueError(
            f"encoder is {address}, but {error} (libraries are torchvision, timm and huggingface)"
        ) from error
    function = getattr(module, address.name, None)
    if not callable(function):
        raise ValueError(
            f"encoder is {address}, but {address.module} ({getattr(module, '__file__', None)}) has "
            "no function of that name"
        )
    try:
        return function, inspect.getsource(module).encode()
    except (OSError, TypeError):  # compiled, or typed in
        return function, str(address).encode()


#: Library -> what loads its encoders; other addresses name the user's own.
LOADERS = {
    "torchvision": torchvision_encoder,
    "timm": timm_encoder,
    "huggingface": hugging_face_encoder,
}
