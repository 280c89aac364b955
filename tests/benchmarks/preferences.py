"""Rewards from secret preferences: `python -m tests.benchmarks.preferences made|text [--seeds 5]`.

Agreement with held-out preferences. `made` are 20,000 pairs of 64 normal columns and a linear
reward; `text` are pairs of sentences of `stsa.fine`, of which one is graded higher. Beside them are
randomized response with the robust (unbiased) loss, and a reward of the true choices.
"""

import argparse
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import labeldp
from labeldp.platform.api import paid_fits
from labeldp.platform.api.process_ledger import ProcessLedger
from tests.shared_material import shared_path

DELTA = 1e-6
PAIRS = 20_000
HELD_OUT = 10_000
#: Of the made reward: true choices agree with it in 87.3% of pairs.
_STEEP = 2.87
_PAIRS_EACH = 50


class Pairs(NamedTuple):
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    prefers_a: NDArray[np.bool_]


def made(seed: int, *, pairs: int = PAIRS, columns: int = 64) -> tuple[Pairs, Pairs]:
    """Pairs to learn from, and held-out ones."""
    generator = np.random.default_rng(seed)
    slopes = generator.normal(size=columns)
    slopes *= _STEEP / np.linalg.norm(slopes)
    found = []
    for count in (pairs, HELD_OUT):
        a, b = generator.normal(size=(2, count, columns))
        found.append(Pairs(a, b, generator.random(count) < expit((a - b) @ slopes)))
    return found[0], found[1]


def sentences(part: str) -> tuple[NDArray[np.int64], list[str]]:
    """Grades and texts."""
    path = Path(shared_path("data", "text", f"stsa.fine.{part}.xz"))
    lines = lzma.open(path, "rt", encoding="latin-1").read().splitlines()
    return np.array([int(line[0]) for line in lines]), [line[2:] for line in lines]


def text(seeds: int) -> Iterator[tuple[Pairs, Pairs]]:
    """Pairs of graded sentences, described by TF-IDF and SVD of the training sentences."""
    grades, texts = sentences("train")
    others, held_out = sentences("test")
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))
    reduced = TruncatedSVD(200, random_state=0)
    known = reduced.fit_transform(words.fit_transform(texts))
    new = reduced.transform(words.transform(held_out))
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        train = _drawn(known, grades, PAIRS, generator)
        yield train, _drawn(new, others, HELD_OUT, generator)


def _drawn(rows: Any, grades: Any, count: int, generator: np.random.Generator) -> Pairs:
    a, b = generator.integers(len(rows), size=(2, 2 * count))
    chosen = np.flatnonzero(grades[a] != grades[b])[:count]  # ties are left out
    a = a[chosen]
    b = b[chosen]
    return Pairs(rows[a], rows[b], grades[a] > grades[b])


def robust(train: Pairs, release: Any) -> NDArray[np.float64]:
    """Slopes that minimize the robust loss of TRL, with a small ridge."""
    flip = release.flip_probability
    differences = (train.a - train.b) / train.a.std(0)
    signed = differences * (2 * release.values - 1)[:, None]

    def loss(slopes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = signed @ slopes
        value = -(1 - flip) * log_expit(logits) + flip * log_expit(-logits)
        slope = -(1 - flip) * expit(-logits) - flip * expit(logits)
        ridge = 1e-4 * slopes
        mean = signed.T @ slope / len(signed) / (1 - 2 * flip)
        return float(value.mean() / (1 - 2 * flip) + slopes @ ridge / 2), mean + ridge

    start = np.zeros(differences.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return np.asarray(found.x / train.a.std(0))


def agreements(train: Pairs, test: Pairs, epsilon: float, *, groups: bool) -> dict[str, float]:
    """Agreement by line."""
    found = {}
    annotators = np.arange(len(train.a)) // _PAIRS_EACH if groups else None
    for delta in (DELTA, 0.0):
        # The data are public, and a line is of one fit: all of them have no sum of use.
        with mock.patch.object(paid_fits, "LEDGER", ProcessLedger()):
            model = labeldp.LabelPrivatePreferences(epsilon=epsilon, delta=delta)
            model.fit(*train, groups=annotators)
        agreement = np.mean(model.predict(test.a, test.b) == test.prefers_a)
        found["default" + (f" at delta {delta:g}" if delta else ", pure")] = float(agreement)
    kept = slice(None, None, _PAIRS_EACH) if groups else slice(None)
    some = Pairs(train.a[kept], train.b[kept], train.prefers_a[kept])
    release = labeldp.privatize(some.prefers_a, epsilon=epsilon, task="preference")
    right = ((test.a - test.b) @ robust(some, release) > 0) == test.prefers_a
    found["randomized response, robust loss"] = float(right.mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["made", "text"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    given = parser.parse_args()
    lines: dict[tuple[Any, ...], list[float]] = {}
    worlds = text(given.seeds) if given.data == "text" else map(made, range(given.seeds))
    for seed, (train, test) in enumerate(worlds):
        true = robust(train, labeldp.privatize(train.prefers_a, epsilon=100, task="preference"))
        right = ((test.a - test.b) @ true > 0) == test.prefers_a
        lines.setdefault(("", "", "true choices"), []).append(float(right.mean()))
        for epsilon in given.epsilons:
            for groups in (False, True) if given.data == "text" else (False,):
                each = "annotator" if groups else "pair"
                for line, share in agreements(train, test, epsilon, groups=groups).items():
                    lines.setdefault((epsilon, each, line), []).append(share)
                    said = f"seed {seed}, epsilon {epsilon} per {each}, {line}: {share:.3f}"
                    print(said, file=sys.stderr, flush=True)
    for key, shares in sorted(lines.items(), key=str):
        spread = f"{np.std(shares):.3f}".lstrip("0")
        print("|", *(f"{part} |" for part in key), f"{np.mean(shares):.3f}±{spread} |")


if __name__ == "__main__":
    main()
