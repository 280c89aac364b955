"""`labeldp embed`: as people call it, refused kindly, ended cleanly."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli import embed_verb
from labeldp.platform.cli.command_line import main
from labeldp.platform.cli.exit_codes import ExitCode
from tests.platform.cli.asked import answer, refusal
from tests.trainers.encoders.small_encoders import SMALL, some_images

ROOM = SMALL.rpartition(":")[0]


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
    monkeypatch.setattr(embed_verb, "_PAUSE", 0.0)
    asked = ["embed", "images.npz", "--encoder", SMALL, "-o", "x.npy", "--batch-size", "8"]
    assert main([*asked, "--json"]) == ExitCode.DONE
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("embedded 16 of 20 images, ")


def test_its_clock_starts_with_the_first_images(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([600.0, 610.0, 620.0])
    progress = embed_verb._Progress(clock=lambda: next(times))
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
        ({"--pool": "first"}, "invalid choice"),
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
    for source, message in (("cifar1O", "did you mean cifar10"), ("no/where", "no folder")):
        said = refusal(capsys, "embed", source, "--encoder", SMALL, "-o", "x.npy")
        assert message in said
