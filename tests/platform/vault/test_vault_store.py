"""vault_store: charges and releases land together, last, and belong to one set of labels.

A renamed store is itself; one that forgot lines is refused; its ledger is read as it lies. Votes
land in whole batches: a crash costs the one that is being written.
"""

import io
import os
import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import (
    DecisionEvent,
    Event,
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RenyiEvent,
)
from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.release_store import MemoryStore, OtherLabels
from labeldp.mechanisms.vault import Charge, LabelVault, Release
from labeldp.platform.vault import vault_store
from labeldp.platform.vault.vault_store import (
    SCHEMA_VERSION,
    KeptLedger,
    SqliteStore,
    StoreUnusable,
    VoteJournal,
    VoteStore,
    read_ledger,
)
from labeldp.platform.vault.witness import Witness, not_among, state_folder
from tests.faults.processes import files_of_at_most
from tests.mechanisms.test_ledger import line
from tests.platform.sweep.examples import mode

LABELS = np.array([0, 1, 2, 1, 0])
LAPLACE = LaplaceNoise(epsilon=1.0, num_classes=3)
ONE = PureEvent(epsilon=1.0)
INFINITY = float("inf")


def a_vault(path: Path, *, labels: Any = LABELS, budget: Budget | None = None) -> LabelVault:
    return LabelVault(labels=labels, num_classes=3, store=SqliteStore(path), budget=budget)


def charge(key: str, event: Event = ONE, indices: Any = None) -> Charge:
    return replace(line(event, indices=indices), key=key, mechanism={"name": "Any", "x": 0.1})


