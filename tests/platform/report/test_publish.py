"""publish: named values and no others, and an attacker who reads every byte finds nothing more.

A model is read as a model and written anew: nothing that does not predict comes through.
"""

import getpass
import hashlib
import json
import math
import os
import re
import socket
import sqlite3
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from markupsafe import escape
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.mechanisms.ledger import Total
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.randomness import NoiseKind, SeededNoise
from labeldp.platform.records.results import (
    ResultsFolder,
    SweepIdentity,
    TrialRecord,
    write_json,
)
from labeldp.platform.report.ledger import FolderLedger, read_folder
from labeldp.platform.report.pareto import points
from labeldp.platform.report.publish import (
    PAGE,
    check_target,
    left_out,
    public_config,
    public_model,
    public_record,
    public_report,
    publish,
    search,
    write_folder,
)
from labeldp.platform.report.selection import Reservation, Selected
from labeldp.platform.settings.configuration import (
    AuditSettings,
    TrialConfig,
    flatten,
    with_changes,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.metrics import ChooseBy, figures_of
from labeldp.platform.vault.audits import PlantedCanaries
from labeldp.platform.vault.vault_store import KeptLedger, SqliteStore
from labeldp.trainers.models.trained_model import ModelFileError, TrainedModel, load_model
from tests.platform.report.folders import (
    FINGERPRINT,
    LABELS,
    LAPLACE,
    a_folder,
    a_vault,
    keep,
    keep_a_model,
)
from tests.platform.sweep.examples import a_record, files_of, mode
from tests.shared_material import shared_path
from tests.trainers.encoders.test_libraries import MADE
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
    "trainer.prior.source": "moments",
    "trainer.prior.encoder": f"{PLACE}/{SECRET}.npy",
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
        point={"trainer.epsilon": 1.0, "trainer.prior.encoder": PLACE, "data.path": SECRET},
        release_keys=("fedcba98" * 4, PLACE),
    )
    kept = {"git_commit": "abc", "environment": {"host": f"{SECRET}.local"}}
    return replace(record, **{**kept, **changes})


def public(record: TrialRecord, *, fingerprint: str = FINGERPRINT) -> TrialRecord:
    return public_record(record, fingerprint=fingerprint)


def everything(value: Any) -> str:
    """All that a public record holds but for the line's name, which pages are given to show."""
    return json.dumps(asdict(replace(value, variant="")), default=str)


def test_omitted_columns_are_named_without_their_values() -> None:
    record = a_secretive_record()
    strange = {**record.config, f"x={SECRET}": 1, f"{PLACE}": 2, "noise.seed": 424242}
    metrics = {**record.metrics, f"figure of {SECRET}": 1.0}
    record = replace(record, config=strange, metrics=metrics)
    names = left_out(record, public(record))
    kinds = {"environment", "curves", "hash of the trial", "figure epsilon_m_low"}
    assert kinds | {
        f"setting {key}" for key in ("data.path", "audit.canary_seed", "noise.seed")
    } <= (set(names))
    assert not any(secret in each for each in names for secret in (SECRET, PLACE, "987654"))
    assert any("3 more" in each for each in names), "a key that is not a name is counted only"
    found = public(record)
    assert found.noise is NoiseKind.SEEDED and "424242" not in everything(found)
    assert found.release_keys == ["fedcba98" * 4], "a key that is not one stays"
    (point,) = points([found])
    assert (point.epsilon_m_low, point.epsilon_m_high) == (0.0, math.inf)


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
    with pytest.raises(ValueError, match=f"has a {what} that is unknown here") as refused:
        public(strange)
    assert SECRET not in str(refused.value)


def test_the_public_name_does_not_confirm_a_guess() -> None:
    """A trial's hash is made of all settings: who has the rest could try seeds and paths on it."""
    one, other = (
        public(a_record(changes={"noise.seed": seed, "data.root": root}))
        for seed, root in ((1, "/a"), (2, "/b"))
    )
    assert one.hash == other.hash != public(a_record(changes={"seed": 1})).hash
    assert one.hash != public(a_record(), fingerprint="ab" * 32).hash
    hidden = public(a_record(), fingerprint=PLACE).hash
    assert hidden == public(a_record(), fingerprint="").hash, "a fingerprint that is none stays"


def cost(epsilon: float = 2.0) -> Total:
    return Total(releases=1, epsilon=epsilon, epsilon_private=epsilon)


