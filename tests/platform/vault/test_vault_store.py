"""vault_store: charges and releases land together, last, and belong to one set of labels."""

import gc
import math
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
from labeldp.mechanisms.vault import Charge, LabelVault
from labeldp.platform.vault import vault_store
from labeldp.platform.vault.vault_store import (
    SCHEMA_VERSION,
    SqliteStore,
    StoreUnusable,
)

LABELS = np.array([0, 1, 2, 1, 0])


def a_vault(path: Path, *, labels: Any = LABELS, budget: Budget | None = None) -> LabelVault:
    return LabelVault(labels=labels, num_classes=3, store=SqliteStore(path), budget=budget)


def charge(key: str, event: Event, indices: Any = None) -> Charge:
    return Charge(
        key=key,
        event=event,
        indices=indices,
        mechanism={"name": "Any", "x": 0.1},
        failure_probability=0.0,
    )


@pytest.mark.parametrize(
    "event",
    [
        PureEvent(epsilon=0.1),
        PureEvent(epsilon=math.inf),
        RandomizedResponseEvent(epsilon=0.1, num_classes=10),
        GaussianEvent(noise_multiplier=1.7),
        DecisionEvent(noise_multiplier=1.7, orders=(2.0, 3.0), rdp=(0.1, 0.2)),
        RenyiEvent(orders=(1.5, 2.0), rdp=(0.1, math.inf)),
    ],
)
def test_a_charge_and_its_release_come_back_exactly(event: Event, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "vault.db")
    values = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    store.record(charge("a", event), values, lines=0)
    store.record(charge("b", event, np.array([0, 3])), np.array([[1]], dtype=np.uint8), lines=1)
    again = SqliteStore(tmp_path / "vault.db")
    first, second = again.charges()
    assert (first.key, first.event, first.indices) == ("a", event, None)
    assert first.mechanism == {"name": "Any", "x": 0.1}
    assert second.indices is not None and second.indices.tolist() == [0, 3]
    stored = again.release("a")
    assert stored is not None and stored.dtype == np.float32
    np.testing.assert_array_equal(stored, values)
    assert not stored.flags.writeable
    assert again.release("c") is None


def test_columns_first_or_rows_first_a_release_comes_back_as_it_was(tmp_path: Path) -> None:
    values = np.asfortranarray(np.arange(6).reshape(2, 3))
    SqliteStore(tmp_path / "vault.db").record(charge("a", PureEvent(epsilon=1.0)), values, lines=0)
    found = SqliteStore(tmp_path / "vault.db").release("a")
    assert found is not None and found.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_second_process_reads_the_release_and_pays_nothing(tmp_path: Path) -> None:
    mechanism = LaplaceNoise(epsilon=1.0, num_classes=3)
    first = a_vault(tmp_path / "vault.db").release(mechanism)
    again = a_vault(tmp_path / "vault.db")
    np.testing.assert_array_equal(again.release(mechanism).values, first.values)
    assert (len(again.charges()), again.epsilon(delta=0.0)) == (1, 1.0)
    again.release(mechanism, noise=OsEntropy(draw=1))
    assert a_vault(tmp_path / "vault.db").epsilon(delta=0.0) == 2.0


def test_what_was_spent_counts_against_the_budget_of_a_later_start(tmp_path: Path) -> None:
    a_vault(tmp_path / "vault.db").release(LaplaceNoise(epsilon=1.0, num_classes=3))
    later = a_vault(tmp_path / "vault.db", budget=Budget(epsilon=1.4))
    with pytest.raises(BudgetExceeded, match=r"1 is spent and this would make it 1\.5"):
        later.release(LaplaceNoise(epsilon=0.5, num_classes=3))
    later.release(LaplaceNoise(epsilon=1.0, num_classes=3))  # the one that is there
    assert len(later.charges()) == 1


def test_other_labels_are_refused(tmp_path: Path) -> None:
    a_vault(tmp_path / "vault.db")
    with pytest.raises(StoreUnusable, match=r"of other labels .*--results"):
        a_vault(tmp_path / "vault.db", labels=LABELS[::-1].copy() * 0 + 2)


