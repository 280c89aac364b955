"""The campaign for an accelerator at a toy's size, where there is nothing but torch and NumPy.

Images are of the testing machine's own making, in CIFAR's official format.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.vault.vault_store import SqliteStore
from tests.benchmarks.gpu_campaign import main, small_campaign
from tests.source_tree import run
from tests.trainers.data_samples import images, write_cifar_binary

BARE = """
import runpy, sys
for absent in (
    "ray", "mlflow", "sklearn", "pandas", "matplotlib", "randomgen", "safetensors",
    "rich", "pyarrow",
):
    sys.modules[absent] = None
sys.argv = ["gpu_campaign", *sys.argv[1:]]
runpy.run_module("tests.benchmarks.gpu_campaign", run_name="__main__")
"""


def test_every_step_runs_on_a_bare_machine_and_pays_for_each_release_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, part in enumerate(("test_batch", *(f"data_batch_{n}" for n in range(1, 6)))):
        file = tmp_path / "data" / "cifar-10-batches-bin" / f"{part}.bin"
        write_cifar_binary(file, images(30, 3, 32, 32, seed=seed), np.arange(30) % 10)
    campaign = tmp_path / "campaign"
    arguments = ["--folder", str(campaign), "--small", "--noise-seed", "0", "--minutes", "5"]
    environment = {
        "LABELDP_DATA": str(tmp_path / "data"),
        "LABELDP_STATE": os.environ["LABELDP_STATE"],
        "OMP_NUM_THREADS": "1",
    }
    done = run(sys.executable, "-c", BARE, *arguments, env=environment)
    end = f"{len(small_campaign())} done, 0 failed, 0 left"
    assert done.stdout.splitlines()[-1] == end
    # The second call finds every result.
    monkeypatch.setattr(sys, "argv", ["gpu_campaign", *arguments])
    assert main() == 0 and capsys.readouterr().out.splitlines() == [end]
    charges = SqliteStore(campaign / "private" / "cifar10.db").charges()
    assert sorted(str(charge.mechanism["name"]) for charge in charges) == sorted(
        ["LabelMoments", "LabelMoments", "LaplaceNoise", *3 * ["StaircaseChannel"]]
    )
