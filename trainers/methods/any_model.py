"""Any classifier of scikit-learn, LightGBM, XGBoost or CatBoost on released labels.

Every row reaches the model once and without a weight, so that inner splits, calibration and
selection of columns work as on true labels. Its label is drawn from the probabilities that the
release gives the row, evenly along rows of like probabilities, which has less noise than a draw row
by row. Of few rows a mean over several draws has less still. Where the probabilities come from
depends on what was released:

* **Sums** (moment labels) give soft labels at once (`smooth_sums`), which are a smooth function of
  the row. A sample of rows shows it as well as all of them.
* **Single labels** have a stack as their prior, which was fitted to other rows, and **counts** are
  read by one (`table_stack.fit_to_evidence`).
"""

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.preprocessing import dense_of

if TYPE_CHECKING:  # half a second
    from sklearn.base import ClassifierMixin

#: Rows, of all parts, that a model is fitted to.
_MOST_ROWS = 200_000
#: Rows of a rehearsal, at random and with extremes.
_REHEARSED = 300
_EXTREMES = 20
#: Rows of each class that a model gets at least; the next number if it can't learn from so few.
_MEMBERS = (2, 5, 10, 30)
#: Draws of labels where rows are few.
_DRAWS = 4
_FEW_ROWS = 20_000
#: Steps between draws that fill [0, 1) evenly, the golden ratio.
_EVENLY = (5**0.5 - 1) / 2


