"""One fit in this process: rows and labels as users have them, settings by size, and training.

The set of classes is public, and the user states it: reading it off secret labels would publish
which labels occur, and a class of one person is that person's label. No message shows a label.

A fit's price is checked before anything is released, whatever the user's settings are.
"""

import hashlib
import math
import sys
import threading
import time
import warnings
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import as_numpy, is_torch
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.ledger import Budget, shown, total_of_prices
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.platform.api.label_release import listed_classes
from labeldp.platform.api.process_ledger import PrivacyAddsUp, PrivacyNotCounted, all_numbers
from labeldp.platform.settings.configuration import TrialConfig, flatten, with_changes
from labeldp.platform.settings.methods import NamedMethod
from labeldp.platform.vault.label_home import SecretLabels
from labeldp.platform.vault.shared_vault import FitLabels, PublicSide, SharedVault
from labeldp.trainers.data.columns import TextColumns, by_name, is_number
from labeldp.trainers.data.own_data import own_rows
from labeldp.trainers.data.preprocessing import Columns, Numbers, Preprocessing, SparseColumns
from labeldp.trainers.data.splits import checked_public, fingerprint_of
from labeldp.trainers.methods.any_model import fit_to_soft_labels, rehearsed_rows, some_of
from labeldp.trainers.methods.smooth_sums import labels_of_sums
from labeldp.trainers.methods.table_stack import fit_stack, fit_to_evidence, requested
from labeldp.trainers.settings.trainer import EstimatorPredictor, Predictor

#: `classes=PUBLISH` reads the classes off the labels, which is charged as publishing them.
PUBLISH = "publish"
#: Rows times landmarks of a kernel: bounds time and memory where rows are many.
_MOST_KERNEL = 100_000_000
#: PATE: teachers, labels of each at least, and queries that they answer.
_MOST_TEACHERS = 800
_LABELS_EACH = 20
_MOST_ANSWERS = 300
#: Steps of training, about: 12 epochs up to 85,000 rows, and fewer where there are more.
_MOST_STEPS = 4_000
_MOST_EPOCHS = 12
_FEWEST_EPOCHS = 5
#: Columns of a sparse matrix that is taken as a dense one.
_MOST_DENSE = 500
#: Progress is printed at most this often.
_TELL_SECONDS = 5.0
#: Filters of warnings are the whole process's: who changes them in one thread does so alone.
_SILENT = threading.RLock()


def refuse_unusable(labels: Any, *, amounts: bool) -> None:
    """Refuse labels, or amounts, that are of no use; scikit-learn's message would show them."""
    values = getattr(labels, "values", labels)  # of a Series, without its index
    if not amounts and getattr(values, "dtype", None) == np.dtype(object) and values.ndim == 1:
        try:
            np.unique(values[~pd.isna(values)])
        except TypeError:
            raise ValueError(
                "y holds values of several kinds, such as texts and numbers; give labels of one "
                "kind, y.astype(str), and the classes as texts"
            ) from None
    if np.ma.isMaskedArray(labels):
        raise ValueError("y is a masked array, and some have no label; leave these rows out")
    try:
        plain = np.asarray(labels)
    except ValueError:
        return  # of no shape that scikit-learn takes
    if plain.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers; give texts or reals")
    if amounts and plain.dtype.kind in "mM":
        raise ValueError("y holds dates or durations; amounts are numbers: give days or seconds")
    if plain.dtype.kind not in "biufOUSTM":
        raise ValueError("y holds records, or values of another kind; give texts or numbers")
    if amounts and plain.dtype.kind in "OUST" and plain.ndim > 0 and plain.size == len(plain):
        values = plain.ravel()  # a column, too
        texts = [isinstance(each, str | bytes) and not is_number(each) for each in values]
        _refuse_rows(texts, "is not a number; amounts are numbers")
    # Amounts that are missing or infinite are refused as such.
    if plain.dtype.kind in ("O" if amounts else "Of") and plain.ndim == 1:
        _refuse_rows(pd.isna(plain), "has no label; leave it out")


