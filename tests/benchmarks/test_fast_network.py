"""The fast network beside others in equal time; bfloat16 and compilation change no accuracy.

On some thousands of images, so that it takes minutes; `fast_network` has the full run.
"""

import pytest
from torch import Tensor

from labeldp.trainers.data import PublicData, load
from labeldp.trainers.models import ModelName
from labeldp.trainers.performance import Performance
from tests.benchmarks.fast_network import fast, part
from tests.benchmarks.fast_network_versus import (
    IMAGES,
    NARROW,
    OTHERS,
    Measured,
    Way,
    compared,
    in_time,
    measured,
    ways,
)
from tests.real_data import real_data_root

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]
Some = tuple[PublicData, Tensor]


@pytest.fixture(scope="module")
def some() -> Some:
    return part(load("cifar10", root=real_data_root("cifar10")), IMAGES)


@pytest.fixture(scope="module")
def ours(some: Some) -> Measured:
    return measured(fast(32, 10), *some)


@pytest.mark.parametrize(("model", "width", "name"), OTHERS)
def test_it_is_ahead_of_others_in_equal_time(
    model: ModelName, width: int, name: str, some: Some, ours: Measured
) -> None:
    theirs = in_time(ours.processor_seconds, model, width, *some)
    print(f"\nfast_cnn: {ours}; {name}: {theirs}")
    assert ours.accuracy > theirs.accuracy + 0.05


@pytest.fixture(scope="module")
def plain(some: Some) -> Way:
    (name, performance), *_ = ways().items()
    (found,) = compared(NARROW, *some, {name: performance})
    return found


@pytest.mark.parametrize(("name", "performance"), [*ways().items()][1:])
def test_neither_bf16_nor_compilation_changes_accuracy(
    name: str, performance: Performance, some: Some, plain: Way
) -> None:
    (way,) = compared(NARROW, *some, {name: performance})
    print(f"\n{plain.words}\n{way.words}")
    assert not way.differs_from(plain)
