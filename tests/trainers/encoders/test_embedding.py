"""embedding: images of every source; files are whole, known by hash, never overwritten."""

import json
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from labeldp.platform.cli.command import ExitCode
from labeldp.platform.settings.configuration import DataSettings, TrialConfig
from labeldp.platform.sweep.driver import load_data
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import DataFileError, DatasetMissing
from labeldp.trainers.data.labelled_data import LabelledData, labelled, load, load_own
from labeldp.trainers.data.own_data import with_embeddings
from labeldp.trainers.data.own_files import OwnSource
from labeldp.trainers.data.splits import League, checked_record, digest_of_images, record_place
from labeldp.trainers.encoders.embedding import CACHE, cache_folder, load_encoder, publicly_trained
from labeldp.trainers.encoders.encoder import (
    EncoderRequest,
    WeightsRefused,
    digest_of,
    image_source,
)
from labeldp.trainers.encoders.image_encoder import ImageEncoder
from labeldp.trainers.settings.training import LearnerConfig, fast_training
from tests.platform.cli.asked import refusal, run
from tests.trainers.data_samples import write_cifar_binary
from tests.trainers.encoders.small_encoders import SMALL, embedded, some_images
from tests.trainers.small_data import ON_CPU, small_images

ROOM = SMALL.rpartition(":")[0]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    np.save(tmp_path / "images.npy", some_images(20))
    return tmp_path / "images.npy"


@pytest.mark.parametrize("change", [{"seed": 1}, {"image_size": 9}, {"address": f"{ROOM}:large"}])
@pytest.mark.parametrize("name", ["small", "drawn"])
def test_vectors_are_kept_by_default(
    images: Path, tmp_path: Path, change: dict[str, Any], name: str
) -> None:
    out = tmp_path / "x.npy"
    change = {"address": f"{ROOM}:{name}", **change}
    first = embedded(images, out, f"{ROOM}:{name}")
    with pytest.raises(DataFileError, match=r"holds other features .* add --replace"):
        embedded(images, out, **change)
    replaced = embedded(images, out, **change, replace=True)
    assert replaced["hash"] != first["hash"] and not replaced["cached"]


