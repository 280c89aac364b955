"""Links, names, what importing costs, and a wheel that works alone; `make lint` has the layers."""

import importlib.metadata
import json
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.source_tree import ROOT, sources

HEAVY = {"matplotlib", "mlflow", "pandas", "ray", "sklearn", "torch", "torchvision"}
#: Of `labeldp --help`, on a machine that other work keeps busy; issue and README promise 1 s.
HELP_SECONDS = 1.0


def test_platform_is_no_package_of_its_own() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists(), (
        "with an __init__.py, our folder hides the standard library's platform module"
    )
    # As `python -c` does, with the repository first on its path.
    command = [sys.executable, "-c", "import platform; print(platform.system())"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


@pytest.mark.parametrize("layer", ["mechanisms", "trainers", "platform"])
def test_links_resolve_and_are_relative(layer: str) -> None:
    link = ROOT / "labeldp" / layer
    assert stat.S_ISLNK(link.lstat().st_mode), f"{link} is a copy, not a link"
    assert link.readlink() == Path("..", layer)
    assert link.resolve() == ROOT / layer


def test_no_file_takes_the_name_of_another_module() -> None:
    """Scripts put their folder first on the path: a `ray.py` there would be imported for Ray."""
    taken = set(sys.stdlib_module_names) | set(importlib.metadata.packages_distributions())
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    taken |= {re.split(r"[\[<>=!~ ]", line)[0].replace("-", "_").lower() for line in declared}
    assert {"ray", "mlflow", "json", "sklearn"} <= taken
    names = {path.stem for path in sources("platform", "sweeps")}
    assert not names & (taken - {"labeldp"}), names & taken


def run_python(code: str, *, python: str = sys.executable, cwd: Path) -> str:
    done = subprocess.run(
        [python, "-I", "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_mechanisms_imports_no_framework(tmp_path: Path) -> None:
    modules = ", ".join(
        ".".join(("labeldp", *path.relative_to(ROOT).with_suffix("").parts))
        for path in sources("mechanisms")
    ).replace(".__init__", "")
    code = f"import json, sys, {modules}; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.split(".")[0] for name in json.loads(run_python(code, cwd=tmp_path))}
    assert "numpy" in loaded
    assert not loaded & HEAVY


def test_help_answers_at_once(tmp_path: Path) -> None:
    code = (
        "import json, sys\n"
        "from labeldp.platform.cli.command_line import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    seconds, loaded = [], set[str]()
    for _ in range(3):
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        seconds.append(time.perf_counter() - started)
        assert done.returncode == 0, done.stderr
        assert "epsilon" in done.stdout and "report" in done.stdout
        loaded |= {name.split(".")[0] for name in json.loads(done.stderr)}
    assert not loaded & (HEAVY | {"numpy", "scipy"}), "--help imports what only verbs need"
    assert min(seconds) < HELP_SECONDS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing is left beside them."""
    copy = tmp_path_factory.mktemp("sources")
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("labeldp", "mechanisms", "trainers", "platform"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (built,) = (copy / "dist").glob("*.whl")
    return built


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {"labeldp/__init__.py", "labeldp/py.typed"} | {
        f"labeldp/{path.relative_to(ROOT).as_posix()}"
        for path in sources("mechanisms", "trainers", "platform")
    }
    expected.add("labeldp/mechanisms/pate/decision_table.csv")
    pages = ROOT / "platform" / "report" / "templates"
    expected |= {f"labeldp/{path.relative_to(ROOT).as_posix()}" for path in pages.iterdir()}
    assert held == expected


def test_wheel_works_in_an_environment_that_has_only_dependencies(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    command = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(command, check=True, timeout=120)
    python = str(environment / "bin" / "python")
    (packages,) = environment.glob("lib/python*/site-packages")
    # Dependencies come from here. Files named *.pth in a folder added like this are not run, and so
    # the project's own installation is not seen.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    find = "import importlib.util; print(importlib.util.find_spec('labeldp'))"
    assert run_python(find, python=python, cwd=tmp_path).strip() == "None"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    code = (
        "import labeldp, labeldp.mechanisms, platform\n"
        "from importlib.metadata import version\n"
        "from labeldp.mechanisms.additive_noise import LaplaceNoise\n"
        "from labeldp.platform.cli.command_line import main\n"
        "assert LaplaceNoise(epsilon=2.0, num_classes=10).scale == 1.0\n"
        "assert main(['epsilon', 'laplace', '--scale', '1', '--json']) == 0\n"
        "print(labeldp.__file__, version('labeldp'), platform.system())\n"
    )
    output = run_python(code, python=python, cwd=tmp_path).split()
    assert json.loads("".join(output[:-3]))["epsilon"] == 2.0
    assert Path(output[-3]).is_relative_to(packages)
