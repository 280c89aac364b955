"""Published data sets: every format, damaged and hostile files, the catalog and its downloads."""

import shutil
import tarfile
import urllib.error
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.io import savemat

from labeldp.trainers.data.catalog import DATASETS, fetch, find, from_archive
from labeldp.trainers.data.conversions import SECRETS, conversions
from labeldp.trainers.data.files import DataFileError, DatasetMissing, FileRefused
from labeldp.trainers.data.labelled_data import FeatureKind, load
from labeldp.trainers.data.published import read_cifar_binary, read_idx, read_movielens, read_svhn
from labeldp.trainers.data.splits import held_out
from tests.real_data import real_data_root
from tests.trainers.data_samples import (
    ADULT_TEST,
    ADULT_TRAIN,
    images,
    write_adult,
    write_cifar_binary,
    write_idx,
    write_mnist,
)
from tests.trainers.ratings import write_ratings

LABELS = np.arange(10)
#: SVHN writes the digit 0 as 10.
DIGITS = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 1], dtype=np.uint8)
RATINGS = ["3::10::5::978300760", "3::20::1::978302109", "9::10::3::978301968"]


@pytest.mark.parametrize(
    ("name", "folder"),
    [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST"), ("kmnist", "KMNIST")],
)
def test_idx_files_give_the_images_back(tmp_path: Path, name: str, folder: str) -> None:
    pixels = write_mnist(tmp_path, folder=folder)
    data = load(name, root=tmp_path)
    assert torch.equal(data.public.train_features, torch.from_numpy(pixels[:, None]))
    assert data.train_labels.tolist() == list(range(10)) * 2
    assert len(data.public.test_features) == len(data.public.test_labels) == 10


def test_damaged_idx_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "images"
    write_idx(path, images(5, 28, 28))
    path.write_bytes(path.read_bytes()[:-1])
    expected = "images has 3,935 bytes, but its header announces 5x28x28 entries, 3,936 bytes"
    with pytest.raises(DataFileError, match=expected):
        read_idx(path, dimensions=3)
    for content in (b"", b"\x1f\x8b\x08\x00 a gzip file", b"\x00\x00\x08\x03\x00"):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"starts with 00 00 08 03.*decompress"):
            read_idx(path, dimensions=3)
    # A header that announces more than any memory holds.
    path.write_bytes(b"\x00\x00\x08\x03" + b"\xff" * 12)
    with pytest.raises(DataFileError, match="4294967295x4294967295x4294967295"):
        read_idx(path, dimensions=3)


def test_batches_of_cifar_make_the_sets(tmp_path: Path) -> None:
    for batch in range(6):
        pixels = images(10, 3, 32, 32, seed=batch)
        name = "test_batch" if batch == 5 else f"data_batch_{batch + 1}"
        write_cifar_binary(tmp_path / f"cifar-10-batches-bin/{name}.bin", pixels, LABELS)
    fine, coarse = np.arange(100)[::-1], np.arange(100) // 5
    for part, seed in (("train", 0), ("test", 1)):
        pixels = images(100, 3, 32, 32, seed=seed)
        write_cifar_binary(tmp_path / f"cifar-100-binary/{part}.bin", pixels, coarse, fine)
    for cifar, labels in (("cifar10", LABELS.tolist() * 5), ("cifar100", fine.tolist())):
        data = load(cifar, root=tmp_path)
        assert data.train_labels.tolist() == labels
        first = torch.from_numpy(images(len(labels) if cifar == "cifar100" else 10, 3, 32, 32))
        assert torch.equal(data.public.train_features[: len(first)], first)


def test_a_cut_off_binary_batch_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    write_cifar_binary(path, images(3, 3, 32, 32), LABELS[:3])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataFileError, match=r"data_batch_1\.bin has 9,119 bytes.*3,073 bytes"):
        read_cifar_binary(path, label_bytes=1)
    path.write_bytes(b"")
    with pytest.raises(DataFileError, match="has 0 bytes"):
        read_cifar_binary(path, label_bytes=1)


