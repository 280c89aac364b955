"""Two parties: one file each way, no label but the released ones in it, hostile partners."""

import json
import os
import re
import shutil
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from labeldp import LabelPrivateClassifier
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.ledger import BudgetExceeded
from labeldp.mechanisms.persons import Groups
from labeldp.mechanisms.rr_with_prior import ClusterHistograms, TwoClassHistograms
from labeldp.platform.api import party_files, two_parties
from labeldp.platform.api.party_files import FileNotAsWritten, read_release
from labeldp.platform.api.two_parties import answer, write_request
from labeldp.platform.cli import parties
from labeldp.platform.settings.methods import RELEASED
from labeldp.platform.vault import shared_vault, vault_store
from labeldp.platform.vault.shared_vault import SharedVault
from labeldp.trainers.data.files import FileRefused, file_digest
from labeldp.trainers.data.own_files import npz_arrays
from labeldp.trainers.data.tables import parquet_table
from labeldp.trainers.methods.any_model import named_estimator
from tests.platform.api.asked import ASKED, COLUMNS, ROWS, both_tables, released, requested
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import refusal, words
from tests.platform.sweep.examples import files_of


@pytest.mark.parametrize(
    "method", ["moments", "clusters", "subset", "randomized_response", "laplace"]
)
def test_one_folder_each_way_gives_a_model(method: str) -> None:
    features, labels, request = requested(method=method, epsilon=3.0)
    assert (request.weights is None) == (method != "moments")
    vault = SharedVault("vault")
    given: dict[str, Any] = {**COLUMNS, "epsilon": 3.0, "vault": vault}
    dry = answer(labels, request, None, **given)
    assert (dry.new, vault.charges()) == (True, [])
    found = answer(labels, request, "release", **given)
    assert found.epsilon == dry.epsilon == pytest.approx(3.0, abs=1e-9)
    assert found.total_epsilon == dry.total_epsilon and len(vault.charges()) == 1
    again = answer(labels, request, "again", **given)
    assert (again.new, len(vault.charges())) == (False, 1)
    first, second = (Path(name, "arrays.npz") for name in ("release", "again"))
    assert first.read_bytes() == second.read_bytes()
    release = read_release("release")
    model = two_parties.fit_release(features.sample(frac=1, random_state=1), [release])
    truth = labels.set_index("id").bought[features.id] == "yes"
    assert roc_auc_score(truth, model.predict_proba(features)[:, 1]) > 0.9
    # The same from the estimator, which counts what the release cost.
    learner = LabelPrivateClassifier(random_state=0).fit_release(features, "release")
    assert (learner.epsilon_, list(learner.classes_)) == (found.epsilon, ["no", "yes"])
    assert "epsilon 3" in learner.guarantee_ and "what else their owner" in learner.guarantee_
    assert learner.summary_.startswith(f"released {learner.ledger_[0].mechanism}: chosen by")
    assert roc_auc_score(truth, learner.predict_proba(features.drop(columns="id"))[:, 1]) > 0.9
    assert bool(learner.models_) == ("linear, penalty" in learner.summary_) == (method != "moments")
    with pytest.raises(ValueError, match="3,000 ids are in several releases"):
        learner.fit_release(features, "release", "again")


