"""classifier: scikit-learn's own checks, what is paid and said, bad input, saved models."""

import copy
import os
import pickle
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp import LabelPrivateClassifier, SharedVault
from labeldp.platform.api import fitting
from labeldp.platform.api.process_ledger import PrivacyAddsUp, PrivacyNotCounted
from labeldp.platform.settings.methods import NAMED
from labeldp.trainers.data.columns import ColumnsIgnored
from labeldp.trainers.data.own_data import ColumnsLeftOut
from labeldp.trainers.models.trained_model import load_model
from tests.platform.api.asked import refused

pytestmark = pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")


def rows_and_labels(count: int, *, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows of very different scales, and which of three clusters they are of."""
    generator = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(size=(3, 6), scale=2.0)
    labels = generator.integers(3, size=count)
    rows = centers[labels] + generator.normal(size=(count, 6))
    return rows * np.logspace(-3, 4, 6) + 100, labels.astype(np.int64)


X, Y = rows_and_labels(400)
#: Little to train, where nobody looks at accuracy.
QUICK = {"width": 8, "epochs": 2}
#: Next to no noise, so that what checks learn is learned; it is fresh in every fit.
PUBLISHED = LabelPrivateClassifier(
    "randomized_response", epsilon=50.0, classes="publish", random_state=0, settings={"width": 64}
)


# scikit-learn has no types, its decorators neither.
@parametrize_with_checks([PUBLISHED])  # type: ignore[untyped-decorator]  # scikit-learn has no types
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyAddsUp)  # one estimator is fitted on many data sets
        check(estimator)


def quick(**parameters: Any) -> LabelPrivateClassifier:
    settings = {"method": "randomized_response", "classes": 3, "settings": QUICK, **parameters}
    return LabelPrivateClassifier(random_state=0, **settings)


def in_a_fork(ask: Callable[[], object]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(ask()).encode())
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader) as answer:
        return answer.read()


@pytest.mark.parametrize("name", [name for name in NAMED if name != "no_privacy"])
def test_every_method_costs_its_epsilon_and_saves_its_model(name: str) -> None:
    model = LabelPrivateClassifier(method=name, epsilon=2.0, classes=3, random_state=0).fit(X, Y)
    assert 0 < model.epsilon_ <= 2.0 + 1e-9 and model.delta_ == (0 if NAMED[name].pure else 1e-5)
    assert model.method_ == name and model.total_epsilon_ == model.epsilon_
    assert all(line.new and line.epsilon <= 2.0 + 1e-9 for line in model.ledger_)
    model.save("model")
    saved = load_model("model")
    assert (saved.predict_proba(X) == model.predict_proba(X)).all()
    assert saved.facts["epsilon"] == model.epsilon_ and saved.facts["private"]
    assert saved.facts["noise"] == "secure" and not model.ledger_[0].seeded
    assert saved.predict(X[:2]).tolist() == model.predict(X[:2]).tolist()
    content = pickle.dumps(model)
    for kind in (np.int64, np.int32, np.uint8, np.float32, np.float64):
        for labels in (Y, np.eye(3)[Y]):
            assert labels.astype(kind).tobytes()[:320] not in content


def test_it_learns_from_rows_of_any_scale_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    names = np.array(["no", "perhaps", "yes"])
    table = pd.DataFrame(X, columns=[f"feature {place}" for place in range(X.shape[1])])
    table["city"] = np.array(["Bern", "Rome", "Oslo"])[Y]  # text that tells the class
    fresh, truth = rows_and_labels(300, seed=1)
    model = LabelPrivateClassifier(epsilon=2.0, classes=names[::-1], random_state=0, verbose=True)
    model.fit(table, names[Y])
    assert capsys.readouterr().err.startswith(f"{model.method_}: preparing 400 rows, ")
    assert model.method_reason_.startswith("at epsilon 2 and 3 classes, a single label keeps")
    assert model.classes_.tolist() == names.tolist()
    asked = pd.DataFrame(fresh, columns=table.columns[:-1]).assign(city="Bern")
    asked["city"] = np.array(["Bern", "Rome", "Oslo"])[truth]
    assert model.score(asked, names[truth]) > 0.9
    assert model.private_["private/training_accuracy"] > 0.9
    plain = LabelPrivateClassifier(epsilon=2.0, classes=3, random_state=0).fit(X, Y)
    assert plain.score(fresh, truth) > 0.85


def test_fits_without_a_vault_draw_anew_and_add_up_by_their_rows() -> None:
    model = quick(epsilon=1.0).fit(X[:300], Y[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyAddsUp)
        quick().fit(X[300:], Y[300:])  # not one of these rows has paid before
    for labels in (Y, np.roll(Y, 1)):  # whether labels changed makes no difference
        with pytest.warns(PrivacyAddsUp):
            last = quick(epsilon=0.25).fit(X.astype(np.float32), labels)
    assert last.total_epsilon_ == 2.5
    assert model.total_epsilon_ == 1.5 and "1.5 for all fits on these rows" in model.guarantee_
    transformed = quick(epsilon=1.0)
    transformed.fit(StandardScaler().fit_transform(X[:90]), Y[:90])
    assert transformed.total_epsilon_ == 4.5  # nobody can tell whose rows these are
    again = quick(method="moment_labels", epsilon=1.0).fit(X[:300], Y[:300])
    # One Gaussian release, and pure ones of which the transformed rows' may have been of anybody.
    assert 2.5 < again.total_epsilon_ <= 3.5 and again.total_delta_ == 1e-5


def test_a_delta_above_one_label_in_all_is_named() -> None:
    with pytest.warns(UserWarning, match=r"delta 0\.01 is above 1 / 400.* of 3e-04 or") as told:
        quick(method="moment_labels", epsilon=1.0, delta=0.01).fit(X, Y)
    assert [each.filename for each in told if "1 / 400" in str(each.message)] == [__file__]
    quick(method="moment_labels", epsilon=1.0, delta=0.0025).fit(X, Y)


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyNotCounted")
def test_a_search_without_a_vault_reports_what_all_of_its_fits_cost() -> None:
    def searched(**changes: Any) -> GridSearchCV:
        model = quick(epsilon=1.0)
        asked = {"cv": 5, "refit": lambda _: 1, "error_score": "raise", **changes}
        return GridSearchCV(model, {"epsilon": [0.5, 1]}, **asked).fit(X, Y)

    with pytest.warns(PrivacyNotCounted, match=r"^GridSearchCV scores .* KFold\(5, shuf"):
        best = searched().best_estimator_
    # Each label is in four of five folds at each of two epsilons, and in the last fit.
    assert (best.epsilon_, best.total_epsilon_, best.total_delta_) == (1.0, 7.0, 0.0)
    assert "and 7 for all fits on these rows in this process" in best.guarantee_
    assert "not counted: GridSearchCV scores models with true labels" in best.guarantee_
    public = searched(cv=KFold(5, shuffle=True, random_state=0)).best_estimator_
    cross_val_score(quick(epsilon=1.0), X, Y, cv=KFold(5), error_score="raise")
    # Of now: 7, 7 and 4 by their sum, and a little less at the delta of the fits.
    assert public.total_epsilon_ == best.total_epsilon_
    assert 17.9 < best.total_epsilon_ < 7.0 + 7.0 + 4.0 and best.total_delta_ == 1e-5


@pytest.mark.filterwarnings("ignore")
def test_the_total_of_one_process_says_that_workers_paid_too() -> None:
    def fitted(vault: SharedVault | None) -> LabelPrivateClassifier:
        model = linear(vault=vault)
        joblib.Parallel(n_jobs=2)(joblib.delayed(fit_elsewhere)(model, rows) for rows in (X[9:], X))
        return model.fit(X, Y)

    alone = fitted(None)
    assert alone.total_epsilon_ == 1.0 and "this process alone" in alone.guarantee_
    assert "vault=SharedVault(FOLDER)" in alone.guarantee_
    kept = fitted(SharedVault("vault"))
    # Some rows, and all; and the fit before.
    assert kept.total_epsilon_ == 3.0 and "not counted" not in kept.guarantee_


def fit_elsewhere(model: LabelPrivateClassifier, rows: NDArray[np.float64]) -> None:
    """The user's own function: no wrapper hands labels on here."""
    model.fit(rows, Y[-len(rows) :])


def test_the_total_of_a_cross_validation_is_right_in_a_pipeline() -> None:
    def validated(vault: SharedVault, **fit: Any) -> float:
        pipeline = make_pipeline(StandardScaler(), quick(epsilon=1.0, vault=vault))
        with pytest.warns(PrivacyNotCounted, match="cross_val_score scores models with true"):
            cross_val_score(pipeline, X, Y, cv=KFold(5), **fit)
        return vault.epsilon()

    # Nobody says which label is which row: one may have been in all five.
    assert validated(SharedVault()) == 5.0
    # Each label is in four of five training sets.
    rows = {"labelprivateclassifier__rows": np.arange(len(X))}
    assert validated(SharedVault(), params=rows) == 4.0


def test_names_within_a_pipeline_do_not_hide_a_fit_without_names() -> None:
    rows = np.random.default_rng(0).normal(size=X.shape) + 3
    quick(epsilon=2.0).fit(rows, Y)
    pipeline = make_pipeline(StandardScaler(), quick(epsilon=1.0))
    pipeline.fit(rows, Y, labelprivateclassifier__rows=np.arange(len(X)))
    assert pipeline[-1].total_epsilon_ == 3.0


def linear(**parameters: Any) -> LabelPrivateClassifier:
    """A fit of little time, at epsilon 1."""
    return quick(
        epsilon=1.0,
        settings=None,
        estimator=make_pipeline(StandardScaler(), LogisticRegression()),
        **parameters,
    )


def test_missing_numbers_of_any_kind_of_column_are_taken() -> None:
    table = pd.DataFrame(X, columns=list("abcdef"))
    table["count"] = pd.array([None, *range(1, len(X))], dtype="Int64")
    assert linear().fit(table, Y).total_epsilon_ == 1.0
    as_floats = table.astype({"count": float})
    assert linear().fit(as_floats, Y).total_epsilon_ == 2.0


def test_noise_is_fresh_unless_a_seed_is_set_and_reported() -> None:
    one, other = (quick().fit(X, Y) for _ in range(2))
    assert (one.predict_proba(X) != other.predict_proba(X)).any()
    seeded = [quick(noise_seed=3).fit(X, Y) for _ in range(2)]
    assert (seeded[0].predict_proba(X) == seeded[1].predict_proba(X)).all()
    assert "not private: the noise comes from seed 3" in seeded[0].guarantee_
    assert seeded[0].ledger_[0].seeded and "noise from a seed" in str(seeded[0].ledger_[0])
    facts = seeded[0].model_.facts
    assert (facts["noise"], facts["private"]) == ("seeded", False)
    seeded[0].set_params(noise_seed=None)  # the guarantee is of the fit
    assert "not private: the noise comes from seed 3" in seeded[0].guarantee_
    travelled = pickle.loads(pickle.dumps(quick().fit(X, Y)))
    assert "noise of some of those came from a seed" in travelled.guarantee_


def test_private_files_are_kept_apart() -> None:
    model = quick(canaries=100).fit(X, Y)
    assert model.audit_["spoiled_labels"] == 200 and "epsilon_one_run_ceiling" in model.audit_
    assert not [name for name in model.audit_ if name.startswith(("private/", "epsilon_m_"))]
    assert {"private/epsilon_one_run", "epsilon_m_low"} <= set(model.private_)
    assert "0." not in repr(model.private_) and "private" not in repr(model)
    plain = quick().fit(X, Y)
    assert plain.audit_["spoiled_labels"] == 0 and "no canaries" in plain.audit_["reason"]
    pickled = pickle.loads(pickle.dumps(plain))
    assert (pickled.predict(X) == plain.predict(X)).all()
    assert len(pickled.private_) == 0
    travelled = pickle.loads(pickle.dumps(model))
    assert set(travelled.audit_) == {"spoiled_labels", "reason"} and not travelled.private_
    model.private_.pickled = plain.private_.pickled = True
    assert len(pickle.loads(pickle.dumps(plain)).private_) == 1
    assert pickle.loads(pickle.dumps(model)).audit_ == model.audit_


@pytest.mark.parametrize("on_disk", [False, True])
def test_later_fits_count_in_earlier_guarantees(on_disk: bool) -> None:
    vault = "vault" if on_disk else SharedVault()
    first = quick(epsilon=1.0, vault=vault).fit(X, Y)
    assert "at most 73.2%" in first.guarantee_
    quick(epsilon=3.0, vault=vault, noise_seed=3).fit(X, Y)
    assert first.total_epsilon_ == 4.0 and "4 for all fits with its vault;" in first.guarantee_
    # A seed removes noise, so that no guess has a bound.
    assert "came from a seed" in first.guarantee_ and "at even odds" not in first.guarantee_
    if on_disk:
        assert pickle.loads(pickle.dumps(first)).total_epsilon_ == 4.0
    quick(vault=vault, classes="publish").fit(X, Y)
    last = quick(vault=vault).fit(X[:90], Y[:90])
    assert np.isinf(last.total_epsilon_) and last.epsilon_ == 2.0
    assert "without any bound for all fits" in last.guarantee_


def test_published_labels_have_no_bound() -> None:
    for model in (quick(classes="publish"), quick(method="no_privacy")):
        model.fit(X, Y)
        assert model.epsilon_ == model.total_epsilon_ == float("inf")
        assert model.guarantee_ == "not private: labels were published"
        assert "no bound on epsilon" in str(model.ledger_[0])
        assert not model.model_.facts["private"]


@pytest.mark.parametrize(
    ("parameters", "rows", "labels", "says"),
    [
        ({"classes": None}, X, Y, "classes is None; the classes are not read off secret labels"),
        ({}, X, Y[:-1], "inconsistent numbers of samples"),
        ({"classes": 2}, X, Y, "not one of the 2 stated classes; the label is secret and not sh"),
        ({"classes": ["a", "b", "c"]}, X, Y, "y holds numbers and classes texts"),
        ({}, pd.DataFrame({"day": ["a", 1.5] * 200}), Y, "row 0, column 'day' holds a str"),
        ({"epsilon": -1.0}, X, Y, "epsilon is -1.0"),
        ({"epsilon": 10**400}, X, Y, "epsilon is beyond the numbers of double precision"),
        ({"delta": 1.0}, X, Y, "delta is 1.0"),
        ({"delta": 0.0, "method": "moment_labels"}, X, Y, "holds at a delta above 0 only"),
        ({"method": "moment_label"}, X, Y, "did you mean moment_labels"),
        ({"settings": {"epoch": 3}}, X, Y, "unknown key 'trainer.epoch'"),
        ({"settings": {"epsilon": 3}}, X, Y, r"'epsilon'; .*LabelPrivateClassifier\(epsilon="),
        ({"settings": {"trainer.delta": 0}}, X, Y, r"'delta'; .*LabelPrivateClassifier\(delta="),
        ({"method": "alibi", "settings": {"noise": "none"}}, X, Y, "a fit costs epsilon inf"),
        (
            {"method": "alibi", "delta": 0.0, "settings": {"noise": "gaussian"}},
            X,
            Y,
            "epsilon 2 at delta 1e-05, more than epsilon=2, delta=0 allow",
        ),
        ({"method": "pate", "settings": {"sigma2": 0.5}}, X, Y, "with sigma2=0.5 .* cost"),
        ({"canaries": 300}, X, Y, "canaries is 300, and there are 400 labels.* take 7 to 200, or"),
        ({"canaries": 5}, X, Y, "canaries is 5, .* take 7 to 200, or 0"),
        ({"max_labels_per_person": 3, "method": "alibi"}, X, Y, "would hold for each label only"),
        ({"max_labels_per_person": 3, "method": "moment_labels"}, X, Y, "for each label only"),
        ({"estimator": KNeighborsClassifier}, X, Y, "is the class KNeighborsClassifier"),
        ({"estimator": LogisticRegression(), "method": "pate"}, X, Y, "use one of moment_labels"),
        ({"estimator": make_pipeline(StandardScaler(), LinearSVC())}, X, Y, "no predict_proba"),
    ],
)
def test_bad_input_is_refused_before_anything_is_paid(
    parameters: dict[str, Any], rows: Any, labels: Any, says: str
) -> None:
    refused(quick(**{"settings": None, **parameters}), rows, labels, says=says)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_a_fork_with_unknown_fits_is_refused_or_warned() -> None:
    own, shared = quick().fit(X, Y), SharedVault()
    said = in_a_fork(partial(quick(vault=shared).fit, X[:90], Y[:90]))
    assert "TypeError" in said and "is a fork of it" in said and "SharedVault(FOLDER)" in said
    said = in_a_fork(partial(own.fit, X[:90], Y[:90]))
    assert "PrivacyNotCounted: the total counts this process alone" in said
    assert not shared.charges() and own.total_epsilon_ == 2.0


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
def test_a_copy_that_is_fitted_again_adds_to_what_was_paid(
    copied: Callable[[LabelPrivateClassifier], LabelPrivateClassifier],
) -> None:
    model = quick(epsilon=1.0).fit(X, Y)
    kept = copied(model)
    other = copied(model)
    with pytest.warns(PrivacyAddsUp, match="had paid epsilon 1 before.*has paid 2 "):
        other.fit(X, Y)  # its vault stayed behind: the same labels are released once more
    assert (other.epsilon_, other.total_epsilon_, other.total_delta_) == (1.0, 2.0, 0.0)
    # Copies in this process count later fits, too.
    assert kept.total_epsilon_ == (2.0 if copied.__module__ == "copy" else 1.0)
    assert model.total_epsilon_ == 2.0
    with pytest.warns(PrivacyAddsUp):
        assert copied(other).fit(X, Y).total_epsilon_ == 3.0


def test_a_warning_of_the_price_may_be_an_error_and_the_model_stays() -> None:
    vault = SharedVault()
    quick(epsilon=1.0, vault=vault).fit(X, Y)
    again = quick(epsilon=2.0, vault=vault)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyAddsUp)
        with pytest.raises(PrivacyAddsUp):
            again.fit(X, Y)
    # It is paid, so that nothing of it may be lost.
    assert again.total_epsilon_ == vault.epsilon() == 3.0
    assert again.predict(X[:5]).shape == (5,)


