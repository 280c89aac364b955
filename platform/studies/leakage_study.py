"""The study of vote leakage: real votes recovered, an attribute inferred, defenses compared.

It trains forests and simulates answers; it uses neither a sweep nor Ray.

Wang et al., "In Differential Privacy, There is Truth" (NeurIPS 2022, arXiv:2209.10732), section 2:
250 random forests on disjoint shards of UCI Adult predict incomes above 50,000 dollars, without
seeing any column on education; the attacker calls a person a PhD holder if less than 75% of the
forests agree. Race, sex and age are attacked alike. A learned attacker knows the attribute of half
of the people, and so the votes that go with it; it also estimates a group's share among people
that it asks about.

As a defense, every teacher learns from as many people of the group as of others, copies included
(`fair`); a label is still in one shard alone. It is fairer, and no protection: on PhD holders the
plurality is right more often, and the attack no worse (docs/audits.md).

Here training rows scale the features. The published code scales those of PhD holders and of the
others each by their own mean and deviation before the forests vote, which takes knowledge of the
groups, and shifts the two differently.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from labeldp.mechanisms._validate import checked_votes
from labeldp.mechanisms.accounting import ORDERS, epsilon_from_rdp
from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, count_votes
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.vote_leakage import (
    counted_answers,
    measure_reconstruction,
    queries_within_budget,
    reconstruct,
)
from labeldp.platform.cli.command import Answer, perform
from labeldp.platform.records.results import default_results, lasting, write_text
from labeldp.platform.report.paper_figures import write_reconstruction
from labeldp.trainers.data import preprocessing
from labeldp.trainers.data.files import DatasetMissing, data_root, make_folder
from labeldp.trainers.data.published import read_adult_rows
from labeldp.trainers.methods.pate import fit_forest
from labeldp.trainers.methods.pate_settings import ForestSettings

#: What a service that recognizes an input leaves of many answers about it: so many fresh ones.
DEFENSES = {"cached answers, or noise keyed by the input": 1, "at most 20 answers": 20}
#: Below this share of agreeing teachers the attack guesses that a person is in the group.
CONSENSUS = 0.75
#: Shares of a group that the learned attacker estimates, each among half of the people.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)

#: Attribute that the attack infers -> the columns that state it, which teachers do not see, and
#: who has it by the first of them. Wives are female.
ATTRIBUTES: Mapping[str, tuple[tuple[str, ...], Callable[[NDArray[Any]], NDArray[np.bool_]]]] = {
    "doctorate": (("education", "education-num"), lambda column: column == "Doctorate"),
    "not_white": (("race",), lambda column: column != "White"),
    "female": (("sex", "relationship"), lambda column: column == "Female"),
    "over_60": (("age",), lambda column: column > 60),
}


@dataclass(frozen=True, kw_only=True)
class GroupVotes:
    """Counts [N, 2] of votes on people with the attribute and others; `accuracy` is of pluralities.

    Both accuracies are shares of the attacked people whose income the plurality has right.
    """

    group: NDArray[np.int64]
    others: NDArray[np.int64]
    accuracy_group: float
    accuracy_others: float


def infer_attribute(group: NDArray[Any], others: NDArray[Any]) -> dict[str, float]:
    """Attack votes on people of a group [P, K] and others [O, K], released or reconstructed.

    Returns:
        `consensus_group` and `consensus_others`, the shares of the group on whom more than 75% of
        the teachers agree; `balanced_accuracy` of the rule "in the group if at most 75% agree" on
        as many people of each group, and `precision`, the share of its calls that are right there,
        the paper's measure; `auc`, the chance that the consensus on a person of the group is below
        that on another, ties counted half; `learned`, the balanced accuracy of the learned attacker
        on people that it does not know, and `share_error`, its mean error of the group's share.
    """
    if 0 in (len(group), len(others)) or group.shape[1:] != others.shape[1:]:
        raise ValueError(
            f"group has shape {group.shape} and others {others.shape}; both must be [N, K] counts "
            "of the same K classes, N at least 1"
        )
    shares = [votes.max(axis=1) / votes.sum(axis=1) for votes in (group, others)]
    high = [float((share > CONSENSUS).mean()) for share in shares]
    called = 2 - sum(high)
    below = shares[0][:, None] < shares[1]
    ties = np.isclose(shares[0][:, None], shares[1], rtol=0, atol=1e-9)
    learned, share_error = _learned(group, others)
    return {
        "consensus_group": high[0],
        "consensus_others": high[1],
        "balanced_accuracy": (1 - high[0] + high[1]) / 2,
        "precision": (1 - high[0]) / called if called else float("nan"),
        "auc": float((below & ~ties).mean() + ties.mean() / 2),
        "learned": learned,
        "share_error": share_error,
    }


def _learned(group: NDArray[Any], others: NDArray[Any]) -> tuple[float, float]:
    """Learn from half of the people; return both figures of the other half, or NaN of too few.

    A group's share is read off the share of calls, by the rates of right and wrong calls among the
    people that the attacker knows.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import cross_val_predict

    if min(len(group), len(others)) < 4:
        return float("nan"), float("nan")
    generator = np.random.default_rng(0)
    halves = [np.array_split(generator.permutation(votes), 2) for votes in (group, others)]
    known = np.concatenate([half[0] for half in halves])
    truth = np.repeat([1, 0], [len(half[0]) for half in halves])
    forest = RandomForestClassifier(
        min_samples_leaf=max(1, len(group) // 20), class_weight="balanced", random_state=0
    )
    crossed = cross_val_predict(forest, known, truth, cv=2)
    rates = [float(crossed[truth == label].mean()) for label in (1, 0)]
    calls = [forest.fit(known, truth).predict(half[1]) for half in halves]
    count = min(map(len, calls))
    errors = []
    for share in SHARES:
        members = round(share * count)
        asked = np.concatenate([calls[0][:members], calls[1][: count - members]])
        gap = rates[0] - rates[1]
        found = np.clip((asked.mean() - rates[1]) / gap, 0, 1) if gap > 0 else 0.5
        errors.append(abs(found - members / count))
    return float(calls[0].mean() + 1 - calls[1].mean()) / 2, float(np.mean(errors))


def adult_votes(folder: Path, study: "LeakageStudy", attribute: str, *, fair: bool) -> GroupVotes:
    """Train an ensemble on Adult's training rows and let it vote on people of the test split.

    `adult.data` and `adult.test` lie in the folder. With `fair`, teachers learn from as many people
    of the group as of others.
    """
    train, train_labels = read_adult_rows(folder / "adult.data")
    test, test_labels = read_adult_rows(folder / "adult.test")
    if study.teachers > len(train_labels):
        raise ValueError(
            f"teachers is {study.teachers}, but Adult has {len(train_labels)} training rows"
        )
    generator = np.random.default_rng(study.seed)
    hidden, holds = ATTRIBUTES[attribute]
    members, has_it = (holds(people[hidden[0]]) for people in (train, test))
    asked = [
        np.sort(generator.permutation(np.flatnonzero(mask))[: study.others])
        for mask in (~has_it, has_it)
    ]
    for name in hidden:
        del train[name], test[name]
    encode = preprocessing.Columns.fit(train)
    train_matrix = encode(train)
    scale = preprocessing.Numbers.fit(train_matrix)
    features = scale(train_matrix)
    people = scale(encode(test))
    votes: list[NDArray[Any]] = []
    shards = np.array_split(generator.permutation(len(train_labels)), study.teachers)
    every = np.concatenate(asked)
    for number, shard in enumerate(shards):
        if fair:
            shard = _balanced(shard, members, generator)
        forest = fit_forest(
            torch.from_numpy(features[shard]),
            train_labels[shard],
            settings=ForestSettings(trees=study.trees, min_samples_leaf=2),
            seed=number,
        )
        votes.append(forest.predict(people[every]))
    counts = count_votes(np.stack(votes), num_classes=2).astype(np.int64)
    right = counts.argmax(1) == test_labels[every]
    first = len(asked[0])
    return GroupVotes(
        group=counts[first:],
        others=counts[:first],
        accuracy_group=float(right[first:].mean()),
        accuracy_others=float(right[:first].mean()),
    )


def _balanced(
    shard: NDArray[np.intp], members: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.intp]:
    """Return a shard with copies of its smaller group, so that both are as large."""
    parts = sorted((shard[members[shard]], shard[~members[shard]]), key=len)
    if not len(parts[0]):
        return shard
    return np.concatenate([shard, generator.choice(parts[0], len(parts[1]) - len(parts[0]))])


@dataclass(frozen=True, kw_only=True)
class LeakageStudy:
    """The sizes of the measurements.

    Attributes:
        teachers: Number of forests (T), which vote on each of `attributes`, plain and fair.
        others: Largest number of people that are attacked, of each group.
        noise_stds: Standard deviations of the noise on every count, in the reconstruction of
            published votes.
        budgets: Data set of published votes -> a service, and the most that an attacker may spend
            on it for one input.
        noise_std: Noise in the test of defenses, of the service whose answers betray attributes,
            and of errors by costs.
        questions: Number that the attacker asks in the test of defenses.
    """

    teachers: int = 250
    trees: int = 30
    others: int = 2000
    attributes: tuple[str, ...] = tuple(ATTRIBUTES)
    noise_stds: tuple[float, ...] = (40.0, 60.0, 80.0, 100.0)
    answers: int = 10_000
    repeats: int = 10
    budgets: Mapping[str, tuple[ConfidentGNMax, Budget]]
    noise_std: float = 40.0
    attribute_answers: int = 1000
    attribute_people: int = 150
    questions: int = 2000
    seed: int = 0


def run_study(
    study: LeakageStudy, *, name: str, adult: Path, published: Path | None, results: Path
) -> dict[str, Any]:
    """Measure everything that there are data for, and write `vote_leakage.md` into `results`.

    `adult` has `adult.data` and `adult.test`, `published` `histograms.csv` and
    `adult_votes_250.npz`. Returns the rows of all tables, the votes that the defenses guarded, and
    why a part could not be measured.
    """
    started = time.perf_counter()
    generator = np.random.default_rng(study.seed)
    missing: list[str] = []
    histograms, shipped = _published(published, missing)
    trained: dict[tuple[str, bool], GroupVotes] = {}
    try:
        for attacked, fair in product(study.attributes, (False, True)):
            trained[attacked, fair] = adult_votes(adult, study, attacked, fair=fair)
    except DatasetMissing as error:
        missing.append(
            f"attribute inference with own teachers: {error}; `labeldp data fetch adult` gets it, "
            "--data DIR names the folder of the sets"
        )
    if not trained and not histograms:
        raise ValueError("there is nothing to measure: " + "; ".join(missing))
    attribute = _attribute_rows(study, trained, shipped, generator)
    reconstruction = _reconstruction_rows(study, histograms, generator)
    if histograms:
        guarded = "published " + " and ".join(histograms)
        votes = np.concatenate(list(histograms.values()))
    else:
        guarded = "own teachers on Adult"
        votes = next(iter(trained.values())).others[:16]
    attack: dict[str, Any] = {
        "noise_std": study.noise_std,
        "repeats": study.repeats,
        "generator": generator,
    }
    defenses = [
        {"defense": defense, **measure_reconstruction(votes, answers=fresh, **attack)}
        for defense, fresh in (("none", study.questions), *DEFENSES.items())
    ]
    costs = _cost_rows(study, histograms, generator)
    make_folder(results, mode=0o700)
    if costs:
        write_reconstruction(costs, results)
    report = results / "vote_leakage.md"
    outcome = {
        "experiment": name,
        "attribute_inference": attribute,
        "reconstruction": reconstruction,
        "costs": costs,
        "defenses": defenses,
        "defended_votes": guarded,
        "missing": missing,
        "report": str(report),
        "results_dir": str(results),
        "seconds": time.perf_counter() - started,
    }
    write_text(report, tables(outcome))
    return outcome


def tables(outcome: Mapping[str, Any]) -> str:
    """Return the outcome as Markdown."""
    parts = ["# Leakage of repeated PATE answers\n"]
    for title, part in (
        ("Attributes inferred", "attribute_inference"),
        ("Histograms recovered", "reconstruction"),
        ("Errors and costs by consensus", "costs"),
        (f"Defenses ({outcome['defended_votes']} votes)", "defenses"),
    ):
        if rows := outcome[part]:
            text = pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format)
            parts.append(f"## {title}\n\n```text\n{text}\n```\n")
    return "\n".join([*parts, *(f"Not measured: {text}\n" for text in outcome["missing"])])


