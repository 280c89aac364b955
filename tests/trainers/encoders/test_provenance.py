"""provenance: the league and the record beside features; another file is refused by hash."""

import json
from pathlib import Path

import numpy as np
import pytest

from labeldp.trainers.encoders.provenance import (
    NO_OUTSIDE_DATA,
    EmbeddingRecord,
    EmbeddingRefused,
    FeatureProvenance,
    League,
    checked_record,
    record_beside,
    record_place,
    sha256_of,
)

MADE = FeatureProvenance(
    league=League.PUBLIC_ENCODER,
    encoder="timm:net",
    weights="ab" * 32,
    preparation="middle 224",
    trained_on="ImageNet-1k",
    trained_by="timm",
)


def test_it_is_written_down_and_read_again() -> None:
    assert FeatureProvenance.restored(MADE.described()) == MADE
    assert NO_OUTSIDE_DATA.described() == {"league": "none"}
    assert FeatureProvenance.restored({}) == NO_OUTSIDE_DATA


def test_another_encoder_is_told_from_the_same() -> None:
    said = MADE.described()
    assert MADE.same_encoder(FeatureProvenance.restored({**said, "trained_on": "else"}))
    for key in ("encoder", "weights", "preparation"):
        assert not MADE.same_encoder(FeatureProvenance.restored({**said, key: "else"}))


@pytest.mark.parametrize("text", ["two\nlines", "x" * 201, "\x1b[31m"])
def test_what_no_line_can_show_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"trained_on is .* must be one line"):
        FeatureProvenance(trained_on=text)


def test_a_league_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="premier"):
        FeatureProvenance.restored({"league": "premier"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Features with a record beside."""
    file = tmp_path / "x.npy"
    np.save(file, np.ones((3, 2), np.float32))
    record = EmbeddingRecord(
        provenance=MADE,
        preparation={"crop": 224},
        inputs="i",
        rows=3,
        dimensions=2,
        dtype="float32",
        key="k",
        sha256=sha256_of(file),
    )
    record.write(file)
    assert record_beside(file) == record
    return file


def test_features_without_a_word_are_taken_as_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    assert checked_record(tmp_path / "x.npy") is None


def test_another_file_under_the_name_is_refused(file: Path) -> None:
    assert checked_record(file) is not None
    np.save(file, np.zeros((3, 2), np.float32))
    with pytest.raises(EmbeddingRefused, match=r"another file lies under that name, or it is dam"):
        checked_record(file)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"rows": "many"},
        {"provenance": {"league": "premier"}},
        {"provenance": None},
    ],
)
def test_a_damaged_record_is_refused(file: Path, change: dict[str, object]) -> None:
    said = json.loads(record_place(file).read_text())
    record_place(file).write_text(json.dumps({**said, **change}))
    with pytest.raises(EmbeddingRefused, match="can't be read"):
        record_beside(file)
    record_place(file).write_text("[]")
    with pytest.raises(EmbeddingRefused, match="can't be read"):
        record_beside(file)
    record_place(file).unlink()
    record_place(file).mkdir()
    with pytest.raises(EmbeddingRefused, match="a folder"):
        record_beside(file)
