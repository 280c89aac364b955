"""The study of vote leakage: real votes recovered, an attribute inferred, defences compared.

It trains forests and simulates answers; there is no sweep in it, and no Ray.
"""

import argparse
import csv
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.vote_leakage import (
    DefenceRow,
    Reconstruction,
    VoteBudget,
    all_defences,
    answer_log_probabilities,
    measure_defences,
    measure_reconstruction,
    reconstruct,
)
from labeldp.platform.records.private_files import private_folder
from labeldp.platform.records.results import dumps, write_text
from labeldp.trainers.data.files import DatasetMissing, data_root
from labeldp.trainers.methods.attribute_inference import (
    AdultEnsemble,
    AttributeInference,
    GroupVotes,
    Scaling,
    adult_votes,
    infer_attribute,
)


@dataclass(frozen=True, kw_only=True)
class LeakageStudy:
    """The sizes of the measurements.

    Attributes:
        noise_stds: Of the noise on every count, in the reconstruction of published votes.
        budgets: Data set of published votes -> the most that a budget-limited attacker may spend.
        budget_noise_std: Noise against this attacker.
        attribute_noise_std: Noise of the service whose answers betray education.
        questions: Of the attacker that defences face.
    """

    ensemble: AdultEnsemble
    noise_stds: tuple[float, ...] = (40.0, 60.0, 80.0, 100.0)
    answers: int = 10_000
    repeats: int = 10
    budgets: Mapping[str, VoteBudget]
    budget_noise_std: float = 40.0
    attribute_noise_std: float = 40.0
    attribute_answers: int = 1000
    attribute_people: int = 150
    questions: int = 2000
    clients: int = 100
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class AttributeRow:
    """One way to infer education: source of the votes, the attacker's view, sizes of the groups."""

    votes: str
    seen: str
    phd: int
    others: int
    result: AttributeInference


@dataclass(frozen=True, kw_only=True)
class ReconstructionRow:
    """Published votes recovered by one attacker."""

    votes: str
    attacker: str
    result: Reconstruction


@dataclass(frozen=True, kw_only=True)
class LeakageOutcome:
    """All tables, the votes that the defences guarded, and why a part could not be measured."""

    experiment: str
    attribute_inference: list[AttributeRow]
    reconstruction: list[ReconstructionRow]
    defences: list[DefenceRow]
    defended_votes: str
    missing: list[str]
    report: str
    results_dir: str
    seconds: float


def run_study(
    study: LeakageStudy, *, name: str, adult: Path, published: Path | None, results: Path
) -> LeakageOutcome:
    """Measure everything that there are data for, and write `vote_leakage.md` into `results`.

    `adult` has `adult.data` and `adult.test`, `published` `histograms.csv` and
    `adult_votes_250.npz`.
    """
    started = time.perf_counter()
    generator = np.random.default_rng(study.seed)
    missing: list[str] = []
    histograms, shipped = _published(published, missing)
    trained: dict[Scaling, GroupVotes] = {}
    try:
        trained = adult_votes(adult, study.ensemble)
    except DatasetMissing as error:
        missing.append(
            f"attribute inference with own teachers: {error}; `labeldp data fetch adult` gets it, "
            "--data DIR names the folder of the sets"
        )
    if not trained and not histograms:
        raise ValueError("there is nothing to measure: " + "; ".join(missing))
    attribute = _attribute_rows(study, trained, shipped, generator)
    reconstruction = _reconstruction_rows(study, histograms, generator)
    guarded, votes = _guarded(histograms, trained)
    defences = measure_defences(
        votes,
        all_defences(key=generator.bytes(32)),
        noise_std=study.budget_noise_std,
        questions=study.questions,
        clients=study.clients,
        generator=generator,
    )
    private_folder(results)
    report = results / "vote_leakage.md"
    outcome = LeakageOutcome(
        experiment=name,
        attribute_inference=attribute,
        reconstruction=reconstruction,
        defences=defences,
        defended_votes=guarded,
        missing=missing,
        report=str(report),
        results_dir=str(results),
        seconds=time.perf_counter() - started,
    )
    write_text(report, tables(outcome))
    return outcome


