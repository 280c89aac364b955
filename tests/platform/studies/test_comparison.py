"""The comparison of methods: one budget for all of them, the same training, releases shared."""

import csv
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import labeldp
from labeldp.mechanisms.accounting import DecisionEvent, GaussianEvent, epsilon_of
from labeldp.mechanisms.auditing.memorization import memorization_interval_from_pairs
from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.pate.aggregators import GNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.platform.records.results import ResultsFolder, close_results
from labeldp.platform.settings.configuration import ConfigurationError, with_changes
from labeldp.platform.settings.sweep import PlannedTrial, Sweep, SweepOptions, plan_trials, resized
from labeldp.platform.studies.leakage_study import (
    LeakageStudy,
    adult_votes,
    infer_attribute,
    main,
)
from labeldp.platform.studies.presets import EPSILONS, REPETITIONS, comparison
from labeldp.platform.sweep import block_check
from labeldp.platform.sweep.block_check import compare, run_blocks, table
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.cost import cost_of
from labeldp.platform.sweep.plan import TOGETHER, check_priors, plan_of
from labeldp.platform.sweep.recorder import SweepOutcome
from labeldp.platform.vault.audits import AttackEvidence, evidence_path
from labeldp.sweeps.vote_leakage import SMOKE
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.files import DatasetMissing
from labeldp.trainers.settings.training import Flip
from tests.faults.without_cluster import without_cluster
from tests.platform.cli.asked import swept
from tests.platform.sweep.examples import a_record, a_sweep, an_outcome

PATE = "PATE with probes"
SWEEP = comparison("digits")


def preset(sweep: str, name: str) -> list[PlannedTrial]:
    loaded = load_sweep(sweep)
    return plan_trials(resized(loaded, loaded.presets[name]))


@pytest.fixture(scope="module")
def trials() -> list[PlannedTrial]:
    return plan_trials(SWEEP)


@pytest.mark.parametrize("sweep", ["digits", "compare_cifar10", "compare_cifar100"])
def test_each_trial_costs_the_epsilon_that_it_is_compared_at(sweep: str) -> None:
    trials = plan_trials(SWEEP) if sweep == "digits" else preset(sweep, "network")
    assert {trial.config.seed for trial in trials} == set(range(REPETITIONS))
    others = (PATE, "no privacy")
    private = [trial for trial in trials if not trial.variant.startswith(others)]
    costs = cost_of(private, num_classes=10)
    for trial, epsilon in zip(private, costs.epsilons, strict=True):
        assert epsilon == pytest.approx(trial.config.trainer.epsilon, rel=1e-6), trial.variant


def test_pates_noise_is_what_the_epsilons_ask_for(trials: list[PlannedTrial]) -> None:
    pate = [trial for trial in trials if trial.variant == PATE and trial.config.seed == 0]
    assert cost_of(pate, num_classes=10).epsilons == pytest.approx(EPSILONS, rel=1e-6)
    # What is charged is the price of decisions; but for tiny epsilons that of the counts is above.
    for trial, epsilon in zip(pate, EPSILONS, strict=True):
        planned = trial.config.trainer.planned_charge(num_classes=10, seed=0)
        assert planned is not None and isinstance(planned.event, DecisionEvent)
        counts = GaussianEvent(noise_multiplier=planned.event.noise_multiplier)
        price = epsilon_of([counts], delta=1e-5)
        assert price > 1.1 * epsilon if epsilon >= 0.1 else price == pytest.approx(epsilon)


def test_each_repetition_draws_and_pays_for_releases_of_its_own(trials: list[PlannedTrial]) -> None:
    for name in {trial.variant for trial in trials}:
        of_line = [trial for trial in trials if trial.variant == name]
        first = [trial for trial in of_line if trial.config.seed == 0]
        releases, of_first = (cost_of(some, num_classes=10).releases for some in (of_line, first))
        assert releases == REPETITIONS * of_first, name


