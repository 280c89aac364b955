"""How good random patches are, and how fast: a linear probe with all labels, moment labels, times.

    python -m tests.benchmarks.random_patches cifar10

reads the set from LABELDP_DATA, and prints accuracy in percent and seconds of one processor core. A
probe is ridge regression.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.methods.priors import kernel_directions, moment_query, probabilities_from
from labeldp.trainers.models.features import RandomPatchFeatures

EPSILONS = (0.5, 1.0, 2.0)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", help="name of a set of photographs")
    data = load(parser.parse_args().data)
    torch.set_num_threads(1)
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