def tables(outcome: LeakageOutcome) -> str:
    """Return the outcome as Markdown."""
    parts = ["# What repeated PATE answers give away\n"]
    if outcome.attribute_inference:
        head = ["votes", "the attacker sees", "PhD", "others", "over 75% agree: PhD", "others"]
        lines = [
            [
                row.votes,
                row.seen,
                str(row.phd),
                str(row.others),
                f"{100 * row.result.consensus_phd:.1f}%",
                f"{100 * row.result.consensus_others:.1f}%",
                f"{row.result.balanced_accuracy:.3f}",
                f"{row.result.auc:.3f}",
            ]
            for row in outcome.attribute_inference
        ]
        parts += ["## Who holds a PhD?\n", _table([*head, "balanced accuracy", "AUC"], lines)]
    if outcome.reconstruction:
        head = ["votes", "attacker", "noise std", "answers", "error", "with prior", "ms each"]
        lines = [
            [
                row.votes,
                row.attacker,
                f"{row.result.noise_std:g}",
                f"{row.result.answers:.0f}",
                f"{row.result.error:.4f}",
                f"{row.result.error_with_prior:.4f}",
                f"{row.result.milliseconds:.1f}",
            ]
            for row in outcome.reconstruction
        ]
        parts += ["## Histograms recovered\n", _table(head, lines)]
    head = ["defence", "attack's error", "input changed a little", "draws per input"]
    lines = [
        [
            row.defence,
            f"{row.error:.3f}",
            f"{row.error_evaded:.3f}",
            f"{row.draws:.0f}",
            f"{100 * row.accuracy:.1f}%",
            f"{100 * row.answered_again:.0f}%",
        ]
        for row in outcome.defences
    ]
    columns = [*head, "accuracy of first answers", "answers to ten equal questions"]
    parts += [f"## Defences ({outcome.defended_votes} votes)\n", _table(columns, lines)]
    parts += [f"Not measured: {text}\n" for text in outcome.missing]
    return "\n".join(parts)


def main(study: LeakageStudy, smoke: LeakageStudy, *, name: str, arguments: list[str]) -> int:
    """Parse the command line, run the study, print it; returns the exit code."""
    parser = argparse.ArgumentParser(description=f"Run the study {name!r}.")
    parser.add_argument("--smoke", action="store_true", help="the small size: a minute")
    parser.add_argument("--results", metavar="DIR", default=f"results/{name}")
    parser.add_argument("--data", metavar="DIR", help="folder of the sets (default: LABELDP_DATA)")
    parser.add_argument("--votes", metavar="DIR", help="folder of published votes")
    parser.add_argument("--json", action="store_true", help="print one JSON object, last")
    options = parser.parse_args(arguments)
    try:
        outcome = run_study(
            smoke if options.smoke else study,
            name=name,
            adult=data_root(options.data) / "adult",
            published=None if options.votes is None else Path(options.votes),
            results=Path(options.results).expanduser(),
        )
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(dumps(asdict(outcome)) if options.json else tables(outcome))
    return 0


def _published(
    folder: Path | None, missing: list[str]
) -> tuple[dict[str, NDArray[np.int64]], tuple[NDArray[Any], NDArray[Any]] | None]:
    """Published histograms by data set, and votes on PhD holders and others, where they are."""
    if folder is None:
        missing.append("published votes: --votes DIR names their folder")
        return {}, None
    histograms: dict[str, list[list[int]]] = {}
    try:
        with open(folder / "histograms.csv", newline="") as file:
            for row in csv.DictReader(file):
                counts = [int(value) for key, value in row.items() if key[0] == "c" and key[1:]]
                histograms.setdefault(row["dataset"], []).append(counts)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{folder / 'histograms.csv'} can't be read as votes ({error}); it must have the "
            "columns dataset, c0, c1, ..."
        ) from error
    arrays = {name: np.array(rows) for name, rows in histograms.items()}
    archive = folder / "adult_votes_250.npz"
    if not archive.exists():
        missing.append(f"published votes on Adult: there is no {archive}")
        return arrays, None
    with np.load(archive, allow_pickle=False) as kept:
        return arrays, (kept["phd"], kept["not_phd"])


