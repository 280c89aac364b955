"""Settings, and what other packages add to labeldp.

Settings are frozen dataclasses that pydantic checks, each key with a default, bounds and a meaning.

A package adds methods and data sets by entry points, in its own pyproject.toml:

    [project.entry-points."labeldp.methods"]
    nearest_mean = "mypackage.nearest_mean:NearestMeanConfig"

    [project.entry-points."labeldp.data_sets"]
    corners = "mypackage.corners:CORNERS"

Once it is installed, in every process of every machine, the names work as those that come with
labeldp do. A package is imported when its name is used, and one that is broken breaks nothing
else.

>>> @settings
... class Example:
...     epsilon: Positive = key(1.0, "Privacy loss per label.")
>>> Example(epsilon=2)
Example(epsilon=2.0)
>>> Example(epsilon=-1.0)
Traceback (most recent call last):
    ...
labeldp.trainers.base.KeyRefused: epsilon is -1.0; it must be a finite number above 0
"""

import difflib
import functools
import sys
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

import pydantic.dataclasses
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

Value = TypeVar("Value")
Settings = TypeVar("Settings")
Thing = TypeVar("Thing")

# Strict: a text or `True` is never read as a number. A whole number in place of a float is.
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, lt=1)]
#: At least 0 and below 1, as momentum is.
Fraction = Annotated[float, Field(strict=True, ge=0, lt=1)]
#: At least 0 and at most 1.
Weight = Annotated[float, Field(strict=True, ge=0, le=1)]
Whole = Annotated[int, Field(strict=True, ge=0)]
#: Seeds of scikit-learn have 32 bits.
Seed = Annotated[int, Field(strict=True, ge=0, le=4_000_000_000)]
Count = Annotated[int, Field(strict=True, ge=1)]
Two = Annotated[int, Field(strict=True, ge=2)]
Flag = Annotated[bool, Field(strict=True)]
#: `data.classes=10` is the text "10"; 1.50 is refused, since its text would be "1.5": quote it.
Text = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
#: Begins the address of a network that is trained on a data set with public labels.
PRETRAINED = "pretrained:"


def _absolute(file: str) -> str:
    return file if file.startswith(PRETRAINED) else str(Path(file).expanduser().absolute())


#: A file by its absolute path, since a trial runs in another folder than the command; or such an
#: address, where one is allowed.
File = Annotated[str, AfterValidator(_absolute)]


_BOUNDS = ("gt", "ge", "lt", "le")
_NOUNS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


class KeyRefused(ValueError):
    """One key has a value that it cannot have; the message begins with the key."""


def key(default: Value, meaning: str) -> Value:
    """Return the default of a setting, with its meaning for `labeldp config` and the docs."""
    return Field(default, description=meaning)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def settings(section: type[Settings]) -> type[Settings]:
    """Make a class a frozen dataclass of keyword arguments that checks types and bounds.

    A `__post_init__` checks rules between keys. Errors are a `KeyRefused`, or what that raises.
    """
    decorate = pydantic.dataclasses.dataclass(
        frozen=True, kw_only=True, config=ConfigDict(extra="forbid")
    )
    made: Any = decorate(section)
    checked = made.__init__

    @functools.wraps(checked)
    def init(self: object, /, **values: Any) -> None:
        try:
            checked(self, **values)
        except ValidationError as error:
            raise _refusal(type(self), values, error) from None

    made.__init__ = init
    return cast(type[Settings], made)


def is_settings(kind: object) -> bool:
    """Return whether `settings` made this class, and not one that it inherits from."""
    return isinstance(kind, type) and "__pydantic_fields__" in vars(kind)


def fields_of(section: type) -> Mapping[str, FieldInfo]:
    """Return name -> annotation, default and meaning of every setting of a section."""
    return cast(Mapping[str, FieldInfo], vars(section)["__pydantic_fields__"])


def _refusal(section: type, values: Mapping[str, Any], error: ValidationError) -> ValueError:
    first = error.errors(include_url=False)[0]
    if first["type"] == "value_error":
        return cast(ValueError, first["ctx"]["error"])
    name = str(first["loc"][0])
    known = fields_of(section)
    if name not in known:
        return KeyRefused(
            f"{name} is not a setting of {section.__name__}; {near_miss(name, known)}"
        )
    return KeyRefused(f"{name} is {values.get(name)!r}; it must be {allowed(known[name]).in_words}")


