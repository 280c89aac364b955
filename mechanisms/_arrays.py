"""NumPy arrays and torch tensors through one door, without importing torch for those who have none.

torch takes seconds to import; accounting and the command line must not pay for it. An object can
be a tensor only if somebody has imported torch already, so asking `sys.modules` is enough.
"""

import sys
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


Array = Union[NDArray[Any], "torch.Tensor"]
AnyArray = TypeVar("AnyArray", NDArray[Any], "torch.Tensor")


def is_torch(values: object) -> bool:
    """Whether `values` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def as_numpy(values: Any) -> NDArray[Any]:
    """Return `values` as a NumPy array; tensors are detached and brought to the CPU."""
    if is_torch(values):
        return np.asarray(values.detach().cpu().numpy())
    return np.asarray(values)


def like(result: NDArray[Any], example: object) -> Any:
    """Return `result` in the kind of `example`: a tensor on its device, or the array itself."""
    if is_torch(example):
        import torch

        assert isinstance(example, torch.Tensor)
        return torch.from_numpy(np.ascontiguousarray(result)).to(example.device)
    return result
