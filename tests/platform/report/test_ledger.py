"""Ledgers: prices of lines, the worst label over folders, and what readers of each kind see."""

import json
import math
import shutil
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import load
from labeldp.mechanisms.accounting import GaussianEvent, PureEvent, epsilon_of
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.ledger import Total
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy, SeededNoise
from labeldp.mechanisms.release_store import read_event
from labeldp.mechanisms.vault import Charge, LabelVault, Mechanism
from labeldp.platform.cli.reports import totals_of
from labeldp.platform.records.results import ResultsFolder, SweepIdentity
from labeldp.platform.report import ledger
from labeldp.platform.report.ledger import (
    FolderLedger,
    LedgerLine,
    ledger_report,
    plan_of,
    public_lines,
    read_folder,
    sentences,
    sweep_totals,
    total_of,
)
from labeldp.platform.report.selection import cost_of, cost_of_page, price_of
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from labeldp.platform.vault.vault_store import SqliteStore
from tests.platform.report.folders import LABELS, LAPLACE, a_folder, a_vault, account, keep
from tests.platform.sweep.examples import a_record

SMALL = LaplaceNoise(epsilon=0.5, num_classes=10)
GAUSSIAN = GaussianNoise(noise_std=5.0, num_classes=10)
NOTHING = NoNoise(num_classes=10)
TRAINED, HELD_OUT = np.arange(40), np.arange(40, 60)
PLAN = {"learned_epsilon": 4.0, "learned_counts": 0.75, "learned_delta": 0.0}


@dataclass(frozen=True, kw_only=True)
class Unsure(LaplaceNoise):
    epsilon: float = 0.25
    failure_probability: ClassVar[float] = 4e-5


def a_line(key: str, event: PureEvent | GaussianEvent, *rows: int) -> Charge:
    return Charge(
        key=key,
        event=event,
        indices=np.array(rows) if rows else None,
        mechanism={"name": "Any"},
        failure_probability=0.0,
    )


def groups(report: dict[str, Any]) -> list[int]:
    return [folder["group"] for folder in report["folders"]]


def identify(path: Path, **facts: Any) -> None:
    ResultsFolder(path, sweep="small").identify(**facts)


def forget(path: Path, *names: str) -> None:
    known = json.loads((path / "sweep.json").read_text())
    (path / "sweep.json").write_text(json.dumps({k: known[k] for k in known if k not in names}))


def test_every_missing_line_is_a_problem(tmp_path: Path) -> None:
    def problems(name: str) -> str:
        return " ".join(read_folder(tmp_path / name).problems)

    for name in ("gone", "cut", "unknown", "other"):
        keys = a_folder(tmp_path / name, releases=[LAPLACE, GAUSSIAN], readers=0)
        assert not problems(name)
    keep(tmp_path / "gone", a_record("ab", release_keys=(keys[0],)))
    (tmp_path / "gone" / "vault.db").unlink()
    assert "vault.db is missing" in problems("gone") and account(tmp_path / "gone")["problems"]
    assert read_folder(tmp_path / "gone").lines == ()
    assert not (tmp_path / "gone" / "vault.db").exists(), "reading makes no new vault"
    with sqlite3.connect(tmp_path / "cut" / "vault.db") as connection:
        connection.execute("DELETE FROM charges WHERE position = 2")
    connection.close()
    assert "has lost 1 lines of its ledger" in problems("cut")
    keep(tmp_path / "unknown", a_record("ab", release_keys=("lost",)))
    assert "trial ab" in problems("unknown") and "release lost" in problems("unknown")
    identify(tmp_path / "other", vault="another")
    assert "not the vault that sweep.json" in problems("other")


def test_folders_with_little_in_them(tmp_path: Path) -> None:
    identify(tmp_path / "empty", fingerprint="abc")
    assert read_folder(tmp_path / "empty").problems == ()
    a_vault(tmp_path / "mine").release(LAPLACE)
    found = read_folder(tmp_path / "mine")
    assert (found.sweep, found.fingerprint, found.identity.all_labels) == ("mine", "", None)
    assert found.lines[0].labels is None and found.lines[0].epsilon == 2.0