@dataclass(frozen=True)
class Allowed:
    """Values that a setting can have: their type, and bounds of numbers."""

    type: str
    bounds: str

    @property
    def in_words(self) -> str:
        """Return both as an error names them: "a finite number above 0"."""
        kind, null, _ = self.type.partition(", or null")
        articles = {"number": "a finite ", "whole number": "a ", "list of numbers": "a "}
        noun = articles.get(kind, "one of " if ", " in kind else "") + kind
        comma = "" if self.bounds.startswith(("above", "below")) or not self.bounds else ","
        return f"{noun}{comma} {self.bounds}".strip() + null


def allowed(field: FieldInfo) -> Allowed:
    """Return the values that a field can have, read from its annotation."""
    nouns: list[str] = []
    bounds: dict[str, float] = {}
    _read(field.annotation, field.metadata, nouns, bounds)
    null = "null" in nouns
    named = " or ".join(dict.fromkeys(noun for noun in nouns if noun != "null"))
    low = bounds.get("gt", bounds.get("ge"))
    high = bounds.get("lt", bounds.get("le"))
    said = []
    if "gt" in bounds and "lt" in bounds:
        said = [f"strictly between {low:g} and {high:g}"]
    else:
        if low is not None:
            said.append(f"{'above' if 'gt' in bounds else 'at least'} {low:g}")
        if high is not None:
            said.append(f"{'below' if 'lt' in bounds else 'at most'} {high:g}")
    return Allowed(named + (", or null" if null else ""), " and ".join(said))


def _read(kind: Any, metadata: Iterable[Any], nouns: list[str], bounds: dict[str, float]) -> None:
    for each in metadata:
        for one in each.metadata if isinstance(each, FieldInfo) else [each]:
            bounds |= {name: getattr(one, name) for name in _BOUNDS if hasattr(one, name)}
    origin = get_origin(kind)
    if origin is Annotated:
        _read(kind.__origin__, kind.__metadata__, nouns, bounds)
    elif origin in (Union, UnionType):
        for member in get_args(kind):
            _read(member, (), nouns, bounds)
    elif origin is tuple:
        parts: list[str] = []
        _read(get_args(kind)[0], (), parts, bounds)
        nouns.append(f"list of {parts[0]}s")
    elif kind is NoneType:
        nouns.append("null")
    elif isinstance(kind, type) and issubclass(kind, Enum):
        nouns.append(one_of(member.value for member in kind))
    else:
        nouns.append(_NOUNS.get(kind, getattr(kind, "__name__", str(kind))))


def one_of(names: Iterable[str]) -> str:
    """Return names in words: "a, b or c"."""
    *some, last = names
    return f"{', '.join(some)} or {last}" if some else last


def near_miss(given: str, known: Iterable[str]) -> str:
    """Return a hint at the names of `known` that may have been meant."""
    names = list(known)
    # The right name in the wrong section comes before a name that only looks alike.
    last = given.rpartition(".")[2]
    same = [name for name in names if name.rpartition(".")[2] == last]
    close = difflib.get_close_matches(given, names, n=2, cutoff=0.5)
    meant = list(dict.fromkeys([*same, *close]))[:4]
    if meant:
        return f"did you mean {' or '.join(meant)}?"
    return f"known are {', '.join(names)}"


def check_name(known: Iterable[str], **values: object) -> None:
    """Refuse a value that is none of these names, with a hint at those that may be meant."""
    names = list(known)
    for name, value in values.items():
        if value not in names:
            raise ValueError(f"{name} is {value!r}; {near_miss(str(value), names)}")