def test_a_release_that_counts_both_classes_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier releases do, with twice the noise."""
    features, labels, request = requested(method="clusters")
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0}
    with monkeypatch.context() as earlier:
        earlier.setattr("labeldp.trainers.methods.settings.class_counts", ClusterHistograms)
        answer(labels, request, "both", vault=SharedVault("vault"), **given)
    answer(labels, request, "one", vault=SharedVault("other"), **given)
    both, one = map(read_release, ("both", "one"))
    assert type(both.mechanism) is ClusterHistograms and type(one.mechanism) is TwoClassHistograms
    assert both.mechanism.noise_std > 1.3 * one.mechanism.noise_std
    assert request.clusters is not None
    sizes = np.bincount(request.clusters)
    assert (one.values.sum(1) == sizes).all()
    assert (both.values.sum(1) != sizes).any()
    # Weeks before and after an upgrade teach one model.
    model = two_parties.fit_release([features, features], [both, one])
    assert model.origin.epsilon == pytest.approx(2.0)


def test_sums_are_of_the_table_that_they_were_requested_of() -> None:
    features, labels = both_tables(600)
    releases = [released(features, labels, method="moments", epsilon=3.0)]
    model = two_parties.fit_release(features, releases)
    turned = two_parties.fit_release(features[features.columns[::-1]], releases)
    np.testing.assert_array_equal(turned.predict_proba(features), model.predict_proba(features))
    mixed = features.assign(id=features["id"].sample(frac=1, random_state=2).to_numpy())
    for other, why in (
        (mixed, "its sums are of other rows"),
        (features.assign(a=features["b"], b=features["a"]), "its sums are of other rows"),
        (features.rename(columns={"a": "z"}), "differ in column 'a' .one of 2"),
        (features.assign(d=1.0), "differ in column 'd'"),
    ):
        with pytest.raises(ValueError, match=why):
            two_parties.fit_release(other, releases)


def test_stages_ask_each_label_once_and_the_second_round_has_a_prior() -> None:
    features, labels = both_tables()
    facts: dict[str, Any] = {"id_column": "id", "method": "stages", "classes": ["no", "yes"]}
    given: dict[str, Any] = {**COLUMNS, "epsilon": 2.0, "vault": SharedVault()}
    first = write_request(features, "1", **facts)
    answer(labels, first, "r1", **given)
    one = read_release("r1")
    with pytest.raises(ValueError, match="give the same in the same order"):
        write_request(features, "0", **{**facts, "classes": ["yes", "no"]}, after=[one])
    second = write_request(features, "2", **facts, after=[one])
    assert second.prior is not None and not set(first.ids) & set(second.ids)
    found = answer(labels, second, "r2", **given)
    assert (found.total_epsilon, found.total_delta) == (2.0, 0.0)
    releases = [one, read_release("r2")]
    with pytest.raises(ValueError, match="differ in their method or classes"):
        two_parties.fit_release(features, [one, replace(releases[1], classes=("yes", "no"))])
    truth = labels.set_index("id").bought[features.id] == "yes"
    model = two_parties.fit_release(features, releases)
    assert roc_auc_score(truth, model.predict_proba(features)[:, 1]) > 0.9


def test_a_budget_holds_over_requests_person_by_person() -> None:
    features, labels = both_tables(100)
    halves = [
        write_request(features[rows], f"{rows.start}", **ASKED)
        for rows in (slice(0, 60), slice(40, 100))
    ]
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": SharedVault()}
    answer(labels, halves[0], "a", **given, budget=1.5)
    with pytest.raises(BudgetExceeded, match="would make it 2"):
        answer(labels, halves[1], "b", **given, budget=1.5)
    assert not Path("b").exists()
    for wrong in (-1.0, float("nan")):  # of a stored release, too
        with pytest.raises(ValueError, match="the limit of epsilon is"):
            answer(labels, halves[0], "c", **given, budget=wrong)
    assert answer(labels, halves[0], "c", **given, budget=1.5).new is False
    apart = write_request(features[60:], "apart", **ASKED)
    assert answer(labels, apart, "d", **given, budget=1.5).total_epsilon == 1.0


@pytest.mark.parametrize("folder", [True, False])
def test_concurrent_requests(folder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = both_tables(200)
    total = SharedVault.total

    def slowly(vault: SharedVault, **given: Any) -> tuple[float, float]:
        found = total(vault, **given)
        time.sleep(0.1)
        return found

    monkeypatch.setattr(SharedVault, "total", slowly)
    vault = SharedVault("vault" if folder else None)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": vault, "budget": 1.0}

    def paid(method: str) -> bool:
        request = write_request(features, method, **{**ASKED, "method": method})
        try:
            answer(labels, request, f"r {method}", **given)
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor() as threads:
        done = list(threads.map(paid, ["subset", "randomized_response", "laplace", "stages"]))
    assert sum(done) == len(vault.charges()) == 1 and vault.total() == (1.0, 0.0)


def test_a_draft_that_goes_while_the_folder_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    _, labels, request = requested(50)
    draft = Path(".other.draft")
    draft.mkdir()
    scan = os.scandir

    def moved(folder: Any = ".") -> Any:
        if Path(folder) == draft:
            raise FileNotFoundError(f"{draft} was moved")
        return scan(folder)

    monkeypatch.setattr(os, "scandir", moved)
    vault = SharedVault("vault")
    assert answer(labels, request, "r", **COLUMNS, epsilon=1.0, vault=vault).new
    assert len(party_files.lines_beside(draft, vault=vault.id)) == 1
    assert party_files.parts_of(draft) == [draft]


def test_a_request_is_answered_whatever_else_lies_in_its_folder() -> None:
    features, _ = both_tables(100)
    write_request(features, "request", **ASKED)
    write_request(features[:60], "request/some", **ASKED)
    assert party_files.parts_of("request") == [Path("request")]
    features.to_csv("features.csv", index=False)
    asked = "request features.csv --id-column id --method subset --classes".split()
    ran(*asked, "no\nyes", "-o", "lines")
    assert party_files.read_request("lines").classes == ("no", "yes")


def test_a_dry_run_does_not_relabel() -> None:
    _, labels, request = requested(50)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": SharedVault()}
    answer(labels, request, "1", **given)
    dry = answer(labels, request, None, **given, relabel=True)
    assert (dry.new, dry.total_epsilon) == (True, 2.0)
    assert not answer(labels, request, "2", **given).new
    others = labels.assign(bought=labels.bought.iloc[::-1].to_numpy())
    with pytest.raises(ValueError, match="Use --relabel with each delivery"):
        answer(others, request, "3", **given)
    assert answer(others, request, "3", **given, relabel=True).total_epsilon == 2.0


@pytest.mark.parametrize("folder", [True, False])
def test_a_refused_request_changes_nothing(folder: bool) -> None:
    features, labels, request = requested(50)
    vault = SharedVault("vault" if folder else None)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": vault, "budget": 1.5}
    assert answer(labels, request, "1", **given).new
    with pytest.raises(BudgetExceeded, match="would make it 2"):
        answer(labels, request, "2", **given, relabel=True)
    assert not answer(labels, request, "2", **given).new
    assert len(vault.charges()) == 1
    another = write_request(features, "another", **{**ASKED, "classes": ["yes", "no"]})
    others = labels.assign(bought=labels.bought.iloc[::-1].to_numpy())
    with pytest.raises(BudgetExceeded):  # ties the ids to no labels
        answer(others, another, "4", **given)
    assert answer(labels, another, "4", **{**given, "epsilon": 0.5}).new


@pytest.mark.parametrize("folder", [True, False])
def test_a_dry_run_ties_ids_neither_to_labels_nor_to_persons(folder: bool) -> None:
    _, labels, request = requested(50)
    vault = SharedVault("vault" if folder else None)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": vault}
    some = labels[labels.bought == "yes"]
    assert answer(some, request, None, **given, missing="yes").new
    households = labels.assign(household=np.arange(len(labels)) // 3)
    assert answer(households, request, None, **given, person_column="household").persons == 17
    assert answer(some, request, "release", **given, missing="no").total_epsilon == 1.0


def test_other_rows_of_the_table_do_not_change_what_is_learned() -> None:
    features, labels = both_tables()
    release = [released(features, labels, method="moments")]
    more = features.assign(id="other " + features.id, a=9 * features.a + 50, town="Oslo")
    both = pd.concat([more, features.iloc[::-1]])
    one, two = (two_parties.fit_release(table, release) for table in (features, both))
    np.testing.assert_array_equal(one.predict_proba(features), two.predict_proba(features))


def test_labels_of_one_class_give_a_model() -> None:
    features, labels = both_tables(100)
    release = released(features, labels.assign(bought="no"), epsilon=20.0)
    model = two_parties.fit_release(features, [release])
    assert (model.predict_proba(features)[:, 1] < 0.01).all()


def test_a_release_holds_no_label_and_no_secret_of_the_vault() -> None:
    _, labels, request = requested(200, method="moments", classes=["Quitte", "Zwetschge"])
    labels["bought"] = labels.bought.map({"yes": "Zwetschge", "no": "Quitte"})
    vault = SharedVault("vault")
    answer(labels, request, "release", **COLUMNS, epsilon=1.0, vault=vault)
    names = {path.name for path in Path("release").iterdir()}
    assert names == {"release.json", "arrays.npz"}
    asked, given = (npz_arrays(Path(name, "arrays.npz")) for name in ("q", "release"))
    values = given.pop("values")
    assert values.shape == (request.weights.shape[1], 2)  # type: ignore[union-attr]
    del given["row_marks"]  # sums of the request's own weights
    # All else is as the other party wrote it.
    assert set(asked) - set(given) == {"weights"}
    assert all(array.tobytes() == asked[name].tobytes() for name, array in given.items())
    (charge,) = vault.charges()
    text = Path("release/release.json").read_text()
    assert charge.key not in text and json.loads(text)["classes"] == ["Quitte", "Zwetschge"]


def _rewritten(folder: str, change: Any, name: str = "request.json") -> None:
    """Change a request or release as its writer could have: with digests that fit."""
    facts, ids, arrays = party_files.read_folder(Path(folder), name)
    for own in ("digest", "format", "arrays"):
        facts.pop(own)
    arrays["ids"] = ids
    change(facts, arrays)
    party_files.write_folder(Path(folder), name, facts, arrays.pop("ids"), arrays)


def _one_person(facts: dict[str, Any], files: dict[str, Any]) -> None:
    files["weights"][:, 0] = 0x88  # twice 0
    files["weights"][7, 0] = 0xF8


def _long_rows(facts: dict[str, Any], files: dict[str, Any]) -> None:
    files["units"] *= 1000


def test_whatever_the_directions_are_a_label_pays_the_stated_epsilon() -> None:
    features, labels = both_tables()
    for change in (_one_person, _long_rows):
        write_request(features, change.__name__, **{**ASKED, "method": "moments"})
        _rewritten(change.__name__, change)
        request = party_files.read_request(change.__name__)
        ((weights,), *_) = request.public(Groups())
        assert np.linalg.norm(weights.astype(np.float64), axis=1).max() <= 1
        given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": SharedVault()}
        found = answer(labels, request, None, **given)
        assert found.epsilon == pytest.approx(1.0, abs=1e-9)


def _wide(facts: dict[str, Any], files: dict[str, Any]) -> None:
    for name in ("units", "totals", "strengths", "slopes", "projection", "mixing"):
        rows = (4097,) if name == "mixing" else files[name].shape[:-1]
        files[name] = np.zeros((*rows, 4097), np.float16)


#: What a writer may change, of the facts and of the files of its request, and the refusal.
HOSTILE: dict[str, tuple[str, Any]] = {
    "an id twice": ("an id twice", lambda _, files: files["ids"].put(0, files["ids"][1])),
    "a long id": (
        "an id of more than 1,000 bytes",
        lambda _, files: files.update(ids=np.append(files["ids"][1:], "x" * 5000)),
    ),
    "no ids": ("twice, or none", lambda _, files: files.update(ids=files["ids"][:0])),
    "not finite": ("has length inf", lambda _, files: files["units"].put(0, np.inf)),
    "no units": ("KeyError: 'units'", lambda _, files: files.pop("units")),
    "nothing": ("has length 0;", lambda _, files: files["weights"].fill(0x88)),
    "a short table": (
        r"uint8\(299, 8\) where uint8\(300, 8\)",
        lambda _, files: files.update(weights=files["weights"][:-1]),
    ),
    "a wide table": ("of 4,097 sums or counts; the most is 4,096", _wide),
    "classes are not a list": ("TypeError: 'int'", lambda facts, _: facts.update(classes=5)),
    "of true labels": ("method 'pate'; an", lambda facts, _: facts.update(method="pate")),
}
COUNTS: dict[str, tuple[str, Any]] = {
    "many groups": ("301 sums or counts", lambda _, files: files["clusters"].put(0, 300)),
    "few rows": (r"\(299,\)", lambda _, files: files.update(clusters=files["clusters"][1:])),
    "no groups": ("clusters need clusters", lambda _, files: files.pop("clusters")),
    "of true labels": HOSTILE["of true labels"],
}


@pytest.mark.parametrize(
    ("method", "says", "change"),
    [("moments", *each) for each in HOSTILE.values()]
    + [("clusters", *each) for each in COUNTS.values()],
    ids=[*HOSTILE, *COUNTS],
)
def test_a_hostile_request_is_refused(method: str, says: str, change: Any) -> None:
    _, labels, _ = requested(300, method=method)
    _rewritten("q", change)
    vault = SharedVault()
    with pytest.raises(FileNotAsWritten, match=says):
        request = party_files.read_request("q")
        answer(labels, request, "r", **COLUMNS, epsilon=1.0, vault=vault)
    assert vault.charges() == [] and not Path("r").exists()


@pytest.fixture
def request_folder() -> Path:
    return requested(300, method="moments")[2].folder


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("arrays.npz", r"can't be read as \.npz|is a pipe"),
        ("request.json", "JSONDecodeError|UnicodeDecodeError|RecursionError|is a pipe"),
    ],
)
def test_a_file_that_claims_what_it_has_not_is_refused(
    file: str, says: str, request_folder: Path
) -> None:
    folder = request_folder
    facts = json.loads((folder / "request.json").read_text())
    del facts["digest"]
    claim, array = BytesIO(), BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(array, header)
    with ZipFile(claim, "w") as packed:
        packed.writestr("ids.npy", array.getvalue())
    for content in (b"", claim.getvalue(), b"[" * 100_000, None):
        (folder / file).unlink()
        if content is None:
            os.mkfifo(folder / file)
        else:
            (folder / file).write_bytes(content)
        if file == "arrays.npz":
            facts["arrays"] = "" if content is None else file_digest(folder / file)
            stated = {**facts, "digest": party_files._digest_of(facts)}
            (folder / "request.json").write_text(json.dumps(stated))
        with pytest.raises(FileNotAsWritten, match=says):
            party_files.read_request(folder)


def test_a_file_that_unpacks_to_more_than_the_memory_is_refused(
    request_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = request_folder / "arrays.npz"
    arrays = npz_arrays(path)
    arrays["weights"].fill(0x77)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    facts = json.loads((request_folder / "request.json").read_text())
    facts["arrays"] = file_digest(path)
    facts["digest"] = party_files._digest_of({k: v for k, v in facts.items() if k != "digest"})
    (request_folder / "request.json").write_text(json.dumps(facts))
    with pytest.raises(FileNotAsWritten, match="labeldp writes it uncompressed"):
        party_files.read_request(request_folder)
    assert npz_arrays(path)  # anybody else's may be compressed
    memory = path.stat().st_size + 1
    monkeypatch.setattr("labeldp.trainers.data.files.memory_bytes", lambda: memory)
    with pytest.raises(FileRefused, match=r"holds .* bytes when unpacked"):
        npz_arrays(path)


def test_an_altered_file_is_refused(request_folder: Path) -> None:
    for path in request_folder.iterdir():
        before = path.read_bytes()
        place = len(before) // 2
        path.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
        with pytest.raises(FileNotAsWritten, match=r"was altered|can't be read"):
            party_files.read_request(request_folder)
        path.write_bytes(before)
    party_files.read_request(request_folder)


def test_ids_without_a_label_are_refused_or_have_the_stated_class() -> None:
    features, labels, request = requested(100)
    bought = labels[labels.bought == "yes"]
    given: dict[str, Any] = {**COLUMNS, "epsilon": 30.0, "vault": SharedVault()}
    with pytest.raises(ValueError, match="ids of the request have no label"):
        answer(bought, request, "r", **given)
    gaps = labels.assign(bought=labels.bought.where(labels.bought == "yes"))
    with pytest.raises(ValueError, match="ids of the request have no label"):
        answer(gaps, request, "r", **given)
    answer(bought, request, "r", **given, missing="no")
    found = read_release("r").values.argmax(1)
    truth = labels.set_index("id").bought[features.id] == "yes"
    assert (found == truth.to_numpy()).all()
    given["vault"] = SharedVault()
    assert answer(gaps, request, None, **given, missing="no").absent == (~truth).sum()
    # Of whole numbers, and ids that a gap elsewhere in the file made floats.
    numbers = labels.assign(bought=labels.bought.map({"yes": 1.0}))
    request = write_request(features, "numbers", **{**ASKED, "classes": ["0", "1"]})
    given["vault"] = SharedVault()
    assert answer(numbers, request, None, **given, missing="0").absent == (~truth).sum()


@pytest.mark.parametrize(
    "column", [{"id_column": "id"}, {"label_column": "bought"}, {"person_column": "person"}]
)
def test_a_table_without_a_header_shows_no_label(column: dict[str, str]) -> None:
    features = pd.DataFrame({"id": ["a", "b"], "age": [1, 2]})
    request = write_request(features, "request", **{**ASKED, "classes": ["HIV", "no"]})
    labels = pd.DataFrame([["a", "no"], ["b", "no"]], columns=["c", "HIV"])
    given: dict[str, Any] = {"id_column": "c", "label_column": "HIV", **column}
    with pytest.raises(ValueError, match="the labels have no column") as refused:
        answer(labels, request, None, **given, epsilon=1.0, vault=SharedVault())
    assert "HIV" not in str(refused.value)


@pytest.mark.parametrize("label", ["no", "yes"])
def test_an_answer_does_not_depend_on_the_label_of_one(label: str) -> None:
    features, labels = both_tables(100)
    one = features[features.id == labels.id[labels.bought == label].iloc[0]]
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": SharedVault()}
    for name in ("no", "yes"):  # the class that is left out
        asked = {**ASKED, "classes": ["?", name]}
        request = write_request(one, f"without {name}", **asked)
        with pytest.raises(ValueError, match="not among the classes"):
            answer(labels, request, "r", **given)
    assert given["vault"].charges() == []
    request = write_request(one, "both", **ASKED)
    bought = labels[labels.bought == "yes"]
    found = answer(bought, request, "r", **given, missing="no")
    assert (found.epsilon, found.absent) == (1.0, int(label == "no"))


def test_commands_and_their_exit_codes() -> None:
    ran("data", "make", "conversions", "--rows", "1000", "-o", "log")
    table, secret = "log/features.parquet", "log/labels.parquet"
    request = ("request", table, "--id-column", "id", "--classes", "no,yes", "--method")
    assert "need features and true labels" in refusal(*request, "pate", "-o", "request")
    twice = ("request", table, "--id-column", "id", "--classes", "no,no", "--method", "subset")
    assert "two or more that differ" in refusal(*twice, "-o", "request")
    shown = words(*request, "clusters", "-o", "clusters")
    assert "the ids and the group of each row" in shown
    ran(*request, "moments", "-o", "request")
    columns = ("--id-column", "id", "--label-column", "bought")
    release = ("release", secret, *columns, "--request", "request", "--budget", "2")
    found = ran(*release, "-o", "release", "--epsilon", "1")
    assert {"rows", "epsilon", "delta", "bytes", "folder"} <= set(found)
    words(*release, "-o", "again", "--epsilon", "1.9", code=4)
    assert "above 1 / 1,000" in words(*release, "--epsilon", "1", "--delta", "0.01", "--dry-run")
    assert "at no cost" in words(*release, "--epsilon", "1", "--dry-run")
    fit = ("--release", "release", "-o", "model")
    assert "the columns that the request was made of" in refusal("fit", secret, *fit)
    assert ran("fit", table, *fit)["models"] == []
    answered = ("release", secret, *columns, "--request", "clusters", "--epsilon", "1")
    ran(*answered, "--vault", "labels.vault", "-o", "counts")
    told = words("fit", table, "--release", "counts", "-o", "stack")
    assert "models by weight and held-out log-likelihood: " in told
    ran("predict", "model", "log/test.parquet", "-o", "p.csv")
    assert "prediction" in pd.read_csv("p.csv")


def test_the_command_for_the_other_party_has_the_whole_price() -> None:
    both_tables(60)[0].to_csv("features.csv", index=False)
    asked = ["request", "features.csv", "--id-column", "id", "--classes", "no,yes"]
    asked += ["--delta", "1e-8", "--epsilon", "2", "-o", "my request", "--method"]
    said = words(*asked, "moments")
    assert "--request 'my request' --epsilon 2 --delta 1e-08 -o release\n" in said
    shutil.rmtree("my request")
    assert "'my request' --epsilon 2 -o release\n" in words(*asked, "subset")


@pytest.mark.parametrize("method", ["moments", "subset"])
def test_a_large_file_is_requested_and_learned_in_parts(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels = both_tables()
    features.to_parquet("features.parquet", index=False, row_group_size=700)
    labels.to_parquet("labels.parquet", index=False)
    read, whole = list[Any](), parquet_table

    def only_labels(file: Path, *, columns: Any = None, rows: range | None = None) -> Any:
        if rows is None:
            read.append(columns)
        return whole(file, columns=columns, rows=rows)

    monkeypatch.setattr(parties, "parquet_table", only_labels)
    asked = f"request features.parquet --id-column id --method {method} --classes no,yes -o request"
    found = ran(*asked.split(), "--rows-at-once", "1100")
    assert found["rows"] == ROWS
    parts = [party_files.read_request(part) for part in sorted(Path("request").iterdir())]
    assert [len(part.ids) for part in parts] == [1100, 1100, 800]
    shown = [0 if part.weights is None else part.weights.shape[1] for part in parts]
    assert found["directions"] == max(shown)
    owner = "release labels.parquet --id-column id --label-column bought --request request".split()
    owner += "--epsilon 3 --budget 3 -o release".split()
    found = ran(*owner)
    assert (found["rows"], found["known"], found["new"]) == (ROWS, 0, True)
    assert found["total_epsilon"] == pytest.approx(3.0, abs=1e-9)
    assert "exists already" in refusal(*owner)
    held = list[Any]()
    monkeypatch.setattr(party_files, "check_answers", lambda _, own: held.append(own.weights))
    fitted = ran(*"fit features.parquet --release release --estimator logistic -o model".split())
    assert held == [None] * 3, "what is as large as the features is not kept of all parts"
    assert fitted["rows"] == ROWS and fitted["epsilon"] == pytest.approx(3.0, abs=1e-9)
    assert set(read) == {("id", "bought")}, "features are never read as a whole"
    ran("predict", "model", "features.parquet", "-o", "found.csv")
    chances = pd.read_csv("found.csv")["probability_yes"]
    bought = features.merge(labels, on="id", how="left").bought == "yes"
    assert roc_auc_score(bought, chances) > 0.9
    assert "--rows-at-once is 1" in refusal(*asked.split(), "--rows-at-once", "1")
    features[:0].to_parquet("empty.parquet", index=False)
    empty = asked.replace("features", "empty").replace("-o request", "-o other").split()
    assert "the features have no rows" in refusal(*empty, "--rows-at-once", "2")
    assert not Path("other").exists()
    staged = asked.replace(method, "stages").split()
    assert "nor --method stages" in refusal(*staged, "--rows-at-once", "1100")


def test_an_id_in_two_parts_of_a_request_is_refused() -> None:
    features, labels = both_tables()
    labels.to_parquet("labels.parquet", index=False)
    for part, some in {"part0000": features[:50], "part0001": features[49:99]}.items():
        write_request(some, f"request/{part}", **ASKED)
    owner = "release labels.parquet --id-column id --label-column bought --epsilon 1 "
    owner += "--request request -o release"
    assert "1 ids in two parts" in refusal(*owner.split())
    assert not Path("labels.vault/fits").is_dir()


def test_an_index_of_pandas_is_a_column_if_it_has_a_name() -> None:
    features = both_tables(40)[0][::2]
    features.to_parquet("plain.parquet")
    features.set_index("id").to_parquet("named.parquet")
    for name in ("plain", "named"):
        table = parties.read_table(f"{name}.parquet")
        assert table.id.tolist() == features.id.tolist() and {*table} == {*features}


@pytest.mark.parametrize(
    "write", ["\u200b{}\u0301\ufeff", lambda name: unicodedata.normalize("NFC", f"{name}\u0301")]
)
def test_ids_are_the_same_however_they_are_written(write: Any) -> None:
    features, labels = both_tables(60)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": "vault", "budget": 1.0}
    spelled = write.format if isinstance(write, str) else write
    features, labels = (
        table.assign(id=[f"{name}e\u0301" for name in table.id]) for table in (features, labels)
    )
    others = features.assign(id=[spelled(f"{name[:-1]}") for name in features.id])
    answer(labels, write_request(features, "1", **ASKED), "r", **given)
    again = answer(labels, write_request(others, "2", **ASKED), "a", **given)
    assert not again.new
    fitted = two_parties.fit_release(others, [read_release("r")])
    assert fitted.origin.epsilon == 1.0
    some = write_request(others[:30], "3", **ASKED)
    with pytest.raises(BudgetExceeded, match="would make it 2"):
        answer(labels, some, "b", **given, relabel=True)
    with pytest.raises(ValueError, match=r"60 rows and 59 ids; .*zeros of a number"):
        write_request(features.assign(id=["07", *range(1, 60)]), "x", **ASKED)


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_large_numbers_are_exact_names_beside_a_gap(kind: str) -> None:
    columns = "--id-column id --label-column bought --person-column person --vault v".split()
    for week in range(2):
        features, labels = both_tables(40)
        features["id"], labels["id"] = (f"{week} " + table["id"] for table in (features, labels))
        write_request(features, f"q{week}", **ASKED)
        labels = labels.sort_values("id", ignore_index=True)
        labels["person"] = pd.Series(2**60 + np.arange(len(labels)), dtype="Int64")
        if week:
            labels.loc[labels.id == "1 stranger", "person"] = None
        labels.to_parquet(f"{week}.parquet")
        file = f"{week}.parquet"
        given = (file,) if kind == "parquet" else ("duckdb:", "--query", f"SELECT * FROM '{file}'")
        answered = ("release", *given, *columns, "--request", f"q{week}", "--epsilon", "1")
        words(*answered, "--budget", "1", "-o", f"r{week}", code=4 * week)


@pytest.mark.parametrize("column", ["id", "person"])
@pytest.mark.parametrize("name", [2.0**60, 9007199254740994.0, "1.15292E+18"])
def test_rounded_names_are_refused(column: str, name: object) -> None:
    _, labels, request = requested(2)
    labels = labels.assign(person=range(3)).assign(**{column: [name, 1, 2]})
    given: dict[str, Any] = {**COLUMNS, "person_column": "person", "vault": SharedVault()}
    why = rf"column '{column}' of the labels has .* rounded: .* text or whole numbers"
    with pytest.raises(ValueError, match=why):
        answer(labels, request, None, **given, epsilon=1.0)


def test_persons_under_other_names_have_paid_under_both() -> None:
    features, labels, request = requested(60)
    labels["person"] = [f"anna {number // 2}" for number in range(len(labels))]
    given: dict[str, Any] = {**COLUMNS, "vault": "vault", "person_column": "person"}
    answer(labels, request, "r1", **given, epsilon=1.0)
    labels["person"] = [f"berta {number // 2}" for number in range(len(labels))]
    other = write_request(features[1:], "2", **ASKED)
    with pytest.raises(BudgetExceeded, match="would make it 2"):
        answer(labels, other, "r2", **given, epsilon=1.0, budget=1.5)
    found = answer(labels, other, "r2", **given, epsilon=1.0, budget=2.0)
    assert found.total_epsilon == 2.0 == SharedVault("vault").epsilon()


#: What refuses an answer, by what the caller does wrong.
REFUSED: dict[str, tuple[str, Any]] = {
    "budget": ("the budget is epsilon 0.5", {"budget": 0.5}),
    "unknown class": (r"\(--missing\) is 'perhaps', .* not among", {"missing": "perhaps"}),
    "labels of nobody": ("holds? for each label only", {"max_labels_per_person": 3}),
    "persons of parts": ("in parts, and a person", {"person_column": "person"}),
    "unknown id": ("1 of 40 ids of the request have no label", {}),
    "output is a file": ("out exists already", {}),
    "output is below a file": ("file/out can't be made", {}),
    "output exists": ("out exists already", {}),
    "a draw that fails": ("a crafted part", {}),
    "more than a reader takes": ("have 2,080 bytes, .* 2,000; .* --rows-at-once", {}),
    "a key that is none": ("holds no ed25519 key", {}),
    "an edited release beside": ("lost 1 lines", {}),
}


@pytest.mark.parametrize("vault_is", ["new", "used"])
@pytest.mark.parametrize("what", REFUSED)
def test_whatever_is_refused_has_no_effect(
    what: str, vault_is: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels = both_tables(40)
    out, vault = Path("out"), Path("vault")
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": vault}
    halves = [Path("q", name) for name in ("part0000", "part0001")]
    for half, rows in zip(halves, (features[:20], features[20:]), strict=True):
        write_request(rows, half, **ASKED)
    if vault_is == "used":
        answer(labels, halves[:1], "earlier", **given)
    if what == "unknown id":
        labels = labels[labels.id != features.id[30]]
    if what == "output exists":
        (out / "part0001").mkdir(parents=True)
        (out / "part0001" / "file").touch()
    if what == "output is a file":
        out.touch()
    if what == "output is below a file":
        Path("file").touch()
        out = Path("file/out")
    if what == "a draw that fails":
        release = SubsetSelection.release

        def fails(mechanism: Any, drawn: Any, **how: Any) -> Any:
            calls.append(len(drawn))
            if len(calls) == 2:
                raise ValueError("a crafted part")
            return release(mechanism, drawn, **how)

        calls = list[int]()
        monkeypatch.setattr(SubsetSelection, "release", fails)
    if what == "more than a reader takes":
        monkeypatch.setattr(party_files, "_MOST_BYTES", 2000)
    if what == "a key that is none":
        Path("key").write_text("no key")
        monkeypatch.setenv("LABELDP_SIGNING_KEY", "key")
    if what == "an edited release beside":
        if vault_is == "new":
            pytest.skip("a new vault has made no release")
        _rewritten("earlier", lambda x, _: x["ledger"].update(line="0"), "release.json")
    before = files_of(Path())
    says, wrong = REFUSED[what]
    with pytest.raises(ValueError, match=says):
        answer(labels, halves, out, **given, **wrong, relabel=True)
    assert files_of(Path()) == before
    assert vault.exists() == (vault_is == "used")


def test_a_release_that_the_vault_forgot_is_refused_or_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state folder was lost with the vault, and the release that went out is still there."""
    features, labels, request = requested(40)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault": "vault"}
    first = {**ASKED, "method": "laplace"}
    answer(labels, write_request(features, "first", **first), "r", **given)
    shutil.copytree("vault", "backup")
    answer(labels, request, "release", **given)
    shutil.rmtree("vault")
    shutil.copytree("backup", "vault")
    monkeypatch.setenv("LABELDP_STATE", "state")
    SharedVault("vault", moved=True).epsilon()
    with pytest.raises(ValueError, match="lost 1 lines"):
        answer(labels, request, "again", **given)
    found = answer(labels, request, "again", **given, moved=True)
    assert found.new and found.total_epsilon == 3.0