def test_equal_public_data_are_taken_for_the_same_labels_row_by_row(tmp_path: Path) -> None:
    for name, where in (("a", np.arange(5)), ("b", np.arange(3, 9)), ("c", np.arange(20, 30))):
        a_folder(tmp_path / name, releases=[])
        a_vault(tmp_path / name).release(LAPLACE, indices=where)
    both = account(tmp_path / "a", tmp_path / "b")
    assert groups(both) == [0, 0]
    assert both["epsilon"] == both["epsilon_if_different"] == 4.0  # where 3 and 4 paid twice
    assert account(tmp_path / "a", tmp_path / "c")["epsilon"] == 2.0


def test_other_public_data_may_be_of_the_same_people(tmp_path: Path) -> None:
    for name, where in (("a", np.arange(5)), ("b", np.arange(20, 30))):
        a_folder(tmp_path / name, releases=[SMALL], fingerprint=name)
        a_vault(tmp_path / name).release(LAPLACE, indices=where)
        a_vault(tmp_path / f"bare {name}").release(LAPLACE, indices=where)
    found = account(tmp_path / "a", tmp_path / "b")
    assert groups(found) == [0, 1]
    # Rows can't be matched: the dearest label of one may be the dearest of the other.
    assert (found["epsilon"], found["epsilon_if_different"]) == (5.0, 2.5)
    bare = account(tmp_path / "bare a", tmp_path / "bare b")
    assert groups(bare) == [0, 1] and bare["epsilon"] == 4.0


def test_groups_apart_cost_what_none_of_them_has_paid_more_than(tmp_path: Path) -> None:
    noisy = GaussianNoise(noise_std=4.0, num_classes=10)
    releases: dict[str, list[Mechanism]] = {
        "handed out": [SMALL, NOTHING],
        "pure": [LAPLACE],
        "noisy": [noisy],
        "unsure": [noisy],
    }
    for name, each in releases.items():
        a_folder(tmp_path / name, releases=each, fingerprint=name)
    a_vault(tmp_path / "unsure").release(Unsure(num_classes=10))
    # The group that handed labels out is not the one that paid most for noise.
    found = account(tmp_path / "handed out", tmp_path / "pure")
    assert (found["epsilon"], found["epsilon_if_different"]) == (np.inf, 2.0)
    # Pure alone, and the other group has no epsilon at delta 0.
    found = account(tmp_path / "pure", tmp_path / "noisy")
    assert found["words"][-1].endswith("more than epsilon 2 at delta 1e-05.")
    found = account(tmp_path / "noisy", tmp_path / "unsure")
    exact = epsilon_of([noisy.event, Unsure(num_classes=10).event], delta=4e-5)
    assert found["epsilon_if_different"] == pytest.approx(exact, rel=1e-12)
    assert found["words"][-1].endswith("at delta 8e-05.")


def test_a_folder_that_is_like_two_others_joins_them(tmp_path: Path) -> None:
    """By public data, or by one secret and one digest of the labels, whatever the features."""
    facts = {"a": ("x", bytes(32)), "b": ("y", bytes(range(32))), "c": ("x", bytes(range(32)))}
    for name, (fingerprint, salt) in facts.items():
        a_vault(tmp_path / name, salt=salt)
        a_folder(tmp_path / name, fingerprint=fingerprint)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = account(*(tmp_path / name for name in ("a", "b", "c", "link", "a")))
    assert groups(found) == [0, 0, 0], "a folder that is named twice counts once"
    assert found["epsilon_if_different"] == found["epsilon"] == 6.0


def copied(folder: Path, to: Path) -> None:
    shutil.copytree(folder, to)
    SqliteStore(to / "vault.db", moved=True)


