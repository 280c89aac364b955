"""The start of a sweep in a process of its own, against importing all that it will ever need."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.benchmark import Clock, Work, benchmark
from tests.source_tree import ROOT

#: A sweep read, planned, its data loaded and checked, and the driver there to run it.
_READY = """
import json, runpy, sys
from pathlib import Path
from typing import Any
from labeldp.platform.sweep.driver import check, run_sweep
from labeldp.platform.sweep.sweep import SweepOptions
sweep = runpy.run_path("sweeps/quickstart.py")["SWEEP"]
plan, _ = check(sweep, SweepOptions(results=Path(sys.argv[1])))
print(json.dumps({"trials": len(plan.trials), "heavy": HEAVY}))
"""
_IMPORTS = "import json, sys, matplotlib.figure, mlflow, ray.tune, sklearn.datasets, torch\n"
_PLAIN = _IMPORTS + 'print(json.dumps({"trials": 16, "heavy": HEAVY}))\n'
_HEAVY = "sorted({'matplotlib', 'mlflow', 'ray', 'sklearn', 'torch'} & set(sys.modules))"


def _run(code: str, scratch: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", code.replace("HEAVY", _HEAVY), str(scratch / "results")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@benchmark(
    "sweep-start",
    "the demo's driver until its data are checked",
    "a process that imports torch, Ray, MLflow, scikit-learn and matplotlib",
    mark=1.1,
    clock=Clock.CHILDREN,
)
def _start(scratch: Path) -> Work:
    def check() -> None:
        """The demo has 16 trials; what runs them is loaded later, beside Ray's start."""
        ours, plain = _run(_READY, scratch), _run(_PLAIN, scratch)
        assert ours["trials"] == 16
        assert plain["heavy"] == ["matplotlib", "mlflow", "ray", "sklearn", "torch"]
        assert set(plain["heavy"]) - set(ours["heavy"]) >= {"matplotlib", "mlflow", "ray"}, ours

    return Work(
        ours=partial(_run, _READY, scratch), reference=partial(_run, _PLAIN, scratch), check=check
    )
