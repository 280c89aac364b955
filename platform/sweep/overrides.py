"""Read what users write: sweep files, and `key=value` on the command line."""

import os
import re
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

import labeldp
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.space import Choice, LogUniform, RandomAxis, Uniform
from labeldp.platform.sweep.sweep import Sweep
from labeldp.trainers.data.files import FileRefused, read_bytes
from labeldp.trainers.settings.base import near_miss

#: The sweeps that come with labeldp.
SWEEPS = Path(labeldp.__file__).with_name("sweeps")
#: Axes of random draws, as they are written on the command line.
_KINDS: Mapping[str, Callable[..., RandomAxis]] = {
    "loguniform": LogUniform,
    "uniform": Uniform,
    "choice": Choice,
}
_AXIS = re.compile(rf"({'|'.join(_KINDS)})\((.*)\)")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML of decimal numbers: 1e-3 is one, 010 and 1:30 are texts."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [each for each in found if each[0].rpartition(":")[2] in ("bool", "null", "merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


# A column 007 must not become 7: whole numbers are those that are written back the same.
_INT = re.compile(r"(0|-?[1-9]\d*)$", re.ASCII)
_FLOAT = re.compile(
    r"([-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+|[-+]?\.inf|\.nan)$",
    re.ASCII | re.IGNORECASE,
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def parse_overrides(arguments: list[str]) -> dict[str, Any]:
    """Return `key=value` arguments as a mapping; values are typed as in YAML.

    `key=loguniform(low, high)`, `key=uniform(low, high)` and `key=choice(a, b)` are axes.
    """
    changes: dict[str, Any] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"{argument!r} is not of the form key=value")
        drawn = _AXIS.fullmatch(text.strip())
        if not drawn:
            changes[key] = _value(text, argument)
            continue
        kind, inside = drawn.groups()
        try:
            changes[key] = _KINDS[kind](*_value(f"[{inside}]", argument))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{argument!r} is not an axis: {error}; loguniform and uniform take two numbers, "
                "choice any values"
            ) from error
    return changes


def _value(text: str, argument: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"{argument!r} has a value that cannot be read") from error


def sweep_file(name: str) -> Path:
    """Return the path of a sweep file: it is given, or a name of one that labeldp has."""
    if Path(name).suffix or os.sep in name:
        return Path(name)
    if not (SWEEPS / f"{name}.py").is_file():
        known = sorted(file.stem for file in SWEEPS.glob("*.py"))
        raise ConfigurationError(f"no sweep has the name {name!r}; {near_miss(name, known)}")
    return SWEEPS / f"{name}.py"


def load_sweep(path: str) -> Sweep:
    """Return the `SWEEP` of a sweep file, by its path or name."""
    file = sweep_file(path)
    try:
        if file.suffix != ".py":
            raise ValueError("its name does not end in .py")
        read_bytes(file)
    except FileRefused as error:
        raise ConfigurationError(f"{error}, one of sweeps/*.py") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"{path} is not a sweep file ({why}); name one of sweeps/*.py"
        ) from error
    try:
        found = runpy.run_path(os.fspath(file), run_name=f"labeldp_sweep_{file.stem}")
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{path} can't be run: {type(error).__name__}: {error}") from error
    if isinstance(sweep := found.get("SWEEP"), Sweep):
        return sweep
    if "STUDY" in found:
        raise ConfigurationError(
            f"{path} is a study, not a sweep: it has no trials to plan; `python {path} --smoke` "
            "runs it at its small size, --help shows the rest"
        )
    raise ConfigurationError(f"{path} defines no SWEEP; see sweeps/quickstart.py for one")
