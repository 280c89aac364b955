"""The benchmark for accelerators runs where there is nothing but torch, numpy and scipy."""

import json
import subprocess
import sys
from pathlib import Path

BARE = """
import runpy, sys
for absent in (
    "ray", "mlflow", "sklearn", "pandas", "matplotlib", "randomgen",
    "safetensors", "omegaconf", "rich",
):
    sys.modules[absent] = None
sys.argv = ["gpu", "--small", "--seconds", "0.01", "--json", sys.argv[1]]
runpy.run_module("tests.benchmarks.gpu", run_name="__main__")
"""


def test_it_measures_everything_it_names(tmp_path: Path) -> None:
    figures = tmp_path / "speeds.json"
    done = subprocess.run(
        [sys.executable, "-c", BARE, str(figures)],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    speeds = json.loads(figures.read_text(encoding="utf-8"))["speeds"]
    measured = [speed["what"] for speed in speeds]
    names = ("matrix product", "pairs of views", "FixMatch", "ALIBI, ResNet18")
    further = ("ALIBI, fast network", "self-supervised, fast_cnn", "small CNN teachers")
    for name in (*names, *further):
        assert any(name in what for what in measured), name
    assert all(speed["per_second"] > 0 and speed["rounds"] >= 3 for speed in speeds)
    assert len(done.stdout.splitlines()) == len(speeds) + 4  # name, blank line, head of the table
