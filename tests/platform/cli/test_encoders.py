"""encoders: `labeldp embed` and `self-supervise`; leagues, progress, refusals, clean ends."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli.command import ExitCode
from labeldp.platform.cli.command_line import main
from labeldp.platform.cli.encoders import probed
from labeldp.trainers.encoders import embedding
from labeldp.trainers.encoders.pretraining import Pretraining
from labeldp.trainers.models.schedules import EpochMetrics
from tests.platform.cli.asked import answer, refusal, words
from tests.trainers.encoders.small_encoders import SMALL, some_images

ROOM = SMALL.rpartition(":")[0]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "encoders.md"
TRAIN = ("self-supervise", "images.npz", "-o", "encoder.pt", "--width", "2", "--device", "cpu")
SHORT = ("--epochs", "2", "--batch-size", "8")


@pytest.fixture(autouse=True)
def _images() -> None:
    np.savez("images.npz", images=some_images(20))


def test_keys_leagues_and_progress_of_embeddings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("embed", "images.npz", "--encoder", SMALL, "--to", "x.npy", "--trained-on", "cats")
    said = answer(capsys, *asked)
    assert {"file", "rows", "dimensions", "hash", "league"} <= set(said)
    assert (said["file"], said["rows"], said["dimensions"]) == ("x.npy", 20, 6)
    assert said["league"] == "public-encoder" and "trained on cats" in said["provenance"]
    assert answer(capsys, *asked)["cached"]
    assert answer(capsys, *asked, "--no-outside-data", "--replace")["league"] == "none"
    monkeypatch.setattr(embedding, "_PAUSE", 0.0)
    assert main([*asked, "--half", "--replace", "--batch-size", "8", "--json"]) == ExitCode.DONE
    told = capsys.readouterr().err.splitlines()
    assert told == ["embedded 8 of 20 images", "embedded 16 of 20 images"]
    assert np.load("x.npy").dtype == np.float16


def test_an_interrupted_embedding_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["embed", "images.npz", "--encoder", f"{ROOM}:interrupted", "-o", "x.npy"]
    assert main([*asked, "--batch-size", "8"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"
    assert [path.name for path in Path().iterdir()] == ["images.npz"]


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        ("images.npz", {"--encoder": f"{ROOM}:sequences"}, "of shape (20, 5, 7)"),
        ("images.npz", {"--encoder": "torchvision:resnet81"}, "did you mean torchvision:resnet"),
        ("images.npz", {"--weights": "nowhere.pt"}, "weights nowhere.pt can't be read"),
        ("images.npz", {"-o": "x.npz"}, "ends in .npy"),
        ("cifar1O", {}, "did you mean cifar10"),
        ("no/where", {}, "is not a folder"),
    ],
)
def test_bad_input_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], source: str, changes: dict[str, str], message: str
) -> None:
    options = {"--encoder": SMALL, "-o": "x.npy", **changes}
    arguments = [word for pair in options.items() for word in pair]
    assert message in refusal(capsys, "embed", source, *arguments)
    assert [path.name for path in Path().iterdir()] == ["images.npz"]


def test_the_pages_encoder_of_the_images_alone_is_in_the_league_of_no_outside_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    part = PAGE.read_text().partition("## An encoder of your images alone")[2].partition("\n## ")[0]
    train, embed = (shlex.split(line)[1:] for line in re.findall(r"^    (labeldp .*)$", part, re.M))
    assert (train[0], embed[0]) == ("self-supervise", "embed")
    train += [*SHORT, "--width", "2"]
    assert main([*train, "--json"]) == 0
    assert capsys.readouterr().err.startswith("epoch 1 of 2: loss ")
    said = answer(capsys, *train)  # all is done already: nothing is told
    assert (said["epochs"], said["finished"], said["dimensions"]) == (2, True, 8)
    said = answer(capsys, *embed)
    assert (said["league"], said["rows"], said["dimensions"]) == ("none", 20, 8)
    assert np.isfinite(np.load("X.npy")).all()


@pytest.mark.parametrize("step", [1, -1], ids=["growing", "falling"])
def test_a_loss_that_does_not_fall_is_reported_in_words_and_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    trained = Pretraining.epoch

    def epoch(self: Pretraining) -> EpochMetrics:
        metrics = trained(self)
        return replace(metrics, loss=20.0 + step * metrics.epoch)

    monkeypatch.setattr(Pretraining, "epoch", epoch)
    out = words(capsys, *TRAIN, *SHORT)
    warning = answer(capsys, *TRAIN, *SHORT)["warning"]
    if step < 0:
        assert "warning" not in out and warning is None
        return
    assert re.search(r"^warning: the loss does not fall: it was 21 in epoch 1", out, re.M)
    assert "--learning-rate" in out and "--replace" in out and warning in out


def test_training_that_fails_is_not_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, *SHORT, "--learning-rate", "1e38", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and not Path("encoder.pt").exists()
    (line,) = [line for line in captured.err.splitlines() if not line.startswith("epoch ")]
    assert line.startswith("error: ") and "not finite in epoch" in line
    assert "set --learning-rate R" in line
    assert "is not there" in refusal(capsys, "self-supervise", "other.npz", "-o", "e.pt")
    assert "epochs" in refusal(capsys, *TRAIN, "--epochs", "0")
    assert "--probe reads public labels" in refusal(capsys, *TRAIN, "--probe")


def test_crops_with_a_probe_of_public_labels(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--views", "3", "--crop", "4", "--loss", "coding_rate", "--probe", "--no-flip")
    asked = ["self-supervise", "digits", "-o", "e.pt", "--width", "4", "--epochs", "1", *options]
    assert main([*asked, "--json"]) == ExitCode.DONE
    captured = capsys.readouterr()
    said = json.loads(captured.out)
    assert (said["views"], said["finished"]) == (3, True) and said["seconds"] > 0
    assert 0.2 < said["probe"] <= 1  # one class in ten is .1
    assert f", probe {said['probe']:.1%}, " in captured.err


def test_a_probe_learns_from_one_half_and_is_tested_on_the_other() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=400)
    vectors = np.eye(3)[labels] + 0.3 * generator.normal(size=(400, 3))
    assert probed(vectors.astype(np.float32), labels) > 0.85
    assert probed(generator.normal(size=(400, 300)).astype(np.float32), labels) < 0.5