def _guarded(
    histograms: Mapping[str, NDArray[np.int64]], trained: Mapping[Scaling, GroupVotes]
) -> tuple[str, NDArray[Any]]:
    """The votes that the defences guard: published ones if there are any, or some of our own."""
    if histograms:
        return "published " + " and ".join(histograms), np.concatenate(list(histograms.values()))
    return "own teachers on Adult", trained[Scaling.TRAINING_ROWS].others[:16]


def _attribute_rows(
    study: LeakageStudy,
    trained: Mapping[Scaling, GroupVotes],
    shipped: tuple[NDArray[Any], NDArray[Any]] | None,
    generator: np.random.Generator,
) -> list[AttributeRow]:
    rows: list[AttributeRow] = []

    def add(votes: str, seen: str, phd: NDArray[Any], others: NDArray[Any]) -> None:
        result = infer_attribute(phd, others)
        rows.append(
            AttributeRow(votes=votes, seen=seen, phd=len(phd), others=len(others), result=result)
        )

    for scaling, groups in trained.items():
        add(f"own teachers, scaled by {scaling}", "votes", groups.phd, groups.others)
    if shipped is not None:
        add("published, scaled by each group's own", "votes", *shipped)
    if not trained:
        return rows
    groups = trained[Scaling.TRAINING_ROWS]
    people = study.attribute_people
    chosen = [generator.permutation(part)[:people] for part in (groups.phd, groups.others)]
    for answers in (study.attribute_answers, 1):  # 1: what caching leaves
        recovered = [_from_answers(study, votes, answers, generator) for votes in chosen]
        seen = f"{answers} answer{'s' if answers > 1 else ''} each"
        add(f"own teachers, scaled by {Scaling.TRAINING_ROWS}", seen, *recovered)
    return rows


def _from_answers(
    study: LeakageStudy, votes: NDArray[Any], answers: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Votes [N, K] as an attacker reconstructs them from a number of answers about each."""
    noise_std = study.attribute_noise_std
    chances = [np.exp(answer_log_probabilities(row, noise_std)) for row in votes]
    counts = np.stack([generator.multinomial(answers, each / each.sum()) for each in chances])
    return reconstruct(counts, noise_std, int(votes[0].sum()))


def _reconstruction_rows(
    study: LeakageStudy, histograms: Mapping[str, NDArray[np.int64]], generator: np.random.Generator
) -> list[ReconstructionRow]:
    rows = []
    for name, votes in histograms.items():
        for noise_std in study.noise_stds:
            found = measure_reconstruction(
                votes,
                noise_std=noise_std,
                answers=study.answers,
                generator=generator,
                repeats=study.repeats,
            )
            rows.append(ReconstructionRow(votes=name, attacker="answers", result=found))
        budget = study.budgets.get(name)
        if budget is not None:
            found = measure_reconstruction(
                votes,
                noise_std=study.budget_noise_std,
                budget=budget,
                generator=generator,
                repeats=study.repeats,
            )
            attacker = f"budget: epsilon {budget.epsilon:g}, delta {budget.delta:g}"
            rows.append(ReconstructionRow(votes=name, attacker=attacker, result=found))
    return rows


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(cells) + " |" for cells in (head, *lines)]
    return "\n".join([rows[0], "|" + "---|" * len(head), *rows[1:]]) + "\n"
