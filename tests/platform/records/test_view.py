"""Pages as a browser shows them: MLflow's open on accuracy and epsilon, ours raise no error."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from labeldp.platform.cli import watch
from labeldp.platform.cli.reports import report_folder
from labeldp.platform.cli.tracking_server import _command, _pages
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import MOST_COMPARED, compared, default_uri
from tests.faults.processes import TrackingServer, free_port
from tests.platform.report.folders import a_folder
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
LINES = ("ALIBI", "PATE", "RR")
#: Finite epsilons; the run without privacy has none.
TRIALS = 9


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Addresses of MLflow's own pages on a store of ten trials, by what `labeldp ui` says."""
    folder = tmp_path_factory.mktemp("results")
    new_store(folder)
    uri = default_uri(folder)
    tracker = Tracker(uri=uri, experiment="small")
    tracker.open_parent("small", tags={}, run_id=None)
    for number in range(TRIALS + 1):
        figures = {"epsilon": 1.0 + number, "epsilon_m_low": 0.1 * number}
        if number == TRIALS:
            figures["epsilon"] = float("inf")
        record = a_record(f"{number:x}" * 16, accuracy=0.5 + 0.03 * number, figures=figures)
        tags = {"line": LINES[number % len(LINES)]}
        tracker.write(record, name=f"trial {number}", tags=tags, texts={})
    port = free_port()
    with TrackingServer([*_command(uri, port)], port, folder=folder) as server:
        (said,) = _pages(uri, server.uri)
        yield dict(line.strip().split(": ", 1) for line in said.splitlines())


def seen(address: str, folder: Path, *, quiet: bool = False) -> str:
    """Return what a browser has made of a page, on whose console nothing is said if `quiet`."""
    assert BROWSER is not None
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += [f"--user-data-dir={folder}", "--window-size=1800,1400"]
    # Virtual time would let a page that loads itself again never end.
    words += ["--enable-logging=stderr"] if quiet else ["--virtual-time-budget=60000"]
    words += ["--dump-dom", address]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=True)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not (quiet and said), said
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")
def test_the_pages_open_on_accuracy_epsilon_and_epsilon_m(
    pages: dict[str, str], tmp_path: Path
) -> None:
    table = seen(pages["small"], tmp_path)
    columns = re.findall(
        r'role="columnheader"[^>]* col-id="((?:metrics|tags|params)[.][^"]*)"', table
    )
    assert columns == [
        "metrics.`accuracy`",
        "metrics.`epsilon`",
        "metrics.`epsilon_m`",
        "tags.`line`",
    ]
    for number in range(TRIALS + 1):
        assert f">trial {number}<" in table
    assert "1.797" not in table and ">small<" in table
    chart = seen(pages["charts"], tmp_path)
    plots = [
        each.partition('class="barlayer')[0] for each in chart.split('class="scatterlayer')[1:]
    ]
    points = [len(re.findall(r'<path class="point plotly-customdata"', plot)) for plot in plots[:2]]
    assert points == [TRIALS, TRIALS], "every trial with an epsilon, in both charts"
    assert len(re.findall("%22[0-9a-f]{32}%22", pages["compare"])) == TRIALS + 1


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")
def test_the_report_and_the_page_of_a_sweep_say_nothing_on_the_console(tmp_path: Path) -> None:
    results = tmp_path / "results"
    a_folder(results, epsilon=2.0, readers=3)
    report_folder(results)
    page = seen((results / "report.html").as_uri(), tmp_path / "a", quiet=True)
    assert "<button" in page, "the script made the table sortable"
    pages = watch.server(results)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    try:
        token = vars(pages.RequestHandlerClass)["token"]
        address = f"http://127.0.0.1:{pages.server_port}/?token={token}"
        assert "3 done" in seen(address, tmp_path / "b", quiet=True)
        (tmp_path / "broken.html").write_text("<script>missing()</script>")
        with pytest.raises(AssertionError, match="missing is not defined"):
            seen((tmp_path / "broken.html").as_uri(), tmp_path / "c", quiet=True)
    finally:
        pages.shutdown()
        pages.server_close()


def test_of_many_trials_one_of_each_line_and_epsilon_is_compared() -> None:
    every = [
        (f"{line}{at}-{rank}", line, at) for line in "ab" for at in (1.0, 2.0) for rank in range(30)
    ]
    assert compared(every) == ["a1.0-0", "a2.0-0", "b1.0-0", "b2.0-0"]
    assert compared(every[:MOST_COMPARED]) == [name for name, _, _ in every[:MOST_COMPARED]]
    assert len(compared((str(at), "a", float(at)) for at in range(300))) == MOST_COMPARED
