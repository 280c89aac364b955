"""Lower bounds from canaries, against the same definitions in plain Python."""

import math
from pathlib import Path

import numpy as np
from scipy.stats import binom

from labeldp.mechanisms.auditing.memorization import THRESHOLDS, memorization_interval
from labeldp.mechanisms.auditing.one_run import one_run_lower_bound
from tests.benchmarks.benchmark import Work, benchmark

_CANARIES, _CLASSES = 1000, 10
_COINS, _RIGHT, _DELTA = 1000, 900, 1e-5


@benchmark(
    "audit-memorization",
    "memorization attack on 1,000 canaries of 10 classes",
    "the published rule alone, canary by canary",
    mark=1.8,
)
def _memorization(scratch: Path) -> Work:
    generator = np.random.default_rng(0)
    true = generator.integers(0, _CLASSES, size=_CANARIES)
    planted = (true + generator.integers(1, _CLASSES, size=_CANARIES)) % _CLASSES
    logits = generator.normal(size=(_CANARIES, _CLASSES))
    logits[np.arange(_CANARIES), planted] += 1.0
    confidences = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    def plain() -> tuple[float, float]:
        """The published rule, canary by canary; the corrected bound is not even tried."""
        best = (0.0, 0.0)
        for threshold in THRESHOLDS:
            won, lost = [], []
            for row, own, right in zip(confidences.tolist(), planted, true, strict=True):
                others = [p for k, p in enumerate(row) if k not in (own, right)]
                guessed = [p for p in others if max(p, row[own]) >= threshold]
                won.append(sum(row[own] > p for p in guessed))
                lost.append(len(guessed) - won[-1])
            total = sum(won) + sum(lost)
            guessing = sum(w + n > 0 for w, n in zip(won, lost, strict=True))
            if not total or not sum(won) or not sum(lost):
                continue
            pairs = [(w + n, w) for w, n in zip(won, lost, strict=True)]
            mean = sum(won) / total
            spread = sum(n / total * (w / max(n, 1) - mean) ** 2 for n, w in pairs)
            spread /= 1 - sum((n / total) ** 2 for n, _ in pairs) + 1e-8
            mean, half = max(mean, 1 - mean), 1.96 * math.sqrt(spread / guessing)
            ends = (max(0.5, mean - half), min(1.0, mean + half))
            low, high = (math.log(end / (1 - end)) if end < 1 else math.inf for end in ends)
            best = max(best, (low, high))
        return best

    def check() -> None:
        found = memorization_interval(confidences, planted, true).paper
        np.testing.assert_allclose((found.epsilon_low, found.epsilon_high), plain(), rtol=1e-9)

    return Work(
        ours=lambda: memorization_interval(confidences, planted, true),
        reference=plain,
        check=check,
    )


@benchmark(
    "audit-one-run",
    "lower bound from 1,000 coin canaries at a delta",
    "the theorem with SciPy, a tail at a time",
    mark=160,
)
def _one_run(scratch: Path) -> Work:
    def ours() -> float:
        return one_run_lower_bound(canaries=_COINS, guesses=_COINS, correct=_RIGHT, delta=_DELTA)

    def plain() -> float:
        """Theorem 5.2 of Steinke et al. with SciPy's binomial, every tail by itself, bisected."""
        low, high = 0.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            right = 1 / (1 + math.exp(-middle))
            tail = [binom.sf(_RIGHT - fewer - 1, _COINS, right) for fewer in range(_RIGHT + 1)]
            alpha = max(0.0, *((tail[n] - tail[0]) / n for n in range(1, _RIGHT + 1)))
            refuted = tail[0] + 2 * _COINS * _DELTA * alpha <= 0.05
            low, high = (middle, high) if refuted else (low, middle)
        return low

    return Work(
        ours=ours,
        reference=plain,
        check=lambda: np.testing.assert_allclose(ours(), plain(), rtol=1e-6),
    )
