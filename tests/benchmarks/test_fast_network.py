"""The fast network beside others in equal time; bfloat16 and compilation change no accuracy.

On some thousands of images, so that it takes minutes; `fast_network` has the full run.
"""

import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest
import torch

from labeldp.trainers.data import LabelledData, load
from labeldp.trainers.models import ModelName
from labeldp.trainers.performance import Precision, bf16_units
from tests.benchmarks.fast_network import ONE_CORE, fast, measured, part, usual
from tests.real_data import real_data_root

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def cifar10() -> LabelledData:
    return load("cifar10", root=real_data_root("cifar10"))


@pytest.mark.parametrize(
    ("model", "width"), [(ModelName.SMALL_CNN, 16), (ModelName.WIDE_RESNET28, 1)]
)
def test_it_is_ahead_of_others_in_equal_time(
    model: ModelName, width: int, cifar10: LabelledData
) -> None:
    data, labels = part(cifar10, 5000)
    ours = measured(fast(32, 6), data, labels)
    one = measured(usual(model, 1, width=width), data, labels)
    epochs = max(1, round(ours.processor_seconds / one.processor_seconds))
    theirs = measured(usual(model, epochs, width=width), data, labels)
    print(
        f"\nfast_cnn: {ours.accuracy:.3f} in {ours.processor_seconds:.0f} s, {ours.epochs} epochs; "
        f"{model} of width {width}: {theirs.accuracy:.3f} in {theirs.processor_seconds:.0f} s, "
        f"{theirs.epochs} epochs"
    )
    assert ours.accuracy > theirs.accuracy + 0.05


@pytest.mark.parametrize("changed", ["precision", "compile"])
def test_neither_bf16_nor_compilation_changes_accuracy(changed: str, cifar10: LabelledData) -> None:
    if changed == "precision" and not bf16_units(torch.device("cpu")):
        pytest.skip("this processor has no units for bfloat16")
    data, labels = part(cifar10, 3000)
    off = replace(ONE_CORE, precision=Precision.FP32)
    on = {
        "precision": replace(off, precision=Precision.BF16),
        "compile": replace(off, compile=True),
    }[changed]
    found = [
        [measured(fast(8, 5), data, labels, seed=seed, performance=how) for seed in SEEDS]
        for how in (off, on)
    ]
    accuracies = [[each.accuracy for each in runs] for runs in found]
    means, spreads = [fmean(each) for each in accuracies], [stdev(each) for each in accuracies]
    seconds = [fmean(each.processor_seconds for each in runs) for runs in found]
    print(
        f"\n{changed} off: {means[0]:.3f} +- {spreads[0]:.3f}, {seconds[0]:.1f} s; "
        f"on: {means[1]:.3f} +- {spreads[1]:.3f}, {seconds[1]:.1f} s"
    )
    # Three standard errors of a difference of two means.
    assert abs(means[1] - means[0]) < 3 * math.hypot(*spreads) / math.sqrt(len(SEEDS))
