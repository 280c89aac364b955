"""Ensembles: probes solved together, against one by one."""

from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import Ridge

from labeldp.trainers.methods.pate import train_probes, vote
from tests.benchmarks.benchmark import Work, benchmark

_TEACHERS, _FITTED, _EXAMPLES, _QUERIES = 800, 40, 60_000, 10_000


@benchmark(
    "probes",
    "800 linear teachers on 75 examples each, 8 million votes",
    "scikit-learn's Ridge, a teacher at a time",
    mark=2.4,
    most_seconds=10.0,
)
def _probes(scratch: Path) -> Work:
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 10, _EXAMPLES)
    centers = draws.normal(size=(10, 400)) / 20
    features = torch.from_numpy(
        (centers[labels] + draws.normal(size=(_EXAMPLES, 400)) / 20).astype(np.float32)
    )
    shards = list(draws.permutation(_EXAMPLES).reshape(_TEACHERS, -1))
    of_shards = [labels[shard] for shard in shards]
    queries = features[:_QUERIES]

    def together() -> np.ndarray:
        return vote(train_probes(features, shards, of_shards, 10), queries)

    def one_by_one() -> np.ndarray:
        rows, asked, votes = features.numpy(), queries.numpy(), []
        # The library's probes pull the bias to 0 like every other weight.
        rows, asked = (np.pad(part, ((0, 0), (0, 1)), constant_values=1) for part in (rows, asked))
        for shard, classes in zip(shards[:_FITTED], of_shards, strict=False):
            probe = Ridge(alpha=0.1, fit_intercept=False)
            probe.fit(rows[shard], np.eye(10, dtype=np.float32)[classes] - 0.1)
            votes.append(probe.predict(asked).argmax(1))
        return np.stack(votes)

    def check() -> None:
        assert (together()[:_FITTED] == one_by_one()).mean() > 0.999

    return Work(ours=together, reference=one_by_one, part=_FITTED / _TEACHERS, check=check)