@pytest.mark.parametrize("file", ["people.npy", "fit.json", "vault.db"])
@pytest.mark.parametrize("guessed", [False, True])
def test_a_damaged_fit_is_charged_to_everybody_and_goes_on(guessed: bool, file: str) -> None:
    _, labels, request = requested(40)
    given: dict[str, Any] = {**COLUMNS, "vault": "vault", "vault_is_guessed": guessed}
    answer(labels, request, "r1", **given, epsilon=1.0)
    (damaged,) = Path("vault").glob(f"fits/*/{file}")
    os.truncate(damaged, 0)
    with pytest.raises(ValueError, match="--moved"):
        answer(labels, request, "r2", **given, epsilon=2.0)
    found = answer(labels, request, "r2", **given, epsilon=2.0, moved=True)
    assert found.total_epsilon == SharedVault("vault").epsilon() >= 3.0
    assert not answer(labels, request, "r3", **given, epsilon=2.0).new
    assert read_release("r2").values.tobytes() == read_release("r3").values.tobytes()


@pytest.mark.parametrize("guessed", [False, True])
def test_a_command_that_was_killed_as_it_made_its_vault_is_repeated(guessed: bool) -> None:
    _, labels, request = requested(40)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault_is_guessed": guessed}

    def killed(path: Path, **_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vault_store, "database", killed)
        with pytest.raises(KeyboardInterrupt):
            answer(labels, request, "r", **given, vault="vault")
    (made,) = Path("vault").glob("fits/*/vault.db")
    assert made.stat().st_size == 0
    assert answer(labels, request, None, **given, vault="vault").new
    assert answer(labels, request, "r", **given, vault="vault").total_epsilon == 1.0


