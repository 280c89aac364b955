"""Objects that are written as plain values and arrays, and read back without code."""

from collections.abc import Mapping
from dataclasses import MISSING as REQUIRED
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray


class Stored:
    """A dataclass that is written as plain values and arrays, and read back without code.

    `kind` names it in files. A field may be a tuple of others.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type["Stored"]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Stored._kinds[cls.kind] = cls

    def described(self) -> dict[str, Any]:
        """Return its kind and the fields that are not arrays, as values that JSON has."""
        plain = {name: of for name, of in vars(self).items() if not hasattr(of, "__array__")}
        return {"kind": self.kind, **{name: _plain(of) for name, of in plain.items()}}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields that are arrays by name, those of others below their places."""
        found: dict[str, NDArray[Any]] = {}
        for name, of in vars(self).items():
            if hasattr(of, "__array__"):
                found[name] = np.asarray(of).copy(order="C")
            for place, part in enumerate(of if isinstance(of, tuple) else ()):
                if isinstance(part, Stored):
                    inner = part.arrays().items()
                    found |= {f"{name}.{place}.{its}": array for its, array in inner}
        return found

    @classmethod
    def restored(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the object of this class that `described` and `arrays` were taken of.

        Raises a KeyError, RuntimeError, TypeError or ValueError where they don't fit each other.
        """
        known = {name: kind for name, kind in Stored._kinds.items() if issubclass(kind, cls)}
        if described["kind"] not in known:
            raise ValueError(
                f"{described['kind']!r} is not a kind of {cls.__name__}; this version knows "
                f"{', '.join(known)}"
            )
        return known[described["kind"]]._made(described, arrays)

    @classmethod
    def _made(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        given: dict[str, Any] = {}
        for each in fields(cls):  # type: ignore[arg-type]
            if each.name not in {*arrays, *described} and each.default is not REQUIRED:
                continue  # of a version before this field
            of = arrays[each.name] if each.name in arrays else described[each.name]
            if isinstance(of, list):
                of = tuple(
                    Stored.restored(part, below(arrays, f"{each.name}.{place}"))
                    if isinstance(part, Mapping)
                    else part
                    for place, part in enumerate(of)
                )
            given[each.name] = of
        return cls(**given)


def _plain(value: object) -> Any:
    if isinstance(value, Stored):
        return value.described()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def below(arrays: Mapping[str, Any], start: object) -> dict[str, Any]:
    """Return the arrays whose names begin with `start` and a dot, by the rest of their names."""
    begin = f"{start}."
    return {
        name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)
    }


class Step(Stored):
    """A transformation of rows, fitted on training rows.

    The first step of a preprocessing takes rows as people have them, each further one the output of
    the step before it.
    """

    def __call__(self, rows: Any) -> Any:
        """Return the rows after this step."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        raise NotImplementedError
