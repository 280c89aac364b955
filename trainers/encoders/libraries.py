"""Encoders of torchvision, timm and transformers, and the user's own; their weights.

A library is loaded when an encoder of it is asked for. Weights come from a file, or from the
library's cache or its downloads. They are read without running code, and known by their SHA-256.

>>> network = torch.nn.Linear(2, 1)
>>> digest_of(network) == digest_of(network), len(digest_of(network))
(True, 64)
"""

import difflib
import hashlib
import importlib
import inspect
import json
import logging
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from torch import Tensor, nn

from labeldp.trainers.data.files import FileRefused, first_line, open_regular, read_bytes
from labeldp.trainers.encoders.encoder import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Encoder,
    EncoderRequest,
    Preparation,
    WeightsKind,
    finished,
)
from labeldp.trainers.models.own_models import OwnModel, OwnModuleMissing, own_module

#: How long, and how often, the hub is asked before weights are refused.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 3.0, 1.0
#: Where timm looks for weights on the hub.
_TIMM_FILES = ("model.safetensors", "pytorch_model.bin")
_HUB_FILES = "config.json, preprocessor_config.json and model.safetensors"
#: Pillow's numbers of interpolations.
_RESAMPLING = {2: "bilinear", 3: "bicubic"}
#: Part of a model that pools, which not all published weights hold.
_POOLER = "pooler."
#: Where training scripts put the weights among other things.
_INSIDE = ("state_dict", "model", "model_state_dict")


class WeightsRefused(ValueError):
    """Weights that are missing or do not fit; the message says which and what to do."""


# ------------------------------------------------------------------------------------ weights


def digest_of(network: nn.Module) -> str:
    """Return the SHA-256 of a network's parameters and buffers by name."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        array = value.detach().to("cpu").contiguous()
        digest.update(f"{name} {array.dtype} {tuple(array.shape)};".encode())
        # As bytes, since NumPy has no name for some of torch's types.
        digest.update(array.reshape(-1).view(torch.uint8).numpy().data if array.numel() else b"")
    return digest.hexdigest()


def read_weights(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a `.safetensors`, or of a file that `torch.save` wrote, by name."""
    try:
        with open_regular(file) as opened:
            if file.suffix == ".safetensors":
                found: Any = read_safetensors(opened.read())
            else:
                found = torch.load(opened, map_location="cpu", weights_only=True)
    except OSError as error:
        raise _unreadable(file, error) from error
    except (
        *(EOFError, KeyError, MemoryError, RuntimeError, SafetensorError, ValueError),
        pickle.UnpicklingError,
    ) as error:
        raise WeightsRefused(
            f"weights {file} can't be read ({first_line(error)}); save them as .safetensors, or as "
            "torch.save(network.state_dict(), FILE): tensors by name and nothing else"
        ) from error
    for name in _INSIDE:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    named = isinstance(found, Mapping) and all(isinstance(key, str) for key in found)
    if not named or not all(isinstance(value, Tensor) for value in found.values()):
        raise WeightsRefused(
            f"weights {file} hold more than tensors by name; save network.state_dict() alone"
        )
    # Training on several devices puts this before each name.
    prefix = "module." if found and all(key.startswith("module.") for key in found) else ""
    return {key.removeprefix(prefix): value for key, value in found.items()}


def _unreadable(file: Path, error: OSError) -> WeightsRefused:
    return WeightsRefused(
        f"weights {file} can't be read ({error.strerror or error}); check --weights"
    )


def put_in(
    network: nn.Module, weights: Mapping[str, Tensor], *, what: str, without: str | None = None
) -> None:
    """Give a network these weights, or refuse them with the differences."""
    head = () if without is None else (f"{without}.",)
    mine = {name: value for name, value in weights.items() if not name.startswith(head or "\0")}
    own = network.state_dict()
    missing, further = sorted(set(own) - set(mine)), sorted(set(mine) - set(own))
    shapes = [
        f"{name} is {list(mine[name].shape)} there and {list(own[name].shape)} here"
        for name in own
        if name in mine and mine[name].shape != own[name].shape
    ]
    counted = (
        (missing, "that the network has are not in it"),
        (further, "in it are not the network's"),
    )
    wrong = [f"{len(names)} {words} ({names[0]}, ...)" for names, words in counted if names]
    wrong += [f"{len(shapes)} are of another shape ({shapes[0]})"] if shapes else []
    if wrong:
        raise WeightsRefused(
            f"{what} do not fit: of its tensors {', '.join(wrong)}; name the encoder that they "
            "were trained as, or the file of this one's"
        )
    network.load_state_dict(mine)


