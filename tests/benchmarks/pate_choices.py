"""PATE's choices at one price: nearest labels beside probes, and students side by side.

    python -m tests.benchmarks.pate_choices teachers mnist
    python -m tests.benchmarks.pate_choices students mnist

reads the set from LABELDP_DATA, and prints the rows of docs/reproduction/pate.md.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import count_votes
from labeldp.mechanisms.pate.releases import LABEL, PateAnswers
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.base import FeatureSet, ModelName
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.methods.pate import TeacherVotes
from labeldp.trainers.methods.pate_settings import (
    AggregatorKind,
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.training import LearnerConfig, SemiSupervisedConfig

EPSILONS = (0.1, 0.2, 0.5, 1.0)
#: GNMax answers each of its queries; the student is one probe.
_PROBES = PateConfig(
    aggregator=AggregatorKind.GNMAX,
    ensemble=EnsembleConfig(teachers=800, queries=500),
    answers=500,
    students=1,
)
#: Neighbors, and queries of a label at most.
_NEIGHBORS = ((800, None), (400, 4), (100, 1), (50, 1))
#: Of the students: 100 nearest labels, by pixels, answer 100 queries.
_FEW = PateConfig(
    aggregator=AggregatorKind.GNMAX,
    ensemble=EnsembleConfig(
        kind=TeacherKind.NEIGHBORS, teachers=100, queries=100, queries_per_label=1
    ),
    epsilon=0.5,
    answers=100,
    students=1,
)
_CNN: Mapping[str, Any] = {"model": ModelName.SMALL_CNN, "width": 16, "batch_size": 20}
STUDENTS = {
    "plain": StudentConfig(
        kind=StudentKind.NETWORK, network=LearnerConfig(**_CNN, epochs=100, learning_rate=0.05)
    ),
    "semi-supervised": StudentConfig(
        kind=StudentKind.SEMI_SUPERVISED,
        features=FeatureSet.PATCHES,
        semi_supervised=SemiSupervisedConfig(flip=False, padding=2, box=8),
    ),
}


@dataclass
class Answers:
    """The answers of one ensemble, drawn and charged by a vault; nothing else is measured."""

    vault: LabelVault
    counts: NDArray[Any]
    seed: int
    persons: None = None

    def release(self, *requested: Any, **how: Any) -> Any:
        raise NotImplementedError

    def answers(
        self, ensemble: EnsembleConfig, requests: Sequence[PateAnswers], *_: Any, **__: Any
    ) -> NDArray[np.int64]:
        (request,) = requests
        noise = SeededNoise(seed=self.seed)
        return self.vault.release_from_votes(request, self.counts, noise=noise).values


def teachers() -> Iterator[tuple[str, EnsembleConfig]]:
    yield "800 probes | 500", _PROBES.ensemble
    for count, most in _NEIGHBORS:
        nearest = replace(
            _PROBES.ensemble,
            kind=TeacherKind.NEIGHBORS,
            teachers=count,
            queries_per_label=most,
        )
        yield f"{count} nearest labels | {most or nearest.queries}", nearest


def measured(
    runs: Mapping[tuple[Any, ...], PateConfig], data: LabelledData, *, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield figures of all runs of one ensemble, which votes once."""
    public, truth = data.public, data.train_labels
    how = Performance(device=Device.CPU)
    # One test row in each epoch, and all of them at the end.
    silent = replace(
        public, test_features=public.test_features[:1], test_labels=public.test_labels[:1]
    )
    (ensemble,) = {replace(each.ensemble, seed=seed) for each in runs.values()}
    vault = LabelVault(labels=truth, num_classes=public.num_classes)
    votes = TeacherVotes(config=ensemble, performance=how)(
        range(ensemble.teachers), vault.partition(ensemble.teachers, seed=seed), public
    )
    counts = count_votes(votes, num_classes=public.num_classes)
    for name, config in runs.items():
        own = replace(config, ensemble=ensemble)
        labels = Answers(LabelVault(labels=truth, num_classes=public.num_classes), counts, seed)
        trainer: Any = own.start(data=silent, labels=labels, seed=seed, performance=how)
        for _ in range(own.epochs):
            trainer.epoch()
        answers = labels.answers(ensemble, own.rounds)[:, LABEL]
        known = truth[ensemble.query_positions(len(truth))]
        yield {
            "run": name,
            "epsilon": labels.vault.epsilon(delta=own.delta),
            "right": 100 * float((answers == known).mean()),
            "accuracy": 100 * public.test_accuracy(trainer.predict(public.test_features).argmax(1)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("choice", choices=["teachers", "students"])
    parser.add_argument("data", help="name of a set of images")
    parser.add_argument("--features", type=Path, help="folder that keeps features between runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = load(given.data)
    if given.choice == "students":
        few = {(name,): replace(_FEW, student=student) for name, student in STUDENTS.items()}
        _print_rows([row for s in given.seeds for row in measured(few, data, seed=s)])
        return
    data = replace(data, public=described_by_features(data.public, folder=given.features))
    for name, ensemble in teachers():
        runs = {
            (name, each): replace(_PROBES, ensemble=ensemble, epsilon=each) for each in EPSILONS
        }
        _print_rows([row for s in given.seeds for row in measured(runs, data, seed=s)])


def _print_rows(found: list[dict[str, Any]]) -> None:
    for (name, *_), seeds in pd.DataFrame(found).groupby("run", sort=False):
        epsilon, right, values = seeds["epsilon"].max(), seeds["right"], seeds["accuracy"]
        spread = f"{values.mean():.1f} ({values.min():.1f}\N{EN DASH}{values.max():.1f})"
        print(f"| {name} | {epsilon:.3g} | {right.mean():.1f} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
