"""PATE's choices at one price: nearest labels beside probes, and answers beside labels.

    python -m tests.benchmarks.pate_choices teachers mnist
    python -m tests.benchmarks.pate_choices labels mnist

reads the set from LABELDP_DATA, and prints the rows of docs/reproduction/pate.md. `labels` trains
students on private answers, and beside them on the labels of as many examples, on data that get
worse: wrong labels, and rare classes (Papernot et al. 2018, sections 5.1 and 6). `--figure FOLDER`
draws them, with what the answers cost.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, count_votes
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.releases import LABEL, PateAnswers
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.report.figures import RC, SOFT, save
from labeldp.platform.report.paper_figures import KINDS
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.methods.pate import TeacherVotes, start_student
from labeldp.trainers.methods.pate_settings import (
    AggregatorKind,
    EnsembleConfig,
    PateConfig,
    TeacherKind,
)
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.performance import Device, Performance

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
#: The setting of PATE 2018 for MNIST.
_PUBLISHED = PateConfig(
    ensemble=EnsembleConfig(teachers=250, queries=640),
    threshold=200.0,
    sigma1=150.0,
    sigma2=40.0,
    answers=286,
    students=1,
)
#: Share of wrong labels, and how frequent the rarest class is beside the most frequent one.
UNCURATED = ((0.0, 1.0), (0.1, 1.0), (0.2, 1.0), (0.4, 1.0), (0.0, 0.2), (0.0, 0.05), (0.2, 0.2))


class Answers(LabelVault):
    """A vault with the votes of one ensemble, which draws and charges its answers."""

    def __init__(self, data: LabelledData, counts: NDArray[Any], seed: int) -> None:
        super().__init__(labels=data.train_labels, num_classes=data.public.num_classes)
        self.counts = counts
        self.seed = seed

    def answers(
        self, ensemble: EnsembleConfig, requests: Sequence[PateAnswers], *_: Any, **__: Any
    ) -> NDArray[np.int64]:
        (request,) = requests
        noise = SeededNoise(seed=self.seed)
        return self.release_from_votes(request, self.counts, noise=noise).values


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


def counted(ensemble: EnsembleConfig, data: LabelledData) -> NDArray[Any]:
    """Train the teachers; return their votes on the queries [Q, K]."""
    vault = LabelVault(labels=data.train_labels, num_classes=data.public.num_classes)
    votes = TeacherVotes(config=ensemble, performance=Performance(device=Device.CPU))(
        range(ensemble.teachers),
        vault.partition(ensemble.teachers, seed=ensemble.seed),
        data.public,
    )
    return count_votes(votes, num_classes=data.public.num_classes)


def spoiled(
    data: LabelledData, *, wrong: float, rarest: float, seed: int
) -> tuple[LabelledData, NDArray[np.int64]]:
    """Return fewer and worse training examples, and their true labels.

    Class k of K keeps the share rarest^(k / (K - 1)) of its examples. Of all that are left, the
    share `wrong` gets the label of another class. The test split stays.
    """
    generator = np.random.default_rng([seed, 2])
    classes = data.public.num_classes
    truth = data.train_labels
    kept = np.flatnonzero(generator.random(len(truth)) < rarest ** (truth / (classes - 1)))
    truth = truth[kept]
    others = (truth + generator.integers(1, classes, len(truth))) % classes
    given = np.where(generator.random(len(truth)) < wrong, others, truth)
    features = data.public.train_features[torch.from_numpy(kept)]
    public = replace(data.public, train_features=features)
    return replace(data, public=public, train_labels=given), truth


def beside_labels(data: LabelledData, *, seed: int) -> Iterator[dict[str, Any]]:
    """Yield accuracies of students on answers and on labels, for each kind of uncurated data."""
    for wrong, rarest in UNCURATED:
        worse, truth = spoiled(data, wrong=wrong, rarest=rarest, seed=seed)
        config = replace(_PUBLISHED, ensemble=replace(_PUBLISHED.ensemble, seed=seed))
        counts = counted(config.ensemble, worse)
        (request,) = config.rounds
        assert isinstance(request.aggregator, ConfidentGNMax)
        costs = request.aggregator.costs(counts, Accounting.COUNTS)
        released = Answers(worse, counts, seed).answers(config.ensemble, (request,))[:, LABEL]
        asked = config.ensemble.query_positions(len(truth))[: len(released)]
        known = released >= 0
        answered = asked[known]
        # As many queries in the order of asking: nothing selects them.
        first = asked[: len(answered)]
        row: dict[str, Any] = {
            "wrong": wrong,
            "rarest": rarest,
            "answered": len(answered),
            "right": 100 * float((released[known] == truth[answered]).mean()),
            "cost": costs.cost(delta=config.delta).epsilon,
        }
        for name, examples, labels in (
            ("answers", answered, released[known]),
            ("their labels", answered, worse.train_labels[answered]),
            ("labels of any", first, worse.train_labels[first]),
        ):
            student = start_student(
                config.student,
                data=worse.public,
                examples=examples,
                labels=labels.astype(np.int64),
                seed=seed,
                performance=Performance(device=Device.CPU),
            )
            student.epoch()
            row[name] = 100 * student.evaluate()
        yield row


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
    counts = counted(ensemble, data)
    for name, config in runs.items():
        own = replace(config, ensemble=ensemble)
        labels = Answers(data, counts, seed)
        trainer: Any = own.start(data=silent, labels=labels, seed=seed, performance=how)
        for _ in range(own.epochs):
            trainer.epoch()
        answers = labels.answers(ensemble, own.rounds)[:, LABEL]
        known = truth[ensemble.query_positions(len(truth))]
        yield {
            "run": name,
            "epsilon": labels.epsilon(delta=own.delta),
            "right": 100 * float((answers == known).mean()),
            "accuracy": 100 * public.test_accuracy(trainer.predict(public.test_features).argmax(1)),
        }


def uncurated(means: pd.DataFrame) -> Figure:
    """Draw accuracies and the cost of answers for each kind of data, a row of the table."""
    names = [
        ", ".join(
            word
            for word, there in (
                (f"{wrong:.0%} wrong", wrong),
                (f"rarest 1:{1 / rarest:.0f}", rarest < 1),
            )
            if there
        )
        or "as they are"
        for wrong, rarest in means.index
    ]
    figure = Figure(figsize=(5.6, 7.6), layout="constrained")
    left, right = figure.subplots(2, sharey=True, height_ratios=(3, 2))
    places = np.arange(len(names))
    for place, column in enumerate(("answers", "their labels", "labels of any")):
        left.barh(places + 0.27 * (place - 1), means[column], 0.25, label=column)
    left.set(xlabel="accuracy of a student, %", yticks=places, yticklabels=names)
    left.invert_yaxis()
    right.barh(places, means["cost"], 0.6, color=SOFT)
    right.set(xlabel=f"epsilon at delta {_PUBLISHED.delta:g}, of these votes")
    for axes in (left, right):
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower left", ncols=3, fontsize="small")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("choice", choices=["teachers", "labels"])
    parser.add_argument("data", help="name of a set of images")
    parser.add_argument("--features", type=Path, help="folder that keeps features between runs")
    parser.add_argument("--figure", type=Path, help="folder for a figure of `labels`")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = load(given.data)
    data = replace(data, public=described_by_features(data.public, folder=given.features))
    if given.choice == "labels":
        found = pd.DataFrame([row for s in given.seeds for row in beside_labels(data, seed=s)])
        means = found.groupby(["wrong", "rarest"], sort=False).mean()
        print(means.round(2).to_string(), flush=True)
        if given.figure is not None:
            given.figure.mkdir(parents=True, exist_ok=True)
            with rc_context(RC):
                save(uncurated(means), *(given.figure / f"labels.{kind}" for kind in KINDS))
        return
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
