"""shared_vault: who reads again, who pays anew, on disk, across processes, and in copies.

And the labels of one fit: releases, teachers, canaries and figures here, and no label shown.
"""

import copy
import os
import pickle
import secrets
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import GaussianEvent, gaussian_epsilon
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.persons import Groups
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import NoiseSource, OsEntropy, SecureEntropy, SeededNoise
from labeldp.mechanisms.release_store import Charge, MemoryStore, OtherLabels
from labeldp.mechanisms.vault import LabelVault, Release
from labeldp.platform.report.ledger import ledger_report
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.platform.vault import shared_vault
from labeldp.platform.vault.label_home import LabelHome, SecretLabels
from labeldp.platform.vault.shared_vault import FitLabels, PublicSide, SharedVault, joint_ledger
from labeldp.platform.vault.vault_store import StoreUnusable
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.pate import TeacherVotes
from labeldp.trainers.methods.pate_settings import (
    AggregatorKind,
    EnsembleConfig,
    PateConfig,
    TeacherKind,
)
from labeldp.trainers.performance import Device, Performance
from tests.platform.vault.homes import DRIVER, home_settings

LABELS = np.arange(6) % 2


def ask(
    shared: SharedVault,
    labels: Any = LABELS,
    rows: str = "",
    people: Any = None,
    values: Any = None,
) -> Release:
    people = None if people is None else np.array(people)
    if values is not None:
        values = np.array([values, range(len(values))], dtype=np.uint64)
    side = PublicSide(
        rows=rows, classes="[0, 1]", num_labels=len(labels), people=people, values=values
    )
    vault = LabelVault(labels=labels, num_classes=2, store=shared.store(side))
    return vault.release(RandomizedResponse(epsilon=1.0, num_classes=2))


