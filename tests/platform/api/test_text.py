"""Sentences and sparse matrices from labels to a saved model."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from labeldp import LabelPrivateClassifier, LabelPrivateRegressor
from labeldp.platform.api.two_parties import fit_release
from labeldp.platform.cli.command_line import main
from tests.platform.api.asked import released

ROWS = 600
WORDS = np.array([f"{first}{last}" for first in ("ba", "ke", "lo", "mi") for last in "dfgnrst"])


def sentences(count: int = ROWS, *, seed: int = 0) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Texts of eight words, and whether one of the first seven words is more frequent in them."""
    random = np.random.default_rng(seed)
    good = random.random(count) < 0.5
    likely = np.where(np.arange(len(WORDS)) < 7, 3.0, 1.0)
    chances = np.where(good[:, None], likely, likely[::-1])
    chances /= chances.sum(1, keepdims=True)
    return [" ".join(random.choice(WORDS, 8, p=each)) for each in chances], good


def test_texts_alone_are_learned_from_and_saved() -> None:
    texts, good = sentences()
    model = LabelPrivateClassifier(epsilon=3.0, classes=2, random_state=0)
    model.fit(texts, good.astype(int))
    assert any(name.startswith("linear on sparse columns") for name, *_ in model.models_)
    others, truth = sentences(300, seed=1)
    assert model.score(np.array(others), truth.astype(int)) > 0.8
    found = model.predict_proba(pd.Series(others))
    np.testing.assert_array_equal(model.predict_proba(others), found)
    model.save("model")
    pd.DataFrame({"text": others}).to_parquet("rows.parquet")
    pd.DataFrame({"text": others}).to_csv("rows.csv", index=False)
    assert main(["predict", "model", "rows.csv", "-o", "predicted.csv"]) == 0
    predicted = pd.read_csv("predicted.csv")
    np.testing.assert_array_equal(predicted.iloc[:, 0], model.predict(others))
    code = (
        "import numpy, pandas\n"
        "from labeldp.trainers.models.trained_model import load_model\n"
        "rows = pandas.read_parquet('rows.parquet')\n"
        "numpy.save('found.npy', load_model('model').predict_proba(rows))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    np.testing.assert_allclose(np.load("found.npy"), found, atol=1e-6)


@pytest.mark.filterwarnings("ignore::labeldp.platform.api.paid_fits.PrivacyAddsUp")
def test_a_table_of_numbers_categories_and_sentences() -> None:
    texts, good = sentences()
    random = np.random.default_rng(1)
    town = random.choice(["Bern", "Rome"], ROWS)
    table = pd.DataFrame({"note": texts, "age": random.normal(size=ROWS) + good, "town": town})
    y = good.astype(int)
    scores = {}
    for text in ("tfidf", "drop", "category"):
        settings = {"models": ["constant", "linear"]}
        model = LabelPrivateClassifier(
            epsilon=3.0, classes=2, random_state=0, text=text, settings=settings
        )
        if text == "category":  # as texts that mostly differ were before
            with pytest.warns(UserWarning, match="note"):
                model.fit(table, y)
        else:
            model.fit(table, y)
        scores[text] = model.score(table, y)
    assert scores["tfidf"] > scores["drop"] + 0.05
    assert scores["drop"] == pytest.approx(scores["category"], abs=0.1)
    with pytest.raises(ValueError, match="text is 'tfid'; did you mean tfidf"):
        LabelPrivateClassifier(classes=2, text="tfid").fit(table, y)


@pytest.mark.filterwarnings("ignore::labeldp.platform.api.paid_fits.PrivacyAddsUp")
def test_a_users_estimator_and_amounts_get_directions_of_sentences() -> None:
    texts, good = sentences()
    model = LabelPrivateClassifier(
        epsilon=4.0, classes=2, random_state=0, estimator=LogisticRegression(max_iter=300)
    )
    assert model.fit(texts, good.astype(int)).score(texts, good.astype(int)) > 0.75
    amounts = LabelPrivateRegressor(epsilon=8.0, bounds=(0, 1), random_state=0)
    assert amounts.fit(texts, good.astype(float)).score(texts, good.astype(float)) > 0.1


def test_a_wide_sparse_matrix_is_never_dense() -> None:
    random = np.random.default_rng(0)
    width = 50_000_000  # 600 rows would take 240 GB
    good = random.random(ROWS) < 0.5
    columns = np.where(good, 0, 20) + random.integers(0, 30, (6, ROWS))
    cells = (np.ones(6 * ROWS), (np.tile(np.arange(ROWS), 6), columns.ravel() * 1_000_000))
    rows = sparse.csr_matrix(cells, shape=(ROWS, width))
    model = LabelPrivateClassifier(epsilon=3.0, classes=2, random_state=0)
    assert model.fit(rows, good.astype(int)).score(rows, good.astype(int)) > 0.85
    with pytest.raises(ValueError, match="sparse, 600 x 50,000,000"):
        LabelPrivateClassifier(classes=2, estimator=LogisticRegression()).fit(
            rows, good.astype(int)
        )


def test_two_parties_with_sentences() -> None:
    texts, good = sentences()
    features = pd.DataFrame({"id": np.arange(ROWS), "note": texts})
    labels = pd.DataFrame({"id": np.arange(ROWS), "bought": np.where(good, "yes", "no")})
    model = fit_release(features, [released(features, labels, epsilon=3.0)])
    others, truth = sentences(300, seed=1)
    found = model.predict_proba(pd.DataFrame({"note": others}))
    assert ((found[:, 1] > 0.5) == truth).mean() > 0.8
