"""handed_labels: what of scikit-learn may hand labels to a fit, and what only tokens."""

import pickle
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn import ensemble, multioutput
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest
from sklearn.linear_model import LogisticRegression, RANSACRegressor, Ridge
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    permutation_test_score,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    LabelEncoder,
    MinMaxScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import all_estimators

from labeldp import LabelPrivateClassifier, LabelPrivateRegressor, SharedVault
from labeldp.platform.api.paid_fits import _supervised

pytestmark = [
    pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp"),
    pytest.mark.filterwarnings("ignore::labeldp.PrivacyNotCounted"),
    pytest.mark.filterwarnings("ignore:The number of unique classes"),  # each token is one
    pytest.mark.filterwarnings("ignore:y contains no unlabeled samples"),
]

X = np.random.default_rng(0).normal(size=(120, 4))
#: Class 1 does not occur, so that the ranks of those that do are not the classes.
Y = np.where(X[:, 0] > 0, 2, 0)
TARGETS = np.c_[Y, np.roll(Y, 7)]
AMOUNTS = X[:, :2] * 10 + 50
FOLDS = KFold(2)


def private(**parameters: Any) -> LabelPrivateClassifier:
    given: dict[str, Any] = {"classes": 3, "estimator": LogisticRegression(), **parameters}
    return LabelPrivateClassifier("subset", epsilon=1.0, **given)


def regressor(**parameters: Any) -> LabelPrivateRegressor:
    return LabelPrivateRegressor(epsilon=8.0, bounds=(0, 100), estimator=Ridge(), **parameters)


