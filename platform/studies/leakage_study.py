"""The study of vote leakage: real votes recovered, an attribute inferred, defenses compared.

It trains forests and simulates answers; it uses neither a sweep nor Ray.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from numpy.typing import NDArray

from labeldp.mechanisms._validate import checked_votes
from labeldp.mechanisms.accounting import ORDERS, epsilon_from_rdp
from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.vote_leakage import (
    counted_answers,
    measure_defenses,
    measure_reconstruction,
    queries_within_budget,
    reconstruct,
)
from labeldp.platform.cli.command import Answer, perform
from labeldp.platform.records.results import write_text
from labeldp.platform.report.figures import RC, save
from labeldp.platform.report.paper_figures import KINDS
from labeldp.platform.report.paper_figures import reconstruction as reconstruction_figure
from labeldp.trainers.data.files import DatasetMissing, data_root, private_folder
from labeldp.trainers.methods.attribute_inference import (
    AdultEnsemble,
    Attribute,
    GroupVotes,
    adult_votes,
    infer_attribute,
)


@dataclass(frozen=True, kw_only=True)
class LeakageStudy:
    """The sizes of the measurements.

    Attributes:
        ensemble: For each of `attributes`, once as it is and once fair.
        noise_stds: Standard deviations of the noise on every count, in the reconstruction of
            published votes.
        budgets: Data set of published votes -> a service, and the most that an attacker may spend
            on it for one input.
        noise_std: Noise in the test of defenses, of the service whose answers betray attributes,
            and of errors by costs.
        questions: Number that the attacker asks in the test of defenses.
    """

    ensemble: AdultEnsemble
    attributes: tuple[Attribute, ...] = tuple(Attribute)
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
    trained: list[tuple[AdultEnsemble, GroupVotes]] = []
    try:
        for attacked, fair in product(study.attributes, (False, True)):
            ensemble = replace(study.ensemble, attribute=attacked, fair=fair)
            trained.append((ensemble, adult_votes(adult, ensemble)))
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
        votes = trained[0][1].others[:16]
    defenses = measure_defenses(
        votes,
        noise_std=study.noise_std,
        questions=study.questions,
        generator=generator,
    )
    costs = _cost_rows(study, histograms, generator)
    private_folder(results)
    if costs:
        with rc_context(RC):
            figure = reconstruction_figure(costs)
            save(figure, *(results / f"reconstruction.{kind}" for kind in KINDS))
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
    parser.add_argument("--results", metavar="DIR", type=Path, default=f"results/{name}")
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
            results=options.results.expanduser(),
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
    trained: Sequence[tuple[AdultEnsemble, GroupVotes]],
    shipped: tuple[NDArray[Any], NDArray[Any]] | None,
    generator: np.random.Generator,
) -> list[dict[str, Any]]:
    """One attack each: attribute, source of the votes, the attacker's view, group sizes."""
    rows: list[dict[str, Any]] = []

    def add(votes: str, seen: str, group: NDArray[Any], others: NDArray[Any], **more: Any) -> None:
        sizes = {"group": len(group), "others": len(others)}
        found = asdict(infer_attribute(group, others))
        rows.append({"votes": votes, "seen": seen, **more, **sizes, **found})

    if shipped is not None:
        add("published, scaled by each group's own", "votes", *shipped, attribute="doctorate")
    for ensemble, votes in trained:
        own = "own teachers, fair" if ensemble.fair else "own teachers"
        about: dict[str, Any] = {
            "attribute": ensemble.attribute.value,
            "accuracy_group": votes.accuracy_group,
            "accuracy_others": votes.accuracy_others,
        }
        add(own, "votes", votes.group, votes.others, **about)
        people = study.attribute_people
        chosen = [generator.permutation(part)[:people] for part in (votes.group, votes.others)]
        for answers in (study.attribute_answers, 1):  # 1: what caching leaves
            recovered = [_from_answers(study, part, answers, generator) for part in chosen]
            add(own, f"{answers} answer{'s' if answers > 1 else ''} each", *recovered, **about)
    return rows


def _from_answers(
    study: LeakageStudy, votes: NDArray[Any], answers: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Votes [N, K] as an attacker reconstructs them from a number of answers about each."""
    counts = counted_answers(votes, noise_std=study.noise_std, answers=answers, generator=generator)
    return reconstruct(counts, study.noise_std, int(votes[0].sum()))


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
        for attacker, settings in attacks:
            found = measure_reconstruction(
                votes, generator=generator, repeats=study.repeats, **settings
            )
            rows.append({"votes": name, "attacker": attacker, **found})
    return rows