def test_the_file_holds_no_label_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    a_vault(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    for kind in (np.int64, np.int32, np.uint8):
        assert LABELS.astype(kind).tobytes() not in content
    # The digest is keyed by the store's own salt: equal labels can't be told from it.
    a_vault(tmp_path / "other.db")
    query = "SELECT labels FROM vault"
    with sqlite3.connect(path) as one, sqlite3.connect(tmp_path / "other.db") as two:
        assert one.execute(query).fetchone() != two.execute(query).fetchone()
    one.close()
    two.close()


def test_a_charge_without_its_release_is_never_kept(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "vault.db")
    store.record(charge("a", PureEvent(epsilon=1.0)), np.zeros(2), lines=0)
    with pytest.raises(StoreUnusable, match=r"could not be kept .*so it was not made"):
        store.record(charge("a", PureEvent(epsilon=1.0)), np.ones(2), lines=1)
    with sqlite3.connect(store.path) as connection:
        # A release can be inserted, the charge can't: both must go.
        connection.execute("INSERT INTO releases VALUES ('b', x'00')")
        connection.execute(
            "INSERT INTO charges (key, event, mechanism, failure_probability, made) "
            "VALUES ('c', '', '', 0.0, '')"
        )
    connection.close()
    with pytest.raises(StoreUnusable):
        store.record(charge("c", PureEvent(epsilon=1.0)), np.ones(2), lines=2)
    assert store.release("c") is None


def test_a_process_killed_while_it_writes_leaves_both_or_none(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, threading, time\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from labeldp.mechanisms.accounting import PureEvent\n"
        "from labeldp.mechanisms.vault import Charge\n"
        "from labeldp.platform.vault.vault_store import SqliteStore\n"
        "store = SqliteStore(Path(sys.argv[1]))\n"
        "threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()\n"
        "for i in range(10**6):\n"
        "    event = PureEvent(epsilon=1.0)\n"
        "    facts = {'mechanism': {}, 'failure_probability': 0.0}\n"
        "    charge = Charge(key=str(i), event=event, indices=None, **facts)\n"
        "    store.record(charge, np.full(2000, i), lines=i)\n"
    )
    path = tmp_path / "vault.db"
    done = subprocess.run([sys.executable, "-c", code, str(path)], timeout=60, check=False)
    assert done.returncode == -9
    store = SqliteStore(path)
    keys = [line.key for line in store.charges()]
    assert keys == [str(i) for i in range(len(keys))]
    for key in keys[-3:]:
        values = store.release(key)
        assert values is not None and (values == int(key)).all()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM releases").fetchone() == (len(keys),)
    connection.close()


def test_a_line_is_kept_only_if_the_ledger_is_as_long_as_it_was(tmp_path: Path) -> None:
    one, other = SqliteStore(tmp_path / "vault.db"), SqliteStore(tmp_path / "vault.db")
    event, values = PureEvent(epsilon=1.0), np.zeros(2)
    assert one.record(charge("a", event), values, lines=0)
    assert not other.record(charge("b", event), values, lines=0)
    assert [line.key for line in other.charges()] == ["a"] and other.release("b") is None
    assert other.record(charge("b", event), values, lines=1)
    assert [line.key for line in one.charges()] == ["a", "b"]


def test_threads_that_open_a_new_store_together_agree_on_its_salt(tmp_path: Path) -> None:
    salts: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: salts.append(SqliteStore(tmp_path / "v.db").salt()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(salts) == 8 and len(set(salts)) == 1 and len(salts[0]) == 32


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    SqliteStore(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE vault SET version = ?", (SCHEMA_VERSION + 1,))
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match=rf"version {SCHEMA_VERSION + 1}, .*--results"):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database, but long enough to be read as one" * 50])
def test_another_file_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    path.write_bytes(content)
    with pytest.raises(StoreUnusable, match="can't be used as a vault store"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="can't be used as a vault store"):
        SqliteStore(tmp_path / "file" / "vault.db")
    assert os.listdir(tmp_path) == ["file"]


def test_a_release_too_long_for_one_value_is_kept_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault_store, "_PART_BYTES", 100)
    path, rng = tmp_path / "vault.db", np.random.default_rng(0)
    kept: dict[str, Any] = {
        "parts": rng.normal(size=(7, 9)),
        "turned": np.asfortranarray(rng.normal(size=(5, 8)).astype(np.float32)),
        "none": np.zeros((0, 3)),
        "one": np.array(2),
    }
    store = SqliteStore(path)
    for lines, (key, values) in enumerate(kept.items()):
        assert store.record(charge(key, PureEvent(epsilon=1.0)), values, lines=lines)
    for key, values in kept.items():
        found = SqliteStore(path).release(key)
        assert found is not None and not found.flags.writeable
        assert found.dtype == values.dtype and found.shape == values.shape
        assert found.tobytes("A") == values.tobytes("A")
    connection = sqlite3.connect(path)
    with connection:
        longest = connection.execute("SELECT max(length(content)) FROM release_parts").fetchone()
        connection.execute("DELETE FROM release_parts WHERE key = 'parts' AND part = 2")
    connection.close()
    assert longest == (100,)
    with pytest.raises(StoreUnusable, match="can't be read as a vault store"):
        SqliteStore(path).release("parts")


def test_a_second_reader_shares_what_the_first_one_holds(tmp_path: Path) -> None:
    path, mechanism = tmp_path / "vault.db", LaplaceNoise(epsilon=1.0, num_classes=3)
    vault = a_vault(path)
    first = vault.release(mechanism)
    assert vault.release(mechanism).values is first.values
    store = SqliteStore(path)
    read = store.release(first.key)
    assert store.release(first.key) is read
    assert read is not None and np.array_equal(read, first.values)


def test_what_nobody_holds_is_not_kept_in_memory(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "vault.db")
    values = np.arange(5)
    values.setflags(write=False)
    store.record(charge("a", PureEvent(epsilon=1.0)), values, lines=0)
    assert store.release("a") is values
    del values
    gc.collect()
    again = store.release("a")
    assert again is not None and again.tolist() == [0, 1, 2, 3, 4]


def test_what_can_be_written_on_is_not_shared(tmp_path: Path) -> None:
    store, values = SqliteStore(tmp_path / "vault.db"), np.arange(5)
    store.record(charge("a", PureEvent(epsilon=1.0)), values, lines=0)
    values[:] = 0
    found = store.release("a")
    assert found is not None and found.tolist() == [0, 1, 2, 3, 4]
