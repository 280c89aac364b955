"""The user's own encoder: `module:function`, which is called once and returns what encodes.

`function(weights)` gets the path that `--weights` names, or None, and returns a function (or a
`torch.nn.Module`) of a batch of images, bytes [B, C, H, W], to vectors [B, D].
"""

import difflib
import hashlib
import inspect
from pathlib import Path
from typing import Any

from torch import nn

from labeldp.trainers.data.regular_files import open_regular
from labeldp.trainers.encoders.encoder import Encoder, EncoderRequest, WeightsKind, finished
from labeldp.trainers.encoders.libraries import seeded
from labeldp.trainers.encoders.preparation import Preparation
from labeldp.trainers.encoders.weights import WeightsRefused, digest_of
from labeldp.trainers.models.own_models import OwnModel, OwnModuleMissing, own_module


def own_encoder(request: EncoderRequest) -> Encoder:
    """Return the user's own encoder.

    Raises:
        WeightsRefused: The file of weights is not there.
        ValueError: There is no such function, or it fails.
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
        digest.update(_content_hash(file))
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
    """The function, and its module's source."""
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


def _content_hash(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        raise WeightsRefused(
            f"weights {file} can't be read ({error.strerror or error}); check --weights"
        ) from error
