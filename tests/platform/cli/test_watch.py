"""watch: follows a folder that it leaves alone, alive or dead; only who has the token may look."""

import json
import math
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labeldp.platform.cli import watch
from labeldp.platform.records.results import ResultsFolder
from tests.platform.cli.asked import answer, refusal, words
from tests.platform.sweep.examples import a_record, files_of

TRIALS = 1000
#: What it may need of a machine that a sweep runs on.
MOST_MEGABYTES = 60
MOST_SECONDS = 0.3
MEASURED = """
import re, sys, time
from pathlib import Path
from labeldp.platform.cli import command_line, watch
folder = Path(sys.argv[1])
watch.state_of(folder)
begun = time.process_time()
page = watch.page(watch.state_of(folder))
seconds = time.process_time() - begun
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(int(peak[1]) / 1024, seconds, len(page))
"""


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    """Two finished trials and a failed one, of five, whose driver is this process."""
    made = ResultsFolder(tmp_path / "results", sweep="small")
    made.identify(num_labels=100)
    made.keep(a_record("a" * 16, accuracy=0.8, epsilon=1.0, point={"trainer.epsilon": 1.0}))
    made.keep(a_record("b" * 16, accuracy=0.7, epsilon=2.0))
    made.keep(a_record("c" * 16, finished=False, reason="<b>it broke</b>"))
    state = {
        "driver": os.getpid(),
        "ended": False,
        "written": time.time() - 5,
        "begun": time.time() - 60,
        "trials": 5,
        # The second ended since this was written.
        "running": [{"name": name, "epochs": 1, "of": 4} for name in ("PATE", "ALIBI epsilon=1")],
        "metric": "accuracy",
        "epsilon_spent": 3.0,
        "epsilon_planned": 7.5,
    }
    (made.path / "state.json").write_text(json.dumps(state))
    (made.path / "driver.lock").write_text(str(os.getpid()))
    return made


def tell(folder: ResultsFolder, **facts: object) -> None:
    """Change what the driver has written of itself."""
    file = folder.path / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))


def test_it_counts_what_ended_runs_and_waits(folder: ResultsFolder) -> None:
    found = answer("watch", str(folder.path))
    names = ("driver", "trials", "done", "waiting", "epsilon_spent", "epsilon_left")
    assert [found[name] for name in names] == ["running", 5, 2, 1, 3.0, 4.5]
    assert found["failed"] == [{"name": "ALIBI", "reason": "<b>it broke</b>"}]
    assert found["pareto_names"] == ["ALIBI epsilon=1"] and found["price_left"] is None
    assert found["best"]["name"] == "ALIBI epsilon=1" and found["pareto"] == [[1.0, 0.8]]
    priced = answer("watch", str(folder.path), "--price-per-hour", "3600")
    assert priced["price_left"] == pytest.approx(found["seconds_left"], rel=0.1)
    (folder.path / "state.json").unlink()
    assert answer("watch", str(folder.path))["driver"] == "starting"
    # A minute for three trials and a quarter: another 32 s for the rest.
    assert found["seconds_left"] == pytest.approx(60 / 3.25 * 1.75, rel=0.1)


def test_a_driver_that_died_has_cut_its_trials_off(folder: ResultsFolder) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (folder.path / "driver.lock").write_text(str(ended.pid))
    tell(folder, written=0.0)
    found = answer("watch", str(folder.path))
    assert (found["driver"], found["running"], found["seconds_left"]) == ("ended", [], None)
    assert [each["name"] for each in found["cut_off"]] == ["PATE"]
    assert "run again, goes on" in words("watch", str(folder.path), "--text")
    for host, driver in ((os.uname().nodename, "ended"), ("another machine", "running")):
        tell(folder, written=time.time(), host=host)
        assert answer("watch", str(folder.path))["driver"] == driver
    # A process here has the number of a driver elsewhere, or of one that is long dead.
    (folder.path / "driver.lock").write_text(str(os.getpid()))
    for host, begun in (("another machine", time.time()), (os.uname().nodename, -3600.0)):
        tell(folder, written=0.0, host=host, begun=begun)
        assert answer("watch", str(folder.path))["driver"] == "ended"
    (folder.path / "driver.lock").write_text(str(ended.pid))
    (folder.path / "state.json").unlink()  # of an older version
    assert answer("watch", str(folder.path))["trials"] == 3


def test_trials_of_an_earlier_plan_are_not_of_this_one(folder: ResultsFolder) -> None:
    tell(folder, written=time.time(), trials_ended=1, skipped=0)
    found = watch.state_of(folder.path)
    # One that runs is called as one of the earlier plan.
    assert (len(found["running"]), found["waiting"], found["done"]) == (2, 2, 2)
    assert found["seconds_left"] == pytest.approx(60 / 1.5 * 3.5, rel=0.1)
    assert dict(watch.rows(found))["trials"].endswith("2 waiting, of 5 and of earlier plans")
    assert 'value="1" max="5"' in watch.page(found)
    folder.keep(a_record("d" * 16, epsilon=1.0, point={"trainer.epsilon": 1.0}))
    os.utime(folder.path / "trials" / f"{'d' * 16}.json", (time.time() + 1,) * 2)
    found = watch.state_of(folder.path)
    assert [each["name"] for each in found["running"]] == ["PATE"] and found["waiting"] == 2