def test_adult_as_published(tmp_path: Path) -> None:
    write_adult(tmp_path)
    data = load("adult", root=tmp_path)
    assert data.train_labels.tolist() == [0, 1, 0]
    assert data.public.test_labels.tolist() == [0, 1]
    assert data.public.class_names == ("<=50K", ">50K")
    # 6 numbers; categories of the 8 other columns in the training rows, `?` among them.
    assert data.public.train_features.shape == (3, 6 + 3 + 2 + 3 + 3 + 2 + 2 + 2 + 2)
    train, test = data.public.train_features.numpy(), data.public.test_features.numpy()
    ages = np.array([39, 50, 38])
    np.testing.assert_allclose(train[:, 0], (ages - ages.mean()) / ages.std(), rtol=1e-6)
    np.testing.assert_allclose(test[:, 0], (np.array([25, 38]) - ages.mean()) / ages.std(), 1e-6)
    assert train[:, 1:4].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]  # ?, Private, State-gov
    assert test[:, 1:4].tolist() == [[0, 1, 0], [0, 0, 0]]  # no training row never worked


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (ADULT_TRAIN[:-40], ADULT_TEST, r"adult\.data row 2 ends with no label"),
        (ADULT_TRAIN, ADULT_TEST.replace(">50K.", "50K."), r"adult\.test row 1 ends with no label"),
        (ADULT_TRAIN.replace("<=50K", "secret"), ADULT_TEST, "row 0 ends with no label"),
        (ADULT_TRAIN.replace("50, P", "old, P"), ADULT_TEST, "row 1 has no number in column 'age'"),
        (ADULT_TRAIN, "|1x3 Cross validator\n", r"adult\.test has 0 rows"),
        (ADULT_TRAIN.replace("50, P", "50, 50, P"), ADULT_TEST, r"adult\.data \(.*can't be read"),
    ],
)
def test_damaged_adult_files_are_named(tmp_path: Path, train: str, test: str, message: str) -> None:
    write_adult(tmp_path, train=train, test=test)
    with pytest.raises(DataFileError, match=message) as caught:
        load("adult", root=tmp_path)
    assert "secret" not in str(caught.value)


