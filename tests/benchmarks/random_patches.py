"""How often the likeliest class of a test example's cluster is right, in percent, by epsilon.

    python -m tests.benchmarks.random_patches mnist --clusters 100

reads the set from LABELDP_DATA. Epsilon is that of the noisy histograms (Ghazi et al. 2021,
Figure 2).
"""

import argparse
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.methods.priors import (
    clusters_of,
)
from labeldp.trainers.models.features import RandomPatchFeatures, described_by_features

#: Of the histograms, a part of the budget in the paper.
_OF_HISTOGRAMS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, math.inf)


def cluster_accuracies(data: LabelledData, *, clusters: int, seed: int) -> dict[float, float]:
    """Return the accuracy on test examples, in percent, by epsilon of the histograms.

    Clusters are of training and test features together; histograms count training labels alone.
    """
    public = data.public
    both = torch.cat((public.train_features, public.test_features))
    groups = clusters_of(both, clusters=clusters, seed=seed)
    own, of_test = np.split(groups, [len(public.train_features)])
    found = {}
    for epsilon in _OF_HISTOGRAMS:
        generator = np.random.default_rng(seed)
        counts = np.zeros((groups.max() + 1, public.num_classes))
        if math.isinf(epsilon):
            np.add.at(counts, (own, data.train_labels), 1)
        else:
            mechanism = ClusterHistograms(epsilon=epsilon, num_classes=public.num_classes)
            # A cluster without training examples has noise alone, if it is not the last one.
            noisy = mechanism.release(data.train_labels, own, generator=generator)
            counts[: len(noisy)] = np.asarray(noisy)
        found[epsilon] = 100 * float((counts.argmax(1)[of_test] == public.test_labels).mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", help="name of a set of images")
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--features", type=Path, help="folder that keeps features between runs")
    given = parser.parse_args()
    data = load(given.data)
    torch.set_num_threads(1)
    photographs = data.public.train_features.shape[1] == 3
    settings = RandomPatchFeatures() if photographs else None
    public = described_by_features(data.public, settings, folder=given.features)
    data = replace(data, public=public)
    rows = [cluster_accuracies(data, clusters=given.clusters, seed=seed) for seed in range(3)]
    for epsilon in _OF_HISTOGRAMS:
        values = [row[epsilon] for row in rows]
        print(f"| {epsilon:g} | {np.mean(values):.2f}±{np.std(values, ddof=1):.2f} |")


if __name__ == "__main__":
    main()
