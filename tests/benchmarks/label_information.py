"""What one noisy label tells about the true one, by the noise: mutual information in nats.

    python -m tests.benchmarks.label_information

With K classes of equal frequency; log K would be all of it. Laplace noise on a one-hot label
(ALIBI) by Monte Carlo, randomized response exactly. A network that reads noisy labels by Bayes'
rule has this much to learn from in each.
"""

import argparse

import numpy as np

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.posterior import posterior
from labeldp.mechanisms.randomized_response import RandomizedResponse
from tests.benchmarks.interruption import ended

CLASSES = (2, 10, 100)
EPSILONS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
_LABELS = 100_000


def information_of_laplace(*, epsilon: float, num_classes: int, seed: int = 0) -> float:
    """Return what a label with Laplace noise tells, in nats; wrong by less than .01."""
    generator = np.random.default_rng(seed)
    mechanism = LaplaceNoise(epsilon=epsilon, num_classes=num_classes)
    labels = generator.integers(num_classes, size=_LABELS)
    noisy = mechanism.release(labels, generator=generator)
    likelihood = np.asarray(mechanism.log_likelihood(np.asarray(noisy)), np.float64)
    beliefs = np.asarray(posterior(likelihood, np.zeros_like(likelihood)))
    return float(np.log(beliefs[np.arange(_LABELS), labels] * num_classes).mean())


def information_of_response(*, epsilon: float, num_classes: int) -> float:
    """Return what a label by randomized response tells, in nats."""
    kept = RandomizedResponse(epsilon=epsilon, num_classes=num_classes).keep_probability
    other = (1 - kept) / (num_classes - 1)
    return float(kept * np.log(kept * num_classes) + (1 - kept) * np.log(other * num_classes))


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    print(f"| classes | noise | {' | '.join(f'{epsilon:g}' for epsilon in EPSILONS)} |")
    print("|---" * (2 + len(EPSILONS)) + "|")
    for classes in CLASSES:
        for name, tells in (
            ("Laplace on one-hot labels", information_of_laplace),
            ("randomized response", information_of_response),
        ):
            found = (tells(epsilon=epsilon, num_classes=classes) for epsilon in EPSILONS)
            print(f"| {classes} | {name} | {' | '.join(f'{nats:.3f}' for nats in found)} |")


if __name__ == "__main__":
    ended(main)
