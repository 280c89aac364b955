"""Read `key=value`, Python files of sweeps, and YAML files of settings or of sweeps.

A value means the same on the command line and in YAML: 1e-3 is a number, 007 and 1:30 are texts, no
is false. OmegaConf merges settings and resolves references between them.

Nothing in a YAML file is run, and a module that it names is refused unless `--allow-code` names it
too. `${trainer.epochs}` refers to another key and `${oc.env:NAME}` to a variable of the
environment; other resolvers of OmegaConf are refused. A text of section `data` keeps its
`${oc.env:NAME}` until files are read (`DataSettings.looked_up`), so that no hash and no record
depends on the value. No other key takes a variable: records would hold its value.
"""

import os
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

import labeldp
from labeldp.mechanisms.ledger import Budget
from labeldp.platform.settings.configuration import (
    ENVIRONMENT,
    KEPT_TEXTS,
    ConfigurationError,
    TrialConfig,
    each_text,
    flat_of,
    with_changes,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.sweep import (
    Axis,
    Choice,
    Grid,
    LogUniform,
    Preset,
    RandomAxis,
    Resources,
    Sweep,
    Uniform,
    Variant,
    overridden,
    points,
    resized,
    variants_of,
)
from labeldp.trainers.base import allowed, fields_of, near_miss
from labeldp.trainers.data.files import read_bytes
from labeldp.trainers.settings.training import BESIDE, here_too, is_address

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

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and kind are PyYAML's
        first: [each for each in found if each[0].rpartition(":")[2] in ("bool", "null", "merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node; a text that its tag is wrong for, `!!bool x`, is named."""
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            kind = node.tag.rpartition(":")[2]
            why = f"{node.value!r:.40} is not a valid {kind}: remove the tag, and quote the text"
            raise yaml.constructor.ConstructorError(None, None, why, node.start_mark) from error


# A column 007 must not become 7: whole numbers are those that are written back the same.
_INT = re.compile(r"(0|-?[1-9]\d*)$", re.ASCII)
_FLOAT = re.compile(
    r"([-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+|[-+]?\.inf|\.nan)$",
    re.ASCII | re.IGNORECASE,
)
Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-0123456789"))
Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
#: Values in a file at most: aliases of aliases would fill the memory.
MOST_VALUES = 10_000
#: An escaped ${, which is none, behind an odd number of backslashes; or a reference.
_REFERENCE = re.compile(
    r"(?<!\\)(?P<literal>(?:\\\\)*)\\\$\{|(?P<before>(?:\\\\)*)\$\{(?P<inside>[^${}]*)(?P<closed>\}?)"
)
#: In place of the $ of a literal ${, and of a variable, while OmegaConf reads.
_LITERAL = "\0"
_VARIABLE = "\0\0"
_SECTIONS = (Sweep, Preset, Variant, Resources, Budget)
for _section_kind in _SECTIONS:
    with_config(ConfigDict(extra="forbid"))(_section_kind)


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
    ends = (yaml.ScalarToken, yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
    try:
        read = [each.end_mark.index for each in yaml.scan(text) if isinstance(each, ends)]
        value = yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"{argument!r} has a value that cannot be read") from error
    if "#" in text[max(read, default=0) :]:
        raise ConfigurationError(
            f"{argument!r} has a # behind a space, which begins a comment; write the value in "
            "quotes of its own, as in key='\"a #1\"'"
        )
    return value


def sweep_file(name: str) -> Path:
    """Return the path of a sweep file: it is given, or a name of one that labeldp has.

    A file that can be none is refused; `here_too` looks for modules beside one that is given.
    """
    file = Path(name)
    known = sorted(file.stem for file in SWEEPS.glob("*.py"))
    if name in known:
        return SWEEPS / f"{name}.py"
    if os.path.exists(file / "sweep.json"):  # a name may be too long for `Path.exists`
        raise ConfigurationError(
            f"{name} is the results folder of a sweep; to go on with it, run the command that "
            f"wrote it again: the same sweep, the same settings, --results {shlex.quote(name)}"
        )
    if not (file.suffix or os.sep in name):
        raise ConfigurationError(f"no sweep has the name {name!r}; {near_miss(name, known)}")
    try:
        if file.suffix not in (".py", *YAML):
            raise ValueError("its name does not end in .py or .yaml")
        if file.suffix == ".py":
            read_bytes(file)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"{name} is not a sweep file ({why}); name one of sweeps/*.py"
        ) from error
    beside = os.path.realpath(file.parent)
    for own in Path(beside).glob("*.py"):
        at = getattr(sys.modules.get(own.stem), "__file__", None)
        if at and os.path.dirname(at) in {*BESIDE} - {beside}:
            raise ConfigurationError(
                f"{name} has {own.name} beside it, and {at} is loaded under that name; rename one "
                "of them, or use another process"
            )
    BESIDE[:] = dict.fromkeys([beside, *BESIDE])
    return file


def load_sweep(path: str, *, allow_code: str | None = None) -> Sweep:
    """Return the `SWEEP` of a sweep file, or the sweep in a YAML file, by its path or name.

    `allow_code` is the one module of the user's that a YAML file may name.
    """
    file = sweep_file(path)
    if file.suffix in YAML:
        return sweep_of(path, allow_code=allow_code)
    try:
        with here_too():
            found = runpy.run_path(os.fspath(file), run_name=f"labeldp_sweep_{file.stem}")
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{path} can't be run: {type(error).__name__}: {error}") from error
    if isinstance(sweep := found.get("SWEEP"), Sweep):
        return sweep
    if "STUDY" in found:
        raise ConfigurationError(
            f"{path} is a study, not a sweep: it has no trials to plan; "
            f"`labeldp sweep {shlex.quote(path)} --smoke` runs it small, --help shows the rest"
        )
    raise ConfigurationError(f"{path} defines no SWEEP; see sweeps/quickstart.py for one")


# --- YAML files -----------------------------------------------------------------------------------


def merged(
    files: Sequence[str], overrides: Mapping[str, Any], *, allow_code: str | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Merge files of settings, and over them those of the command line.

    `allow_code` is the one module of the user's that files may name; the command line may any.
    Returns dotted key -> value, without references, and dotted key -> where it is set.
    """
    given = dict[str, Any]()
    places = dict[str, str]()
    for file in files:
        tree, found = read(file)
        own = flat_of(tree, whole=AXES)
        given |= own
        places |= {key: found.get(key, file) for key in own}
    for key, value in overrides.items():
        given.pop(key, None)
        if not isinstance(value, Axis):
            given[key] = each_text(value, lambda text, _: text.replace("${", f"{_LITERAL}{{"))
    with naming(places):
        resolved = _resolved(given) if files else {}
        _refuse_code(resolved, allow_code=allow_code, typed=overrides)
        values = _settings(resolved)
    for key in _list_keys() & values.keys():
        value = values[key]
        if isinstance(value, list) and not any(isinstance(each, list) for each in value):
            values[key] = Grid([value])  # one value, which is a list
    return {**values, **overrides}, places | dict.fromkeys(overrides, "command line")


@cache
def _list_keys() -> frozenset[str]:
    """Keys whose values are lists. Settings of all methods are loaded, which verbs do without."""
    return frozenset(
        f"trainer.{name}"
        for kind in METHODS.data.values()
        for name, field in fields_of(kind).items()
        if allowed(field).type.startswith("list")
    )


def read(file: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the mapping in a YAML file, references checked, and path of a value -> its place."""
    places: dict[str, str] = {}
    try:
        loader = Loader(read_bytes(file))
        node = loader.get_single_node()
        _walk(node, "", file, places)
        content = {} if node is None else loader.construct_document(node)
    except OSError as error:
        raise ConfigurationError(f"{file} can't be read ({error.strerror}); check it") from error
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        why = f" ({type(error).__name__})"
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
            why = f", line {error.problem_mark.line + 1}: {error.problem}"
        raise ConfigurationError(f"{file} is not YAML{why}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{file} holds no mapping but {str(content)[:40]!r}; write keys and values, such as "
            "`trainer: {epochs: 5}`"
        )
    return each_text(content, lambda text, path: _marked(text, places.get(path, file))), places


def _walk(node: yaml.Node | None, path: str, file: str, places: dict[str, str]) -> None:
    if len(places) > MOST_VALUES:
        raise ConfigurationError(f"{file} holds more than {MOST_VALUES:,} values; leave some out")
    if isinstance(node, yaml.SequenceNode):
        for number, each in enumerate(node.value):
            places[f"{path}[{number}]"] = f"{file}, line {each.start_mark.line + 1}"
            _walk(each, f"{path}[{number}]", file, places)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = f"{file}, line {key.start_mark.line + 1}"
            name = f"{path}.{key.value}".lstrip(".")
            if key.tag.endswith(":merge"):
                name += f"{len(places)}"  # no key, and new each time: what it merges counts too
            elif not key.tag.endswith(":str"):
                raise ConfigurationError(f"{place}: the key {key.value!r} is no text; quote it")
            if name in places:
                raise ConfigurationError(f"{place}: {name} is set before, at {places[name]}")
            places[name] = place
            _walk(value, name, file, places)


def _marked(text: str, place: str) -> str:
    """Mark variables of the environment, and what is no reference; refuse everything else."""

    def mark(found: re.Match[str]) -> str:
        if found["literal"] is not None:
            return f"{found['literal'][::2]}{_LITERAL}{{"
        reference = f"${{{found['inside']}}}"
        if found["closed"] and ENVIRONMENT.fullmatch(reference):
            return f"{found['before'][::2]}{_VARIABLE}{reference[1:]}"
        if found["closed"] and re.fullmatch(r"[\w.\[\]-]+", found["inside"]):
            return found[0]
        raise ConfigurationError(
            f"{place}: {found[0]} is no reference; ${{trainer.epochs}} refers to another key and "
            "${oc.env:NAME} to a variable of the environment, and nothing else is looked up. For "
            r"the text itself write \${"
        )

    return _REFERENCE.sub(mark, text)


def _resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as a nested mapping, without references between them."""
    from omegaconf import OmegaConf  # takes a quarter of a second, which --help does without
    from omegaconf.errors import OmegaConfBaseException

    tree = OmegaConf.create({})
    key = ""
    try:
        for key, value in values.items():
            OmegaConf.update(tree, key, value, merge=False)
        found: Any = OmegaConf.to_container(tree, resolve=True)
    except OmegaConfBaseException as error:
        key = str(error.full_key or key)
        why = str(error).partition("\n")[0]
        if "ecursi" in why:
            why = "its references go in a circle; write one of the values"
        raise ConfigurationError(f"{key}: {why}") from error
    return {str(name): value for name, value in found.items()}


def _refuse_code(
    values: Mapping[str, Any], *, allow_code: str | None, typed: Collection[str] = ()
) -> None:
    """Refuse a setting of a file that names a module, whose code a trial would run.

    Settings of `data` name files, and `typed` keys are the user's own words.
    """

    def check(text: str, path: str) -> None:
        key = path.partition("[")[0]
        module = text.partition(":")[0]
        if is_address(text) and module != allow_code and not {path, key} & {*typed}:
            if not re.search(r"(^|\.)data\.\w+$", path):
                raise ConfigurationError(
                    f"{path} is {text}, and a trial would run the code of module {module!r}; if "
                    f"you trust the file and the module, allow it by name: --allow-code {module}, "
                    f"or allow_code={module!r} in Python"
                )

    each_text(values, check)


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted key -> value as `parse_overrides` does: lists and axes are axes."""
    found: dict[str, Any] = {}
    for key, value in flat_of(values, whole=AXES).items():
        value = each_text(value, partial(_plain, key))
        if value == []:
            raise ConfigurationError(f"{key} is an empty list; name at least one value")
        if isinstance(value, dict):
            (kind, inside), *others = value.items()
            if others or not isinstance(inside, list):
                raise ConfigurationError(f"{key} is {value}; an axis is {kind} of a list alone")
            value = axis_of(kind, inside, f"{key}={value}")
        found[key] = value
    return found


def _plain(key: str, text: str, path: str) -> str:
    plain = text.replace(_VARIABLE, "$").replace(_LITERAL, "$")
    # Records would hold its value, which might be a secret.
    if _VARIABLE in text and key not in KEPT_TEXTS:
        raise ConfigurationError(
            f"{key} is {plain}, and records would hold the variable's value: only texts of `data` "
            f"refer to the environment. Give {key}=... on the command line"
        )
    return plain


@contextmanager
def naming(places: Mapping[str, str]) -> Iterator[None]:
    """Add to a refusal the line of the file that set the key which it names."""
    try:
        yield
    except ConfigurationError as error:
        said = re.sub("^line '[^']*': ", "", str(error))
        for word in re.findall(r"^[\w.]+|'[^']+'|[\w\[\]-]+(?:\.[\w\[\]-]+)+", said):
            name = word.strip("'")
            found = {places[path]: None for path in places if f".{path}".endswith(f".{name}")}
            if "command line" in found:
                break
            if found:
                raise ConfigurationError(f"{' or '.join(found)}: {error}") from error
        raise


def sweep_of(file: str, *, allow_code: str | None = None) -> Sweep:
    """Return the sweep that a YAML file describes: the fields of `Sweep`, with `lines`.

    `allow_code` is the one module of the user's that it may name.
    `base` is settings, or the name of a sweep that comes with labeldp; `changes` are made to it.
    Without `lines` they and `space` act on the named sweep as settings of the command line do.
    """
    tree, places = read(file)
    with naming(places):
        resolved = _resolved(tree)
        _refuse_code(resolved, allow_code=allow_code)
        content = _section(resolved)
        base = content.pop("base", {})
        changes = content.pop("changes", {})
        if not isinstance(content.get("name"), str):
            raise ConfigurationError(
                f"{file} names no sweep; write `name: my_sweep`, since its results lie in a folder "
                "of that name, or give a file of settings to --config"
            )
        sweep = Sweep(name=content["name"], base=TrialConfig())
        named = isinstance(base, str)
        if named:
            if not re.fullmatch(r"\w+", base):  # the file may be somebody else's
                raise ConfigurationError(
                    f"'base' is {base!r}; it is settings, or the name of a sweep that comes with "
                    "labeldp: a file runs no code of another one"
                )
            sweep = replace(load_sweep(base), name=sweep.name)
            base = {}
        space = content.get("space", {})
        for name, value in (("base", base), ("changes", changes), ("space", space)):
            if not isinstance(value, dict):
                raise ConfigurationError(f"{name!r} is {value!r}; it must be a mapping of settings")
        if named:
            # A list is one value here, and no axis.
            asked = {key: Grid([x]) if isinstance(x, list) else x for key, x in changes.items()}
            after = overridden(sweep, {**asked, **space})
            if "variants" in content:
                sweep = replace(sweep, base=after.base)
            else:
                sweep = after
                content.pop("space", None)
                changes = {}
        config = with_changes(sweep.base, {**_settings(base), **changes})
        sweep = _checked({**vars(sweep), **content, "base": config})
        for size in (sweep, *(resized(sweep, p) for p in (sweep.smoke, *sweep.presets.values()))):
            for line in variants_of(size):
                line.config(size.base, next(points(line.space)))
    return sweep


def _section(values: object) -> Any:
    """Return a section of a sweep's file as `Sweep` and `Preset` have it."""
    if not isinstance(values, dict):
        return values
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "lines":
            lines = isinstance(value, list)
            found["variants"] = [_section(each) for each in value] if lines else value
        elif name == "presets" and isinstance(value, dict):
            found[name] = {preset: _section(each) for preset, each in value.items()}
        elif name == "changes" and isinstance(value, dict):
            found[name] = _settings(value)
        elif name == "space" and isinstance(value, dict):
            found[name] = {
                key: each
                if isinstance(each, Axis)
                else Grid(each if type(each) is list else [each])
                for key, each in _settings(value).items()
            }
        elif isinstance(value, dict):
            found[name] = _section(value) if name != "base" else value
        else:
            found[name] = each_text(value, partial(_plain, name))
    return found


def _checked(values: Mapping[str, Any]) -> Sweep:
    try:
        return TypeAdapter(Sweep).validate_python(values)
    except ValidationError as error:
        unknown = "unexpected_keyword_argument"
        first = min(error.errors(include_url=False), key=lambda each: each["type"] != unknown)
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        path = "".join(parts).lstrip(".").replace("variants", "lines")
        if first["type"] == unknown:
            known = {field.name for kind in _SECTIONS for field in fields(kind)}
            hint = near_miss(path.rpartition(".")[2], {*known, "lines"} - {"variants"})
            if str(first["loc"][-1]).partition(".")[0] in fields_of(TrialConfig):
                hint = "settings of trials go under 'changes'"
            raise ConfigurationError(f"unknown key {path!r}; {hint}") from error
        raise ConfigurationError(f"{path!r} is {first['input']!r}: {first['msg']}") from error


def written(axis: Axis) -> Any:
    """Return an axis as files write it."""
    if isinstance(axis, Grid):
        return list(axis.values)
    kind = next(name for name, kind in AXES.items() if type(axis) is kind)
    return {kind: list(axis.values) if isinstance(axis, Choice) else [axis.low, axis.high]}
