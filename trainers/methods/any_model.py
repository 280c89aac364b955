"""Any classifier of scikit-learn, LightGBM, XGBoost or CatBoost on released labels.

A release gives each row a probability of every class. The model learns from each row once for every
class that is likely, weighted by that probability (`sample_weight`). Where the probabilities come
from depends on what was released:

* **Sums** (moment labels) give soft labels at once (`smooth_sums`), which are a smooth function of
  the row; the model is fitted to that function. A sample of rows shows it as well as all of them.
* **Single labels** have the model itself as their prior. A model that has seen a row's noisy label
  agrees with it too readily, so the prior of a row comes from a model fitted to other rows. It
  learns posteriors under a flat prior, which are known to be too flat, and is corrected for that:
  plain expectation maximization would take many rounds at a small epsilon. Few leaves with many
  rows each keep trees from learning the noise.
"""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.posterior import posterior, project_to_simplex

#: Rows, of all parts, that a model of soft labels is fitted to; smaller weights are left out.
_MOST_ROWS, _LEAST_WEIGHT, _TINY_WEIGHT = 200_000, 1e-3, 1e-9
_FOLDS = 2


def named_estimator(name: str, *, rows: int, seed: int) -> Any:
    """Return an estimator for N rows of noisy labels by its name on the command line."""
    large = max(20, min(rows // 150, 2000))
    trees: dict[str, Any] = {"learning_rate": 0.1, "random_state": seed}
    if name in ("boosting", "logistic"):
        from sklearn import ensemble, linear_model

        if name == "logistic":
            return linear_model.LogisticRegression(max_iter=1000)
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


def check_learner(estimator: Any, *, probabilities: bool = True) -> None:
    """Refuse an estimator that can't learn from a release; call it before one is drawn and paid.

    It takes `sample_weight`, in a pipeline its last step, and a classifier has `predict_proba`.
    """
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    taken = inspect.signature(last.fit).parameters.values()
    if not any(each.name == "sample_weight" or each.kind is each.VAR_KEYWORD for each in taken):
        lacks = "takes no sample_weight, which weights a released label by its certainty"
    elif probabilities and not hasattr(estimator, "predict_proba"):
        lacks = "has no predict_proba, which gives the probabilities of the classes"
    else:
        return
    raise ValueError(
        f"{type(last).__name__} {lacks}; use an estimator that does, such as "
        f"HistGradientBoosting{'Classifier' if probabilities else 'Regressor'}"
    )


def fit_weighted(estimator: Any, rows: NDArray[Any], targets: NDArray[Any], weights: Any) -> Any:
    """Return a clone of the estimator fitted to rows [n, D] with targets and weights [n]."""
    from sklearn.base import clone

    step = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    return clone(estimator).fit(rows, targets, **{f"{step}sample_weight": weights})


def some_of(count: int, *, parts: int = 1, seed: int) -> NDArray[np.intp]:
    """Return places of N rows, one of several parts: all, or a random share of `_MOST_ROWS`."""
    return np.sort(np.random.default_rng(seed).permutation(count)[: _MOST_ROWS // parts])


def fit_to_soft_labels(estimator: Any, rows: NDArray[Any], soft: NDArray[np.floating]) -> Any:
    """Return a clone of the estimator fitted to rows [N, D], once for every likely class.

    `soft` [N, K] are the weights. Its classes are 0..K-1.
    """
    check_learner(estimator)
    likely = soft > _LEAST_WEIGHT
    if likely.any(0).sum() < 2:  # estimators refuse a single class
        likely[soft.argmax(0), np.arange(soft.shape[1])] = True
        soft = np.maximum(soft, _TINY_WEIGHT)
    kept = [np.flatnonzero(column) for column in likely.T]
    repeated = np.concatenate(kept)
    classes = np.repeat(np.arange(len(kept)), [len(each) for each in kept])
    return fit_weighted(estimator, rows[repeated], classes, soft[repeated, classes])


def fit_to_single_labels(
    estimator: Any, rows: NDArray[Any], log_likelihood: NDArray[np.floating], *, seed: int
) -> Any:
    """Return a clone of the estimator fitted to released labels of rows [N, D].

    `log_likelihood` [N, K] is that of the release for each row and class, from 0..K-1.
    """
    flat = posterior(log_likelihood, np.zeros(log_likelihood.shape[-1]))
    folds = np.random.default_rng(seed).permutation(len(rows)) % _FOLDS
    prior = np.empty(flat.shape)
    for fold in range(_FOLDS):
        inside = folds == fold
        model = fit_to_soft_labels(estimator, rows[~inside], flat[~inside])
        found = probabilities_of(model, rows[inside], num_classes=flat.shape[-1])
        prior[inside] = _without_noise(found, flat)
    refined = posterior(log_likelihood, np.log(np.maximum(prior, _LEAST_WEIGHT)))
    return fit_to_soft_labels(estimator, rows, refined)


def _without_noise(mean: NDArray[np.float64], flat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of classes [N, K] behind mean posteriors under a flat prior [N, K].

    Of a label that is c the posterior of c is d on average and that of each other class the same,
    so that a mean posterior is a mixture. All mechanisms here treat classes alike, and then d is
    the mean of the squared posteriors `flat` [M, K], summed over the classes.
    """
    own = float(np.square(flat).sum(1).mean())
    other = (1 - own) / (flat.shape[-1] - 1)
    return np.asarray(project_to_simplex((mean - other) / max(own - other, 1e-9)))


def probabilities_of(model: Any, rows: NDArray[Any], *, num_classes: int) -> NDArray[np.float64]:
    """Return probabilities [N, K] of a model that may have seen some classes only."""
    found = np.zeros((len(rows), num_classes))
    found[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(rows)
    return found