def main(study: LeakageStudy, smoke: LeakageStudy, *, name: str, arguments: list[str]) -> int:
    """Parse the command line, run the study, print it; returns the exit code."""
    parser = argparse.ArgumentParser(description=f"Run the study {name!r}.")
    parser.add_argument("--smoke", action="store_true", help="the small size: a minute")
    parser.add_argument("--results", metavar="DIR", type=Path, default=default_results(name))
    parser.add_argument("--data", metavar="DIR", help="folder of the sets (default: LABELDP_DATA)")
    parser.add_argument("--votes", metavar="DIR", type=Path, help="folder of published votes")
    parser.add_argument("--json", action="store_true", help="print one JSON object, last")
    options = parser.parse_args(arguments)

    def outcome() -> Answer:
        found = run_study(
            smoke if options.smoke else study,
            name=name,
            adult=data_root(options.data) / "adult",
            published=options.votes,
            results=lasting(options.results.expanduser(), name_with="--results"),
        )
        return Answer(facts=found, words=tables(found))

    return int(perform(outcome, json=options.json))


def _published(
    folder: Path | None, missing: list[str]
) -> tuple[dict[str, NDArray[Any]], tuple[NDArray[Any], NDArray[Any]] | None]:
    if folder is None:
        missing.append("published votes: --votes DIR names their folder")
        return {}, None
    try:
        table = pd.read_csv(folder / "histograms.csv")
        counts = table.filter(regex=r"^c\d+$")
        arrays = {
            str(name): checked_votes(rows.to_numpy())
            for name, rows in counts.groupby(table["dataset"], sort=False)
        }
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(
            f"{folder / 'histograms.csv'} can't be read as votes ({error}); it must have the "
            "columns dataset, c0, c1, ..."
        ) from error
    archive = folder / "adult_votes_250.npz"
    if not archive.exists():
        missing.append(f"published votes on Adult: {archive} does not exist")
        return arrays, None
    with np.load(archive, allow_pickle=False) as kept:
        return arrays, (kept["phd"], kept["not_phd"])


