"""public_model: read as a model, written anew; nothing that does not predict comes through."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.public_model import public_model
from labeldp.platform.report.public_values import PublicTrial, public_trial
from labeldp.platform.report.selection import NotPublishable
from labeldp.platform.report.total_ledger import Total
from labeldp.trainers.data.columns import Columns, ColumnsIgnored
from labeldp.trainers.models.trained_model import ModelFileError, TrainedModel, load_model
from tests.platform.report.folders import FINGERPRINT, keep_a_model
from tests.platform.sweep.examples import a_record
from tests.trainers.encoders.test_provenance import MADE
from tests.trainers.trained_examples import examples

SECRET = "s3cr3t-4711"
ROWS = np.arange(64.0).reshape(1, 64) / 64


def cost(epsilon: float = 2.0) -> Total:
    return Total(releases=1, epsilon=epsilon, delta=0.0, epsilon_private=epsilon, handed_out=0)


def published(folder: Path, *, record: TrialRecord | None = None, **facts: Any) -> dict[str, bytes]:
    record = record or a_record(epsilon=2.0)
    trial: PublicTrial = public_trial(record, fingerprint=FINGERPRINT)
    paid = facts.get("cost", cost())
    own = facts.get("own", paid)
    return public_model(folder, record=record, trial=trial, cost=paid, own=own)


def written(files: dict[str, bytes], to: Path) -> TrainedModel:
    to.mkdir()
    for name, content in files.items():
        (to / name).write_bytes(content)
    return load_model(to)


def damage(folder: Path, change: Any) -> None:
    """Change a model's files and put its checksum right."""
    facts = json.loads((folder / "model.json").read_text())
    arrays, header = load_file(folder / "model.safetensors"), None
    header = change(facts, arrays)
    save_file(arrays, folder / "model.safetensors", metadata=header)
    packed = (folder / "model.safetensors").read_bytes()
    facts["arrays"]["sha256"] = hashlib.sha256(packed).hexdigest()
    (folder / "model.json").write_text(json.dumps(facts))


def test_the_model_predicts_the_same_bits(tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0))
    again = written(published(folder), tmp_path / "out")
    np.testing.assert_array_equal(again.predict_proba(ROWS), load_model(folder).predict_proba(ROWS))
    facts = again.facts
    assert (facts["epsilon"], facts["delta"], facts["private"]) == (2.0, 0.0, True)
    assert facts["classes"] == [f"class {number}" for number in range(10)]
    assert facts["data"] == {"name": "digits", "fingerprint": FINGERPRINT}


def test_it_goes_by_its_public_name(tmp_path: Path) -> None:
    record = a_record(epsilon=2.0)
    files = published(keep_a_model(tmp_path, record), record=record)
    model = written(files, tmp_path / "out")
    assert model.facts["trial"] == public_trial(record, fingerprint=FINGERPRINT).name
    assert not any(record.hash.encode() in content for content in files.values())


def test_what_nobody_predicts_with_is_gone(tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0))

    def plant(facts: dict[str, Any], arrays: dict[str, torch.Tensor]) -> dict[str, str]:
        facts["canaries"] = [123456, 234567]
        facts["private/epsilon_one_run"] = 1.2345
        facts["data"]["path"] = f"/home/ada/{SECRET}"
        facts["architecture"]["note"] = SECRET
        facts["preprocessing"]["note"] = SECRET
        facts["preprocessing"]["steps"][0]["note"] = SECRET
        arrays["canary_positions"] = torch.tensor([123456, 234567])
        arrays["preprocessing.labels"] = torch.tensor([123456])
        return {"note": SECRET}

    damage(folder, plant)
    files = published(folder)
    model = written(files, tmp_path / "out")
    for content in files.values():
        for planted in (SECRET, "canar", "1.2345", "note", "/home", "123456", "private/"):
            assert planted.encode() not in content, planted
        assert np.int64(123456).tobytes() not in content
    with safe_open(tmp_path / "out" / "model.safetensors", framework="pt") as arrays:
        assert set(arrays.keys()) == {"model.weights"} and not arrays.metadata()
    assert model.predict_proba(ROWS).shape == (1, 10)