def test_an_epsilon_on_the_command_line_is_pates_too() -> None:
    asked = {"trainer.epsilon": [1, 2], "trainer.epochs": 8}
    pate = [trial for trial in plan_trials(SWEEP, asked) if trial.variant == PATE]
    assert cost_of(pate, num_classes=10).epsilons == pytest.approx([1, 2] * REPETITIONS, rel=1e-6)
    with pytest.raises(ConfigurationError, match=r"unknown key 'trainer.epocs'; did you mean"):
        plan_trials(SWEEP, {"trainer.epocs": 3})


def test_digits_are_not_mirrored_and_a_night_has_full_width() -> None:
    digits = {trial.config.trainer.recipe.flip for trial in preset("compare_mnist", "network")}
    clothes = preset("compare_fashion_mnist", "network")
    assert digits == {Flip.NONE} != {trial.config.trainer.recipe.flip for trial in clothes}
    night = preset("compare_cifar100", "night")
    assert {trial.config.trainer.width for trial in night} == {64}
    plain = [trial for trial in night if trial.variant == "subset selection"]
    assert {trial.config.trainer.epochs for trial in plain} == {30} and len(plain) == 3


def test_no_features_of_features_and_no_encoder_that_is_not_there() -> None:
    trial = preset("compare_cifar10", "network")[0]
    data = replace(trial.config.data, features=FeatureSet.PATCHES)
    changed = replace(trial, config=replace(trial.config, data=data))
    with pytest.raises(ValueError, match=r"features is random_patches, but data\.features=patches"):
        check_priors([changed], examples=50_000)
    missing = with_changes(trial.config, {"trainer.prior.encoder": "nowhere.pt"})
    with pytest.raises(DatasetMissing, match=r"nowhere\.pt is not there; check trainer\.prior"):
        check_priors([replace(trial, config=missing)], examples=50_000)


# attribute_inference: the attack against hand-made votes, and on a small file like Adult.


def test_the_rule_and_the_ranking_by_hand() -> None:
    phd = np.array([[60, 40], [30, 70], [10, 90]])  # consensus .6, .7, .9
    others = np.array([[80, 20], [5, 95], [75, 25], [90, 10]])  # .8, .95, .75, .9
    found = infer_attribute(phd, others)
    assert found["consensus_group"] == pytest.approx(1 / 3)
    assert found["consensus_others"] == pytest.approx(3 / 4)  # .75 itself is low
    assert found["balanced_accuracy"] == pytest.approx((2 / 3 + 3 / 4) / 2)
    # On as many of each group, 2/3 of the calls are right for one and 1/4 wrong for the other.
    assert found["precision"] == pytest.approx((2 / 3) / (2 / 3 + 1 / 4))
    # pairs with the PhD holder below: 4 + 4 + 1 of 12, and one tie
    assert found["auc"] == pytest.approx((9 + 0.5) / 12)


def test_a_learned_attacker_needs_no_rule_and_counts_a_group() -> None:
    """Both groups have the same consensus, but of other answers: the rule sees nothing."""
    generator = np.random.default_rng(0)
    yes = generator.binomial(100, 0.8, 200)
    no = generator.binomial(100, 0.2, 300)
    group, others = (np.stack([100 - each, each], axis=1) for each in (yes, no))
    found = infer_attribute(group, others)
    assert found["balanced_accuracy"] == pytest.approx(0.5, abs=0.1)
    assert found["learned"] > 0.95 and found["share_error"] < 0.05
    same = infer_attribute(group, group[:100])
    assert same["learned"] == pytest.approx(0.5, abs=0.15) and same["share_error"] > 0.15


def test_fair_teachers_agree_about_the_group_as_about_others(tmp_path: Path) -> None:
    write_adult(tmp_path / "adult", rows=2000)
    study = LeakageStudy(teachers=15, trees=5, others=300, budgets={})
    folder = tmp_path / "adult"
    votes = [adult_votes(folder, study, "over_60", fair=fair) for fair in (False, True)]
    assert votes[0].group.sum(1).tolist() == [15] * len(votes[0].group)
    # Income follows the age that no teacher sees: the old look like the young, of whom there are
    # more, unless every teacher learns from as many of them.
    assert votes[1].accuracy_group > votes[0].accuracy_group + 0.1
    assert votes[1].accuracy_others < votes[0].accuracy_others


