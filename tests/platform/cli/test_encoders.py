"""encoders: `labeldp embed` and `self-supervise`; leagues, progress, refusals, clean ends."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli.command import ExitCode
from labeldp.platform.cli.models import probed
from labeldp.trainers.encoders import embedding
from labeldp.trainers.encoders.image_encoder import Pretraining
from labeldp.trainers.settings.training import EpochMetrics
from tests.platform.cli.asked import answer, refusal, run, words
from tests.trainers.encoders.small_encoders import SMALL, some_images

ROOM = SMALL.rpartition(":")[0]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "encoders.md"
TRAIN = ("self-supervise", "images.npz", "-o", "encoder.pt", "--width", "2", "--device", "cpu")
SHORT = ("--epochs", "2", "--batch-size", "8")


@pytest.fixture(autouse=True)
def _images() -> None:
    np.savez("images.npz", images=some_images(20))


def test_keys_leagues_and_progress_of_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("embed", "images.npz", "--encoder", SMALL, "--to", "x.npy", "--trained-on", "cats")
    said = answer(*asked)
    assert {"file", "rows", "dimensions", "hash", "league"} <= set(said)
    assert (said["file"], said["rows"], said["dimensions"]) == ("x.npy", 20, 6)
    assert said["league"] == "public-encoder" and "trained on cats" in said["provenance"]
    assert answer(*asked)["cached"]
    assert answer(*asked, "--no-outside-data", "--replace")["league"] == "none"
    monkeypatch.setattr(embedding, "_PAUSE", 0.0)
    _, _, told = run(*asked, "--replace", "--batch-size", "8")
    assert told.splitlines() == ["embedded 8 of 20 images", "embedded 16 of 20 images"]
    assert np.load("x.npy").dtype == np.float32


def test_an_interrupted_embedding_leaves_nothing() -> None:
    asked = ("embed", "images.npz", "--encoder", f"{ROOM}:interrupted", "-o", "x.npy")
    assert run(*asked, "--batch-size", "8") == (ExitCode.INTERRUPTED, "", "interrupted\n")
    assert [path.name for path in Path().iterdir()] == ["images.npz"]


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        ("images.npz", {"--encoder": f"{ROOM}:sequences"}, "of shape (20, 5, 7)"),
        ("images.npz", {"-o": "x.npz"}, "ends in .npy"),
        ("no/where", {}, "is not a folder"),
    ],
)
def test_bad_input_is_refused_by_name(source: str, changes: dict[str, str], message: str) -> None:
    options = {"--encoder": SMALL, "-o": "x.npy", **changes}
    arguments = [word for pair in options.items() for word in pair]
    assert message in refusal("embed", source, *arguments)
    assert [path.name for path in Path().iterdir()] == ["images.npz"]


def test_the_pages_encoder_of_the_images_alone_is_in_the_league_of_no_outside_data() -> None:
    part = PAGE.read_text().partition("## An encoder of your images alone")[2].partition("\n## ")[0]
    train, embed = (shlex.split(line)[1:] for line in re.findall(r"^    (labeldp .*)$", part, re.M))
    assert (train[0], embed[0]) == ("self-supervise", "embed")
    train += [*SHORT, "--width", "2"]
    code, _, progress = run(*train)
    assert code == 0 and progress.startswith("epoch 1 of 2: loss ")
    said = answer(*train)  # all is done already: nothing is told
    assert (said["epochs"], said["finished"], said["dimensions"]) == (2, True, 1092)
    said = answer(*embed)
    assert (said["league"], said["rows"], said["dimensions"]) == ("none", 20, 1092)
    assert np.isfinite(np.load("X.npy")).all()


@pytest.mark.parametrize("step", [1, -1], ids=["growing", "falling"])
def test_a_loss_that_does_not_fall_is_reported(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    trained = Pretraining.epoch

    def epoch(self: Pretraining) -> EpochMetrics:
        metrics = trained(self)
        return replace(metrics, loss=20.0 + step * metrics.epoch)

    monkeypatch.setattr(Pretraining, "epoch", epoch)
    out = words(*TRAIN, *SHORT)
    warning = answer(*TRAIN, *SHORT)["warning"]
    if step < 0:
        assert "warning" not in out and warning is None
        return
    assert re.search(r"^warning: the loss does not fall: it was 21 in epoch 1", out, re.M)
    assert "--learning-rate" in out and "--replace" in out and warning in out


def test_training_that_fails_is_not_a_success() -> None:
    code, out, err = run(*TRAIN, *SHORT, "--learning-rate", "1e38", "--json")
    assert (code, out) == (1, "") and not Path("encoder.pt").exists()
    (line,) = [line for line in err.splitlines() if not line.startswith("epoch ")]
    assert line.startswith("error: ") and "not finite in epoch" in line
    assert "set --learning-rate R" in line
    assert "is not there" in refusal("self-supervise", "other.npz", "-o", "e.pt")
    assert "epochs" in refusal(*TRAIN, "--epochs", "0")
    assert "--probe reads public labels" in refusal(*TRAIN, "--probe")


def test_crops_with_a_probe_of_public_labels() -> None:
    options = ("--views", "3", "--crop", "4", "--probe", "--no-flip")
    asked = ("self-supervise", "digits", "-o", "e.pt", "--width", "4", "--epochs", "1", *options)
    _, out, err = run(*asked, "--json")
    said = json.loads(out)
    assert (said["views"], said["finished"]) == (3, True) and said["seconds"] > 0
    assert 0.2 < said["probe"] <= 1  # one class in ten is .1
    assert f", probe {said['probe']:.1%}, " in err


def test_a_probe_learns_from_one_half_and_is_tested_on_the_other() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=400)
    vectors = np.eye(3)[labels] + 0.3 * generator.normal(size=(400, 3))
    assert probed(vectors.astype(np.float32), labels) > 0.85
    assert probed(generator.normal(size=(400, 300)).astype(np.float32), labels) < 0.5
