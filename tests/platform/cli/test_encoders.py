"""encoders: `labeldp embed` and `self-supervise`; leagues, progress, refusals, clean ends."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli import encoders
from labeldp.platform.cli.command import ExitCode
from labeldp.platform.cli.command_line import main
from labeldp.trainers.encoders.pretraining import Pretraining, PretrainingMetrics
from tests.platform.cli.asked import answer, refusal, words
from tests.trainers.encoders.small_encoders import SMALL, some_images

ROOM = SMALL.rpartition(":")[0]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "encoders.md"
TRAIN = ("self-supervise", "images.npz", "-o", "encoder.pt", "--width", "2", "--device", "cpu")
SHORT = ("--epochs", "2", "--batch-size", "8")
ENCODER = ("--encoder", "labeldp.trainers.encoders.image_encoder:build")


@pytest.fixture(autouse=True)
def _images() -> None:
    np.savez("images.npz", images=some_images(20))


def test_json_says_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("embed", "images.npz", "--encoder", SMALL, "--to", "x.npy", "--trained-on", "cats")
    said = answer(capsys, *asked)
    assert {"file", "rows", "dimensions", "hash", "league"} <= set(said)
    assert (said["file"], said["rows"], said["dimensions"]) == ("x.npy", 20, 6)
    assert said["league"] == "public-encoder" and "trained on cats" in said["provenance"]
    assert answer(capsys, *asked)["cached"]
    said = answer(capsys, *asked, "--no-outside-data", "--replace")
    assert said["league"] == "none"
    said = answer(capsys, "embed", "images.npz", "--encoder", SMALL, "-o", "h.npy", "--half")
    assert np.load("h.npy").dtype == np.float16


def test_progress_is_told_beside_the_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "_PAUSE", 0.0)
    asked = ["embed", "images.npz", "--encoder", SMALL, "-o", "x.npy", "--batch-size", "8"]
    assert main([*asked, "--json"]) == ExitCode.DONE
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("embedded 16 of 20 images, ")


def test_its_clock_starts_with_the_first_images(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([600.0, 610.0, 620.0])
    progress = encoders.Progress(clock=lambda: next(times))
    for done in (100, 300, 500):
        progress(done, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "embedded 300 of 1,000 images, 20 a second, about 35 s left",
        "embedded 500 of 1,000 images, 20 a second, about 25 s left",
    ]


def test_who_stops_it_is_told_so_and_nothing_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["embed", "images.npz", "--encoder", f"{ROOM}:interrupted", "-o", "x.npy"]
    assert main([*asked, "--batch-size", "8"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"
    assert [path.name for path in Path().iterdir()] == ["images.npz"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--encoder": f"{ROOM}:sequences"}, "of shape (20, 5, 7)"),
        ({"--encoder": "torchvision:resnet81"}, "did you mean torchvision:resnet"),
        ({"--encoder": "resnet18"}, "torchvision:NAME"),
        ({"--weights": "nowhere.pt"}, "weights nowhere.pt can't be read"),
        ({"-o": "x.npz"}, "ends in .npy"),
        ({"--pool": "first"}, "not one of"),
        ({"--trained-on": "a\nb"}, "must be one line"),
        ({"--image-size": "0"}, "image_size"),
        ({"--seed": "-1"}, "seed"),
    ],
)
def test_bad_input_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], changes: dict[str, str], message: str
) -> None:
    options = {"--encoder": SMALL, "-o": "x.npy", **changes}
    arguments = [word for pair in options.items() for word in pair]
    assert message in refusal(capsys, "embed", "images.npz", *arguments)
    assert [path.name for path in Path().iterdir()] == ["images.npz"]


def test_a_source_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for source, message in (("cifar1O", "did you mean cifar10"), ("no/where", "is not a folder")):
        said = refusal(capsys, "embed", source, "--encoder", SMALL, "-o", "x.npy")
        assert message in said


def test_an_encoder_of_the_images_alone_is_in_the_league_of_no_outside_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*TRAIN, *SHORT, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("epoch 1: loss ")
    said = answer(capsys, *TRAIN, *SHORT)  # all is done already: nothing is told
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
    assert main([*train, *SHORT, "--width", "2", "--json"]) == 0
    capsys.readouterr()
    said = answer(capsys, *embed)
    assert (said["league"], said["rows"], said["dimensions"]) == ("none", 20, 8)
    assert np.isfinite(np.load("X.npy")).all()


def test_what_can_not_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not there" in refusal(capsys, "self-supervise", "other.npz", "-o", "e.pt")
    assert "epochs" in refusal(capsys, *TRAIN, "--epochs", "0")
    without = refusal(capsys, "embed", "images.npz", *ENCODER, "-o", "x.npy")
    assert "--weights FILE" in without


@pytest.mark.parametrize("step", [1, -1], ids=["growing", "falling"])
def test_a_loss_that_does_not_fall_is_reported_in_words_and_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    trained = Pretraining.epoch

    def epoch(self: Pretraining) -> PretrainingMetrics:
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


def test_a_loss_that_is_not_finite_is_no_success_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*TRAIN, *SHORT, "--learning-rate", "1e38", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and not Path("encoder.pt").exists()
    (line,) = [line for line in captured.err.splitlines() if not line.startswith("epoch ")]
    assert line.startswith("error: ") and "not finite in epoch" in line
    assert "set --learning-rate R" in line
