"""typed_values: one value is what it would be in a whole configuration."""

from dataclasses import dataclass
from typing import Any

import pytest
from omegaconf import OmegaConf

from labeldp.platform.sweep.configuration import DataSettings
from labeldp.platform.sweep.data_settings import FeatureSet
from labeldp.platform.sweep.typed_values import ValueRefused, as_typed
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.settings.lp_mst import LpMstConfig


@dataclass(frozen=True)
class Settings:
    """A field of each kind there is."""

    share: float = 0.5
    count: int = 1
    name: str = ""
    on: bool = False
    weight: float | None = None
    splits: tuple[float, ...] | None = None
    sizes: list[int] | None = None
    features: FeatureSet = FeatureSet.AS_THEY_ARE
    hold_out: HoldOut | None = None
    anything: Any = None


GIVEN = {
    "share": (1, "0.25", 0.5, True, "1e-3", "nan"),
    "count": ("3", 4, 4.0, 4.5, True),
    "name": (1, "x", None),
    "on": ("yes", "off", 1, 0.5),
    "weight": (None, 1, "null", "2"),
    "splits": ((0.5, 1), [1, 0], None, "ab", (1, 0)),
    "sizes": ([1, 2], (3, 4), None, ["x"]),
    "features": ("patches", "PATCHES", FeatureSet.PATCHES, "no such", None),
    "hold_out": ("public", HoldOut.NONE, None, "some"),
    "anything": (1, "x", None, [1, "x"]),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, given in GIVEN.items() for value in given],
    ids=repr,
)
def test_a_field_alone_is_what_it_is_in_its_section(name: str, value: Any) -> None:
    tree = OmegaConf.structured(Settings)
    OmegaConf.set_readonly(tree, None)
    try:
        OmegaConf.update(tree, name, value, force_add=False)
        wanted = getattr(OmegaConf.to_object(tree), name)
    except Exception:
        with pytest.raises(ValueError):
            as_typed(Settings, name, value)
        return
    for _ in range(2):  # computed, and remembered
        found = as_typed(Settings, name, value)
        assert repr(found) == repr(wanted) and type(found) is type(wanted)


def test_equal_numbers_of_other_types_are_not_mixed_up() -> None:
    assert [repr(as_typed(Settings, "anything", value)) for value in (1, 1.0, True)] == [
        "1",
        "1.0",
        "True",
    ]


def test_refusals_say_what_is_possible() -> None:
    with pytest.raises(ValueRefused, match="it must be one of public, none"):
        as_typed(DataSettings, "hold_out", "some")
    with pytest.raises(ValueRefused, match="could not be converted to Float"):
        as_typed(LpMstConfig, "epsilon", "much")