def test_corrected_statements_of_origin_are_kept(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.npy"
    first = embedded(images, out, no_outside_data=True)
    again = embedded(images, out, trained_on="ImageNet", trained_by="Meta")
    assert again["cached"] and again["sha256"] == first["sha256"]
    assert (first["league"], again["league"]) == ("none", "public-encoder")
    record = checked_record(out)
    assert record is not None and record.provenance.league is League.PUBLIC_ENCODER
    assert "trained on ImageNet, by Meta" in again["provenance"] == record.provenance.words


def test_other_images_and_other_files_are_refused(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.npy"
    embedded(images, out)
    np.save(images, some_images(20, seed=1))
    with pytest.raises(DataFileError, match="of other images"):
        embedded(images, out)
    np.save(images, some_images(20))
    np.save(out, np.zeros((20, 6), np.float32))
    with pytest.raises(DataFileError, match="another file lies under that name"):
        embedded(images, out)
    record_place(out).unlink()
    with pytest.raises(DataFileError, match="no record beside it describes it"):
        embedded(images, out)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("not_finite", {}, "makes of image 0 a vector with NaN or inf"),
        ("one_vector", {}, "returns 1 vectors for 8 images"),
        ("of_its_batch", {}, "makes 4 numbers of image 16, and 8 of image 0; .*--image-size N"),
        ("small", {"image_size": 2}, r"fails on a batch of shape .*--image-size N"),
    ],
)
def test_bad_vectors_leave_nothing(
    images: Path, tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    before = set(os.listdir(tmp_path))
    with pytest.raises(ValueError, match=message):
        embedded(images, tmp_path / "x.npy", f"{ROOM}:{name}", **options)
    assert set(os.listdir(tmp_path)) == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images of two sizes in two folders, and a file of text."""
    for place, side in (("b/1.png", 6), ("a/2.PNG", 6), ("a/1.jpg", 9)):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.fromarray(some_images(1, side=side)[0].transpose(1, 2, 0)).save(tmp_path / place)
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_is_read_by_path_and_leaves_a_list_of_its_rows(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = image_source(str(folder))
    assert source.rows == 3
    (first, second), (third,) = source.batches(2)
    assert first.shape == (3, 9, 9) and second.shape == (3, 6, 6)
    assert (third.numpy() == some_images(1, side=6)[0]).all()
    digest = source.digest()
    assert image_source(str(folder)).digest() == digest
    found = embedded(folder, tmp_path_factory.mktemp("out") / "x.npy", image_size=8)
    assert found["names"] is not None
    assert Path(found["names"]).read_text() == "a/1.jpg\na/2.PNG\nb/1.png\n"
    assert Path(found["names"]).stat().st_mode & 0o077 == 0  # folders may be called after classes
    (folder / "b" / "1.png").write_bytes((folder / "a" / "1.jpg").read_bytes())
    assert image_source(str(folder)).digest() != digest


def test_arrays_of_every_order(tmp_path: Path) -> None:
    images = some_images(5)
    np.save(tmp_path / "x.npy", images.transpose(0, 2, 3, 1))
    np.savez(tmp_path / "a.npz", features=images, labels=np.zeros(5))
    np.savez(tmp_path / "b.npz", train_features=images[:3], test_features=images[3:])
    for name in ("x.npy", "a.npz", "b.npz"):
        source = image_source(str(tmp_path / name))
        assert source.digest() == digest_of_images(images)
        rows = torch.cat([torch.as_tensor(batch) for batch in source.batches(2)])
        assert source.rows == 5 and (rows.numpy() == images).all()
    source, public = image_source("digits"), load("digits").public
    parts = [public.train_features.numpy(), public.test_features.numpy()]
    assert source.digest() == digest_of_images(*parts)


def test_sources_without_images_are_refused(folder: Path) -> None:
    np.save(folder / "x.npy", np.ones((3, 4, 4)))
    np.savez(folder / "c.npz", other=np.ones(2))
    np.savez(folder / "d.npz", train_features=some_images(2), test_features=some_images(2, side=5))
    np.save(folder / "wide.npy", np.ones((3, 4, 5, 6), np.uint8))
    (folder / "broken").mkdir()
    (folder / "broken" / "1.png").write_bytes(random.Random(0).randbytes(50))
    (folder / "empty").mkdir()
    for named, message in (
        ("x.npy", "float64 of shape .* images are uint8"),
        ("wide.npy", "1 or 3 channels"),
        ("c.npz", "holds other; images are called"),
        ("d.npz", "training images have shape"),
        ("nowhere.npz", "is not there"),
        ("nowhere/at/all", "is not a folder, an .npz"),
        ("empty", "holds no image"),
    ):
        with pytest.raises(ValueError, match=message):
            image_source(str(folder / named))
    with pytest.raises(ValueError, match=r"1\.png can't be read as an image"):
        next(iter(image_source(str(folder / "broken")).batches(1)))
    with pytest.raises(ValueError, match=r"labeldp embed IMAGES\.npz"):
        image_source("own")


# pretrained: another set's public labels, confirmed; never those that are to be protected.

LEARNED, TRAIN, TEST = 250, 200, 60
PUBLIC = ("--encoder", "pretrained:cifar100", "--public-labels")


def colors(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [N, 3, 32, 32] of ten colors, and which."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 10, count)
    palette = np.random.default_rng(5).integers(0, 200, (10, 3))
    noise = generator.integers(0, 56, (count, 3, 32, 32))
    return (palette[labels][:, :, None, None] + noise).astype(np.uint8), labels


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE, str(tmp_path / "kept"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    images, fine = colors(LEARNED, 1)
    for part in ("train", "test"):
        write_cifar_binary(Path(f"data/cifar-100-binary/{part}.bin"), images, fine // 5, fine)
    own, labels = colors(TRAIN + TEST, 2)
    folder = Path("data/cifar-10-batches-bin")
    for number, rows in enumerate(np.array_split(np.arange(TRAIN), 5), start=1):
        write_cifar_binary(folder / f"data_batch_{number}.bin", own[rows], labels[rows])
    write_cifar_binary(folder / "test_batch.bin", own[TRAIN:], labels[TRAIN:])
    monkeypatch.setenv("LABELDP_DATA", "data")


def of_cifar(out: str) -> tuple[dict[str, Any], Sequence[str]]:
    _, found, progress = run("embed", "cifar10", *PUBLIC, "-o", out, "--json")
    return json.loads(found), progress.splitlines()


def test_vectors_of_private_images(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted call leaves nothing, and a second one trains nothing."""
    with monkeypatch.context() as patch:
        stop = Mock(side_effect=KeyboardInterrupt)
        patch.setattr("labeldp.trainers.models.learner.Training.epoch", stop)
        code, _, err = run("embed", "cifar10", *PUBLIC, "-o", "x.npy")
    assert code == ExitCode.INTERRUPTED and err.endswith("interrupted\n")
    assert sorted(str(path) for path in Path().rglob("*.*")) == sorted(
        str(path) for path in Path("data").rglob("*.*")
    )
    found, progress = of_cifar("x.npy")
    assert (found["rows"], found["dimensions"], found["cached"]) == (TRAIN + TEST, 1088, False)
    assert found["league"] == "public-encoder"
    assert "trained on cifar100 with its labels, public by the user's word" in found["provenance"]
    assert [line.split(":")[0] for line in progress[1:11]] == [
        f"epoch {number} of 10" for number in range(1, 11)
    ]
    data = load_data(TrialConfig(data=DataSettings(name="cifar10", embeddings="x.npy")))
    assert data.public.provenance.encoder == "pretrained:cifar100"
    train, test = (part.numpy() for part in (data.public.train_features, data.public.test_features))
    means = np.stack([train[data.train_labels == label].mean(0) for label in range(10)])
    nearest = np.square(test[:, None] - means).sum(2).argmin(1)
    assert (nearest == data.public.test_labels).mean() > 0.5  # a tenth of all guesses is by chance
    monkeypatch.delattr("labeldp.trainers.models.learner.Training.epoch")
    again, progress = of_cifar("x.npy")
    assert len(progress) == 1 and progress[0].startswith("weights of an earlier call: ")
    other, _ = of_cifar("other.npy")
    assert again["cached"] and not other["cached"]
    assert found["hash"] == other["hash"] and found["sha256"] == other["sha256"]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("cifar10", "", "add --public-labels"),
        ("cifar100", "--public-labels", "would be trained on the labels of cifar100, and"),
        ("cifar10", "--public-labels --weights random", "leave --weights, "),
        ("cifar10", "--public-labels --no-outside-data", "leave --weights, --no-outside-data"),
        ("cifar10", "--public-labels --trained-on cats", "and --trained-on out"),
        ("cifar10", "--public-labels --encoder pretrained:cifar1000", "did you mean cifar100"),
        ("cifar10", "--public-labels --encoder timm:x", "public_labels is for pretrained"),
        ("copy.npy", "--public-labels", "6 of the 500 images are in cifar100 too"),
    ],
)
def test_protected_labels_are_refused_before_any_training(
    small: None, source: str, options: str, message: str
) -> None:
    images = colors(500, 3)[0]
    images[-6:] = load("cifar100").public.train_features[:6].numpy()
    np.save("copy.npy", images)
    command = f"embed {source} --encoder pretrained:cifar100 {options} -o x.npy"
    assert message in refusal(*command.split())
    assert not Path("x.npy").exists() and not Path("kept").exists()