def test_people_of_a_fit_are_read_once_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = both_tables(40)
    read = list[Path]()
    side_of = shared_vault._side_of

    def counted(fit: Path) -> Any:
        read.append(fit)
        return side_of(fit)

    monkeypatch.setattr(shared_vault, "_side_of", counted)
    parts = [Path("q", f"part000{number}") for number in range(4)]
    for number, part in enumerate(parts):
        write_request(features[10 * number : 10 * number + 10], part, **ASKED)
    answer(labels, parts[:1], "r1", **COLUMNS, epsilon=1.0, vault="vault")
    read.clear()
    answer(labels, parts, "r2", **COLUMNS, epsilon=1.0, vault="vault")
    assert 1 <= len(read) == len(set(read)) <= 2


def test_what_a_lost_vault_counted_is_unknown_to_persons() -> None:
    _, labels, request = requested(40)
    labels["person"] = np.arange(len(labels)) // 2
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "person_column": "person"}
    answer(labels, request, "r1", **given, vault="vault")
    shutil.rmtree("vault")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"may have counted single labels.* another vault"):
            answer(labels, request, "r2", **given, vault="vault", moved=True)
    assert SharedVault("vault").epsilon() == 1.0 and not Path("r2").exists()


def test_a_second_ledger_of_the_same_people_is_refused_or_announced() -> None:
    features, labels = both_tables(40)
    features.to_csv("features.csv", index=False)
    for name in ("labels_week1", "labels_week2"):
        labels.to_csv(f"{name}.csv", index=False)
    ran(*"request features.csv --id-column id --method subset --classes no,yes -o q".split())
    end = "--id-column id --label-column bought --request q --epsilon 1 -o".split()
    assert "labels_week1.vault is a new vault" in words("release", "labels_week1.csv", *end, "r1")
    line = refusal("release", "labels_week2.csv", *end, "r2")
    assert re.search("40 of 40 names of this request are known to [^ ]*labels_week1.vault", line)
    assert not Path("labels_week2.vault").exists() and not Path("r2").exists()
    named = ("--vault", "labels_week2.vault")
    assert "a new vault" in words("release", "labels_week2.csv", *end, "r2", *named)
    shown = words("release", "labels_week2.csv", *end, "r3", "--vault", "labels_week1.vault")
    assert "at no cost" in shown and "a new vault" not in shown


