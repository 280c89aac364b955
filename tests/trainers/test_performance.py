"""Performance: names are checked, devices that are not there are refused."""

import pytest
import torch

from labeldp.trainers.performance import Device, Performance, Precision, bf16_units


@pytest.mark.parametrize(
    ("amx", "avx512", "units", "taken"),
    [
        (True, True, "amx_bf16", Precision.BF16),
        (False, True, "avx512_bf16", Precision.BF16),
        (False, False, None, Precision.FP32),
    ],
)
def test_auto_takes_the_precision_that_the_processor_has_units_for(
    amx: bool, avx512: bool, units: str | None, taken: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    cpu = Performance(device=Device.CPU, precision=Precision.AUTO)
    assert bf16_units(cpu.torch_device()) == units
    assert cpu.precision_here() is taken
    with cpu.autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert (product.dtype == torch.bfloat16) == (taken is Precision.BF16)


def test_cuda_is_refused_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Performance().torch_device() == torch.device("cpu")
    with pytest.raises(ValueError, match="no CUDA device; take device=auto"):
        Performance(device=Device.CUDA).torch_device()
