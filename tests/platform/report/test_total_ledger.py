"""total_ledger: the worst label over several folders, never less than it has paid."""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.mechanisms.accounting import GaussianEvent, PureEvent, epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.ledger import epsilon_at
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import Charge, LabelVault, Mechanism
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.report import ledger
from labeldp.platform.report.ledger import FolderLedger, account_of, read_folder, total_of
from labeldp.platform.vault.vault_store import SqliteStore
from tests.platform.report.folders import LABELS, LAPLACE, a_folder, a_vault

SMALL = LaplaceNoise(epsilon=0.5, num_classes=10)


@dataclass(frozen=True, kw_only=True)
class Unsure(LaplaceNoise):
    """Noise that may fall short, more probably than delta says."""

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


def test_one_folder_costs_what_its_vault_says(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[LAPLACE, SMALL])
    vault = a_vault(tmp_path)
    vault.release(LAPLACE, indices=np.arange(5))
    vault.release(SMALL, indices=np.arange(5, 60))
    total = account_of([read_folder(tmp_path)]).together
    assert (total.releases, total.delta, total.handed_out) == (4, 0.0, 0)
    assert total.epsilon == vault.epsilon(delta=0.0) == 4.5
    assert total.epsilon_private == total.epsilon


def test_equal_public_data_are_taken_for_the_same_labels_row_by_row(tmp_path: Path) -> None:
    for name, rows in (("a", np.arange(5)), ("b", np.arange(3, 9))):
        a_folder(tmp_path / name, releases=[])
        a_vault(tmp_path / name).release(LAPLACE, indices=rows)
    both = [read_folder(tmp_path / name) for name in "ab"]
    account = account_of(both)
    assert account.groups == ((0, 1),)
    assert account.together.epsilon == account.apart.epsilon == 4.0  # rows 3 and 4 paid twice
    a_folder(tmp_path / "c", releases=[])
    a_vault(tmp_path / "c").release(LAPLACE, indices=np.arange(20, 30))
    assert account_of([both[0], read_folder(tmp_path / "c")]).together.epsilon == 2.0


def test_other_public_data_may_be_of_the_same_people(tmp_path: Path) -> None:
    for name, rows in (("a", np.arange(5)), ("b", np.arange(20, 30))):
        a_folder(tmp_path / name, releases=[SMALL], fingerprint=name)
        a_vault(tmp_path / name).release(LAPLACE, indices=rows)
    account = account_of([read_folder(tmp_path / name) for name in "ab"])
    assert account.groups == ((0,), (1,))
    # Rows can't be matched: the dearest label of one may be the dearest of the other.
    assert (account.together.epsilon, account.apart.epsilon) == (5.0, 2.5)


def test_groups_apart_cost_what_none_of_them_has_paid_more_than(tmp_path: Path) -> None:
    handed_out: list[Mechanism] = [SMALL, NoNoise(num_classes=10)]
    a_folder(tmp_path / "a", releases=handed_out, fingerprint="a")
    a_folder(tmp_path / "b", releases=[LAPLACE], fingerprint="b")
    apart = account_of([read_folder(tmp_path / name) for name in "ab"]).apart
    # The group that handed labels out is not the one that paid most for noise.
    assert (apart.epsilon, apart.epsilon_private, apart.handed_out) == (np.inf, 2.0, 1)


def test_groups_apart_are_stated_at_a_delta_that_holds_for_all(tmp_path: Path) -> None:
    noisy = GaussianNoise(noise_std=4.0, num_classes=10)
    a_folder(tmp_path / "a", releases=[LAPLACE], fingerprint="a")
    a_folder(tmp_path / "b", releases=[noisy], fingerprint="b")
    a_folder(tmp_path / "c", releases=[noisy], fingerprint="c")
    a_vault(tmp_path / "c").release(Unsure(num_classes=10))
    folders = {name: read_folder(tmp_path / name) for name in "abc"}
    apart = account_of([folders["a"], folders["b"]]).apart
    assert (apart.epsilon, apart.delta) == (2.0, 1e-5)  # pure alone, and b has nothing at delta 0
    apart = account_of([folders["b"], folders["c"]]).apart
    assert apart.delta == 8e-5
    exact = epsilon_of([noisy.event, Unsure(num_classes=10).event], delta=4e-5)
    assert apart.epsilon == pytest.approx(exact, rel=1e-12)


def test_folders_of_several_deltas_are_stated_at_the_largest(tmp_path: Path) -> None:
    noisy = GaussianNoise(noise_std=4.0, num_classes=10)
    for name, delta in (("a", 1e-6), ("b", 1e-4), ("c", 1e-7)):
        changes = {"trainer.delta": delta}
        a_folder(tmp_path / name, releases=[noisy], fingerprint=name, changes=changes)
    account = account_of([read_folder(tmp_path / name) for name in "abc"])
    assert account.together.delta == account.apart.delta == 1e-4
    assert account.together.epsilon == pytest.approx(epsilon_of([noisy.event] * 3, delta=1e-4))