def without_head(network: nn.Module) -> str:
    """Take the last linear layer, which names classes, off a network; return its name."""
    parts = network.named_modules()
    layers: list[str] = [name for name, part in parts if isinstance(part, nn.Linear)]
    if not layers:
        raise WeightsRefused(
            f"a {type(network).__name__} ends in no linear layer, so that the place of its "
            "vectors is unknown; write a function of your own that returns them (--encoder "
            "module:function)"
        )
    parent, _, name = layers[-1].rpartition(".")
    setattr(network.get_submodule(parent), name, nn.Identity())
    return layers[-1]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make the weights of networks built within depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _put_file_in(network: nn.Module, request: EncoderRequest, *, without: str | None) -> None:
    if request.kind is WeightsKind.FILE:
        what = f"weights {request.file} for {request.address}"
        put_in(network, read_weights(request.file), what=what, without=without)


# -------------------------------------------------------------------------------- torchvision


def torchvision_encoder(request: EncoderRequest) -> Encoder:
    """Return a classifier of torchvision without its last layer."""
    models: Any = importlib.import_module("torchvision.models")
    _known_name(request, models.list_models(module=models))
    published = models.get_model_weights(request.name)
    member = published.DEFAULT if len(published) else None
    if request.kind is WeightsKind.LIBRARY and request.weights is not None:
        names = [each.name for each in published]
        if request.weights not in names:
            raise WeightsRefused(
                f"--weights is {request.weights}, which is neither a file nor one of the weights "
                f"of {request.address}: {', '.join(names) or 'there are none'}, or random"
            )
        member = published[request.weights]
    with seeded(request.seed):
        network = models.get_model(request.name, weights=None)
    head = without_head(network)
    known_as = ""
    if request.kind is WeightsKind.LIBRARY:
        if member is None:
            raise WeightsRefused(f"torchvision has no weights of {request.name}; give --weights")
        what = f"weights {member.name} of {request.address}"
        put_in(network, _torchvision_state(member), what=what, without=head)
        known_as = f"torchvision:{member.name}"
    else:
        _put_file_in(network, request, without=head)
    made = Preparation() if member is None else _torchvision_preparation(member.transforms())
    return finished(
        request,
        network,
        name=request.address,
        preparation=made.of_size(request.image_size),
        weights=digest_of(network),
        known_as=known_as,
    )


def _torchvision_state(member: Any) -> Any:
    try:
        return member.get_state_dict(progress=False, check_hash=True)
    except (OSError, RuntimeError) as error:
        file = Path(member.url).name
        place = Path(torch.hub.get_dir()) / "checkpoints" / file
        raise WeightsRefused(
            f"weights {member.name} can't be downloaded ({first_line(error)}); fetch {member.url} "
            f"on a machine that can, put it at {place}, or name it: --weights {file}"
        ) from error


def _torchvision_preparation(transforms: Any) -> Preparation:
    def one(value: Any) -> int | None:
        return int(value[0] if isinstance(value, list | tuple) else value) if value else None

    return Preparation(
        resize=one(getattr(transforms, "resize_size", None)),
        crop=one(getattr(transforms, "crop_size", None)),
        interpolation=str(transforms.interpolation.value),
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
    )


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


def silence(repository: str, files: Sequence[str]) -> Exception | None:
    """Return the error of a hub that does not answer within seconds; None if it may answer.

    The libraries themselves try for half a minute for each file.
    """
    hub: Any = importlib.import_module("huggingface_hub")
    name, _, revision = repository.partition("@")
    of = {"repo_id": name, "revision": revision or None}
    give_up = time.monotonic() + _PATIENCE_SECONDS
    try:
        if any(isinstance(hub.try_to_load_from_cache(filename=file, **of), str) for file in files):
            return None
        address = hub.hf_hub_url(filename=files[0], **of)
    except ValueError:  # not a repository's name: the library says so
        return None
    while True:
        try:
            hub.get_hf_file_metadata(address)
        except hub.errors.HfHubHTTPError:  # an answer, even if it is an error
            return None
        except Exception as error:  # of any library of requests
            if time.monotonic() > give_up:
                return error
            time.sleep(_PAUSE_SECONDS)
        else:
            return None


