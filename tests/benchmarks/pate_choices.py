"""PATE's choices at one price: nearest labels beside probes as teachers, and students.

    python -m tests.benchmarks.pate_choices teachers mnist

reads the set from LABELDP_DATA, and prints the rows of docs/reproduction/pate.md: the epsilon that
the ledger charged, right answers, and test accuracy, mean and range over seeds of shards, queries,
noise and training.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import torch

from labeldp.mechanisms.pate.releases import LABEL
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.platform.vault.label_home import SecretLabels
from labeldp.platform.vault.shared_vault import FitLabels, PublicSide, SharedVault
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.pate import (
    AggregatorKind,
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)

SEEDS = 3
EPSILONS = (0.2, 0.5, 1.0)
#: As sweeps/pate_mnist.py has it, but GNMax, which answers each of its queries.
_TEACHERS = PateConfig(
    aggregator=AggregatorKind.GNMAX,
    ensemble=EnsembleConfig(teachers=800, queries=500),
    answers=500,
    student=StudentConfig(kind=StudentKind.SELF_TRAINED),
    students=1,
)
#: Neighbors, and queries of a label at most.
_NEIGHBORS = ((800, None), (200, 20), (200, 5), (100, 3), (50, 2))


def teachers() -> Iterator[tuple[str, PateConfig]]:
    """Yield probes and nearest labels at each epsilon."""
    for epsilon in EPSILONS:
        probes = replace(_TEACHERS, epsilon=epsilon)
        yield f"{epsilon:g} | 800 probes", probes
        for count, most in _NEIGHBORS:
            nearest = replace(
                probes.ensemble,
                kind=TeacherKind.NEIGHBORS,
                teachers=count,
                queries_per_label=most,
            )
            limit = "all" if most is None else f"{most}"
            yield (
                f"{epsilon:g} | {count} neighbors, {limit} queries of a label",
                replace(probes, ensemble=nearest),
            )


def measured(config: PateConfig, data: LabelledData, *, seed: int) -> Mapping[str, float]:
    """Train the teachers, ask them, and train the students, as one fit in this process."""
    config = replace(config, ensemble=replace(config.ensemble, seed=seed))
    public = data.public
    labels = FitLabels(
        SecretLabels(training=data.train_labels, num_classes=public.num_classes),
        side=PublicSide(rows=public.fingerprint, classes="", num_labels=len(data.train_labels)),
        shared=SharedVault(),
        noise=SeededNoise(seed=seed),
    )
    how = Performance(device=Device.CPU)
    labels.teach(config.ensemble, data=public, performance=how, tell=lambda line: None)
    trainer: Any = config.start(data=public, labels=labels, seed=seed, performance=how)
    for _ in range(config.epochs):
        trainer.epoch()
    released = labels.answers(
        config.ensemble, config.rounds, delta=config.delta, publish_cost=False
    )
    known = released[:, LABEL] >= 0
    truth = data.train_labels[config.ensemble.query_positions(len(data.train_labels))]
    return {
        "epsilon": labels.epsilon(delta=config.delta)[0],
        "right": 100 * float((released[known, LABEL] == truth[known]).mean()),
        "accuracy": 100 * trainer.evaluate(),
    }


def main() -> None:
    """Print a row for each choice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("choice", choices=["teachers"])
    parser.add_argument("data", help="name of a set of images")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = load(given.data)
    data = replace(data, public=described_by_features(data.public))
    for name, config in teachers():
        seeds = pd.DataFrame([measured(config, data, seed=seed) for seed in range(SEEDS)])
        epsilon, right, accuracy = seeds["epsilon"].max(), seeds["right"], seeds["accuracy"]
        print(f"| {name} | {epsilon:.3f} | {right.mean():.1f} | {_spread(accuracy)} |", flush=True)


def _spread(values: "pd.Series[float]") -> str:
    return f"{values.mean():.2f} ({values.min():.2f}\N{EN DASH}{values.max():.2f})"


if __name__ == "__main__":
    main()