def write_adult(folder: Path, *, rows: int = 400) -> None:
    """People whose income follows their age; PhD holders work long hours and earn anything."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    for name, end in (("adult.data", ""), ("adult.test", ".")):
        lines = []
        for _ in range(rows):
            phd = generator.random() < 0.1
            age = int(generator.integers(20, 70))
            rich = generator.random() < 0.5 if phd else age > 45
            lines.append(
                f"{age}, Private, {generator.integers(10**5)}, {'Doctorate' if phd else 'HS-grad'},"
                f" {16 if phd else 9}, Divorced, Sales, Unmarried, White, Female, 0, 0, "
                f"{70 if phd else 40}, Cuba, {'>50K' if rich else '<=50K'}{end}"
            )
        (folder / name).write_text("\n".join(lines) + "\n")


def test_bad_adult_files_and_votes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match=r"adult\.data"):
        adult_votes(tmp_path, LeakageStudy(budgets={}), "doctorate", fair=False)
    write_adult(tmp_path / "adult", rows=30)
    with pytest.raises(ValueError, match="teachers is 31, but Adult has 30"):
        study = LeakageStudy(teachers=31, budgets={})
        adult_votes(tmp_path / "adult", study, "doctorate", fair=False)
    with pytest.raises(ValueError, match="the same K classes"):
        infer_attribute(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"others \(0, 2\)"):
        infer_attribute(np.ones((2, 2)), np.ones((0, 2)))


# leakage_study: sweeps/vote_leakage.py at its smoke size, with and without each kind of data.

HISTOGRAMS = "dataset,sample,level,c0,c1,c2\nmnist,1,H,100,3,2\nmnist,2,L,50,35,20\n"


@pytest.fixture(scope="module")
def smoke() -> LeakageStudy:
    # In the small file all are white women.
    small: dict[str, Any] = {"attributes": ("doctorate", "over_60"), "teachers": 10, "others": 40}
    return replace(SMOKE, **small, attribute_people=5, questions=50)


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    folder = tmp_path / "votes"
    folder.mkdir()
    (folder / "histograms.csv").write_text(HISTOGRAMS)
    np.savez(folder / "adult_votes_250.npz", phd=[[150, 100]], not_phd=[[240, 10], [100, 150]])
    return folder


def ran(
    study: LeakageStudy, folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, Any]:
    every = ["--smoke", "--json", "--results", str(folder / "out"), *arguments]
    assert main(study, study, name="vote_leakage", arguments=every) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_everything_is_measured(
    smoke: LeakageStudy, votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_adult(tmp_path / "adult")
    found = ran(smoke, tmp_path, capsys, "--data", str(tmp_path), "--votes", str(votes))
    assert found["experiment"] == "vote_leakage" and found["missing"] == []
    rows = found["attribute_inference"]
    assert [row["attribute"] for row in rows] == ["doctorate"] * 7 + ["over_60"] * 6
    attribute = {(row["votes"], row["seen"]): row for row in rows[:7]}
    published = attribute["published, scaled by each group's own", "votes"]
    assert (published["consensus_group"], published["consensus_others"]) == (0.0, 0.5)
    one = attribute["own teachers", "1 answer each"]
    assert one["auc"] == pytest.approx(0.5, abs=0.01)  # one answer tells nothing of consensus
    assert [row["attacker"] for row in found["reconstruction"]] == [
        "answers",
        "budget: epsilon 1.97, delta 1e-05",
    ]
    assert [row["answers"] for row in found["defenses"]] == [50, 1, 20]
    assert found["defended_votes"] == "published mnist"
    report = Path(found["report"]).read_text()
    service = GNMax(noise_std=40.0)
    prices = {row["consensus"]: row["epsilon"] for row in found["costs"]}  # of the most answers
    assert len(found["costs"]) == 6 and set(prices) == {"high consensus", "low consensus"}
    votes_of = {"high consensus": [100, 3, 2], "low consensus": [50, 35, 20]}
    for consensus, histogram in votes_of.items():
        every = service.costs(np.tile(histogram, (2000, 1)), Accounting.COUNTS)
        assert prices[consensus] == pytest.approx(every.cost(delta=1e-5).epsilon)
    assert Path(found["report"]).with_name("reconstruction.svg").exists()
    for heading in (
        "Attributes inferred",
        "Histograms recovered",
        "Defenses (published mnist votes)",
    ):
        assert f"## {heading}" in report


def test_bad_input(smoke: LeakageStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: str) -> str:
        every = ["--results", str(tmp_path / "out"), "--data", str(tmp_path), *arguments]
        assert main(smoke, smoke, name="vote_leakage", arguments=every) == 2
        return capsys.readouterr().err

    assert "nothing to measure" in refused()
    assert "histograms.csv can't be read" in refused("--votes", str(tmp_path))
    (tmp_path / "histograms.csv").write_text("dataset,c0,c1\nmnist,1,x\n")
    assert "histograms.csv can't be read" in refused("--votes", str(tmp_path))
    (tmp_path / "histograms.csv").write_text("dataset,c0,c1\nmnist,1,2\nmnist,2,2\n")
    assert "row 1 sums to 4" in refused("--votes", str(tmp_path))
    assert not (tmp_path / "out").exists()


# block_check: evidence pooled over runs, against the attack on all canaries; runs end to end.

PARTS = [TOGETHER, "block-0", "block-1"]
LEDGER = ("releases", "epsilon_releases", "epsilon_selection", "epsilon_total", "delta")


def leave_trial(
    root: Path, part: str, *, own: NDArray[Any], others: NDArray[Any], finished: bool = True
) -> None:
    folder = ResultsFolder(root / part, sweep=f"small_{part}")
    record = a_record(f"of-{part}", point={"trainer.epsilon": 2.0}, finished=finished)
    # The number of coins follows from that of canaries, and data may move between two starts.
    kept = {"data.root": part, "audit.coin_canaries": len(own), "evaluation.epsilon": 1 / len(own)}
    folder.keep(replace(record, config={**record.config, **kept}))
    # Of another start, of other settings at the same point.
    other = {**record.config, "trainer.epochs": 60 if part == TOGETHER else 5}
    folder.keep(replace(record, hash=f"zz-{part}", config=other))
    evidence = AttackEvidence(own=own, others=others)
    evidence.write(evidence_path(folder.path, record.hash))


def a_tree(root: Path, **last: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """All canaries in one run, and the same in two halves."""
    generator = np.random.default_rng(0)
    own, others = 0.3 + 0.6 * generator.random(100), 0.4 * generator.random((100, 8))
    leave_trial(root, TOGETHER, own=own, others=others)
    leave_trial(root, "block-0", own=own[:50], others=others[:50])
    leave_trial(root, "block-1", own=own[50:], others=others[50:], **last)
    return own, others


def test_pooling_the_halves_gives_what_the_whole_gave(tmp_path: Path) -> None:
    own, others = a_tree(tmp_path)
    (row,) = compare(tmp_path, parts=PARTS, confidence=0.95)
    direct = memorization_interval_from_pairs(own, others, 0.95)
    for name, interval in (("paper", direct.paper), ("corrected", direct.corrected)):
        assert row[f"{name}_low"] == row[f"{name}_blocks_low"] == interval.epsilon_low > 0
        assert row[f"{name}_high"] == row[f"{name}_blocks_high"] == interval.epsilon_high
    assert (row["canaries"], row["blocks"], row["agree"]) == (100, 2, True)
    text = table([row])
    assert "1 x 100" in text and "2 x 50" in text


def test_a_trial_that_failed_in_one_block_has_no_row(tmp_path: Path) -> None:
    a_tree(tmp_path, finished=False)
    assert compare(tmp_path, parts=PARTS, confidence=0.95) == []
    assert "No trial finished" in table([])


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        ({"audit.canaries": 15}, "audit.canaries is 15.*multiple of 10"),
        ({"audit.canary_block": 2}, "audit.canary_block is set"),
    ],
)
def test_unshareable_canaries(overrides: dict[str, Any], word: str, tmp_path: Path) -> None:
    options = SweepOptions(results=tmp_path / "out", overrides=overrides)
    with pytest.raises(ConfigurationError, match=word):
        run_blocks(a_sweep(blocks=10), options)
    assert not (tmp_path / "out").exists()


def test_a_study_has_no_single_result(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a study of 3 sweeps"):
        labeldp.run(a_sweep(blocks=2), results=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_runs_share_budgets_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Sweep, SweepOptions]] = []

    def note(sweep: Sweep, options: SweepOptions) -> SweepOutcome:
        asked.append((sweep, options))
        counts = {"finished": 1, "failed": 1, "skipped": 1, "over_budget": 1, "left": 2}
        return an_outcome(**counts, ledger=dict.fromkeys(LEDGER, 1.0))

    monkeypatch.setattr(block_check, "run_sweep", note)
    monkeypatch.setattr(block_check, "connected", lambda address: nullcontext())
    times = iter([0.0, 30.0, 90.0, 150.0])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(block_check, "time", clock)
    sweep = a_sweep(budget=Budget(epsilon=6.0, delta=3e-5), blocks=2)
    options = SweepOptions(results=tmp_path / "out", max_epsilon_total=3.0, max_minutes=2.0)
    found = run_blocks(sweep, options)
    close_results(tmp_path / "out")  # so a run that was cut off goes on
    for part, given in asked:
        assert part.budget == Budget(epsilon=2.0, delta=1e-5)
        assert given.max_epsilon_total == 1.0
    assert [given.max_minutes for _, given in asked] == [1.5, 0.5, 1e-3]
    assert (found.trials, found.finished, found.over_budget, found.left) == (15, 3, 3, 6)
    assert found.ledger == dict.fromkeys(LEDGER, 3.0)


def test_the_sweep_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sweeps/memorization.py at its smoke size, two blocks, one trial each, in this process."""
    monkeypatch.setattr(block_check, "connected", nullcontext)
    whole = load_sweep("memorization")
    sweep = replace(whole, blocks=2)
    arguments = ["--smoke", "--json", "--results", str(tmp_path / "out")]
    own = {"audit.canaries": 40, "trainer.epochs": 2}
    arguments += ["--only", "ALIBI", *(f"{key}={value}" for key, value in own.items())]
    asked = SweepOptions(
        results=tmp_path / "out", smoke=True, only=("ALIBI",), overrides={"audit.canaries": 70}
    )
    assert plan_of(whole, asked).epsilon_total == 11 * 8.0
    planned = plan_of(sweep, replace(asked, overrides=own))
    assert "this study is 3 sweeps" in planned.notes[0]
    assert planned.configurations[0]["trials"] == 3
    with without_cluster():
        code, out, _ = swept(sweep, *arguments)
    found = json.loads(out)
    assert code == 0
    assert found["experiment"] == "memorization"
    assert (found["trials"], found["finished"], found["failed"], found["skipped"]) == (3, 3, 0, 0)
    assert found["ledger"]["releases"] == 3 == planned.releases == planned.trials
    assert found["ledger"]["epsilon_total"] == planned.epsilon_total == 3 * 8.0
    (row,) = found["rows"]
    assert (row["variant"], row["canaries"], row["blocks"]) == ("ALIBI", 40, 2)
    assert row["paper_low"] <= row["paper_high"]
    with open(tmp_path / "out" / "blocks.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 1
    assert "1 x 40" in Path(found["report"]).read_text()
    for part in PARTS:
        folder = tmp_path / "out" / part
        (record,) = ResultsFolder(folder, sweep=f"memorization_{part}").records().values()
        # every audit of every trial of a sweep
        assert {"private/epsilon_one_run", "private/epsilon_f_dp"} <= set(record.metrics)
        assert AttackEvidence.read(evidence_path(folder, record.hash)) is not None
