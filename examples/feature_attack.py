"""A feature that tells most labels, in spite of noise: `python examples/feature_attack.py`."""

import numpy as np

from labeldp.mechanisms import RandomizedResponse
from labeldp.mechanisms.guess_risk import guess_after

rng = np.random.default_rng(0)
noise = RandomizedResponse(epsilon=1.0, num_classes=2)
assert round(guess_after(0.5, epsilon=1.0), 4) == 0.7311

# A feature that is equal to the label for 90%. The attack learns that from noisy labels of others.
labels = rng.integers(2, size=20_000)
feature = np.where(rng.random(20_000) < 0.9, labels, 1 - labels)
noisy = noise.release(labels, generator=rng)
others = slice(0, 19_000)
you = slice(19_000, None)
majority = np.array([noisy[others][feature[others] == value].mean() > 0.5 for value in (0, 1)])
assert (majority[feature[you]] == labels[you]).mean() > 0.88  # no label of these was used
