"""Examples whose labels nobody trains on: accuracy is estimated there, by what is released of them.

Which ones depends on public numbers alone.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.trainers.data.files import fixed_order

if TYPE_CHECKING:  # torch, which counting them has no use for
    from labeldp.trainers.data.labelled_data import LabelledData

#: Other orders of examples (the split, a limit) have the seeds below.
_FIRST_SEED = 2


def held_out_count(count: int, *, share: float) -> int:
    """Return how many of `count` training examples a share is.

    Raises:
        ValueError: A share that leaves fewer than two examples on either side.
    """
    _validate.between(0, 1, held_out_share=share)
    held = round(share * count)
    if not 2 <= held <= count - 2:
        raise ValueError(
            f"held_out_share is {share}, but of {count} training examples that is {held}; at least "
            "two must be held out and two be left"
        )
    return held


def set_aside(data: "LabelledData", *, share: float, seed: int = 0) -> "LabelledData":
    """Take a share of the training examples out of the training.

    Args:
        data: Without held-out labels so far.
        share: Of the training examples, in (0, 1).
        seed: Numbers several choices; public.

    Returns:
        The others as training examples, in their order, and these as held-out ones.

    Raises:
        ValueError: A share that leaves fewer than two examples on either side.
    """
    from labeldp.trainers.data.labelled_data import LabelledData
    from labeldp.trainers.models.mapped_features import take_rows

    _validate.whole(held_out_seed=seed)
    count = len(data.train_labels)
    held = held_out_count(count, share=share)
    order = fixed_order(count, seed=_FIRST_SEED + seed)
    out, rest = np.sort(order[:held]), np.sort(order[held:])
    features = data.public.train_features
    public = replace(
        data.public,
        train_features=take_rows(features, rest),
        held_out_features=take_rows(features, out),
    )
    return LabelledData(
        public=public,
        train_labels=data.train_labels[rest],
        held_out_labels=data.train_labels[out],
    )
