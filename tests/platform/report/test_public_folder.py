"""public_folder: an attacker reads every byte of it, and finds nothing that is the owner's."""

import getpass
import json
import math
import os
import re
import socket
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.platform.records.results import ResultsFolder, write_json
from labeldp.platform.report.publish import Published, publish
from labeldp.platform.report.selection import NotPublishable, Reservation
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.audits import PlantedCanaries
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.trainers.models.trained_model import load_model
from tests.platform.report.folders import (
    FINGERPRINT,
    LABELS,
    LAPLACE,
    a_folder,
    a_vault,
    keep_a_model,
)
from tests.platform.report.test_public_values import PLACE, PRIVATE, SECRET, TEXTS
from tests.platform.sweep.examples import a_record

TRIAL = "c0ffee0123456789"
HOST = "db.clinic.example"


def ask(results: Path, to: Path, **changes: Any) -> Published:
    return publish(results, **{"trial": "best", "to": to, **changes})


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[bytes]]:
    """A results folder with secrets wherever they can be, and all that must not be found."""
    results = tmp_path / "adas-results"
    ResultsFolder(results, sweep="small")
    salt = SqliteStore(results / "vault.db").salt()
    settings = AuditSettings(canaries=20, coin_canaries=20, canary_seed=31337421)
    canaries = PlantedCanaries.draw(LABELS, num_classes=10, settings=settings, secret=salt)
    vault = a_vault(results, labels=canaries.plant(LABELS))
    key = vault.release(LAPLACE).key
    monkeypatch.setenv("STUDY_TOKEN", f"{SECRET}-environment")
    folder = ResultsFolder(results, sweep="small")
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
        **{"method": "alibi_prior", **TEXTS},
        **{"audit.canaries": 20, "audit.coin_canaries": 20, "audit.canary_seed": 31337421},
        "noise.seed": None,
    }
    record = a_record(
        TRIAL,
        variant=f"variant {SECRET}",
        point={"trainer.prior.path": PLACE, "trainer.epsilon": 1.0},
        changes=changes,
        release_keys=(key,),
        figures={**PRIVATE, "epsilon_m_low": 0.4321987, "epsilon_m_high": 2.3219876},
        epsilon=2.0,
    )
    record = replace(
        record,
        git_commit="deadbeef" * 5,
        environment={"system": socket.gethostname(), "home": PLACE},
        curves=[{"epoch": 1, "loss": 0.31415926, "val_accuracy": 0.5, "seconds": 0.27182818}],
    )
    folder.keep(record)
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
        *("0.31415926", "0.27182818", digest, salt.hex(), SqliteStore(folder.store).id),
        *(str(canaries.positions.tolist()), ", ".join(map(str, positions.tolist()[:5]))),
    ]
    raw = [salt, content, content[-256:]]
    for kind in (np.int64, np.int32, np.uint8, np.float32):
        raw += [array.astype(kind).tobytes() for array in (positions, wrong, LABELS)]
        raw.append(canaries.plant(LABELS).astype(kind).tobytes())
    return results, [*(text.encode() for text in texts), *raw]