def _attribute_rows(
    study: LeakageStudy,
    trained: Mapping[tuple[str, bool], GroupVotes],
    shipped: tuple[NDArray[Any], NDArray[Any]] | None,
    generator: np.random.Generator,
) -> list[dict[str, Any]]:
    """One attack each: attribute, source of the votes, the attacker's view, group sizes."""
    rows: list[dict[str, Any]] = []

    def add(votes: str, seen: str, group: NDArray[Any], others: NDArray[Any], **more: Any) -> None:
        sizes = {"group": len(group), "others": len(others)}
        found = infer_attribute(group, others)
        rows.append({"votes": votes, "seen": seen, **more, **sizes, **found})

    if shipped is not None:
        add("published, scaled by each group's own", "votes", *shipped, attribute="doctorate")
    for (attribute, fair), votes in trained.items():
        own = "own teachers, fair" if fair else "own teachers"
        about: dict[str, Any] = {
            "attribute": attribute,
            "accuracy_group": votes.accuracy_group,
            "accuracy_others": votes.accuracy_others,
        }
        add(own, "votes", votes.group, votes.others, **about)
        people = study.attribute_people
        chosen = [generator.permutation(part)[:people] for part in (votes.group, votes.others)]
        for answers in (study.attribute_answers, 1):  # 1: what caching leaves
            counts = [
                counted_answers(
                    part, noise_std=study.noise_std, answers=answers, generator=generator
                )
                for part in chosen
            ]
            recovered = [reconstruct(each, study.noise_std, study.teachers) for each in counts]
            add(own, f"{answers} answer{'s' if answers > 1 else ''} each", *recovered, **about)
    return rows


