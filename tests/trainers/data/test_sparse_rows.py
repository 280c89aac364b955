"""Columns of sentences and sparse matrices: which columns they are, and what becomes of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from labeldp.trainers.data.columns import RowsRefused, TextColumns, is_sentences
from labeldp.trainers.data.own_data import read_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource, describe
from labeldp.trainers.data.preprocessing import (
    Columns,
    Preprocessing,
    Sentences,
    SparseColumns,
    SparseRows,
)
from tests.trainers.data_samples import read_back

RANDOM = np.random.default_rng(0)
WORDS = np.array([f"{first}{last}" for first in ("ba", "ke", "lo", "mi") for last in "dfgnrst"])
SENTENCES = [" ".join(RANDOM.choice(WORDS, 6)) for _ in range(60)]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (SENTENCES, True),
        ([*SENTENCES[:31], *[None] * 29], True),
        (SENTENCES[:10], False),  # too few to tell
        (SENTENCES[:25] * 3, False),  # they repeat: categories
        ([f"{text} {n}".split()[0] + str(n) for n, text in enumerate(SENTENCES)], False),  # names
        ([f"{1 + n % 28} Dec {2000 + n}" for n in range(59)] + ["some day soon"], False),
    ],
)
def test_sentences_mostly_differ_and_have_three_words(texts: list[Any], found: bool) -> None:
    assert is_sentences(np.array(texts, dtype=object)) == found


def test_sentences_of_new_rows_become_what_they_were_in_training() -> None:
    town = [*["Bern", "Rome", None] * 20, "Bern"]
    table = {"note": [*SENTENCES, None], "age": np.arange(61.0), "town": town}
    fitted = Columns.fit(table, text=TextColumns.TFIDF).as_they_are(beside=True)
    rows = fitted(table)
    assert isinstance(rows, SparseRows) and len(rows) == 61 and rows.shape[1:] == fitted.shape
    np.testing.assert_array_equal(rows.dense[:, rows.plain[0]], np.arange(61.0))
    lengths = np.sqrt(rows.sparse.multiply(rows.sparse).sum(1)).A1
    assert lengths[:60] == pytest.approx(1, abs=1e-5) and lengths[60] == 0
    again = read_back(Preprocessing(steps=(fitted,))).rows(table)
    np.testing.assert_array_equal(again.dense, rows.dense)
    assert (again.sparse != rows.sparse).nnz == 0
    # Each row by itself, in a table of other rows, is the same; unknown words are nothing.
    one = fitted({"note": [SENTENCES[5]], "age": [5], "town": [None]})
    np.testing.assert_allclose(one.dense[0], rows.dense[5], atol=1e-5)
    unknown = fitted({"note": ["zzz yyy xxx"], "age": [5], "town": [None]})
    assert unknown.sparse.nnz == 0
    with pytest.raises(RowsRefused, match="'note' holds numbers; the training rows had text"):
        fitted({"note": [3.5], "age": [5], "town": [None]})


def test_a_sparse_matrix_stays_sparse_and_comes_back_from_files() -> None:
    few = sparse.random_array((200, 3_000_000), density=1e-5, rng=0, format="csr")
    rows = sparse.hstack([np.arange(200.0)[:, None], few], "csr")
    step = SparseColumns.fit(rows)
    found = step(rows)
    assert found.sparse.shape[1] < 3_000  # columns that two rows have
    assert np.square(found.sparse.data).sum() / 200 == pytest.approx(1, rel=1e-3)
    again = read_back(Preprocessing(steps=(step,))).rows(rows)
    np.testing.assert_array_equal(again.dense, found.dense)
    with pytest.raises(ValueError, match=r"have 3000000 columns, but .* trained on 3000001"):
        step(few)
    rows.data[5] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        step(rows)


def test_a_file_with_sentences(tmp_path: Path) -> None:
    table = pd.DataFrame({"note": SENTENCES, "age": np.arange(60.0), "label": [0, 1] * 30})
    table.to_csv(tmp_path / "own.csv", index=False)

    def source(text: TextColumns, **more: Any) -> OwnSource:
        path = tmp_path / "own.csv"
        return OwnSource(path=path, classes=2, hold_out=HoldOut.PUBLIC, text=text, **more)

    learned = read_own(source(TextColumns.TFIDF))
    assert learned.train_features.shape[1] > 20 and len(learned.test_features) == 12
    assert learned.preprocessing is not None
    raw = learned.preprocessing({"note": SENTENCES, "age": np.arange(60.0)})
    assert {tuple(row) for row in learned.test_features} <= {tuple(row) for row in raw.tolist()}
    dropped = read_own(source(TextColumns.DROP))
    assert dropped.train_features.shape[1] == 1
    one_hot = read_own(source(TextColumns.CATEGORY, keep=("note",)))
    assert one_hot.train_features.shape[1] == 1 + 48
    kinds = {
        text: {column.name: column.kind for column in describe(source(text)).columns}["note"]
        for text in TextColumns
    }
    assert kinds == {"tfidf": "sentences", "drop": "left out", "category": "left out"}


@pytest.mark.parametrize(
    "texts",
    [
        ["a b c", "b c d", "a d e", "c e f"],  # no word of two letters
        ["walking home early", "walked houses earlier", "walks homes lately", "walker housed late"],
    ],
)
def test_sentences_that_share_no_word_have_features(texts: list[str]) -> None:
    features = Sentences.fit(texts)(texts)
    assert features.shape[1] > 0 and np.isfinite(features).all() and features.std(0).max() > 0.5


def test_words_in_like_company_are_close() -> None:
    generator = np.random.default_rng(0)
    ends = [["great", "lovely", "superb", "sunny"], ["awful", "dreadful", "horrid", "rainy"]]
    sides = generator.integers(2, size=400)
    texts = [" ".join(generator.permutation(ends[side])[:2]) + " film" for side in sides]
    found = Sentences.fit(texts)(["great", "superb", "awful"])
    alike = found @ found.T
    assert alike[0, 1] > 5 * abs(alike[0, 2])
