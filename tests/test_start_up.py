"""Modules that commands load at their start: plans, prices and reports need no torch.

Somebody waits while it loads. Seconds differ from machine to machine, and modules don't.
"""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.platform.report.folders import a_folder
from tests.source_tree import ROOT, run, sources

#: Packages that take more than half a second each, and only serve training and figures.
SLOW = {"matplotlib", "mlflow", "ray", "sklearn", "torch", "torchvision"}


def loaded_by(code: str, *arguments: str, cwd: Path) -> tuple[float, set[str]]:
    told = "print(json.dumps([time.process_time(), [*sys.modules]]), file=sys.stderr)"
    code = f"import json, sys, time\n{code}\n{told}"
    done = run(sys.executable, "-c", code, *arguments, cwd=cwd)
    seconds, modules = json.loads(done.stderr.splitlines()[-1])
    return seconds, {name.partition(".")[0] for name in modules}


def loaded_by_verbs(*lines: str, cwd: Path) -> set[str]:
    """Return the modules that these commands load, in one process, since a start takes a second."""
    code = "import shlex\nfrom labeldp.platform.cli.command_line import main\n"
    code += "for line in sys.argv[1:]: assert main(shlex.split(line)) in (0, 3), line"
    return loaded_by(code, *lines, cwd=cwd)[1]


@pytest.mark.parametrize("what", ["", "--help", "plan --help", "audit one-run --help"])
def test_importing_and_help_take_no_time(what: str, tmp_path: Path) -> None:
    code = "import labeldp"
    if what:
        code = "from labeldp.platform.cli.command_line import main\nmain(sys.argv[1:])"
    # A busy machine may take longer once, and not three times.
    runs = (loaded_by(code, *what.split(), cwd=tmp_path) for _ in range(3))
    loaded = next(modules for seconds, modules in runs if seconds < 0.3)
    assert not loaded & (SLOW | {"numpy", "pandas", "scipy"})


@pytest.mark.parametrize(("own", "kept"), [(None, "passive"), ("active", "active")])
def test_threads_of_torch_do_not_wait_in_a_loop(
    own: str | None, kept: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Features of 60,000 images took 15 minutes instead of one beside three busy processes."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if own is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", own)
    loaded_by(f"import labeldp, os\nassert os.environ['OMP_WAIT_POLICY'] == {kept!r}", cwd=tmp_path)


def test_plans_prices_and_lists_are_made_without_what_trains(tmp_path: Path) -> None:
    rows = "".join(f"{n % 7},{n % 11},{'yes' if n % 3 else 'no'}\n" for n in range(200))
    (tmp_path / "mine.csv").write_text(f"a,b,label\n{rows}")
    own = "data.name=own data.path=mine.csv data.classes=no,yes data.hold_out=public"
    sweeps = shlex.quote(str(ROOT / "sweeps"))
    loaded = loaded_by_verbs(
        f"plan {sweeps}/quickstart.py",
        f"plan {sweeps}/pate_mnist.py --smoke trainer.student.semi_supervised.model=mlp",
        f"plan {sweeps}/compare_mnist.py --smoke data.name=digits",
        f"plan {sweeps}/quickstart.py {own} audit.canaries=0",
        "epsilon laplace --scale 1",
        "calibrate gaussian --epsilon 1 --delta 1e-5",
        "data list",
        "config pate",
        cwd=tmp_path,
    )
    assert not loaded & SLOW


def test_settings_and_the_party_with_labels_load_no_framework(tmp_path: Path) -> None:
    keys = "import labeldp.platform.settings.configuration, labeldp.platform.cli.config_keys"
    assert not loaded_by(keys, cwd=tmp_path)[1] & {*SLOW, "pandas"}
    assert not loaded_by("import labeldp.platform.cli.parties", cwd=tmp_path)[1] & SLOW


def test_results_are_read_without_ray_and_torch(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0)
    assert loaded_by_verbs("report results", cwd=tmp_path) & SLOW == {"matplotlib"}
    code = (
        "import labeldp\nr = labeldp.load('results')\nr.table(); r.best(at_epsilon=5); r.ledger()"
    )
    assert not loaded_by(code, cwd=tmp_path)[1] & (SLOW - {"sklearn"})


def test_a_fit_loads_no_ray(tmp_path: Path) -> None:
    code = (
        "import numpy as np\nfrom labeldp import LabelPrivateClassifier\n"
        "model = LabelPrivateClassifier(classes=2, settings={'width': 4, 'epochs': 1})\n"
        "model.fit(np.arange(40.0).reshape(20, 2), np.arange(20) % 2)"
    )
    assert not loaded_by(code, cwd=tmp_path)[1] & {"ray", "mlflow", "matplotlib"}


def test_mechanisms_and_sweep_files_import_no_framework(tmp_path: Path) -> None:
    paths = (path.relative_to(ROOT).with_suffix("").parts for path in sources("mechanisms"))
    modules = {".".join(("labeldp", *parts)).removesuffix(".__init__") for parts in paths}
    loaded = loaded_by(f"import {', '.join(modules)}", cwd=tmp_path)[1]
    assert not loaded & {*SLOW, "pandas", "randomgen"}
    # Sweeps are read to be planned; all but studies without trials.
    swept = [str(path) for path in sources("sweeps") if "SWEEP = " in path.read_text()]
    assert len(swept) > 10
    code = "import runpy\nfor path in sys.argv[1:]: runpy.run_path(path)\n"
    code += "assert 'scipy.optimize' not in sys.modules"
    assert "torch" not in loaded_by(code, *swept, cwd=tmp_path)[1]
