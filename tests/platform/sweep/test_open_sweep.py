"""open_sweep and the report: what an earlier start left, whose coins are secret, reports."""

import csv
import fcntl
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import ray
from ray._private import parameter

from labeldp.mechanisms.accounting import GaussianEvent
from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.vault import Charge
from labeldp.platform import cluster
from labeldp.platform.cluster import place
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.platform.settings.sweep import (
    CannotFit,
    PlannedTrial,
    Resources,
    SweepOptions,
    plan_trials,
)
from labeldp.platform.sweep.driver import check, run_sweep
from labeldp.platform.sweep.open_sweep import _coin_seed, budget_left, known_ledger
from labeldp.platform.vault.vault_store import SqliteStore
from tests.faults.without_cluster import without_cluster
from tests.platform.sweep.examples import a_charge, a_cluster, a_record, a_sweep


def trials(*seeds: int | None) -> list[PlannedTrial]:
    return plan_trials(a_sweep(variants=()), {"noise.seed": list(seeds)})


def test_coins_are_a_secret_unless_all_noise_is_seeded() -> None:
    assert _coin_seed(trials(7, None, 3)) is None
    assert _coin_seed(trials(7, 3, 5)) == 3
    assert _coin_seed(trials(0, 2)) == 0


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    """A folder whose one trial read a release."""
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    store = SqliteStore(folder.store)
    charge: Charge = a_charge("r1")
    assert store.record(charge, np.arange(3), lines=0)
    folder.identify(vault=store.id)
    folder.keep(a_record(release_keys=("r1",)))
    return folder


@pytest.mark.parametrize("kept", ["sweep.json", "trials"])
def test_a_deleted_vault_is_missed_by_whatever_is_left(folder: ResultsFolder, kept: str) -> None:
    folder.store.unlink()
    if kept != "sweep.json":
        (folder.path / "sweep.json").unlink()
    if kept != "trials":
        (folder.path / "trials" / f"{a_record().hash}.json").unlink()
    with pytest.raises(ValueError, match=r"vault\.db is missing.*--results"):
        known_ledger(folder, moved=True)
    assert not folder.store.exists()


def test_a_new_vault_in_its_place_is_refused(folder: ResultsFolder) -> None:
    folder.store.unlink()
    SqliteStore(folder.store)
    with pytest.raises(ValueError, match=r"not the vault that this folder's sweep\.json"):
        known_ledger(folder, moved=True)


@pytest.mark.parametrize("finished", [True, False])
def test_a_release_that_any_trial_read_is_missed(folder: ResultsFolder, finished: bool) -> None:
    """Also one of another plan, and one that failed: it has seen the noise."""
    folder.keep(a_record("f" * 16, finished=finished, reason="no", release_keys=("r1", "r2")))
    with pytest.raises(ValueError, match=r"lost lines.*trials read release r2"):
        known_ledger(folder, moved=False)


@pytest.mark.parametrize(
    ("own", "drawn", "expected"),
    [
        (None, False, Budget(epsilon=50.0)),
        (None, True, Budget(epsilon=50.0, delta=1e-5)),
        (Budget(epsilon=60.0, delta=1e-3), True, Budget(epsilon=50.0, delta=1e-3)),
        (Budget(epsilon=40.0, delta=1e-3), False, Budget(epsilon=40.0, delta=1e-3)),
    ],
)
def test_a_command_line_tightens_a_budget_at_its_delta_or_that_of_earlier_releases(
    own: Budget | None, drawn: bool, expected: Budget, tmp_path: Path
) -> None:
    """At delta 0 a Gaussian release has no epsilon, and nothing could be afforded after it."""
    sweep = replace(a_sweep(budget=own), variants=a_sweep().variants[:1])
    plan, _ = check(sweep, SweepOptions(results=tmp_path / "results", max_epsilon_total=50.0))
    assert plan.cost.delta == 0.0
    charges = []
    if drawn:
        line = replace(a_charge("g"), event=GaussianEvent(noise_multiplier=4.0))
        charges.append(line)
    assert budget_left(plan, charges, plan.trials, read=()) == expected


def test_a_report_holds_all_trials_of_the_folder_whatever_this_command_ran(tmp_path: Path) -> None:
    """`--only AGIBI` after `--only ALIBI`: both lines are in the table and on the page."""
    changes = {"trainer.epochs": 1, "audit.canaries": 20, "data.limit": 200}
    sweep = a_sweep(base=with_changes(TrialConfig(), changes))
    for line in ("ALIBI", "AGIBI"):
        with without_cluster():
            outcome = run_sweep(sweep, SweepOptions(results=tmp_path, only=(line,), quiet=True))
        assert (outcome.trials, outcome.finished, outcome.left) == (2, 2, 0)
    rows = list(csv.DictReader((tmp_path / "pareto.csv").read_text().splitlines()))
    assert sorted(row["variant"] for row in rows) == ["AGIBI"] * 2 + ["ALIBI"] * 2
    assert "4 trials finished, 0 failed" in Path(outcome.report).read_text()
    assert outcome.tracked and "The 4 private trials together" in outcome.cost


