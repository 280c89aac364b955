"""Settings as people give them: `key=value` on the command line, and YAML files."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from labeldp.platform.sweep.configuration import ConfigurationError, flatten, refuse_interpolations
from labeldp.platform.sweep.space import Choice, LogUniform, RandomAxis, Uniform
from labeldp.trainers.data.regular_files import FileRefused, read_bytes

#: Axes of random draws, as they are written on the command line.
_KINDS: Mapping[str, Callable[..., RandomAxis]] = {
    "loguniform": LogUniform,
    "uniform": Uniform,
    "choice": Choice,
}
_AXIS = re.compile(rf"({'|'.join(_KINDS)})\((.*)\)")


def parse_overrides(arguments: list[str]) -> dict[str, Any]:
    """Return `key=value` arguments as a mapping; values are typed as in YAML.

    `key=loguniform(low, high)`, `key=uniform(low, high)` and `key=choice(a, b)` are axes.

    Raises:
        ConfigurationError: An argument without `=`, an empty key, a value that YAML can't read, or
            an interpolation.
    """
    changes: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"{argument!r} is not of the form key=value")
        refuse_interpolations({key: text})
        drawn = _AXIS.fullmatch(text.strip())
        if drawn:
            changes[key] = _axis(argument, *drawn.groups())
            continue
        try:
            node = OmegaConf.from_dotlist([f"value={text}"])
            value = OmegaConf.to_container(node, resolve=False)["value"]  # type: ignore[index, call-overload]
        except Exception as error:  # PyYAML and OmegaConf raise many kinds here
            raise ConfigurationError(f"{argument!r} has a value that can't be read") from error
        refuse_interpolations({key: value})
        changes[key] = value
    return changes


def _axis(argument: str, kind: str, inside: str) -> RandomAxis:
    """The axis that `key=kind(values)` names."""
    values = OmegaConf.to_container(OmegaConf.from_dotlist([f"value=[{inside}]"]), resolve=False)
    refuse_interpolations({argument: values})
    try:
        # OmegaConf may return a text or nothing; of a list with a key it is a mapping.
        return _KINDS[kind](*values["value"])  # type: ignore[index, call-overload]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{argument!r} is no axis: {error}; loguniform and uniform take two numbers, choice "
            "any values"
        ) from error


def read_yaml(path: Path) -> dict[str, Any]:
    """Return a YAML file of nested or dotted keys as a flat mapping.

    Raises:
        ConfigurationError: The file is not there, is no YAML, holds no mapping, or an
            interpolation.
    """
    try:
        loaded = OmegaConf.create(read_bytes(path).decode() or "{}")
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from error
    except FileRefused as error:
        raise ConfigurationError(str(error)) from error
    except Exception as error:  # PyYAML's and OmegaConf's own kinds
        raise ConfigurationError(f"{path} is no YAML that can be read: {error}") from error
    if not isinstance(loaded, DictConfig):
        raise ConfigurationError(f"{path} holds no mapping of keys to values")
    changes = flatten(loaded)
    refuse_interpolations(changes)
    return changes
