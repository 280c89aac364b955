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


def test_a_stream_goes_on_where_it_was() -> None:
    stream = ShuffledStream(10, seed=0)
    stream.take(7)
    state = stream.state_dict()
    expected = [stream.take(6) for _ in range(5)]
    other = ShuffledStream(10, seed=9)
    other.load_state_dict(state)
    for batch in expected:
        assert torch.equal(other.take(6), batch)


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ValueError, match="count is 0"):
        ShuffledStream(0, seed=0)