def execute(path: Path, *statements: str) -> Any:
    """Run statements on a store behind its back; returns the last one's first row."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            found = connection.execute(statement)
        return found.fetchone()


@pytest.mark.parametrize(
    "event",
    [
        PureEvent(epsilon=0.1),
        PureEvent(epsilon=INFINITY),
        RandomizedResponseEvent(epsilon=0.1, num_classes=10),
        GaussianEvent(noise_multiplier=1.7),
        DecisionEvent(noise_multiplier=1.7, orders=(2.0, 3.0), rdp=(0.1, 0.2)),
        RenyiEvent(orders=(1.5, 2.0), rdp=(0.1, INFINITY)),
    ],
)
def test_a_charge_comes_back_exactly(event: Event, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "vault.db")
    store.record(charge("a", event), np.zeros(2), lines=0)
    store.record(charge("b", event, np.array([0, 3])), np.zeros(2), lines=1)
    first, second = SqliteStore(tmp_path / "vault.db").charges()
    assert (first.key, first.event, first.indices) == ("a", event, None)
    assert first.mechanism == {"name": "Any", "x": 0.1}
    assert second.indices is not None and second.indices.tolist() == [0, 3]


def test_releases_come_back_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_store, "_PART_BYTES", 100)
    path, rng = tmp_path / "vault.db", np.random.default_rng(0)
    kept: dict[str, Any] = {
        "parts": rng.normal(size=(7, 9)),
        "turned": np.asfortranarray(rng.normal(size=(5, 8)).astype(np.float32)),
        "none": np.zeros((0, 3)),
        "one": np.array(2),
        "bytes": np.array([[1]], dtype=np.uint8),
        "sets": np.asfortranarray(rng.random((11, 7)) < 0.5),
        "no sets": np.zeros((0, 7), dtype=np.bool_),
    }
    store = SqliteStore(path)
    for lines, (key, values) in enumerate(kept.items()):
        assert store.record(charge(key), values, lines=lines)
    for key, values in kept.items():
        found = SqliteStore(path).release(key)
        assert found is not None and not found.flags.writeable
        assert found.dtype == values.dtype and found.shape == values.shape
        np.testing.assert_array_equal(found, values)
    assert SqliteStore(path).release("another") is None
    stored = "SELECT sum(length(content)) FROM release_parts WHERE key = 'sets'"
    assert execute(path, stored) == (38,)  # of 138: a header of 128, and 77 bits
    assert execute(path, "SELECT max(length(content)) FROM release_parts") == (100,)
    execute(path, "DELETE FROM release_parts WHERE key = 'parts' AND part = 2")
    with pytest.raises(StoreUnusable, match="can't be used as a vault store"):
        SqliteStore(path).release("parts")


def test_sets_of_another_number_of_bytes_are_refused(tmp_path: Path) -> None:
    """Sets that were cut off, and those of a labeldp that kept a byte for each class."""
    path, sets = tmp_path / "vault.db", np.ones((11, 7), dtype=np.bool_)
    SqliteStore(path).record(charge("sets"), sets, lines=0)
    buffer = io.BytesIO()
    np.save(buffer, sets)
    packed = vault_store._write_array(sets)
    for content in (packed[:-1], buffer.getvalue()):
        with closing(sqlite3.connect(path)) as store, store:
            store.execute("UPDATE releases SET content = ?", (content,))
        with pytest.raises(StoreUnusable, match="bytes for 77 booleans"):
            SqliteStore(path).release("sets")


def test_a_second_process_reads_the_release_and_pays_nothing(tmp_path: Path) -> None:
    first = a_vault(tmp_path / "vault.db").release(LAPLACE)
    again = a_vault(tmp_path / "vault.db", budget=Budget(epsilon=1.4))
    np.testing.assert_array_equal(again.release(LAPLACE).values, first.values)
    assert (len(again.charges()), again.epsilon(delta=0.0)) == (1, 1.0)
    # What was spent counts against the budget of a later start.
    with pytest.raises(BudgetExceeded, match=r"1 is spent and this would make it 1\.5"):
        again.release(LaplaceNoise(epsilon=0.5, num_classes=3))
    a_vault(tmp_path / "vault.db").release(LAPLACE, noise=OsEntropy(draw=1))
    assert a_vault(tmp_path / "vault.db").epsilon(delta=0.0) == 2.0


def test_the_file_holds_no_label_is_its_owners_alone_and_of_one_set(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    a_vault(path)
    with pytest.raises(OtherLabels, match=r"of other labels .*--results"):
        a_vault(path, labels=LABELS * 0 + 2)
    assert mode(path) == 0o600
    content = path.read_bytes()
    for kind in (np.int64, np.int32, np.uint8):
        assert LABELS.astype(kind).tobytes() not in content
    # The digest is keyed by the store's own salt: equal labels can't be told from it.
    a_vault(tmp_path / "other.db")
    one, two = (execute(tmp_path / f, "SELECT labels FROM vault") for f in ("vault.db", "other.db"))
    assert one != two


def test_a_charge_without_its_release_is_never_kept(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "vault.db")
    store.record(charge("a"), np.zeros(2), lines=0)
    assert not store.record(charge("a"), np.ones(2), lines=1)
    # A release can be inserted, the charge can't: both must go.
    execute(
        store.path,
        "INSERT INTO releases VALUES ('b', x'00')",
        "INSERT INTO charges (key, event, mechanism, failure_probability, made) "
        "VALUES ('c', '', '', 0.0, '')",
    )
    with pytest.raises(StoreUnusable, match=r"could not be kept .*so it was not made"):
        store.record(charge("c"), np.ones(2), lines=2)
    assert store.release("c") is None


def test_a_line_is_kept_only_if_the_ledger_is_as_long_as_it_was(tmp_path: Path) -> None:
    one, other = SqliteStore(tmp_path / "vault.db"), SqliteStore(tmp_path / "vault.db")
    assert one.record(charge("a"), np.zeros(2), lines=0)
    assert not other.record(charge("b"), np.zeros(2), lines=0)
    assert [line.key for line in other.charges()] == ["a"] and other.release("b") is None
    assert other.record(charge("b"), np.zeros(2), lines=1)
    assert [line.key for line in one.charges()] == ["a", "b"]


@pytest.mark.parametrize("look", [1, 2])
@pytest.mark.parametrize("budget", [None, Budget(epsilon=1.5)])
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_a_release_that_two_vaults_want_is_made_once(
    kind: str, budget: Budget | None, look: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vault.db"
    looks: list[str] = []
    theirs: list[Release] = []
    store: Any = MemoryStore() if kind == "memory" else SqliteStore(path)
    stores = (store, store if kind == "memory" else SqliteStore(path))
    mine, other = (
        LabelVault(labels=LABELS, num_classes=3, store=each, budget=budget) for each in stores
    )
    plain = store.release

    def late(key: str) -> Any:
        """Look in vain, right before the other vault makes it."""
        found = plain(key)
        looks.append(key)
        if len(looks) == look:
            theirs.append(other.release(LAPLACE))
        return found

    monkeypatch.setattr(store, "release", late)
    release = mine.release(LAPLACE)
    assert release.key == theirs[0].key and (release.values == theirs[0].values).all()
    assert len(store.charges()) == 1 and mine.epsilon(delta=0.0) == other.epsilon(delta=0.0) == 1.0
    assert not store.record(store.charges()[0], release.values, lines=1)


def test_a_store_that_was_put_back_while_it_is_open_is_refused(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault.db")
    shutil.copy(tmp_path / "vault.db", tmp_path / "backup.db")
    vault.release(LAPLACE)
    shutil.copy(tmp_path / "backup.db", tmp_path / "vault.db")
    with pytest.raises(StoreUnusable, match="has lost 1 lines"):
        vault.release(LAPLACE, noise=OsEntropy(draw=1))


def killed_in_a_write(path: Path) -> None:
    """Leave a store as a process does that is killed as it writes a long release."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO releases VALUES ('killed', zeroblob(10000000))")
        files = (path, path.with_name(f"{path.name}-journal"))
        left = {file: file.read_bytes() for file in files}
    for file, content in left.items():
        file.write_bytes(content)