def test_lines_from_before_a_copy_count_once_and_later_ones_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_folder(tmp_path / "a", releases=[LAPLACE])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for name in "ab":  # the same release, drawn twice, and then two that are alike again
        monkeypatch.setenv("LABELDP_STATE", str(tmp_path / f"machine {name}"))
        SqliteStore(tmp_path / name / "vault.db", moved=True)
        vault = a_vault(tmp_path / name)
        vault.release(SMALL)
        vault.release(SMALL, noise=SeededNoise(seed=1))
    found = account(tmp_path / "a", tmp_path / "b")
    assert (found["epsilon"], found["releases"]) == (4.0, 5)
    counted = [line["counted"] for line in found["lines"]]
    assert counted == [True, True, True, False, True, True]
    (note,) = (each for each in found["words"] if "copies of one vault" in each)
    assert "The first 1 lines" in note and "their own noise" in note


def learned(path: Path, epsilon: float, *releases: Mechanism, delta: float = 0.0) -> Path:
    """A folder of a sweep that could have cost more than it did; public data of its own."""
    a_folder(path, releases=releases, fingerprint=path.name)
    identify(path, learned_epsilon=epsilon, learned_delta=delta, learned_counts=0.0)
    return path


def test_a_sweep_that_learned_counts_as_its_dearest_way(tmp_path: Path) -> None:
    outdone, paid = learned(tmp_path / "a", 4.0, LAPLACE), learned(tmp_path / "b", 2.0, LAPLACE)
    found = account(outdone, paid)
    assert (found["epsilon"], found["epsilon_if_different"], found["releases"]) == (6.0, 4.0, 2)
    note, other = found["words"][-2:]
    assert str(outdone) in note and "epsilon 4" in note and "epsilon 2" in other
    # Its plan adds to Gaussians as it is, and so does its delta.
    noise = [GaussianNoise(noise_std=std, num_classes=10) for std in (5.0, 7.0)]
    a_folder(tmp_path / "c", releases=noise, fingerprint="c")
    approximate = learned(tmp_path / "d", 4.0, *noise, delta=1e-6)
    total = account(tmp_path / "c", approximate)
    exact = 4.0 + epsilon_of([each.event for each in noise], delta=1e-5)
    assert total["epsilon"] == pytest.approx(exact)
    assert total["delta"] == pytest.approx(1e-5 + 1e-6)
    assert account(learned(tmp_path / "e", 4.0))["epsilon"] == 0.0, "nothing asked yet"


def test_a_lost_plan_makes_the_ledger_incomplete(tmp_path: Path) -> None:
    (learned(tmp_path / "a", 4.0, LAPLACE) / "search.json").write_text("{}")
    assert not read_folder(tmp_path / "a").problems
    forget(tmp_path / "a", "learned_epsilon")
    (problem,) = read_folder(tmp_path / "a").problems
    assert "does not say what it may have cost" in problem
    # Without noise nothing was planned to be lost.
    a_folder(tmp_path / "b", releases=[NOTHING])
    (tmp_path / "b" / "search.json").write_text("{}")
    assert not read_folder(tmp_path / "b").problems
    (tmp_path / "a" / "sweep.json").unlink()
    (problem,) = read_folder(tmp_path / "a").problems
    assert "sweep.json is missing" in problem


def test_a_copy_of_a_sweep_that_learned_adds_its_plan_once_it_released_more(tmp_path: Path) -> None:
    learned(tmp_path / "a", 4.0, LAPLACE)
    copied(tmp_path / "a", tmp_path / "b")
    assert account(tmp_path / "a", tmp_path / "b")["epsilon"] == 4.0
    store = SqliteStore(tmp_path / "b" / "vault.db")
    LabelVault(labels=LABELS, num_classes=10, store=store).release(SMALL)
    assert account(tmp_path / "a", tmp_path / "b")["epsilon"] == 8.0


