"""The tracking pages as a browser shows them: they open on accuracy, epsilon and epsilon_m."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labeldp.platform.cli.tracking_server import _command, _pages
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import MOST_COMPARED, compared, default_uri
from tests.faults.processes import TrackingServer, free_port
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


def seen(address: str, folder: Path) -> str:
    """Return what a browser has made of a page."""
    assert BROWSER is not None
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += [f"--user-data-dir={folder}", "--window-size=1800,1400"]
    words += ["--virtual-time-budget=60000", "--dump-dom", address]
    return subprocess.run(words, capture_output=True, text=True, timeout=240, check=True).stdout


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


def test_of_many_trials_one_of_each_line_and_epsilon_is_compared() -> None:
    every = [
        (f"{line}{at}-{rank}", line, at) for line in "ab" for at in (1.0, 2.0) for rank in range(30)
    ]
    assert compared(every) == ["a1.0-0", "a2.0-0", "b1.0-0", "b2.0-0"]
    assert compared(every[:MOST_COMPARED]) == [name for name, _, _ in every[:MOST_COMPARED]]
    assert len(compared((str(at), "a", float(at)) for at in range(300))) == MOST_COMPARED
