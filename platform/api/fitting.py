"""One fit in this process: rows and labels as users have them, settings by size, and training.

The set of classes is public, and the user states it: reading it off secret labels would publish
which labels occur, and a class of one person is that person's label. No message shows a label.

A fit's price is checked before anything is released, whatever the user's settings are.
"""

import hashlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Budget, delta_of_total, epsilon_of_prices
from labeldp.platform.api.methods import NamedMethod
from labeldp.platform.api.process_ledger import PaidRelease, line_of
from labeldp.platform.sweep.accuracy_figures import is_owners
from labeldp.platform.sweep.configuration import TrialConfig, flatten, with_changes
from labeldp.platform.vault.shared_vault import FitLabels
from labeldp.trainers.data.columns import Columns, by_name
from labeldp.trainers.data.labelled_data import FeatureKind, PublicData
from labeldp.trainers.data.own_data import read_arrays
from labeldp.trainers.data.preprocessing import Preprocessing
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.models.predictors import Predictor
from labeldp.trainers.models.shared_arrays import as_tensor
from labeldp.trainers.models.trained_model import TrainedModel

#: `classes=PUBLISH` reads the classes off the labels, which is charged as publishing them.
PUBLISH = "publish"
#: Images at least so high and wide are described by patches; smaller ones are taken as they are.
SMALLEST_PATCHED = 16
#: Rows times landmarks of the moments' kernel: bounds time and memory where rows are many.
_MOST_KERNEL = 100_000_000
#: PATE: teachers, labels of each at least, and queries that they answer.
_MOST_TEACHERS, _LABELS_EACH, _MOST_ANSWERS = 800, 20, 300
#: Steps of training, about: 12 epochs up to 85,000 rows, and fewer where there are more.
_MOST_STEPS = 4_000
_MOST_EPOCHS, _FEWEST_EPOCHS = 12, 5
#: Off a terminal, progress is printed at most this often.
_TELL_SECONDS = 5.0
#: One thread trains tables up to this width as quickly as two.
_NARROW = 256


def refuse_unusable(labels: Any) -> None:
    """Refuse complex and missing labels; scikit-learn's own message would show them."""
    try:
        plain = np.asarray(labels)
    except ValueError:
        return  # of no shape that scikit-learn takes
    if plain.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers; give texts or reals")
    if plain.dtype.kind == "O" and plain.ndim == 1:
        missing = [row for row, label in enumerate(plain) if label is None]
        if missing:
            raise ValueError(
                f"y row {missing[0]} (and {len(missing) - 1} more) has no label; leave it out"
            )


