"""Sentences and sparse matrices as features, learned without labels.

Words, pairs of words and groups of 2 to 5 letters are hashed into columns and weighed by TF-IDF.
Some directions of these columns (`TruncatedSVD`) are features that every model takes. Linear models
of a stack learn from the columns themselves, which stay sparse.

>>> texts = ["how far is Rome", "how far is Bern", "who is Ann", None]
>>> sentences = Sentences.fit(texts)
>>> sentences(texts).shape, sentences.words(["who was Ann"]).nnz > 0
((4, 4), True)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeldp.trainers.data.stored import Step

Floats = NDArray[np.float32]

#: Sparse columns that are used: those which most rows have, of two rows at least.
MOST_WORDS = 50_000
_LEAST_ROWS = 2
#: Directions of all of them.
MOST_DIRECTIONS = 100
#: Columns into which words, and groups of letters, are hashed.
_HASHED = 2**20
_HOW: tuple[dict[str, Any], ...] = (
    {"analyzer": "word", "ngram_range": (1, 2)},
    {"analyzer": "char_wb", "ngram_range": (2, 5)},
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseRows:
    """Rows as numbers [N, D], and beside these as sparse columns [N, W].

    Attributes:
        dense: Numbers, categories, and directions of the sparse columns.
        sparse: In the format CSR; a row has length 1 on average, or is shorter.
        plain: Places of columns of `dense` that are no directions [P].
    """

    dense: NDArray[np.floating]
    sparse: Any
    plain: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.dense)

    def __getitem__(self, places: Any) -> "SparseRows":
        return SparseRows(dense=self.dense[places], sparse=self.sparse[places], plain=self.plain)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `dense`."""
        return self.dense.shape


def dense_of(rows: Any) -> Any:
    """Return rows [N, D] without their sparse columns."""
    return rows.dense if isinstance(rows, SparseRows) else rows


def _most_frequent(counts: Any) -> NDArray[np.int64]:
    """Return places of the columns that are used [W]."""
    places, rows = np.unique(counts.indices, return_counts=True)
    least = min(_LEAST_ROWS, rows.max(initial=1))
    frequent = np.argsort(-rows, kind="stable")[:MOST_WORDS]
    return np.sort(places[frequent[rows[frequent] >= least]]).astype(np.int64)


def _directions(columns: Any) -> Floats:
    """Return the strongest directions of sparse columns [W, M]; the first has deviation 1."""
    from sklearn.decomposition import TruncatedSVD

    count = min(MOST_DIRECTIONS, *columns.shape)
    found = TruncatedSVD(count, n_iter=2, random_state=0)
    deviation = found.fit_transform(columns).std(0).max()
    return np.asarray(found.components_.T / (deviation or 1.0), np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sentences(Step):
    """A column of sentences.

    Attributes:
        places: Of the hashed columns that are used [W].
        rarity: Their inverse document frequency [W].
        directions: From them to features [W, M].
    """

    kind: ClassVar[str] = "sentences"

    places: NDArray[np.int64]
    rarity: Floats
    directions: Floats

    @classmethod
    def fit(cls, texts: Sequence[str | None]) -> "Sentences":
        """Learn from the training rows [N]; None is a missing text."""
        from sklearn.feature_extraction.text import TfidfTransformer

        counts = _counted(texts)
        places = _most_frequent(counts)
        rarity = TfidfTransformer().fit(counts[:, places]).idf_.astype(np.float32)
        found = cls(places=places, rarity=rarity, directions=np.zeros((0, 0), np.float32))
        directions = _directions(found._weighed(counts))
        return cls(places=places, rarity=rarity, directions=directions)

    def words(self, texts: Sequence[str | None]) -> Any:
        """Return texts as sparse columns [N, W]."""
        return self._weighed(_counted(texts))

    def _weighed(self, counts: Any) -> Any:
        from sklearn.preprocessing import normalize

        of_words = np.searchsorted(self.places, _HASHED)
        used = counts[:, self.places]
        used.data = (1 + np.log(used.data)) * self.rarity[used.indices]
        parts = [normalize(part) for part in (used[:, :of_words], used[:, of_words:])]
        return (sparse.hstack(parts) / np.sqrt(len(parts))).tocsr().astype(np.float32)

    def __call__(self, rows: Any) -> Floats:
        """Return features [N, M] of texts, or of what `words` makes of them."""
        return np.asarray((rows if sparse.issparse(rows) else self.words(rows)) @ self.directions)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return self.directions.shape[1:]


def _counted(texts: Sequence[str | None]) -> Any:
    """How often each text has what is hashed into a column, in the format CSR."""
    from sklearn.feature_extraction.text import HashingVectorizer

    known = ["" if text is None else text for text in texts]
    common: Any = {"n_features": _HASHED, "norm": None, "alternate_sign": False}
    return sparse.hstack(
        [HashingVectorizer(**how, **common).transform(known) for how in _HOW], "csr"
    )


def _finite(rows: Any) -> Any:
    found = sparse.csr_array(rows, dtype=np.float32)
    if not np.isfinite(found.data).all():
        raise ValueError(
            "a sparse matrix holds a number that is not finite, or missing; features must be "
            "finite: fill them in, or leave them out (0)"
        )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseColumns(Step):
    """A sparse matrix of numbers, which stays sparse.

    Attributes:
        width: Its columns D.
        places: Of those that are used [W].
        scale: Their divisors [W]: the largest number, where that is above 1, and for all of them
            the length of a row.
        directions: From them to features [W, M].
    """

    kind: ClassVar[str] = "sparse_columns"

    width: int
    places: NDArray[np.int64]
    scale: Floats
    directions: Floats

    @classmethod
    def fit(cls, rows: Any) -> "SparseColumns":
        """Learn from the training rows, a sparse matrix [N, D]."""
        rows = _finite(rows)
        places = _most_frequent(rows)
        used = rows[:, places]
        largest = np.maximum(abs(used).max(0).toarray().ravel(), 1)
        used.data = used.data / largest[used.indices]
        length = np.sqrt(np.square(used.data).sum() / used.shape[0]) or 1.0
        return cls(
            width=rows.shape[1],
            places=places,
            scale=(largest * length).astype(np.float32),
            directions=_directions(used / length),
        )

    def __call__(self, rows: Any) -> SparseRows:
        """Return features of a matrix [N, D], sparse or dense, and its columns beside them."""
        used = _finite(rows)[:, self.places]
        used.data = used.data / self.scale[used.indices]
        dense = np.asarray(used @ self.directions)
        return SparseRows(dense=dense, sparse=used, plain=np.zeros(0, np.intp))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row, without sparse columns."""
        return self.directions.shape[1:]
