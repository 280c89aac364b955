"""provenance: what is published of an encoder, and a record that can't be read."""

import json
from pathlib import Path

import numpy as np
import pytest

from labeldp.trainers.data.splits import (
    NO_OUTSIDE_DATA,
    EmbeddingRecord,
    EmbeddingRefused,
    FeatureProvenance,
    League,
    checked_record,
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


def test_a_restored_encoder_differs_from_another_one() -> None:
    described = MADE.described()
    assert FeatureProvenance.restored(described) == MADE
    assert FeatureProvenance.restored({}) == NO_OUTSIDE_DATA
    assert MADE.same_encoder(FeatureProvenance.restored({**described, "trained_on": "else"}))
    for key in ("encoder", "weights", "preparation"):
        assert not MADE.same_encoder(FeatureProvenance.restored({**described, key: "else"}))
    with pytest.raises(ValueError, match="premier"):
        FeatureProvenance.restored({"league": "premier"})


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"rows": "many"}, {"provenance": {"league": "premier"}}, None, "folder"],
)
def test_a_damaged_record_is_refused(tmp_path: Path, change: dict[str, object] | str) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.ones((3, 2), np.float32))
    record = EmbeddingRecord(
        provenance=MADE, inputs="i", rows=3, dimensions=2, key="k", sha256=sha256_of(file)
    )
    record.write(file)
    assert checked_record(file) == record
    place = record_place(file)
    content = json.loads(place.read_text())
    place.unlink()
    if change == "folder":
        place.mkdir()
    else:
        place.write_text(json.dumps({**content, **change} if isinstance(change, dict) else []))
    with pytest.raises(EmbeddingRefused, match="can't be read"):
        checked_record(file)