@pytest.mark.parametrize("first", [{}, {"person_column": "who"}])
@pytest.mark.parametrize("second", [{}, {"person_column": "who"}])
def test_a_guessed_vault_without_releases_is_a_second_ledger(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    _, labels, request = requested(40)
    labels["who"] = [f"p{number // 2}" for number in range(len(labels))]
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "vault_is_guessed": True}
    answer(labels, request, "r1", vault="a.vault", **given, **first)
    labels["who"] = "another " + labels.who
    Path("b.vault").mkdir()
    with pytest.raises(ValueError, match=r"are known to .*a\.vault"):
        answer(labels, request, "r2", vault="b.vault", **given, **second)
    assert not any(Path("b.vault").iterdir()) and not Path("r2").exists()


def test_a_request_of_which_almost_nothing_is_known_is_refused() -> None:
    features, labels, request = requested(1000)
    given: dict[str, Any] = {**COLUMNS, "epsilon": 1.0, "missing": "no"}
    others = labels.assign(id="V-" + labels.id)
    limits: list[tuple[int, dict[str, Any]]] = [(0, {}), (9, {}), (400, {"most_missing": 0.5})]
    for known, limit in limits:
        table = pd.concat([labels[labels.id.isin(features.id[:known])], others])
        words = rf"{1000 - known:,} of 1,000 ids of the request .*--most-missing SHARE"
        with pytest.raises(ValueError, match=words):
            answer(table, request, None, **given, vault=SharedVault(), **limit)
    some = labels[labels.id.isin(features.id[:10])]
    assert answer(some, request, None, **given, vault=SharedVault()).absent == 990
    nobody = answer(others, request, None, **given, vault=SharedVault(), most_missing=1.0)
    assert nobody.absent == 1000
    for share in (float("nan"), -0.1, 1.1):
        with pytest.raises(ValueError, match="most_missing is"):
            answer(some, request, None, **given, vault=SharedVault(), most_missing=share)


