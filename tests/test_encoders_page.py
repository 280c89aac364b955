"""docs/encoders.md: its commands, run as they stand, on a few hundred made-up images.

One small sweep of two trials, on vectors by the network of the page.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.platform.cli import sweep_command
from labeldp.platform.cli.command_line import main
from labeldp.platform.records.results import read_results
from labeldp.platform.report.card import run_card
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.trainers.data.columns import RowsRefused
from labeldp.trainers.data.splits import League
from labeldp.trainers.models.trained_model import load_model
from tests.faults.without_cluster import without_cluster
from tests.platform.sweep.examples import a_charge
from tests.source_tree import ROOT
from tests.trainers.encoders.small_encoders import some_images

pytestmark = pytest.mark.timeout(600)

PAGE = (ROOT / "docs" / "encoders.md").read_text()
RESULTS = Path("results", "moments_on_embeddings")
#: Settings that make the sweep small; all others are as on the page.
SMALL = ["trainer.epochs=2", "trainer.epsilon=[1,8]", "trainer.prior.landmarks=60"]
TRAIN = 400
TEST = 100
TOLD = "public encoder: my_encoder:build (weights "


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the page's commands were run, one after the other."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
            patch.delenv(name, raising=False)
        images, labels = some_images(TRAIN + TEST, side=32), np.arange(TRAIN + TEST) % 10
        np.savez("images.npz", images=images[:TRAIN])
        np.savez("test_images.npz", images=images[TRAIN:])
        np.save("y.npy", labels[:TRAIN])
        np.save("t.npy", labels[TRAIN:])
        (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
        Path("my_encoder.py").write_text(code)
        names: dict[str, Any] = {}
        exec(code, names)
        torch.save(names["build"](None).state_dict(), "my_encoder.pt")
        for command in _commands():
            _run(command)
        yield folder
        sys.modules.pop("my_encoder", None)


def _commands() -> list[list[str]]:
    part = PAGE.partition("## Your own images")[2].partition("\n## ")[0]
    found = re.findall(r"^    ((?:labeldp|python) .*)$", part, re.M)
    assert [line.split()[1] for line in found] == [
        *("embed", "embed", "sweeps/moments_on_embeddings.py", "report", "predict", "publish"),
    ]
    return [shlex.split(line) for line in found]


def _run(command: list[str]) -> None:
    program, *rest = command
    if program == "labeldp":
        trials = sorted(path.stem for path in RESULTS.glob("trials/*.json"))
        assert main([trials[0] if word == "HASH" else word for word in rest]) == 0
        return
    with without_cluster():
        sweep = load_sweep(str(ROOT / rest[0]))
        assert sweep_command.run(sweep, [*rest[1:], *SMALL, "--quiet"]) == 0


def test_records_reports_and_published_folders_state_the_league(place: Path) -> None:
    kept = read_results(place / RESULTS)
    assert len(kept.records) == 2
    for record in kept.records.values():
        assert record.finished and 0 <= record.metrics["accuracy"] <= 1
        made = record.features_from
        assert made.league is League.PUBLIC_ENCODER and made.trained_by == "me"
        assert TOLD in run_card(record, [a_charge()])
    assert f"League</a>: {TOLD}" in (place / RESULTS / "report.html").read_text()
    table = (place / RESULTS / "pareto.csv").read_text().splitlines()
    assert table[0].endswith(",league") and all(row.endswith("encoder") for row in table[1:])
    published = place / "published"
    assert TOLD in (published / "run_card.md").read_text()
    config = json.loads((published / "config.json").read_text())
    assert config["features"]["league"] == "public-encoder"
    model = json.loads((published / "model" / "model.json").read_text())
    assert model["features"] == config["features"]


def test_a_kept_model_takes_embeddings_of_its_encoder_alone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = next((place / RESULTS / "models").iterdir())
    facts = json.loads((trial / "model.json").read_text())
    assert facts["raw_inputs"] == "embeddings by my_encoder:build"
    model = load_model(trial)
    images = np.load(place / "test_images.npz")["images"]
    with pytest.raises(RowsRefused, match=r"labeldp embed IMAGES --encoder my_encoder:build"):
        model.predict(images)
    assert len(model.predict(np.load(place / "T.npy"))) == TEST
    assert len((place / "predictions.csv").read_text().splitlines()) == TEST + 1
    other = ["embed", "test_images.npz", "--encoder", "my_encoder:build", "-o", "other.npy"]
    assert main(other) == 0
    assert main(["predict", str(trial), "other.npy", "-o", "p.csv"]) == 2
    assert "the model was trained on embeddings by my_encoder:build" in capsys.readouterr().err
    assert not Path("p.csv").exists()