class OfAUser(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A wrapper that nobody knows, which numbers labels; `jobs` in threads."""

    def __init__(self, estimator: Any = None, jobs: int = 1) -> None:
        self.estimator, self.jobs = estimator, jobs

    def fit(self, rows: Any, y: Any) -> Self:
        numbers = LabelEncoder().fit_transform(y)
        with joblib.parallel_config("threading", n_jobs=self.jobs):
            asked = [joblib.delayed(fitted)(clone(self.estimator), rows, numbers)]
            self.fitted_ = joblib.Parallel()(asked * self.jobs)
        return self


def fitted(model: Any, rows: Any, y: Any) -> Any:
    return model.fit(rows, y)


class NamedByNobody(OfAUser):
    fit: Any = lambda self, X, y: self.model.fit(X, np.searchsorted(np.unique(y), y))

    @property
    def model(self) -> Any:
        return clone(self.estimator)


class InAStar(OfAUser):
    def fit(*given: Any) -> Any:
        self, rows, y = given
        return clone(self.estimator).fit(rows, np.unique(y, return_inverse=True)[1])


class HidesItself(OfAUser):
    def fit(self, rows: Any, y: Any) -> Any:
        estimator, self = self.estimator, None  # type: ignore[assignment]
        return clone(estimator).fit(rows, np.unique(y, return_inverse=True)[1])


class OfTheModel(LabelPrivateClassifier):
    def fit(self, X: Any, y: Any, rows: Any = None, groups: Any = None) -> Any:
        return super().fit(X, np.unique(y, return_inverse=True)[1])


class AroundAModel(OfTheModel):
    def __init__(self, estimator: Any = None) -> None:
        super().__init__(estimator=estimator)

    def fit(self, X: Any, y: Any, rows: Any = None, groups: Any = None) -> Any:
        return self.estimator.fit(X, np.unique(y, return_inverse=True)[1])


@pytest.mark.parametrize("kind", [NamedByNobody, InAStar, HidesItself, AroundAModel, OfTheModel])
def test_a_wrapper_is_seen_however_its_fit_is_written(kind: Any) -> None:
    vault = SharedVault()
    given = {"classes": 3, "vault": vault} if kind is OfTheModel else {}
    inner = LogisticRegression() if given else private(vault=vault)
    with pytest.raises(ValueError, match=rf"^{kind.__name__}(\.fit)? hands the labels"):
        kind(estimator=inner, **given).fit(X, Y)
    assert vault.charges() == []


CHANGING: dict[str, Callable[[Any], Any]] = {
    "VotingClassifier": lambda model: ensemble.VotingClassifier([("a", model)]),
    "BaggingClassifier": partial(ensemble.BaggingClassifier, bootstrap=False),
    "StackingClassifier": lambda model: ensemble.StackingClassifier([("a", model)], cv=FOLDS),
    "OneVsRestClassifier": OneVsRestClassifier,
    "OneVsOneClassifier": OneVsOneClassifier,
    "OutputCodeClassifier": partial(OutputCodeClassifier, random_state=0),
    "CalibratedClassifierCV": partial(CalibratedClassifierCV, cv=FOLDS),
    "OfAUser": OfAUser,
}
#: They hand tokens on, though they would learn from labels.
LEARNING: dict[str, Callable[[Any], Any]] = {
    "SelfTrainingClassifier": SelfTrainingClassifier,
    "SelectFromModel": SelectFromModel,
    "RFE": RFE,
    "TunedThresholdClassifierCV": partial(TunedThresholdClassifierCV, cv=FOLDS),
}


@pytest.mark.parametrize("name", [*CHANGING, *LEARNING])
def test_labels_in_a_wrapper_are_refused_before_anything_is_paid(name: str) -> None:
    vault, wrap = SharedVault(), (CHANGING | LEARNING)[name]
    with pytest.raises(ValueError, match=rf"^{name} hands the labels to fit.* y=vault\.tokens"):
        wrap(private(vault=vault)).fit(X, Y)
    with pytest.raises(ValueError, match=f"^{name} hands the labels"):
        make_pipeline(StandardScaler(), wrap(private(vault=vault))).fit(X, Y)
    assert vault.charges() == []


@pytest.mark.parametrize("name", CHANGING)
def test_changed_tokens_are_refused_before_anything_is_paid(name: str) -> None:
    vault = SharedVault(labels=Y, classes=3)
    ours = "values of y are no tokens of this vault.* cv=KFold"
    theirs = "less than 2 examples for at least one class"  # scikit-learn's, of calibration
    with pytest.raises(ValueError, match=f"{ours}|{theirs}"):
        CHANGING[name](private(vault=vault, classes=None)).fit(X, vault.tokens)
    assert vault.charges() == []


@pytest.mark.parametrize(
    "wrapper",
    [
        ensemble.BaggingClassifier(private(), n_estimators=2, bootstrap=False),
        OfAUser(private(), jobs=2),
        multioutput.MultiOutputClassifier(private()),
        GridSearchCV(private(), {"random_state": [0]}, cv=FOLDS, error_score="raise"),
    ],
)
def test_threads_whose_origin_the_stack_does_not_show_are_refused(wrapper: Any) -> None:
    labels = TARGETS if isinstance(wrapper, multioutput.MultiOutputClassifier) else Y
    with joblib.parallel_config("threading", n_jobs=2), pytest.raises(ValueError, match="hands"):
        wrapper.fit(X, labels)


@pytest.mark.parametrize(
    ("wrapper", "amounts"),
    [
        (TransformedTargetRegressor(transformer=StandardScaler()), AMOUNTS[:, 0]),
        (TransformedTargetRegressor(func=np.log1p, inverse_func=np.expm1), AMOUNTS[:, 0]),
        (RANSACRegressor(min_samples=50), AMOUNTS[:, 0]),
        (ensemble.AdaBoostRegressor(), AMOUNTS[:, 0]),
        (ensemble.BaggingRegressor(), AMOUNTS[:, 0]),
        (multioutput.RegressorChain(Ridge()), AMOUNTS),
        (multioutput.ClassifierChain(Ridge()), AMOUNTS),
        (ensemble.StackingRegressor([], final_estimator=Ridge(), cv=FOLDS), AMOUNTS[:, 0]),
        (ensemble.GradientBoostingRegressor(), AMOUNTS[:, 0]),
    ],
)
def test_amounts_in_a_wrapper_are_refused(wrapper: Any, amounts: NDArray[Any]) -> None:
    name = type(wrapper).__name__
    inner = {
        "TransformedTargetRegressor": "regressor",
        "StackingRegressor": "estimators",
        "GradientBoostingRegressor": "init",
    }.get(name, "estimator")

    def around(model: Any) -> Any:
        return clone(wrapper).set_params(**{inner: [("a", model)] if inner[-1] == "s" else model})

    with pytest.raises(ValueError, match=f"^{name} hands the labels"):
        around(regressor()).fit(X, amounts)
    if name == "BaggingRegressor":  # it hands tokens on, and computes on predictions alone
        return
    vault = SharedVault(labels=amounts.ravel())
    says = f"no tokens of this vault|^{name} computes on y"
    with pytest.raises(ValueError, match=says):
        around(regressor(vault=vault)).fit(X, vault.tokens.reshape(amounts.shape))
    assert vault.charges() == []


def test_functions_that_hand_on_other_labels_are_refused() -> None:
    for method in ("predict", "predict_proba"):
        with pytest.raises(ValueError, match=r"^cross_val_predict hands .* does not occur"):
            cross_val_predict(
                make_pipeline(StandardScaler(), private()), X, Y, cv=FOLDS, method=method
            )
    with pytest.raises(ValueError, match=r"^permutation_test_score hands"):
        permutation_test_score(private(), X, Y, cv=FOLDS, n_permutations=2)
    with pytest.raises(ValueError, match=r"^ClassifierChain hands"):
        multioutput.ClassifierChain(private(), cv=FOLDS).fit(X, TARGETS)


def fit(model: Any, rows: Any, labels: Any) -> Any:
    return model.fit(rows, labels)


def test_a_function_of_the_user_is_no_wrapper_though_it_is_called_fit() -> None:
    assert fit(private(), X, Y).epsilon_ == 1.0


def arrived(monkeypatch: pytest.MonkeyPatch, kind: Any) -> list[tuple[list[Any], list[Any]]]:
    """Collect the rows and labels that reach `fit`, from a wrapper or from nowhere."""
    seen: list[tuple[list[Any], list[Any]]] = []
    checked = kind._checked

    def listening(self: Any, rows: Any, y: Any, **how: Any) -> Any:
        seen.append((np.asarray(rows)[:, 0].tolist(), np.asarray(y).ravel().tolist()))
        return checked(self, rows, y, **how)

    monkeypatch.setattr(kind, "_checked", listening)
    return seen


@pytest.mark.parametrize(
    ("wrap", "labels"),
    [
        (partial(GridSearchCV, param_grid={"random_state": [0, 1]}, cv=FOLDS), Y),
        (partial(RandomizedSearchCV, param_distributions={"delta": [0.0]}, n_iter=1, cv=FOLDS), Y),
        (lambda model: Pipeline([("same", FunctionTransformer()), ("last", model)]), Y),
        (FixedThresholdClassifier, Y),
        (multioutput.MultiOutputClassifier, TARGETS),
        (multioutput.MultiOutputRegressor, AMOUNTS),
        (cross_validate, Y),
        (cross_val_score, Y),
    ],
)
def test_what_may_hand_labels_on_hands_on_each_rows_own(
    wrap: Any, labels: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    amounts = wrap is multioutput.MultiOutputRegressor
    model: Any = regressor() if amounts else private()
    seen = arrived(monkeypatch, type(model))
    if wrap in (cross_validate, cross_val_score):
        wrap(model, X, labels, cv=FOLDS, error_score="raise")
    else:
        wrap(model).fit(X, labels)
    columns = labels.reshape(len(X), -1).T.tolist()
    assert len(seen) >= len(columns)
    for place, (rows, y) in enumerate(seen):
        own = columns[place % len(columns)]
        assert y == [own[X[:, 0].tolist().index(row)] for row in rows]


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (SelectKBest(k=2), "SelectKBest"),
        (LinearDiscriminantAnalysis(), "LinearDiscriminantAnalysis"),
        (SelectFromModel(LogisticRegression()), "SelectFromModel"),
        (FeatureUnion([("a", StandardScaler()), ("b", SelectKBest(k=1))]), "SelectKBest"),
        (make_column_transformer((make_pipeline(TargetEncoder()), [0])), "TargetEncoder"),
        (
            FeatureUnion(
                [("a", make_column_transformer(("drop", [0]), remainder=TargetEncoder()))]
            ),
            "TargetEncoder",
        ),
    ],
)
def test_a_step_that_may_learn_from_labels_is_refused(step: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"step {name} is not known .* estimator=make_pipeline"):
        make_pipeline(StandardScaler(), step, private()).fit(X, Y)
    with pytest.raises(ValueError, match=f"step {name} is not known"):
        cross_val_score(make_pipeline(step, private()), X, Y, cv=FOLDS, error_score="raise")


def test_a_pipeline_that_stores_labels_is_refused(tmp_path: Path) -> None:
    kept = str(tmp_path)
    first = make_pipeline(StandardScaler(), memory=kept)
    for pipeline in (
        make_pipeline(first, private()),
        make_pipeline(StandardScaler(), private(), memory=kept),
    ):
        with pytest.raises(ValueError, match=r"memory=.* writes y, the true labels"):
            pipeline.fit(X, Y)


def test_steps_that_are_let_through_learn_from_features_alone() -> None:
    """Each transformer that may stand before the model makes the same of other labels."""
    other, rows, tried = np.roll(Y, 5), np.abs(X), 0
    for name, kind in all_estimators("transformer"):
        try:
            step = kind()
        except TypeError:
            continue
        if _supervised(step) or name in ("LabelBinarizer", "LabelEncoder", "MultiLabelBinarizer"):
            continue
        for parameter, value in (("random_state", 0), ("n_components", 2)):
            if parameter in step.get_params():
                step.set_params(**{parameter: value})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                one, two = (clone(step).fit_transform(rows, y) for y in (Y, other))
            except (ValueError, TypeError, AttributeError):
                continue  # takes texts, or no such numbers
        dense = [each.toarray() if hasattr(each, "toarray") else each for each in (one, two)]
        np.testing.assert_array_equal(dense[0], dense[1], err_msg=name)
        tried += 1
    assert tried > 30


def test_tokens_go_through_searches_pipelines_and_folds() -> None:
    vault = SharedVault(
        labels=np.array(["no", "perhaps", "yes"])[Y], classes=["no", "perhaps", "yes"]
    )
    model = private(vault=vault, classes=None)
    pipeline = make_pipeline(StandardScaler(), model)
    folds = KFold(4, shuffle=True, random_state=0)
    found = cross_val_predict(pipeline, X, pd.Series(vault.tokens), cv=folds)
    # Each row is in three of four folds.
    assert set(found) <= {"no", "perhaps", "yes"} and vault.epsilon() == 3.0
    grid = {"labelprivateclassifier__random_state": [0, 1]}
    shares = {"cv": folds, "scoring": lambda one, *_: (one.predict(X) == "yes").mean()}
    best = GridSearchCV(pipeline, grid, **shares).fit(X, vault.tokens).best_estimator_[-1]
    # The folds' fits are read again.
    assert vault.epsilon() == best.total_epsilon_ == 4.0
    assert "not counted" not in best.guarantee_ and best.predict_proba(X).shape == (120, 3)


def test_names_of_other_vaults_do_not_hide_fits_in_pipelines() -> None:
    for rows in (np.arange(100), np.arange(5, 120)):
        vault = SharedVault(labels=Y, classes=3)  # as a cell that is run again makes it
        pipeline = make_pipeline(MinMaxScaler(), private(vault=vault, classes=None))
        pipeline.fit(X[rows], vault.tokens[rows])
    assert pipeline[-1].total_epsilon_ == 2.0
    named = make_pipeline(MinMaxScaler(), private())
    named.fit(X, Y, labelprivateclassifier__rows=np.arange(120))
    assert named[-1].total_epsilon_ == 3.0 == pipeline[-1].total_epsilon_


def test_a_score_of_tokens_is_refused() -> None:
    amounts = SharedVault(labels=AMOUNTS[:, 0])
    vault = SharedVault(labels=Y, classes=3)
    for model, own in (
        (private(vault=vault, classes=None), vault),
        (regressor(vault=amounts), amounts),
    ):
        before = model.fit(X, own.tokens).ledger_
        with pytest.raises(ValueError, match="score on public test labels"):
            model.score(X, own.tokens)
        assert len(own.charges()) == len(before)


def test_a_row_that_is_used_twice_pays_twice() -> None:
    vault = SharedVault(labels=Y, classes=3)
    twice = np.r_[np.arange(120), 5]
    model = private(vault=vault, classes=None)
    assert model.fit(X[twice], vault.tokens[twice]).epsilon_ == 2.0 == vault.epsilon()
    assert model.fit(X, vault.tokens).total_epsilon_ == 3.0 == vault.epsilon()
    for method in ("pate", "lp_2st"):
        several = LabelPrivateClassifier(method, epsilon=1.0, vault=vault)
        with pytest.raises(ValueError, match="a row is given twice"):
            several.fit(X[twice], vault.tokens[twice])
    with pytest.raises(ValueError, match="two persons for a row"):
        model.fit(X[twice], vault.tokens[twice], groups=np.arange(121))
    bags = ensemble.BaggingRegressor(
        regressor(vault=(amounts := SharedVault(labels=AMOUNTS[:, 0]))), n_estimators=1
    )
    bags.fit(X, amounts.tokens)
    assert amounts.epsilon() >= 8.0


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["4711 dollars", *AMOUNTS[1:, 0]], r"^y row 0 \(and 0 more\) is not a number"),
        ([None, *AMOUNTS[1:, 0]], r"^y row 0 \(and 0 more\) has no label"),
    ],
)
def test_no_message_shows_a_label_of_a_vault(labels: list[Any], says: str) -> None:
    vault = SharedVault(labels=np.array(labels, dtype=object))
    with pytest.raises(ValueError, match=says):
        regressor(vault=vault).fit(X, vault.tokens)
    with pytest.raises(ValueError, match=r"y holds values of several|has no label"):
        private(vault=vault).fit(X, vault.tokens)
    assert vault.charges() == [] and "4711" not in repr(vault)


def test_rows_of_a_vault_are_the_same_people_in_groups_of_other_names() -> None:
    for folder in (None, "vault"):
        vault = SharedVault(folder, labels=Y, classes=3)
        for letter, rows in (("a", np.arange(120)), ("b", np.arange(1, 120)[::-1])):
            persons = [f"{letter}{row // 2}" for row in rows]
            # Features of which nobody is known again.
            features = StandardScaler().fit_transform(X[rows])
            private(vault=vault, classes=None).fit(features, vault.tokens[rows], groups=persons)
        assert vault.epsilon() == 2.0


def test_tokens_tell_nothing_and_labels_stay_in_their_process() -> None:
    vault = SharedVault("vault", labels=Y, classes=3)
    tokens = vault.tokens
    assert tokens.dtype == np.int64 and len(set(tokens.tolist())) == 120
    assert (tokens.astype(float).astype(np.int64) == tokens).all() and tokens.min() > 1e15
    assert SharedVault(labels=Y).tokens.tolist() != tokens.tolist()
    model = private(vault=vault, classes=None)
    for changed in (tokens + 1, tokens.astype(np.float32), np.argsort(tokens), Y, tokens - 0.5):
        with pytest.raises(ValueError, match="no tokens of this vault"):
            model.fit(X, changed)
    with pytest.raises(ValueError, match="leave rows= out"):
        model.fit(X, tokens, rows=np.arange(120))
    assert vault.charges() == []
    assert model.fit(X, tokens.astype(float)).epsilon_ == 1.0
    with pytest.raises(TypeError, match="stay in their process"):
        pickle.dumps(model)
    with pytest.raises(ValueError, match="holds no labels"):
        _ = SharedVault().tokens
    with pytest.raises(ValueError, match=r"shape \(120, 2\)"):
        SharedVault(labels=TARGETS)
    again = SharedVault("vault", labels=Y, classes=3)
    released = private(vault=again, classes=None).fit(X, again.tokens)
    assert not released.ledger_[0].new and again.epsilon() == 1.0