def stated_classes(classes: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes in order [K], each once.

    `classes`: all of them, the number of 0..K-1, or `PUBLISH`: only that reads the secret labels.
    """
    if classes is None:
        raise ValueError(
            "classes is None, and which classes there are is not read off secret labels, since a "
            "rare one would tell somebody's label: state them, classes=['no', 'yes'], or how many "
            "there are of 0..K-1, classes=10. (classes='publish' reads them off y, at an infinite "
            "epsilon.)"
        )
    if isinstance(classes, str):
        if classes != PUBLISH:
            raise ValueError(
                f"classes is {classes!r}; give a list of all classes, how many there are of "
                f"0..K-1, or {PUBLISH!r}"
            )
        found = np.unique(labels)
        # scikit-learn's checks look for its own words here.
        if len(found) < 2:
            raise ValueError("y holds one class; a classifier needs two classes at least")
        return found
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        found = np.arange(int(classes))
    elif isinstance(classes, Sequence | np.ndarray | set | frozenset):
        found = np.unique(np.asarray(list(classes)))
        if len(found) < len(classes):
            raise ValueError(f"classes names {len(classes)} classes, but one of them twice")
    else:
        raise ValueError(f"classes is {classes!r:.100}; give a list of all classes")
    if len(found) < 2:
        raise ValueError(f"classes is {classes!r:.100}; there must be two classes at least")
    return found


def places_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each secret label [N] among the sorted classes [K].

    The ValueError for one that is not among them names the row and never the label.
    """
    if labels.dtype.kind == "O":  # as columns of DataFrames have them
        labels = np.asarray(labels.tolist())
    text = ("U", "S", "O", "T")
    if (labels.dtype.kind in text) != (classes.dtype.kind in text):
        kinds = ["texts" if each.dtype.kind in text else "numbers" for each in (labels, classes)]
        raise ValueError(
            f"y holds {kinds[0]} and classes {kinds[1]}; state the classes as the labels are "
            f"(y.astype(str), or classes=[1, 2] instead of ['1', '2'])"
        )
    try:
        places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    except TypeError as error:
        raise ValueError(
            "y holds values of several kinds that can't be compared with classes; give labels of "
            "one kind"
        ) from error
    unseen = np.flatnonzero(classes[places] != labels)
    if len(unseen):
        raise ValueError(
            f"y row {unseen[0]} (and {len(unseen) - 1} more) is none of the {len(classes)} "
            "classes that are stated; the label is not shown, since it is secret: add its class to "
            "classes=, or mend the row"
        )
    return places.astype(np.int64)


def public_rows(rows: Any, *, num_classes: int, keep: Sequence[str] = ()) -> PublicData:
    """Return X as public data without a test split; its preprocessing stays with the model.

    `rows`: numbers [N, D], a DataFrame, or images of bytes; `keep`: columns that are features
    although they look like identifiers.
    """
    # The reader wants labels beside; no true label has a part in preparing rows.
    placeholder = np.zeros(np.shape(rows)[0], dtype=np.int64)
    splits = read_arrays(rows, placeholder, classes=num_classes, keep=keep)
    fitted = splits.preprocessing
    data = PublicData(
        name="own",
        num_classes=num_classes,
        train_features=as_tensor(splits.train_features),
        test_features=as_tensor(splits.test_features),
        test_labels=splits.test_labels,
        preprocessing=Preprocessing(steps=() if fitted is None else (fitted,)),
    )
    small = data.kind is FeatureKind.IMAGE and (
        min(data.train_features.shape[2:]) < SMALLEST_PATCHED
    )
    return data if small else described_by_features(data)


def digest_of(data: PublicData, rows: Any) -> str:
    """Return a digest of X: of an array's own bytes, otherwise of its features."""
    if isinstance(rows, np.ndarray):
        head = f"{rows.dtype.str}{rows.shape}".encode()
        return hashlib.sha256(head + np.ascontiguousarray(rows).tobytes()).hexdigest()
    return data.fingerprint


def names_of(rows: Any) -> NDArray[Any] | None:
    """Return the names of labels [N] as `PublicSide` takes them, or None; objects become texts."""
    if rows is None:
        return None
    names = np.asarray(rows)
    if names.dtype.kind == "O" and all(type(name) is str for name in names.flat):
        return names.astype(str)
    return names


def used_columns(rows: Any, model: TrainedModel) -> Any:
    """Return rows without the columns that the fit left out; rows without names as they are."""
    step, columns = model.preprocessing.steps[0], by_name(rows)
    if columns is None or not isinstance(step, Columns):
        return rows
    return {name: column for name, column in columns.items() if name in step.columns}


def fit_changes(
    method: NamedMethod,
    *,
    rows: int,
    shape: Sequence[int],
    epsilon: float,
    delta: float,
) -> dict[str, Any]:
    """Return dotted key -> value of a method's settings for N rows of shape (D,) or (C, H, W).

    Features have a mean squared norm of 1, so that one learning rate fits all (that of
    docs/reproduction.md for the same network). Pure methods ignore `delta`.
    """
    changes: dict[str, Any] = {"method": method.method, **method.changes}
    at_delta = {} if delta == 0 else {"trainer.delta": delta}
    if method.method == "pate":
        return {**changes, **_pate(rows, epsilon=epsilon, delta=delta), **at_delta}
    if method.method == "convex":
        return {**changes, "trainer.epsilon": epsilon, **at_delta}
    batch = 64 if rows <= 8_000 else 256 if rows <= 100_000 else 512
    steps = max(1, rows // batch)
    usual = {
        "trainer.epsilon": epsilon,
        **at_delta,
        "trainer.epochs": max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, _MOST_STEPS // steps)),
        "trainer.batch_size": batch,
        # Pixels have a mean square of 1 each: the rate for a norm of 1 is too high for them.
        "trainer.learning_rate": 1.0 if len(shape) == 1 else 6.0 / math.prod(shape),
        "trainer.schedule": "cosine",
        "trainer.dropout": 0.5,
    }
    changes |= {key: value for key, value in usual.items() if key in _keys(method.method)}
    if method.method == "consensus":
        changes["trainer.retrain_epochs"] = changes["trainer.epochs"] // 2
    if changes.get("trainer.prior.source") == "clusters":
        changes["trainer.prior.clusters"] = max(1, min(200, rows // 20))
    if changes.get("trainer.prior.source") == "moments":
        changes["trainer.prior.landmarks"] = max(300, min(1500, _MOST_KERNEL // rows))
    return changes


@cache
def _keys(method: str) -> frozenset[str]:
    return frozenset(flatten(with_changes(TrialConfig(), {"method": method})))


def _pate(rows: int, *, epsilon: float, delta: float) -> dict[str, Any]:
    """PATE that costs epsilon whatever the votes are: the budget sets its noise."""
    teachers = max(1, min(_MOST_TEACHERS, rows // _LABELS_EACH))
    answers = max(1, min(_MOST_ANSWERS, rows))
    # A label moves one vote, and so two counts, as it does in a one-hot label: K answers are K
    # releases.
    noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta).noise_std
    return {
        "trainer.aggregator": "gnmax",
        "trainer.ensemble.teachers": teachers,
        "trainer.ensemble.queries": answers,
        "trainer.answers": answers,
        "trainer.sigma2": noise_std * math.sqrt(answers),
        "trainer.publish_cost": False,
        "trainer.student.kind": "probe",
        "trainer.students": 1,
    }


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


def check_price(config: TrialConfig, *, epsilon: float, delta: float, num_classes: int) -> None:
    """Refuse a fit that would cost more than its parameters allow, before anything is released."""
    planned = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    if planned is None:
        return
    chain = planned.chain()
    at = delta_of_total(chain, delta=config.trainer.delta)
    cost = epsilon_of_prices(chain, delta=at)
    if not Budget(epsilon=epsilon, delta=delta).allows(cost) or at > delta:
        raise ValueError(
            f"with these settings a fit costs epsilon {cost:.4g} at delta {at:g}, more than "
            f"epsilon={epsilon:g}, delta={delta:g} allow; leave out of settings what changes the "
            "noise, or raise epsilon or delta"
        )


class Teller:
    """Prints the progress of a fit: one line on a terminal, or one now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._started, self._told = quiet, time.monotonic(), -math.inf
        self._over = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        """Print a step."""
        now = time.monotonic()
        if self._quiet or (not self._over and now - self._told < _TELL_SECONDS):
            return
        self._told = now
        line = f"{text}, {now - self._started:.0f} s"
        print(
            f"\r{line}\x1b[K" if self._over else line,
            end="" if self._over else "\n",
            file=sys.stderr,
        )

    def close(self) -> None:
        """End the line on a terminal."""
        if self._over and self._told > -math.inf:
            print(file=sys.stderr)


class PrivateFigures(Mapping[str, float]):
    """Name -> figure made of true labels: neither shown nor pickled, unless `pickled` is set.

    >>> figures = PrivateFigures({"private/training_accuracy": 0.93})
    >>> figures
    PrivateFigures(1 figure, for the labels' owner alone)
    >>> figures["private/training_accuracy"]
    0.93
    """

    def __init__(self, figures: Mapping[str, float], *, pickled: bool = False) -> None:
        self._figures = dict(figures)
        self.pickled = pickled

    def __getitem__(self, name: str) -> float:
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __repr__(self) -> str:
        count = len(self)
        plural = "" if count == 1 else "s"
        return f"PrivateFigures({count} figure{plural}, for the labels' owner alone)"

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self._figures if self.pickled else {}
        return (PrivateFigures, (kept,), {"_figures": kept, "pickled": self.pickled})


def without_figures(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of `Fitted.audit` that may travel: how many labels the audit spoiled."""
    kept = {name: value for name, value in audit.items() if not isinstance(value, float)}
    if len(kept) < len(audit):
        kept["reason"] = "what the audit found stayed with the labels' owner"
    return kept


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """The result of a fit.

    Attributes:
        epsilon: Of the worst label, for the releases that this fit has read.
        audit: The most that attacks could have found, and how many labels they spoiled.
        private: Their findings, and other figures computed from true labels.
    """

    predictor: Predictor
    epsilon: float
    delta: float
    lines: list[PaidRelease]
    audit: dict[str, Any]
    private: PrivateFigures


@contextmanager
def few_threads(data: PublicData) -> Iterator[None]:
    """Compute narrow tables in one thread: a step takes less time than two threads need to meet.

    On two busy cores, 5,000 rows of 15 columns take 0.8 seconds of processor time in one thread and
    20 in two, which wait for each other actively.
    """
    before = torch.get_num_threads()
    narrow = data.train_features.ndim == 2 and data.train_features.shape[1] <= _NARROW
    torch.set_num_threads(1 if narrow else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fit(
    config: TrialConfig, *, data: PublicData, labels: FitLabels, tell: Callable[[str], None]
) -> Fitted:
    """Train a model and return it with its price.

    Raises:
        TrainingDiverged: The loss is not finite any more.
    """
    settings = config.trainer
    settings.check_data(data)
    if settings.prior is not None:
        settings.prior.check_size(examples=len(data.train_features), num_classes=data.num_classes)
        prior_features(settings.prior, data)
    try:
        with few_threads(data):
            if settings.ensemble is not None:
                labels.teach(
                    settings.ensemble, data=data, performance=config.performance, tell=tell
                )
            trainer = settings.start(
                data=data, labels=labels, seed=config.seed, performance=config.performance
            )
            for epoch in range(settings.epochs):
                trainer.epoch()
                tell(f"epoch {epoch + 1} of {settings.epochs}")
            predictor = trainer.predictor()
            if predictor is None:
                raise ValueError(
                    f"method {config.method!r} keeps no model; take another one, or give its "
                    "trainer a predictor"
                )

            def probabilities(places: NDArray[np.intp]) -> NDArray[np.float32]:
                rows = data.train_features[torch.from_numpy(places)]
                found: NDArray[np.float32] = predictor.predict(rows)
                return found

            figures = labels.figures(probabilities, delta=settings.delta)
    finally:
        labels.home.end()
    epsilon, at = labels.epsilon(delta=settings.delta)
    spoiled, rows = len(labels.canary_positions()), len(data.train_features)
    audit = {name: value for name, value in figures.items() if not is_owners(name)}
    unaudited = (
        "not audited: no canaries were planted, each of which spoils a label; canaries=100 plants "
        "two hundred"
    )
    return Fitted(
        predictor=predictor,
        epsilon=epsilon,
        delta=at,
        lines=[
            line_of(charge, num_labels=rows, delta=settings.delta, new=labels.is_new(charge))
            for charge in labels.charges()
        ],
        audit={
            **audit,
            "spoiled_labels": spoiled,
            **({} if spoiled else {"reason": unaudited}),
        },
        private=PrivateFigures({name: figures[name] for name in figures if is_owners(name)}),
    )
