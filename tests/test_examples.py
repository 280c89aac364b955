"""Each file of examples/ is short, and runs as its first line says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.without_cluster import without_cluster
from tests.platform.cli import asked
from tests.source_tree import ROOT, run

EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix != ".md")
#: What an example needs beside its own file.
ARGUMENTS = {"paper_figure.py": ("results/own_network", "figure.pdf")}


def test_examples_are_short() -> None:
    assert len(EXAMPLES) >= 8
    assert not [path for path in EXAMPLES if len(path.read_text().splitlines()) > 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all of them: the figure is of the sweep that an earlier example ran."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.ray_cluster
@pytest.mark.parametrize("name", [path.name for path in EXAMPLES if path.suffix == ".py"])
def test_an_example_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", beside, prepend=":")  # the command labeldp
    run(sys.executable, ROOT / "examples" / name, *ARGUMENTS.get(name, ()), cwd=folder)


def test_a_table_of_your_own_may_have_other_classes(tmp_path: Path) -> None:
    rows = "".join(f"{n},{'yes' if n > 50 else 'no'}\n" for n in range(100))
    (tmp_path / "mine.csv").write_text(f"size,bought\n{rows}")
    given = (sys.executable, ROOT / "examples" / "own_csv.py", "mine.csv", "bought")
    run(*given, "no,yes", cwd=tmp_path)
    said = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True).stderr
    assert "is not one of the 2 stated classes" in said and "Traceback" not in said


@pytest.mark.ray_cluster
@pytest.mark.parametrize("name", [path.name for path in EXAMPLES if path.suffix == ".yaml"])
def test_settings_and_sweeps_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(ROOT / "examples" / name)
    # A sweep has a name; other files are settings for one.
    of_sweep = re.search("^name:", Path(file).read_text(), re.M)
    # The whole quickstart is another test's, and takes minutes on a busy machine.
    part = ("--only", "LP-MST") if name == "quickstart.yaml" else ()
    which = (file, *part) if of_sweep else ("quickstart", "--config", file, "trainer.epsilon=2")
    command = ["sweep", *which, "--smoke", "--results", str(tmp_path / "results")]
    if name.startswith(("laptop", "pate")):  # with teachers, who are trained on a cluster
        run(sys.executable, "-m", "labeldp.platform.cli.command_line", *command, cwd=tmp_path)
        return
    monkeypatch.setattr(sys, "argv", [])  # a sweep's file gets its own
    with without_cluster():
        assert asked.run(*command)[0] == 0
