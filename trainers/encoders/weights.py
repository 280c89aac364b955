"""Weights: read from a file without running anything in it, held against a network, known by hash.

>>> network = torch.nn.Linear(2, 1)
>>> digest_of(network) == digest_of(network), len(digest_of(network))
(True, 64)
"""

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from torch import Tensor, nn

from labeldp.trainers.data.regular_files import open_regular

#: Where training scripts put the weights among other things.
_INSIDE = ("state_dict", "model", "model_state_dict")


class WeightsRefused(ValueError):
    """Weights that are not there or do not fit; the message says which and what to do."""


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
    """Return the tensors of a file by name: `.safetensors`, or what `torch.save` wrote.

    Raises:
        WeightsRefused: It is not there, is damaged, or holds more than tensors.
    """
    try:
        with open_regular(file) as opened:
            if file.suffix == ".safetensors":
                found: Any = read_safetensors(opened.read())
            else:
                found = torch.load(opened, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsRefused(
            f"weights {file} can't be read ({error.strerror or error}); check --weights"
        ) from error
    except (
        *(EOFError, KeyError, MemoryError, RuntimeError, SafetensorError, ValueError),
        pickle.UnpicklingError,
    ) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise WeightsRefused(
            f"weights {file} can't be read ({first[:200]}); save them as .safetensors, or as "
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
    # Whoever trained on several devices has this before each name.
    prefix = "module." if found and all(key.startswith("module.") for key in found) else ""
    return {key.removeprefix(prefix): value for key, value in found.items()}


def put_in(
    network: nn.Module, weights: Mapping[str, Tensor], *, what: str, without: str | None = None
) -> None:
    """Give a network these weights.

    Args:
        network: Whose they become.
        weights: By name.
        what: Where they come from and who takes them, for messages.
        without: Name of a part that the network has no more, whose weights are passed over.

    Raises:
        WeightsRefused: Some are missing, left over, or of another shape.
    """
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
    """Take the last linear layer, which names classes, off a network; return its name.

    Raises:
        WeightsRefused: It has none.
    """
    layers: list[str] = [
        name for name, part in network.named_modules() if isinstance(part, nn.Linear)
    ]
    if not layers:
        raise WeightsRefused(
            f"a {type(network).__name__} ends in no linear layer, so that nothing says where its "
            "vectors are; write a function of your own that returns them (--encoder "
            "module:function)"
        )
    parent, _, name = layers[-1].rpartition(".")
    setattr(network.get_submodule(parent), name, nn.Identity())
    return layers[-1]