def test_secret_images_are_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


QUICK = LearnerConfig(**fast_training(epochs=2, width=2, label_smoothing=0.1))


def trained(data: LabelledData, recipe: LearnerConfig = QUICK, *, seed: int = 0) -> ImageEncoder:
    return publicly_trained(data, recipe, seed=seed, performance=ON_CPU)


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


# Vectors in place of a data set's images, and what lies beside features of the user's own.

DIGITS = 1797
GREY = "tests.trainers.encoders.test_embedding:grey"


def grey(weights: Path | None) -> object:
    return lambda images: images.flatten(1).float()[:, ::7]


def digits(file: Path, *, limit: int | None = None) -> LabelledData:
    splits = with_embeddings("digits", find("digits").read(Path()), file)
    return labelled("digits", splits, limit=limit)


def vectors(rows: int = DIGITS, *, value: float = 0.0) -> NDArray[np.float32]:
    found = np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32)
    found[1500, 2] = value
    return found


def test_a_data_sets_images_become_vectors_and_labels_stay(tmp_path: Path) -> None:
    found = embedded("digits", tmp_path / "x.npy", GREY)
    assert (found["rows"], found["dimensions"]) == (DIGITS, 10)
    data, plain = digits(tmp_path / "x.npy"), load("digits")
    assert data.public.provenance.encoder == GREY
    assert data.public.provenance.league is League.PUBLIC_ENCODER
    assert (data.train_labels == plain.train_labels).all()
    assert (data.public.test_labels == plain.public.test_labels).all()
    raw = np.load(tmp_path / "x.npy")
    first = data.public.preprocessing(raw[: len(plain.train_labels)])
    assert torch.equal(first, data.public.train_features)
    pixels = plain.public.test_features.flatten(1).numpy()[:, ::7]
    assert torch.equal(data.public.preprocessing(pixels), data.public.test_features)
    few = digits(tmp_path / "x.npy", limit=100)
    assert (few.train_labels == load("digits", limit=100).train_labels).all()
    assert few.public.provenance == data.public.provenance