def timm_encoder(request: EncoderRequest) -> Encoder:
    """Return a model of timm without its classifier."""
    timm = library("timm")
    _known_name(request, [*timm.list_models(), *timm.list_pretrained()])
    of_library = request.kind is WeightsKind.LIBRARY
    if of_library and request.weights is not None:
        raise WeightsRefused(
            f"--weights is {request.weights}, and is not a file; timm's own weights are named with "
            f"the model: --encoder {request.address.partition('.')[0]}.TAG"
        )
    with seeded(request.seed):
        network = timm.create_model(request.name, pretrained=False, num_classes=0)
    settings = network.pretrained_cfg
    if of_library:
        hub, named = settings.get("hf_hub_id"), settings.get("hf_hub_filename")
        files = [*([named] if named else ()), *_TIMM_FILES]
        try:
            if hub and (unheard := silence(hub, files)) is not None:
                raise OSError(first_line(unheard)) from unheard
            network = timm.create_model(request.name, pretrained=True, num_classes=0)
        except (OSError, RuntimeError) as error:
            place = hub or settings.get("url") or request.name
            raise WeightsRefused(
                f"weights of {request.address} can't be downloaded ({first_line(error)}); fetch "
                f"model.safetensors of {place} on a machine that can, put it into any folder "
                "here, and name it: --weights FILE"
            ) from error
    else:
        heads = settings.get("classifier") or ()
        head = heads if isinstance(heads, str) else (heads or (None,))[0]
        _put_file_in(network, request, without=head)
    found = timm.data.resolve_model_data_config(network)
    side = int(found["input_size"][1])
    kind = found["interpolation"]
    preparation = Preparation(
        resize=round(side / found["crop_pct"]),
        crop=side,
        interpolation=kind if kind in ("bilinear", "bicubic") else "bicubic",
        mean=tuple(found["mean"]),
        std=tuple(found["std"]),
    )
    return finished(
        request,
        network,
        name=request.address,
        preparation=preparation.of_size(request.image_size),
        weights=digest_of(network),
        known_as=f"timm:{request.name.partition('.')[0]}.{settings.get('tag') or ''}",
    )


