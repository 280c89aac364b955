"""signing: an attacker edits, swaps, truncates and signs again, and is found out."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sklearn.linear_model import LogisticRegression, Ridge

from labeldp import LabelPrivateClassifier, LabelPrivateRegressor
from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.platform.api import two_parties
from labeldp.platform.api.process_ledger import PrivacyAddsUp
from labeldp.platform.api.two_parties import answer, write_request
from labeldp.platform.report.publish import publish
from labeldp.platform.sweep import driver
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.vault import signing
from labeldp.platform.vault.shared_vault import SharedVault
from labeldp.platform.vault.signing import SIGNATURE, VARIABLE, Signature, sign_folder, signing_key
from tests.faults.without_cluster import without_cluster
from tests.platform.api.asked import COLUMNS
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import refusal, swept, words
from tests.platform.report.folders import a_folder, a_vault
from tests.source_tree import ROOT


def write_key(path: Path, key: Ed25519PrivateKey | X25519PrivateKey) -> Path:
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(*kinds, serialization.NoEncryption()))
    return path


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The public key of the owner, in whose environment everything is written."""
    key = Ed25519PrivateKey.generate()
    monkeypatch.setenv(VARIABLE, str(write_key(tmp_path / "owner.pem", key)))
    public = key.public_key()
    subject = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = public.public_bytes(serialization.Encoding.PEM, subject)
    (tmp_path / "owner.pub").write_bytes(pem)
    return public.public_bytes_raw().hex()


def results(folder: Path) -> Path:
    """A results folder of three releases and a trial, signed as a sweep's end does."""
    releases = [LaplaceNoise(epsilon=epsilon, num_classes=10) for epsilon in (1.0, 2.0, 3.0)]
    a_folder(folder, releases=releases)
    sign_folder(folder, records=True)
    return folder