#: Smallest share of the plurality in a group of histograms; Wang et al. call them H, M and L.
_GROUPS = {"high consensus": 0.9, "medium consensus": 0.6, "low consensus": 0.0}
_COST_DELTA = 1e-5


def _cost_rows(
    study: LeakageStudy, histograms: Mapping[str, NDArray[Any]], generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Errors after more and more answers, and their mean data-dependent cost, by consensus."""
    rows = []
    service = GNMax(noise_std=study.noise_std)
    for name, votes in histograms.items():
        largest = votes.max(1) / votes.sum(1)
        below = 2.0
        for consensus, least in _GROUPS.items():
            some = votes[(largest >= least) & (largest < below)]
            below = least
            for answers in (study.answers // 100, study.answers // 10, study.answers):
                if not len(some):
                    continue
                curves = [service.costs(row[None], Accounting.COUNTS).rdp() for row in some]
                prices = [
                    epsilon_from_rdp(ORDERS, answers * curve, _COST_DELTA)[0] for curve in curves
                ]
                found = measure_reconstruction(
                    some,
                    noise_std=study.noise_std,
                    answers=answers,
                    repeats=study.repeats,
                    generator=generator,
                )
                own = {"votes": name, "consensus": consensus, "answers": answers}
                rows.append({**own, "epsilon": float(np.mean(prices)), "error": found["error"]})
    return rows


def _reconstruction_rows(
    study: LeakageStudy, histograms: Mapping[str, NDArray[Any]], generator: np.random.Generator
) -> list[dict[str, Any]]:
    rows = []
    for name, votes in histograms.items():
        attacks: list[tuple[str, dict[str, Any]]] = [
            ("answers", {"noise_std": noise_std, "answers": study.answers})
            for noise_std in study.noise_stds
        ]
        if name in study.budgets:
            service, budget = study.budgets[name]
            answers = [
                queries_within_budget(row, service, epsilon=budget.epsilon, delta=budget.delta)
                for row in votes
            ]
            attacker = f"budget: epsilon {budget.epsilon:g}, delta {budget.delta:g}"
            attacks.append((attacker, {"noise_std": service.sigma2, "answers": answers}))
        for attacker, how in attacks:
            found = measure_reconstruction(votes, generator=generator, repeats=study.repeats, **how)
            rows.append({"votes": name, "attacker": attacker, **found})
    return rows