# cluster: where a trial fits, and a private cluster's start. No Ray is started here.


def test_a_share_of_a_gpu_is_dropped_without_gpus_unless_required() -> None:
    wanted = Resources(cpu=2, gpu=0.5)
    assert place(wanted, a_cluster((2, 0)), gpu_required=False) == Resources(cpu=2, gpu=0)
    assert place(wanted, a_cluster((2, 1)), gpu_required=False) == wanted
    # An autoscaler may bring one: better wait for it than train for days without.
    assert place(wanted, a_cluster((2, 0), grows=True), gpu_required=False) == wanted
    placed = place(Resources(cpu=1), a_cluster((4, 1)), gpu_required=True)
    assert placed == Resources(cpu=1, gpu=1)


@pytest.mark.parametrize(
    ("wanted", "sizes", "gpu_required"),
    [
        (Resources(cpu=5), [(4.0, 0.0), (4.0, 0.0)], False),  # eight cores, but not on one node
        (Resources(cpu=1), [(4.0, 0.0)], True),
        (Resources(cpu=8, gpu=1), [(8.0, 0.0), (2.0, 1.0)], False),
        (Resources(cpu=1), [], False),
    ],
)
def test_a_trial_larger_than_every_node_is_refused(
    wanted: Resources, sizes: list[tuple[float, float]], gpu_required: bool
) -> None:
    with pytest.raises(CannotFit, match=rf"{wanted.cpu:g} CPU .* on one node.* or add a node"):
        place(wanted, a_cluster(*sizes), gpu_required=gpu_required)
    place(wanted, a_cluster(*sizes, grows=True), gpu_required=gpu_required)


@pytest.mark.parametrize("by", ["option", "variable", "connection"])
def test_ray_client_is_refused(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls the head the driver's node, and the room with the labels would be there."""
    init = Mock()
    monkeypatch.setattr(ray, "init", init)
    if by == "variable":
        monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    if by == "connection":
        connected = SimpleNamespace(is_connected=lambda: True)
        monkeypatch.setattr(cluster, "ray_client", SimpleNamespace(ray=connected))
    address = "ray://head:10001" if by == "option" else None
    with pytest.raises(cluster.ClusterUnusable, match=r"Ray Client .*ray job submit"):
        with cluster.connected(address):
            pass
    assert not init.called


def test_the_options_that_ray_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ray's own bound labels of 100,000 rows would not travel with the request."""
    given: dict[str, Any] = {}

    def init(**options: Any) -> None:
        given.update(options, agent=parameter.RayParams().dashboard_agent_listen_port)

    node = SimpleNamespace(node_ip_address="127.0.0.1")
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(cluster, "capacity", lambda **_: None)
    with cluster.connected("local"):
        assert Path(given["_temp_dir"]).parent.is_dir()
    assert not Path(given["_temp_dir"]).parent.exists()
    assert given["_system_config"]["max_direct_call_object_size"] >= 4_000_000
    left = [tmp_path / f"labeldp-{name}" for name in ("killed", "running", "older")]
    for each in left:
        each.mkdir()
    for each in left[:2]:
        (each / cluster._LOCK).touch()
    monkeypatch.setattr(cluster, "get_default_system_temp_dir", lambda: str(tmp_path))
    monkeypatch.setattr(ray, "init", Mock(side_effect=RuntimeError("no")))
    with open(left[1] / cluster._LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(cluster.ClusterUnusable), cluster.connected("local"):
            pass
    assert sorted(tmp_path.iterdir()) == sorted(left[1:])  # nor is its own left
    assert given["agent"] == 0  # any free port, and not the one that `ray start` needs
    assert parameter.RayParams().dashboard_agent_listen_port == 52365


def test_a_cluster_without_a_processor_is_taken_to_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its autoscaler reports seconds after the start; a sweep that asks before is not refused."""
    head: dict[str, Any] = {"Alive": True, "Resources": {}}
    monkeypatch.setattr(cluster, "known_nodes", lambda: [head])
    monkeypatch.setattr(cluster, "_has_autoscaler", lambda: False)
    wanted = Resources(cpu=2)
    assert place(wanted, cluster.capacity(), gpu_required=False) == wanted
    for private, cores in ((True, 0.0), (False, 1.0)):
        head["Resources"] = {"CPU": cores}
        with pytest.raises(CannotFit, match="needs 2 CPU"):
            place(wanted, cluster.capacity(private=private), gpu_required=False)