def _refuse_rows(wrong: Any, why: str) -> None:
    """Refuse labels for the rows that are `wrong` [N], without a look at what they say."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise ValueError(f"y row {rows[0]} (and {len(rows) - 1} more) {why}")


def readable(rows: Any, *, name: str | None = None) -> Any:
    """Return X as scikit-learn checks it: tables of any library as DataFrames with text names.

    A column of text needs a name to be found by, so that an array with text is refused. Texts
    alone get this `name`, by default their own.
    """
    if np.ma.isMaskedArray(rows):
        raise ValueError("X is a masked array; give X.filled(np.nan), whose gaps are filled in")
    # Polars' lazy frames; reading one may run a query.
    if hasattr(rows, "collect") and not hasattr(rows, "iloc"):
        raise ValueError(f"X is a {type(rows).__name__}, which holds no rows yet; give X.collect()")
    if is_torch(rows):
        rows = as_numpy(rows)
    if isinstance(rows, Mapping) and not hasattr(rows, "tocsr"):  # as sparse ones are
        rows = pd.DataFrame(rows)
    elif not hasattr(rows, "iloc") and (
        hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "to_pandas")
    ):
        import pyarrow as pa

        rows = pa.table(rows).to_pandas()
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        names = list(by_name(rows) or ())  # each once
        if not names:
            raise ValueError("X has no columns; give a table with a column at least")
        plain = all(isinstance(name, str) for name in rows.columns)
        # Numbers under numbers are a matrix to scikit-learn, which keeps no names then.
        if not plain and (not all_numbers(rows) or any(type(x) is str for x in rows.columns)):
            rows = rows.set_axis(names, axis=1)
        return rows
    if (texts := _texts(rows, name)) is not None:
        return texts
    if isinstance(rows, list | tuple) or getattr(rows, "dtype", np.dtype(float)).kind in "OUS":
        found: list[Any] = []
        with suppress(TypeError, ValueError):  # of other shapes, which scikit-learn refuses
            for place, column in pd.DataFrame(rows).select_dtypes(exclude="number").items():
                texts = (each for each in column if isinstance(each, str | bytes))
                found += [place] if not all(map(is_number, texts)) else []
        if found:
            raise ValueError(
                f"X is a {type(rows).__name__} with text in column {found[0]}; give a DataFrame, "
                "pandas.DataFrame(X).infer_objects(), whose columns of text become categories, "
                "with the names of the training rows"
            )
    return rows


def _texts(rows: Any, name: str | None) -> pd.DataFrame | None:
    """Return texts [N] as a table of one column; None where X is something else."""
    if len(np.shape(rows)) != 1 if hasattr(rows, "shape") else not isinstance(rows, list | tuple):
        return None
    values = list(rows)
    texts = [each for each in values if isinstance(each, str)]
    known = all(isinstance(each, str) or each is None for each in values)
    if not known or all(map(is_number, texts)):
        return None
    name = name or str(getattr(rows, "name", None) or "text")
    return pd.DataFrame({name: pd.Series(values, dtype=object)})


def stated_classes(classes: object, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes in order [K], each once.

    `classes`: all of them, the number of 0..K-1, or `PUBLISH`: only that reads the secret labels.
    """
    if isinstance(classes, str) and classes == PUBLISH:
        found = np.unique(labels)
        # scikit-learn's checks look for its own words here.
        if len(found) < 2:
            raise ValueError("y holds one class; a classifier needs two classes at least")
        return found
    listed = listed_classes(classes)
    try:
        found = np.unique(np.asarray(listed))
    except (TypeError, ValueError):
        raise ValueError(
            f"classes is {classes!r:.100}, with values of several kinds; name them all by texts "
            "or all by numbers, as the labels are"
        ) from None
    if len(found) < len(listed):
        raise ValueError(f"classes names {len(listed)} classes, but one of them twice")
    return found


def stated_bounds(bounds: Any) -> tuple[float, float]:
    """Return the smallest and the largest amount, which the user states."""
    try:
        low, high = map(_validate.plain, bounds)
        _validate.number(least=low, largest=high)
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds is {bounds!r}; state the least and the largest amount, such as bounds=(0, "
            "500): they are public, and are not read off the amounts"
        ) from None
    if not (low < high and math.isfinite(high - low)):
        raise ValueError(f"bounds are {low:g} and {high:g}; two finite numbers, the smaller first")
    return float(low), float(high)


