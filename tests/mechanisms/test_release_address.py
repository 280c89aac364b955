"""Addresses differ by all parameters and their types; lines are known by a class's fields."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from enum import Enum
from itertools import combinations
from typing import Annotated, Any, ClassVar, NewType

import numpy as np
import pytest

from labeldp.mechanisms.accounting import GaussianMechanism, PureEvent, epsilon_of
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.amounts import AmountChannel, AmountSums
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from labeldp.mechanisms.pate.releases import NeighborAnswers, PateAnswers, PublishedCost
from labeldp.mechanisms.randomized_response import NoNoise, PublishedClasses, RandomizedResponse
from labeldp.mechanisms.randomness import NoiseSource, OsEntropy, SeededNoise
from labeldp.mechanisms.release_store import address, describe, is_of, read_event, write_event
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.test_declared_failures import every_mechanism
from tests.mechanisms.test_mechanisms import MECHANISMS as ON_LABELS
from tests.mechanisms.test_mechanisms import OTHERS
from tests.source_tree import modules


def address_of(mechanism: object, noise: NoiseSource) -> str:
    return address("ab", describe(mechanism, noise), None, ())


def answers(aggregator: Any) -> PateAnswers:
    return PateAnswers(aggregator=aggregator, queries=100, max_answers=50)


CONFIDENT = ConfidentGNMax(threshold=200.0, sigma1=150.0, sigma2=40.0)
INTERACTIVE = InteractiveGNMax(threshold=200.0, sigma1=150.0, sigma2=40.0, confidence=0.9)


def test_types_without_a_record_are_described_by_their_fields() -> None:
    known: tuple[Any, ...] = (LNMax, GNMax, ConfidentGNMax, InteractiveGNMax)
    assert set(known) == {kind for kind in kinds_of_ours() if "recorded_without_type" in vars(kind)}
    for one, other in combinations(known, 2):
        assert {entry.name for entry in fields(one)} != {entry.name for entry in fields(other)}


def test_no_other_type_of_that_name_or_descent_passes_for_one_of_them() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Louder(GNMax):
        """Answers otherwise."""

    namesake = make_dataclass("GNMax", ["noise_std"], frozen=True, kw_only=True)
    ours = answers(GNMax(noise_std=40.0))
    addresses = {
        address_of(replace(ours, aggregator=kind(noise_std=40.0)), OsEntropy())
        for kind in (GNMax, Louder, namesake)
    }
    assert len(addresses) == 3
    scalar: Any = np.int64(ours.queries)
    assert address_of(replace(ours, queries=scalar), OsEntropy()) in addresses
    several: list[Any] = [(1.0, 2.0), (2.0, 1.0), (1.0,), {"a": 1.0}, {"a": 2.0}]
    assert len({address_of(NoiseAlone(scales=each), OsEntropy()) for each in several}) == 5
    keys: Any = {1: 1.0}
    with pytest.raises(TypeError, match="use text for its keys"):
        describe(NoiseAlone(scales=keys), OsEntropy())


def test_addresses_stay_as_they_are() -> None:
    """Else a sweep that continues would draw its releases again, and pay for them."""
    described = describe(RandomizedResponse(epsilon=1.0, num_classes=3), SeededNoise(seed=1))
    assert (
        address("ab", described, np.arange(3), (np.ones(2),)) == "7a289a678215c8adea220b2983d03d74"
    )


def kinds_of_ours() -> set[type]:
    every = (kind for module in modules("mechanisms") for kind in vars(module).values())
    return {kind for kind in every if isinstance(kind, type)}


def published_cost() -> PublishedCost:
    cost = PublishedCost.of(answers(CONFIDENT), teachers=100, classes=10, delta=1e-5)
    assert cost is not None
    return cost


MECHANISMS = [
    *(case.make(1.0) for case in ON_LABELS.values()),
    *(mechanism for mechanism, *_ in OTHERS),
    *(kind(num_classes=3) for kind in (NoNoise, PublishedClasses)),
    *(answers(each) for each in (LNMax(scale=2.0), GNMax(noise_std=2.0), CONFIDENT, INTERACTIVE)),
    NeighborAnswers(aggregator=CONFIDENT, queries=100, max_answers=50, queries_per_label=5),
    published_cost(),
]


def one_field_changed(thing: Any) -> Iterator[tuple[str, Any]]:
    """The same with another value in one field, nested ones too, whether or not it makes sense."""
    for entry in fields(thing):
        value = getattr(thing, entry.name)
        if is_dataclass(value):
            others = list(one_field_changed(value))
        elif isinstance(value, Enum):
            others = [("", each) for each in type(value) if each is not value]
        else:
            others = [("", 1.5 if value is None else 2 * value + 1)]
        for inner, other in others:
            changed = copy.copy(thing)
            object.__setattr__(changed, entry.name, other)
            yield f"{entry.name}.{inner}", changed


def test_every_mechanism_has_another_address_for_any_field_that_is_changed() -> None:
    assert {type(each) for each in MECHANISMS} == set(every_mechanism())
    for mechanism in MECHANISMS:
        for noise in (OsEntropy(), SeededNoise(seed=3, draw=1)):
            before = address_of(mechanism, noise)
            for name, changed in one_field_changed(mechanism):
                assert address_of(changed, noise) != before, (type(mechanism).__name__, name)
            assert address_of(mechanism, OsEntropy(draw=7)) != before


@pytest.mark.parametrize("field", ["noise", "name"])
def test_a_field_that_a_description_has_no_room_for_is_refused(field: str) -> None:
    strange: Any = make_dataclass("Strange", [field], frozen=True, kw_only=True)(**{field: 1.0})
    with pytest.raises(TypeError, match=f"Strange has a field called '{field}'.*rename the field"):
        describe(strange, OsEntropy())
    with pytest.raises(TypeError, match="rename the field"):
        describe(GNMax(noise_std=1.0), strange)


@dataclass(frozen=True, kw_only=True)
class NoiseAlone:
    """Noise as it is drawn, whatever the labels and public inputs are."""

    scales: tuple[float, ...] = (1.0,)

    failure_probability: ClassVar[float] = 0.0

    @property
    def event(self) -> PureEvent:
        return PureEvent(epsilon=0.5)

    def release(self, labels: Any, *public: Any, generator: np.random.Generator) -> Any:
        return generator.normal(size=4)


ONES, STEPS = np.ones(4, dtype=np.int64), np.arange(4)
REQUESTS: list[tuple[tuple[Any, ...], Any]] = [
    ((), None),
    ((), np.arange(4)),
    ((), np.arange(4, 8)),
    ((ONES,), None),
    ((STEPS,), None),
    ((STEPS[::-1],), None),
    ((ONES, STEPS), None),
    ((STEPS, ONES), None),
    ((STEPS.astype(np.int32),), None),
    ((STEPS.astype(np.float64),), None),
    ((STEPS.reshape(2, 2),), None),
    ((np.zeros(1),), None),
    ((-np.zeros(1),), None),
    ((np.zeros(1, dtype=np.int64),), None),
]


@pytest.mark.parametrize("noise", [OsEntropy(), SeededNoise(seed=1)])
def test_other_public_inputs_or_labels_make_another_release_with_other_noise(
    noise: NoiseSource,
) -> None:
    vault = LabelVault(labels=np.arange(8) % 2, num_classes=2)
    found = [
        vault.release(NoiseAlone(), *public, indices=indices, noise=noise)
        for public, indices in REQUESTS
    ]
    assert len({each.key for each in found}) == len(vault.charges()) == len(REQUESTS)
    assert len({each.values.tobytes() for each in found}) == len(REQUESTS)
    assert vault.epsilon(delta=0.0) == 0.5 * (len(REQUESTS) - 1)  # two are of different labels


@pytest.mark.parametrize("name", ["LaplaceNoise", "PateAnswers", "AmountSums"])
def test_a_namesake_of_a_mechanism_of_ours_is_refused(name: str) -> None:
    """It would be reported, published and audited as Laplace noise."""
    namesake = type(name, (NoiseAlone,), {"__module__": __name__})
    vault = LabelVault(labels=np.arange(8) % 2, num_classes=2)
    with pytest.raises(TypeError, match=rf"test_release_address\.{name} has the name of a cla"):
        vault.release(namesake())
    assert len(vault.charges()) == 0


@pytest.mark.parametrize("kind", [object, [("a", "<i4"), ("b", "<f4")]])
def test_inputs_whose_bytes_do_not_tell_their_content_are_refused(kind: Any) -> None:
    vault = LabelVault(labels=np.arange(8) % 2, num_classes=2)
    with pytest.raises(TypeError, match="bytes do not identify its content"):
        vault.release(NoiseAlone(), np.zeros(2, dtype=kind))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_our_own_are_known_before_and_after_they_are_written(mechanism: Any) -> None:
    described = describe(mechanism, OsEntropy())
    for each in (described, json.loads(json.dumps(described))):
        kinds = {type(one) for one in MECHANISMS}
        assert [kind for kind in kinds if is_of(kind, each)] == [type(mechanism)]
        assert not is_of(type(mechanism), {**each, "note": 1.0})
        field = next(name for name in each if name not in ("name", "noise"))
        assert not is_of(type(mechanism), {key: each[key] for key in each if key != field})
        for other in ("4711", [1.0], True):
            assert not is_of(type(mechanism), {**each, field: other})
    assert not is_of(type(mechanism), {}) and not is_of(type(mechanism), {"name": each["name"]})


@pytest.mark.parametrize(("kind", "known"), [("unbiased", True), ("4711", False)])
def test_only_members_of_an_enumeration_are_known(kind: str, known: bool) -> None:
    assert is_of(AmountChannel, {"name": "AmountChannel", "epsilon": 1.0, "kind": kind}) is known


def test_fields_inside_fields_are_checked_too() -> None:
    described = describe(answers(GNMax(noise_std=2.0)), OsEntropy())
    typed = {"type": "GNMax", "parameters": {"noise_std": 2.0}}
    assert is_of(PateAnswers, {**described, "aggregator": typed})
    for inside in (
        {"noise_std": 2.0, "patient": 4711.0},
        {"type": "OtherMax", "parameters": {"noise_std": 2.0}},
        {"type": "GNMax", "parameters": {"noise_std": "4711"}},
        {"type": "GNMax", "parameters": [4711.0]},
        "GNMax",
    ):
        assert not is_of(PateAnswers, {**described, "aggregator": inside})


Unknown = Any


def of_kind(hint: Any) -> type:
    made = {"__annotations__": {"epsilon": hint}, "__module__": __name__}
    return dataclass(frozen=True, kw_only=True)(type("HighOrLow", (), made))


ONE_AND_ITS_LIKE: tuple[Any, ...] = (
    1,
    1.0,
    np.float32(1),
    np.float16(1),
    np.int64(1),
    np.uint8(1),
    np.longdouble(1),
)


@pytest.mark.parametrize(
    "hint",
    [
        *("float", "float | None", "Epsilon", "Unknown", "typing.Any"),  # as text
        *(float, float | None, Annotated[float, "loss"], np.float64, Any, object, float | int),
        *(NewType("Epsilon", float), int, "int", int | None, "int | None", np.int64),
    ],
)
def test_equal_numbers_have_one_address_however_they_are_declared(hint: Any) -> None:
    kind = of_kind(hint)
    whole = "int" in str(hint) and "float" not in str(hint)
    written = {
        json.dumps(describe(kind(epsilon=one), OsEntropy())["epsilon"]) for one in ONE_AND_ITS_LIKE
    }
    assert written == {"1" if whole else "1.0"}
    if not whole:
        tenth = describe(kind(epsilon=np.float32(0.1)), OsEntropy())
        assert tenth["epsilon"] == 0.10000000149011612 != 0.1
        zeros = {address_of(kind(epsilon=zero), OsEntropy()) for zero in (0, 0.0, -0.0)}
        assert len(zeros) == 1


def test_numbers_inside_of_parameters_are_written_alike() -> None:
    def written(scales: Any) -> str:
        return address_of(NoiseAlone(scales=scales), OsEntropy())

    assert written((1, 2)) == written([1.0, 2.0]) == written((np.float32(1), np.int64(2)))
    exact = [address_of(of_kind(Any)(epsilon=2**60 + more), OsEntropy()) for more in (0, 1)]
    assert exact[0] != exact[1]
    assert written({"a": 1}) == written({"a": 1.0}) != written({"a": True})
    whole, real = (answers(GNMax(noise_std=noise)) for noise in (40, 40.0))
    assert address_of(whole, OsEntropy()) == address_of(real, OsEntropy())
    forty: Any = np.float32(40)
    assert type(GNMax(noise_std=forty).noise_std) is float


def test_mechanisms_and_events_calculate_with_the_number_that_they_record() -> None:
    kinds: tuple[Any, ...] = (np.float16, np.float32, np.float64, np.longdouble, int)
    for kind in kinds:
        both = (kind(1), float(kind(1)))
        pairs: list[list[Any]] = [
            [RandomizedResponse(epsilon=one, num_classes=3) for one in both],
            [CorrectCount(epsilon=one) for one in both],
            [AmountSums(noise_std=one) for one in both],
            [LabelMoments(noise_std=one, num_classes=2) for one in both],
        ]
        for mechanism, same in pairs:
            read = read_event(write_event(mechanism.event))
            assert read == mechanism.event == same.event
    small: Any = np.float32(0.1)
    delta: Any = np.float32(1e-5)
    assert calibrate_gaussian(epsilon=small, delta=delta) == calibrate_gaussian(
        epsilon=float(small), delta=float(delta)
    )
    priced = epsilon_of([GaussianMechanism(noise_std=small, num_classes=2).event], delta=1e-5)
    assert type(priced) is float
    assert Budget(epsilon=kinds[0](1)).epsilon == 1.0
    for refused in (True, np.True_, "1", None):
        wrong: Any = refused
        with pytest.raises(ValueError, match="must be a number"):
            CorrectCount(epsilon=wrong)