def test_one_secret_and_one_digest_are_the_same_labels_whatever_the_features(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        path = tmp_path / name
        a_vault(path, salt=bytes(range(32))).release(LAPLACE)
    account = account_of([read_folder(tmp_path / name) for name in "ab"])
    assert account.groups == ((0, 1),) and account.together.epsilon == 4.0


def test_folders_that_say_nothing_of_their_data_are_not_taken_for_the_same(tmp_path: Path) -> None:
    for name, rows in (("a", np.arange(5)), ("b", np.arange(20, 30))):
        a_vault(tmp_path / name).release(LAPLACE, indices=rows)
    account = account_of([read_folder(tmp_path / name) for name in "ab"])
    assert account.groups == ((0,), (1,)) and account.together.epsilon == 4.0


def test_a_folder_that_is_like_two_others_joins_them(tmp_path: Path) -> None:
    facts = {"a": ("x", bytes(32)), "b": ("y", bytes(range(32))), "c": ("x", bytes(range(32)))}
    for name, (fingerprint, salt) in facts.items():
        a_vault(tmp_path / name, salt=salt)
        a_folder(tmp_path / name, fingerprint=fingerprint)
    account = account_of([read_folder(tmp_path / name) for name in "abc"])
    assert account.groups == ((0, 1, 2),)
    assert account.apart.epsilon == account.together.epsilon == 6.0


def test_a_folder_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    account = account_of(read_folder(tmp_path / name) for name in ("a", "link", "a"))
    assert len(account.folders) == 1 and account.together.epsilon == 2.0


def test_lines_from_before_a_copy_count_once_and_later_ones_for_themselves(tmp_path: Path) -> None:
    a_folder(tmp_path / "a", releases=[LAPLACE])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    SqliteStore(tmp_path / "b" / "vault.db", moved=True)
    for name in ("a", "b"):  # the same release, drawn twice
        store = SqliteStore(tmp_path / name / "vault.db")
        LabelVault(labels=LABELS, num_classes=10, store=store).release(SMALL)
    account = account_of(read_folder(tmp_path / name) for name in ("a", "b"))
    assert account.together.epsilon == 3.0 and account.together.releases == 3
    marked = [bool(line.repeats) for line in account.folders[1].lines]
    assert marked == [True, False]
    (note,) = account.notes
    assert "copies of one vault" in note and "different noise" in note


def test_lines_that_are_alike_again_after_two_draws_differ_count_each(tmp_path: Path) -> None:
    a_folder(tmp_path / "a", releases=[LAPLACE])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    SqliteStore(tmp_path / "b" / "vault.db", moved=True)
    for name in ("a", "b"):
        vault = a_vault(tmp_path / name)
        vault.release(SMALL)
        vault.release(SMALL, noise=SeededNoise(seed=1))
        with sqlite3.connect(tmp_path / name / "vault.db") as connection:
            connection.execute("UPDATE charges SET made = '2026-11-21T23:40:15Z'")
        connection.close()
    account = account_of(read_folder(tmp_path / name) for name in ("a", "b"))
    marked = [bool(line.repeats) for line in account.folders[1].lines]
    assert marked == [True, False, False] and account.together.epsilon == 4.0


def test_labels_that_were_handed_out_are_told_apart_from_the_rest(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[LAPLACE, NoNoise(num_classes=10), SMALL])
    total = account_of([read_folder(tmp_path)]).together
    assert (total.epsilon, total.epsilon_private, total.handed_out) == (np.inf, 2.5, 1)


def test_a_ledger_that_lost_lines_is_not_whole(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    a_folder(tmp_path / "b")
    (tmp_path / "b" / "vault.db").unlink()
    account = account_of(read_folder(tmp_path / name) for name in ("a", "b"))
    assert account.problems and "is gone" in account.problems[0]


def test_no_folder_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no results folder"):
        account_of([])


def test_gaussians_of_several_folders_compose_as_gaussians() -> None:
    groups = [[a_line(name, GaussianEvent(noise_multiplier=4.0))] for name in "abc"]
    total = total_of(groups, delta=1e-5)
    exact = epsilon_of([GaussianEvent(noise_multiplier=4.0)] * 3, delta=1e-5)
    assert total.epsilon == pytest.approx(exact, abs=1e-12)
    assert total.epsilon < 3 * epsilon_of([GaussianEvent(noise_multiplier=4.0)], delta=1e-5)


def learned(path: Path, epsilon: float, *releases: Mechanism, delta: float = 0.0) -> FolderLedger:
    """A folder of a sweep that could have cost more than it did; public data of its own."""
    a_folder(path, releases=releases, fingerprint=path.name)
    plan = {"learned_epsilon": epsilon, "learned_delta": delta, "learned_counts": 0.0}
    ResultsFolder(path, sweep="small").identify(**plan)
    return read_folder(path)


def test_a_sweep_that_learned_counts_as_the_dearest_way_that_it_could_have_gone(
    tmp_path: Path,
) -> None:
    outdone, paid = learned(tmp_path / "a", 4.0, LAPLACE), learned(tmp_path / "b", 2.0, LAPLACE)
    account = account_of([outdone, paid])
    assert (account.together.epsilon, account.apart.epsilon) == (6.0, 4.0)
    assert account.together.releases == 2
    note, other = account.notes
    assert str(outdone.path) in note and "epsilon 4" in note and "epsilon 2" in other
    # What it is made of is not known: it adds to Gaussians as it is, and so does its delta.
    noise = [GaussianNoise(noise_std=std, num_classes=10) for std in (5.0, 7.0)]
    a_folder(tmp_path / "c", releases=noise, fingerprint="c")
    approximate = learned(tmp_path / "d", 4.0, *noise, delta=1e-6)
    total = account_of([read_folder(tmp_path / "c"), approximate]).together
    assert total.epsilon == pytest.approx(
        4.0 + epsilon_of([each.event for each in noise], delta=1e-5)
    )
    assert total.delta == pytest.approx(1e-5 + 1e-6)
    assert account_of([learned(tmp_path / "e", 4.0)]).together.epsilon == 0.0, "nothing asked yet"


def test_beside_others_another_way_of_a_sweep_that_learned_may_cost_more_than_its_own(
    tmp_path: Path,
) -> None:
    """Two ways of one plan cost the same alone; the pure one costs more beside a Gaussian."""
    noise = GaussianNoise(noise_std=5.0, num_classes=10)
    price = epsilon_of([noise.event], delta=1e-5)
    a_folder(tmp_path / "other", releases=[noise], fingerprint="other")
    totals = []
    for name, way in (("a", noise), ("b", LaplaceNoise(epsilon=price, num_classes=10))):
        folder = learned(tmp_path / name, price, way, delta=0.0 if name == "b" else 1e-5)
        totals.append(account_of([read_folder(tmp_path / "other"), folder]).together)
    assert totals[0].epsilon == pytest.approx(2 * price)
    assert totals[0].epsilon >= totals[1].epsilon * (1 - 1e-12)


def test_a_copy_of_a_sweep_that_learned_adds_its_plan_once_it_released_more(
    tmp_path: Path,
) -> None:
    learned(tmp_path / "a", 4.0, LAPLACE)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    SqliteStore(tmp_path / "b" / "vault.db", moved=True)

    def total() -> float:
        return account_of([read_folder(tmp_path / name) for name in "ab"]).together.epsilon

    assert total() == 4.0
    store = SqliteStore(tmp_path / "b" / "vault.db")
    LabelVault(labels=LABELS, num_classes=10, store=store).release(SMALL)
    assert total() == 8.0


def test_what_was_handed_out_in_one_group_hides_no_dearer_group(tmp_path: Path) -> None:
    a_folder(tmp_path / "a", releases=[SMALL, NoNoise(num_classes=10)], fingerprint="a")
    a_folder(tmp_path / "b", releases=[LAPLACE], fingerprint="b")
    account = account_of([read_folder(tmp_path / name) for name in "ab"])
    assert (account.apart.epsilon, account.apart.epsilon_private) == (np.inf, 2.0)


def test_many_histories_of_one_folder_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [a_line(f"{row}", PureEvent(epsilon=1.0 + row), row) for row in range(4)]
    monkeypatch.setattr(ledger, "MOST_COMBINATIONS", 3)
    assert total_of([lines], delta=1e-5).epsilon == 4.0


def test_many_histories_are_charged_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [
        [a_line(f"{name}{row}", PureEvent(epsilon=1.0 + row), row) for row in range(4)]
        for name in "ab"
    ]
    assert total_of(groups, delta=1e-5).epsilon == 8.0
    monkeypatch.setattr(ledger, "MOST_COMBINATIONS", 15)
    assert total_of(groups, delta=1e-5).epsilon == 20.0


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
    dearest = [
        max(
            sum(epsilon for epsilon, rows in lines if rows is None or label in rows)
            for label in range(5)
        )
        for lines in folders
    ]
    assert total_of(groups, delta=1e-5).epsilon == pytest.approx(sum(dearest))
    for group, alone in zip(groups, dearest, strict=True):
        assert epsilon_at(group, num_labels=5, delta=0.0) == pytest.approx(alone)
