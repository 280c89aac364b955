"""public_values: named values and no others, whatever a record, a method or a person holds.

A model is read as a model and written anew: nothing that does not predict comes through.
"""

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.ledger import Total
from labeldp.platform.report.pareto import points
from labeldp.platform.report.publish import (
    left_out,
    public_config,
    public_metrics,
    public_model,
    public_record,
)
from labeldp.platform.report.selection import NotPublishable
from labeldp.platform.sweep.accuracy_figures import PUBLIC
from labeldp.platform.sweep.configuration import METHODS, TrialConfig, flatten, with_changes
from labeldp.trainers.models.trained_model import ModelFileError, TrainedModel, load_model
from tests.platform.report.folders import FINGERPRINT, keep_a_model
from tests.platform.sweep.examples import a_record
from tests.trainers.encoders.test_provenance import MADE
from tests.trainers.trained_examples import examples

SECRET = "s3cr3t-4711"
PLACE = "/home/ada/hiv-study"
#: Every text that a setting of a trial on a user's own file can hold.
TEXTS: dict[str, Any] = {
    "data.name": "own",
    "data.root": f"{PLACE}/root",
    "data.path": f"{PLACE}/{SECRET}.npz",
    "data.label_column": "hiv_status",
    "data.classes": f"no,{SECRET}",
    "trainer.prior.source": "file",
    "trainer.prior.path": f"{PLACE}/{SECRET}.npy",
}
PRIVATE = {
    "private/epsilon_one_run": 1.2345,
    "private/epsilon_data_dependent": 0.98765,
    "ensemble_accuracy": 0.7654321,
    "vote_label_accuracy": 0.6543219,
    "epsilon_m_paper_low": 0.5432198,
}
ROWS = np.arange(64.0).reshape(1, 64) / 64


def a_secretive_record(**changes: Any) -> TrialRecord:
    record = a_record(
        changes={"method": "alibi_prior", **TEXTS, "audit.canary_seed": 987654},
        figures=PRIVATE,
        epsilon_m_low=0.4321987,
        epsilon_m_high=2.3219876,
        variant=f"study {SECRET}",
        point={"trainer.epsilon": 1.0, "trainer.prior.path": PLACE, "data.path": SECRET},
        release_keys=("fedcba98" * 4, PLACE),
    )
    kept = {"git_commit": "abc", "environment": {"host": f"{SECRET}.local"}}
    return replace(record, **{**kept, **changes})


def public(record: TrialRecord, *, fingerprint: str = FINGERPRINT) -> TrialRecord:
    return public_record(record, fingerprint=fingerprint)


def everything(value: Any) -> str:
    """All that a public record holds but for the line's name, which pages are given to show."""
    return json.dumps(asdict(replace(value, variant="")), default=str)


def test_no_text_of_a_person_and_no_figure_of_the_owner_comes_through() -> None:
    record = a_secretive_record()
    found = public(record)
    shown = everything(found)
    for secret in (SECRET, PLACE, "hiv_status", "987654", "private/", *map(str, PRIVATE.values())):
        assert secret not in shown, secret
    for secret in ("0.4321987", "2.3219876", record.hash, "canar"):
        assert secret not in shown, secret
    assert (found.seconds, found.git_commit, found.environment) == (0.0, "", {})
    assert found.release_keys == ["fedcba98" * 4], "a key that is not one stays"
    assert all(set(epoch) <= {"epoch", "val_accuracy"} for epoch in found.curves)
    (point,) = points([found])
    assert (point.accuracy, point.epsilon) == (0.9, 1.0)
    assert (point.epsilon_m_low, point.epsilon_m_high) == (0.0, math.inf)
    assert dict(point.point) == {"trainer.epsilon": 1.0}


def test_what_is_left_out_is_told_by_name_and_never_by_value() -> None:
    record = a_secretive_record()
    strange = {**record.config, f"x={SECRET}": 1, f"{PLACE}": 2, "noise.seed": 424242}
    metrics = {**record.metrics, f"figure of {SECRET}": 1.0}
    record = replace(record, config=strange, metrics=metrics)
    names = left_out(record, public(record))
    for name in (
        *("setting data.path", "setting audit.canary_seed", "figure epsilon_m_low"),
        *("environment", "curves", "hash of the trial", "setting noise.seed"),
    ):
        assert name in names
    assert not any(secret in each for each in names for secret in (SECRET, PLACE, "987654"))
    assert any("3 more" in each for each in names), "a key that is not a name is counted only"


def test_settings_and_figures_that_are_public_come_through() -> None:
    changes = {"trainer.epsilon": 2.0, "data.limit": 500}
    found = public(a_record(changes=changes, figures={"extra": 1.0}))
    expected = {
        "method": "alibi",
        "data.name": "digits",
        "data.limit": 500,
        "data.features": "as_they_are",
        "seed": 0,
        "noise.secure": None,
        "trainer.epsilon": 2.0,
        "trainer.noise": "laplace",
        "trainer.width": None,
        "trainer.nesterov": True,
    }
    assert {key: found.config[key] for key in expected} == expected
    assert public_metrics(found.metrics) == {"accuracy": 0.9, "epsilon": 1.0, "delta": 0.0}
    assert found.noise is NoiseKind.PLAIN
    assert not any(name.startswith(("private/", "epsilon_m")) for name in PUBLIC)
    assert public_metrics({"accuracy": 0.5, "answered_by_teachers": 3.0}) == {"accuracy": 0.5}


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_of_a_method_is_a_number_a_word_of_ours_or_stays(method: str) -> None:
    flat = flatten(with_changes(TrialConfig(), {"method": method}))
    found = public_config(flat)
    assert found["method"] == method
    numbers = {key for key, value in flat.items() if isinstance(value, int | float)}
    assert {key for key in numbers if key.startswith("trainer.")} <= set(found)
    planted = {key: SECRET if key not in ("method", "data.name") else flat[key] for key in flat}
    assert SECRET not in json.dumps(public_config(planted))
    nested = {key: [SECRET, 1.0] for key in flat if key.startswith("trainer.")}
    assert SECRET not in json.dumps(public_config({**flat, **nested}))