def _known_name(request: EncoderRequest, names: Iterable[str]) -> None:
    known = list(names)
    if request.name not in known and request.name.partition(".")[0] not in known:
        close = difflib.get_close_matches(request.name, known, n=1, cutoff=0.5)
        hint = f"did you mean {request.library}:{close[0]}?" if close else "look at its list"
        raise ValueError(f"{request.library} has no model {request.name!r}; {hint}")


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
    if request.kind is WeightsKind.LIBRARY and request.weights is not None:
        raise WeightsRefused(f"--weights is {request.weights}, and there is no such file")
    try:
        if not local and (unheard := silence(where, ["config.json"])) is not None:
            raise OSError(first_line(unheard)) from unheard
        missing: tuple[str, ...] = ()
        if request.kind is WeightsKind.LIBRARY:
            model = transformers.AutoModel
            network, missing = _fitting(model, where, what=where, local_files_only=local)
        else:
            config = transformers.AutoConfig.from_pretrained(where, local_files_only=local)
            with seeded(request.seed):
                network = transformers.AutoModel.from_config(config)
            if request.kind is WeightsKind.FILE:
                # By the library too, since files and networks differ in the names of weights.
                given = {"config": config, "state_dict": read_weights(request.file)}
                network, missing = _fitting(type(network), None, what=str(request.file), **given)
        seeing = getattr(network, "vision_model", None)  # of a model of images and text
        network = seeing if isinstance(seeing, nn.Module) else network
        preparation = _hub_preparation(transformers, where, local=local)
    except WeightsRefused:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise WeightsRefused(
            f"{request.address} can't be loaded ({first_line(error)}); fetch {_HUB_FILES} on a "
            "machine that can, put them into a folder here, and name it: --encoder "
            "huggingface:FOLDER"
        ) from error
    whole = not any(_POOLER in name for name in missing)
    return finished(
        request,
        _Vectors(network, pooled=request.pool is None and whole),
        name=f"huggingface:{place.resolve().name}" if local else request.address,
        preparation=preparation.of_size(request.image_size),
        weights=digest_of(network),
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


def _hub_preparation(transformers: Any, where: str, *, local: bool) -> Preparation:
    """The preparation that a model's publisher states; ImageNet's where there is none."""
    settings: Any = {}
    if local:
        with suppress(OSError, FileRefused):
            settings = json.loads(read_bytes(Path(where, "preprocessor_config.json")))
    else:
        settings = transformers.AutoImageProcessor.from_pretrained(where).to_dict()
    settings = settings if isinstance(settings, Mapping) else {}
    size = settings.get("size") if settings.get("do_resize", True) else None
    crop = settings.get("crop_size") if settings.get("do_center_crop", False) else None
    resize, square = _side(size)
    return Preparation(
        resize=resize,
        crop=_side(crop)[0],
        square=square,
        interpolation=_RESAMPLING.get(settings.get("resample", 2), "bilinear"),
        mean=tuple(settings.get("image_mean", IMAGENET_MEAN)),
        std=tuple(settings.get("image_std", IMAGENET_STD)),
    )


def _side(size: Any) -> tuple[int | None, bool]:
    if isinstance(size, Mapping):
        if "shortest_edge" in size:
            return int(size["shortest_edge"]), False
        return (int(size["height"]), True) if "height" in size else (None, False)
    return (int(size), True) if isinstance(size, int) else (None, False)


# ------------------------------------------------------------------------------ the user's own


def own_encoder(request: EncoderRequest) -> Encoder:
    """Return the encoder of the user's `module:function`, which is called once.

    `function(weights)` gets the path that `--weights` names, or None, and returns a function (or a
    `torch.nn.Module`) of a batch of images, bytes [B, C, H, W], to vectors [B, D].
    """
    address = OwnModel(request.address)
    function, source = _found(address)
    if request.kind is WeightsKind.RANDOM:
        raise WeightsRefused(
            f"--weights is random, and what {address} does is its own affair; leave --weights out, "
            "and say --no-outside-data if its network has seen nothing"
        )
    if request.kind is WeightsKind.LIBRARY and request.weights is not None:
        raise WeightsRefused(f"weights {request.weights} are not there; check --weights")
    file = request.file if request.kind is WeightsKind.FILE else None
    digest = hashlib.sha256(source)
    if file is not None:
        try:
            with open_regular(file) as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        except OSError as error:
            raise _unreadable(file, error) from error
    try:
        with seeded(request.seed):
            encode = function(file)
    except Exception as error:  # whatever the user's function raises
        given = None if file is None else str(file)
        hint = "" if file is None else f"; is {file} of this encoder? --weights names the file"
        raise ValueError(
            f"{request.address}({given!r}) raises {type(error).__name__}: "
            f"{' '.join(str(error).split())}{hint}"
        ) from error
    if not callable(encode):
        raise ValueError(
            f"{request.address} returns {encode!r:.80}; it must return what maps a "
            "batch of images, uint8 [B, C, H, W], to vectors [B, D]"
        )
    if isinstance(encode, nn.Module):
        digest.update(digest_of(encode).encode())
    size = request.image_size
    return finished(
        request,
        encode,
        name=request.address,
        preparation=Preparation(resize=size, square=size is not None, raw=True),
        weights=digest.hexdigest(),
    )


def _found(address: OwnModel) -> tuple[Any, bytes]:
    try:
        module = own_module(address.module)
    except OwnModuleMissing as error:
        raise ValueError(
            f"encoder is {address}, but {error} (libraries are torchvision, timm and huggingface)"
        ) from error
    function = getattr(module, address.name, None)
    if not callable(function):
        functions = [name for name, each in vars(module).items() if callable(each)]
        close = difflib.get_close_matches(address.name, functions, n=1)
        hint = f"; did you mean {address.module}:{close[0]}?" if close else ""
        raise ValueError(
            f"encoder is {address}, but {address.module} ({getattr(module, '__file__', None)}) has "
            f"no function of that name{hint}"
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
