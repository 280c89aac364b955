"""Private nearest neighbors: labels vote on the examples near them, and no teacher is trained.

Zhu et al., "Private-kNN: Practical Differential Privacy for Computer Vision", CVPR 2020. There a
query's neighbors are private rows; here features are public, and so is who is near whom. One label
is one vote of each query that it is near, and no vote of any other: changing it moves one vote of
those queries and none else, as for PATE. If no label is near more than `most` queries, each pays
for so many alone (`mechanisms.pate.releases.NeighborAnswers`).

The published subsampling of rows for each query is left out, and so is its amplification, which is
stated for rows that come and go, not for labels that change. A bound on `most` takes its place.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Queries whose distances to all examples are in memory at once.
_QUERIES_AT_ONCE = 100


def nearest(
    features: Tensor, queries: NDArray[np.intp], *, count: int, most: int
) -> NDArray[np.intp]:
    """Return the `count` nearest examples of each query [Q, count], the nearest first.

    Distances are Euclidean between features [N, ...], raw pixels or columns; `queries` [Q] are
    positions among them, each its own nearest. An example that is near `most` queries already is
    passed over by later ones: there are enough if (Q - 1) count <= most (N - count).
    """
    rows = features.flatten(1).float()
    used = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    found = []
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        asked = torch.from_numpy(queries[start : start + _QUERIES_AT_ONCE])
        for distances in torch.cdist(rows[asked], rows):
            distances[used >= most] = torch.inf
            chosen = distances.topk(count, largest=False).indices
            used[chosen] += 1
            found.append(chosen.cpu().numpy())
    if int(used.max()) > most:  # a guarantee: not an assertion, which python -O removes
        raise ArithmeticError(f"a label votes on {int(used.max())} queries, above {most}")
    return np.stack(found)