def test_values_are_of_the_declared_type() -> None:
    changes = {"method": "lp_mst", "trainer.splits": [0.5, 0.5]}
    flat = flatten(with_changes(TrialConfig(), changes))
    assert public_config(flat)["trainer.splits"] == [0.5, 0.5]
    assert "trainer.splits" not in public_config({**flat, "trainer.splits": [0.5, True]})
    assert "trainer.nesterov" not in public_config({**flat, "trainer.nesterov": 11337})


@pytest.mark.parametrize(("key", "what"), [("method", "method"), ("data.name", "data set")])
def test_an_unknown_method_or_data_set_is_refused(key: str, what: str) -> None:
    record = a_record()
    strange = replace(record, config={**record.config, key: SECRET})
    with pytest.raises(ValueError, match=f"has a {what} that is not known here") as refused:
        public(strange)
    assert SECRET not in str(refused.value)


def test_the_public_name_does_not_let_anybody_check_a_guess() -> None:
    """A trial's hash is made of all settings: who has the rest could try seeds and paths on it."""
    one, other = (
        public(a_record(changes={"noise.seed": seed, "data.root": root}))
        for seed, root in ((1, "/a"), (2, "/b"))
    )
    assert one.hash == other.hash != public(a_record(changes={"seed": 1})).hash
    assert one.hash != public(a_record(), fingerprint="ab" * 32).hash
    hidden = public(a_record(), fingerprint=PLACE).hash
    assert hidden == public(a_record(), fingerprint="").hash, "a fingerprint that is none stays"


def test_seeded_noise_stays_seeded_and_its_seed_stays() -> None:
    found = public(a_record(changes={"noise.seed": 424242}))
    assert found.noise is NoiseKind.SEEDED and "424242" not in everything(found)
    by_ledger = public_record(a_record(), fingerprint="", noise=NoiseKind.SEEDED)
    assert by_ledger.noise is NoiseKind.SEEDED


def cost(epsilon: float = 2.0) -> Total:
    return Total(releases=1, epsilon=epsilon, epsilon_private=epsilon)


def published(folder: Path, *, record: TrialRecord | None = None, **facts: Any) -> dict[str, bytes]:
    record = record or a_record(epsilon=2.0)
    paid = facts.get("cost", cost())
    return public_model(
        folder,
        record=record,
        public=public(record),
        fingerprint=FINGERPRINT,
        cost=paid,
        own=facts.get("own", paid),
    )


def written(files: dict[str, bytes], to: Path) -> TrainedModel:
    to.mkdir()
    for name, content in files.items():
        (to / name).write_bytes(content)
    return load_model(to)


def damage(folder: Path, change: Any) -> None:
    """Change a model's files and put its checksum right."""
    facts = json.loads((folder / "model.json").read_text())
    arrays = load_file(folder / "model.safetensors")
    header = change(facts, arrays)
    save_file(arrays, folder / "model.safetensors", metadata=header)
    packed = (folder / "model.safetensors").read_bytes()
    facts["arrays"]["sha256"] = hashlib.sha256(packed).hexdigest()
    (folder / "model.json").write_text(json.dumps(facts))


def test_the_model_predicts_the_same_bits_under_its_public_name(tmp_path: Path) -> None:
    record = a_record(epsilon=2.0)
    folder = keep_a_model(tmp_path, record)
    files = published(folder, record=record)
    again = written(files, tmp_path / "out")
    np.testing.assert_array_equal(again.predict_proba(ROWS), load_model(folder).predict_proba(ROWS))
    facts = again.facts
    assert (facts["epsilon"], facts["delta"], facts["private"]) == (2.0, 0.0, True)
    assert facts["classes"] == [f"class {number}" for number in range(10)]
    assert facts["data"] == {"name": "digits", "fingerprint": FINGERPRINT}
    assert facts["trial"] == public(record).hash
    assert not any(record.hash.encode() in content for content in files.values())
    searched = published(folder, record=record, own=cost(2.0), cost=cost(5.0))
    assert json.loads(searched["model.json"])["epsilon"] == 5.0


def test_what_does_not_predict_is_gone(tmp_path: Path) -> None:
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


def test_a_model_without_its_encoder_is_refused(tmp_path: Path) -> None:
    record = replace(a_record(epsilon=2.0), features=MADE.described())
    with pytest.raises(NotPublishable, match="its features is another one"):
        published(keep_a_model(tmp_path, record), record=record)
    folder = keep_a_model(tmp_path / "said", record, provenance=MADE)
    model = written(published(folder, record=record), tmp_path / "out")
    assert model.origin.provenance == MADE
    assert model.facts["raw_inputs"] == "embeddings by timm:net"


def test_a_cheaper_or_damaged_model_is_refused(tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0))
    with pytest.raises(NotPublishable, match=r"cost epsilon 2, and by the ledger .* cost 3"):
        published(folder, cost=cost(3.0))
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