def test_too_many_histories_are_charged_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = [
        [a_line(f"{name}{row}", PureEvent(epsilon=1.0 + row), row) for row in range(4)]
        for name in "ab"
    ]
    assert total_of(paid, delta=1e-5).epsilon == 8.0
    monkeypatch.setattr(ledger, "MOST_COMBINATIONS", 15)
    assert total_of(paid, delta=1e-5).epsilon == 20.0
    monkeypatch.setattr(ledger, "MOST_COMBINATIONS", 3)
    assert total_of(paid[:1], delta=1e-5).epsilon == 4.0, "of one folder they are told apart"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from([0.25, 1.0, 3.0]),
                st.none() | st.sets(st.integers(0, 4), min_size=1),
            ),
            max_size=4,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_the_sum_is_that_of_the_worst_combination_of_labels(
    folders: list[list[tuple[float, set[int] | None]]],
) -> None:
    groups = [
        [
            a_line(f"{place} {number}", PureEvent(epsilon=epsilon), *sorted(rows or ()))
            for number, (epsilon, rows) in enumerate(lines)
        ]
        for place, lines in enumerate(folders)
    ]
    # The slow, obvious way: what each label of each folder paid, the dearest of each added up.
    # At so small a delta no bound by Rényi divergence is below a sum.
    dearest = [
        max(
            sum(epsilon for epsilon, rows in lines if rows is None or label in rows)
            for label in range(5)
        )
        for lines in folders
    ]
    assert total_of(groups, delta=1e-12).epsilon == pytest.approx(sum(dearest))


def test_the_plan_counts_where_it_is_more_and_the_difference_is_the_choice() -> None:
    plan = SweepIdentity(learned_epsilon=4.0, learned_counts=0.0, learned_delta=0.0)
    lines = [a_line("r", PureEvent(epsilon=1.0))]
    found = sweep_totals(lines, plan, delta=1e-5)
    assert (found["epsilon_releases"], found["epsilon_total"]) == (1.0, 4.0)
    assert (found["epsilon_selection"], found["epsilon_private"]) == (3.0, 4.0)
    cheap = sweep_totals(lines, replace(plan, learned_epsilon=0.5), delta=1e-5)
    assert (cheap["epsilon_total"], cheap["epsilon_selection"]) == (1.0, 0.0)
    # A smaller sum at a larger delta does not bound the smaller one.
    approximate = replace(plan, learned_epsilon=0.5, learned_delta=1e-6)
    assert sweep_totals(lines, approximate, delta=1e-5)["delta"] == 1e-6
    bare = sweep_totals([*lines, a_line("b", PureEvent(epsilon=math.inf))], plan, delta=1e-5)
    assert (bare["epsilon_total"], bare["epsilon_selection"]) == (math.inf, 0.0)
    assert bare["epsilon_private"] == 4.0


@pytest.mark.parametrize("releases", [[SMALL], [SMALL, NOTHING]])
def test_report_ledger_and_python_state_one_price(tmp_path: Path, releases: list[Any]) -> None:
    a_folder(tmp_path, releases=releases)
    identify(tmp_path, **PLAN, learned_releases=True)
    folder = read_folder(tmp_path)
    charges = [line.charge for line in folder.lines]
    sweep = sweep_totals(charges, folder.identity, delta=folder.delta)
    assert totals_of(folder) == {**sweep, "num_labels": 60}
    report = account(tmp_path)
    total = (sweep["epsilon_total"], 0.0)
    assert (report["epsilon"], report["delta"]) == load(tmp_path).total() == total
    assert report["epsilon_private"] == sweep["epsilon_private"] == 4.0
    words = " ".join(report["words"])
    assert "no label has paid more than epsilon 4 for those" in words
    assert "is not a guarantee" in words and "could have cost, epsilon 4" in words


@pytest.fixture
def search(tmp_path: Path) -> Path:
    """Two searches of three trials at epsilon 2 and .5, each trial with a count of .25."""
    a_folder(tmp_path, releases=[], readers=0)
    vault, folder = a_vault(tmp_path), ResultsFolder(tmp_path, sweep="small")
    identify(tmp_path, num_labels=40, held_out_labels=20, learned_releases=False, **PLAN)
    number = 0
    for name, noise in (("a", LAPLACE), ("b", SMALL)):
        shared = vault.release(noise, indices=TRAINED).key
        for trial in range(3):
            guesses = np.full(len(HELD_OUT), number)
            count = vault.release(CorrectCount(epsilon=0.25), guesses, indices=HELD_OUT).key
            facts: dict[str, Any] = {"release_keys": (shared, count), "epsilon": noise.epsilon}
            folder.keep(a_record(f"{name}{trial}", **facts))
            number += 1
    return tmp_path


