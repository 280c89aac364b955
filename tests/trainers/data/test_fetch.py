"""fetch: when it downloads, when not, and what it says if it can't; without a network."""

import urllib.error
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from labeldp.trainers.data.catalog import DATASETS, FetchFailed, PublishedFile, fetch, find
from tests.real_data import real_data_root
from tests.trainers.data_samples import write_adult, write_mnist


def replace_download(
    monkeypatch: pytest.MonkeyPatch, name: str, *, error: Exception | None = None
) -> list[Path]:
    asked: list[Path] = []

    def download(folder: Path, _: Sequence[PublishedFile]) -> None:
        asked.append(folder)
        print("a remark of the downloader")
        if error is not None:
            raise error

    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], download=download))
    return asked


def test_what_is_there_is_not_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    root = real_data_root("adult")
    asked = replace_download(monkeypatch, "adult")
    assert fetch("adult", root) == root / "adult"
    assert not asked


def test_without_a_network_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = urllib.error.URLError("no route to host")
    asked = replace_download(monkeypatch, "mnist", error=error)
    with pytest.raises(FetchFailed, match=r"MNIST/raw/train-images-idx3-ubyte.*no route") as caught:
        fetch("mnist", tmp_path / "new")
    assert str(tmp_path / "new") in str(caught.value)
    assert asked == [tmp_path / "new"]
    assert capsys.readouterr().out == "", "standard output is for results"


def test_what_came_damaged_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_mnist(tmp_path)
    replace_download(monkeypatch, "mnist")
    with pytest.raises(FetchFailed, match=r"15,696 bytes, the published file 47,040,016"):
        fetch("mnist", tmp_path)


def test_adult_comes_file_by_file_with_its_digests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, Path, str | None]] = []

    def download(url: str, root: Path, *, filename: str, md5: str | None) -> None:
        asked.append((url, root / filename, md5))
        write_adult(tmp_path)

    monkeypatch.setattr("torchvision.datasets.utils.download_url", download)
    with pytest.raises(FetchFailed, match=r"adult\.data has"):
        fetch("adult", tmp_path)
    assert [(url.rsplit("/", 1)[1], path, md5) for url, path, md5 in asked] == [
        ("adult.data", tmp_path / "adult/adult.data", "5d7c39d7b8804f071cdd1f2a7c460872"),
        ("adult.test", tmp_path / "adult/adult.test", "35238206dfdf7f1fe215bbb874adecdc"),
    ]


def test_svhn_comes_file_by_file_and_kmnist_by_torchvision(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "torchvision.datasets.utils.download_url",
        lambda url, root, *, filename, md5: asked.append((url, md5)),
    )
    with pytest.raises(FetchFailed, match=r"train_32x32\.mat is missing"):
        fetch("svhn", tmp_path)
    assert asked == [
        (f"http://ufldl.stanford.edu/housenumbers/{name}_32x32.mat", md5)
        for name, md5 in (
            ("train", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            ("test", "eb5a983be6a315427106f1b164d9cef3"),
        )
    ]
    came: list[Path] = []
    kmnist = SimpleNamespace(KMNIST=lambda root, *, download: came.append(root))
    monkeypatch.setattr("torchvision.datasets", kmnist)
    with pytest.raises(FetchFailed, match=r"kmnist is not in .*KMNIST/raw"):
        fetch("kmnist", tmp_path)
    assert came == [tmp_path]


def test_kmnist_is_checked_by_size(tmp_path: Path) -> None:
    write_mnist(tmp_path, folder="KMNIST")
    (problem, *_) = find("kmnist").check(tmp_path)
    assert "15,696 bytes, the published file 47,040,016: fetch it again" in problem


def test_what_can_not_be_fetched() -> None:
    fetch("digits")
    downloaded = {name for name, record in DATASETS.items() if record.download is not None}
    images = {"mnist", "fashion_mnist", "kmnist", "svhn", "cifar10", "cifar100"}
    assert downloaded == {*images, "adult"}
    with pytest.raises(ValueError, match=r"own can't be fetched.*data\.path=FILE"):
        fetch("own")
    with pytest.raises(ValueError, match="did you mean mnist"):
        fetch("nmist")