def places_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each secret label [N] among the classes [K].

    The ValueError for one that is not among them names the row and never the label.
    """
    if labels.dtype.kind == "O":  # as columns of DataFrames have them
        labels = np.asarray(labels.tolist())
    # NumPy compares the text "1" with the number 1 as different, or in a warning.
    kinds = ["texts" if each.dtype.kind in "USOT" else "numbers" for each in (labels, classes)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"y holds {kinds[0]} and classes {kinds[1]}; state the classes as the labels are "
            f"(y.astype(str), or classes=[1, 2] instead of ['1', '2'])"
        )
    try:
        # Clipped, so that a label beyond the last class is compared with it, and refused below.
        order = np.argsort(classes)
        places = order[np.searchsorted(classes, labels, sorter=order).clip(max=len(classes) - 1)]
    except TypeError as error:
        raise ValueError("y holds values of several kinds; give labels of one kind") from error
    _refuse_rows(
        classes[places] != labels,
        f"is not one of the {len(classes)} stated classes; the label is secret and not shown: add "
        "its class to classes=, take a model that knows it, or correct the row",
    )
    return np.asarray(places, np.int64)


def digest_of(fingerprint: str, rows: object) -> str:
    """Return a digest of X: of an array's own bytes, otherwise of its features."""
    if isinstance(rows, np.ndarray):
        head = f"{rows.dtype.str}{rows.shape}".encode()
        return hashlib.sha256(head + np.ascontiguousarray(rows).tobytes()).hexdigest()
    return fingerprint


def used_columns(rows: object, preprocessing: Preprocessing, *, known: Iterable[str]) -> Any:
    """Return rows without those of the `known` columns that the fit left out.

    Others stay: they are named where one is missing. Rows without names are returned as they are.
    """
    step = preprocessing.steps[0]
    columns = by_name(rows)
    if columns is None or not isinstance(step, Columns):
        return rows
    left_out = {*known} - {*step.names}
    return {name: column for name, column in columns.items() if name not in left_out}