def a_request(
    folder: Path, *, rows: int = 40, parts: int = 1
) -> tuple[pd.DataFrame, pd.DataFrame, list[Path]]:
    """Features and labels of `rows` ids, and a request for them in parts."""
    features = pd.DataFrame({"id": [f"u{n}" for n in range(rows)], "x": range(rows)})
    labels = features[["id"]].assign(bought=["no", "yes"] * (rows // 2))
    folders = [folder / str(number) for number in range(parts)]
    for number, part in enumerate(folders):
        asked = features[number * rows // parts : (number + 1) * rows // parts]
        write_request(asked, part, id_column="id", method="subset", classes=["no", "yes"])
    return features, labels, folders


def in_ledger(statement: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        with sqlite3.connect(folder / "vault.db") as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(statement)
        connection.close()

    return edit


def in_file(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    return edit


TRIAL = f"trials/{0:016x}.json"


@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        (in_ledger("UPDATE charges SET event = replace(event, '2.0', '0.5') WHERE position = 2"),
         "vault.db line 2 was edited"),
        (in_ledger("UPDATE charges SET made = '2020' WHERE position = 1"),
         "vault.db line 1 was edited"),
        (in_ledger("DELETE FROM charges WHERE position = 3"), "vault.db line 3 was removed"),
        (in_ledger("INSERT INTO charges SELECT 4, 'k', event, indices, mechanism, "
                   "failure_probability, made FROM charges WHERE position = 1"),
         "vault.db line 4 was added"),
        (in_ledger("UPDATE identity SET id = 'x'"), "vault.db line 1 was edited"),
        (in_file(TRIAL, '"accuracy": 0.9', '"accuracy": 0.99'), f"{TRIAL} was edited"),
        (lambda folder: (folder / TRIAL).unlink(), f"{TRIAL} was removed"),
        (lambda folder: shutil.copy(folder / TRIAL, folder / "trials" / "b.json"),
         "trials/b.json was added"),
        (lambda folder: (folder / SIGNATURE).write_text(
            (folder / SIGNATURE).read_text()[:200]), f"{SIGNATURE} is damaged"),
        (in_file(SIGNATURE, f'"{TRIAL}": "', f'"{TRIAL}": "0'), f"{SIGNATURE} was edited"),
        (in_file(SIGNATURE, '"records"', '"every file"'), f"{SIGNATURE} was edited"),
        (in_file(SIGNATURE, '"signature": "', '"signature": "00'), f"{SIGNATURE} was edited"),
    ],
)  # fmt: skip
def test_an_edit_is_named(
    attack: Callable[[Path], object], problem: str, tmp_path: Path, owner: str
) -> None:
    folder = results(tmp_path / "results")
    found = ran("verify", str(folder), "--key", str(tmp_path / "owner.pub"))
    assert found["ok"] and found["signed_by"] == owner and found["entries"] == 5
    assert f"signed at {found['made']} by key {owner}" in words("verify", str(folder))
    (folder / "report.html").write_text("pages are made of records, at any time")
    attack(folder)
    assert problem in words("verify", str(folder), "--key", owner, code=1)
    if SIGNATURE not in problem and "added" not in problem:
        with pytest.raises(ValueError, match="is not as it was signed, so nothing is released"):
            sign_folder(folder, records=True)


def test_signatures_of_other_folders_and_of_other_keys_are_refused(
    tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = results(tmp_path / "first"), results(tmp_path / "second")
    shutil.copy(second / SIGNATURE, first / SIGNATURE)  # equal sweeps, but not the same vault
    assert len(ran("verify", str(first), code=1)["edited"]) >= 3
    in_ledger("DELETE FROM charges WHERE position = 3")(second)
    thief = write_key(tmp_path / "thief.pem", Ed25519PrivateKey.generate())
    monkeypatch.setenv(VARIABLE, str(thief))
    (second / SIGNATURE).unlink()
    sign_folder(second, records=True)
    assert "compare the key with the owner's" in words("verify", str(second))
    found = ran("verify", str(second), "--key", owner, code=1)
    assert found["damaged"] == [SIGNATURE] and f"not by {owner}" in found["problems"][0]
    (first / SIGNATURE).unlink()
    assert f"has no {SIGNATURE}" in refusal("verify", str(first))
    assert "--key is zz" in refusal("verify", str(second), "--key", "zz")


def handed_on(tmp_path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Publish a trial as `public`, and answer requests as `release` and `in parts`.

    Returns features and labels of the requests.
    """
    a_folder(tmp_path / "others", epsilon=2.0)
    publish(tmp_path / "others", trial="0", to=tmp_path / "public", with_model=False)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": tmp_path / "vault"}
    features, labels, request = a_request(tmp_path / "request")
    answer(labels, request, tmp_path / "release", **given)
    halves = a_request(tmp_path / "parts", parts=2)[-1]
    answer(labels, halves, tmp_path / "in parts", **given)
    return features, labels


def test_folders_are_signed_as_they_are_written(tmp_path: Path, owner: str) -> None:
    features, labels = handed_on(tmp_path)
    place = tmp_path / "vault"
    model = LabelPrivateClassifier(epsilon=1.0, method="subset", classes=["no", "yes"], vault=place)
    with pytest.warns(PrivacyAddsUp):
        model.fit(features[["x"]], labels["bought"])
    fit = str(next(place.glob("fits/*/fit.json")).relative_to(place))
    for folder, name in (
        ("public", "run_card.md"),
        ("release", "arrays.npz"),
        ("in parts", "1/arrays.npz"),
        ("vault", fit),
    ):
        place = tmp_path / folder
        assert ran("verify", str(place), "--key", owner)["ok"]
        with (place / name).open("ab") as file:
            file.write(b" ")
        assert f"{name} was edited" in words("verify", str(place), code=1)
    lines = json.loads((tmp_path / "vault" / SIGNATURE).read_text())["entries"]
    assert sum(" line 1" in name for name in lines) == 2  # of the release, and of the fit
    (tmp_path / "public" / "link").symlink_to(tmp_path / "owner.pem")
    assert "link was added" in words("verify", str(tmp_path / "public"), code=1)


def signature_of_nothing() -> str:
    key = signing_key()
    assert key is not None
    facts: dict[str, Any] = {"covers": "records", "made": "2026", "entries": {}}
    facts["public_key"] = key.public_key().public_bytes_raw().hex()
    empty = Signature(**facts, signature="")
    return empty.model_copy(update={"signature": key.sign(empty.signed).hex()}).model_dump_json()


def test_a_signature_of_nothing_or_of_another_kind_of_folder_is_refused(
    tmp_path: Path, owner: str
) -> None:
    kept = results(tmp_path / "results")
    handed_on(tmp_path)
    for name, edited in (
        ("public", "run_card.md"),
        ("release", "release.json"),
        ("in parts", "0/release.json"),
    ):
        folder = tmp_path / name
        with (folder / edited).open("a") as file:
            file.write(" ")
        (folder / SIGNATURE).write_text(signature_of_nothing())
        assert f"{SIGNATURE} covers nothing" in words("verify", str(folder), "--key", owner, code=1)
        shutil.copytree(kept, folder, dirs_exist_ok=True)  # all that their signature covers
        assert f"{edited} is of a released or published folder, but {SIGNATURE} covers" in words(
            "verify", str(folder), "--key", owner, code=1
        )


def test_nothing_is_signed_by_a_dry_run_or_where_nothing_is(tmp_path: Path, owner: str) -> None:
    _, labels, (request,) = a_request(tmp_path / "request", rows=2)
    labels.to_csv(tmp_path / "l.csv", index=False)
    vault = tmp_path / "vault"
    asked = ["release", str(tmp_path / "l.csv"), "--id-column", "id", "--label-column", "bought"]
    asked += ["--request", str(request), "--epsilon", "1", "--vault", str(vault)]
    assert ran(*asked, "--dry-run")["vault"] == str(vault) and not vault.exists()
    with SharedVault(vault).alone():
        pass
    assert not (vault / SIGNATURE).exists()
    only: Callable[[str], bool]
    (tmp_path / "sweep.json").write_text("{}")
    for only in (bool, lambda _: False):  # nothing of it lasts
        sign_folder(tmp_path, records=True, only=only)
        assert (tmp_path / SIGNATURE).exists() == (only is bool)
    ran(*asked, "-o", str(tmp_path / "release"))
    (vault / SIGNATURE).unlink()
    assert not ran(*asked, "--dry-run")["new"] and not (vault / SIGNATURE).exists()


def test_a_sweep_signs_its_folder_at_the_end(
    tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses strangers' files at its start, and runs its failed trials again."""
    folder = tmp_path / "results"
    given = ["--only", "ALIBI", "--results", str(folder), "trainer.epsilon=1", "trainer.epochs=1"]

    def start(rate: str) -> dict[str, str]:
        with without_cluster():
            sweep = load_sweep(str(ROOT / "sweeps" / "quickstart.py"))
            _, _, told = swept(sweep, *given, f"trainer.learning_rate={rate}")
        refused.append(told)
        found: dict[str, str] = json.loads((folder / SIGNATURE).read_text())["entries"]
        return found

    refused = list[str]()
    start("0.05")
    first = start("1e30")
    assert "vault.db line 1" in first and ran("verify", str(folder), "--key", owner)["ok"]
    with monkeypatch.context() as patch:
        patch.setattr(driver, "sign_folder", Mock())  # killed before
        missing = first.keys() - start("1e30").keys()
    (failed,) = missing - {"sweep.json"}
    assert failed.startswith("trials/") and not ran("verify", str(folder), code=1)["ok"]
    last = start("1e30")
    assert last.keys() == first.keys() and last[failed] != first[failed]
    assert ran("verify", str(folder), "--key", owner)["ok"]
    for name in ("sweep.json", next(name for name in first if name.startswith("models/"))):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(kept + b" ")
        assert start("1e30") == last
        assert f"{name} in {folder} is not as it was signed" in refused[-1]
        (folder / name).write_bytes(kept)


def test_a_bad_key_is_refused_before_a_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_key(tmp_path / "other.pem", X25519PrivateKey.generate())
    vault = a_vault(tmp_path / "results")
    for place in (other, tmp_path / "nowhere.pem"):
        monkeypatch.setenv(VARIABLE, str(place))
        with pytest.raises(ValueError, match=f"{VARIABLE} is .* holds no ed25519 key"):
            SharedVault(tmp_path / "vault")
    assert not vault.charges() and not (tmp_path / "vault").exists()
    monkeypatch.delenv(VARIABLE)
    sign_folder(tmp_path / "results", records=True)
    assert not (tmp_path / "results" / SIGNATURE).exists()


def test_a_stranger_s_model_in_a_signed_vault_is_found(tmp_path: Path, owner: str) -> None:
    kept = results(tmp_path / "results")
    for place in ("mine", "fits/0/model", "models/a", "artifacts/model/data"):
        (kept / place).mkdir(parents=True)
        for name in ("model.json", "MLmodel"):
            (kept / place / name).write_text("{}")
            told = words("verify", str(kept), "--key", owner, code=1)
            assert f"{place}/{name} was added" in told
        sign_folder_anew(kept)
        assert ran("verify", str(kept), "--key", owner)["ok"]


def sign_folder_anew(folder: Path) -> None:
    (folder / SIGNATURE).unlink()
    sign_folder(folder, records=True)


#: Points of order 1, 2, 4 and 8, some with a sign, and one written as a number above the prime.
LOW = [
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "00" * 32,
    "00" * 31 + "80",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "ee" + "ff" * 30 + "7f",
]


@pytest.mark.parametrize("key", LOW)
def test_a_key_under_which_anybody_signs_is_refused(key: str, tmp_path: Path, owner: str) -> None:
    kept = results(tmp_path / "results")
    facts = json.loads((kept / SIGNATURE).read_text())
    # The identity and 0: a signature of anything under the identity, without a private key.
    facts |= {"public_key": key, "signature": "01" + "00" * 63}
    (kept / SIGNATURE).write_text(json.dumps(facts))
    assert not ran("verify", str(kept), code=1)["ok"]
    assert "a point of low order" in refusal("verify", str(kept), "--key", key)
    assert not Signature(**facts).is_genuine() and Signature.model_validate(facts)
    assert not signing._anybody_signs(owner)


def test_a_key_that_others_can_read_is_closed(
    tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "owner.pem"
    path.chmod(0o644)
    assert signing_key() is not None and path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.chmod", refused)
    with pytest.raises(ValueError, match=r"owner\.pem.*other users can read it: chmod 600"):
        signing_key()


@pytest.mark.parametrize("parts", [1, 2])
def test_an_answer_that_was_killed_before_it_was_signed_is_finished(
    parts: int, tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, labels, folders = a_request(tmp_path / "parts", parts=parts)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": tmp_path / "vault"}
    with monkeypatch.context() as patch:
        patch.setattr(two_parties, "sign_folder", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            answer(labels, folders, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))
    found = answer(labels, folders, tmp_path / "out", **given)
    assert not found.new and found.total_epsilon == 1.0
    assert ran("verify", str(tmp_path / "out"), "--key", owner)["ok"]
    with pytest.raises(ValueError, match="exists already"):
        answer(labels, folders, tmp_path / "out", **given)


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
@pytest.mark.parametrize("what", ["classes", "amounts"])
def test_a_fit_refuses_a_vault_that_is_not_as_it_was_signed(
    what: str, tmp_path: Path, owner: str
) -> None:
    table = np.arange(80.0).reshape(-1, 1)
    place = tmp_path / "vault"
    labels = np.arange(80) % 2
    names = np.arange(80)

    def model(epsilon: float) -> Any:
        if what == "classes":
            return LabelPrivateClassifier(
                "subset", epsilon=epsilon, classes=2, estimator=LogisticRegression(), vault=place
            ).fit(table, labels, names)
        return LabelPrivateRegressor(
            epsilon=epsilon, bounds=(0, 1), estimator=Ridge(), vault=place
        ).fit(table, labels, names)

    model(1.0)
    assert (place / SIGNATURE).exists()
    before = {path: path.read_bytes() for path in place.rglob("*.db")}
    (values,) = place.glob("fits/*/values.npy")
    content = values.read_bytes()
    values.unlink()
    with pytest.raises(ValueError, match=r"values\.npy in .*is not as it was signed"):
        model(0.5)
    values.write_bytes(content)
    (facts,) = place.glob("fits/*/fit.json")
    facts.write_text(facts.read_text() + " ")
    with pytest.raises(ValueError, match=r"fit\.json in .*is not as it was signed"):
        model(0.5)
    assert {path: path.read_bytes() for path in place.rglob("*.db")} == before
