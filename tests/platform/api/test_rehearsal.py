"""Fits of any X and any estimator: each row once, in its own units, and refused before a charge."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn import ensemble
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    SGDClassifier,
)
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from labeldp import LabelPrivateClassifier, LabelPrivateRegressor, SharedVault
from labeldp.trainers.methods.any_model import drawn, fit_to_soft_labels
from labeldp.trainers.models.trained_model import load_model
from tests.platform.api.asked import refused

GENERATOR = np.random.default_rng(0)
Y = np.sort(GENERATOR.integers(3, size=240))
X = GENERATOR.normal(size=(240, 8)) + 4 * np.outer(Y, np.arange(8) == 7)


class Remembers(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # it has no types
    """Keeps the rows that it saw."""

    seen: list[NDArray[Any]]

    def fit(self, rows: NDArray[Any], labels: NDArray[Any]) -> "Remembers":
        self.classes_ = np.unique(labels)
        type(self).seen = [*getattr(type(self), "seen", []), rows]
        return self

    def predict_proba(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return np.full((len(rows), len(self.classes_)), 1 / len(self.classes_))


@pytest.mark.parametrize("method", ["moment_labels", "subset"])
@pytest.mark.parametrize(
    "estimator",
    [
        CalibratedClassifierCV(SVC(), ensemble=False),
        CalibratedClassifierCV(GaussianNB()),
        make_pipeline(SelectKBest(f_classif, k=1), LogisticRegression()),
        ensemble.HistGradientBoostingClassifier(early_stopping=True, max_iter=20, random_state=0),
        KNeighborsClassifier(20),
    ],
    ids=lambda each: type(each).__name__,
)
def test_learners_with_inner_splits_and_selections_learn_the_law(
    estimator: Any, method: str
) -> None:
    model = LabelPrivateClassifier(
        method, epsilon=20.0, classes=3, estimator=estimator, random_state=0, vault=SharedVault()
    )
    assert model.fit(X, Y).score(X, Y) > 0.7


def test_each_row_is_seen_once_and_as_it_is() -> None:
    rows = X * 1e6 + 1e9
    model = LabelPrivateClassifier("subset", epsilon=1.0, classes=3, estimator=Remembers())
    model.fit(rows, Y)
    assert all(len(np.unique(seen, axis=0)) == len(seen) for seen in Remembers.seen)
    assert any(np.array_equal(seen, rows) for seen in Remembers.seen)


def test_draws_have_the_shares_of_the_probabilities_and_every_class() -> None:
    soft = np.random.default_rng(0).dirichlet([5, 3, 0.01], size=2000)
    shares = np.bincount(drawn(soft, seed=0)) / 2000
    assert shares == pytest.approx(soft.mean(0), abs=0.005)
    absent = np.column_stack([soft[:, :2] / soft[:, :2].sum(1, keepdims=True), np.zeros(2000)])
    assert np.bincount(drawn(absent, seed=0, least=5)).min() == 5


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize(("rows", "most"), [(30, 1), (50, 1), (110, 2)])
def test_there_may_be_fewer_rows_than_classes(rows: int, most: int) -> None:
    soft = np.random.default_rng(0).dirichlet(np.full(40, 0.05), size=rows)
    counts = np.bincount(drawn(soft, seed=0, least=2), minlength=40)
    assert rows < 40 or counts.min() == most
    model = fit_to_soft_labels(LogisticRegression(), X[:rows], soft, seed=0)
    assert model.predict_proba(X).shape == (len(X), len(model.classes_))
    sure = 0.998 * np.eye(40)[np.zeros(rows, dtype=int)] + 0.002 / 40
    assert len(set(drawn(sure, seed=0).tolist())) >= 2


@pytest.mark.parametrize(
    ("method", "given", "says"),
    [
        ("subset", {"estimator": MultinomialNB()}, "Negative values in data"),
        ("moment_labels", {"estimator": SVC()}, "SVC has no predict_proba"),
        ("moment_labels", {"estimator": KNeighborsClassifier(500)}, "Expected n_neighbors <="),
        ("alibi", {"settings": {"model": "small_cnn", "dropout": 0.0, "epochs": 1}}, "images"),
        ("alibi", {"settings": {"augment": True, "epochs": 1}}, "own holds no images"),
        (
            "pate",
            {"settings": {"ensemble.kind": "network", "ensemble.network.model": "small_cnn"}},
            "small_cnn needs images",
        ),
    ],
)
@pytest.mark.parametrize("classes", [3, "publish"])
def test_what_cannot_learn_is_refused_before_a_charge(
    method: str, given: dict[str, Any], says: str, classes: Any
) -> None:
    model = LabelPrivateClassifier(method, epsilon=1.0, classes=classes, **given)
    refused(model, X, Y, says=says)


@pytest.mark.parametrize("shares", [(0.97,), (0.5, 0.99)])
@pytest.mark.parametrize("method", ["subset", "alibi"])
def test_a_rare_class_is_ranked_whatever_the_epsilon(
    method: str, shares: tuple[float, ...]
) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(5000, 6))
    score = rows[:, 0] + rows[:, 1] + 0.5 * generator.normal(size=5000)
    labels = np.digitize(score, np.quantile(score, shares))
    model = LabelPrivateClassifier(
        method, epsilon=4.0, classes=len(shares) + 1, random_state=0, vault=SharedVault()
    ).fit(rows[:3500], labels[:3500])
    rare = model.predict_proba(rows[3500:])[:, -1]
    assert roc_auc_score(labels[3500:] == len(shares), rare) > 0.93


TEXT, NUMBER = ["a", "b"] * 60, [0.5, 7.0, 7.0] * 40


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({0: TEXT, 1: NUMBER}),
        pd.DataFrame({0: TEXT, "n": NUMBER}),
        pd.DataFrame({("a", 1): TEXT, ("b", 2): NUMBER}),
        pa.table({"t": TEXT, "n": NUMBER}),
        pa.record_batch({"t": TEXT, "n": NUMBER}),
        {"t": TEXT, "n": NUMBER},
    ],
    ids=["numbered", "mixed", "pairs", "arrow", "batch", "mapping"],
)
@pytest.mark.filterwarnings("ignore:labels of these rows")
def test_tables_of_any_library_and_names_are_features(table: Any) -> None:
    labels = np.array([0, 1] * 60)
    given: dict[str, Any] = {"epsilon": 20.0, "random_state": 0}
    for model in (
        LabelPrivateClassifier("subset", classes=2, estimator=LogisticRegression(), **given),
        LabelPrivateClassifier("subset", classes=2, settings={"epochs": 1}, **given),
        LabelPrivateRegressor(bounds=(0, 1), **given),
    ):
        assert len(model.set_params(vault=SharedVault()).fit(table, labels).predict(table)) == 120


@pytest.mark.parametrize("rows", [np.array([TEXT, NUMBER], object).T, [["a", 1.0], ["b", 2.0]]])
def test_text_in_an_array_is_named(rows: Any) -> None:
    model = LabelPrivateClassifier("subset", classes=2)
    says = "with text in column 0; give a DataFrame"
    refused(model, rows, np.arange(len(rows)) % 2, says=says)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-1, 1], np.int8),
        np.array([False, True]),
        np.array([1.0, 2.0], np.float32),
        np.array(["no", "yes"]),
    ],
    ids=lambda each: str(each.dtype),
)
def test_a_saved_model_predicts_classes_of_their_own_type(classes: NDArray[Any]) -> None:
    labels = classes[(X[:, 7] > 4).astype(int)]
    model = LabelPrivateClassifier(
        "subset", epsilon=20.0, classes=classes, estimator=GaussianNB(), vault=SharedVault()
    ).fit(X.astype(np.longdouble), labels)  # numbers that no model's file holds
    model.save("model")
    predicted, kept = model.predict(X), load_model("model").predict(X)
    assert kept.dtype == predicted.dtype and np.array_equal(kept, predicted)


class Infinite(LinearRegression):  # type: ignore[misc]  # scikit-learn has no types
    def predict(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return np.full(len(rows), np.inf)


@pytest.mark.parametrize("method", ["moment_labels", "subset"])
def test_what_cannot_learn_from_rare_classes_is_refused_before_a_charge(method: str) -> None:
    estimator = NuSVC(probability=True)
    model = LabelPrivateClassifier(method, epsilon=14.0, classes=2, estimator=estimator)
    refused(model, X, (np.arange(240) == 3).astype(int), says="the model can't learn from X")


@pytest.mark.parametrize(
    "estimator",
    [
        Infinite(),
        TransformedTargetRegressor(LinearRegression(), transformer=PowerTransformer("box-cox")),
    ],
)
def test_what_cannot_learn_equal_amounts_is_refused_before_a_charge(estimator: Any) -> None:
    model = LabelPrivateRegressor(epsilon=3.0, bounds=(0, 9), estimator=estimator)
    refused(model, X, np.zeros(240), says="the model can't learn from X")


@pytest.mark.parametrize(
    "estimator",
    [
        ensemble.HistGradientBoostingRegressor(loss="gamma", max_iter=5),
        TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp),
    ],
)
def test_amounts_at_the_lower_bound_are_learned_by_what_takes_positive_ones(estimator: Any) -> None:
    model = LabelPrivateRegressor(
        epsilon=3.0, bounds=(0, 9), method="sums", estimator=estimator, vault=SharedVault()
    )
    assert np.isfinite(model.fit(X, np.zeros(240)).predict(X)).all()


RECORDS = np.array([("SECRET",)] * 240, dtype=[("amount", "U20")])


@pytest.mark.parametrize(
    ("rows", "labels", "says"),
    [
        (X, RECORDS, "^y holds records"),
        (X, np.ma.array(Y, mask=Y > 1), "^y is a masked array"),
        (np.ma.array(X, mask=X > 1), Y, "^X is a masked array"),
        (pd.DataFrame(X[:, :3], columns=["a", "b", "a"]), Y, "two columns of one name: a, b, a"),
        (pd.DataFrame(X[:, :2], columns=[0, 0]), Y, "two columns of one name"),
        (pd.DataFrame(index=range(240)), Y, "^X has no columns"),
        ({}, Y, "^X has no columns"),
        (type("LazyFrame", (), {"collect": None})(), Y, r"^X is a LazyFrame.* X\.collect"),
    ],
)
def test_rows_and_labels_of_other_kinds_are_named(rows: Any, labels: Any, says: str) -> None:
    for model in (
        LabelPrivateClassifier("subset", classes=3, estimator=GaussianNB()),
        LabelPrivateRegressor(bounds=(0, 2)),
    ):
        refused(model, rows, labels, says=says)


def test_dates_texts_and_durations_are_no_numbers() -> None:
    for amounts in (pd.date_range("1987", periods=240), pd.to_timedelta(np.arange(240))):
        model = LabelPrivateRegressor(bounds=(0, 1))
        refused(model, X, amounts, says=r"^y holds dates or durations")
    words: Any = ("0", "9")
    refused(LabelPrivateRegressor(bounds=words), X, X[:, 0], says=r"^bounds is \('0', '9'\)")
    for name in ("epsilon", "delta"):
        day = LabelPrivateClassifier(classes=3).set_params(**{name: np.timedelta64(1, "D")})
        refused(day, X, Y, says=rf"^{name} is np\.timedelta64.* must be a number")
    with pytest.raises(ValueError, match=r"^labels is a masked array"):
        SharedVault(labels=np.ma.array(Y, mask=Y > 1))


def test_tensors_are_rows() -> None:
    torch = pytest.importorskip("torch")
    model = LabelPrivateClassifier("subset", epsilon=20.0, classes=3, estimator=GaussianNB())
    model.set_params(vault=SharedVault()).fit(torch.tensor(X), Y)
    assert np.array_equal(model.predict(torch.tensor(X)), model.predict(X))
    halves = torch.tensor(X).bfloat16()  # of which NumPy has no such numbers
    assert np.array_equal(model.predict(halves), model.predict(halves.double().numpy()))


def test_a_refused_fit_leaves_nothing_in_its_vault() -> None:
    vault = SharedVault("vault")
    model = LabelPrivateClassifier("subset", classes=3, canaries=1000, vault=vault)
    with pytest.raises(ValueError, match=r"there are 240 labels.* take 7 to 120, or 0"):
        model.set_params(estimator=GaussianNB()).fit(X, Y)
    assert {file.name for file in Path("vault").rglob("*")} <= {"fits", "lock"}


LEARNERS = [
    LogisticRegression(),
    LogisticRegressionCV(cv=3),
    SGDClassifier(loss="log_loss", random_state=0),
    GaussianNB(),
    BernoulliNB(),
    KNeighborsClassifier(30),
    DecisionTreeClassifier(min_samples_leaf=20, random_state=0),
    ExtraTreeClassifier(min_samples_leaf=20, random_state=0),
    ensemble.RandomForestClassifier(30, random_state=0),
    ensemble.ExtraTreesClassifier(30, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0),
    ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0),
    ensemble.AdaBoostClassifier(n_estimators=20, random_state=0),
    ensemble.BaggingClassifier(random_state=0),
    MLPClassifier((16,), max_iter=300, random_state=0),
    LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(),
    SVC(probability=True, random_state=0),
    CalibratedClassifierCV(LinearSVC(), cv=3),
    GaussianProcessClassifier(),
    ensemble.VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)
def test_any_learner_is_as_good_as_alone_in_the_same_channel(learner: Any) -> None:
    compare_with_itself(learner)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("module", "name"), [("lightgbm", "LGBMClassifier"), ("xgboost", "XGBClassifier")]
)
def test_boosting_of_the_extra_is_as_good_as_alone_in_the_same_channel(
    module: str, name: str
) -> None:
    learners = pytest.importorskip(module, reason=f"{module} is in the extra `boosting`")
    compare_with_itself(getattr(learners, name)(n_estimators=20, random_state=0))


def compare_with_itself(learner: Any) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(2500, 4))
    score = 2 * rows[:, 0] + 1.5 * rows[:, 1] * rows[:, 2] + 0.5 * generator.logistic(size=2500)
    labels = (score > 0).astype(np.int64)

    def ranked(**given: Any) -> float:
        model = LabelPrivateClassifier(
            "subset", epsilon=2.0, classes=2, random_state=0, noise_seed=0, **given
        ).fit(rows[:500], labels[:500])
        return float(roc_auc_score(labels[500:], model.predict_proba(rows[500:])[:, 1]))

    alone = ranked(settings={"models": [learner]})
    assert alone > 0.75
    assert ranked(estimator=learner) > alone - 0.03