def named_estimator(name: str, *, rows: int, seed: int) -> "ClassifierMixin":
    """Return an estimator for N rows of noisy labels by its name on the command line."""
    large = max(20, min(rows // 150, 2000))
    trees: dict[str, Any] = {"learning_rate": 0.1, "random_state": seed}
    if name in ("boosting", "logistic"):
        from sklearn import ensemble, linear_model, pipeline, preprocessing

        if name == "logistic":
            scaler = preprocessing.StandardScaler()
            return pipeline.make_pipeline(scaler, linear_model.LogisticRegression(max_iter=1000))
        return ensemble.HistGradientBoostingClassifier(
            max_leaf_nodes=8, min_samples_leaf=large, early_stopping=False, **trees
        )
    if name == "lightgbm":
        from lightgbm import LGBMClassifier  # type: ignore[import-not-found]

        return LGBMClassifier(num_leaves=8, min_child_samples=large, verbose=-1, **trees)
    if name == "xgboost":
        from xgboost import XGBClassifier  # type: ignore[import-not-found]

        return XGBClassifier(max_leaves=8, grow_policy="lossguide", min_child_weight=large, **trees)
    raise ValueError(f"--estimator is {name!r}; take boosting, logistic, lightgbm or xgboost")


def check_learner(estimator: object, *, kind: str = "classifier") -> None:
    """Refuse what is no `kind` of estimator, "classifier" or "regressor"."""
    named = "Classifier" if kind == "classifier" else "Regressor"
    instead = f"give an instance of a {kind}, such as HistGradientBoosting{named}()"
    if inspect.isclass(estimator):
        raise ValueError(f"estimator is the class {estimator.__name__}; {instead}")
    what = type(estimator).__name__
    lacking = [name for name in ("fit", "get_params") if not hasattr(estimator, name)]
    if lacking:
        raise ValueError(f"{what} has no {lacking[0]}, and is no estimator; {instead}")
    tags = estimator.__sklearn_tags__() if hasattr(estimator, "__sklearn_tags__") else None
    if tags is not None and tags.estimator_type not in (kind, None):
        raise ValueError(f"{what} is a {tags.estimator_type}; {instead}")
    if kind == "classifier" and not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"{what} has no predict_proba, which gives the probabilities of the classes; {instead}"
        )


def some_of(count: int, *, most: int = _MOST_ROWS, parts: int = 1, seed: int) -> NDArray[np.intp]:
    """Return places of N rows, one of several parts: all, or a random share of `most`."""
    return np.sort(np.random.default_rng(seed).permutation(count)[: most // parts])


def rehearsed_rows(rows: Any) -> NDArray[np.intp]:
    """Return places of rows [N, ...] for a rehearsal: some at random, and some with extremes."""
    if len(rows) <= 2 * _REHEARSED:
        return np.arange(len(rows))
    chosen = np.random.default_rng(0).permutation(len(rows))[:_REHEARSED]
    rows = dense_of(rows)
    if rows.ndim == 2:  # such as the negative number that a model of counts refuses
        numbers = np.asarray(rows)
        lowest = numbers.min(1).argsort()[:_EXTREMES]
        highest = numbers.max(1).argsort()[-_EXTREMES:]
        chosen = np.concatenate([chosen, lowest, highest])
    return np.unique(chosen)


def fit_to_soft_labels(
    estimator: object, rows: NDArray[Any], soft: NDArray[np.floating], *, seed: int
) -> "ClassifierMixin":
    """Return a classifier of classes 0..K-1 that learned from rows [N, D] with drawn labels.

    `soft` [N, K] has a row's probabilities. Of few rows it is the mean of some clones of the
    estimator, each with a draw of its own, and otherwise a clone.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import VotingClassifier
    from sklearn.preprocessing import LabelEncoder

    if (soft.sum(axis=0) >= 0.5).sum() == 1:  # no row of another class is there to be learned from
        constant = DummyClassifier().fit(np.eye(soft.shape[1]), np.arange(soft.shape[1]))
        constant.class_prior_ = soft.mean(axis=0)
        return constant
    # With fewer rows than classes the draws differ in their classes, and have no mean.
    several = soft.shape[1] <= len(rows) < _FEW_ROWS
    draws = range(seed, seed + (_DRAWS if several else 1))
    fitted = [fitted_to_draw(estimator, rows, soft, seed=draw) for draw in draws]
    if len(fitted) == 1:
        return fitted[0]
    mean = VotingClassifier([(str(draw), each) for draw, each in enumerate(fitted)], voting="soft")
    mean.estimators_ = fitted
    mean.classes_ = np.arange(soft.shape[1])
    mean.le_ = LabelEncoder().fit(mean.classes_)
    return mean


def fitted_to_draw(
    estimator: object, rows: NDArray[Any], soft: NDArray[np.floating], *, seed: int
) -> "ClassifierMixin":
    """Return a clone of a classifier fitted to a class for each row [N, D], drawn from `soft`."""
    from sklearn.base import clone

    for least in _MEMBERS[:-1]:
        try:
            return clone(estimator).fit(rows, drawn(soft, seed=seed, least=least))
        except ValueError:  # its own splits may need more rows of a rare class
            continue
    return clone(estimator).fit(rows, drawn(soft, seed=seed, least=_MEMBERS[-1]))


def drawn(soft: NDArray[np.floating], *, seed: int, least: int = 1) -> NDArray[np.int64]:
    """Return a class for each row of probabilities [N, K], drawn.

    Each class has `least` rows at least, or N // K if that is less: the likeliest ones, where too
    few rows have drawn it. Fewer rows than classes have two classes at least.

    >>> np.bincount(drawn(np.full((1000, 4), 0.25), seed=0)).clip(249, 251).sum()
    np.int64(1000)
    """
    count, classes = soft.shape
    points = np.empty(count)
    order = np.lexsort(soft.T[:-1])
    points[order] = (np.random.default_rng(seed).random() + _EVENLY * np.arange(count)) % 1
    labels = (points[:, None] >= np.cumsum(soft, axis=1)[:, :-1]).sum(1)
    each = min(least, count // classes)
    for rare in np.flatnonzero(np.bincount(labels, minlength=classes) < each):
        while (sizes := np.bincount(labels, minlength=classes))[rare] < each:
            # The row comes from a class that can spare one.
            labels[np.where(sizes[labels] > each, soft[:, rare], -np.inf).argmax()] = rare
    if 1 < count < classes and (labels == labels[0]).all():  # a classifier needs two
        shares = soft.sum(0)
        shares[labels[0]] = -1
        second = soft[:, shares.argmax()]
        labels[np.argsort(-second, kind="stable")[: min(least, count // 2)]] = shares.argmax()
    return np.asarray(labels)