class ModelName(StrEnum):
    """The network; `width` has its own meaning in each.

    MLP: one hidden layer of `width` units (512). SMALL_CNN: two convolutions of `width` (16) and
    twice as many channels. FAST_CNN: `width` (64) channels in the first block and four times as
    many in the others; 32 is half of it. RESNET18 and RESNET18_V2 (activated before convolutions):
    `width` (64) channels at first. INCEPTION, for images of 28 x 28: likewise (96). WIDE_RESNET28:
    widening factor `width` (4; the papers take 8 on CIFAR-100). TWO_BRANCH: embeddings of `width`
    (16).
    """

    MLP = "mlp"
    SMALL_CNN = "small_cnn"
    FAST_CNN = "fast_cnn"
    RESNET18 = "resnet18"
    RESNET18_V2 = "resnet18_v2"
    INCEPTION = "inception"
    WIDE_RESNET28 = "wide_resnet28"
    TWO_BRANCH = "two_branch"

    @property
    def default_width(self) -> int:
        """The width that None stands for."""
        widths = {
            "mlp": 512,
            "small_cnn": 16,
            "fast_cnn": 64,
            "resnet18": 64,
            "resnet18_v2": 64,
            "inception": 96,
            "wide_resnet28": 4,
            "two_branch": 16,
        }
        return widths[self.value]

    @property
    def needs_images(self) -> bool:
        """Whether the network convolves, and cannot take tabular features [B, D]."""
        return self not in (ModelName.MLP, ModelName.TWO_BRANCH)


class FeatureSet(StrEnum):
    """Features that models see: those of the set AS_THEY_ARE, or others that need no labels.

    PATCHES are k-means features of images; RANDOM_PATCHES features of photographs, whose mirror
    images must be as good as they are. Of tables both are standardized columns.
    """

    AS_THEY_ARE = "as_they_are"
    PATCHES = "patches"
    RANDOM_PATCHES = "random_patches"


class ExtensionError(ValueError):
    """Another package's addition that can't be used; the message names it and the package."""


class Registry(UserDict[str, Thing]):
    """Name -> thing: those that come with labeldp, then those that other packages add.

    What is set is so in this process alone.
    """

    def __init__(
        self,
        own: Mapping[str, Thing],
        *,
        group: str,
        kind: str,
        wrong: Callable[[str, Any], str | None],
    ) -> None:
        """Start with those of labeldp; they keep their names, whatever a package calls its own.

        `group` is that of the entry points, `kind` a noun for messages. `wrong` describes the error
        in a name and the thing that a package adds by it; None if there is none.
        """
        super().__init__(own)
        self._group = group
        self._kind = kind
        self._wrong = wrong

    def __missing__(self, name: str) -> Thing:
        """Return another package's, which is imported now; ExtensionError if it can't be used."""
        found = self._added()[name]
        brought_by = sorted({_package(point) for point in found})
        if len(found) > 1:
            raise ExtensionError(
                f"{self._kind} {name!r} is added by {' and by '.join(brought_by)}; uninstall all "
                "but one of them"
            )
        (point,) = found
        where = f"{self._kind} {name!r} comes from package {brought_by[0]} ({point.value})"
        try:
            thing: Thing = point.load()
        except Exception as error:  # whatever another package's import may raise
            raise ExtensionError(
                f"{where}, which can't be imported: {type(error).__name__}: {error}; repair or "
                "uninstall that package; everything else works without it"
            ) from error
        wrong = self._wrong(name, thing)
        if wrong is not None:
            raise ExtensionError(f"{where}, but {wrong}; see docs/extending.md")
        return thing

    def __contains__(self, name: object) -> bool:
        """Whether somebody has one of that name; nothing is imported."""
        return name in self.data or name in self._added()

    def __iter__(self) -> Iterator[str]:
        """Names, those of labeldp first; nothing is imported."""
        yield from self.data
        yield from (name for name in self._added() if name not in self.data)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def added(self) -> dict[str, str]:
        """Name -> package, of what other packages add; nothing is imported."""
        return {
            name: ", ".join(sorted({_package(point) for point in points}))
            for name, points in self._added().items()
        }

    def _added(self) -> dict[str, tuple[EntryPoint, ...]]:
        return _entry_points(self._group, tuple(sys.path))


def _package(point: EntryPoint) -> str:
    return "of no name" if point.dist is None else point.dist.name


@functools.lru_cache(maxsize=8)
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Additions of installed packages; `path` is where they lie, and another one is read anew."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=group):
        # One package may lie on the path twice, as an installed and as an editable one.
        same = [p for p in found.get(point.name, ()) if _package(p) == _package(point)]
        if not same:
            found[point.name] = (*found.get(point.name, ()), point)
    return found
