"""The endless shuffled stream: whole passes, seeds, going on where it was."""

import pytest
import torch

from labeldp.trainers.methods.fixmatch import ShuffledStream


@pytest.mark.parametrize("size", [1, 4, 7, 10, 25])
def test_every_pass_holds_everything_once(size: int) -> None:
    stream = ShuffledStream(10, seed=0)
    batches = [stream.take(size) for _ in range(40)]
    assert all(len(batch) == size for batch in batches)
    passes = torch.cat(batches)[: 40 * size // 10 * 10].view(-1, 10)
    assert (passes.sort(1).values == torch.arange(10)).all()
    assert len({tuple(one) for one in passes.tolist()}) == len(passes)
