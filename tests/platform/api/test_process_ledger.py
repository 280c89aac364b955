"""process_ledger: the same rows by their values, in tables of any kind."""

import datetime
import shutil
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from labeldp import LabelPrivateClassifier, SharedVault
from labeldp.mechanisms.accounting import Event, GaussianEvent, PureEvent, RenyiEvent, epsilon_of
from labeldp.mechanisms.release_store import Charge
from labeldp.platform.api import paid_fits
from labeldp.platform.api.process_ledger import People, ProcessLedger, row_digests

NUMBERS = pd.DataFrame(np.random.default_rng(0).integers(-3, 4, size=(50, 4)), columns=list("abcd"))
PLACES = pd.Series(["Zürich", "Bern", "São Paulo", None, "7"] * 10)
DAYS = pd.Series(pd.date_range("2020-02-28", periods=50))
HOLES = NUMBERS.astype(float).mask(NUMBERS == 3)
EIGHTS = np.arange(0, 401, 8)
AGAIN: dict[str, tuple[Any, Any]] = {
    "order of columns": (NUMBERS, NUMBERS[list("dbca")]),
    "names of columns": (NUMBERS, NUMBERS.rename(columns=str.upper)),
    "no names": (NUMBERS, NUMBERS.to_numpy()),
    "floats": (NUMBERS, NUMBERS.astype(float)),
    "single precision": (NUMBERS / 3, (NUMBERS / 3).astype(np.float32)),
    "nullable": (HOLES, HOLES.astype("Float64")),
    "whole and nullable": (HOLES, HOLES.astype("Int64")),
    "objects": (HOLES, HOLES.astype(object).where(HOLES.notna(), None)),
    "decimals": (NUMBERS, NUMBERS.map(lambda value: Decimal(int(value)))),
    "text": (NUMBERS, NUMBERS.astype(str)),
    "Arrow": (NUMBERS, NUMBERS.astype("int16[pyarrow]")),
    "categories": (NUMBERS, NUMBERS.astype("category")),
    "index": (NUMBERS, NUMBERS.set_index(PLACES)),
    "sparse": (NUMBERS.to_numpy(), csr_matrix(NUMBERS.to_numpy())),
    "sparse array": (NUMBERS.to_numpy(), csr_array(NUMBERS.to_numpy())),
    "sparse columns": (NUMBERS, NUMBERS.astype(pd.SparseDtype("int64", 0))),
    "bits of NaN": (HOLES.to_numpy(), -HOLES.abs().to_numpy() * np.sign(-HOLES.to_numpy())),
    "-0": (NUMBERS, NUMBERS.astype(float).replace(0.0, -0.0)),
    "sparse in halves": (
        NUMBERS.to_numpy(),
        csr_matrix(
            (np.repeat(NUMBERS.to_numpy() / 2, 2), np.tile(np.arange(4).repeat(2), 50), EIGHTS)
        ),
    ),
    "truth": (NUMBERS > 0, (NUMBERS > 0).astype(int)),
    "truth as objects": (NUMBERS > 0, (NUMBERS > 0).astype(object)),
    "truth that may be missing": (NUMBERS > 0, (NUMBERS > 0).astype("boolean")),
    "truth as text": (NUMBERS > 0, (NUMBERS > 0).astype(str)),
    "truth as JSON": (NUMBERS > 0, (NUMBERS > 0).astype(str).map(str.lower)),
    "text as categories": (PLACES, PLACES.astype("category")),
    "text in Arrow": (PLACES, PLACES.astype("string[pyarrow]")),
    "Unicode": (PLACES, PLACES.map(lambda t: unicodedata.normalize("NFD", t), "ignore")),
    "blanks": (PLACES, PLACES.map(lambda t: f" {t.replace(' ', '  ')}\n", "ignore")),
    "missing text": (PLACES, PLACES.astype(object).where(PLACES.notna(), None)),
    "days": (DAYS, DAYS.dt.date),
    "days as objects": (DAYS, pd.Series(list(DAYS.to_numpy()), dtype=object)),
    "days as text": (DAYS, DAYS.dt.strftime("%Y-%m-%d")),
}


def table(given: Any) -> Any:
    return given.to_frame("place") if isinstance(given, pd.Series) else given


@pytest.mark.parametrize("what", AGAIN)
def test_rows_are_known_by_their_values(what: str) -> None:
    one, other = (table(given) for given in AGAIN[what])
    known = row_digests(one)
    assert (row_digests(other) == known).all()
    assert len(np.unique(known)) > (1 if "truth" in what or "place" in one else 2)


