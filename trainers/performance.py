"""How fast, never how private: device, precision, memory layout, threads.

With any choice here, the same releases are read and the same epsilon is paid. Results differ in
the last digits between devices and precisions, not in what they promise.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING

from labeldp.trainers.base import Count, Flag, key, settings

if TYPE_CHECKING:  # settings are read without it
    import torch


#: Taken while a thread limits BLAS, of the whole process.
_LIMITS_BLAS = threading.Lock()
#: Threads inside `threads`, with the number before each.
_INSIDE: list[tuple[int, int]] = []
_ENTERING = threading.Lock()

#: In errors of a GPU without memory: of CUDA itself, and of its libraries.
NO_MEMORY = ("out of memory", "ALLOC_FAILED")


class Device(StrEnum):
    """Where to compute; AUTO takes a CUDA device if there is one."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Precision(StrEnum):
    """Of the network's activations; weights, losses and posteriors stay in single precision."""

    FP32 = "fp32"
    BF16 = "bf16"
    AUTO = "auto"


def bf16_units(device: "torch.device") -> str | None:
    """Return what a device computes bfloat16 with, or None where it would be slower for it."""
    import torch

    if device.type == "cuda":
        return "cuda" if torch.cuda.is_bf16_supported() else None
    if torch.cpu._is_amx_tile_supported():
        return "amx_bf16"
    return "avx512_bf16" if torch.cpu._is_avx512_bf16_supported() else None


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Calculate on so many threads inside, or on as many as before (None), and then as before."""
    import torch

    own = threading.get_ident()
    with _ENTERING:
        # A thread that meets torch while others are inside would take their limit for its number.
        beside = _INSIDE and own not in dict(_INSIDE)
        before = _INSIDE[0][1] if beside else torch.get_num_threads()
        _INSIDE.append((own, before))
        torch.set_num_threads(count or before)
    try:
        yield
    finally:
        with _ENTERING:
            _INSIDE.remove((own, before))
            torch.set_num_threads(before)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS calculate on one thread, unless a fit in another thread limits it meanwhile."""
    from threadpoolctl import threadpool_limits

    # A second limit of the process would take the first for what was before, and restore that.
    alone = _LIMITS_BLAS.acquire(blocking=False)
    try:
        with threadpool_limits(1, user_api="blas") if alone else nullcontext():
            yield
    finally:
        if alone:
            _LIMITS_BLAS.release()


@settings
class Performance:
    """Settings that cannot change privacy."""

    device: Device = key(
        Device.AUTO, "Device to compute on; `auto` uses CUDA if there is a device."
    )
    precision: Precision = key(
        Precision.FP32,
        "Precision of activations. `bf16` is two to four times as fast on devices with units "
        "for it; `auto` uses it only there.",
    )
    channels_last: Flag = key(
        False, "Keep images as [B, H, W, C] in memory, for faster convolutions in bf16."
    )
    capture: Flag = key(
        True,
        "On a GPU, record a training step once as a CUDA graph and replay it, where all batches "
        "have one shape.",
    )
    threads: Count | None = key(None, "CPU threads of this process. Null: unchanged.")

    def limit_threads(self) -> None:
        """Have this process compute in the requested number of CPU threads."""
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)

    def torch_device(self) -> "torch.device":
        """Return the device; a ValueError where CUDA is requested and there is none."""
        import torch

        available = torch.cuda.is_available()
        if self.device is Device.CUDA and not available:
            raise ValueError(
                "device is cuda, but torch sees no CUDA device; take device=auto or device=cpu, or "
                "install a torch build that fits the driver"
            )
        on_cuda = available and self.device is not Device.CPU
        return torch.device("cuda" if on_cuda else "cpu")

    def memory_format(self) -> "torch.memory_format":
        """Return the layout of images and of the weights of convolutions."""
        import torch

        return torch.channels_last if self.channels_last else torch.contiguous_format

    def precision_here(self) -> Precision:
        """Return FP32 or BF16: what AUTO comes to on this device."""
        if self.precision is not Precision.AUTO:
            return self.precision
        return Precision.BF16 if bf16_units(self.torch_device()) else Precision.FP32

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context in which the network runs."""
        if self.precision_here() is Precision.FP32:
            return nullcontext()
        import torch

        return torch.autocast(self.torch_device().type, dtype=torch.bfloat16)
