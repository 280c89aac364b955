"""`labeldp self-supervise`, and `labeldp embed` with what it wrote: its league, refused kindly."""

import numpy as np
import pytest

from labeldp.platform.cli.command_line import main
from tests.platform.cli.asked import answer, refusal
from tests.trainers.encoders.small_encoders import some_images

TRAIN = ("self-supervise", "images.npz", "-o", "encoder.pt", "--width", "2", "--device", "cpu")
SMALL = ("--epochs", "2", "--batch-size", "8")
ENCODER = ("--encoder", "labeldp.trainers.self_supervised.image_encoder:build")


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


def test_what_can_not_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not there" in refusal(capsys, "self-supervise", "other.npz", "-o", "e.pt")
    assert "epochs" in refusal(capsys, *TRAIN, "--epochs", "0")
    without = refusal(capsys, "embed", "images.npz", *ENCODER, "-o", "x.npy")
    assert "--weights FILE" in without
