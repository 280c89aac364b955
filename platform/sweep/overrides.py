"""Read what users write: sweep files, and `key=value` on the command line."""

import os
import re
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

import labeldp
from labeldp.platform.settings.configuration import ConfigurationError
from labeldp.platform.settings.sweep import Choice, LogUniform, RandomAxis, Sweep, Uniform
from labeldp.trainers.base import near_miss
from labeldp.trainers.data.files import FileRefused, read_bytes

#: The sweeps that come with labeldp.
SWEEPS = Path(labeldp.__file__).with_name("sweeps")
#: Endings of a sweep in YAML.
YAML = (".yaml", ".yml")
#: Axes of random draws, as they are written.
AXES: Mapping[str, Callable[..., RandomAxis]] = {
    "loguniform": LogUniform,
    "uniform": Uniform,
    "choice": Choice,
}
_AXIS = re.compile(rf"({'|'.join(AXES)})\((.*)\)")


class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
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
Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-0123456789"))
Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


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
            changes[key] = value_of(text, argument)
            continue
        kind, inside = drawn.groups()
        changes[key] = axis_of(kind, value_of(f"[{inside}]", argument), argument)
    return changes


def axis_of(kind: str, values: list[Any], argument: str) -> RandomAxis:
    """Return an axis of random draws; a refusal names the `argument` that it is written as."""
    try:
        return AXES[kind](*values)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{argument!r} is not an axis: {error}; loguniform and uniform take two numbers, "
            "choice any values"
        ) from error


def value_of(text: str, argument: str) -> Any:
    """Return the value that a text stands for; a refusal names the `argument` that it is in."""
    try:
        return yaml.load(text, Loader)
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


def load_sweep(path: str, *, allow_code: str | None = None) -> Sweep:
    """Return the `SWEEP` of a sweep file, or the sweep in a YAML file, by its path or name.

    `allow_code` is the one module of the user's that a YAML file may name.
    """
    file = sweep_file(path)
    if file.suffix in YAML:
        from labeldp.platform.sweep.config_files import sweep_of  # OmegaConf takes a quarter second

        return sweep_of(path, allow_code=allow_code)
    try:
        if file.suffix != ".py":
            raise ValueError("its name does not end in .py or .yaml")
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
