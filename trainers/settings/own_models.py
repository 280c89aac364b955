"""The user's own network: a `torch.nn.Module` of a module of theirs, named `module:Name`.

It is constructed as `Name(input_shape=..., num_classes=...)`: the shape of one example's features,
(D,) or (C, H, W), and K. It maps a batch [B, *input_shape] in single precision (images with their
pixels standardized) to logits [B, K]. Weights come from torch's own generator, which is seeded.
The module is in the folder where labeldp is started, or installed.
"""

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labeldp.trainers.base import ModelName, near_miss

if TYPE_CHECKING:
    from torch import nn

_ADDRESS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class OwnModuleMissing(ValueError):
    """A module or network of the user's that is missing; the message names cause and fix."""


class OwnModel(str):
    """Address of a network of the user's: `module:Name`.

    Sent to another process, it takes the source of its module along, for machines that don't have
    it; what the module itself imports must be there.
    """

    __slots__ = ()

    def __new__(cls, address: str) -> "OwnModel":
        """Check the form."""
        if not is_address(address):
            raise ValueError(f"model is {address!r}; a network of your own is named module:Name")
        return super().__new__(cls, address)

    @property
    def module(self) -> str:
        """The module's full name."""
        return self.partition(":")[0]

    @property
    def name(self) -> str:
        """The class's."""
        return self.partition(":")[2]

    def kind(self) -> "type[nn.Module]":
        """Import the class; `OwnModuleMissing` if it is not a `torch.nn.Module` there."""
        from torch import nn

        try:
            module = own_module(self.module)
        except OwnModuleMissing as error:
            raise OwnModuleMissing(f"model is {self}, but {error}") from error
        kind = getattr(module, self.name, None)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise OwnModuleMissing(
                f"model is {self}, but {self.module} ({getattr(module, '__file__', None)}) has no "
                "subclass of torch.nn.Module with that name"
            )
        return kind

    def build(self, *, input_shape: tuple[int, ...], num_classes: int, seed: int) -> "nn.Module":
        """Return the network with weights that depend on `seed` alone.

        A ValueError means that it can't be constructed, or does not map features to logits.
        """
        import torch

        kind = self.kind()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed)
            try:
                network = kind(input_shape=input_shape, num_classes=num_classes)
                network.eval()
                shape = tuple(network(torch.zeros(2, *input_shape)).shape)
            except Exception as error:  # any error of the user's module
                raise ValueError(
                    f"model is {self}, and {kind.__name__}(input_shape={input_shape}, "
                    f"num_classes={num_classes}) of a batch of two raises {type(error).__name__}: "
                    f"{error}"
                ) from error
        if shape != (2, num_classes):
            raise ValueError(
                f"model is {self}, but it returns {shape} for a batch of two examples; it must "
                f"return logits, (2, {num_classes})"
            )
        network.train()
        return network

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the module's source along."""
        spec = _found(self.module)
        source = None
        with contextlib.suppress(OSError):
            source = Path(spec.origin).read_text() if spec and spec.origin else None
        return _arrived, (str(self), source)


def is_address(text: str) -> bool:
    """Whether a text names code, `module:Name`, which is imported where it is used."""
    return _ADDRESS.fullmatch(text) is not None


def chosen_model(given: str) -> ModelName | OwnModel:
    """Return the network of a name: one of ours, or one of the user's."""
    if isinstance(given, (ModelName, OwnModel)):
        return given
    if isinstance(given, str):
        if ":" in given:
            return OwnModel(given)
        with contextlib.suppress(ValueError):
            return ModelName(given.lower())
    hint = near_miss(str(given), ModelName)
    raise ValueError(f"model is {given!r}; {hint} (a network of your own is named module:Name)")


def _arrived(address: str, source: str | None) -> OwnModel:
    """Unpack a network's address; where its module is not there, make it of the source."""
    model = OwnModel(address)
    if model.module not in sys.modules and not _found(model.module) and source is not None:
        module = ModuleType(model.module)
        module.__file__ = f"<{model.module}, sent along>"
        sys.modules[model.module] = module
        try:
            exec(compile(source, module.__file__, "exec"), vars(module))
        except Exception:
            del sys.modules[model.module]  # its user gets an error that it is missing
    return model


def _found(module: str) -> ModuleSpec | None:
    try:
        with here_too():
            return importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None


def own_module(name: str) -> ModuleType:
    """Import a module of the user's."""
    try:
        with here_too():
            return importlib.import_module(name)
    except Exception as error:  # any error of the user's module
        raise OwnModuleMissing(
            f"module {name} can't be imported here ({type(error).__name__}: {error}); put it into "
            "the folder where labeldp is started, or install it"
        ) from error


@contextlib.contextmanager
def here_too() -> Iterator[None]:
    """Look for modules in the current folder too, which a console script does not."""
    here = os.getcwd()
    sys.path.append(here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(here)
