"""What verbs load before they answer: none that plans, prices or reads anew has a use for torch.

Somebody waits while it loads. Seconds differ from machine to machine, and modules don't.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform.report.folders import a_folder
from tests.source_tree import ROOT, imports_when_loaded, sources

#: What takes more than half a second each, and is of no use where nothing is trained or drawn.
SLOW = {"matplotlib", "mlflow", "ray", "sklearn", "torch", "torchvision"}
RUN = (
    "import json, sys\n"
    "from labeldp.platform.cli.command_line import main\n"
    "code = main(sys.argv[1:])\n"
    "print(json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]), "
    "file=sys.stderr)\n"
)


def loaded_by(*arguments: str, cwd: Path) -> tuple[int, set[str]]:
    """The exit code of a verb, and the packages that its process has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules)


@pytest.fixture(scope="module")
def own_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A user's table of 200 rows."""
    rows = "".join(f"{n % 7},{n % 11},{'yes' if n % 3 else 'no'}\n" for n in range(200))
    path = tmp_path_factory.mktemp("own") / "mine.csv"
    path.write_text(f"a,b,label\n{rows}")
    return str(path)


@pytest.mark.parametrize(
    "changes",
    [
        ("quickstart.py",),
        ("pate_mnist.py", "--smoke"),
        ("compare_mnist.py", "--smoke", "data.name=digits"),
    ],
    ids=lambda changes: " ".join(changes),
)
def test_plans_are_made_without_what_trains(changes: tuple[str, ...], tmp_path: Path) -> None:
    sweep, *settings = changes
    code, loaded = loaded_by("plan", str(ROOT / "sweeps" / sweep), *settings, cwd=tmp_path)
    assert code in (0, 3) and not loaded & SLOW


def test_plans_of_own_data_too(own_file: str, tmp_path: Path) -> None:
    sweep = str(ROOT / "sweeps" / "quickstart.py")
    own = ("data.name=own", f"data.path={own_file}", "data.hold_out=public", "data.classes=no,yes")
    code, loaded = loaded_by("plan", sweep, *own, "audit.canaries=0", cwd=tmp_path)
    assert code == 0 and not loaded & SLOW


def test_a_report_loads_nothing_slow_but_what_draws(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0)
    code, loaded = loaded_by("report", "results", cwd=tmp_path)
    assert code == 0 and loaded & SLOW == {"matplotlib"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("epsilon", "laplace", "--scale", "1"),
        ("calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-5"),
        ("data", "list"),
        ("config", "pate"),
    ],
    ids=" ".join,
)
def test_what_only_calculates_or_lists(arguments: tuple[str, ...], tmp_path: Path) -> None:
    code, loaded = loaded_by(*arguments, cwd=tmp_path)
    assert code == 0 and not loaded & SLOW


def test_sweeps_name_no_module_that_loads_torch_or_optimizers() -> None:
    """They are read to be planned; all but studies without trials."""
    swept = [path for path in sources("sweeps") if "SWEEP = " in path.read_text()]
    assert len(swept) > 10
    names = {name for path in swept for name in imports_when_loaded(path)}
    modules = sorted({name.rpartition(".")[0] for name in names if name.startswith("labeldp.")})
    code = (
        f"import sys, {', '.join(modules)}; print({{'torch', 'scipy.optimize'}} & {{*sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True
    )
    assert done.stdout == b"set()\n"