def write_svhn(path: Path, *, seed: int = 0, compressed: bool = True) -> NDArray[np.uint8]:
    """Write a small file as published, and return its pictures [N, 3, 32, 32]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = images(len(DIGITS), 3, 32, 32, seed=seed)
    content = {"X": pictures.transpose(2, 3, 1, 0), "y": DIGITS[:, None]}
    savemat(path, content, do_compression=compressed)
    return pictures


def test_both_files_of_svhn_make_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "SVHN/train_32x32.mat"
    train = write_svhn(path)
    test = write_svhn(tmp_path / "SVHN/test_32x32.mat", seed=1, compressed=False)
    data = load("svhn", root=tmp_path)
    assert torch.equal(data.public.train_features, torch.from_numpy(train))
    assert torch.equal(data.public.test_features, torch.from_numpy(test))
    assert data.train_labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 1]
    monkeypatch.setattr("labeldp.trainers.data.files.memory_bytes", lambda: 3072 * 23)
    with pytest.raises(FileRefused, match=r"when unpacked, but this process may fill"):
        read_svhn(path)
    good = path.read_bytes()
    for content in (b"", b"PK\x03\x04 something else", good[:200], good[:-3000]):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"train_32x32\.mat .*fetch it again"):
            read_svhn(path)


PICTURES = np.zeros((32, 32, 3, 2), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"digitStruct": np.zeros(3)}, r"X is \(\) and y None"),
        ({"X": PICTURES, "y": np.ones((3, 1))}, r"y \(3, 1\)"),
        ({"X": PICTURES[:28, :28], "y": np.ones((2, 1))}, r"X is \(28, 28, 3, 2\)"),
        ({"X": PICTURES, "y": np.array([[1], [0]])}, "row 1 has none of the labels"),
    ],
)
def test_bad_matlab_is_refused(
    tmp_path: Path, content: dict[str, NDArray[Any]], message: str
) -> None:
    path = tmp_path / "test_32x32.mat"
    savemat(path, content)
    with pytest.raises(DataFileError, match=message) as caught:
        read_svhn(path)
    assert str(path) in str(caught.value)


def test_every_rating_comes_out_once_and_as_it_was_written(tmp_path: Path) -> None:
    path = write_ratings(tmp_path, ratings=500)
    splits, public = read_movielens(path.parent), load("movielens_1m", root=tmp_path).public
    written = np.array([line.split("::") for line in path.read_text().splitlines()], dtype=int)
    test = held_out(500)
    assert splits.num_classes == 5 and splits.class_names == ("1", "2", "3", "4", "5")
    np.testing.assert_array_equal(splits.train_labels, written[~test, 2] - 1)
    np.testing.assert_array_equal(splits.test_labels, written[test, 2] - 1)
    for column in (0, 1):
        known = sorted(set(written[~test, column]))
        place = {name: known.index(name) + 1 for name in known}
        for rows, features in ((~test, splits.train_features), (test, splits.test_features)):
            expected = [place.get(name, 0) for name in written[rows, column]]
            np.testing.assert_array_equal(features[:, column], expected)
    assert public.kind is FeatureKind.IDENTIFIERS
    assert public.cardinalities == tuple(
        int(features.max()) + 1 for features in splits.train_features.T
    )


@pytest.mark.parametrize(
    "line",
    [
        *("", "3::20::4", "3::20::4::978302109::x", "3::20::::978302109"),
        *("3::20::6::978302109", "3::20::3.5::978302109"),
        *("ann::20::4::978302109", f"3::{'9' * 20}::4::978302109"),
    ],
)
def test_a_bad_rating_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    lines = [*RATINGS[:2], line, RATINGS[2]]
    (tmp_path / "ratings.dat").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(DataFileError, match=r"ratings\.dat (row 2 is not user|.*line 3, saw 9)"):
        read_movielens(tmp_path)


# Tables of amounts and logs of advertisements. The files themselves could not be fetched here.

ROWS = 40


def housing(folder: Path) -> list[float]:
    folder.mkdir()
    value = [float(min(500_001, 15_000 * (row + 1))) for row in range(ROWS)]
    lines = [
        f"-122.{row},37.{row},{row}.0,880.0,129.0,322.0,126.0,{row / 7:.4f},{value[row]:.1f}"
        for row in range(ROWS)
    ]
    (folder / "cal_housing.data").write_text("\n".join(lines) + "\n")
    return value


def display(folder: Path) -> list[float]:
    folder.mkdir()
    clicks = [row % 4 == 0 for row in range(ROWS)]
    lines = []
    for row in range(ROWS):
        numbers = ["" if (row + place) % 5 == 0 else str(row * place) for place in range(13)]
        texts = ["" if (row + place) % 7 == 0 else f"{row % 3:08x}" for place in range(26)]
        lines.append("\t".join([str(int(clicks[row])), *numbers, *texts]))
    (folder / "dac_sample.txt").write_text("\n".join(lines) + "\n")
    return [float(each) for each in clicks]


#: Writer, name of the file with labels, bounds of amounts, and width: numbers, a column that marks
#: gaps for each, and categories, the thirty most frequent of ten.
SETS: dict[str, tuple[Callable[[Path], list[float]], str, tuple[float, float] | None, int]] = {
    "california_housing": (housing, "cal_housing.data", (0.0, 500_001.0), 8),
    "criteo_display": (display, "dac_sample.txt", None, 13 * 2 + 26 * 4),
}


@pytest.mark.parametrize("name", SETS)
def test_every_row_comes_out_with_its_label(name: str, tmp_path: Path) -> None:
    write, _, bounds, width = SETS[name]
    labels = np.array(write(tmp_path / name))
    data, test = load(name, root=tmp_path), held_out(ROWS)
    public = data.public
    assert public.bounds == bounds and public.preprocessing.steps
    if bounds is None:
        assert data.train_labels.tolist() == labels[~test].tolist()
        assert public.test_labels.tolist() == labels[test].tolist()
        assert public.class_names == ("no", "yes")
    else:
        assert public.test_amounts is not None
        assert public.test_amounts.tolist() == labels[test].tolist()
        scaled = (labels[~test] - bounds[0]) / (bounds[1] - bounds[0])
        assert np.abs((data.train_labels + 0.5) / 64 - scaled).max() <= 1 / 128 + 1e-9
    rows = public.train_features.numpy()
    assert rows.shape == ((~test).sum(), width) and np.isfinite(rows).all()


@pytest.mark.parametrize("name", SETS)
def test_damaged_files_are_named_and_their_secrets_are_not(name: str, tmp_path: Path) -> None:
    write, file, *_ = SETS[name]
    write(tmp_path / name)
    path = tmp_path / name / file
    lines = path.read_text().splitlines()
    housing = name == "california_housing"
    mark = "," if housing else "\t"
    fields = lines[5].split(mark)
    fields[-1 if housing else 0] = "secret"
    for bad in ([*lines[:5], mark.join(fields), *lines[6:]], [], lines[:1]):
        path.write_text("\n".join([*bad, ""]) if bad else "")
        with pytest.raises(DataFileError, match=f"{file}.*fetch it again") as caught:
            load(name, root=tmp_path)
        assert "secret" not in str(caught.value)


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    display(made)
    (made / "readme.txt").write_text("no")
    with tarfile.open(tmp_path / "packed", "w:gz") as packed:
        for file in ("dac_sample.txt", "readme.txt"):
            packed.add(made / file, f"../some/folder/{file}")

    def download(url: str, root: str, *, filename: str) -> None:
        shutil.copy(tmp_path / "packed", Path(root, filename))

    monkeypatch.setattr("torchvision.datasets.utils.download_url", download)
    root = tmp_path / "data"
    assert fetch("criteo_display", root) == root / "criteo_display"
    path = root / "criteo_display" / "dac_sample.txt"
    assert path.read_bytes() == (made / path.name).read_bytes()
    assert sorted(each.name for each in root.rglob("*")) == ["criteo_display", path.name]
    with pytest.raises(ValueError, match=r"has sha256 .*, the published archive aaa5c9"):
        fetch("california_housing", root)
    with pytest.raises(ValueError, match=r"the archive has no file ratings\.dat"):
        from_archive("http://x", root, find("movielens_1m").files)


# The synthetic log: its law of purchases stays as it is.


def test_columns_that_came_first_keep_their_numbers() -> None:
    log = conversions(2000, seed=3)
    assert (log.bought == "yes").sum() == 38
    assert log.id[0] == "v000001840"
    assert float(log.probability.sum()) == pytest.approx(40.0, abs=1e-6)  # a share of 2%
    assert float(log.days.sum()) == pytest.approx(412901.5586, abs=1e-3)


def test_a_person_makes_up_to_20_visits_from_one_device() -> None:
    log = conversions(20_000, seed=0)
    people = log.groupby("person")
    visits = people.size()
    assert set(visits) == set(range(1, 21))
    assert people[["country", "device"]].nunique().max().tolist() == [1, 1]
    # A name does not say how often the person came.
    assert abs(np.corrcoef(visits, visits.index.str[1:].astype(int))[0, 1]) < 0.1


def test_purchases_alone_have_an_amount_and_a_delay() -> None:
    log = conversions(50_000, seed=0)
    bought = log.bought == "yes"
    assert (log.amount > 0).equals(bought) and log.delay.notna().equals(bought)
    assert (log.delay[bought] >= 0).all()
    dear = bought & (log.price > log.price[bought].median())
    assert log.delay[dear].mean() > log.delay[bought & ~dear].mean()
    assert set(SECRETS) <= set(log.columns)


def test_a_missing_set_names_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(DATASETS) - {"digits", "own"}:
        with pytest.raises(DatasetMissing) as caught:
            load(name, root=tmp_path)
        assert str(tmp_path) in str(caught.value)
        assert DATASETS[name].command in str(caught.value)
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, FileNotFoundError)
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DatasetMissing, match="elsewhere"):
        load("mnist")
    write_mnist(tmp_path / "elsewhere")
    assert load("mnist").public.train_features.shape == (20, 1, 28, 28)


def replace_download(monkeypatch: pytest.MonkeyPatch, name: str, effect: Any = None) -> Mock:
    download = Mock(side_effect=effect)
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], download=download))
    return download


def test_sets_are_downloaded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = real_data_root("adult")
    download = replace_download(monkeypatch, "adult")
    assert fetch("adult", root) == root / "adult"
    assert not download.called
    fetch("digits")
    for name, message in (
        ("own", r"own can't be fetched.*data\.path=FILE"),
        ("movielens_1m", r"can't be fetched: curl .*grouplens\.org"),
        ("nmist", "did you mean mnist"),
    ):
        with pytest.raises(ValueError, match=message):
            fetch(name, tmp_path)


def test_failed_and_damaged_downloads_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        print("a remark of the downloader")
        raise urllib.error.URLError("no route to host")

    download = replace_download(monkeypatch, "mnist", fails)
    with pytest.raises(ValueError, match=r"MNIST/raw/train-images-idx3-ubyte.*no route") as caught:
        fetch("mnist", tmp_path / "new")
    assert str(tmp_path / "new") in str(caught.value)
    assert [call.args[0] for call in download.call_args_list] == [tmp_path / "new"]
    assert capsys.readouterr().out == "", "standard output is for results"
    write_mnist(tmp_path)
    replace_download(monkeypatch, "mnist")
    with pytest.raises(ValueError, match=r"15,696 bytes, the published file 47,040,016"):
        fetch("mnist", tmp_path)


def test_sets_come_with_their_digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    download = Mock(side_effect=lambda *_, **__: write_adult(tmp_path))
    monkeypatch.setattr("torchvision.datasets.utils.download_url", download)
    with pytest.raises(ValueError, match=r"adult\.data has"):
        fetch("adult", tmp_path)
    with pytest.raises(ValueError, match=r"train_32x32\.mat is missing"):
        fetch("svhn", tmp_path)
    assert [
        (url.rsplit("/", 1)[1], folder / how["filename"], how["md5"])
        for (url, folder), how in download.call_args_list
    ] == [
        ("adult.data", tmp_path / "adult/adult.data", "5d7c39d7b8804f071cdd1f2a7c460872"),
        ("adult.test", tmp_path / "adult/adult.test", "35238206dfdf7f1fe215bbb874adecdc"),
        ("train_32x32.mat", tmp_path / "SVHN/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        ("test_32x32.mat", tmp_path / "SVHN/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ]
    kmnist = Mock()
    monkeypatch.setattr("torchvision.datasets", kmnist)
    with pytest.raises(ValueError, match=r"kmnist is not in .*KMNIST/raw"):
        fetch("kmnist", tmp_path)
    kmnist.KMNIST.assert_called_once_with(tmp_path, download=True)
