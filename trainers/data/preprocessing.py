"""Preprocessing: from rows as people have them to features as models see them, part of every model.

It is fitted on public training features alone, without any label, and costs no privacy. A model
of a table's raw columns predicts from raw columns: the means, the categories or the encoder of
patches that the training rows gave prepare them in the same way, bit for bit.

Numbers are standardized and text becomes one column per category, both as the training rows have
them. A number that is missing becomes the median of its column; where training rows lack some, an
indicator column marks them. Missing text is a category of its own. Dates are days since 1970.

Words, pairs of words and groups of 2 to 5 letters of sentences are hashed into columns and weighed
by TF-IDF. Vectors of single words, of which rows share some, give features that every model takes.
Linear models of a stack learn from the columns themselves, which stay sparse.

>>> fitted = Columns.fit({"age": [20.0, 40.0, None], "city": ["Bern", None, "Rome"]})
>>> fitted({"age": [30, None], "city": ["Oslo", None]})
array([[0., 0., 0., 0., 0.],
       [0., 1., 0., 0., 1.]], dtype=float32)
>>> texts = ["how far is Rome", "how far is Bern", "who is Ann", None]
>>> sentences = Sentences.fit(texts)
>>> sentences(texts).shape, sentences.words(["who was Ann"]).nnz > 0
((4, 3), True)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labeldp.trainers.data.columns import (
    ISO,
    MOST_CATEGORIES,
    RowsRefused,
    TextColumns,
    chunks,
    column_of,
    days_of,
    in_words,
    is_missing,
    is_sentences,
    learned_values,
    matrix_of,
    named_columns,
    of_dates,
    refuse_infinite,
    values_in,
)
from labeldp.trainers.data.stored import Step, Stored, packed

if TYPE_CHECKING:  # listing and checking data sets stays quick without it
    from torch import Tensor

Floats = NDArray[np.float32]

#: Sparse columns that are used: those which most rows have, of two rows at least.
MOST_WORDS = 50_000
_LEAST_ROWS = 2
#: Directions of all of them.
MOST_DIRECTIONS = 100
#: Single words, and rows at most, from which directions of sentences are learned.
_DIRECTED_WORDS = 5000
_DIRECTED_ROWS = 20_000
#: Two words that fewer rows share count for less.
_SURELY_SHARED = 5
#: Columns into which words, and groups of letters, are hashed.
_HASHED = 2**20
_HOW: tuple[dict[str, Any], ...] = (
    {"analyzer": "word", "ngram_range": (1, 2)},
    {"analyzer": "char_wb", "ngram_range": (2, 5)},
)
_SINGLE_WORDS = ({"analyzer": "word", "ngram_range": (1, 1)},)


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


def _most_frequent(counts: Any, *, most: int = MOST_WORDS) -> NDArray[np.int64]:
    """Return places of the columns that are used [W]."""
    places, rows = np.unique(counts.indices, return_counts=True)
    least = min(_LEAST_ROWS, rows.max(initial=1))
    frequent = np.argsort(-rows, kind="stable")[:most]
    return np.sort(places[frequent[rows[frequent] >= least]]).astype(np.int64)


def _directions(columns: Any) -> Floats:
    """Return the strongest directions of sparse columns [W, M]; the first has deviation 1."""
    from sklearn.decomposition import TruncatedSVD

    count = min(MOST_DIRECTIONS, *columns.shape)
    found = TruncatedSVD(count, n_iter=2, random_state=0)
    deviation = found.fit_transform(columns).std(0).max()
    return np.asarray(found.components_.T / (deviation or 1.0), np.float32)


def _vectors_of_words(present: Any) -> Floats:
    """Return vectors of words [W, M], of length 1, that are close where words have like company.

    The strongest directions of positive pointwise mutual information within a row (Levy and
    Goldberg, "Neural Word Embedding as Implicit Matrix Factorization", NeurIPS 2014).

    Args:
        present: Whether each row has each word, as 0 and 1 in the format CSR [N, W].
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    shared = (present.T @ present).tocoo()
    apart = shared.row != shared.col
    rows = shared.row[apart]
    columns = shared.col[apart]
    counts = shared.data[apart]
    of_word = np.bincount(rows, counts, present.shape[1])
    told = np.log(counts * of_word.sum() / (of_word[rows] * of_word[columns]))
    told = np.maximum(told, 0) * np.minimum(counts / _SURELY_SHARED, 1)
    company = sparse.csr_array((told, (rows, columns)), shape=shared.shape, dtype=np.float32)
    found = TruncatedSVD(min(MOST_DIRECTIONS, *shared.shape), n_iter=4, random_state=0)
    vectors = found.fit_transform(company) / np.sqrt(np.maximum(found.singular_values_, 1e-12))
    return np.asarray(normalize(vectors), np.float32)


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
        weighed = found._weighed(counts)
        directions = found._directions_of_words(texts)
        deviation = (weighed @ directions).std(0).max(initial=0)
        # Rows that share no word still share groups of letters.
        directions = directions / deviation if deviation > 0 else _directions(weighed)
        return cls(places=places, rarity=rarity, directions=directions)

    def _directions_of_words(self, texts: Sequence[str | None]) -> Floats:
        """Return the vectors of single words, and zeros for other columns [W, M]."""
        step = -(-len(texts) // _DIRECTED_ROWS)
        single = _counted(texts[::step], _SINGLE_WORDS)
        words = np.intersect1d(_most_frequent(single, most=_DIRECTED_WORDS), self.places)
        present = single[:, words]
        present.data = np.ones_like(present.data)
        if not len(words):
            return np.zeros((len(self.places), 0), np.float32)
        vectors = _vectors_of_words(present)
        directions = np.zeros((len(self.places), vectors.shape[1]), np.float32)
        directions[np.searchsorted(self.places, words)] = vectors
        return directions

    def words(self, texts: Sequence[str | None]) -> Any:
        """Return texts as sparse columns [N, W]."""
        return self._weighed(_counted(texts))

    def _weighed(self, counts: Any) -> Any:
        from sklearn.preprocessing import normalize

        of_words = np.searchsorted(self.places, _HASHED)
        used = counts[:, self.places]
        used.data = (1 + np.log(used.data)) * self.rarity[used.indices]
        parts = [used[:, :of_words], used[:, of_words:]]
        # One of them is empty where all words differ, or all have one letter.
        parts = [normalize(part) if part.shape[1] else part for part in parts]
        return (sparse.hstack(parts) / np.sqrt(len(parts))).tocsr().astype(np.float32)

    def __call__(self, rows: Any) -> Floats:
        """Return features [N, M] of texts, or of what `words` makes of them."""
        return np.asarray((rows if sparse.issparse(rows) else self.words(rows)) @ self.directions)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return self.directions.shape[1:]


def _counted(texts: Sequence[str | None], how: Sequence[Mapping[str, Any]] = _HOW) -> Any:
    """How often each text has what is hashed into a column, in the format CSR."""
    from sklearn.feature_extraction.text import HashingVectorizer

    known = ["" if text is None else text for text in texts]
    common: Any = {"n_features": _HASHED, "norm": None, "alternate_sign": False}
    return sparse.hstack(
        [HashingVectorizer(**each, **common).transform(known) for each in how], "csr"
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
        if rows.shape[1] != self.width:
            raise ValueError(
                f"rows have {rows.shape[1]} columns, but this model was trained on {self.width}; "
                "give the columns of the training rows, in the same order"
            )
        used = _finite(rows)[:, self.places]
        used.data = used.data / self.scale[used.indices]
        dense = np.asarray(used @ self.directions)
        return SparseRows(dense=dense, sparse=used, plain=np.zeros(0, np.intp))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row, without sparse columns."""
        return self.directions.shape[1:]


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers(Step):
    """A matrix of numbers less the training rows' mean, over their deviation.

    Attributes:
        mean: Of each column of the training rows, float64 [D].
        std: Likewise; infinity for a column that never changes, which becomes zeros.
        median: Replacement of a missing number [D].
        indicated: Places of columns whose missing numbers have an indicator column, after all
            others [I].
        dates: Whether it is one column of dates, taken as days.
        form: Of the text of such a column, or of one of numbers (see `written`).
        scaled: Whether features are in single precision. Numbers that stay as they are need double.
    """

    kind: ClassVar[str] = "numbers"

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    median: NDArray[np.float64]
    indicated: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    names: tuple[str, ...] | None = None
    dates: bool = False
    form: str = ""
    scaled: bool = True

    @classmethod
    def fit(
        cls, train: NDArray[Any], *, names: Sequence[str] | None = None, form: str = ""
    ) -> "Numbers":
        """Learn from the training rows: numbers [N, D], NaN where one is missing, or dates."""
        if dates := train.dtype.kind == "M":
            train = days_of(train)
        median, gaps = _medians(train)
        if gaps.any():
            train = np.where(np.isnan(train), median.astype(train.dtype), train)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = train.mean(axis=0, dtype=np.float64)
            squares = sum(((rows - mean) ** 2).sum(axis=0) for rows in chunks(train))
            std = np.sqrt(squares / len(train), dtype=np.float64)
        for place in np.flatnonzero(~np.isfinite(std)):
            refuse_infinite(train, what="training features", names=names)
            named = column_of(place, names)
            raise ValueError(f"column {named} holds numbers too large to standardize; rescale it")
        # Rounding leaves noise in a constant column, not a signal.
        std[std <= 1e-12 * np.abs(mean)] = np.inf
        return cls(
            mean=mean,
            std=std,
            median=median,
            indicated=np.flatnonzero((gaps > 0) & (gaps < len(train))),
            names=None if names is None else tuple(names),
            dates=dates,
            form=form,
        )

    def __call__(self, rows: Any, *, what: str = "features") -> NDArray[np.floating]:
        """Return features [N, D + I] of rows [N, D] or of columns by name.

        `what` is a noun for messages.
        """
        if form := self.form or (ISO if self.dates else ""):
            rows = {name: _as_written(name, column, form) for name, column in rows.items()}
        width = len(self.mean)
        matrix = matrix_of(rows, width=width, names=self.names)
        refuse_infinite(matrix, what=what, names=self.names)
        result = np.empty((len(matrix), *self.shape), dtype=self.dtype)
        for some, target in zip(chunks(matrix), chunks(result), strict=True):
            gaps = np.isnan(some)
            if gaps.any():
                some = np.where(gaps, self.median.astype(some.dtype), some)
            with np.errstate(over="ignore"):
                target[:, :width] = (some - self.mean) / self.std
            target[:, width:] = gaps[:, self.indicated]
        # Fill values such as 1e36 are finite, and beyond what single precision holds.
        said = f"{what} in units of training rows:"
        refuse_infinite(result[:, :width], what=said, names=self.names)
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (len(self.mean) + len(self.indicated),)

    @property
    def dtype(self) -> type[np.floating]:
        """Type of an output number."""
        return np.float32 if self.scaled else np.float64

    def as_they_are(self) -> "Numbers":
        """Return the same without a scale."""
        nothing = np.zeros_like(self.mean)
        one = np.ones_like(self.std)
        return replace(self, mean=nothing, std=one, scaled=False)


def _medians(train: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Median of each column's numbers [D], 0 where there are none, and how many are missing [D]."""
    median = np.zeros(train.shape[1])
    gaps = np.zeros(train.shape[1], dtype=np.int64)
    for place, column in enumerate(train.T):
        known = column[~np.isnan(column)]
        gaps[place] = len(column) - len(known)
        if len(known):
            with np.errstate(over="ignore", invalid="ignore"):
                median[place] = np.median(known)
    return median, gaps


def _as_written(name: str, column: NDArray[Any], form: str) -> NDArray[Any]:
    missing = is_missing(column)
    had = f"the training rows had {in_words(form)} there"
    if column.dtype.kind == "O":
        values = values_in(column.tolist(), form)
        if len(bad := np.flatnonzero((values != values) & ~missing)):
            raise RowsRefused(f"row {bad[0]}, column {name!r} is {column[bad[0]]!r}; {had}")
        column = values
    elif of_dates(form) and column.dtype.kind != "M" and not missing.all():
        raise RowsRefused(f"column {name!r} holds numbers; {had}")
    return days_of(column) if column.dtype.kind == "M" else column


def _as_text(name: str, column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind == "b":
        return column.astype(str).astype(object)
    if column.dtype.kind == "O":
        return column
    if not is_missing(column).all():
        held = "dates" if column.dtype.kind == "M" else "numbers"
        raise RowsRefused(
            f"column {name!r} holds {held}; the training rows had text or truth values there"
        )
    return np.full(len(column), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Categories(Step):
    """A column of text: one feature per category of the training rows, in alphabetical order."""

    kind: ClassVar[str] = "categories"

    categories: tuple[str, ...]
    indicated: bool = False

    @classmethod
    def fit(cls, column: NDArray[Any], *, name: str) -> "Categories":
        """Learn from the training rows [N]."""
        missing = is_missing(column)
        categories = sorted(set(column[~missing].tolist()))
        if (longest := max(map(len, categories), default=0)) > _LONGEST_CATEGORY:
            raise ValueError(
                f"column {name!r} has {longest:,} characters in a row, and the name of a category "
                f"has {_LONGEST_CATEGORY:,} at most; leave the column out (data.drop={name})"
            )
        if len(categories) > MOST_CATEGORIES:
            raise ValueError(
                f"column {name!r} has {len(categories)} categories in {len(column)} rows, more "
                f"than {MOST_CATEGORIES}; leave it out if it names single rows, or store it as "
                "a number"
            )
        return cls(categories=tuple(categories), indicated=bool(missing.any()))

    def __call__(
        self, rows: Mapping[str, NDArray[Any]], *, what: str = "features"
    ) -> NDArray[np.float32]:
        """Return a named column's features [N, D]; zeros for a category that is not known."""
        ((name, column),) = rows.items()
        missing = is_missing(column)
        column = _as_text(name, column)
        one_hot = np.zeros((len(column), *self.shape), dtype=np.float32)
        place = {category: number for number, category in enumerate(self.categories)}
        plain = {category.lower(): number for category, number in place.items()}
        if plain.keys() <= {"true", "false"} and len(plain) == len(place):
            # Truth values are written TRUE, true and True by one program and another.
            place = plain
            column = np.array([text and text.lower() for text in column], dtype=object)
        places = np.fromiter((place.get(text, -1) for text in column), np.int64, len(column))
        known = np.flatnonzero(places >= 0)
        one_hot[known, places[known]] = 1
        if self.indicated:
            one_hot[missing, -1] = 1
        return one_hot

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (len(self.categories) + self.indicated,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns(Step):
    """The columns of a table as features: numbers (see `Numbers`), text one-hot, and sentences.

    Attributes:
        beside: Whether the words of sentences come beside the features, as `SparseRows`.
    """

    kind: ClassVar[str] = "columns"

    names: tuple[str, ...]
    parts: tuple[Numbers | Categories | Sentences, ...]
    beside: bool = False

    @classmethod
    def fit(
        cls, train: Mapping[str, Any], *, text: TextColumns = TextColumns.CATEGORY
    ) -> "Columns":
        """Learn from training rows: column name -> values [N], as `column_values` takes them."""
        parts: list[Numbers | Categories | Sentences] = []
        for name, given in train.items():
            column, form = learned_values(name, given)
            if column.dtype.kind == "b":
                column = column.astype(str).astype(object)
            if text is TextColumns.TFIDF and is_sentences(column):
                parts.append(Sentences.fit(column.tolist()))
            elif column.dtype.kind == "O":
                parts.append(Categories.fit(column, name=name))
            else:
                parts.append(Numbers.fit(column[:, None], names=[name], form=form))
        return cls(names=tuple(train), parts=tuple(parts))

    def __call__(self, rows: object, *, what: str = "features") -> Any:
        """Return features [N, D] of a DataFrame or of columns by name.

        A category that no training row has is a row of zeros among its column's features.
        """
        found = named_columns(rows, names=self.names)
        count = len(next(iter(found.values()))) if found else 0
        kinds = {each.dtype for each in self.parts if isinstance(each, Numbers)}
        result = np.empty((count, *self.shape), dtype=np.result_type(np.float32, *kinds))
        words: list[Any] = []
        plain = np.ones(result.shape[1], bool)
        start = 0
        for name, encode in zip(self.names, self.parts, strict=True):
            (width,) = encode.shape
            some = slice(start, start + width)
            # A column without rows is of no type in most tables.
            if isinstance(encode, Sentences):
                plain[some] = False
                if count:
                    words.append(encode.words(_as_text(name, found[name]).tolist()))
                    result[:, some] = encode(words[-1])
            elif count:
                result[:, some] = encode({name: found[name]}, what=what)
            start += width
        if not words or not self.beside:
            return result
        beside = sparse.hstack(words, "csr")
        return SparseRows(dense=result, sparse=beside, plain=np.flatnonzero(plain))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (sum(each.shape[0] for each in self.parts),)

    def as_they_are(self, *, beside: bool = False) -> "Columns":
        """Return the same without a scale of numbers."""
        parts = (each.as_they_are() if isinstance(each, Numbers) else each for each in self.parts)
        return replace(self, parts=tuple(parts), beside=beside)


def standardized(fitted: Columns | Numbers, train: object, test: object) -> dict[str, Any]:
    """Return features of both parts and what made them, as `Splits` has them."""
    return {
        "train_features": fitted(train, what="training features"),
        "test_features": fitted(test, what="testing features"),
        "preprocessing": fitted,
    }


#: The longest string that can name a category.
_LONGEST_CATEGORY = 10_000
#: Place of an identifier that no training row has.
UNKNOWN = 0


@dataclass(frozen=True, kw_only=True)
class AsTheyAre(Step):
    """Rows that are features: of numbers, or of identifiers that are places already."""

    kind: ClassVar[str] = "as_they_are"

    columns: int
    identifiers: bool = False

    def __call__(self, rows: object) -> NDArray[Any]:
        """Return rows [N, D] as float32, or identifiers as int64."""
        matrix = matrix_of(rows, width=self.columns)
        if self.identifiers:
            return _identifiers(matrix)
        refuse_infinite(matrix, what="features", missing=False)
        return matrix.astype(np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (self.columns,)


@dataclass(frozen=True, kw_only=True)
class Images(Step):
    """Images of bytes, brought into the order that networks take; pixels are scaled in there."""

    kind: ClassVar[str] = "images"

    channels: int
    height: int
    width: int

    def __call__(self, rows: object) -> NDArray[np.uint8]:
        """Return images uint8 [N, C, H, W], of those, [N, H, W, C] or, for C=1, [N, H, W]."""
        images = np.asarray(rows)
        if images.dtype != np.uint8:
            raise RowsRefused(
                f"images are {images.dtype}; they must be uint8, 0 to 255, as the training's were "
                "(for images in 0..1: (255 * images).round().astype(numpy.uint8))"
            )
        one = images.shape[1:]
        if one == self.shape:
            return np.ascontiguousarray(images)
        if one == (self.height, self.width, self.channels):
            return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        if self.channels == 1 and one == (self.height, self.width):
            return np.ascontiguousarray(images[:, None])
        raise RowsRefused(
            f"images have shape {images.shape}; the training's were [N, {self.channels}, "
            f"{self.height}, {self.width}] (channels may also come last): bring them to that size"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output image."""
        return (self.channels, self.height, self.width)


@dataclass(frozen=True, kw_only=True, eq=False)
class Places(Step):
    """Identifiers as places, counted from 1, among those of the training rows; others are 0.

    `known` are those of all columns, one column after another, `counts` [D] how many each has.
    """

    kind: ClassVar[str] = "places"

    known: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def fit(cls, train: NDArray[np.int64]) -> "Places":
        """Learn the identifiers of the training rows [N, D]."""
        columns = [np.unique(column) for column in train.T]
        return cls(known=np.concatenate(columns), counts=np.array(list(map(len, columns))))

    def __call__(self, rows: object) -> NDArray[np.int64]:
        """Return places int64 [N, D] of identifiers [N, D]."""
        matrix = _identifiers(matrix_of(rows, width=len(self.counts)))
        places = np.empty(matrix.shape, dtype=np.int64)
        columns = np.split(self.known, np.cumsum(self.counts)[:-1])
        for number, (known, ids) in enumerate(zip(columns, matrix.T, strict=True)):
            nearest = np.searchsorted(known, ids).clip(max=len(known) - 1)
            places[:, number] = np.where(known[nearest] == ids, nearest + 1, UNKNOWN)
        return places

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (len(self.counts),)


@dataclass(frozen=True, kw_only=True, eq=False)
class SklearnStep(Step):
    """Fitted transformers of scikit-learn, such as the first steps of a `Pipeline`."""

    kind: ClassVar[str] = "sklearn"
    kept: ClassVar[str] = "transformers"

    transformers: Any

    @classmethod
    def of(cls, transformers: object) -> "SklearnStep":
        """Return the step of fitted transformers."""
        for part in _parts(transformers):
            selects = type(part).__module__.startswith("sklearn.feature_selection.")
            selects = selects and type(part).__name__ != "VarianceThreshold"
            tags = part.__sklearn_tags__()
            predicts = tags.estimator_type in ("classifier", "regressor")
            if selects or predicts or tags.target_tags.required:
                raise ValueError(
                    f"{type(part).__name__} learns from labels, and no release pays for that: the "
                    "model would not be private; take a transformer of features alone"
                )
        packed(transformers)  # or refuse
        return cls(transformers=transformers)

    def __call__(self, rows: object) -> Any:
        """Return what the transformers make of rows."""
        try:
            return self.transformers.transform(rows)
        except (KeyError, TypeError, ValueError) as error:
            raise RowsRefused(f"scikit-learn's transformers refuse the rows: {error}") from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Nothing: the step after it knows."""
        return ()


def _parts(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [part for each in value for part in _parts(each)]
    if not hasattr(value, "__sklearn_tags__") or isinstance(value, type):
        return []
    if type(value).__name__ == "IterativeImputer":  # its regressors learn features from features
        return [value]
    return [value, *_parts(vars(value))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Preprocessing(Stored):
    """Steps from rows as people have them to features."""

    kind: ClassVar[str] = "preprocessing"

    steps: tuple[Step, ...]

    def __call__(self, rows: object) -> Any:
        """Return features [N, ...] of raw rows as a tensor: as the training had them, bit for bit.

        Those of models of sparse columns are `SparseRows`.
        """
        import torch

        features = self.rows(rows)
        if not isinstance(features, np.ndarray):
            return features
        # torch warns of read-only arrays.
        return torch.from_numpy(np.require(features, requirements=["C", "W"]))

    def rows(self, rows: Any) -> Any:
        """Return them as an array, unless a step computes in torch."""
        for step in self.steps:
            rows = step(rows)
        assert tuple(rows.shape[1:]) == self.shape
        return rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row; () without steps."""
        return self.steps[-1].shape if self.steps else ()

    def then(self, step: Step) -> "Preprocessing":
        """Return these steps and a further one."""
        return Preprocessing(steps=(*self.steps, step))


#: Without steps: what is given where the origin of features is not stated.
NOTHING = Preprocessing(steps=())


def as_given(features: "Tensor") -> Preprocessing:
    """Return the preprocessing of data whose rows are features [N, ...] as they come."""
    if features.ndim == 4:
        channels, height, width = features.shape[1:]
        return Preprocessing(steps=(Images(channels=channels, height=height, width=width),))
    identifiers = not features.is_floating_point()
    return Preprocessing(steps=(AsTheyAre(columns=features.shape[1], identifiers=identifiers),))


def _identifiers(matrix: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers from 0, as int64 [N, D]; the first row that holds another number is named."""
    with np.errstate(invalid="ignore"):
        whole = matrix.astype(np.int64)
    bad = np.flatnonzero(((whole != matrix) | (whole < 0)).any(axis=1))
    if len(bad):
        raise RowsRefused(
            f"row {bad[0]} is {matrix[bad[0]].tolist()}; identifiers are whole numbers from 0"
        )
    return whole