def published(
    place: Path, *, record: TrialRecord | None = None, epsilon: float = 2.0, own: float = 2.0
) -> dict[str, bytes]:
    """The public files of a model whose trial cost `own`, and `epsilon` with all behind it."""
    record = record or a_record(epsilon=2.0)
    identity = SweepIdentity(fingerprint=FINGERPRINT)
    known: dict[str, Any] = {"path": place, "identity": identity, "records": {}, "delta": 1e-5}
    kept = KeptLedger(path=place)
    folder = FolderLedger(**known, lines=(), problems=(), kept=kept)
    chosen = Selected(record=record, cost=cost(epsilon), by="", among=1, together=cost(epsilon))
    with patch("labeldp.platform.report.publish.cost_of", return_value=cost(own)):
        return public_model(folder, chosen, public(record), place=place)


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


def test_a_model_states_the_price_of_all_on_which_it_depends(tmp_path: Path) -> None:
    again = written(
        published(keep_a_model(tmp_path, a_record(epsilon=2.0)), epsilon=5.0), tmp_path / "out"
    )
    assert (again.facts["epsilon"], again.facts["delta"], again.facts["private"]) == (
        5.0,
        0.0,
        True,
    )


def test_parts_that_do_not_predict_are_left_out(tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match=f"holds text in {part}") as refused:
        published(folder)
    assert SECRET not in str(refused.value)


OTHERS: dict[str, Any] = {"trial": "fedcba9876543210", "method": "lp_mst", "seed": 7}
OTHERS |= {"fingerprint": "e" * 64, "data_name": "own", "noise": "secure"}


@pytest.mark.parametrize("fact", OTHERS)
def test_another_trials_model_is_refused(fact: str, tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0), **{fact: OTHERS[fact]})
    with pytest.raises(ValueError, match="is not that of trial"):
        published(folder)


def test_a_model_without_its_encoder_is_refused(tmp_path: Path) -> None:
    record = replace(a_record(epsilon=2.0), features=MADE.described())
    with pytest.raises(ValueError, match="its features is another one"):
        published(keep_a_model(tmp_path, record), record=record)
    folder = keep_a_model(tmp_path / "said", record, provenance=MADE)
    model = written(published(folder, record=record), tmp_path / "out")
    assert model.origin.provenance == MADE
    assert model.facts["raw_inputs"] == "embeddings by timm:net"


def test_a_cheaper_or_damaged_model_is_refused(tmp_path: Path) -> None:
    folder = keep_a_model(tmp_path, a_record(epsilon=2.0))
    with pytest.raises(ValueError, match=r"cost epsilon 2, and by the ledger .* cost 3"):
        published(folder, own=3.0)
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


TRIAL = "c0ffee0123456789"
HOST = "db.clinic.example"
QUOTED = '/home/ada & "eve"/labels.npz'


def ask(results: Path, to: Path, **changes: Any) -> dict[str, Any]:
    return publish(results, **{"trial": "best", "to": to, **changes})


