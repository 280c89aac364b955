"""The least that a hot path must move and compute, and how long that takes this machine."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

#: Operations that an exponential, a logarithm or a normal tail is counted as.
ELEMENTARY = 20
_COPIED, _SIDE, _ROUNDS = 2**26, 1024, 5


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one core of a machine can do, each at its best.

    Attributes:
        bytes: Read or written in a second, copying what no cache holds.
        operations: In a second of a matrix product in single precision.
        bf16_operations: Likewise in bfloat16.
    """

    bytes: float
    operations: float
    bf16_operations: float


@dataclass(frozen=True, kw_only=True)
class Least:
    """What a hot path can't do without; nothing where that is not bytes or operations.

    Attributes:
        bytes: Read or written.
        operations: In single precision or more.
        bf16_operations: In bfloat16.
    """

    bytes: float = 0.0
    operations: float = 0.0
    bf16_operations: float = 0.0

    def seconds(self, rates: Rates) -> float | None:
        """How long a core needs at the least, computing while it moves; None for nothing."""
        computed = self.operations / rates.operations + self.bf16_operations / rates.bf16_operations
        return max(self.bytes / rates.bytes, computed) or None


def rates_here() -> Rates:
    """Measure this machine: one thread, processor time, medians."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        source = torch.ones(_COPIED // 4)
        target = torch.empty_like(source)
        copying = _seconds(partial(target.copy_, source))
        products = []
        for kind in (torch.float32, torch.bfloat16):
            matrix = torch.ones(_SIDE, _SIDE, dtype=kind)
            products.append(_seconds(partial(torch.matmul, matrix, matrix)))
    finally:
        torch.set_num_threads(threads)
    single, half = (2.0 * _SIDE**3 / seconds for seconds in products)
    return Rates(bytes=2.0 * _COPIED / copying, operations=single, bf16_operations=half)


def _seconds(work: Callable[[], object]) -> float:
    work()
    found = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return max(statistics.median(found), 1e-9)
