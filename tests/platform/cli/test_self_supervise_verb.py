"""`labeldp self-supervise`, and `labeldp embed` with what it wrote: its league, refused kindly."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli.command_line import main
from labeldp.trainers.encoders.pretraining import Pretraining, PretrainingMetrics
from tests.platform.cli.asked import answer, refusal
from tests.trainers.encoders.small_encoders import some_images

PAGE = Path(__file__).resolve().parents[3] / "docs" / "encoders.md"
TRAIN = ("self-supervise", "images.npz", "-o", "encoder.pt", "--width", "2", "--device", "cpu")
SMALL = ("--epochs", "2", "--batch-size", "8")
ENCODER = ("--encoder", "labeldp.trainers.encoders.image_encoder:build")


@pytest.fixture(autouse=True)
def _images() -> None:
    np.savez("images.npz", images=some_images(20))


def test_an_encoder_of_the_images_alone_is_in_the_league_of_no_outside_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*TRAIN, *SMALL, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("epoch 1: loss ")
    said = answer(capsys, *TRAIN, *SMALL)  # all is done already: nothing is told
    assert (said["epochs"], said["finished"], said["dimensions"]) == (2, True, 8)
    embedded = answer(
        capsys,
        *("embed", "images.npz", *ENCODER, "--weights", "encoder.pt", "-o", "x.npy"),
        *("--no-outside-data", "--trained-on", "these images, without labels"),
    )
    assert (embedded["league"], embedded["rows"], embedded["dimensions"]) == ("none", 20, 8)
    assert "trained on these images, without labels" in embedded["provenance"]


def test_the_pages_commands_run(capsys: pytest.CaptureFixture[str]) -> None:
    part = PAGE.read_text().partition("## An encoder of your images alone")[2].partition("\n## ")[0]
    train, embed = (shlex.split(line)[1:] for line in re.findall(r"^    (labeldp .*)$", part, re.M))
    assert (train[0], embed[0]) == ("self-supervise", "embed")
    assert main([*train, *SMALL, "--width", "2", "--json"]) == 0
    capsys.readouterr()
    said = answer(capsys, *embed)
    assert (said["league"], said["rows"], said["dimensions"]) == ("none", 20, 8)
    assert np.isfinite(np.load("X.npy")).all()


def test_what_can_not_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not there" in refusal(capsys, "self-supervise", "other.npz", "-o", "e.pt")
    assert "epochs" in refusal(capsys, *TRAIN, "--epochs", "0")
    without = refusal(capsys, "embed", "images.npz", *ENCODER, "-o", "x.npy")
    assert "--weights FILE" in without


def test_a_loss_that_does_not_fall_is_told_in_words_and_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Pretraining.epoch

    def growing(self: Pretraining) -> PretrainingMetrics:
        metrics = trained(self)
        return replace(metrics, loss=20.0 + metrics.epoch)

    monkeypatch.setattr(Pretraining, "epoch", growing)
    assert main([*TRAIN, *SMALL]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^warning: the loss does not fall: it was 21 in epoch 1", out, re.M)
    assert "--learning-rate" in out and "--replace" in out
    assert answer(capsys, *TRAIN, *SMALL)["warning"] in out


def test_of_losses_that_fall_nothing_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Pretraining.epoch

    def falling(self: Pretraining) -> PretrainingMetrics:
        metrics = trained(self)
        return replace(metrics, loss=20.0 - metrics.epoch)

    monkeypatch.setattr(Pretraining, "epoch", falling)
    assert main([*TRAIN, *SMALL]) == 0
    assert "warning" not in capsys.readouterr().out
    assert answer(capsys, *TRAIN, *SMALL)["warning"] is None


def test_a_loss_that_is_not_finite_is_no_success_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*TRAIN, *SMALL, "--learning-rate", "1e38", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and not Path("encoder.pt").exists()
    (line,) = [line for line in captured.err.splitlines() if not line.startswith("epoch ")]
    assert line.startswith("error: ") and "not finite in epoch" in line
    assert "say --learning-rate R" in line