def test_fits_in_threads_leave_the_filters_of_warnings_as_they_were() -> None:
    before = list(warnings.filters)
    workers = [threading.Thread(target=quick().fit, args=(X[:90], Y[:90])) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert warnings.filters == before
    with pytest.warns(PrivacyAddsUp):
        quick().fit(X[:90], Y[:90])


def test_classes_may_be_half_numbers_whatever_labels_occur() -> None:
    for labels in (Y.astype(float), Y / 2):
        model = quick(classes=[0.0, 0.5, 1.0, 2.0]).fit(X, labels)
        assert set(model.predict(X)) <= {0.0, 0.5, 1.0, 2.0}


SECRET = "hiv-positive"
NUMBER = 98765.25


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [X, pd.DataFrame({"a": X[:, 0], "b": "text"})])
@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.full(len(X), NUMBER + 1j), "y holds complex"),
        ([SECRET, None] * (len(X) // 2), r"y row 1 \(and 199 more\) has no label"),
        (np.full(len(X), NUMBER), "y holds numbers and classes texts"),
        ([{SECRET: NUMBER}] * len(X), "y holds values of several kinds"),
        (np.array([SECRET, NUMBER] * (len(X) // 2), dtype=object), "y holds values of several"),
        (
            pd.array([NUMBER, None] * (len(X) // 2), dtype="Float64"),
            r"y row 1 \(and 199 more\) has no label",
        ),
        (pd.Categorical([SECRET] * len(X)), r"y row 0 \(and 399 more\)"),
        ([SECRET] * (len(X) - 1), "inconsistent numbers of samples"),
    ],
)
def test_no_message_shows_a_label(rows: Any, labels: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        quick(classes=["no", "yes"]).fit(rows, labels)
    error: BaseException | None = refused.value
    while error is not None:
        assert SECRET not in str(error) and "98765" not in str(error)
        error = error.__cause__ or error.__context__


def test_a_fit_that_fails_in_its_rehearsal_has_paid_nothing() -> None:
    model = quick().fit(X, Y)
    model.set_params(settings={**QUICK, "learning_rate": 1e30})
    with pytest.raises(Exception, match="finite"):
        model.fit(X, 2 - Y)
    assert (model.epsilon_, model.total_epsilon_) == (2.0, 2.0)
    assert "2 for all fits" in model.guarantee_


def test_a_fit_that_fails_after_it_paid_counts_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitting, "rehearse", lambda *given, **how: None)
    (mine, its), (others, theirs) = (X[:200], Y[:200]), (X[200:], Y[200:])
    model = quick().fit(mine, its).fit(mine, its)
    fails = quick(settings={**QUICK, "learning_rate": 1e30})
    for each in (model.set_params(settings=fails.settings), fails):
        with pytest.raises(Exception, match="finite"):
            each.fit(others, theirs)
    assert model.total_epsilon_ == 4.0 and not hasattr(fails, "total_epsilon_")
    assert quick().fit(others, theirs).total_epsilon_ == 6.0


def messy_table() -> tuple[pd.DataFrame, NDArray[np.str_]]:
    """Holes, dates, truth values and an identifier; labels follow what is there."""
    random, count = np.random.default_rng(3), 1200
    table = pd.DataFrame(
        {
            "customer_id": [f"c{row}" for row in range(count)],
            "size": random.normal(size=count),
            "city": random.choice(["Bern", "Rome"], count),
            "day": pd.date_range("2024-01-01", periods=count, freq="9h"),
            "member": random.choice([True, False], count),
        }
    )
    score = table["size"] + 2 * (table["city"] == "Rome") - 1
    labels = np.where(score > 0, "yes", "no")
    table.loc[random.random(count) < 0.1, "size"] = np.nan
    table.loc[random.random(count) < 0.1, "city"] = None
    table.loc[random.random(count) < 0.1, "day"] = pd.NaT
    table["member"] = table["member"].astype("boolean").mask(random.random(count) < 0.1)
    return table, labels


def test_a_table_with_holes_dates_and_an_identifier() -> None:
    table, labels = messy_table()
    model = quick(epsilon=8.0, classes=["no", "yes"], settings={"epochs": 20})
    with pytest.warns(ColumnsLeftOut, match="left out 1 column.*customer_id"):
        model.fit(table, labels)
    assert model.score(table, labels) > 0.85
    model.save("model")
    new = table.assign(city="Oslo", customer_id="new", size=np.nan)
    with pytest.warns(ColumnsIgnored, match="customer_id"):
        found = load_model("model").predict_proba(new)
    np.testing.assert_array_equal(found, model.predict_proba(new))
    # 2 for the size, 3 each for the city and whether a member, 2 for the day.
    kept = clone(model).set_params(keep=["customer_id"]).fit(table[:900], labels[:900])
    width = {each: each.model_.preprocessing.shape[0] for each in (model, kept)}
    assert (width[model], width[kept]) == (10, 910)


def test_columns_are_found_by_their_names_whatever_these_are() -> None:
    rows = pd.DataFrame(X)
    model = quick(epsilon=50.0).fit(rows, Y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(rows[[5, 4, 3, 2, 1, 0]]), expected)
    np.testing.assert_array_equal(model.predict_proba(csr_array(X)), expected)
    sparse = pd.DataFrame.sparse.from_spmatrix(csr_array(X))
    np.testing.assert_array_equal(model.predict_proba(sparse), expected)
    with pytest.raises(ValueError, match="rows have no column '0'"):
        model.predict(rows.rename(columns={0: 9}))
    texts = pd.Series(np.array(["good film", "bad plot", "an actor"])[Y], name="review")
    of_texts = clone(model).set_params(method="subset", settings=None).fit(texts, Y)
    assert (of_texts.predict(list(texts)) == of_texts.predict(texts)).all()


def test_a_pipeline_is_saved_whole_unless_it_learns_from_labels() -> None:
    table, labels = messy_table()
    first = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["size"]),
        (OneHotEncoder(handle_unknown="ignore"), ["city"]),
    )
    pipeline = make_pipeline(first, quick(classes=["no", "yes"])).fit(table, labels)
    pipeline[-1].save("model", after=pipeline[:-1])
    new = table.assign(city="Oslo")
    found = load_model("model").predict_proba(new)
    np.testing.assert_array_equal(found, pipeline.predict_proba(new))
    chosen = SelectKBest(k=2).fit(X, Y)
    with pytest.raises(ValueError, match="SelectKBest learns from labels"):
        pipeline[-1].save("model", after=make_pipeline(chosen))
    own = make_pipeline(FunctionTransformer(rows_and_labels), StandardScaler())
    with pytest.raises(ValueError, match="can't be saved in a model"):
        pipeline[-1].save("model", after=own)
