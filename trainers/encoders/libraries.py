"""Encoders of torchvision and timm: classifiers less their last layer, with the libraries' numbers.

Neither is loaded before an encoder of its is asked for. Weights come from a file, or from where the
library keeps what it has downloaded, and is asked to if it has not.
"""

import difflib
import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from labeldp.trainers.encoders.encoder import (
    Encoder,
    EncoderRequest,
    WeightsKind,
    finished,
    sized,
)
from labeldp.trainers.encoders.hub import silence
from labeldp.trainers.encoders.preparation import Preparation
from labeldp.trainers.encoders.weights import (
    WeightsRefused,
    digest_of,
    put_in,
    read_weights,
    without_head,
)

#: Under which timm looks for weights on the hub.
_TIMM_FILES = ("model.safetensors", "pytorch_model.bin")


def torchvision_encoder(request: EncoderRequest) -> Encoder:
    """Return a classifier of torchvision's, less its last layer.

    Raises:
        WeightsRefused: Weights that are not there, can't be downloaded, or do not fit.
        ValueError: There is no such model, or it has no such weights.
    """
    models: Any = importlib.import_module("torchvision.models")
    _known_name(request, models.list_models(module=models))
    published = models.get_model_weights(request.name)
    member = published.DEFAULT if len(published) else None
    if request.kind is WeightsKind.LIBRARY and request.weights is not None:
        names = [each.name for each in published]
        if request.weights not in names:
            raise WeightsRefused(_no_such_weights(request, names))
        member = published[request.weights]
    with seeded(request.seed):
        network = models.get_model(request.name, weights=None)
    head = without_head(network)
    known_as = ""
    if request.kind is WeightsKind.LIBRARY:
        if member is None:
            raise WeightsRefused(f"torchvision has no weights of {request.name}; give --weights")
        state = _torchvision_state(member)
        put_in(network, state, what=f"weights {member.name} of {request.address}", without=head)
        known_as = f"torchvision:{member.name}"
    else:
        put_file_in(network, request, without=head)
    made = Preparation() if member is None else _torchvision_preparation(member.transforms())
    return finished(
        request,
        network,
        name=request.address,
        preparation=sized(made, request.image_size),
        weights=digest_of(network),
        known_as=known_as,
    )


def timm_encoder(request: EncoderRequest) -> Encoder:
    """Return a model of timm's, less its classifier.

    Raises:
        WeightsRefused: Weights that are not there, can't be downloaded, or do not fit.
        ValueError: There is no such model, or timm is not installed.
    """
    timm = library("timm")
    _known_name(request, [*timm.list_models(), *timm.list_pretrained()])
    of_library = request.kind is WeightsKind.LIBRARY
    if of_library and request.weights is not None:
        raise WeightsRefused(
            f"--weights is {request.weights}, and is no file; timm's own weights are named with "
            f"the model: --encoder {request.address.partition('.')[0]}.TAG"
        )
    with seeded(request.seed):
        network = timm.create_model(request.name, pretrained=False, num_classes=0)
    settings = network.pretrained_cfg
    if of_library:
        place = settings.get("hf_hub_id") or settings.get("url") or request.name
        what = f"model.safetensors of {place}"
        if settings.get("hf_hub_id"):
            named = settings.get("hf_hub_filename")
            unheard = silence(place, [*([named] if named else ()), *_TIMM_FILES])
            if unheard is not None:
                raise _not_downloaded(request, unheard, what=what, place="any folder")
        try:
            network = timm.create_model(request.name, pretrained=True, num_classes=0)
        except (OSError, RuntimeError) as error:
            raise _not_downloaded(request, error, what=what, place="any folder") from error
    else:
        heads = settings.get("classifier") or ()
        head = heads if isinstance(heads, str) else (heads or (None,))[0]
        put_file_in(network, request, without=head)
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
    tag = settings.get("tag") or ""
    return finished(
        request,
        network,
        name=request.address,
        preparation=sized(preparation, request.image_size),
        weights=digest_of(network),
        known_as=f"timm:{request.name.partition('.')[0]}.{tag}",
    )


def library(name: str) -> Any:
    """Import a library of the extra `encoders`.

    Raises:
        ValueError: It is not installed, or can't be imported.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"encoders of {name} need the package, which can't be imported ({error}); install it: "
            "pip install 'labeldp[encoders]'"
        ) from error


def put_file_in(network: nn.Module, request: EncoderRequest, *, without: str | None) -> None:
    """Give a network the weights of the file that was named, if one was.

    Raises:
        WeightsRefused: They are not there or do not fit.
    """
    if request.kind is WeightsKind.FILE:
        what = f"weights {request.file} for {request.address}"
        put_in(network, read_weights(request.file), what=what, without=without)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Weights of what is made within depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _torchvision_state(member: Any) -> Any:
    """Weights of torchvision's, from its own cache or the network."""
    try:
        return member.get_state_dict(progress=False, check_hash=True)
    except (OSError, RuntimeError) as error:
        file = Path(member.url).name
        place = Path(torch.hub.get_dir()) / "checkpoints" / file
        raise WeightsRefused(
            f"weights {member.name} can't be downloaded ({_first_line(error)}); fetch {member.url} "
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


def _not_downloaded(
    request: EncoderRequest, error: Exception, *, what: str, place: str
) -> WeightsRefused:
    return WeightsRefused(
        f"weights of {request.address} can't be downloaded ({_first_line(error)}); fetch {what} on "
        f"a machine that can, put it into {place} here, and name it: --weights FILE"
    )


def _known_name(request: EncoderRequest, names: Iterable[str]) -> None:
    known = list(names)
    if request.name not in known and request.name.partition(".")[0] not in known:
        close = difflib.get_close_matches(request.name, known, n=1, cutoff=0.5)
        hint = f"did you mean {request.library}:{close[0]}?" if close else "look at its list"
        raise ValueError(f"{request.library} has no model {request.name!r}; {hint}")


def _no_such_weights(request: EncoderRequest, names: list[str]) -> str:
    return (
        f"--weights is {request.weights}, which is no file and none of the weights of "
        f"{request.address}: {', '.join(names) or 'there are none'}, or random"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
