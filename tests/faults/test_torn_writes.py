"""Processes killed while they write, and files that may not grow: all is kept or nothing."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.vault.vault_store import SqliteStore, StoreUnusable
from tests.faults.processes import files_of_at_most
from tests.faults.sweep_runs import own_environment
from tests.platform.sweep.examples import a_record

KILLS = 10

#: A writer of releases and records, forked and, once it has kept one of each, killed at a seeded
#: moment of its work.
WRITER = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.vault.vault_store import SqliteStore
from tests.platform.sweep.examples import a_record

folder, kills = Path(sys.argv[1]), int(sys.argv[2])
moments = random.Random(1)
for turn in range(kills):
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:
        store, results = SqliteStore(folder / "vault.db"), ResultsFolder(folder, sweep="small")
        for step in range(10**6):
            key = f"{turn}-{step}"
            facts = {"mechanism": {}, "failure_probability": 0.0}
            charge = Charge(key=key, event=PureEvent(epsilon=1.0), indices=None, **facts)
            assert store.record(charge, np.full(5000, step), lines=len(store.charges()))
            results.keep(a_record(f"{turn:08d}{step % 3:08d}", release_keys=(key,)))
            os.write(begin, b".")
    os.read(begun, 1)
    time.sleep(moments.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_a_writer_that_is_killed_leaves_no_half_of_anything(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(KILLS)]
    subprocess.run(command, env=own_environment(), check=True, timeout=120)
    store = SqliteStore(tmp_path / "vault.db")
    charged = [charge.key for charge in store.charges()]
    with sqlite3.connect(store.path) as connection:
        released = [key for (key,) in connection.execute("SELECT key FROM releases")]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert sorted(charged) == sorted(released)
    assert len({key.partition("-")[0] for key in charged}) == KILLS
    for key in charged:
        values = store.release(key)
        assert values is not None and (values == int(key.partition("-")[2])).all()
    # Every record is whole, and speaks of a release that was there before it.
    records = ResultsFolder(tmp_path, sweep="small").records()
    assert len(records) >= KILLS
    assert {key for record in records.values() for key in record.release_keys} <= set(charged)


#: A start that creates a tracking store and is killed meanwhile, and a start after it.
CREATOR = """
import os, signal, sys, time
from pathlib import Path
from labeldp.platform.records.tracking import Tracker

def start(folder):
    child = os.fork()
    if child == 0:
        Tracker(uri=f"sqlite:///{folder / 'mlflow.db'}", experiment="small")
        os._exit(0)
    return child

folder = Path(sys.argv[1])
child = start(folder)
while not list(folder.iterdir()):
    time.sleep(0.001)
time.sleep(0.4)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
assert os.waitpid(start(folder), 0)[1] == 0
assert [path.name for path in folder.glob("[!.]*")] == ["mlflow.db"]
"""


def test_a_start_that_is_killed_leaves_no_half_of_a_tracking_store(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CREATOR, str(tmp_path)]
    done = subprocess.run(
        command, env=own_environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def no_file_may_grow() -> Iterator[None]:
    with files_of_at_most(1 << 16):
        yield


@pytest.mark.usefixtures("no_file_may_grow")
def test_a_store_that_can_t_grow_refuses_and_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABELDP_STATE", str(tmp_path / "state"))  # the session's may be large
    store = SqliteStore(tmp_path / "vault.db")
    event = PureEvent(epsilon=1.0)
    with pytest.raises(StoreUnusable, match=r"could not be kept .*so it was not made.*--resume"):
        for step in range(100):
            charge = Charge(
                key=str(step), event=event, indices=None, mechanism={}, failure_probability=0.0
            )
            store.record(charge, np.full(1000, step), lines=step)
    kept = [charge.key for charge in SqliteStore(store.path).charges()]
    assert kept == [str(step) for step in range(len(kept))] and kept
    assert store.release(str(len(kept))) is None


@pytest.mark.usefixtures("no_file_may_grow")
def test_a_record_that_does_not_fit_leaves_the_one_before(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    folder.keep(a_record())
    with pytest.raises(ValueError, match=r"can't be written.*run the command again"):
        folder.keep(a_record(reason="x" * (1 << 17)))
    assert list(folder.records().values()) == [a_record()]
    assert [path.name for path in (tmp_path / "trials").iterdir()] == ["0123456789abcdef.json"]
