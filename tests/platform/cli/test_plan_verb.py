"""plan_verb: a mistyped name is refused at once."""

import math
import subprocess
import sys

from labeldp.platform.cli import plan_verb
from labeldp.platform.cli.sweep_plan import PlanResult
from labeldp.platform.cli.tables import shown


def test_what_is_no_sweep_file_is_refused_before_anything_is_loaded() -> None:
    """Torch, Ray and the rest take ten seconds, which a mistyped name should not cost."""
    script = (
        "import sys; from labeldp.platform.cli.command_line import main; "
        "code = main(['plan', 'nosuch.py']); "
        "print(code, sorted({'numpy', 'torch', 'ray', 'sklearn', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "2 []\n"
    assert "nosuch.py is no sweep file" in done.stderr


def test_people_get_tables() -> None:
    plan = PlanResult(
        trials=2,
        epsilons=[0.49999999, 8.0],
        releases=2,
        epsilon_total=8.5,
        delta=1e-5,
        gpu_hours=0.0,
        fits=False,
        problems=["a trial takes 64 cores"],
        labels=1438,
        spoiled_labels=14,
        configurations=[
            {"variant": "ALIBI", "trainer.epsilon": 0.5, "trials": 1, "epsilon": 0.5, "minutes": 2},
            {"variant": "none", "trials": 1, "epsilon": math.inf, "minutes": None},
        ],
    )
    lines = shown(plan_verb._told(plan)).splitlines()
    assert lines[:4] == [
        "trials",
        "#  variant  trials  epsilon  minutes",
        "1  ALIBI    1       0.5      2",
        "2  none     1       inf      -",
    ]
    assert "epsilon of a trial       0.5, 8" in lines
    assert "fits                     NO" in lines
    assert lines[-1] == "problem: a trial takes 64 cores"