def config_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[bytes]]:
    """A results folder with secrets wherever they can be, and all that must not be found."""
    results = tmp_path / "adas-results"
    folder = ResultsFolder(results, sweep="small")
    salt = SqliteStore(folder.store).salt()
    settings = AuditSettings(canaries=20, coin_canaries=20, canary_seed=31337421)
    canaries = PlantedCanaries.draw(LABELS, num_classes=10, settings=settings, secret=salt)
    key = a_vault(results, labels=canaries.plant(LABELS)).release(LAPLACE).key
    monkeypatch.setenv("STUDY_TOKEN", f"{SECRET}-environment")
    folder.identify(
        fingerprint=FINGERPRINT,
        vault=SqliteStore(folder.store).id,
        sweep_id="5eed" * 8,
        parent_run_id="babe" * 8,
        path=str(results),
        tracking_uri=f"https://ada:{SECRET}@{HOST}/mlflow",
        num_labels=len(LABELS),
        held_out_labels=0,
    )
    changes = {
        **{"method": "alibi_prior", **TEXTS, "noise.seed": None},
        **{"audit.canaries": 20, "audit.coin_canaries": 20, "audit.canary_seed": 31337421},
    }
    record = a_record(
        TRIAL,
        variant=f"variant {SECRET}",
        point={"trainer.prior.encoder": PLACE, "trainer.epsilon": 1.0},
        changes=changes,
        release_keys=(key,),
        figures={**PRIVATE, "epsilon_m_low": 0.4321987, "epsilon_m_high": 2.3219876},
        epsilon=2.0,
    )
    record = keep(
        results,
        record,
        git_commit="deadbeef" * 5,
        environment={"system": socket.gethostname(), "home": PLACE},
        curves=[{"epoch": 1, "loss": 0.31415926, "val_accuracy": 0.5, "seconds": 0.27182818}],
    )
    keep_a_model(results, record, data_name="own")
    private = results / "private" / "figures"
    private.mkdir(parents=True)
    write_json(private / f"{TRIAL}.json", {"audit": {"digest": SECRET, "figures": PRIVATE}})
    positions, wrong = canaries.positions, canaries.plant(LABELS)[canaries.positions]
    connection = sqlite3.connect(folder.store)
    (digest,) = connection.execute("SELECT labels FROM vault").fetchone()
    (content,) = connection.execute("SELECT content FROM releases").fetchone()
    connection.close()
    texts = [
        *(SECRET, PLACE, "hiv_status", HOST, TRIAL, "31337421", str(results), str(tmp_path)),
        *("private/", "epsilon_m", "canar", "deadbeef", "5eed5eed", "babebabe", "variant"),
        *(str(value) for value in (*PRIVATE.values(), 0.4321987, 2.3219876)),
        *("0.31415926", "0.27182818", digest, SqliteStore(folder.store).id),
    ]
    # In forms that no file has.
    forms = [salt.hex(), str(positions.tolist()), ", ".join(map(str, positions.tolist()[:5]))]
    raw = [salt, content, content[-256:], *(text.encode() for text in forms)]
    for kind in (np.int64, np.int32, np.uint8, np.float32):
        raw += [array.astype(kind).tobytes() for array in (positions, wrong, LABELS)]
        raw.append(canaries.plant(LABELS).astype(kind).tobytes())
    return results, [*(text.encode() for text in texts), *raw]


def test_no_byte_tells_an_attacker_anything(
    planted: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    results, secrets = planted
    before = files_of(results)
    done = ask(results, tmp_path / "out")
    found = files_of(tmp_path / "out")
    model = ("model/model.json", "model/model.safetensors")
    assert sorted(found) == done["files"] == ["config.json", "ledger.json", *model, "run_card.md"]
    for name, content in found.items():
        for secret in secrets:
            assert secret not in content, (name, secret[:60])
            assert secret.hex().encode() not in content or len(secret) < 8
    text = b"".join(found.values()).decode(errors="replace")
    for word in (getpass.getuser(), socket.gethostname(), str(Path.home())):
        assert not re.search(rf"\b{re.escape(word)}\b", text), word
    # The same search does find them where they are: the test can fail.
    own = b"".join(before.values())
    assert [secret in own for secret in secrets] == [True] * 29 + [False] * 19
    assert files_of(results) == before


def test_the_folder_can_be_used(planted: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = ask(planted[0], out)
    assert (done["trial"], done["chosen_among"]) == (TRIAL, 1)
    assert (done["epsilon"], done["delta"]) == (2.0, 0.0)
    names = json.dumps(done["left_out"])
    for name in ("setting data.path", "figure private/epsilon_one_run", "name of the variant"):
        assert name in names
    assert SECRET not in names and PLACE not in names and "0.7654321" not in names
    model, config = load_model(out / "model"), config_of(out)
    assert model.predict(np.zeros((2, 64)))[0] in [f"class {number}" for number in range(10)]
    assert model.facts["data"] == {"name": "own", "fingerprint": FINGERPRINT}
    assert config["name"] == done["name"] == model.facts["trial"]
    assert config["figures"] == {"accuracy": 0.9, "epsilon": 2.0, "delta": 0.0}
    assert (config["labels_replaced_for_audits"], config["data"]["labels"]) == (40, 60)
    assert "noise.seed" not in config["settings"] and config["settings"]["noise.secure"] is None
    (line,) = json.loads((out / "ledger.json").read_text())["releases"]
    assert (line["epsilon"], line["mechanism"]) == (2.0, "LaplaceNoise")
    modes = {mode(path) for path in out.rglob("*.json")}
    mask = os.umask(0)
    os.umask(mask)
    assert modes == {0o666 & ~mask}
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".draft")]


