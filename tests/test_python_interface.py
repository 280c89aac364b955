"""`import labeldp`: instant, lazy, complete, and no shadow over the standard library."""

import json
import subprocess
import sys
import time

import pytest

import labeldp

PROMISED = {"LabelPrivateClassifier", "run", "load", "plan", "epsilon", "SharedVault", "Result"}
HEAVY = {"matplotlib", "mlflow", "numpy", "pandas", "ray", "sklearn", "torch"}
#: Of processor time, which other work on the machine does not add to.
IMPORT_SECONDS = 0.3


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_promised_name_is_there_and_listed() -> None:
    assert set(labeldp.__all__) >= PROMISED
    assert set(dir(labeldp)) >= PROMISED | {"__version__"}
    for name in PROMISED:
        assert getattr(labeldp, name) is getattr(labeldp, name)
        assert getattr(labeldp, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = labeldp.nothing  # type: ignore[attr-defined]


def test_importing_it_imports_nothing_heavy_and_takes_no_time() -> None:
    code = (
        "import json, sys, time; before = time.process_time()\n"
        "import labeldp\n"
        "seconds = time.process_time() - before\n"
        "print(json.dumps([seconds, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    runs = [json.loads(run_python(code)) for _ in range(3)]
    assert min(seconds for seconds, _ in runs) < IMPORT_SECONDS
    assert not HEAVY & {name for _, loaded in runs for name in loaded}


def test_a_fit_loads_no_ray() -> None:
    code = (
        "import sys, numpy as np\n"
        "from labeldp import LabelPrivateClassifier\n"
        "model = LabelPrivateClassifier(classes=2, settings={'width': 4, 'epochs': 1})\n"
        "model.fit(np.arange(40.0).reshape(20, 2), np.arange(20) % 2)\n"
        "print({'ray', 'mlflow', 'matplotlib'} & set(sys.modules))"
    )
    assert run_python(code).strip() == "set()"


def test_layers_stay_importable_beside_the_standard_library() -> None:
    code = (
        "import labeldp, platform, labeldp.platform.records.private_files, labeldp.mechanisms\n"
        "print(platform.system(), labeldp.platform.records.private_files.__name__)"
    )
    assert run_python(code).split()[1] == "labeldp.platform.records.private_files"


def test_an_epsilon_is_priced_without_torch() -> None:
    started = time.process_time()
    assert labeldp.epsilon("laplace", scale=2.0) == 1.0
    assert time.process_time() - started < 5