def fit_changes(
    method: NamedMethod,
    *,
    rows: int,
    shape: Sequence[int],
    epsilon: float,
    delta: float,
    named_columns: bool = False,
) -> dict[str, Any]:
    """Return dotted key -> value of a method's settings for N rows of shape (D,) or (C, H, W).

    Features have a mean squared norm of 1, so that one learning rate fits all (that of
    docs/reproduction.md for the same network). Pure methods ignore `delta`. Sums over the rows of a
    table with `named_columns` are smooth functions of its columns; other numbers may be embeddings,
    of which a kernel is the better reading.
    """
    changes: dict[str, Any] = {"method": method.method, **method.changes}
    # By the number of rows alone, which is public.
    batch = 64 if rows <= 8_000 else 256 if rows <= 100_000 else 512
    steps = max(1, rows // batch)
    usual: dict[str, Any] = {
        "trainer.epsilon": epsilon,
        "trainer.epochs": max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, _MOST_STEPS // steps)),
        "trainer.batch_size": batch,
        # Pixels have a mean square of 1 each: the rate for a norm of 1 is too high for them.
        "trainer.learning_rate": 1.0 if len(shape) == 1 else 6.0 / math.prod(shape),
        "trainer.schedule": "cosine",
        "trainer.dropout": 0.5,
    }
    if method.method == "pate":  # costs epsilon whatever the votes are: the budget sets its noise
        answers = min(_MOST_ANSWERS, rows)
        usual = {
            "trainer.epsilon": epsilon,
            "trainer.aggregator": "gnmax",
            "trainer.ensemble.teachers": max(1, min(_MOST_TEACHERS, rows // _LABELS_EACH)),
            "trainer.ensemble.queries": answers,
            "trainer.answers": answers,
            "trainer.student.kind": "probe",
            "trainer.students": 1,
        }
    elif method.method == "convex":
        usual = {"trainer.epsilon": epsilon}
    if delta > 0:
        usual["trainer.delta"] = delta
    if method.method in ("alibi", "consensus"):
        usual["trainer.recipe.start_at_shares"] = True
    known = flatten(with_changes(TrialConfig(), {"method": method.method}))
    changes |= {key: value for key, value in usual.items() if key in known}
    if method.method == "consensus":
        changes["trainer.retrain_epochs"] = changes["trainer.epochs"] // 2
    source = changes.get("trainer.prior.source")
    if source == "moments" and named_columns:
        changes["trainer.prior.source"] = "smooth_sums"
    elif source in ("moments", "clusters"):
        changes["trainer.prior.landmarks"] = max(300, min(1500, _MOST_KERNEL // rows))
    return changes


def configured(
    changes: Mapping[str, Any], *, seed: int, settings: Mapping[str, Any]
) -> TrialConfig:
    """Return the configuration of a fit.

    `settings`: the user's own on top: keys of the trainer, such as `epochs`.
    """
    own = {f"trainer.{str(key).removeprefix('trainer.')}": settings[key] for key in settings}
    for name in ("epsilon", "delta"):
        if f"trainer.{name}" in own:
            raise ValueError(
                f"settings has {name!r}; the price of a fit is the estimator's own parameter: "
                f"LabelPrivateClassifier({name}=...)"
            )
    return with_changes(TrialConfig(), {**changes, "seed": seed, **own})


def shortened(config: TrialConfig) -> TrialConfig:
    """Return the configuration of a rehearsal: teachers and students train for an epoch."""
    parts = ("trainer.ensemble.", "trainer.student.")
    keys = [key for key in flatten(config) if key.endswith("epochs") and key.startswith(parts)]
    return with_changes(config, dict.fromkeys(keys, 1))


def check_price(config: TrialConfig, *, epsilon: float, delta: float, num_classes: int) -> None:
    """Refuse a fit that would cost more than its parameters allow, before anything is released."""
    planned = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    if planned is None:
        return
    # The user's settings may have changed the noise: their price counts.
    cost, at = total_of_prices(planned.chain(), delta=config.trainer.delta)
    if not Budget(epsilon=epsilon, delta=delta).allows(cost) or at > delta:
        raise ValueError(
            f"with these settings a fit costs epsilon {shown(cost)} at delta {shown(at)}, more "
            f"than epsilon={epsilon:g}, delta={delta:g} allow; remove the settings that change the "
            "noise, or raise epsilon or delta"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberRows:
    """X as numbers [N, D], for estimators and without torch.

    Attributes:
        train_features: In the units of the columns, as they came; of sparse columns `SparseRows`.
        scaled: The same with variance 1, of which sums are requested.
        preprocessing: Makes `train_features` of X.
    """

    num_classes: int
    train_features: Any
    scaled: NDArray[np.float32]
    preprocessing: Preprocessing
    fingerprint: str

    def only(self, places: NDArray[np.intp]) -> "NumberRows":
        """Return some of the rows [M]."""
        return replace(self, train_features=self.train_features[places], scaled=self.scaled[places])


def number_rows(
    rows: Any,
    *,
    num_classes: int,
    keep: Sequence[str] = (),
    text: TextColumns = TextColumns.TFIDF,
    own: bool = True,
) -> NumberRows:
    """Return X for an estimator.

    `rows`, `keep` and `text` as of `public_rows`. A user's `own` estimator gets no `SparseRows`.
    """
    if issparse(rows) and rows.shape[1] > _MOST_DENSE and not own:
        step = SparseColumns.fit(rows)
        numbers: Any = step(rows)
        scaled = numbers.dense
        preprocessing = Preprocessing(steps=(step,))
        fingerprint = fingerprint_of(num_classes, [scaled, scaled[:0]], np.zeros(0, np.int64))
    elif len(np.shape(rows)) > 2:  # images are described as for networks, by torch
        from labeldp.platform.api.network_fits import public_rows

        data = public_rows(rows, num_classes=num_classes, keep=keep, text=text)
        numbers = scaled = data.train_features.flatten(1).float().numpy()
        preprocessing = data.preprocessing
        fingerprint = data.fingerprint
    else:
        splits = own_rows(rows, num_classes=num_classes, keep=keep, text=text)
        fitted = splits.preprocessing
        scaled = splits.train_features
        assert isinstance(fitted, Columns | Numbers), "tables are prepared"
        words = {"beside": not own} if isinstance(fitted, Columns) else {}
        preprocessing = Preprocessing(steps=(fitted.as_they_are(**words),))
        known = by_name(rows) or ()
        numbers = preprocessing.rows(used_columns(rows, preprocessing, known=known))
        parts = {"train": scaled, "test": splits.test_features}
        checked_public("own", num_classes, parts, splits.test_labels)
        fingerprint = fingerprint_of(num_classes, parts.values(), splits.test_labels)
    return NumberRows(
        num_classes=num_classes,
        train_features=numbers,
        scaled=scaled,
        preprocessing=preprocessing,
        fingerprint=fingerprint,
    )


def rehearse(
    learn: Callable[[FitLabels, NDArray[np.intp]], Any],
    rows: Any,
    *,
    classes: int,
    rare: bool,
) -> None:
    """Let a model learn from labels drawn at random, so that what can't be fitted costs nothing.

    `learn` is called with labels of no meaning and the places of their rows among rows [N, ...]:
    of some, and of all where these are too few for it. It returns predictions of these rows.
    `rare`: one label alone is not 0, as it may be for all that is known; or they are balanced.

    Raises:
        ValueError: The model fails on all rows, or predicts NaN or infinity.
    """
    some = rehearsed_rows(rows)
    problem = None
    for places in [some, np.arange(len(rows))][: 1 if len(some) == len(rows) else 2]:
        numbers = np.arange(len(places))
        labels = numbers == 0 if rare else numbers % classes
        labels = np.random.default_rng(0).permutation(labels.astype(np.int64))
        fit_labels = FitLabels(
            SecretLabels(training=labels, num_classes=classes),
            side=PublicSide(rows="", classes="", num_labels=len(labels)),
            shared=SharedVault(),
            noise=SeededNoise(seed=0),
        )
        try:
            # The fit itself will warn, of true numbers.
            with _SILENT, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for heard in (PrivacyAddsUp, PrivacyNotCounted):  # of fits in other threads
                    warnings.simplefilter("default", heard)
                predicted = learn(fit_labels, places)
            if not np.isfinite(predicted).all():
                raise ValueError("it predicts what is infinite or no number")
            return
        except Exception as error:  # any error of a user's estimator or network
            problem = error
        finally:
            fit_labels.home.end()
    raise ValueError(
        f"the model can't learn from X ({type(problem).__name__}: {problem}); no label was "
        "released for this"
    ) from problem


def fit_estimator(
    estimator: object,
    mechanism: Any,
    *,
    delta: float,
    data: NumberRows,
    labels: FitLabels,
    seed: int,
    **how: Any,
) -> tuple[Predictor, Mapping[str, float]]:
    """Return a model that learned from one release of the labels, and figures for their owner.

    `estimator` is a classifier of scikit-learn's kind, and None for a stack; `delta` is at which
    the release is priced; `seed` is of training, not of the noise; `how` is as in
    `fit_and_predict`.
    """
    rows = data.train_features
    classes = data.num_classes
    predictor: Predictor
    if isinstance(mechanism, LabelMoments):
        places = some_of(len(rows), seed=seed)
        soft = labels_of_sums(data.scaled, labels, mechanism=mechanism, seed=0, places=places)
        fitted = fit_to_soft_labels(estimator, rows[places], soft, seed=seed)
        predictor = EstimatorPredictor(estimator=fitted, num_classes=classes)
    else:
        evidence = requested(mechanism, labels, data.scaled)
        if estimator is None:
            predictor = fit_stack(rows, evidence, seed=seed, **how)
        else:
            fitted = fit_to_evidence(estimator, rows, evidence, seed=seed, **how)
            predictor = EstimatorPredictor(estimator=fitted, num_classes=classes)
    figures = labels.figures(lambda places: predictor.predict(rows[places]), delta=delta)
    return predictor, figures


def teller(*, verbose: bool) -> Callable[[str], None]:
    """Return a printer of a fit's progress, with the seconds since now, a line now and then.

    On a terminal, long fits are told of without `verbose`, too.
    """
    started = time.monotonic()
    last = -math.inf if verbose else started
    told = verbose or sys.stderr.isatty()

    def tell(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if told and now - last >= _TELL_SECONDS:
            last = now
            print(f"{text}, {now - started:.0f} s", file=sys.stderr)

    return tell


class PrivateFigures(UserDict[str, float]):
    """Name -> figure made of true labels: neither shown nor pickled, unless `pickled` is set.

    >>> figures = PrivateFigures({"private/training_accuracy": 0.93})
    >>> figures
    PrivateFigures(1 for the labels' owner alone)
    >>> figures["private/training_accuracy"]
    0.93
    """

    pickled = False

    def __repr__(self) -> str:
        return f"PrivateFigures({len(self)} for the labels' owner alone)"

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self.data if self.pickled else {}
        return (PrivateFigures, (kept,), {"pickled": self.pickled})
