"""Checks of arguments, and NumPy arrays and torch tensors as one kind of input.

Messages name the parameter, its value, the bound, and a way out. The scalar checks take keyword
arguments, so that a message carries the caller's own name:

>>> positive(epsilon=-1.0)
Traceback (most recent call last):
    ...
ValueError: epsilon is -1.0; it must be a finite number above 0

torch takes seconds to import, which accounting and the command line must not pay for. An object can
be a tensor only if torch has been imported already, so a look into `sys.modules` is enough.
"""

import math
import numbers
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import Enum
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import torch


Floats = NDArray[np.float64]
Array = Union[NDArray[Any], "torch.Tensor"]
AnyArray = TypeVar("AnyArray", NDArray[Any], "torch.Tensor")
Inputs = ParamSpec("Inputs")
Result = TypeVar("Result")

#: The epsilons of a mechanism: e^500 limits no attacker, and e^710 overflows. Below the least one,
#: noise leaves the scales below, and no label is recognized in a million.
LEAST_EPSILON = 2e-6
MOST_EPSILON = 500
#: The scales of noise that samplers draw as it is priced. Of real numbers on a lattice: up to here
#: sums of noise and values below 2^32 are exact in double precision. Of whole numbers: their tails
#: stay below 2^53.
LEAST_SCALE = 1e-9
LARGEST_SCALE = 2.0**20
LARGEST_WHOLE_SCALE = 2.0**46


def plain(value: Any, hint: object = float) -> Any:
    """Return a parameter with Python's own numbers, so that equal ones are written alike.

    1, 1.0 and NumPy's kinds of it are one number, and so are 0.0 and -0.0: a float, or a whole
    number where a field is declared (`hint`) to hold no others. Other values stay as they are.
    """
    if type(value) in (list, tuple):
        return type(value)(plain(item, hint) for item in value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, bool | Enum | np.timedelta64) or not isinstance(value, numbers.Real):
        return value  # a timedelta64 is an integer to NumPy
    exact: Any = value
    try:
        real = float(exact) + 0.0
    except OverflowError:  # a whole number of hundreds of digits
        return value
    kinds = _kinds(str(hint))
    lost = isinstance(value, numbers.Integral) and real != exact
    whole = real.is_integer() if kinds else lost
    return int(exact) if whole and "float" not in kinds else real


