"""Memorization games 1 and 2 of Malek et al. 2021: one canary, and a new model for each guess.

    python -m tests.benchmarks.memorization_games --epsilon 2

trains thousands of ridge regressions on 50 digits with randomized response. In game 1 all runs
have the same canary and the same two wrong labels, in game 2 each run draws its own. The attacker
guesses the label with the larger score, and abstains where both are below a threshold. Guesses are
independent here, which game 3 (`labeldp audit memorization`) assumes.
"""

import argparse
import time

import numpy as np
import torch
from sklearn.datasets import load_digits

from labeldp.mechanisms.auditing.one_run import one_run_lower_bound
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.trainers.methods.pate import train_probes

_EXAMPLES = 50
_CLASSES = 10
_AT_ONCE = 500
_THRESHOLD = 0.5


def play(*, epsilon: float, runs: int, same_canary: bool, seed: int) -> tuple[int, int]:
    """Return how often the attacker guessed, and how often it was right."""
    images, digits = load_digits(return_X_y=True)
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(len(digits))[:_EXAMPLES]
    rows = images[chosen] - images.mean(0)
    features = torch.from_numpy(rows / np.sqrt((rows**2).sum(1).mean())).float()
    truth = digits[chosen].astype(np.int64)
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=_CLASSES)
    guesses = 0
    correct = 0
    for start in range(0, runs, _AT_ONCE):
        count = min(_AT_ONCE, runs - start)
        canaries = generator.integers(0, _EXAMPLES, count)
        if same_canary:
            canaries[:] = 0
        shifts = np.stack([generator.permutation(_CLASSES - 1)[:2] + 1 for _ in range(count)])
        if same_canary:
            shifts[:] = (1, 2)
        pairs = (truth[canaries, None] + shifts) % _CLASSES
        bits = generator.integers(0, 2, count)
        planted = np.tile(truth, (count, 1))
        every = np.arange(count)
        planted[every, canaries] = pairs[every, bits]
        noisy = [np.asarray(mechanism.release(own, generator=generator)) for own in planted]
        shards = [np.arange(_EXAMPLES)] * count
        probes = train_probes(features, shards, noisy, _CLASSES, ridge=1e-3)
        inputs = torch.nn.functional.pad(features[canaries], (0, 1), value=1.0)
        scores = torch.einsum("rd,rdk->rk", inputs, probes).numpy() + 1 / _CLASSES
        of_pair = np.take_along_axis(scores, pairs, axis=1)
        guessed = of_pair.max(1) >= _THRESHOLD
        guesses += int(guessed.sum())
        correct += int((of_pair.argmax(1) == bits)[guessed].sum())
    return guesses, correct


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=10_000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for game in (1, 2):
        began = time.process_time()
        how = {"epsilon": given.epsilon, "runs": given.runs, "same_canary": game == 1}
        guesses, correct = play(**how, seed=game)
        # Runs that are independent are one run with as many independent canaries.
        low = one_run_lower_bound(canaries=given.runs, guesses=guesses, correct=correct)
        seconds = time.process_time() - began
        print(f"game {game}: {correct} of {guesses} right, epsilon at least {low:.3f} ", end="")
        print(f"of {given.epsilon:g}, {seconds:.0f} s of a core", flush=True)


if __name__ == "__main__":
    main()
