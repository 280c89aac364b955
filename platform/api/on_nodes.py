"""Work on the parts of a large table on the nodes of a Ray cluster, by Ray Data.

Every node has to see the files under the same paths. Only features and releases are in them: true
labels never go this way.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import ray
import ray.data

from labeldp.platform.cluster import connected

logging.getLogger("ray.data").setLevel(logging.ERROR)  # its plans

#: The node that computed a row.
NODE = "__node__"


def on_nodes(
    work: Callable[[int], pd.DataFrame], *, parts: int, address: str
) -> Iterator[pd.DataFrame]:
    """Yield what `work` returns for the numbers below `parts`, in order, with a column `NODE`.

    The rows of a part may come in several tables. `address` is as in `labeldp sweep --address`.
    """

    def one(batch: Any) -> Any:
        node = ray.get_runtime_context().get_node_id()
        return work(int(batch["id"][0])).assign(**{NODE: node})

    with connected(address):
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = sys.stderr.isatty()
        context.execution_options.preserve_order = True
        numbers = ray.data.range(parts, override_num_blocks=parts)
        yield from numbers.map_batches(one, batch_size=1).iter_batches(
            batch_size=None, batch_format="pandas", prefetch_batches=0
        )
