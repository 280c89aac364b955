"""pretrained: another set's public labels, confirmed; never those that are to be protected.

At a small size through the command line, on images made here.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from labeldp.platform.cli.command import ExitCode
from labeldp.platform.cli.command_line import main
from labeldp.platform.sweep.configuration import DataSettings
from labeldp.platform.sweep.driver import load_data
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.encoders.embedding import CACHE, cache_folder, load_encoder, publicly_trained
from labeldp.trainers.encoders.encoder import (
    EncoderRequest,
    WeightsRefused,
    digest_of,
    image_source,
)
from labeldp.trainers.encoders.image_encoder import ImageEncoder
from labeldp.trainers.models.schedules import fast_training
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.training import LearnerConfig
from tests.platform.cli.asked import refusal
from tests.trainers.data_samples import write_cifar_binary
from tests.trainers.small_data import small_images, small_table

LEARNED, TRAIN, TEST = 250, 200, 60
PUBLIC = ("--encoder", "pretrained:cifar100", "--public-labels")
CPU = Performance(device=Device.CPU)
Images = tuple[NDArray[np.uint8], NDArray[np.int64]]


def colors(count: int, seed: int) -> Images:
    """Images [N, 3, 32, 32] of ten colors, and which."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 10, count)
    palette = np.random.default_rng(5).integers(0, 200, (10, 3))
    noise = generator.integers(0, 56, (count, 3, 32, 32))
    return (palette[labels][:, :, None, None] + noise).astype(np.uint8), labels


