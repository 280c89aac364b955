"""driver: what it loads before a sweep is checked. Whole sweeps are run by tests/sweeps."""

import subprocess
import sys


def test_a_plan_is_checked_before_anything_heavy_is_loaded() -> None:
    code = (
        "import sys, labeldp.platform.sweep.driver;"
        "heavy = {'matplotlib', 'mlflow', 'ray', 'sklearn', 'torchvision'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