def test_lines_of_a_log_come_when_they_change_until_the_sweep_ends(
    folder: ResultsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Callable[[], object]] = [bool, bool, (folder.path / "driver.lock").unlink]
    monkeypatch.setattr(time, "sleep", lambda seconds: looks.pop(0)())
    said = words("watch", str(folder.path), "--text")
    states = [line.split()[1] for line in said.splitlines() if line.startswith("driver")]
    assert not looks and states == ["running", "ended;"]

    def closed(*words: object, **how: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(watch, "print", closed, raising=False)
    assert watch._lines(folder.path, None) == 0


def test_trials_at_epsilon_0_are_counted_and_not_drawn(folder: ResultsFolder) -> None:
    folder.keep(a_record("e" * 16, accuracy=0.1, epsilon=0.0))
    state = watch.state_of(folder.path)
    assert state["pareto"] == [(0.0, 0.1), (1.0, 0.8)]
    assert watch.page(state).count("<circle") == 2


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("trials/other.json", "[]", "other.json is not what a sweep writes"),
        ("trials/other.json", "{}", "holds files that no sweep writes"),
        ("trials/other.json", '{"point": 1, "variant": 2}', "holds files that no sweep writes"),
        ("trials/other.json", '{"po', "other.json is damaged"),
        ("sweep.json", '{"sw', "sweep.json is damaged"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    folder: ResultsFolder, file: str, content: str, says: str
) -> None:
    (folder.path / file).write_text(content)
    for how in ((), ("--text",)):
        assert says in refusal("watch", str(folder.path), *how)


def test_no_spending_is_shown_as_smaller_than_it_is(folder: ResultsFolder) -> None:
    tell(folder, epsilon_spent=51.8406, epsilon_planned=60.0, without_noise=True)
    shown = dict(watch.rows(watch.state_of(folder.path)))
    assert (shown["epsilon spent"], shown["epsilon left"]) == ("51.85", "8.159")
    assert "no epsilon bounds what these reveal" in shown["without noise"]
    folder.keep(a_record("d" * 16, accuracy=0.9, epsilon=8.0001))
    state = watch.state_of(folder.path)
    shown = dict(watch.rows(state))
    assert shown["best so far"].endswith("epsilon 8.001") and "n 8.001:" in shown["Pareto front"]
    assert ">8.001</text>" in watch.page(state)
    tell(folder, epsilon_planned=math.inf)
    assert "Infinity" not in json.dumps(watch.state_of(folder.path))
    tell(folder, epsilon_spent=math.inf)
    assert dict(watch.rows(watch.state_of(folder.path)))["epsilon spent"] == "not known"
    assert "--price-per-hour is -3" in refusal("watch", str(folder.path), "--price-per-hour", "-3")


@contextmanager
def served(folder: ResultsFolder) -> Iterator[tuple[str, str]]:
    pages = watch.server(folder.path)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    try:
        host, port = pages.server_address[:2]
        yield f"http://{host!s}:{port}/", vars(pages.RequestHandlerClass)["token"]
    finally:
        pages.shutdown()
        pages.server_close()


def test_the_page_is_for_who_has_the_token_and_changes_nothing(folder: ResultsFolder) -> None:
    before = files_of(folder.path)
    with folder.held(), served(folder) as (address, token):
        assert address.startswith("http://127.0.0.1:")
        for wrong in ("", "?token=", f"?token={token}x", "[?token="):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(address + wrong, timeout=10)
        with urllib.request.urlopen(f"{address}?token={token}", timeout=10) as reply:
            page = reply.read().decode()
            assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "&lt;b&gt;it broke&lt;/b&gt;" in page and "<b>" not in page
        assert page.count("<circle") == 2 and "ALIBI epsilon=1: accuracy 0.8" in page
        folder.keep(a_record("d" * 16, accuracy=0.9, epsilon=4.0))
        with urllib.request.urlopen(f"{address}?token={token}", timeout=10) as reply:
            assert reply.read().decode().count("<circle") == 3
    (folder.path / "trials" / f"{'d' * 16}.json").unlink()
    assert files_of(folder.path) == before
    assert "holds no sweep" in refusal("watch", str(folder.path.parent))


def test_it_is_small_beside_a_sweep_of_a_thousand_trials(folder: ResultsFolder) -> None:
    record = (folder.path / "trials" / f"{'a' * 16}.json").read_text()
    for number in range(TRIALS):
        digest = f"{number:016x}"
        (folder.path / "trials" / f"{digest}.json").write_text(record.replace("a" * 16, digest))
    command = [sys.executable, "-c", MEASURED, str(folder.path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    megabytes, seconds, length = map(float, said.split())
    assert megabytes < MOST_MEGABYTES and seconds < MOST_SECONDS and length < 200_000