#: What a release may state that its noise does not have, and what the refusal says of it.
UNTRUE: dict[str, tuple[str, dict[str, Any]]] = {
    "no epsilon": ("epsilon 0 at", {"epsilon": 0}),
    "less": ("epsilon 0.999 at", {"epsilon": 0.999}),
    "negative": ("epsilon -1 at", {"epsilon": -1}),
    "more": ("epsilon 2 at", {"epsilon": 2}),
    "infinite": ("epsilon inf at", {"epsilon": float("inf")}),
    "not a number": ("epsilon nan at", {"epsilon": float("nan")}),
    "other noise": ("noise of .* price is that of", {"asked_epsilon": 0.5, "epsilon": 0.5}),
    "a delta": ("epsilon 1 at delta 0.1|noise of", {"delta": 0.1}),
    "a class more": ("'num_classes': 3|, 3. belongs", {"classes": ["no", "yes", "perhaps"]}),
    "another method": (r"where \w+\(60, 2\) belongs", {"method": "laplace"}),
    "another mechanism": ("noise of .* price is that of", {"mechanism": "Nothing"}),
}


@pytest.mark.parametrize("untrue", UNTRUE)
@pytest.mark.parametrize("method", ["subset", "moments", "randomized_response"])
def test_a_release_that_states_less_than_its_noise_is_refused(method: str, untrue: str) -> None:
    released(*both_tables(60), method=method)
    says, changes = UNTRUE[untrue]
    _rewritten("r", lambda facts, _: facts.update(changes), "release.json")
    with pytest.raises(FileNotAsWritten, match=says):
        read_release("r")