def price(results: Path, trial: str = "b0") -> float:
    folder = read_folder(results)
    return price_of(folder, folder.trial(trial)).epsilon


def test_a_trial_costs_what_its_search_has_looked_at(search: Path) -> None:
    folder = read_folder(search)
    own = folder.trial("b0")
    assert folder.learns and cost_of(folder, [own]).epsilon == 0.5
    # One release for training at .5, and three counts of .25 on other labels: the larger sum.
    assert (price(search), price(search, "a0")) == (0.75, 2.0)
    assert set(folder.keys_behind(own)) == {
        key for name in ("b0", "b1", "b2") for key in folder.trial(name).release_keys
    }
    vault = a_vault(search)
    # A resumed search may have requested its labels again, on another machine.
    again = vault.release(SMALL, indices=TRAINED, noise=OsEntropy(draw=1)).key
    keep(search, a_record("b8", release_keys=(again,), epsilon=SMALL.epsilon))
    assert price(search) == price(search, "b8") == 1.0
    counts = [
        vault.release(CorrectCount(epsilon=0.25), np.full(20, 7 + each), indices=HELD_OUT).key
        for each in range(3)
    ]
    # Failed trials had a say too; the other counts were drawn for trials that left no record.
    keep(search, a_record("b9", finished=False, reason="diverged", release_keys=(counts[0],)))
    assert price(search) == 1.5


