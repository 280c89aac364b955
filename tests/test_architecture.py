"""Links, names, and a wheel that works alone; `make lint` has the layers."""

import importlib.metadata
import json
import re
import shutil
import stat
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import labeldp
from tests.source_tree import ROOT, run, sources

PROMISED = {"LabelPrivateClassifier", "run", "load", "plan", "epsilon", "SharedVault", "Result"}


def test_every_promised_name_is_there_and_listed() -> None:
    assert set(labeldp.__all__) >= PROMISED
    assert set(dir(labeldp)) >= PROMISED | {"__version__"}
    for name in PROMISED:
        assert getattr(labeldp, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = labeldp.nothing  # type: ignore[attr-defined]


def test_no_file_takes_the_name_of_another_module() -> None:
    """Scripts put their folder first on the path: a `ray.py` there would be imported for Ray."""
    # With an __init__.py, our folder hides the standard library's platform module.
    assert not (ROOT / "platform" / "__init__.py").exists()
    assert run(sys.executable, "-c", "import platform; print(platform.system())").stdout.strip()
    taken = set(sys.stdlib_module_names) | set(importlib.metadata.packages_distributions())
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    taken |= {re.split(r"[\[<>=!~ ]", line)[0].replace("-", "_").lower() for line in declared}
    assert {"ray", "mlflow", "json", "sklearn"} <= taken
    names = {path.stem for path in sources("platform", "sweeps")}
    assert not names & (taken - {"labeldp"}), names & taken
    for layer in ("mechanisms", "trainers", "platform", "sweeps"):
        link = ROOT / "labeldp" / layer
        assert stat.S_ISLNK(link.lstat().st_mode), f"{link} is a copy, not a link"
        assert link.readlink() == Path("..", layer)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing is left beside them."""
    copy = tmp_path_factory.mktemp("sources")
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("labeldp", "mechanisms", "trainers", "platform", "sweeps"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    build = ("build", "--wheel", "--no-isolation", "--outdir", "dist")
    run(sys.executable, "-m", *build, cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    pages = (ROOT / "platform" / "report" / "templates").iterdir()
    files = [*sources("mechanisms", "trainers", "platform", "sweeps"), *pages]
    assert held == {
        *("labeldp/__init__.py", "labeldp/py.typed"),
        "labeldp/mechanisms/pate/decision_table.csv",
        "labeldp/trainers/data/published_files.csv",
        "labeldp/platform/report/published.csv",
        *(f"labeldp/{path.relative_to(ROOT).as_posix()}" for path in files),
    }


def test_wheel_works_in_an_environment_that_has_only_dependencies(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = (environment / "bin" / "python", "-I", "-c")
    (packages,) = environment.glob("lib/python*/site-packages")
    # Dependencies come from here. Files named *.pth in a folder added like this are not run, and so
    # the project's own installation is not seen.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    find = "import importlib.util; print(importlib.util.find_spec('labeldp'))"
    assert run(*python, find, cwd=tmp_path).stdout.strip() == "None"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    code = (
        "import labeldp, labeldp.mechanisms, platform\n"
        "from importlib.metadata import version\n"
        "from labeldp.platform.cli.command_line import main\n"
        "assert main(['epsilon', 'laplace', '--scale', '1', '--json']) == 0\n"
        "print(labeldp.__file__, version('labeldp'), platform.system())\n"
    )
    output = run(*python, code, cwd=tmp_path).stdout.split()
    assert json.loads("".join(output[:-3]))["epsilon"] == 2.0
    assert Path(output[-3]).is_relative_to(packages)
