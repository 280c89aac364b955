"""How good random patches are, and how fast: a linear probe with all labels, moment labels, times.

    python -m tests.benchmarks.random_patches cifar10
    python -m tests.benchmarks.random_patches mnist --clusters 100

reads the set from LABELDP_DATA, and prints accuracy in percent and seconds of one processor core. A
probe is ridge regression. `--clusters` prints how often the likeliest class of a test example's
cluster is right, at each epsilon of the noisy histograms (Ghazi et al. 2021, Figure 2).
"""

import argparse
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.methods.priors import (
    clusters_of,
    kernel_directions,
    moment_query,
    probabilities_from,
)
from labeldp.trainers.models.features import RandomPatchFeatures, described_by_features

EPSILONS = (0.5, 1.0, 2.0)
#: Of the histograms, a part of the budget in the paper.
_OF_HISTOGRAMS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, math.inf)
_DELTA, _LANDMARKS, _TOLERATED, _RIDGE = 1e-5, 1500, 0.1, 0.3


def probe_accuracy(train: Tensor, targets: Tensor, test: Tensor, labels: Tensor) -> float:
    """Accuracy in percent on test rows [M, D] of ridge regression to targets [N, K]."""
    gram = (train.mT @ train).double() + _RIDGE * torch.eye(train.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(gram, (train.mT @ targets.float()).double())
    return 100 * float(((test.double() @ weights).argmax(1) == labels).double().mean())


def moment_accuracies(data: LabelledData, train: Tensor, test: Tensor) -> None:
    """Print what moment labels come to at each epsilon, on features [N, D] and [M, D]."""
    classes = data.public.num_classes
    directions = kernel_directions(train, landmarks=_LANDMARKS, seed=0)
    for epsilon in EPSILONS:
        noise_std = calibrate_gaussian(epsilon=epsilon, delta=_DELTA)
        query = moment_query(directions, noise_std=noise_std, tolerated=_TOLERATED)
        mechanism = LabelMoments(noise_std=noise_std, num_classes=classes)
        generator = np.random.default_rng(0)
        moments = mechanism.release(data.train_labels, query.weights, generator=generator)
        prior = probabilities_from(
            np.asarray(moments), query, directions, noise_std=noise_std, seed=0
        )
        right = 100 * float((prior.argmax(1) == data.train_labels).mean())
        targets = torch.from_numpy(prior) - 1 / classes
        found = probe_accuracy(train, targets, test, torch.from_numpy(data.public.test_labels))
        print(
            f"epsilon {epsilon:g}: {query.weights.shape[1]} directions, {right:.1f} of training",
            end=" ",
        )
        print(f"labels right, {found:.1f} by a probe", flush=True)


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
    parser.add_argument("data", help="name of a set of photographs, with --clusters of any images")
    parser.add_argument("--clusters", type=int, help="measure so many clusters, and nothing else")
    parser.add_argument("--features", type=Path, help="folder that keeps features between runs")
    given = parser.parse_args()
    data = load(given.data)
    torch.set_num_threads(1)
    if given.clusters is not None:
        photographs = data.public.train_features.shape[1] == 3
        settings = RandomPatchFeatures() if photographs else None
        public = described_by_features(data.public, settings, folder=given.features)
        data = replace(data, public=public)
        rows = [cluster_accuracies(data, clusters=given.clusters, seed=seed) for seed in range(3)]
        for epsilon in _OF_HISTOGRAMS:
            values = [row[epsilon] for row in rows]
            print(f"| {epsilon:g} | {np.mean(values):.2f}±{np.std(values, ddof=1):.2f} |")
        return
    began = time.process_time()
    encoder = RandomPatchFeatures().fit(data.public.train_features)
    print(f"{time.process_time() - began:.0f} s to learn components", flush=True)
    train, test = encoder(data.public.train_features), encoder(data.public.test_features)
    print(f"{time.process_time() - began:.0f} s with all features", flush=True)
    labels = torch.from_numpy(data.public.test_labels)
    targets = F.one_hot(torch.from_numpy(data.train_labels)) - 1 / data.public.num_classes
    for count in (400, 800, train.shape[1]):
        found = probe_accuracy(train[:, :count], targets, test[:, :count], labels)
        print(f"{count} components, all labels: {found:.2f}", flush=True)
    moment_accuracies(data, train, test)


if __name__ == "__main__":
    main()