#: What a writer may change in the files of a release.
CRAFTED: dict[str, tuple[str, Any]] = {
    "many classes": (
        "200000 classes",
        lambda x, _: x.update(classes=list(map(str, range(200_000)))),
    ),
    "equal classes": ("1 of them diff", lambda x, _: x.update(classes=["yes", "yes"])),
    "classes without values": (
        r"\(60, 113\) belongs",
        lambda facts, _: facts.update(classes=list(map(str, range(900)))),
    ),
    "no values": (r"\(60, 0\)", lambda _, x: x.update(values=x["values"][:, :0])),
    "wide values": (r"\(60, 4\)", lambda _, x: x.update(values=x["values"].repeat(4, 1))),
    "an id twice": HOSTILE["an id twice"],
    "no length": ("states length nan", lambda facts, _: facts.update(length="nan")),
    "no payers": ("-3 payers", lambda facts, _: facts.update(payers=-3)),
    "no ledger": ("can't be read as a folder", lambda facts, _: facts.update(ledger="x")),
}


@pytest.mark.parametrize("change", CRAFTED)
def test_a_crafted_release_is_refused_and_hinders_no_other(change: str) -> None:
    features, labels = both_tables(60)
    released(features, labels)
    says, crafted = CRAFTED[change]
    _rewritten("r", crafted, "release.json")
    with pytest.raises(FileNotAsWritten, match=says):
        read_release("r")
    request = party_files.read_request("q")
    answer(labels, request, "ours", **COLUMNS, epsilon=1.0, vault=SharedVault("vault"))