def test_vectors_of_other_images_or_of_another_file_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", some_images(DIGITS, side=8)[:, :1])
    embedded(tmp_path / "images.npy", tmp_path / "x.npy", GREY)
    with pytest.raises(DataFileError, match="of other images than those of digits"):
        digits(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", vectors())
    with pytest.raises(DataFileError, match="another file lies under that name"):
        digits(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (vectors(1796), "holds 1,796 vectors, but digits has 1,438 training and 359 testing"),
        (vectors(value=np.nan), r"row 1500, column 2 is nan"),
        (vectors(value=np.inf).astype(np.float16), "is inf.*half precision ends at 65,504"),
        (vectors().astype(np.int64), "holds int64 of shape"),
        (vectors()[..., None], r"holds float32 of shape \(1797, 5, 1\)"),
    ],
)
def test_an_encoder_without_a_vector_per_row_is_refused(matrix: NDArray[Any], message: str) -> None:
    np.save("x.npy", matrix)
    with pytest.raises(ValueError, match=message):
        digits(Path("x.npy"))


def test_files_that_are_not_there_or_no_npy(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match=r"labeldp embed digits --encoder E -o x\.npy"):
        digits(tmp_path / "x.npy")
    (tmp_path / "x.csv").write_text("1,2\n")
    with pytest.raises(ValueError, match=r"must be an \.npy"):
        digits(tmp_path / "x.csv")


def own(folder: Path) -> LabelledData:
    """Own features `x.npy` and `t.npy`, of the labels that lie there too."""
    for name, rows in (("y", 20), ("u", 8)):
        np.save(folder / f"{name}.npy", np.arange(rows) % 2)
    source = OwnSource(
        path=folder / "x.npy",
        labels=folder / "y.npy",
        test_path=folder / "t.npy",
        test_labels=folder / "u.npy",
        classes=2,
    )
    return load_own(source)


def test_own_features_pick_up_what_lies_beside(tmp_path: Path) -> None:
    for name, rows in (("x", 20), ("t", 8)):
        np.save(tmp_path / f"{name}-images.npy", some_images(rows, seed=rows))
        embedded(tmp_path / f"{name}-images.npy", tmp_path / f"{name}.npy", seed=4)
    found = own(tmp_path).public
    assert found.provenance.league is League.PUBLIC_ENCODER and found.provenance.weights
    other = embedded(tmp_path / "t-images.npy", tmp_path / "t.npy", seed=5, replace=True)
    assert other["rows"] == 8
    with pytest.raises(DataFileError, match="or with other weights"):
        own(tmp_path)
    record_place(tmp_path / "t.npy").unlink()
    with pytest.raises(DataFileError, match=r"t\.npy has no record of the encoder"):
        own(tmp_path)
    record_place(tmp_path / "x.npy").unlink()
    assert own(tmp_path).public.provenance.league is League.NOT_STATED
    shutil.copy(tmp_path / "x-images.npy", tmp_path / "x.npy")
    shutil.copy(tmp_path / "t-images.npy", tmp_path / "t.npy")
    assert own(tmp_path).public.provenance.league is League.NONE  # images as they are
