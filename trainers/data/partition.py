"""Which labels a stage asks for: disjoint parts, cut before a label is seen.

A part that depended on labels would tell about them, and two parts that share a label would charge
it twice. Hence the cut knows the number of examples and a public seed, and nothing else.

>>> [len(part) for part in partition(10, shares=(0.6, 0.4), seed=0)]
[6, 4]
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate

#: How far the shares' sum may be from 1: decimal fractions do not add up exactly.
_TOLERANCE = 1e-9


def checked_shares(shares: Sequence[float] | None, *, stages: int) -> tuple[float, ...]:
    """Return the share of every stage, or say what is wrong with them."""
    _validate.whole(minimum=1, stages=stages)
    if shares is None:
        return (0.65, 0.35) if stages == 2 else (1 / stages,) * stages
    if not isinstance(shares, Sequence) or isinstance(shares, str):
        raise ValueError(
            f"splits is {shares!r}; it must hold one share per stage, such as "
            f"{(round(1 / stages, 3),) * stages}"
        )
    if len(shares) != stages:
        raise ValueError(
            f"splits holds {len(shares)} shares, {list(shares)}, for {stages} stages; give one "
            "share per stage, or none for the usual cut"
        )
    for stage, share in enumerate(shares):
        _validate.positive(infinity=False, **{f"splits[{stage}]": share})
    total = sum(shares)
    if abs(total - 1) > _TOLERANCE:
        raise ValueError(
            f"splits {list(shares)} sum to {total:.6g}; shares of all labels must sum to 1"
        )
    return tuple(shares)


def partition(
    num_examples: int, *, shares: Sequence[float], seed: int
) -> tuple[NDArray[np.intp], ...]:
    """Cut the examples 0..N-1 into disjoint parts of about these shares.

    Args:
        num_examples: N.
        shares: Of each part; they sum to 1.
        seed: Of the shuffle; public.

    Returns:
        Positions of each part, ascending.
    """
    _validate.whole(minimum=1, num_examples=num_examples)
    _validate.whole(seed=seed)
    ends = np.rint(np.cumsum((0.0, *shares)) * num_examples).astype(np.intp)
    order = np.random.default_rng(seed).permutation(num_examples)
    parts = tuple(np.sort(order[start:end]) for start, end in pairwise(ends))
    for stage, part in enumerate(parts):
        if not len(part):
            raise ValueError(
                f"splits[{stage}] is {shares[stage]}, which is less than one of {num_examples} "
                "examples; take larger shares or fewer stages"
            )
    return parts
