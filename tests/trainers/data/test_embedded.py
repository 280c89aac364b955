"""embedded: vectors in place of a data set's images, and what lies beside own features."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import DatasetMissing
from labeldp.trainers.data.labelled_data import LabelledData, labelled, load, load_own
from labeldp.trainers.data.own_data import with_embeddings
from labeldp.trainers.data.own_files import OwnSource
from labeldp.trainers.data.splits import EmbeddingRefused, League, record_place
from tests.trainers.encoders.small_encoders import embedded, some_images

DIGITS = 1797
GREY = "tests.trainers.data.test_embedded:grey"


def grey(weights: Path | None) -> object:
    return lambda images: images.flatten(1).float()[:, ::7]


def digits(file: Path, *, limit: int | None = None) -> LabelledData:
    splits = with_embeddings("digits", find("digits").read(Path()), file)
    return labelled("digits", splits, limit=limit)


def vectors(rows: int = DIGITS) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32)


def test_a_data_sets_images_become_vectors_and_labels_stay(tmp_path: Path) -> None:
    found = embedded("digits", tmp_path / "x.npy", GREY)
    assert (found["rows"], found["dimensions"]) == (DIGITS, 10)
    data, plain = digits(tmp_path / "x.npy"), load("digits")
    assert data.public.provenance.encoder == GREY
    assert data.public.provenance.league is League.PUBLIC_ENCODER
    assert (data.train_labels == plain.train_labels).all()
    assert (data.public.test_labels == plain.public.test_labels).all()
    raw = np.load(tmp_path / "x.npy")
    assert (
        data.public.preprocessing(raw[: len(plain.train_labels)]).numpy()
        == (data.public.train_features.numpy())
    ).all()
    pixels = plain.public.test_features.flatten(1).numpy()[:, ::7]
    assert (data.public.preprocessing(pixels) == data.public.test_features).all()
    few = digits(tmp_path / "x.npy", limit=100)
    assert (few.train_labels == load("digits", limit=100).train_labels).all()
    assert few.public.provenance == data.public.provenance


def test_vectors_of_other_images_or_of_another_file_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", some_images(DIGITS, side=8)[:, :1])
    embedded(tmp_path / "images.npy", tmp_path / "x.npy", GREY)
    with pytest.raises(EmbeddingRefused, match="of other images than those of digits"):
        digits(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", vectors())
    with pytest.raises(EmbeddingRefused, match="another file lies under that name"):
        digits(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 1796}, "holds 1,796 vectors, but digits has 1,438 training and 359 testing"),
        ({"nan": np.nan}, r"row 1500, column 2 is nan"),
        ({"nan": np.inf, "dtype": np.float16}, "is inf.*half precision ends at 65,504"),
        ({"dtype": np.int64}, "holds int64 of shape"),
        ({"ndim": 3}, r"holds float32 of shape \(1797, 5, 1\)"),
    ],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_an_encoder_without_a_vector_per_row_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, object],
    message: str,
    mapped: bool,
) -> None:
    matrix = vectors(int(str(change.get("rows", DIGITS))))
    if "nan" in change:
        matrix[1500, 2] = float(str(change["nan"]))
    matrix = matrix[..., None] if "ndim" in change else matrix
    np.save(tmp_path / "x.npy", matrix.astype(change.get("dtype", np.float32)))  # type: ignore[call-overload]
    if mapped:
        monkeypatch.setattr("labeldp.trainers.data.own_files.MAPPED_BYTES", 1)
    with pytest.raises(ValueError, match=message):
        digits(tmp_path / "x.npy")


def test_files_that_are_not_there_or_no_npy(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match=r"labeldp embed digits --encoder E -o x\.npy"):
        digits(tmp_path / "x.npy")
    (tmp_path / "x.csv").write_text("1,2\n")
    with pytest.raises(ValueError, match=r"must be an \.npy"):
        digits(tmp_path / "x.csv")


def own(folder: Path, **said: object) -> LabelledData:
    """Own features `x.npy` and `t.npy`, of the labels that lie there too."""
    for name, rows in (("y", 20), ("u", 8)):
        np.save(folder / f"{name}.npy", np.arange(rows) % 2)
    source = OwnSource(
        path=folder / "x.npy",
        labels=folder / "y.npy",
        test_path=folder / "t.npy",
        test_labels=folder / "u.npy",
        classes=2,
        **said,  # type: ignore[arg-type]
    )
    return load_own(source)


def test_own_features_pick_up_what_lies_beside(tmp_path: Path) -> None:
    for name, rows in (("x", 20), ("t", 8)):
        np.save(tmp_path / f"{name}-images.npy", some_images(rows, seed=rows))
        embedded(tmp_path / f"{name}-images.npy", tmp_path / f"{name}.npy", encoder_seed=4)
    found = own(tmp_path).public
    assert found.provenance.league is League.PUBLIC_ENCODER and found.provenance.weights
    other = embedded(tmp_path / "t-images.npy", tmp_path / "t.npy", encoder_seed=5, replace=True)
    assert other["rows"] == 8
    with pytest.raises(EmbeddingRefused, match="or with other weights"):
        own(tmp_path)
    record_place(tmp_path / "t.npy").unlink()
    with pytest.raises(EmbeddingRefused, match=r"t\.npy has no record of the encoder"):
        own(tmp_path)
    record_place(tmp_path / "x.npy").unlink()
    assert own(tmp_path).public.provenance.league is League.NOT_STATED
    shutil.copy(tmp_path / "x-images.npy", tmp_path / "x.npy")
    shutil.copy(tmp_path / "t-images.npy", tmp_path / "t.npy")
    assert own(tmp_path).public.provenance.league is League.NONE  # images as they are