def test_a_record_of_the_registry_fits_its_schema(
    planted: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    file = tmp_path / "record.yaml"
    done = ask(planted[0], tmp_path / "out", registry=file)
    record = yaml.safe_load(file.read_text())
    loss = record["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 2.0, "delta": 0.0}
    assert record["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert "nist_sp_800_226.md" in done["files"]
    page = (tmp_path / "out" / "nist_sp_800_226.md").read_text()
    for part in ("epsilon 2 and delta 0", "One label", "Trust model", "Side channels", "collected"):
        assert part in page
    with pytest.raises(ValueError, match="name a new file"):
        ask(planted[0], tmp_path / "again", registry=file)
    full = patch("labeldp.platform.report.publish.whole_file", side_effect=OSError("no space"))
    with full, pytest.raises(OSError, match="no space"):
        ask(planted[0], tmp_path / "again", registry=tmp_path / "another.yaml")
    assert not (tmp_path / "again").exists()
    schema = shared_path("schemas", "deployments-registry.schema.yaml")
    checked = jsonschema.Draft202012Validator(yaml.safe_load(schema.read_text()))
    checked.validate(record)
    del record["deployment"]["basic"]["name"]
    assert not checked.is_valid(record)


@pytest.mark.parametrize(
    "text",
    [
        *(f"{PLACE}/{SECRET}.npz", f"https://ada:{SECRET}@{HOST}/mlflow"),
        *(f"{SECRET}-environment", TRIAL),
    ],
)
def test_a_hole_in_what_is_public_is_found_before_anything_is_written(
    text: str, planted: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    """As names of classes, which are public, here with something that is not."""
    results, _ = planted
    place = results / "models" / TRIAL
    model = load_model(place)
    classes = (text, *(model.origin.classes or ())[1:])
    replace(model, origin=replace(model.origin, classes=classes)).save(place)
    with pytest.raises(ValueError, match=r"model/model\.json would contain") as refused:
        ask(results, tmp_path / "out")
    assert text not in str(refused.value) and not (tmp_path / "out").exists()
    assert "model: not wanted" in ask(results, tmp_path / "out", with_model=False)["left_out"]


def test_the_interval_of_one_of_nine_is_corrected_for_the_choice(tmp_path: Path) -> None:
    estimate = AccuracyEstimate(accuracy=0.8, sampling_error=0.01)
    a_folder(tmp_path / "results", readers=9, epsilon=2.0, figures=figures_of(estimate))
    ask(tmp_path / "results", tmp_path / "out", choose_by=ChooseBy.ESTIMATED)
    figures = config_of(tmp_path / "out")["figures"]
    ends = (figures["accuracy_estimated_low"], figures["accuracy_estimated_high"])
    assert ends == pytest.approx(estimate.interval(choices=9))
    card = (tmp_path / "out" / "run_card.md").read_text()
    assert "corrected for the choice among 9" in card


def test_other_readers_of_a_release_are_not_published(tmp_path: Path) -> None:
    """A baseline reads a trial's count if it predicts alike on held-out labels: that is its own."""
    (key,) = a_folder(tmp_path / "results", epsilon=2.0)
    a_folder(tmp_path / "alone", epsilon=2.0)
    baseline = a_record("ab", variant="no privacy", release_keys=(key,), epsilon=math.inf)
    keep(tmp_path / "results", baseline)
    lines = []
    for name in ("results", "alone"):
        ask(tmp_path / name, tmp_path / f"{name}-public", trial="0")
        card = (tmp_path / f"{name}-public" / "run_card.md").read_text()
        lines.append([line for line in card.splitlines() if "Laplace noise, epsilon 2" in line])
    assert lines[0] == lines[1] and "read by 1 trial, paid once" in lines[0][0]


def test_a_baseline_is_published_if_confirmed_and_says_what_it_is(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    a_folder(results, releases=[NoNoise(num_classes=10)], epsilon=math.inf)
    keep_a_model(results, a_record("0" * 16, epsilon=math.inf))
    with pytest.raises(ValueError, match="--accept non-private"):
        ask(results, out, trial="0")
    assert not out.exists()
    with pytest.raises(ValueError, match="--registry states a guarantee"):
        given = {"accepted": {Reservation.NON_PRIVATE}, "registry": tmp_path / "r.yaml"}
        ask(results, out, trial="0", **given)
    assert not out.exists()
    done = ask(results, out, trial="0", accepted={Reservation.NON_PRIVATE})
    assert math.isinf(done["epsilon"]) and "model/model.json" in done["files"]
    assert config_of(out)["private"] is False
    assert not load_model(out / "model").facts["private"]


def test_noise_is_called_seeded_if_the_ledger_says_so(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", noise=SeededNoise(seed=7), epsilon=2.0)
    ask(tmp_path / "results", tmp_path / "out", trial="0", accepted={Reservation.SEEDED})
    config = config_of(tmp_path / "out")
    assert (config["private"], config["noise"]) == (False, "seeded")
    assert "NO PRIVACY AGAINST" in (tmp_path / "out" / "run_card.md").read_text()


def test_a_failed_trial_has_neither_model_nor_reason(tmp_path: Path) -> None:
    results = tmp_path / "results"
    a_folder(results, readers=0)
    keep(results, a_record("ab", finished=False, reason=f"row 17 of {SECRET}", release_keys=()))
    keep_a_model(results, a_record("ab"))
    done = ask(results, tmp_path / "out", trial="ab", accepted={Reservation.FAILED})
    assert not any(name.startswith("model/") for name in done["files"])
    assert not any(SECRET.encode() in content for content in files_of(tmp_path / "out").values())


def test_only_a_new_or_empty_folder_outside_of_the_results_is_written(tmp_path: Path) -> None:
    results, full = tmp_path / "results", tmp_path / "full"
    a_folder(results, epsilon=2.0)
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "into").symlink_to(results)
    (tmp_path / "file").write_text("")
    for to, words in (
        (full, "is not empty"),
        (tmp_path / "link", "not a folder of its own"),
        (tmp_path / "file", "not a folder of its own"),
        (results / "public", "is inside the results folder"),
        (tmp_path / "file" / "out", "can't be written"),
    ):
        with pytest.raises(ValueError, match=words):
            ask(results, to)
    with pytest.raises(ValueError, match="is inside the results folder"):
        check_target(tmp_path / "into" / "out", results=results)
    with pytest.raises(ValueError, match="can't be written"):
        write_folder(full, {"a": b"1"})
    assert os.listdir(full) == ["mine.txt"] and not list(tmp_path.glob(".*draft"))
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/deep"):
        write_folder(tmp_path / name, {"a": b"1", "in/b": b"2"})
        assert (tmp_path / name / "in" / "b").read_bytes() == b"2"


@pytest.fixture
def folder(tmp_path: Path) -> FolderLedger:
    a_folder(tmp_path / "results")
    return read_folder(tmp_path / "results")


@pytest.mark.parametrize(
    "form",
    [
        *(QUOTED, json.dumps(QUOTED), "/home/ada &amp; &quot;eve&quot;/labels.npz"),
        *(str(escape(QUOTED)), '/home/ada &amp; "eve"/labels.npz'),  # of a page, and of its figures
    ],
)
def test_places_are_found_however_they_are_written(form: str, folder: FolderLedger) -> None:
    record = a_record(changes={"data.path": QUOTED, "data.label_column": "accuracy"})
    page = b"..." + form.encode() + b"..."
    with pytest.raises(ValueError, match=r"would contain the value of data\.path") as refused:
        search({"page": page}, folder=folder, records=[record])
    assert "ada" not in str(refused.value)
    search({"page": b"accuracy, own"}, folder=folder, records=[record])  # a word, not a place
    for what, value in folder.identity.of_the_owner.items():
        with pytest.raises(ValueError, match=f"place of the results|under {what},"):
            search({"page": value.encode()}, folder=folder, records=[])


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("trainer.model", "networks.wide:Wide", False),
        ("trainer.model", "/home/ada/networks:Wide", True),
        ("trainer.prior.encoder", "networks.wide:Wide", True),
        ("trainer.encoder", "pretrained:cifar100", False),
    ],
)
def test_an_own_network_is_named(key: str, value: str, found: bool, folder: FolderLedger) -> None:
    record = a_record()
    record = replace(record, config={**record.config, key: value})
    files = {"model.json": json.dumps({"model": value}).encode()}
    with pytest.raises(ValueError, match=f"value of {key},") if found else nullcontext():
        search(files, folder=folder, records=[record])


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        *((name, "correct horse", True) for name in ("MY_API_KEY", "db_password", "SIGNING_KEY")),
        *((name, "correct horse", False) for name in ("EDITOR", "PWD")),
        ("GPG_PASSPHRASE", "correct horse", True),
        ("DATABASE_URL", "correct horse", False),
        ("DATABASE_URL", "correct-horse", True),
    ],
)
def test_secrets_of_the_environment_are_looked_for(
    name: str, value: str, found: bool, folder: FolderLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"postgres://ada:{value}@db.example/labels"
    monkeypatch.setenv(name, address if name == "DATABASE_URL" else value)
    with pytest.raises(ValueError, match=name) if found else nullcontext() as refused:
        search({"page": b"a correct horse, correct-horse"}, folder=folder, records=[])
    assert refused is None or "horse" not in str(refused.value)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A secretive private trial, an ordinary one, a baseline and one that failed."""
    path = tmp_path / "adas-results"
    (key,) = a_folder(path, readers=0)
    bare = a_vault(path).release(NoNoise(num_classes=10)).key
    small = a_vault(path).release(replace(LAPLACE, epsilon=0.5)).key
    uri = f"https://ada:{SECRET}@tracking.example/mlflow"
    ResultsFolder(path, sweep="small").identify(tracking_uri=uri)
    secretive = a_secretive_record(variant="ALIBI", release_keys=[key], hash=TRIAL)
    keep(path, secretive, metrics={**secretive.metrics, "epsilon": 2.0})
    keep(path, a_record("1a" * 8, release_keys=(small,), epsilon=0.5))
    facts: dict[str, Any] = {"epsilon": math.inf, "accuracy": 0.98765432}
    keep(path, a_record("2a" * 8, variant="unprotected", release_keys=(bare,), **facts))
    failed = a_record("3a" * 8, variant="broken", finished=False, reason=f"row 3 of {SECRET}")
    keep(path, failed, release_keys=[])
    return path


def test_an_attacker_finds_nothing_in_the_public_page(sweep: Path, tmp_path: Path) -> None:
    done = public_report(sweep, to=tmp_path / "out")
    assert (done["trials"], done["left_out"], done["rows"]) == (2, 2, 2)
    assert (done["epsilon"], done["delta"]) == (2.5, 0.0)
    assert os.listdir(tmp_path / "out") == [PAGE]
    text = Path(done["html"]).read_text()
    assert "public edition" in text and "1 release of Laplace noise, epsilon 2" in text
    hashes = (TRIAL, "1a" * 8, "2a" * 8, "3a" * 8)
    figures = (*PRIVATE.values(), 0.4321987, 2.3219876)
    rounded = [f"{value:.4g}" for value in figures] + [f"{value:.3f}" for value in figures]
    for secret in (
        *(SECRET, PLACE, "hiv_status", "987654", str(sweep), "adas-results"),
        *("unprotected", "broken", "98.77", "98.8", "0.98765", *hashes),
        *(*map(str, figures), *rounded),
    ):
        assert secret not in text, secret


@pytest.mark.parametrize("changed", ["less", "nothing read"])
def test_a_record_against_the_ledger_is_refused(changed: str, sweep: Path, tmp_path: Path) -> None:
    record = read_folder(sweep).trial("1a")
    metrics = {**record.metrics, "epsilon": 0.01}
    keys = record.release_keys if changed == "less" else []
    keep(sweep, record, metrics=metrics, release_keys=keys)
    with pytest.raises(ValueError, match=r"states epsilon 0\.01|names no release"):
        public_report(sweep, to=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_learning_sweeps_page_states_its_plan(sweep: Path, tmp_path: Path) -> None:
    ResultsFolder(sweep, sweep="small").identify(
        learned_epsilon=7.0, learned_counts=3.25, learned_delta=0.0, learned_releases=False
    )
    done = public_report(sweep, to=tmp_path / "out")
    assert done["epsilon"] == 7.0
    # Every trial's own releases cost less than the counts that others of its search asked for.
    assert Path(done["html"]).read_text().count("<dt>epsilon, provable</dt><dd>3.25</dd>") == 2


def test_unpublishable_sweeps_have_no_public_page(sweep: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is inside the results folder"):
        public_report(sweep, to=sweep / "public")
    a_folder(tmp_path / "bare", releases=[NoNoise(num_classes=10)], epsilon=math.inf)
    with pytest.raises(ValueError, match="nothing to publish"):
        public_report(tmp_path / "bare", to=tmp_path / "out")
    (sweep / "vault.db").unlink()
    with pytest.raises(ValueError, match="is incomplete"):
        public_report(sweep, to=tmp_path / "out")