@pytest.fixture(params=["memory", "folder"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> SharedVault:
    return SharedVault(tmp_path / "vault" if request.param == "folder" else None)


def test_no_total_shows_whether_labels_changed(shared: SharedVault) -> None:
    ask(shared)
    ask(shared, rows="others")
    assert shared.total() == (2.0, 0.0)
    mended = 1 - LABELS
    with pytest.raises(OtherLabels, match="of other labels"):
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


def test_a_planned_charge_counts_as_if_it_were_made(shared: SharedVault) -> None:
    ask(shared)
    side = PublicSide(rows="others", classes="[0, 1]", num_labels=6)
    noise = GaussianNoise(noise_std=4.0, num_classes=2)
    store = MemoryStore()
    LabelVault(labels=LABELS, num_classes=2, store=store).release(noise)
    planned = shared.total(delta=1e-6, planned=(side, store.charges()[:1]))
    assert shared.total(delta=1e-6) == (1.0, 0.0) and len(shared.charges()) == 1
    LabelVault(labels=LABELS, num_classes=2, store=shared.store(side)).release(noise)
    assert shared.total(delta=1e-6) == planned and planned[0] > 1.0 and planned[1] == 1e-6


def test_who_releases_alone_keeps_others_out(shared: SharedVault) -> None:
    # On disk another process has its own object for the same folder.
    other = shared if shared.folder is None else SharedVault(shared.folder)
    entered = threading.Event()

    def enter() -> None:
        with other.alone():
            entered.set()

    thread = threading.Thread(target=enter)
    with shared.alone():
        thread.start()
        assert not entered.wait(0.2)
    thread.join(timeout=30)
    assert entered.is_set()


def test_epsilon_holds_at_its_delta(shared: SharedVault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomizedResponse, "failure_probability", 4e-6)
    ask(shared)
    ask(shared, rows="others")
    assert shared.epsilon() == 2.0 and shared.total() == (2.0, 1.6e-5)
    ask(shared, rows="more")
    # Any of three may fail: at 1e-5 nothing holds, and what does takes a larger delta.
    assert shared.epsilon() == np.inf and shared.total() == (3.0, 2.4e-5)


def test_all_public_facts_tell_a_fit_from_others() -> None:
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
    ask(shared, rows="third", people=["5", "6", "20", "x", "y", "z"])  # digits are the number
    assert shared.epsilon() == 2.0
    ask(shared, rows="nobody says whose")
    assert shared.epsilon() == 3.0
    with pytest.raises(ValueError, match="twice"):
        ask(shared, people=[0, 0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        ask(shared, people=[0, 1])
    assert shared.epsilon() == 3.0


def test_equal_features_under_other_names_are_the_same_people_in_any_table(
    shared: SharedVault,
) -> None:
    ask(shared, rows="first", people=list("abcdef"), values=range(6))
    ask(shared, rows="one fewer", people=list("ghijk"), values=range(5), labels=LABELS[:5])
    assert shared.epsilon() == 2.0
    ask(shared, rows="order", people=list("fedcba"), values=range(5, -1, -1))
    assert shared.epsilon() == 3.0
    ask(shared, rows="others", people=list("uvwxyz"), values=range(10, 16))
    assert shared.epsilon() == 3.0  # nobody is in both
    # Features that were changed keep their names, and names that were changed their features.
    ask(shared, rows="changed", people=list("ghixyz"), values=range(20, 26))
    ask(shared, rows="renamed", people=list("mnopqr"), values=range(20, 26))
    assert shared.epsilon() == 5.0
    ledger, everybody = joint_ledger(shared._paid())
    paid = dict(zip(everybody.tolist(), ledger.epsilon_per_label(delta=0.0), strict=True))
    assert (paid["a"], paid["g"], paid["m"], paid["f"], paid["u"]) == (5.0, 5.0, 5.0, 2.0, 1.0)


def test_rows_with_equal_features_pay_once_for_a_fit(shared: SharedVault) -> None:
    """They may be several people's, none of whom is in it more than once."""
    ask(shared, rows="first", people=list("abcdef"), values=[0, 0, 0, 1, 2, 3])
    assert shared.epsilon() == 1.0
    ask(shared, rows="renamed", people=list("ghijkl"), values=[0, 0, 0, 1, 2, 3])
    assert shared.epsilon() == 2.0


def test_a_person_pays_for_each_name_in_a_fit(shared: SharedVault) -> None:
    ask(shared, rows="first", people=list("abcdef"), values=range(6))
    ask(shared, rows="second", people=list("axyzuv"), values=[1, *range(10, 15)])
    assert shared.epsilon() == 3.0  # a is b, too, and has paid for both
    # Equal features of others do not change that.
    ask(shared, rows="third", people=list("abrstq"), values=[0, 1, 20, 20, 21, 22])
    assert shared.epsilon() == 5.0
    # Two of its labels move a sum twice as far as one.
    event = GaussianEvent(noise_multiplier=4.0)
    sums = Charge(key="a", event=event, indices=None, mechanism={}, failure_probability=0.0)
    paid = [(side, [sums]) for side, _ in shared._paid() if side.rows != "third"]
    expected = gaussian_epsilon(noise_multiplier=4 / np.sqrt(2**2 + 1), delta=1e-5)
    assert joint_ledger(paid)[0].epsilon(delta=1e-5) == pytest.approx(expected)
    with pytest.raises(ValueError, match="names one label twice"):
        ask(shared, rows="fourth", people=["7", "07", *"abcd"], values=range(6))


def test_a_folder_is_found_again_and_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    first = ask(SharedVault(folder), people=[3, 1, 4, 5, 9, 2])
    again = SharedVault(folder)
    assert again.epsilon() == 1.0 and repr(again) == f"SharedVault({str(folder)!r})"
    assert (ask(again, people=[3, 1, 4, 5, 9, 2]).values == first.values).all()
    again.relabel()
    ask(again, people=[5, 9, 2, 3, 1, 4])
    assert again.epsilon() == 2.0
    assert all(path.stat().st_mode & 0o077 == 0 for path in [folder, *folder.rglob("*")])
    # A fit that was cut off before its first request hides no other.
    (folder / "fits" / f"{'0' * 24}-0").mkdir(mode=0o700)
    assert SharedVault(folder).epsilon() == 2.0
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; a vault takes a folder"):
        SharedVault(tmp_path / "file")


def test_only_a_folder_of_its_own_becomes_a_vault(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert ask(SharedVault(tmp_path / "empty")).key
    mode = tmp_path.stat().st_mode
    with pytest.raises(ValueError, match="is '', which would be the current folder"):
        SharedVault("")
    with pytest.raises(ValueError, match="is not a vault: it contains files"):
        SharedVault(".")
    assert tmp_path.stat().st_mode == mode and [each.name for each in tmp_path.iterdir()] == [
        "empty"
    ]


def test_a_vault_that_another_process_holds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_vault, "FileLock", lambda file, **_: FileLock(file, timeout=0))
    with (
        SharedVault(tmp_path / "vault").alone(),
        pytest.raises(ValueError, match=r"another process releases from .*vault; wait for it"),
        SharedVault(tmp_path / "vault").alone(),
    ):
        pass


@pytest.mark.parametrize("content", [b"x", b"", b"-1", b"\xff"])
def test_a_damaged_edition_is_named_and_can_be_mended(content: bytes, tmp_path: Path) -> None:
    shared = SharedVault(tmp_path / "vault")
    ask(shared)
    file = tmp_path / "vault" / "edition"
    file.write_bytes(content)
    with pytest.raises(StoreUnusable, match=r"vault/edition holds .*larger than those at which"):
        ask(shared)
    file.write_text("1\n")
    ask(shared)
    assert shared.epsilon() == 2.0


def test_memory_vaults_stay_in_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, kept = SharedVault(), SharedVault(tmp_path / "vault", classes=["no", "yes"])
    assert copy.deepcopy(here) is here
    with pytest.raises(TypeError, match="give it a folder"):
        pickle.dumps(here)
    ask(kept)
    shutil.copytree(tmp_path / "vault", tmp_path / "backup")
    ask(kept, rows="others")
    shutil.rmtree(tmp_path / "vault")
    shutil.copytree(tmp_path / "backup", tmp_path / "vault")
    moved = SharedVault(tmp_path / "vault", moved=True, classes=["no", "yes"])
    there = pickle.loads(pickle.dumps(moved))
    assert there.classes == kept.classes and there.epsilon() == 2.0
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(TypeError, match="process 1 is a fork of it"):
        ask(here)
    assert ask(kept).key and kept.epsilon() == 2.0


def _anew(backup: Path, vault: Path) -> None:
    shutil.rmtree(vault)
    shutil.copytree(backup, vault)


def _over(backup: Path, vault: Path) -> None:
    """As `cp -a` and `tar` do: what the backup has not stays."""
    shutil.copytree(backup, vault, dirs_exist_ok=True)


def _newest_fit(backup: Path, vault: Path) -> None:
    shutil.rmtree(max((vault / "fits").iterdir(), key=lambda fit: fit.stat().st_ctime_ns))


def _without_id(backup: Path, vault: Path) -> None:
    """A backup whose id is lost."""
    _anew(backup, vault)
    (vault / "id").unlink()


@pytest.mark.parametrize("restore", [_anew, _over, _newest_fit, _without_id])
@pytest.mark.parametrize("persons", [False, True])
def test_what_a_restored_vault_forgot_is_refused_or_charged_to_everybody(
    persons: bool, restore: Any, tmp_path: Path
) -> None:
    def release(vault: SharedVault, rows: str, epsilon: float, people: Any) -> None:
        side = PublicSide(rows=rows, classes="c", num_labels=6, people=np.array(people))
        groups = Groups.of(np.arange(6) // 2 if persons else None, count=6, most=1)
        store = vault.store(side.of_persons(groups))
        labels = groups.rows_of(LABELS)
        own = LabelVault(labels=labels, num_classes=2, store=store, persons=groups.used)
        own.release(RandomizedResponse(epsilon=epsilon, num_classes=2))

    folder, backup = tmp_path / "vault", tmp_path / "backup"
    release(SharedVault(folder), "first", 1.0, range(6))
    shutil.copytree(folder, backup)
    if restore is not _newest_fit:
        release(SharedVault(folder), "first", 0.5, range(6))
    release(SharedVault(folder), "second", 0.25, range(10, 16))
    before = SharedVault(folder).epsilon()
    restore(backup, folder)
    for use in (
        lambda: release(SharedVault(folder), "third", 1.0, range(20, 26)),
        lambda: SharedVault(folder).epsilon(),
    ):
        with pytest.raises(StoreUnusable, match=r"has lost \d lines .*moved=True"):
            use()
    moved = SharedVault(folder, moved=True)
    # Nobody knows any more whose the lost lines are, so that everybody pays them.
    forgotten = 0.75 if restore in (_anew, _without_id) else 0.25
    least = 1.0 + forgotten if restore is not _over else before
    assert moved.epsilon() >= max(least, before)
    assert SharedVault(folder).epsilon() == moved.epsilon(), "once, and for good"
    release(SharedVault(folder), "third", 1.0, range(20, 26))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("people", lambda kept: np.array(list("uvwxyz")), "they do not match"),
        ("people", None, "they do not match"),
        # A pickle could run anything, and is not opened.
        ("people", lambda kept: kept.astype(object), "allow_pickle=False"),
        ("values", lambda kept: kept + np.uint64(1), "they do not match"),
        ("values", lambda kept: kept[:, 1:], "they do not match"),
        ("values", b"x", "allow_pickle"),
        ("values", None, "they do not match"),
    ],
)
def test_whose_labels_paid_in_a_fit_cannot_change_later(
    name: str, change: Any, words: str, tmp_path: Path
) -> None:
    ask(SharedVault(tmp_path / "vault"), people=list("abcdef"), values=range(6))
    (file,) = (tmp_path / "vault" / "fits").glob(f"*/{name}.npy")
    kept = np.load(file)
    file.unlink()
    if callable(change):
        np.save(file, change(kept))
    elif change is not None:
        file.write_bytes(change)
    with pytest.raises(StoreUnusable, match=rf"list whose labels paid, .*{words}.*--moved"):
        SharedVault(tmp_path / "vault").epsilon()
    other = [f"{name}2" for name in "abcdef"]
    moved = SharedVault(tmp_path / "vault", moved=True)
    ask(moved, rows="others", people=other, values=range(6))
    assert SharedVault(tmp_path / "vault").epsilon() == 2.0 == moved.epsilon()


def test_one_table_under_other_names_is_linked_row_by_row(shared: SharedVault) -> None:
    """Its cells may have been written otherwise, so that no digest of a row is the same."""
    ask(shared, rows="table", people=list("abcdef"), values=range(6))
    ask(shared, rows="table", people=list("uvwxyz"), values=range(10, 16))
    assert shared.epsilon() == 2.0
    ask(shared, rows="other", people=list("mnopqr"), values=range(20, 26))
    assert shared.epsilon() == 2.0


def _fits(folder: Path) -> None:
    for fit in (folder / "fits").iterdir():
        shutil.rmtree(fit)


def _fits_and_id(folder: Path) -> None:
    _fits(folder)
    (folder / "id").unlink()


def _fits_and_other_id(folder: Path) -> None:
    _fits(folder)
    (folder / "id").write_text(secrets.token_hex(16))


def _other_id_then_a_fit(folder: Path) -> None:
    (folder / "id").write_text(secrets.token_hex(16))
    SharedVault(folder).epsilon()
    shutil.rmtree(min((folder / "fits").iterdir()))


def _facts(folder: Path) -> None:
    for file in folder.glob("fits/*/fit.json"):
        file.unlink()


def _ledgers(folder: Path) -> None:
    for file in folder.glob("fits/*/vault.db"):
        file.unlink()


LOSSES = (_fits, _fits_and_id, _fits_and_other_id, _other_id_then_a_fit, _facts, _ledgers)


@pytest.mark.parametrize("lose", [*LOSSES, shutil.rmtree])
def test_no_vault_begins_anew_where_another_has_paid(lose: Any, tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    for rows in ("first", "second"):
        ask(SharedVault(folder), rows=rows)
    lose(folder)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=r"(has lost|has changed since).*moved=True"):
            ask(SharedVault(folder), rows="third")
    assert SharedVault(folder, moved=True).epsilon() == 2.0
    ask(SharedVault(folder), rows="third")
    assert SharedVault(folder).epsilon() == 3.0


def test_an_edited_id_hides_nothing_at_another_place(tmp_path: Path) -> None:
    for rows in ("first", "second"):
        ask(SharedVault(tmp_path / "vault"), rows=rows)
    (tmp_path / "vault").rename(tmp_path / "other")
    (tmp_path / "other" / "id").write_text(secrets.token_hex(16))
    shutil.rmtree(min((tmp_path / "other" / "fits").iterdir()))
    with pytest.raises(StoreUnusable, match="has lost 1 lines"):
        SharedVault(tmp_path / "other").epsilon()


def test_a_place_is_free_when_its_vault_was_opened_elsewhere(tmp_path: Path) -> None:
    ask(SharedVault(tmp_path / "vault"))
    shutil.copytree(tmp_path / "vault", tmp_path / "copy")
    assert ledger_report([str(tmp_path / "copy")])["ok"], "a report moves no vault"
    shutil.move(tmp_path / "vault", tmp_path / "moved")
    with pytest.raises(StoreUnusable, match="is in the place of another one"):
        ask(SharedVault(tmp_path / "vault"))
    shutil.rmtree(tmp_path / "vault")
    shutil.move(tmp_path / "moved", tmp_path / "vault")
    (tmp_path / "vault").rename(tmp_path / "other")
    assert SharedVault(tmp_path / "other").epsilon() == 1.0
    ask(SharedVault(tmp_path / "vault"))
    assert SharedVault(tmp_path / "vault").epsilon() == 1.0


def test_threads_that_open_a_new_vault_together_agree_on_its_id(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(lambda _: SharedVault(tmp_path / "vault").id, range(8)))
    assert len(ids) == 1 and SharedVault().id is None


CLASSES = 3
MANY = (np.arange(600) // 7 % CLASSES).astype(np.int64)
MECHANISM = RandomizedResponse(epsilon=1.0, num_classes=CLASSES)
AUDIT = AuditSettings(canaries=100, coin_canaries=100)


def near(shared: SharedVault | None = None, labels: Any = MANY, **changes: Any) -> FitLabels:
    given = {"audit": None, "noise": OsEntropy(), "fingerprint": "f", **changes}
    side = PublicSide(rows="r", classes="c", num_labels=len(labels))
    secrets = SecretLabels(training=labels, num_classes=CLASSES)
    return FitLabels(secrets, side=side, shared=shared or SharedVault(), **given)


def knowing(labels: NDArray[np.int64]) -> Any:
    return lambda places: np.eye(CLASSES, dtype=np.float32)[labels[places]]


def test_a_later_fit_reads_and_pays_for_what_is_new() -> None:
    shared = SharedVault()
    first = near(shared)
    values = first.release(MECHANISM).values
    assert first.epsilon(delta=1e-5) == (1.0, 0.0)
    assert first.new_charges() == first.charges() == shared.charges()
    with pytest.raises(OtherLabels, match=r"nothing was released.*call vault.relabel\(\)"):
        near(shared, labels=(MANY + 1) % CLASSES)
    second = near(shared)
    assert (second.release(MECHANISM).values == values).all()
    assert second.charges() == first.charges() and second.new_charges() == []
    assert second.epsilon(delta=1e-5) == (1.0, 0.0) and shared.epsilon() == 1.0
    third, half = near(shared, noise=SecureEntropy()), replace(MECHANISM, epsilon=0.5)
    third.release(half)
    (charge,) = third.charges()  # what it read itself
    assert charge.event == half.event and charge.mechanism["noise"]["name"] == "SecureEntropy"
    assert third.epsilon(delta=1e-5) == (0.5, 0.0) and shared.epsilon() == 1.5


def test_canaries_are_planted_on_request_only() -> None:
    assert not len(near().canary_positions())
    many = np.arange(60_000) % CLASSES  # so many have room for canaries, had any been requested
    assert not len(near(labels=many).canary_positions())
    for guessed, accuracy in ((MANY, 1.0), ((MANY + 1) % CLASSES, 0.0)):
        found = near().figures(knowing(guessed), delta=1e-5)
        assert found == {"private/training_accuracy": accuracy}
    # A seed decides the coins and nothing else does.
    seeds: list[NoiseSource] = [SeededNoise(seed=each) for each in (1, 1, 2)]
    seeds += [OsEntropy(), OsEntropy()]
    planted = [near(audit=AUDIT, noise=each).home._planted.tolist() for each in seeds]
    assert planted[0] == planted[1] and all(planted.count(each) == 1 for each in planted[2:])
    # In one vault each set of canaries has releases of its own; without any, no seed matters.
    shared = SharedVault()
    for number, each in enumerate(seeds[:3], start=1):
        near(shared, audit=AUDIT, noise=each).release(replace(MECHANISM, epsilon=float(number)))
    near(shared, noise=SeededNoise(seed=1))
    with pytest.raises(OtherLabels, match="nothing was released"):
        near(shared, noise=SeededNoise(seed=2), labels=(MANY + 1) % CLASSES)


def test_a_fit_finds_what_the_audits_of_a_sweep_find_and_pays_nothing_for_it() -> None:
    noise = GaussianNoise(noise_std=4.0, num_classes=CLASSES)
    fit = near(audit=AUDIT, noise=SeededNoise(seed=7))
    planted, positions = fit.home._planted, fit.canary_positions()
    assert len(positions) == 200 and set(np.flatnonzero(planted != MANY)) <= set(positions)
    release = fit.release(noise)
    before = fit.charges()
    found = fit.figures(knowing(planted), delta=1e-5)
    assert fit.charges() == before
    assert found["epsilon_m_low"] > 1  # it remembers the wrong labels
    assert found["private/label_inference_accuracy"] == 1.0
    home = LabelHome(
        SecretLabels(training=MANY, num_classes=CLASSES),
        **home_settings(None, audit=AUDIT, coin_seed=7),
    )
    released = home.release(noise, (), None, SeededNoise(seed=7))
    assert released.values.tolist() == release.values.tolist()
    home.begin(DRIVER, "ab" * 8)
    sure = knowing(planted)(home.canary_positions())
    home.audit("ab" * 8, sure, AUDIT.confidence, [released.key], 1e-5)
    swept = home.figures(DRIVER, "ab" * 8, [released.key])
    assert found == {"private/training_accuracy": found["private/training_accuracy"], **swept}
    assert found["private/epsilon_release"] <= found["epsilon_release_ceiling"]


def some_data() -> PublicData:
    noise = np.random.default_rng(0).normal(size=(len(MANY), 4), scale=0.1)
    return PublicData(
        name="own",
        num_classes=CLASSES,
        train_features=torch.from_numpy((np.eye(CLASSES, 4)[MANY] + noise).astype(np.float32)),
        test_features=torch.empty(0, 4),
        test_labels=np.empty(0, dtype=np.int64),
    )


PATE = PateConfig(
    ensemble=EnsembleConfig(teachers=20, queries=30),
    aggregator=AggregatorKind.GNMAX,
    sigma2=1.0,
    answers=30,
    publish_cost=False,
    students=1,
)
NEAREST = replace(
    PATE, ensemble=replace(PATE.ensemble, kind=TeacherKind.NEIGHBORS, queries_per_label=20)
)
CPU = Performance(device=Device.CPU)


@pytest.mark.parametrize("config", [PATE, NEAREST], ids=["probes", "nearest labels"])
def test_answers_are_charged(config: PateConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    train, trained = TeacherVotes.__call__, list[Any]()

    def spy(self: TeacherVotes, *batch: Any) -> NDArray[np.uint8]:
        trained.append((self.performance, batch[0]))
        return train(self, *batch)

    monkeypatch.setattr(TeacherVotes, "__call__", spy)
    data, labels, told = some_data(), near(noise=SeededNoise(seed=5)), list[str]()
    labels.teach(config.ensemble, data=data, performance=CPU, tell=told.append)
    trainer = config.start(data=data, labels=labels, seed=0, performance=CPU)
    trainer.epoch()
    votes = labels.home.journal(config.ensemble)().folder
    assert votes.exists()
    for each in (labels, labels, near()):  # a second end, or one without files, is harmless
        each.home.end()
    assert not votes.exists()
    assert told == ["20 of 20 teachers"] and trained == [(CPU, list(range(20)))]
    assert (trainer.predict(data.train_features).argmax(1) == MANY).mean() > 0.95
    epsilon, delta = labels.epsilon(delta=1e-5)
    assert epsilon > 1 and delta == 1e-5
    assert len(labels.charges()) == 1


def test_votes_are_of_the_labels_that_were_planted_and_are_kept(tmp_path: Path) -> None:
    data, shared, told = some_data(), SharedVault(tmp_path / "vault"), list[str]()
    journals = set[Path]()
    others = [near(shared, audit=AUDIT), near(shared, fingerprint="other features")]
    for each in (near(shared), near(shared), *others):
        each.teach(PATE.ensemble, data=data, performance=CPU, tell=told.append)
        journals.add(each.home.journal(PATE.ensemble)().folder)
    # The second fit uses the first one's teachers; those of the third have learned wrong labels,
    # and those of the fourth other features.
    assert len(told) == len(journals) == 3