def written(root: Path, learned: Images, private: Images) -> None:
    """Both sets in their published format."""
    (images, fine), (own, labels) = learned, private
    for part in ("train", "test"):
        file = root / "cifar-100-binary" / f"{part}.bin"
        write_cifar_binary(file, images, fine // 5, fine)
    folder = root / "cifar-10-batches-bin"
    for number, rows in enumerate(np.array_split(np.arange(TRAIN), 5), start=1):
        write_cifar_binary(folder / f"data_batch_{number}.bin", own[rows], labels[rows])
    write_cifar_binary(folder / "test_batch.bin", own[TRAIN:], labels[TRAIN:])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE, str(tmp_path / "kept"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    written(Path("data"), colors(LEARNED, 1), colors(TRAIN + TEST, 2))
    monkeypatch.setenv("LABELDP_DATA", "data")


def embedded(capsys: pytest.CaptureFixture[str], out: str) -> tuple[dict[str, Any], Sequence[str]]:
    """The command's result, and its progress."""
    assert main(["embed", "cifar10", *PUBLIC, "-o", out, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err.splitlines()


def stop(self: object) -> None:
    """In place of an epoch of training."""
    raise KeyboardInterrupt


def test_vectors_of_private_images_and_their_league(
    small: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted call leaves nothing, and a second one trains nothing."""
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.trainers.models.learner.Training.epoch", stop)
        assert main(["embed", "cifar10", *PUBLIC, "-o", "x.npy"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err.endswith("interrupted\n")
    assert sorted(str(path) for path in Path().rglob("*.*")) == sorted(
        str(path) for path in Path("data").rglob("*.*")
    )
    found, progress = embedded(capsys, "x.npy")
    assert (found["rows"], found["dimensions"], found["cached"]) == (TRAIN + TEST, 128, False)
    assert found["league"] == "public-encoder"
    assert "trained on cifar100 with its labels, public by the user's word" in found["provenance"]
    assert [line.split(":")[0] for line in progress[1:11]] == [
        f"epoch {number} of 10" for number in range(1, 11)
    ]
    data = load_data(DataSettings(name="cifar10", embeddings="x.npy"))
    assert data.public.provenance.encoder == "pretrained:cifar100"
    train, test = (part.numpy() for part in (data.public.train_features, data.public.test_features))
    means = np.stack([train[data.train_labels == label].mean(0) for label in range(10)])
    nearest = np.square(test[:, None] - means).sum(2).argmin(1)
    assert (nearest == data.public.test_labels).mean() > 0.5  # a tenth of all guesses is by chance
    monkeypatch.delattr("labeldp.trainers.models.learner.Training.epoch")
    again, progress = embedded(capsys, "x.npy")
    assert len(progress) == 1 and progress[0].startswith("weights of an earlier call: ")
    other, _ = embedded(capsys, "other.npy")
    assert again["cached"] and not other["cached"]
    assert found["hash"] == other["hash"] and found["sha256"] == other["sha256"]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("cifar10", [], "add --public-labels"),
        ("cifar100", ["--public-labels"], "would be trained on the labels of cifar100, and"),
        ("cifar10", ["--public-labels", "--weights", "random"], "leave --weights, "),
        ("cifar10", ["--public-labels", "--no-outside-data"], "leave --weights, --no-outside-data"),
        ("cifar10", ["--public-labels", "--trained-on", "cats"], "and --trained-on out"),
        (
            "cifar10",
            ["--public-labels", "--encoder", "pretrained:cifar1000"],
            "did you mean cifar100",
        ),
        ("cifar10", ["--public-labels", "--encoder", "timm:x"], "public_labels is for pretrained"),
        ("copy.npy", ["--public-labels"], "6 of the 500 images are in cifar100 too"),
    ],
)
def test_protected_labels_are_refused_before_any_training(
    small: None,
    capsys: pytest.CaptureFixture[str],
    source: str,
    options: list[str],
    message: str,
) -> None:
    images = colors(500, 3)[0]
    images[-6:] = load("cifar100").public.train_features[:6].numpy()
    np.save("copy.npy", images)
    command = ("embed", source, "--encoder", "pretrained:cifar100", *options, "-o", "x.npy")
    assert message in refusal(capsys, *command)
    assert not Path("x.npy").exists() and not Path("kept").exists()


def test_secret_images_without_color_are_recognized_in_color(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As files, which are read in color, and as an array of three equal channels."""
    monkeypatch.delattr("labeldp.trainers.models.learner.Training.epoch")
    images = load("digits").public.train_features.numpy()[:20]
    for number, image in enumerate(images):
        Image.fromarray(image[0]).save(tmp_path / f"{number:02}.png")
    np.save(tmp_path / "colored.npy", np.repeat(images, 3, axis=1))
    request = EncoderRequest(address="pretrained:digits", public_labels=True)
    for named in (str(tmp_path), str(tmp_path / "colored.npy")):
        with pytest.raises(ValueError, match="20 of the 20 images are in digits too"):
            load_encoder(request, images=image_source(named), source=named)


# ------------------------------------------------------------------------------- kept by content

QUICK = LearnerConfig(**fast_training(epochs=2, width=2, label_smoothing=0.1))


def trained(data: LabelledData, recipe: LearnerConfig = QUICK, *, seed: int = 0) -> ImageEncoder:
    return publicly_trained(data, recipe, seed=seed, performance=CPU)


@pytest.fixture(scope="module")
def data() -> LabelledData:
    public, labels = small_images(examples=120, side=8)
    return LabelledData(public=public, train_labels=labels)


def test_other_data_and_settings_are_trained_anew(data: LabelledData) -> None:
    first = trained(data)
    assert digest_of(first) == digest_of(trained(data))
    negatives = replace(data.public, train_features=255 - data.public.train_features)
    for data_set, recipe, seed in (
        (replace(data, train_labels=2 - data.train_labels), QUICK, 0),
        (replace(data, public=negatives), QUICK, 0),
        (data, QUICK, 1),
        (data, replace(QUICK, epochs=1), 0),
    ):
        trained(data_set, recipe, seed=seed)
    assert len(list(cache_folder().iterdir())) == 5


def test_damaged_weights_and_those_of_other_labels_are_refused(data: LabelledData) -> None:
    """A file whose weights learned other labels is whole, undamaged and of the same network."""
    trained(data)
    (file,) = cache_folder().iterdir()
    trained(replace(data, train_labels=2 - data.train_labels))
    (other,) = set(cache_folder().iterdir()) - {file}
    right = torch.load(file, weights_only=True)
    right["weights"]["network.filters"] += 1
    torch.save(right, "changed.pt")
    for content, message in (
        (other.read_bytes(), "another file lies under their name"),
        (Path("changed.pt").read_bytes(), "or it is damaged"),
        (file.read_bytes()[:-9], "can't be read"),
    ):
        file.write_bytes(content)
        with pytest.raises(WeightsRefused, match=f"{message}.*take .* away"):
            trained(data)


def test_tables_are_refused() -> None:
    public, labels = small_table()
    with pytest.raises(ValueError, match="table holds no images"):
        trained(LabelledData(public=public, train_labels=labels))