@cache
def _kinds(hint: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b(float|u?int|Integral)\d*\b", hint))


def plain_fields(thing: Any) -> None:
    """Give a new dataclass the plain numbers of what it was made with (`plain`)."""
    for entry in fields(thing):
        object.__setattr__(thing, entry.name, plain(getattr(thing, entry.name), entry.type))


def plain_numbers(function: Callable[Inputs, Result]) -> Callable[Inputs, Result]:
    """Let a function calculate with Python's own numbers where it is given NumPy's."""

    def own(value: object) -> Any:
        return plain(value, type(value)) if isinstance(value, np.generic) else value

    @wraps(function)
    def called(*values: Inputs.args, **named: Inputs.kwargs) -> Result:
        return function(*map(own, values), **{name: own(named[name]) for name in named})

    return called


def blocks(rows: int, width: int, *, entries: int) -> Iterator[slice]:
    """Yield slices of the rows of a matrix, of about so many entries: memory stays the same."""
    height = max(1, entries // width)
    for start in range(0, rows, height):
        yield slice(start, start + height)


def is_torch(values: ArrayLike) -> bool:
    """Whether `values` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def as_numpy(values: Any) -> NDArray[Any]:
    """Return `values` as a NumPy array; tensors are detached and brought to the CPU."""
    if is_torch(values):
        values = values.detach().cpu()
        # NumPy has no bfloat16.
        return np.asarray(values.float() if str(values.dtype) == "torch.bfloat16" else values)
    return np.asarray(values)


def like(result: Any, example: AnyArray) -> AnyArray:
    """Return `result` in the kind of `example`: a tensor on its device, or the array itself."""
    if is_torch(example):
        torch = sys.modules["torch"]
        result = torch.from_numpy(np.ascontiguousarray(result)).to(example.device)
    answer: AnyArray = result
    return answer


def number(**values: float) -> None:
    """Refuse anything that is not a real number (booleans, strings, None, NaN)."""
    for name, value in values.items():
        odd = isinstance(value, bool | np.bool_ | np.timedelta64)
        if odd or not isinstance(value, numbers.Real):
            raise ValueError(f"{name} is {value!r}; it must be a number")
        try:
            missing = math.isnan(value)
        except OverflowError:  # a whole number of hundreds of digits, which are not shown
            raise ValueError(
                f"{name} is beyond the numbers of double precision, which end at "
                f"{sys.float_info.max:.1e}; give a smaller one"
            ) from None
        if missing:
            raise ValueError(f"{name} is NaN; it must be a number")


def drawable(*, most: float = LARGEST_SCALE, **scales: float) -> None:
    """Refuse noise that no sampler draws as it is priced.

    Above `most` it leaves the range of its numbers: it saturates and cancels, or loses its last
    digits and shows those of the value beneath.
    """
    positive(infinity=False, **scales)
    for name, value in scales.items():
        if not LEAST_SCALE <= value <= most:
            few = value < LEAST_SCALE
            fix = (
                "lower epsilon, or raise the noise" if few else "raise epsilon, or lower the noise"
            )
            raise ValueError(
                f"{name} is {value!r}; noise is drawn as it is priced from {LEAST_SCALE:g} to "
                f"{most:.6g} only, and no label is {'hidden' if few else 'found'} beyond: {fix}"
            )


def positive(*, infinity: bool = False, **values: float) -> None:
    """Refuse values that are not above 0; infinite ones too, unless `infinity` allows them.

    An `epsilon` that must be finite is a mechanism's. It is at least `LEAST_EPSILON`, or its noise
    could not be drawn, and at most `MOST_EPSILON`: exponentials of larger ones overflow, and so do
    totals of what was already paid.
    """
    number(**values)
    for name, value in values.items():
        if not value > 0 or (math.isinf(value) and not infinity):
            kind = "a number" if infinity else "a finite number"
            raise ValueError(f"{name} is {value!r}; it must be {kind} above 0")
        if name == "epsilon" and value > MOST_EPSILON and not infinity:
            raise ValueError(
                f"epsilon is {value!r}; it must be at most {MOST_EPSILON}: usual values are 0.1 to "
                "10, and far larger ones protect nothing. To train without noise, take the method "
                "'no_privacy' (in a sweep trainer.noise=none)"
            )
        if name == "epsilon" and value < LEAST_EPSILON and not infinity:
            raise ValueError(
                f"epsilon is {value!r}; it must be at least {LEAST_EPSILON:g}: with less, noise "
                "leaves the range of the numbers that it is drawn as. Usual values are 0.1 to 10; "
                "raise it, or share it among fewer releases"
            )


def non_negative(**values: float) -> None:
    """Refuse values below 0 and infinite ones."""
    number(**values)
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value!r}; it must be a finite number, 0 or above")


def between(low: float, high: float, **values: float) -> None:
    """Refuse values outside the open interval (low, high)."""
    number(**values)
    for name, value in values.items():
        if not low < value < high:
            raise ValueError(f"{name} is {value!r}; it must lie strictly between {low} and {high}")


def delta(value: float, name: str = "delta") -> None:
    """Refuse a probability outside [0, 1)."""
    number(**{name: value})
    if not 0 <= value < 1:
        raise ValueError(
            f"{name} is {value}; it must lie in [0, 1): far below 1/N, or 0 for pure guarantees"
        )


def whole(*, minimum: int = 0, **values: int) -> None:
    """Refuse anything that is not a whole number of at least `minimum`."""
    for name, value in values.items():
        if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
            raise ValueError(f"{name} is {value!r}; it must be a whole number")
        if value < minimum:
            raise ValueError(f"{name} is {value}; it must be at least {minimum}")


def labels(
    values: Array | Any, *, num_classes: int, name: str = "labels", secret: bool = False
) -> NDArray[np.int64]:
    """Return class labels as int64 [N], or name the entry that is not a whole number in 0..K-1.

    Messages about `secret` labels show none of them.
    """
    array = as_numpy(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be one-dimensional")
    if array.size == 0:
        raise ValueError(f"{name} is empty; at least one label is needed")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} is of type {array.dtype}; labels must be whole numbers 0..{num_classes - 1} "
            "(convert them with .astype(int) if they are)"
        )
    outside = np.flatnonzero((array < 0) | (array >= num_classes))
    if outside.size:
        first = outside[0]
        value = "not one of the classes" if secret else array[first]
        raise ValueError(
            f"{name}[{first}] is {value}; with {num_classes} classes labels must lie in "
            f"0..{num_classes - 1} ({outside.size} of {array.size} do not)"
        )
    return array.astype(np.int64)


def probabilities(
    values: Array | Any, *, name: str, num_classes: int | None = None, tolerance: float = 1e-4
) -> NDArray[np.float64]:
    """Return rows of probabilities as float64 [N, K], or name the first row that is not one.

    A sum may miss 1 by `tolerance` (single precision leaves 1e-6), an entry may be a hundredth of
    it below 0.
    """
    given = as_numpy(values)
    if np.iscomplexobj(given):
        raise ValueError(f"{name} holds complex numbers; every row must hold probabilities")
    array = given.astype(np.float64)
    if array.ndim != 2 or (num_classes is not None and array.shape[1] != num_classes):
        wanted = "[N, K]" if num_classes is None else f"[N, {num_classes}]"
        raise ValueError(f"{name} has shape {array.shape}; it must be {wanted}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty; at least one row is needed")
    valid = np.isfinite(array).all(1) & (array >= -tolerance / 100).all(1)
    valid &= np.abs(array.sum(1) - 1) <= tolerance
    if not valid.all():
        row = int(np.flatnonzero(~valid)[0])
        raise ValueError(
            f"{name} row {row} is {np.array2string(array[row], precision=4, threshold=8)}, with "
            f"sum {array[row].sum():.6g}; every row must hold probabilities that sum to 1"
        )
    return np.clip(array, 0.0, 1.0)


def same_length(**lengths: int) -> None:
    """Refuse inputs that belong together row by row and differ in their numbers of rows."""
    (first, rows), *others = lengths.items()
    for name, other in others:
        if other != rows:
            raise ValueError(
                f"{first} has {rows} rows and {name} {other}; they belong together row by row, so "
                "give as many of each"
            )


def checked_votes(votes: ArrayLike, *, name: str = "votes") -> NDArray[np.integer[Any]]:
    """Return votes of one ensemble as whole numbers [N, K], or raise a ValueError with the row.

    PATE's proofs rest on one fact: a label belongs to one teacher, and a teacher casts one vote per
    query. Another label therefore moves at most one vote of every query. Other counts are refused.
    """
    array = counts_matrix(votes, name)
    refuse_entries((array < 0).any(axis=1), array, name, "no count may be negative")
    if not np.issubdtype(array.dtype, np.integer):
        fractional = (array != np.floor(array)).any(axis=1)
        refuse_entries(fractional, array, name, "no count may be fractional: every vote is whole")
        if array.max() > 2**53:
            raise ValueError(f"{name} holds {array.max()}; counts above 2**53 are not exact")
        array = array.astype(np.int64)
    sums = array.sum(axis=1, dtype=np.int64)
    if sums[0] == 0:
        raise ValueError(f"{name} row 0 holds no vote; at least one teacher must vote")
    bad = np.flatnonzero(sums != sums[0])
    if bad.size:
        raise ValueError(
            f"{name} row {bad[0]} sums to {sums[bad[0]]}, row 0 to {sums[0]}; every teacher casts "
            "exactly one vote per query"
        )
    return array


def enough_queries(max_answers: int, queries: int) -> None:
    """Refuse more answers than there are queries, and less than one."""
    whole(minimum=1, max_answers=max_answers)
    if max_answers > queries:
        raise ValueError(
            f"max_answers is {max_answers}, but there are only {queries} queries; request fewer "
            "answers, or let teachers vote on more queries"
        )


def checked_counts(counts: ArrayLike) -> NDArray[Any]:
    """Return the counts that a threshold is compared with [N, K].

    Integers must be votes. Floats are votes less a student's guess (Interactive-GNMax), and may be
    fractional and negative.
    """
    array = counts_matrix(counts, "votes")
    return checked_votes(array) if np.issubdtype(array.dtype, np.integer) else array


def checked_mask(answered: object, queries: int) -> NDArray[np.bool_]:
    """Return whether each query was answered [N], or raise a ValueError."""
    mask = as_numpy(answered)
    if mask.dtype != np.bool_ or mask.shape != (queries,):
        raise ValueError(
            f"answered has type {mask.dtype} and shape {mask.shape}; it must be bool [{queries}], "
            "True where a query was answered (labels != -1)"
        )
    return mask


def counts_matrix(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return counts by query and class [N, K], whole or not, finite; or raise a ValueError."""
    array = as_numpy(values)
    kind = array.dtype
    if kind == np.bool_ or not np.issubdtype(kind, np.number) or np.iscomplexobj(array):
        raise ValueError(f"{name} is of type {kind}; it must hold counts of votes")
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}; it must be [N, K], a row per query and a column per "
            f"class (a single query is {name}[None, :])"
        )
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty; at least one query is needed")
    if array.shape[1] < 2:
        raise ValueError(f"{name} has {array.shape[1]} class; at least two are needed")
    if not np.issubdtype(kind, np.integer):
        missing = ~np.isfinite(array).all(axis=1)
        refuse_entries(missing, array, name, "no count may be NaN or infinite")
    return array