def test_an_attacker_finds_nothing_in_any_byte(
    planted: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    results, secrets = planted
    done = ask(results, tmp_path / "out")
    found = bytes_of(tmp_path / "out")
    assert (
        sorted(found)
        == done.files
        == [
            *("config.json", "ledger.json"),
            *("model/model.json", "model/model.safetensors", "run_card.md"),
        ]
    )
    for name, content in found.items():
        for secret in secrets:
            assert secret not in content, (name, secret[:60])
            assert secret.hex().encode() not in content or len(secret) < 8
    # The same search does find them where they are: the test can fail.
    own = b"".join(bytes_of(results).values())
    missing = [secret for secret in secrets if secret not in own]
    assert len(missing) < len(secrets) / 2


def test_what_is_told_to_the_owner_names_no_value_either(
    planted: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    results, _ = planted
    done = ask(results, tmp_path / "out")
    assert (done.trial, done.epsilon, done.delta, done.chosen_among) == (TRIAL, 2.0, 0.0, 1)
    said = json.dumps(done.left_out)
    for name in ("setting data.path", "figure private/epsilon_one_run", "name of the variant"):
        assert name in said
    assert SECRET not in said and PLACE not in said and "0.7654321" not in said


def test_the_folder_can_be_used(planted: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    results, _ = planted
    done = ask(results, tmp_path / "out")
    model = load_model(tmp_path / "out" / "model")
    assert model.predict(np.zeros((2, 64))).shape == (2,)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["name"] == done.name == model.facts["trial"]
    assert config["figures"] == {"accuracy": 0.9, "epsilon": 2.0, "delta": 0.0}
    assert (config["labels_replaced_for_audits"], config["data"]["labels"]) == (40, 60)
    (line,) = json.loads((tmp_path / "out" / "ledger.json").read_text())["releases"]
    assert (line["epsilon"], line["mechanism"]) == (2.0, "LaplaceNoise")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*.json")}
    mask = os.umask(0)
    os.umask(mask)
    assert modes == {0o666 & ~mask}
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".draft")]


@pytest.mark.parametrize(
    "text",
    [
        f"{PLACE}/{SECRET}.npz",
        f"https://ada:{SECRET}@{HOST}/mlflow",
        f"{SECRET}-environment",
        TRIAL,
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
    with pytest.raises(NotPublishable, match=r"model/model\.json would hold") as refused:
        ask(results, tmp_path / "out")
    assert text not in str(refused.value) and not (tmp_path / "out").exists()
    assert "model: not wanted" in ask(results, tmp_path / "out", with_model=False).left_out


def test_a_sweep_without_models_says_so(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0)
    done = ask(tmp_path / "results", tmp_path / "out")
    assert "model: none was kept" in done.left_out
    assert not (tmp_path / "out" / "model").exists()
    assert "There is no model" in (tmp_path / "out" / "run_card.md").read_text()


def test_a_choice_among_several_is_told_and_priced(tmp_path: Path) -> None:
    keys = a_folder(tmp_path / "results", epsilon=2.0)
    other = a_vault(tmp_path / "results").release(replace(LAPLACE, epsilon=0.5)).key
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    folder.keep(a_record("ab", release_keys=(other,), epsilon=0.5, accuracy=0.95))
    done = ask(tmp_path / "results", tmp_path / "out")
    assert keys and (done.trial, done.epsilon) == ("ab", 0.5)
    assert (done.chosen_among, done.epsilon_with_choice) == (2, 2.5)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["chosen"]["among"], config["chosen"]["epsilon"]) == (2, 2.5)
    assert "cost epsilon 2.5" in (tmp_path / "out" / "run_card.md").read_text()


def test_who_else_read_a_release_is_not_told(tmp_path: Path) -> None:
    """A baseline reads a trial's count if it predicts alike on held-out labels: that is its own."""
    (key,) = a_folder(tmp_path / "results", epsilon=2.0)
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    alone = a_folder(tmp_path / "alone", epsilon=2.0)
    assert alone
    facts: dict[str, Any] = {"epsilon": math.inf, "accuracy": 0.99}
    folder.keep(a_record("ab", variant="no privacy", release_keys=(key,), **facts))
    lines = []
    for name in ("results", "alone"):
        ask(tmp_path / name, tmp_path / f"{name}-public", trial="0")
        card = (tmp_path / f"{name}-public" / "run_card.md").read_text()
        lines.append([line for line in card.splitlines() if "Laplace noise, epsilon 2" in line])
    assert lines[0] == lines[1] and "read by one trial, paid once" in lines[0][0]


def test_a_baseline_goes_out_on_the_second_word_only_and_says_what_it_is(tmp_path: Path) -> None:
    results = tmp_path / "results"
    a_folder(results, releases=[NoNoise(num_classes=10)], epsilon=math.inf)
    keep_a_model(results, a_record("0" * 16, epsilon=math.inf))
    with pytest.raises(NotPublishable, match="--accept non-private"):
        ask(results, tmp_path / "out", trial="0")
    assert not (tmp_path / "out").exists()
    twice = frozenset({Reservation.NON_PRIVATE})
    done = ask(results, tmp_path / "out", trial="0", accepted=twice)
    assert math.isinf(done.epsilon) and "model/model.json" in done.files
    assert json.loads((tmp_path / "out" / "config.json").read_text())["private"] is False
    assert not load_model(tmp_path / "out" / "model").facts["private"]


def test_noise_that_nobody_knows_is_called_seeded_whatever_the_record_says(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", noise=SeededNoise(seed=7), epsilon=2.0)
    twice = frozenset({Reservation.SEEDED})
    ask(tmp_path / "results", tmp_path / "out", trial="0", accepted=twice)
    said = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (said["private"], said["noise"]) == (False, "seeded")
    assert "NO PRIVACY AGAINST" in (tmp_path / "out" / "run_card.md").read_text()


def test_a_failed_trial_has_neither_model_nor_reason(tmp_path: Path) -> None:
    results = tmp_path / "results"
    a_folder(results, readers=0)
    folder = ResultsFolder(results, sweep="small")
    folder.keep(a_record("ab", finished=False, reason=f"row 17 of {SECRET}", release_keys=()))
    keep_a_model(results, a_record("ab"))
    done = ask(results, tmp_path / "out", trial="ab", accepted=frozenset({Reservation.FAILED}))
    assert not any(name.startswith("model/") for name in done.files)
    assert not any(SECRET.encode() in content for content in bytes_of(tmp_path / "out").values())


def test_a_folder_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    results = tmp_path / "results"
    a_folder(results, epsilon=2.0)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        ask(results, full)
    assert [path.name for path in full.iterdir()] == ["mine.txt"]
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(ValueError, match="not a folder of its own"):
            ask(results, tmp_path / name)
    with pytest.raises(ValueError, match="lies in the results folder"):
        ask(results, results / "public")
    (tmp_path / "empty").mkdir()
    assert ask(results, tmp_path / "empty").files


def test_what_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="can't be written"):
        ask(tmp_path / "results", tmp_path / "file" / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "results"]


def test_results_stay_as_they_were(planted: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    results, _ = planted
    before = bytes_of(results)
    ask(results, tmp_path / "out")
    assert bytes_of(results) == before


def test_neither_user_nor_machine_is_named(
    planted: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    results, _ = planted
    ask(results, tmp_path / "out")
    text = b"".join(bytes_of(tmp_path / "out").values()).decode(errors="replace")
    for word in (getpass.getuser(), socket.gethostname(), str(Path.home())):
        assert not re.search(rf"\b{re.escape(word)}\b", text), word
