"""shared_vault: who is read again, who pays anew, on disk, across processes, and in copies."""

import copy
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.release_store import OtherLabels, ReleaseStore
from labeldp.mechanisms.vault import LabelVault, Release
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from labeldp.platform.vault.vault_store import StoreUnusable

LABELS = np.arange(6) % 2


def ask(
    shared: SharedVault,
    *,
    labels: NDArray[np.int64] = LABELS,
    rows: str = "these",
    people: list[int] | None = None,
) -> Release:
    """Release labels once more, as a fit would."""
    side = PublicSide(
        rows=rows,
        classes="[0, 1]",
        num_labels=len(labels),
        people=None if people is None else np.array(people),
    )

    def lock(store: ReleaseStore) -> LabelVault:
        return LabelVault(labels=labels, num_classes=2, store=store)

    return shared.lock_away(side, lock).release(RandomizedResponse(epsilon=1.0, num_classes=2))


@pytest.fixture(params=["memory", "folder"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> SharedVault:
    return SharedVault(tmp_path / "vault" if request.param == "folder" else None)


def test_the_same_rows_and_labels_are_read_again_and_paid_once(shared: SharedVault) -> None:
    first, again = ask(shared), ask(shared)
    assert (first.values == again.values).all() and first.key == again.key
    assert shared.epsilon() == 1.0 and len(shared.charges()) == 1


def test_no_total_shows_whether_labels_changed(shared: SharedVault) -> None:
    ask(shared)
    ask(shared, rows="others")
    assert shared.total() == (2.0, 0.0)
    mended = 1 - LABELS
    with pytest.raises(OtherLabels, match=r"nothing was released.*call vault.relabel\(\)"):
        ask(shared, labels=mended)
    totals = []
    for labels in (LABELS, mended):  # what is paid follows from the call, and not from the labels
        before = shared.epsilon()
        shared.relabel()
        values = {ask(shared, labels=labels).key for _ in range(2)}
        totals.append((shared.epsilon() - before, len(values)))
    assert totals == [(1.0, 1), (1.0, 1)]
    if shared.folder is not None:
        assert ask(SharedVault(shared.folder), labels=mended).key and shared.epsilon() == 4.0


def test_epsilon_holds_at_the_delta_that_was_asked_for(
    shared: SharedVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RandomizedResponse, "failure_probability", 4e-6)
    ask(shared)
    ask(shared, rows="others")
    assert shared.epsilon() == 2.0 and shared.total() == (2.0, 1.6e-5)
    ask(shared, rows="more")
    # Any of three may fail: at 1e-5 nothing holds, and what does takes a larger delta.
    assert shared.epsilon() == np.inf and shared.total() == (3.0, 2.4e-5)


def test_all_that_is_public_of_a_fit_tells_it_from_others() -> None:
    facts: dict[str, Any] = dict(rows="a", classes="[0, 1]", num_labels=2, people=np.array([3, 4]))
    others: list[dict[str, Any]] = [
        {"rows": "b"},
        {"classes": "[1, 0]"},
        {"people": None},
        {"people": np.array([4, 3])},
        {"planted": "20 canaries"},
        {"num_labels": 3, "people": np.array([3, 4, 5])},
    ]
    keys = {PublicSide(**{**facts, **change}).key for change in [{}, *others]}
    assert len(keys) == 7


def test_named_rows_pay_for_what_they_were_in_only(shared: SharedVault) -> None:
    ask(shared, rows="first", people=[0, 1, 2, 3, 4, 5])
    ask(shared, rows="second", people=[6, 7, 8, 9, 10, 11])
    assert shared.epsilon() == 1.0
    ask(shared, rows="third", people=[5, 6, 20, 21, 22, 23])
    assert shared.epsilon() == 2.0
    ask(shared, rows="nobody says whose")
    assert shared.epsilon() == 3.0


def test_a_folder_is_found_again_and_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    first = ask(SharedVault(folder), people=[3, 1, 4, 5, 9, 2])
    again = SharedVault(folder)
    assert again.epsilon() == 1.0
    assert (ask(again, people=[3, 1, 4, 5, 9, 2]).values == first.values).all()
    again.relabel()
    ask(again, people=[5, 9, 2, 3, 1, 4])
    assert again.epsilon() == 2.0
    assert all(path.stat().st_mode & 0o077 == 0 for path in [folder, *folder.rglob("*")])


def test_a_copy_is_the_same_vault_and_memory_stays_here(tmp_path: Path) -> None:
    here = SharedVault()
    assert copy.deepcopy(here) is here
    with pytest.raises(TypeError, match="give it a folder"):
        pickle.dumps(here)
    kept = SharedVault(tmp_path / "vault")
    ask(kept)
    assert pickle.loads(pickle.dumps(kept)).epsilon() == 1.0
    assert repr(kept) == f"SharedVault({str(tmp_path / 'vault')!r})"


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; a vault takes a folder"):
        SharedVault(tmp_path / "file")


def test_one_name_for_two_rows_is_refused(shared: SharedVault) -> None:
    with pytest.raises(ValueError, match="twice"):
        ask(shared, people=[0, 0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        ask(shared, people=[0, 1])
    assert shared.epsilon() == 0.0


def test_the_same_features_under_other_names_are_the_same_people(shared: SharedVault) -> None:
    """Names that are made anew for every fit would let each fit pay for itself alone."""
    for number in range(5):
        ask(shared, people=list(range(10 * number, 10 * number + 6)))
    assert shared.epsilon() == 5.0
    ask(shared, rows="others", people=list(range(6)))
    assert shared.epsilon() == 6.0


def test_a_number_and_its_digits_are_one_name(shared: SharedVault) -> None:
    ask(shared, people=[0, 1, 2, 3, 4, 5])
    ask(shared, rows="others", people=["5", "6", "7", "8", "9", "ten"])  # type: ignore[list-item]
    assert shared.epsilon() == 2.0


def test_a_fit_whose_ledger_is_gone_is_missed(tmp_path: Path) -> None:
    shared = SharedVault(tmp_path / "vault")
    ask(shared)
    ask(shared, rows="others")
    next((tmp_path / "vault" / "fits").glob("*/vault.db")).unlink()
    with pytest.raises(StoreUnusable, match="is gone, and with it a ledger of 1 lines"):
        SharedVault(tmp_path / "vault").epsilon()


@pytest.mark.parametrize("changed", ["renumbered", "gone"])
def test_whose_labels_paid_is_not_changed_afterwards(changed: str, tmp_path: Path) -> None:
    shared = SharedVault(tmp_path / "vault")
    ask(shared, people=[0, 1, 2, 3, 4, 5])
    (names,) = (tmp_path / "vault" / "fits").glob("*/people.npy")
    names.unlink()
    if changed == "renumbered":
        np.save(names, np.arange(100, 106))
    with pytest.raises(StoreUnusable, match="says whose labels paid"):
        SharedVault(tmp_path / "vault").epsilon()


def test_a_copy_on_disk_is_refused_until_somebody_answers_for_it(tmp_path: Path) -> None:
    ask(SharedVault(tmp_path / "vault"))
    shutil.copytree(tmp_path / "vault", tmp_path / "copy")
    with pytest.raises(StoreUnusable, match=r"SharedVault\('.*copy', moved=True\)"):
        SharedVault(tmp_path / "copy").epsilon()
    assert SharedVault(tmp_path / "copy", moved=True).epsilon() == 1.0


def test_a_fork_asks_a_vault_on_disk_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, kept = SharedVault(), SharedVault(tmp_path / "vault")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(TypeError, match="process 1 is a fork of it"):
        ask(here)
    assert ask(kept).key and kept.epsilon() == 1.0
