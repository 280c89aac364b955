"""sweep_check: what is refused by plan, data or budget leaves no folder behind."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.platform.records.results import write_json
from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.records.tracking_address import TrackingUnusable
from labeldp.platform.sweep import sweep_check
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import TrialConfig, with_changes
from labeldp.platform.sweep.search_settings import OptunaSearch
from labeldp.platform.sweep.space import LogUniform
from labeldp.platform.sweep.sweep import Sweep, Variant
from labeldp.platform.sweep.sweep_check import check, learned_facts
from labeldp.platform.sweep.sweep_options import SweepOptions
from labeldp.trainers.settings.alibi import Noise
from tests.platform.sweep.examples import a_record, a_sweep


def small() -> Sweep:
    """Without the baseline, whose epsilon is infinite: two ways at two epsilons."""
    sweep = a_sweep()
    return replace(sweep, variants=sweep.variants[:-1])


def options(folder: Path, **settings: Any) -> SweepOptions:
    return SweepOptions(results=folder / "results", **settings)


def test_a_sweep_that_can_be_run_is_planned_whole(tmp_path: Path) -> None:
    checked = check(small(), options(tmp_path))
    fingerprint = checked.data.public.fingerprint
    assert list(checked.plans) == [trial.hash(fingerprint) for trial in checked.trials]
    assert len(checked.cost.epsilons) == len(checked.trials) > 1
    assert checked.choose_by is ChooseBy.TEST and checked.held_out == 0
    assert checked.budget is None
    assert checked.folder.path == tmp_path / "results" and checked.folder.path.is_dir()


def test_the_smaller_budget_counts(tmp_path: Path) -> None:
    generous = replace(small(), budget=Budget(epsilon=1000.0, delta=1e-5))
    checked = check(generous, options(tmp_path, max_epsilon_total=900.0))
    assert checked.budget == Budget(epsilon=900.0, delta=1e-5)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"max_epsilon_total": 0.01}, BudgetExceeded, "budget"),
        ({"max_trials": 1}, ValueError, "--max-trials"),
        ({"overrides": {"audit.canaries": 10**6}}, ValueError, "canaries"),
        ({"choose_by": ChooseBy.ESTIMATED}, ValueError, "held out"),
    ],
)
def test_what_is_refused_leaves_no_folder(
    tmp_path: Path, settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        check(small(), options(tmp_path, **settings))
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("name", ["a%20b", "what?"])
def test_a_folder_whose_store_has_no_address_is_refused_before_data_and_ray(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new store is opened beside Ray's start, and MLflow tries for minutes."""
    with monkeypatch.context() as patched:
        patched.setattr(sweep_check, "load_data", None)
        with pytest.raises(TrackingUnusable, match="--results DIR"):
            check(small(), options(tmp_path / name))
    assert not (tmp_path / name).exists()
    elsewhere = f"sqlite:///{tmp_path}/mlflow.db"
    assert check(small(), options(tmp_path / name, tracking_uri=elsewhere)).trials


def audit_of(folder: Path, **overrides: int | None) -> tuple[int | None, int | None]:
    changes = {f"audit.{name}": value for name, value in overrides.items()}
    audit = check(small(), options(folder, overrides=changes)).audit
    return audit.canaries, audit.coin_canaries


def test_canaries_that_nobody_states_are_a_share_and_hashed_as_the_number(tmp_path: Path) -> None:
    unstated = {"canaries": None, "coin_canaries": None}
    assert audit_of(tmp_path, **unstated) == (14, 0)  # of 1,437 digits
    overrides = {"audit.canaries": 14, "audit.coin_canaries": 0}
    stated = check(small(), options(tmp_path, overrides=overrides))
    nothing_said = {f"audit.{name}": value for name, value in unstated.items()}
    assert check(small(), options(tmp_path, overrides=nothing_said)).plans == stated.plans


def test_a_folder_that_was_begun_with_other_canaries_keeps_them(tmp_path: Path) -> None:
    trials = tmp_path / "results" / "trials"
    trials.mkdir(parents=True)
    before = {"audit.canaries": 100, "audit.coin_canaries": 100}
    write_json(trials / f"{'a' * 16}.json", asdict(a_record("a" * 16, changes=before)))
    assert audit_of(tmp_path, canaries=None, coin_canaries=None) == (100, 100)
    assert audit_of(tmp_path, canaries=50, coin_canaries=None) == (50, 100)
    assert audit_of(tmp_path, canaries=0, coin_canaries=0) == (0, 0)


def test_what_a_sweep_that_learns_may_cost_is_known_to_who_publishes_it(tmp_path: Path) -> None:
    assert learned_facts(check(small(), options(tmp_path)), SweepIdentity()) == {}
    base = with_changes(
        TrialConfig(), {"evaluation.held_out_share": 0.1, "evaluation.epsilon": 0.25}
    )
    searching = Sweep(
        name="searching",
        base=base,
        variants=[
            Variant(name="ALIBI"),
            Variant(name="baseline", changes={"trainer.noise": Noise.NONE}),
        ],
        space={"trainer.learning_rate": LogUniform(0.01, 0.1)},
        search=OptunaSearch(trials=6),
    )
    checked = check(searching, options(tmp_path))
    plan = {
        "learned_epsilon": 6 * 0.25,
        "learned_counts": 6 * 0.25,
        "learned_delta": 0.0,
        "learned_releases": False,
    }
    # The baseline, which has no bound, is left out.
    assert learned_facts(checked, SweepIdentity()) == plan
    dearer = {**plan, "learned_epsilon": 9.0, "learned_releases": True}
    assert learned_facts(checked, SweepIdentity.from_json(dearer)) == dearer
    wide = replace(searching, space={"trainer.epsilon": LogUniform(0.5, 2.0)}, variants=())
    checked = check(wide, options(tmp_path, max_epsilon_total=50.0))
    found = learned_facts(checked, SweepIdentity())
    assert found["learned_releases"] and found["learned_epsilon"] == pytest.approx(12.0)
