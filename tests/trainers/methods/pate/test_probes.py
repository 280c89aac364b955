"""Linear teachers: against one regression at a time, their separation, votes, refusals."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from labeldp.trainers.methods.pate.closed_forms import Probes, train_probes, vote

Shards = list[NDArray[np.int64]]


def _problem(sizes: list[int], width: int = 6) -> tuple[torch.Tensor, Shards, Shards]:
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(sum(sizes), width)).astype(np.float32))
    order = random.permutation(sum(sizes))
    shards = np.split(order, np.cumsum(sizes)[:-1])
    return features, shards, [random.integers(0, 3, size) for size in sizes]


def test_each_teacher_is_a_ridge_regression_on_its_shard() -> None:
    # Shards below and above the number of features take different ways to the same solution.
    features, shards, labels = _problem([4, 40, 6, 4, 7])
    probes = train_probes(features, shards, labels, 3, ridge=0.3)
    assert (probes.num_teachers, probes.num_classes) == (5, 3)
    for teacher, (shard, classes) in enumerate(zip(shards, labels, strict=True)):
        x = np.c_[features.numpy()[shard], np.ones(len(shard))]
        y = np.eye(3)[classes] - 1 / 3
        slow = Ridge(alpha=0.3, fit_intercept=False).fit(x.astype(float), y).coef_.T
        np.testing.assert_allclose(probes.weights[teacher], slow, atol=2e-6)


def test_a_label_moves_no_other_teacher() -> None:
    features, shards, labels = _problem([10, 10, 10])
    before = train_probes(features, shards, labels, 3).weights
    labels[1] = (labels[1] + 1) % 3
    after = train_probes(features, shards, labels, 3).weights
    assert torch.equal(before[0], after[0]) and torch.equal(before[2], after[2])
    assert not torch.equal(before[1], after[1])


def test_votes_are_the_first_highest_score() -> None:
    random = torch.Generator().manual_seed(0)
    weights = torch.randn(230, 5, 4, generator=random)
    queries = torch.randn(2100, 4, generator=random)
    votes = vote(Probes(weights=weights), queries)
    assert votes.dtype == np.uint8 and votes.shape == (230, 2100)
    scores = torch.einsum("qd,tdk->tqk", queries, weights[:, :-1]) + weights[:, -1:]
    gap = scores.topk(2).values.diff().abs().squeeze(2)
    agree = votes == scores.argmax(2).numpy()
    assert agree[(gap > 1e-5).numpy()].all() and agree.mean() > 0.9999
    # A tie gives one vote, not several.
    tied = vote(Probes(weights=torch.zeros(3, 5, 4)), queries)
    assert (tied == 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0.0}, "ridge is 0.0"),
        ({"num_classes": 257}, "one byte"),
        ({"num_classes": 2}, r"labels of teacher 0\[\d+\] is none of"),
        ({"shards": []}, "0 shards and 2 sets of labels"),
        ({"shards": [np.array([0, 99]), np.array([1])]}, r"shard of teacher 0\[1\] is 99"),
        ({"shards": [np.arange(4), np.array([], dtype=int)]}, "shard of teacher 1 is empty"),
        ({"shards": [np.arange(4), np.arange(3)]}, "teacher 1 has 3 examples and 4 labels"),
        ({"features": torch.zeros(8)}, "floating point"),
        ({"features": torch.full((8, 6), torch.nan)}, "row 0 holds nan in column 0"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    features, shards, labels = _problem([4, 4])
    labels[0][:] = 2
    given = {"features": features, "shards": shards, "labels_of_shards": labels, "num_classes": 3}
    with pytest.raises(ValueError, match=message):
        train_probes(**(given | change))  # type: ignore[arg-type]