def test_releases_that_were_planned_and_not_made_count(search: Path) -> None:
    identify(search, learned_counts=3.0)
    assert price(search) == price(search, "a0") == 3.0
    folder = read_folder(search)
    assert cost_of_page(folder, [folder.trial("b0")]).epsilon == 4.0
    assert plan_of(folder.identity) == Total(epsilon=4.0, epsilon_private=4.0)
    assert plan_of(folder.identity, counts=True) == Total(epsilon=3.0, epsilon_private=3.0)
    assert plan_of(SweepIdentity(learned_delta=1e-5)) == Total(), "no plan, no delta"
    # Another way of the search draws Gaussian noise: what this one paid is not pure.
    identify(search, learned_epsilon=1.0, learned_delta=1e-5, learned_releases=True)
    folder = read_folder(search)
    found = price_of(folder, folder.trial("b0"))
    assert (found.epsilon, found.delta) == (2.5, 1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_where_releases_were_searched_all_of_the_sweep_counts(search: Path, known: bool) -> None:
    identify(search, learned_releases=True)
    if not known:
        forget(search, *PLAN, "learned_releases")
        (search / "search.json").write_text("{}")
    a_vault(search).release(NOTHING)  # a baseline's, which learned by itself
    assert price(search) == (4.0 if known else 2.5)


def test_a_trial_that_was_stopped_says_that_the_sweep_learned(search: Path) -> None:
    forget(search, *PLAN, "learned_releases")
    folder: FolderLedger = read_folder(search)
    own = folder.trial("b0")
    assert not folder.learns and price(search) == 0.5
    assert folder.keys_behind(own) == tuple(own.release_keys)
    keep(search, folder.trial("b1"), stopped_early=2)
    assert read_folder(search).learns and price(search) == 2.5


@pytest.mark.parametrize("num_labels", [None, 0])
def test_without_the_number_of_labels_all_is_charged(num_labels: int | None, search: Path) -> None:
    """Two searches at 2 and .5 together, and the plan of all of it, not of its counts alone."""
    forget(search, "num_labels")
    if num_labels is not None:
        identify(search, num_labels=num_labels)
    assert price(search) == PLAN["learned_epsilon"]
    folder = read_folder(search)
    keys = folder.keys_behind(folder.trial("b0"))
    assert set(keys) == {line.charge.key for line in folder.lines}


@dataclass(frozen=True, kw_only=True)
class OfSecretProjectX:
    note: str = "s3cr3t-4711"
    epsilon: float = 1.0
    failure_probability: ClassVar[float] = 0.0

    @property
    def event(self) -> PureEvent:
        return PureEvent(epsilon=self.epsilon)

    def release(self, labels: Any, *, generator: Any) -> Any:
        return np.zeros(3)


def lines(path: Path, **facts: Any) -> tuple[LedgerLine, ...]:
    a_folder(path, **facts)
    return read_folder(path).lines


def test_a_count_of_a_baselines_answers_is_the_owners(tmp_path: Path) -> None:
    """They were made of the labels to train on, which the count's noise does not cover."""
    a_folder(tmp_path, releases=[], readers=0)
    vault, folder = a_vault(tmp_path), ResultsFolder(tmp_path, sweep="small")
    bare = vault.release(NoNoise(num_classes=10)).key
    counts = [vault.release(CorrectCount(epsilon=0.05), np.full(60, g)).key for g in range(3)]
    for digest, keys in (("0a", [bare, counts[0]]), ("1a", [counts[1]])):
        folder.keep(a_record(digest, release_keys=tuple(keys)))
    *found, labels = sentences(read_folder(tmp_path).lines)
    private, owners = found if "Anybody" in found[0] else reversed(found)
    assert private.startswith("1 noisy count") and "Anybody may see" in private
    # The third was asked by a trial that left no record, perhaps the baseline.
    assert owners.startswith("2 noisy counts of right answers, epsilon 0.05 each, read by 1 ")
    assert "paid once each" in owners and "owner of the labels only" in owners
    assert labels.startswith("1 copy of the labels without any noise, no bound on epsilon")
    assert "owner of the labels only" in labels
    audiences = [row["who_may_see_it"] for row in account(tmp_path)["lines"]]
    assert audiences.count("anybody") == 1 and len(audiences) == 4
    words = account(tmp_path)["words"]
    assert "no label has paid more than epsilon 0.15 for those with noise" in words[-2]
    assert words[-1].startswith("1 release without any noise")


def test_sums_over_folders_say_what_is_known_of_the_labels(tmp_path: Path) -> None:
    for name, fingerprint in (("a", "x"), ("b", "x"), ("c", "other")):
        a_folder(tmp_path / name, fingerprint=fingerprint)
    a, b, c = (tmp_path / name for name in "abc")
    assert "In all, 1 release: no label has paid more than epsilon 2" in account(a)["words"][-1]
    same = account(a, b)["words"][-1]
    assert "2 folders on the same labels" in same and "more than epsilon 4" in same
    found = account(a, b, c)
    total, unknown = found["words"][-2:]
    assert "3 folders and 3 releases" in total and "more than epsilon 6" in total
    assert "it is unknown whether" in unknown and unknown.count("more than epsilon 4") == 1
    assert groups(found) == [0, 0, 1]
    assert (found["epsilon"], found["epsilon_private"]) == (6.0, 6.0)
    assert (found["ok"], found["same_labels"], found["releases"]) == (True, None, 3)
    assert found["epsilon_if_different"] == 4.0
    assert account(a, b)["same_labels"] is True


def test_no_depth_hides_a_folder_and_no_vault_that_is_gone(tmp_path: Path) -> None:
    deep = tmp_path / "studies" / "of" / "mine" / "a"
    for place in (deep, tmp_path / "b", tmp_path / "b" / "within"):
        a_folder(place)
    assert account(tmp_path)["epsilon"] == 6.0
    (deep / "vault.db").unlink()
    found = account(tmp_path)
    assert not found["ok"] and "is missing" in found["problems"][0]
    assert "THIS LEDGER IS NOT WHOLE, and its sums are too low:" in found["words"]


def test_a_vault_of_fits_is_read_as_well(tmp_path: Path) -> None:
    shared = SharedVault(tmp_path / "vault")
    for number in range(2):
        side = PublicSide(rows=str(number), classes="[0, 1]", num_labels=2)
        vault = LabelVault(labels=[0, 1], num_classes=2, store=shared.store(side))
        vault.release(RandomizedResponse(epsilon=1.0, num_classes=2))
    found = account(tmp_path / "vault")
    assert (found["ok"], found["releases"], found["epsilon"]) == (True, 2, 2.0)
    next((tmp_path / "vault").rglob("vault.db")).unlink()
    assert not account(tmp_path / "vault")["ok"]


def test_a_vault_among_folders_charges_a_person_under_all_names(tmp_path: Path) -> None:
    place = tmp_path / "fits"  # a name that folders of vaults have, too
    shared = SharedVault(place / "vault")
    for people, values in ((["a", "b"], [0, 1]), (["a", "c"], [1, 2])):
        side = PublicSide(
            rows=people[1],
            classes="[0, 1]",
            num_labels=2,
            people=np.array(people),
            values=np.array([values, [0, 1]], dtype=np.uint64),
        )
        vault = LabelVault(labels=[0, 1], num_classes=2, store=shared.store(side))
        vault.release(GaussianNoise(noise_std=4.0, num_classes=2))
    by_name = account(place / "vault")["epsilon"]
    assert account(place)["epsilon"] == by_name == pytest.approx(shared.epsilon())
    a_folder(place / "sweep", releases=[LAPLACE])
    assert account(place)["epsilon"] == pytest.approx(2.0 + by_name)


def test_every_line_is_listed(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[LAPLACE], readers=2)
    a_vault(tmp_path).release(NoNoise(num_classes=10))
    first, second = account(tmp_path)["lines"]
    expected: dict[str, Any] = {
        **{"sweep": "small", "line": 1, "what": "release of Laplace noise", "noise": "plain"},
        **{"epsilon": 2.0, "labels": 60, "configurations": ["ALIBI"], "counted": True},
        **{"trials": [f"{number:016x}" for number in range(2)], "who_may_see_it": "anybody"},
    }
    assert first.items() >= expected.items()
    assert (second["noise"], second["epsilon"]) == ("none", math.inf)
    assert second["who_may_see_it"] == "the owner of the labels only"


def test_sums_are_stated_at_the_delta_that_is_asked_for(tmp_path: Path) -> None:
    a_folder(tmp_path)
    assert ledger_report([str(tmp_path)], delta=0.0)["delta"] == 0.0
    with pytest.raises(ValueError, match="delta is 2"):
        ledger_report([str(tmp_path)], delta=2.0)


def test_a_public_line_has_what_it_takes_to_compute_its_price(tmp_path: Path) -> None:
    first, second = public_lines(lines(tmp_path, releases=[LAPLACE, GAUSSIAN]))
    assert first["parameters"] == {"epsilon": 2.0, "num_classes": 10}
    assert (first["mechanism"], first["noise"], first["labels"]) == ("LaplaceNoise", "plain", 60)
    assert (first["epsilon"], first["delta"], first["failure_probability"]) == (2.0, 0.0, 0.0)
    event = read_event(json.dumps(second["event"]))
    assert epsilon_of([event], delta=second["delta"]) == second["epsilon"]
    # Times are days, and folders stay.
    assert len(first["made"]) == 10 and first["made"].count("-") == 2
    assert str(tmp_path) not in json.dumps(first) and "small" not in json.dumps(first)
    (seeded,) = public_lines(lines(tmp_path / "seeded", noise=SeededNoise(seed=8124377)))
    assert seeded["noise"] == "seeded" and "8124377" not in json.dumps(seeded)


def test_other_mechanisms_are_known_by_their_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OfSecretProjectX, "failure_probability", 4e-6)
    (line,) = public_lines(lines(tmp_path, releases=[OfSecretProjectX()]))
    shown = json.dumps(line)
    assert "SecretProject" not in shown and "s3cr3t" not in shown
    assert (line["mechanism"], line["parameters"], line["epsilon"]) == ("other", {}, 1.0)
    assert (line["delta"], line["failure_probability"]) == (8e-6, 4e-6)


@pytest.mark.parametrize("planted", ["s3cr3t", ["s3cr3t"], {"s3cr3t": 1}, True])
def test_parameters_are_numbers(planted: Any, tmp_path: Path) -> None:
    (line,) = lines(tmp_path)
    strange = {**line.charge.mechanism, "epsilon": planted, "s3cr3t": 3.0}
    (shown,) = public_lines([replace(line, charge=replace(line.charge, mechanism=strange))])
    assert (shown["parameters"], shown["mechanism"]) == ({}, "other")
    assert "s3cr3t" not in json.dumps(shown)
