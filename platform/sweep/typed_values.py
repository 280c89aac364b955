"""One setting at a time: a value as the type of its field has it, checked by OmegaConf.

A whole configuration takes OmegaConf 15 ms, and sweeps have hundreds that differ in a few values.

>>> from labeldp.trainers.performance import Performance
>>> as_typed(Performance, "precision", "bf16"), as_typed(Performance, "threads", "2")
(<Precision.BF16: 'bf16'>, 2)
"""

from collections.abc import Hashable
from dataclasses import make_dataclass
from functools import lru_cache
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

#: Values of these types are converted once: equal ones are the same value.
_PLAIN = (str, int, float, bool, type(None))


class ValueRefused(ValueError):
    """A value that its field can't have; the message goes on from `KEY is VALUE`."""


def as_typed(section: type, name: str, value: Any) -> Any:
    """Return a value as the type of a field has it.

    Args:
        section: The dataclass of settings.
        name: Of its field.
        value: As people or files give it; enums by member or by name.

    Raises:
        ValueRefused: It can't be had.
    """
    if type(value) in _PLAIN:
        return _remembered(section, name, value)
    return _converted(section, name, value)


@lru_cache(maxsize=4096, typed=True)
def _remembered(section: type, name: str, value: Hashable) -> Any:
    return _converted(section, name, value)


def _converted(section: type, name: str, value: Any) -> Any:
    alone: DictConfig = OmegaConf.structured(_alone(section, name))
    try:
        OmegaConf.update(alone, name, value, force_add=False)
        return getattr(OmegaConf.to_object(alone), name)
    except (OmegaConfBaseException, OverflowError) as error:
        # The node's own kind: OmegaConf knows of no type where an enum may be None and is.
        kind = getattr(alone._get_node(name), "enum_type", None)
        if kind is None:
            raise ValueRefused(f": {str(error).splitlines()[0]}") from error
        names = ", ".join(member.name.lower() for member in kind)
        raise ValueRefused(f"; it must be one of {names}") from error


@lru_cache(maxsize=1024)
def _alone(section: type, name: str) -> type:
    """A dataclass of this one field."""
    return make_dataclass(section.__name__, [(name, get_type_hints(section)[name])])
