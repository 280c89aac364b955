"""One member of a pool: keeps the public data and trains the batches that it is sent.

A module of its own because every actor imports it: it loads nothing that a teacher does not need.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard

#: (numbers of n teachers, their shards, public data) -> votes [n, Q]. On machines of one kind the
#: same batch gives the same votes, wherever and however often it runs.
VoteFunction = Callable[[Sequence[int], Sequence[Shard], Any], NDArray[np.uint8]]


class TeacherActor:
    """Trains batches of teachers, one after the other."""

    def __init__(self, vote: VoteFunction, data: Any, threads: int) -> None:
        """Take what all batches need; `data` is public, `threads` are torch's, if it is loaded."""
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(threads)
        self._vote, self._data = vote, data

    def ready(self) -> str:
        """Return the id of the actor's node, once it has started."""
        node: str = ray.get_runtime_context().get_node_id()
        return node

    def train(self, teachers: Sequence[int], shards: Sequence[Shard]) -> NDArray[np.uint8]:
        """Return the votes of a batch [n, Q]."""
        return self._vote(teachers, shards, self._data)
