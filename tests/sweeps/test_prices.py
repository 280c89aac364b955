"""What a plan states is what a run pays: for every file of sweeps/, studies included."""

import ast
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from labeldp.mechanisms.vault import Shard
from labeldp.platform.report.paper_figures import Published, published_for, published_rows
from labeldp.platform.settings.configuration import flatten
from labeldp.platform.settings.sweep import SweepOptions
from labeldp.platform.sweep import trial_runs
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.driver import run_sweep
from labeldp.platform.sweep.plan import plan_of, prepare
from labeldp.platform.vault.vault_store import VoteJournal
from labeldp.trainers.base import ModelName
from labeldp.trainers.performance import Precision
from tests.faults.without_cluster import without_cluster
from tests.source_tree import sources

FEW = {"data.name": "digits", "data.limit": 400, "trainer.epochs": 1}
#: Quick files, one of each way to pay: a release, stages, counts of a search, votes. A study is in
#: tests/platform/studies/test_comparison.py.
QUICK: dict[str, dict[str, Any]] = {
    "alibi_cifar10": FEW,
    "lp_mst_cifar100": {**FEW, "trainer.epochs": 2, "trainer.recipe.cutout": 2},  # images of 8 x 8
    "moments_on_embeddings": {},
    "pate_fm_cifar10": {"data.name": "digits"},
    "search_quickstart": {"trainer.epochs": 1},
}


def test_files_leave_running_to_what_plans_them() -> None:
    """A file that ran its sweep by itself, or several times, would pay what no plan states."""
    for path in sources("sweeps"):
        tree = ast.parse(path.read_text())
        if "SWEEP = " in path.read_text():
            assert ast.unparse(tree.body[-1]).endswith("main(SWEEP)"), path.name
            assert not {"run_sweep", "run_blocks"} & {
                name.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)
                for name in node.names
            }


#: Sweeps that are tables of papers, with the settings that their published rows take.
TABLES: dict[str, tuple[dict[str, Any], ...]] = {
    "alibi_cifar10": ({},),
    "alibi_cifar100": ({},),
    "pate_fm_cifar10": ({},),
    "pate_fm_cifar100": ({},),
    "lp_mst_cifar10": ({},),
    "lp_mst_cifar100": ({},),
    "lp_mst_fashion_mnist": tuple(
        {"data.name": name} for name in ("fashion_mnist", "mnist", "kmnist")
    ),
    "memorization": ({},),
}


def test_presets_of_the_papers_tables_plan_every_published_number(tmp_path: Path) -> None:
    found: dict[str, set[Published]] = {"paper": set(), "network": set(), "home": set()}
    for name, every in TABLES.items():
        sweep = load_sweep(name)
        for preset, overrides in product(found, every):
            options = SweepOptions(results=tmp_path, preset=preset, overrides=overrides)
            sized, trials = prepare(sweep, options)
            assert sized.needs_gpu == (preset == "paper")
            for trial in trials:
                found[preset].update(published_for(flatten(trial.config)))
    known = {row for row, _ in published_rows()}
    assert {row.source for row in known - found["paper"]} == {"Papernot et al. 2018, Table 1"}
    # At home ALIBI on CIFAR-10 has another noise, which has no published number.
    assert found["home"] < found["network"] == found["paper"]


#: Networks of published numbers that a processor trains in single precision.
IN_SINGLE_PRECISION = {ModelName.MLP, ModelName.SMALL_CNN, ModelName.TWO_BRANCH}


def test_networks_of_images_take_the_units_that_a_device_has() -> None:
    """Precision `auto` and channels last, in every size of every sweep but the smoke test."""
    seen = set[tuple[str, str]]()
    for path in sources("sweeps"):
        if "SWEEP = " not in path.read_text():
            continue
        sweep = load_sweep(path.stem)
        for preset in (None, *sweep.presets):
            sized, trials = prepare(sweep, SweepOptions(results=Path("none"), preset=preset))
            works = [
                (part.network.model, trial.config.performance)
                for trial in trials
                for own in (trial.config.trainer, trial.config.trainer.ensemble)
                for part in ([] if own is None else own.work(10_000))
            ]
            for model, how in works:
                fast = how.precision is Precision.AUTO and how.channels_last
                small = model in IN_SINGLE_PRECISION and not sized.needs_gpu
                assert fast or small, (path.stem, preset, model)
                seen.add((str(model), sized.name))
            for each in (sized.resources, sized.teacher):
                assert each.shared == (each.gpu > 0), (path.stem, preset)
    assert len({name for _, name in seen}) >= 15


def trained(
    vote: Any, *, data: Any, shards: Sequence[Shard], journal: VoteJournal, **pool: Any
) -> int:
    every = list(range(len(shards)))
    with journal.writing():
        journal.append(every, vote(every, shards, data))
    return len(every)


@pytest.mark.parametrize("name", QUICK)
def test_the_plan_states_what_the_run_pays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_runs, "train_ensemble", trained)
    options = SweepOptions(
        results=tmp_path / "r",
        smoke=True,
        overrides=QUICK[name],
        quiet=True,
    )
    sweep = load_sweep(name)
    planned = plan_of(sweep, options)
    assert planned.fits, planned.problems
    with without_cluster():
        paid = run_sweep(sweep, options)
    assert paid.finished == planned.trials > 0
    assert paid.ledger["releases"] == planned.releases
    assert paid.ledger["epsilon_total"] == pytest.approx(planned.epsilon_total, rel=1e-9)