def test_a_release_answers_its_own_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = both_tables(60)
    features.to_csv("features.csv", index=False)
    released(features, labels)
    write_request(features[:30], "other", **ASKED)
    line = ("fit", "features.csv", "--release", "r", "--estimator", "logistic", "-o")
    assert "answers the request" in refusal(*line, "m", "--request", "other")
    Path("closed").mkdir()
    stat = Path.stat

    def refused(path: Path, **how: Any) -> Any:
        if path.parent.name == "closed":
            raise PermissionError(f"{path} is another user's")
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refused)
    assert "not compared" not in words(*line, "m")
    for turned in (["yes", "no"], ["no", "oui"]):
        _rewritten("r", lambda facts, _, own=turned: facts.update(classes=own), "release.json")
        assert "does not answer" in refusal(*line, "m2")
    plain = Path("q/request.json").read_text()
    Path("q/request.json").write_text(plain.replace('"yes"', '"oui"'))
    assert "request.json was altered" in refusal(*line, "m2")
    Path("q/request.json").write_text(plain)
    Path("q").rename("elsewhere")
    Path("away").mkdir()
    Path("r").rename("away/r")
    line = ("fit", "features.csv", "--release", "away/r", "--estimator", "logistic", "-o")
    assert "1 releases were not compared with a request" in words(*line, "m3")
    assert "does not answer" in refusal(*line, "m4", "--request", "elsewhere")


@pytest.mark.parametrize("method", RELEASED)
def test_features_that_fit_refuses_are_not_requested(method: str) -> None:
    features, _ = both_tables(30)
    for column, says in (
        (["a"] * 29 + [[1, 2]], "holds a str, which does not go with the others"),
        ([1 + 2j] * 30, "holds complex128"),
        ([np.inf] + [1.0] * 29, "'strange' is inf"),
        (features.id + 500 * "ü", "an id of more than 1,000 bytes"),
    ):
        name = "id" if isinstance(column, pd.Series) else "strange"
        with pytest.raises(ValueError, match=says):
            write_request(features.assign(**{name: column}), "q", **{**ASKED, "method": method})
    assert not Path("q").exists()
    numbered = both_tables(120)[0][["id"]].assign(visit=range(120))
    with pytest.raises(ValueError, match=r"data.keep=visit, .* or elsewhere divide them by 10"):
        write_request(numbered, "q", **{**ASKED, "method": method})
    numbered["visit"] /= 10
    write_request(numbered, "q", **{**ASKED, "method": method})


@pytest.mark.parametrize("method", ["moments", "subset"])
def test_numbers_reach_an_estimator_as_they_are(method: str) -> None:
    features, labels = both_tables(300)
    features.a = 7 + 3 * features.a
    release = released(features, labels, method=method, epsilon=8.0)
    seen: list[NDArray[Any]] = []

    class Watching(LogisticRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            seen.append(X)
            return super().fit(X, y)

    two_parties.fit_release(features, [release], estimator=Watching())
    assert all(np.isin(rows[:, 0], features.a).all() for rows in seen) and seen
    named = named_estimator("logistic", rows=300, seed=0)
    model = two_parties.fit_release(features, [release], estimator=named)
    assert model.origin.method.startswith("LogisticRegression on")


def test_classes_may_have_commas() -> None:
    features, _ = both_tables(30)
    features.to_csv("features.csv", index=False)
    asked = ("request", "features.csv", "--id-column", "id", "--method", "subset", "-o", "q")
    ran(*asked, "--classes", '"yes, now", no')
    assert party_files.read_request("q").classes == ("yes, now", "no")