@pytest.mark.parametrize("part", ["architecture", "preprocessing"])
def test_text_where_a_model_has_none_is_refused(part: str, tmp_path: Path) -> None:
    """A loader takes any value that it never looks into; here it must be a number."""
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0))

    def plant(facts: dict[str, Any], arrays: dict[str, torch.Tensor]) -> None:
        if part == "preprocessing":
            facts[part]["steps"][0]["columns"] = SECRET
        else:
            facts[part]["pixels"] = {"mean": [SECRET], "std": [1.0]}

    damage(folder, plant)
    with pytest.raises(NotPublishable, match=f"holds text in {part}") as refused:
        published(folder)
    assert SECRET not in str(refused.value)


def test_a_published_model_takes_the_training_files_own_rows(tmp_path: Path) -> None:
    table = {"age": np.array([20.0, 40.0]), "city": np.array(["Bern", "Rome"])}
    columns = Columns.fit(table)
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0), steps=(columns,), inputs=3)
    files = published(folder)
    model = written(files, tmp_path / "out")
    assert b"Rome" in files["model.json"]
    # With the columns that `data.drop` took out, and that of the labels.
    rows = {"age": [30.0], "city": ["Rome"], "patient_id": ["p1"], "hiv_status": [1]}
    with pytest.warns(ColumnsIgnored, match="patient_id, hiv_status"):
        assert model.predict_proba(rows).shape == (1, 10)


@pytest.mark.parametrize(
    "changes",
    [
        {"trial": "fedcba9876543210"},
        {"method": "lp_mst"},
        {"seed": 7},
        {"fingerprint": "e" * 64},
        {"data_name": "own"},
        {"noise": "secure"},
    ],
)
def test_another_trials_model_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0), **changes)
    with pytest.raises(NotPublishable, match="is not that of trial"):
        published(folder)


def test_a_model_that_says_nothing_of_its_encoder_is_refused(tmp_path: Path) -> None:
    record = replace(a_record(epsilon=2.0), features=MADE.described())
    with pytest.raises(NotPublishable, match="its features is another one"):
        published(keep_a_model(tmp_path, record), record=record)
    folder = keep_a_model(tmp_path / "said", record, provenance=MADE)
    model = written(published(folder, record=record), tmp_path / "out")
    assert model.origin.provenance == MADE
    assert model.facts["raw_inputs"] == "embeddings by timm:net"


def test_a_model_that_says_less_than_the_ledger_is_refused(tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0))
    with pytest.raises(NotPublishable, match=r"cost epsilon 2, and by the ledger .* cost 3"):
        published(folder, cost=cost(3.0))


def test_a_baseline_is_no_private_model(tmp_path: Path) -> None:
    record = a_record(epsilon=math.inf)
    folder = keep_a_model(tmp_path, record)
    model = written(published(folder, record=record, cost=cost(math.inf)), tmp_path / "out")
    assert model.facts["private"] is False and math.isinf(model.facts["epsilon"])


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0))
    (folder / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(ModelFileError, match="SHA-256"):
        published(folder)


def test_models_of_all_methods_predict_the_same_bits(tmp_path: Path) -> None:
    for number, example in enumerate(examples(tmp_path)):
        origin = load_model(keep_a_model(tmp_path / str(number), a_record(epsilon=2.0))).origin
        folder = tmp_path / str(number) / "models" / "0123456789abcdef"
        origin = replace(origin, num_classes=example.model.origin.num_classes, classes=None)
        replace(example.model, origin=origin).save(folder)
        again = written(published(folder), tmp_path / f"out {number}")
        rows = example.rows["rows"] if "rows" in example.rows else pd.DataFrame(example.rows)
        np.testing.assert_array_equal(again.predict_proba(rows), example.measured, example.name)


def test_a_model_of_a_search_says_what_the_search_cost(tmp_path: Path) -> None:
    record = a_record(epsilon=2.0)
    files = published(keep_a_model(tmp_path, record), own=cost(2.0), cost=cost(5.0))
    assert json.loads(files["model.json"])["epsilon"] == 5.0


def test_a_model_under_seeded_noise_is_called_private_by_nobody(tmp_path: Path) -> None:
    record = a_record(epsilon=2.0, changes={"noise.seed": 7})
    files = published(keep_a_model(tmp_path, record), record=record)
    said = json.loads(files["model.json"])
    assert (said["private"], said["noise"], said["epsilon"]) == (False, "seeded", 2.0)
    assert written(files, tmp_path / "out").predict(ROWS).shape == (1,)