def refuse_entries(bad: Any, array: NDArray[Any], name: str, rule: str) -> None:
    """Name the first entry [N], or row [N, K], that is `bad` [N], and the rule that it breaks."""
    if bad.any():
        place = int(bad.argmax())
        where = f"{name}[{place}]"
        shown = str(array[place])
        if array.ndim > 1:
            where = f"{name} row {place}"
            shown = np.array2string(array[place], precision=6, threshold=8)
        raise ValueError(f"{where} is {shown}; {rule}")


def whole_maximum(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Largest count of every row, to the nearest whole number, halves up [N].

    One vote moves a rounded maximum by at most 1. Rounding halves to even would break that: 0.5 and
    1.5 would go to 0 and 2.
    """
    peak: NDArray[np.float64] = counts.max(axis=1).astype(np.float64)
    return peak if np.issubdtype(counts.dtype, np.integer) else np.asarray(np.floor(peak + 0.5))


def row_of(
    values: ArrayLike, name: str, good: Callable[[NDArray[np.float64]], Any], rule: str
) -> NDArray[np.float64]:
    """Return values as float64 [N], or raise a ValueError with the first that breaks the rule."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; it must be a row of at least one number")
    refuse_entries(~good(array), array, name, rule)
    return array


def checked_orders(orders: ArrayLike) -> NDArray[np.float64]:
    """Return Renyi orders as float64 [A], or raise a ValueError with the one out of range."""
    rule = "every Renyi order must be finite and above 1"
    return row_of(orders, "orders", lambda each: (each > 1) & np.isfinite(each), rule)


def checked_noise(**values: float) -> None:
    """Refuse noise that is not a number, not above 0, or beyond what doubles can square."""
    positive(infinity=False, **values)
    between(1e-100, 1e100, **values)