def test_a_ledger_is_read_after_a_process_was_killed(path: Path, tmp_path: Path) -> None:
    before = read_ledger(path)
    killed_in_a_write(path)
    assert read_ledger(path) == before
    (tmp_path / "new.db").touch()
    assert read_ledger(tmp_path / "new.db") == KeptLedger(path=tmp_path / "new.db")


def test_threads_that_open_a_new_store_together_agree_on_its_salt(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        salts = set(threads.map(lambda _: SqliteStore(tmp_path / "v.db").salt(), range(8)))
    assert [len(salt) for salt in salts] == [32]


def test_a_foreign_store_is_refused_and_unchanged(tmp_path: Path) -> None:
    newer, other = tmp_path / "newer.db", tmp_path / "other.db"
    SqliteStore(newer)
    execute(newer, f"UPDATE vault SET version = {SCHEMA_VERSION + 1}")
    other.write_bytes(b"not a database, but long enough to be read as one" * 50)
    for path, words in ((newer, rf"version {SCHEMA_VERSION + 1}, .*--results"), (other, "be used")):
        before = path.read_bytes()
        with pytest.raises(StoreUnusable, match=words):
            SqliteStore(path)
        with pytest.raises(StoreUnusable, match=path.name):
            read_ledger(path)
        assert path.read_bytes() == before
    with pytest.raises(StoreUnusable, match="can't be used as a vault store"):
        SqliteStore(other / "vault.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that has spent twice, in a folder of its own."""
    (tmp_path / "results").mkdir()
    store = SqliteStore(tmp_path / "results" / "vault.db")
    for lines, key in enumerate("ab"):
        assert store.record(charge(key), np.arange(3), lines=lines)
    return store.path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test's own."""
    monkeypatch.setenv("LABELDP_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_renamed_folder_goes_on(path: Path) -> None:
    before = SqliteStore(path).id
    moved = path.parent.rename(path.parent.with_name("elsewhere")) / path.name
    assert SqliteStore(moved).id == before
    SqliteStore(moved).record(charge("c"), np.arange(3), lines=2)
    moved.parent.rename(path.parent)  # and back again
    assert len(SqliteStore(path).charges()) == 3


@pytest.mark.parametrize("opened", ["before", "after"])
def test_a_copy_is_refused_once_the_other_one_went_on(path: Path, opened: str) -> None:
    copy = path.parent.with_name("copy") / path.name
    shutil.copytree(path.parent, copy.parent)
    assert read_ledger(copy).vault == read_ledger(path).vault
    assert read_ledger(copy).lines == read_ledger(path).lines
    # Until then both are one and the same, and so are the releases that they hand out.
    second = SqliteStore(copy) if opened == "before" else None
    assert SqliteStore(path).record(charge("c"), np.arange(3), lines=2)
    words = f"{copy} has lost 1 lines of its ledger that .* a copy of a vault that went on"
    with pytest.raises(StoreUnusable, match=words):
        if second is not None:
            second.record(charge("c"), np.ones(3), lines=2)
        SqliteStore(copy)
    if second is not None:  # what was refused is in its file all the same
        with pytest.raises(StoreUnusable, match=words):
            second.release("c")
    assert "lost 1 lines" in read_ledger(copy).problems[0] and read_ledger(path).problems == ()
    again = SqliteStore(copy, moved=True)  # both draws of it, if there were two
    assert len(SqliteStore(copy).charges()) == len(again.charges()) == 3 + (opened == "before")
    assert (again.release("c") is not None) == (opened == "before"), "both draws are charged"
    with pytest.raises(StoreUnusable, match="has lost"):
        again.record(charge("d"), np.ones(3), lines=len(again.charges()))
        SqliteStore(path)


@pytest.mark.parametrize("restore", [shutil.copy, os.replace])
def test_what_a_restored_store_forgot_is_refused_or_charged_to_everybody(
    path: Path, tmp_path: Path, restore: Any
) -> None:
    older = Path(shutil.copy(path, tmp_path / "older"))
    third = charge("c", PureEvent(epsilon=0.25), np.array([1]))
    assert SqliteStore(path).record(third, np.arange(3), lines=2)
    restore(older, path)
    with pytest.raises(StoreUnusable, match=r"lost 1 lines .*--moved"):
        SqliteStore(path)
    (problem,) = read_ledger(path).problems
    assert "lost 1 lines" in problem
    for _ in range(2):  # once
        *_, lost = SqliteStore(path, moved=True).charges()
        assert (lost.event, lost.indices, lost.mechanism) == (third.event, None, third.mechanism)
    store = SqliteStore(path)
    assert read_ledger(path).problems == () and len(store.charges()) == 3
    assert store.release("c") is None
    # It is drawn again, and paid for twice.
    assert store.record(third, np.ones(3), lines=3) and len(SqliteStore(path).charges()) == 4


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE charges SET event = replace(event, '1.0', '0.1') WHERE position = 1",
        "UPDATE charges SET mechanism = '{}' WHERE position = 2",
        "DELETE FROM charges WHERE position = 1",
        "DELETE FROM charges",
    ],
)
def test_an_edited_ledger_is_refused(path: Path, edit: str) -> None:
    execute(path, edit)
    with pytest.raises(StoreUnusable, match="or was edited"):
        SqliteStore(path)


def test_another_machine_is_named_until_the_user_answers_for_the_store(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.environ["LABELDP_STATE"]
    monkeypatch.setenv("LABELDP_STATE", str(tmp_path / "another"))
    with pytest.raises(StoreUnusable, match=r"last seen by another state folder .*--moved"):
        SqliteStore(path)
    assert SqliteStore(path, moved=True).record(charge("c"), np.arange(3), lines=2)
    assert len(SqliteStore(path).charges()) == 3
    monkeypatch.setenv("LABELDP_STATE", here)
    assert len(SqliteStore(path).charges()) == 3, "each has seen it"
    # One that nobody has paid to, or that is older than state folders, is known from now on.
    SqliteStore(tmp_path / "new.db")
    execute(path, "DROP TABLE known_to")
    monkeypatch.setenv("LABELDP_STATE", str(tmp_path / "third"))
    SqliteStore(tmp_path / "new.db")
    assert len(SqliteStore(path).charges()) == 3
    assert len(Witness().of_store(SqliteStore(path).id)) == 3


def test_the_witness_knows_a_line_before_its_release_is_handed_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, beside = SqliteStore(path), SqliteStore(path)

    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Witness, "add", full)
        with pytest.raises(OSError, match="No space"):
            store.record(charge("c"), np.arange(3), lines=2)
        with pytest.raises(OSError, match="No space"):
            store.release("c")
    # The release is charged and stored. Its next reader tells the witness.
    assert beside.release("c") is not None and len(beside.charges()) == 3
    assert not_among(beside.lines(), Witness().of_store(beside.id)) == []


def test_a_state_folder_that_cannot_be_written_stops_releases(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.write_text("a file")
    with pytest.raises(ValueError, match=r"LABELDP_STATE is .*set LABELDP_STATE to a folder"):
        SqliteStore(tmp_path / "vault.db")
    state.unlink()
    SqliteStore(tmp_path / "vault.db")
    assert mode(state) == 0o700 and mode(state / "vaults.db") == 0o600
    (state / "vaults.db").write_bytes(b"something else" * 100)
    with pytest.raises(ValueError, match="not a database"):
        SqliteStore(tmp_path / "vault.db")


def test_the_state_folder_is_where_users_expect_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABELDP_STATE")
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state_folder() == Path("/home/anna/.local/state/labeldp")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_folder() == Path("/state/labeldp")


def test_other_names_of_a_file_are_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    os.link(path, other)
    for name in (other, path):
        with pytest.raises(StoreUnusable, match=r"is a hard link: .* has 2 names.*--results"):
            SqliteStore(name)
    other.unlink()
    SqliteStore(path)


def test_lines_come_back_with_their_time_and_the_store_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    vault = a_vault(path)
    vault.release(LAPLACE)
    vault.release(LAPLACE, indices=np.array([0, 2]))
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    salt = SqliteStore(path).salt()
    os.chmod(path, 0o444)
    kept = read_ledger(path)
    assert [charge.key for charge in kept.charges] == [line.key for line in vault.charges()]
    assert kept.charges[0].event == LAPLACE.event
    indices = kept.charges[1].indices
    assert indices is not None and indices.tolist() == [0, 2]
    for charge in kept.charges:
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", charge.made)
    assert kept.problems == ()
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    shown = repr(kept)  # neither the secret nor what stands for the labels
    assert salt.hex() not in shown and repr(salt) not in shown
    assert vault._labels_digest not in shown and kept.labels not in shown
    assert kept.vault == SqliteStore(path).id


def test_marks_are_equal_for_the_same_labels_under_one_secret_only(tmp_path: Path) -> None:
    def mark(name: str, salt: bytes | None, labels: list[int]) -> str:
        store = SqliteStore(tmp_path / name, salt=salt)
        LabelVault(labels=np.array(labels), num_classes=3, store=store)
        return read_ledger(tmp_path / name).labels

    first = mark("a.db", bytes(32), [0, 1, 2])
    assert mark("b.db", bytes(32), [0, 1, 2]) == first
    assert mark("c.db", bytes(32), [0, 1, 1]) != first
    assert mark("d.db", None, [0, 1, 2]) != first
    ids = {read_ledger(tmp_path / f"{name}.db").vault for name in "abcd"}
    assert len(ids) == 4, "one each, whatever the salt"
    with pytest.raises(StoreUnusable, match=r"e\.db is not there"):
        read_ledger(tmp_path / "e.db")
    assert not (tmp_path / "e.db").exists()


# Votes of ensembles

VOTES = np.random.default_rng(0).integers(0, 3, size=(6, 40)).astype(np.uint8)


def a_journal(path: Path) -> VoteJournal:
    return VoteJournal(path, teachers=6, queries=40, classes=3)


def fill(path: Path, *batches: list[int]) -> VoteJournal:
    journal = a_journal(path)
    with journal.writing():
        for batch in batches:
            journal.append(batch, VOTES[batch])
    return journal


def test_votes_come_back_in_order_whatever_the_order_of_writing(tmp_path: Path) -> None:
    fill(tmp_path / "v")  # nothing yet
    fill(tmp_path / "v", [4, 5], [0], [2, 3], [1])
    journal = a_journal(tmp_path / "v")
    assert journal.finished == set(range(6))
    np.testing.assert_array_equal(journal.votes(), VOTES)
    # By several processes too; teachers that have not voted are missed.
    for batch in ([4, 5], [2, 3]):
        journal = fill(tmp_path / "w", batch)
        with pytest.raises(ValueError, match=r"of 6 teachers have not voted.*run the sweep"):
            journal.votes()
    np.testing.assert_array_equal(fill(tmp_path / "w", [0, 1]).votes(), VOTES)


@pytest.mark.parametrize("cut", [0, 1, 5, 60, 200, 500])
@pytest.mark.parametrize(
    ("beside", "place"),
    [(VOTES[2].tobytes(), 0), (b"PK\1\2", 8), (b"PK\1\2", 10), (b"PK\5\6", 18)],
    ids=["vote", "encrypted", "compressed", "before the start"],
)
def test_a_damaged_file_is_dropped_and_the_rest_kept(
    beside: bytes, place: int, cut: int, tmp_path: Path
) -> None:
    folder = tmp_path / "v"
    fill(folder, [0, 1], [2, 3])
    path = folder / "2.npz"
    content = bytearray(path.read_bytes())
    content[content.index(beside) + place] ^= not cut  # a bit that flipped
    path.write_bytes(content[: len(content) - cut])
    assert a_journal(folder).finished == {0, 1}
    journal = fill(folder, [2, 3], [4, 5])
    assert journal.finished == set(range(6))
    np.testing.assert_array_equal(a_journal(folder).votes(), VOTES)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v"
    with a_journal(path).writing():
        with pytest.raises(ValueError, match="another process is training"):
            with a_journal(path).writing():
                pass
    assert a_journal(path).finished == set()


def test_a_full_disk_is_named_and_what_was_kept_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "v"
    journal = a_journal(path)
    with pytest.raises(ValueError, match=r"File too large.*free the disk"):
        with journal.writing():
            journal.append([0], VOTES[[0]])
            journal.append([1], VOTES[[1]])
            with files_of_at_most(150):
                journal.append([2], VOTES[[2]])
    kept = a_journal(path).finished
    assert kept == journal.finished == {0, 1}
    # There is room again, and no draft is left.
    assert {file.name for file in path.iterdir()} == {"0.npz", "1.npz", "lock"}
    np.testing.assert_array_equal(fill(path, [2, 3], [4, 5]).votes(), VOTES)
    np.testing.assert_array_equal(a_journal(path).votes(), VOTES)


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        (VOTES[:1], "2 teachers and 40 queries need"),
        (VOTES[:2, :39], r"shape \(2, 39\)"),
        (VOTES[:2].astype(np.int64), "of int64"),
        (np.full((2, 40), 3, dtype=np.uint8), "class 3 of 3"),
    ],
)
def test_misfit_votes_are_refused(votes: NDArray[np.uint8], words: str, tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "v")
    with journal.writing(), pytest.raises(ValueError, match=words):
        journal.append([0, 1], votes)
    assert a_journal(tmp_path / "v").finished == set()


def test_votes_are_their_owners_alone(tmp_path: Path) -> None:
    store = VoteStore(tmp_path / "votes")
    fill(store.folder / "k", [0])
    assert mode(store.folder) == 0o700
    for file in store.folder.rglob("*"):
        assert mode(file) == (0o700 if file.is_dir() else 0o600), file


def test_a_damaged_secret_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (tmp_path / "salt").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"salt is damaged; move"):
        VoteStore(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"can't be kept in .*--results"):
        VoteStore(tmp_path / "file" / "votes")