def test_other_values_are_other_rows() -> None:
    base = pd.DataFrame({"a": [1.5], "b": ["x"], "c": [datetime.date(2020, 1, 1)], "d": [0.0]})
    changes: list[Callable[[pd.DataFrame], pd.DataFrame]] = [
        lambda one: one.assign(a=1.6),
        lambda one: one.assign(a=-1.5),
        lambda one: one.assign(b="X"),
        lambda one: one.assign(b=None),
        lambda one: one.assign(c=datetime.date(2020, 1, 2)),
        lambda one: one.assign(d=1e-30),
        lambda one: one.assign(d=np.inf),
        lambda one: one.assign(e=7),
    ]
    found = [row_digests(change(base))[0] for change in [lambda one: one, *changes]]
    assert len(set(found)) == len(changes) + 1


def test_missing_numbers_do_not_make_a_table_centered() -> None:
    rows = np.random.default_rng(2).normal(size=(60, 3)) + 1
    rows[[0, 1, 2], [0, 1, 2]] = np.nan
    scaled = StandardScaler().fit_transform(rows)
    scaled[:, 2] = np.nan  # of a column without numbers nothing is known
    found = [People.of(each, None, transformed=False, scope="").unknown for each in (rows, scaled)]
    assert found == [False, True]


def fitted(features: Any, vault: Any = None, **names: Any) -> LabelPrivateClassifier:
    """A fit to labels that the first column of an array, or the column `a`, tells."""
    model = LabelPrivateClassifier("subset", epsilon=1.0, classes=2, vault=vault)
    model.set_params(estimator=LogisticRegression())
    first = features["a"] if isinstance(features, pd.DataFrame) else features[:, 0]
    return model.fit(features, (first > 0).astype(int), **names)


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
def test_a_release_that_an_earlier_process_paid_for_counts_for_other_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.random.default_rng(3).normal(size=(60, 3))
    fitted(rows, "vault")
    monkeypatch.setattr(paid_fits, "LEDGER", ProcessLedger())  # of the next process
    kept = [fitted(rows, "vault") for _ in range(2)][1]
    assert not kept.ledger_[0].new and kept.total_epsilon_ == 1.0
    assert fitted(rows).total_epsilon_ == 2.0 == kept.total_epsilon_


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
@pytest.mark.parametrize("fewer", [0, 1])
def test_a_vault_counts_people_under_other_names(fewer: int) -> None:
    vault = SharedVault()
    first = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 3)), columns=list("abc"))
    again = first[list("cab")].astype(np.float32)[fewer:][::-1]
    for letter, given in (("p", first), ("q", again)):
        names = [f"{letter}{number}" for number in range(len(given))]
        model = fitted(given, vault, rows=names)
    assert vault.epsilon() == 2.0 == model.total_epsilon_


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
@pytest.mark.parametrize("second", ["rows", "groups"])
def test_a_name_is_one_person_however_it_is_written(second: str) -> None:
    for argument, spelling in (("rows", "{:04d}"), (second, " {}")):
        rows = np.random.default_rng([len(spelling), len(second)]).normal(size=(60, 3))
        names = [spelling.format(500 + number) for number in range(60)]
        model = fitted(rows, **{argument: names})
    assert model.total_epsilon_ == 2.0


@pytest.mark.parametrize(
    ("alone", "together"),
    [
        (PureEvent(epsilon=0.01), PureEvent(epsilon=0.9)),
        (GaussianEvent(noise_multiplier=90.0), GaussianEvent(noise_multiplier=1.0)),
        (RenyiEvent(orders=(2.0,), rdp=(0.1,)), PureEvent(epsilon=np.inf)),
    ],
)
def test_labels_that_a_fit_took_one_by_one_are_charged_to_their_person_together(
    alone: Event, together: Event
) -> None:
    rows = np.arange(100, dtype=np.uint64)
    charge = Charge(key="9a", event=alone, indices=None, mechanism={}, failure_probability=0.0)
    ledger = ProcessLedger()
    ledger.add([charge], People(rows=rows), source=None)
    people = People(rows=rows, persons=np.repeat([0, 1], [90, 10]))
    expected = epsilon_of([together], delta=1e-5)
    assert ledger.total(people, delta=1e-5).epsilon == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
@pytest.mark.parametrize("of", [Path, SharedVault])
def test_a_total_stays_when_its_vault_is_gone(of: Any, tmp_path: Path) -> None:
    vault = of(tmp_path / "vault")
    rows = np.random.default_rng(4).normal(size=(60, 3))
    first, other = (fitted(rows, vault, rows=np.arange(60) + start) for start in (0, 100))
    assert first.total_epsilon_ == 2.0 == other.total_epsilon_
    shutil.rmtree(tmp_path / "vault")
    assert first.total_epsilon_ == 2.0 == other.total_epsilon_
    assert first.set_params(vault=None).total_epsilon_ == 2.0
