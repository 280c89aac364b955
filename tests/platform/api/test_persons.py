"""Several labels per person: what a whole release reveals of a person, and what is counted."""

import time
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import LabelPrivateClassifier, LabelPrivateRegressor, SharedVault
from labeldp.mechanisms.accounting import GaussianEvent, epsilon_of, gaussian_epsilon
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.amounts import BINS, LEVELS, AmountChannel, AmountSums
from labeldp.mechanisms.label_moments import ROUNDING, LabelMoments
from labeldp.mechanisms.ledger import BudgetExceeded
from labeldp.mechanisms.persons import (
    Groups,
    event_of_persons,
    normal_name,
    numbered,
    shares_of_persons,
)
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import LATTICE, SecureEntropy, SeededNoise
from labeldp.mechanisms.rr_with_prior import ClusterHistograms, RRWithPrior
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.api.label_release import SINGLE, privatize
from labeldp.platform.api.party_files import read_release
from labeldp.platform.api.two_parties import answer, fit_release, write_request
from labeldp.platform.settings.methods import NAMED, RELEASED
from labeldp.trainers.data.columns import class_name
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import refusal, words

PERSONS, EACH, CLASSES = 40, 5, 3
ROWS = PERSONS * EACH
#: The signs with which five rows may turn up in sums.
SIGNS = 1 - 2 * ((np.arange(2**EACH)[:, None] >> np.arange(EACH)) & 1)
DELTA = 1e-5

pytestmark = [
    pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp"),
    pytest.mark.filterwarnings("ignore::labeldp.PrivacyNotCounted"),
]


class Seen:
    """What left every vault, beside the labels and the persons that were inside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.releases: list[tuple[Any, Any, NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        release = LabelVault.release

        def watched(vault: LabelVault, mechanism: Any, *public: Any, **how: Any) -> Any:
            found = release(vault, mechanism, *public, **how)
            if isinstance(how["noise"], SeededNoise):  # a rehearsal: the labels are nobody's
                return found
            rows = slice(None) if how.get("indices") is None else how["indices"]
            assert vault.persons is not None
            inside = vault._labels[rows], vault.persons[rows]
            self.releases.append((mechanism, public, found.values, *inside))
            return found

        monkeypatch.setattr(LabelVault, "release", watched)

    def revealed(self, person: int) -> tuple[float, float]:
        """Return the log likelihood ratio of all that is pure, and mu of all that is Gaussian.

        In the other world every label of the person is another one, the least likely.
        """
        ratio = squares = 0.0
        for mechanism, public, values, labels, persons in self.releases:
            own = np.flatnonzero(persons == person)
            if not len(own):
                continue
            truth = labels[own]
            if isinstance(mechanism, LabelMoments | AmountSums):
                moved = SIGNS[:, : len(own)] @ np.asarray(public[0][own], np.float64)
                unit = np.sqrt(2) if isinstance(mechanism, LabelMoments) else (1 - 1 / LEVELS)
                longest = np.linalg.norm(moved, axis=1).max()
                squares += (unit * longest / mechanism.noise_std) ** 2
            elif isinstance(mechanism, GaussianNoise):
                squares += 2 * len(own) / mechanism.noise_std**2
            elif isinstance(mechanism, ClusterHistograms):
                there, elsewhere = (np.zeros(values.shape) for _ in range(2))
                np.add.at(there, (public[0][own], truth), 1)
                np.add.at(elsewhere, (public[0][own], (truth + 1) % mechanism.num_classes), 1)
                every = np.zeros(values.shape)
                np.add.at(every, (public[0], labels), 1)
                noise = values - every
                change = np.abs(noise + there - elsewhere) - np.abs(noise)
                ratio += abs(change.sum()) * mechanism.epsilon / 2
            elif isinstance(mechanism, AmountChannel):
                table = mechanism.table(public[0]).probabilities
                known = own[values[own] < table.shape[1]]
                chance = table[:, values[known]]
                bins = labels[known] * BINS // LEVELS
                ratio += (np.log(chance[bins, np.arange(len(known))] / chance.min(0))).sum()
            else:
                under = public if isinstance(mechanism, RRWithPrior) else ()
                found = mechanism.log_likelihood(values, *under)[own]
                ratio += (found[np.arange(len(own)), truth] - found.min(1)).sum()
        return ratio, float(np.sqrt(squares))

    def check(self, epsilon: float, *, most: float) -> None:
        """Nobody reveals more than epsilon, and somebody at least the share `most` of it."""
        found = []
        for person in range(PERSONS):
            ratio, mu = self.revealed(person)
            gaussian = gaussian_epsilon(noise_multiplier=1 / mu, delta=DELTA) if mu else 0.0
            found.append(ratio + gaussian)
        assert most * epsilon < max(found) <= epsilon * (1 + 1e-6), max(found)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def rows_of_persons(seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.int64], NDArray[Any]]:
    """Features that are alike for a person, labels, and persons in any order."""
    generator = np.random.default_rng(seed)
    persons = generator.permutation(np.repeat(np.arange(PERSONS), EACH))
    own = generator.normal(size=(PERSONS, 4))
    rows = own[persons] + 0.5 * generator.normal(size=(ROWS, 4))
    labels = (rows[:, 0] > -0.4).astype(np.int64) + (rows[:, 0] > 0.4)
    return pd.DataFrame(rows, columns=list("abcd")), labels, persons


@pytest.mark.parametrize("most", [1, EACH])
@pytest.mark.parametrize("method", sorted(NAMED.keys() - {"pate", "no_privacy"}))
def test_no_method_reveals_more(method: str, most: int, seen: Seen) -> None:
    rows, labels, persons = rows_of_persons()
    settings = {} if method == "convex" else {"epochs": 8}
    if method == "consensus":
        settings["retrain_epochs"] = 4
    given: dict[str, Any] = {"epsilon": 2.0, "classes": CLASSES, "max_labels_per_person": most}
    model = LabelPrivateClassifier(method, **given, random_state=0, settings=settings)
    if method in ("lp_2st", "lp_3st") and most > 1:
        with pytest.raises(ValueError, match="takes labels in stages"):
            model.fit(rows, labels, groups=persons)
        return
    model.fit(rows, labels, groups=persons)
    # Gaussian noise on five labels costs less than five times as much as on one.
    less = most > 1 and method in ("agibi", "alibi_moment_prior")
    assert model.epsilon_ >= (0.68 if less else 2.0 * (1 - 1e-6))
    assert model.epsilon_ <= 2.0 * (1 + 1e-9) and "all labels of a person" in model.guarantee_
    assert model.ledger_[0].unit == "person" and model.ledger_[0].labels <= PERSONS
    seen.check(model.epsilon_, most=0.3)


@pytest.mark.parametrize("most", [1, EACH])
@pytest.mark.parametrize("method", ["sums", "unbiased", "least_error", "randomized_response"])
def test_no_amounts_reveal_more(method: str, most: int, seen: Seen) -> None:
    rows, labels, persons = rows_of_persons()
    given: dict[str, Any] = {"method": method, "max_labels_per_person": most, "random_state": 0}
    model = LabelPrivateRegressor(2.0, (0, 3), **given).fit(rows, labels, groups=persons)
    assert model.epsilon_ == pytest.approx(2.0, rel=1e-9)
    assert "all labels of a person" in model.guarantee_
    seen.check(2.0, most=0.3)


@pytest.mark.parametrize("most", [1, EACH])
@pytest.mark.parametrize("method", SINGLE)
def test_no_labels_reveal_more(method: str, most: int, seen: Seen) -> None:
    _, labels, persons = rows_of_persons()
    given: dict[str, Any] = {"epsilon": 2.0, "classes": range(CLASSES), "method": method}
    release = privatize(labels, **given, groups=persons, max_labels_per_person=most)
    assert release.epsilon == 2.0 and release.ledger[0].labels == PERSONS
    assert "for each of 40 persons" in str(release.ledger[0])
    seen.check(2.0, most=0.3)
    assert release.kept is not None and len(release.kept) == most * PERSONS
    # The others are rows without a label.
    left_out = np.setdiff1d(np.arange(ROWS), release.kept)
    soft = release.soft_labels()
    assert len(soft) == ROWS and np.allclose(soft[left_out], 1 / CLASSES)
    assert not np.allclose(soft[release.kept], 1 / CLASSES)
    logits = torch.randn(ROWS, CLASSES, requires_grad=True)
    release.loss(logits, torch.arange(ROWS)).backward()
    assert logits.grad is not None and np.allclose(logits.grad[left_out], 0, atol=1e-8)
    batch = np.random.default_rng(0).permutation(ROWS)[:9]
    some = logits.detach()[batch]
    scores = some.log_softmax(1) + torch.tensor(release.log_likelihood[batch])
    expected = float(-scores.logsumexp(1).mean())
    assert float(release.loss(some, batch)) == pytest.approx(expected, rel=1e-5, abs=1e-4)


def both_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, labels, persons = rows_of_persons()
    ids = [f"v{number}" for number in range(ROWS)]
    secret = pd.DataFrame({"id": ids, "label": labels, "person": persons})
    return rows.assign(id=ids), secret.sample(frac=1, random_state=0)


COLUMNS: dict[str, Any] = {"id_column": "id", "label_column": "label", "person_column": "person"}


@pytest.mark.parametrize("most", [1, EACH])
@pytest.mark.parametrize("method", RELEASED)
def test_a_party_reveals_no_more_of_five_labels_than_epsilon(
    method: str, most: int, seen: Seen
) -> None:
    features, labels = both_tables()
    request = write_request(
        features, "request", id_column="id", method=method, classes=["0", "1", "2"]
    )
    vault = SharedVault()
    given: dict[str, Any] = {**COLUMNS, "vault": vault, "max_labels_per_person": most}
    found = answer(labels, request, "release", **given, epsilon=2.0)
    seen.check(2.0, most=0.3)
    assert found.epsilon == pytest.approx(2.0, rel=1e-9) == found.total_epsilon
    assert found.persons == len(np.unique(seen.releases[0][-1])) <= PERSONS
    release = read_release("release")
    assert release.ledger[0].unit == "person" and release.ledger[0].labels == found.persons
    again = answer(labels, request, "again", **given, epsilon=2.0)
    assert not again.new and again.total_epsilon == found.total_epsilon
    model = fit_release(features, [release], estimator=LogisticRegression())
    assert model.origin.epsilon == found.epsilon
    with pytest.raises(BudgetExceeded, match="would make it"):
        answer(labels, request, None, **{**given, "budget": 2.1}, epsilon=1.0)


def test_rounds_of_a_party_add_up_as_one_persons() -> None:
    features, labels = both_tables()
    facts: dict[str, Any] = {"id_column": "id", "method": "stages", "classes": ["0", "1", "2"]}
    given: dict[str, Any] = {**COLUMNS, "epsilon": 2.0, "vault": SharedVault()}
    answer(labels, write_request(features, "1", **facts), "r1", **given)
    first = read_release("r1")
    second = write_request(features, "2", **facts, after=[first], estimator=LogisticRegression())
    found = answer(labels, second, "r2", **given)
    assert found.total_epsilon == 4.0 and found.known > 0
    releases = [first, read_release("r2")]
    model = fit_release(features, releases, estimator=LogisticRegression())
    assert model.origin.epsilon == 4.0
    learner = LabelPrivateClassifier(estimator=LogisticRegression(), random_state=0)
    learner.fit_release(features, "r1", "r2")
    assert learner.epsilon_ == 4.0 and "for all labels of each person" in learner.guarantee_
    # Whose label it is decides the noise, so that it is not left open for ids without a row.
    unlabeled = labels.assign(label=labels.label.where(labels.index > 3).astype("Int64"))
    request = write_request(features, "3", **{**facts, "method": "subset"})
    assert answer(unlabeled, request, None, **given, missing="0").absent == 4
    name = COLUMNS["person_column"]
    blank = unlabeled.assign(**{name: unlabeled[name].astype(object).where(labels.index > 3, " ")})
    for unknown in (unlabeled.dropna(), blank):
        with pytest.raises(ValueError, match="4 of 200 ids of the request have no person in the"):
            answer(unknown, request, None, **given, missing="0")
    plain = {**given, "person_column": None}
    with pytest.raises(ValueError, match=r"this vault counts persons.*--person-column"):
        answer(labels, request, None, **plain)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *((f"a{sign}", "a") for sign in "\x00\x7f\ufe0f\u034f\u3164\u2800\u180b\U000e0100"),
        *(
            (b"a", "a"),
            (b"\xc3\xa9", "e\u200b\u0301"),
            ("a\tb\x1f", "a b"),
            ("\u2212\u0667.\u0665", "-7.5"),
        ),
        *(("-0", "0"), ("-0.0", 0), ("1.50", 1.5), ("1.50", Decimal("1.5")), ("+01.10", "1.1")),
        *((pd.Timestamp("2020-01-01"), "2020-01-01"), ("2020-01-01T00:00Z", date(2020, 1, 1))),
        (np.datetime64("2020-01-01T00:00:00.000"), "2020-01-01 00:00:00"),
    ],
)
def test_a_name_is_one_however_it_is_written(one: Any, other: Any) -> None:
    assert normal_name(one) == normal_name(other) == class_name(one) != ""


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_dates_of_any_unit_and_type_name_the_same_person(unit: str) -> None:
    days = np.array(["1980-05-01", "1980-05-01T12:00", "NaT"], dtype=f"M8[{unit}]")
    spans = days - days[0]
    for times, known in (
        (days, ["1980-05-01", "1980-05-01 12:00:00"]),
        (spans, ["0 days 00:00:00", "0 days 12:00:00"]),
    ):
        column, objects = pd.Series(times), list(times)
        arrow = column.astype(f"{'timestamp' if times is days else 'duration'}[{unit}][pyarrow]")
        every = [times, objects, np.array(objects), column, pd.Series(objects, dtype=object), arrow]
        every += [pd.Index(column), column.astype("category"), column.tolist(), objects]
        for names in (*every, times[:2].astype("m8[us]" if times is spans else "M8[us]").tolist()):
            assert numbered(names[:2])[1].tolist() == known
            if len(names) > 2:
                with pytest.raises(ValueError, match=r"row 2 \(and 0 more\) names no person"):
                    numbered(names)


def test_a_name_of_zeros_is_read_in_one_pass() -> None:
    """The other party writes ids: from every split of the zeros this would take ten seconds."""
    started = time.process_time()
    assert normal_name("0" * 20_000 + "-1").endswith("-1")
    assert time.process_time() - started < 2


def test_names_of_several_people_stay_apart() -> None:
    names = ["1e3", "1000", "-1", "1", "0.5", "5", ".", "-", "1.5.0", "1.5", "A", "a", "\U0001f469"]
    names += ["2020-01-01 00:01:00", "2020-01-01", "a-0", "a0", "1_000"]
    assert len({normal_name(name) for name in names}) == len(names)


def test_names_that_differ_in_type_or_white_space_are_one_person() -> None:
    alike = [7, "7", 7.0, " 7 ", "7.0", np.float32(7), "a\u00a0 b", "a b"]
    numbers, names = numbered(pd.Series(alike))
    assert numbers.tolist() == [0, 0, 0, 0, 0, 0, 1, 1] and names.tolist() == ["7", "a b"]
    assert numbered(pd.Series([1, 2], dtype="Int64"))[1].tolist() == ["1", "2"]
    for missing in (None, np.nan, pd.NA, pd.NaT, "  "):
        with pytest.raises(ValueError, match=r"row 1 \(and 0 more\) names no person"):
            numbered(["a", missing, "b"])
    for big in (np.array([5, 1e18]), np.array([5, 2**24 + 2], np.float32), ["5", b"1,15E+18"]):
        with pytest.raises(ValueError, match="groups has a name in row 1 that may be another one"):
            Groups.of(big, count=2, most=1)
        with pytest.raises(ValueError, match="rows has a name in row 1 that may be another one"):
            LabelPrivateClassifier(classes=2).fit([[0.0], [1.0]], [0, 1], rows=big)
    assert numbered([2**60, "1E5"])[1].tolist() == [str(2**60), "1E5"]
    with pytest.raises(ValueError, match="max_labels_per_person is 0"):
        Groups.of(["a", "a"], count=2, most=0)
    with pytest.raises(ValueError, match="groups names 2 persons for 4 rows"):
        LabelPrivateClassifier(classes=2).fit(np.eye(4), [0, 1, 0, 1], groups=["a", "b"])


def test_shares_hold_for_rows_in_single_precision_on_the_lattice() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(700, 30)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1).max()
    persons = np.repeat([0, 1, 2, 3], [1, 2, 97, 600])  # the last too many to compare in pairs
    shares = shares_of_persons(rows, persons)
    short = rows * shares[:, None]
    vault = LabelVault(labels=np.zeros(700, int), num_classes=2, persons=persons)
    quiet = LabelMoments(noise_std=1e-6, num_classes=2)
    signs = np.sign(short @ short[np.searchsorted(persons, persons)].sum(0))  # as bad as can be
    sums = vault.release(quiet, short, noise=SecureEntropy()).values
    assert (shares_of_persons(rows[:6] / 8, np.array([0, 0, 1, 1, 1, 2])) == 1).all()
    assert shares[0] == 1.0 and len(vault.charges()) == 1 and vault.num_people == 4
    for person in range(4):
        own = persons == person
        worst = np.linalg.norm(signs[own] @ short[own].astype(float))
        assert worst <= 1 and (person == 0 or np.linalg.norm(short[own], axis=1).sum() > 0.99)
    other = LabelVault(labels=(signs > 0).astype(int), num_classes=2, persons=persons)
    moved = other.release(quiet, short, noise=SecureEntropy()).values - sums
    assert np.linalg.norm(moved) > 0.1
    with pytest.raises(ValueError, match="a person's rows move the sums by"):
        vault.release(quiet, short * 1.001)
    with pytest.raises(ValueError, match="has 30,000 rows, so many"):
        shares_of_persons(np.ones((30_000, 400), np.float32) / 20, np.zeros(30_000, int))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_person_pays_for_each_label_and_for_sums_once(most: int) -> None:
    persons = np.repeat([0, 1, 2], [1, most, 1])
    randomizer = RandomizedResponse(epsilon=0.5, num_classes=2)
    event = event_of_persons(randomizer, persons, ())
    assert epsilon_of([event], delta=0.0) == most * 0.5
    noise = GaussianNoise(noise_std=3.0, num_classes=2)
    expected = noise.event.noise_multiplier / np.sqrt(most)
    assert event_of_persons(noise, persons, ()) == GaussianEvent(noise_multiplier=expected)
    # Rows of a person in one direction, as long together as one row may be, but for rounding.
    wide, room = 10_000, 1 + ROUNDING
    rounded = most * np.sqrt(wide) / LATTICE
    for sums in (LabelMoments(noise_std=3.0, num_classes=2), AmountSums(noise_std=3.0)):
        for length, fits in ((room - 1.1 * rounded, True), (room - 0.9 * rounded, False), (1.5, 0)):
            rows = np.zeros((len(persons), wide))
            rows[persons == 1, 0] = length / most
            if fits or most == 1:
                assert event_of_persons(sums, persons, (rows,)) == sums.event
            else:
                with pytest.raises(ValueError, match="a person's rows move the sums by"):
                    event_of_persons(sums, persons, (rows,))


def test_fits_add_up_by_person_and_not_by_row() -> None:
    rows, labels, persons = rows_of_persons(1)
    estimator = HistGradientBoostingClassifier(max_iter=5)
    given: dict[str, Any] = {"classes": CLASSES, "estimator": estimator, "random_state": 0}
    model = LabelPrivateClassifier("subset", epsilon=1.0, delta=0.0, **given)
    # Halves without a common row have a common person.
    model.fit(rows[::2], labels[::2], groups=persons[::2])
    model.fit(rows[1::2], labels[1::2], groups=persons[1::2].astype(str))
    assert (model.epsilon_, model.total_epsilon_) == (1.0, 2.0)
    # A scaler makes other rows in every fold; persons are known all the same.
    folds = cross_val_score(
        make_pipeline(StandardScaler(), model),
        rows,
        labels,
        groups=persons,
        cv=GroupKFold(4),
        params={"labelprivateclassifier__groups": persons},
    )
    assert len(folds) == 4 and model.total_epsilon_ == 2.0 + 3
    # A label of the person in a fit without persons counts once for each of its rows.
    alone = LabelPrivateClassifier("subset", epsilon=0.5, **given).fit(rows, labels)
    # Nobody knows which rows were in the folds, whose features a scaler made: any may have been.
    assert alone.total_epsilon_ == 1.0 + 4 + 0.5
    assert model.total_epsilon_ == 5.0 + 0.5 * np.bincount(persons[1::2]).max()
    sums = LabelPrivateClassifier("moment_labels", epsilon=0.1, **given).fit(rows, labels)
    assert sums.total_epsilon_ < 2 + 4 and model.total_epsilon_ == np.inf


def test_other_groups_of_the_same_rows_are_other_persons() -> None:
    rows, labels, persons = rows_of_persons(2)
    given: dict[str, Any] = {"epsilon": 1.0, "classes": CLASSES, "delta": 0.0}
    given |= {"estimator": LogisticRegression(), "random_state": 0}
    alone = [f"row {row}" for row in range(ROWS)]
    LabelPrivateClassifier("subset", **given).fit(rows, labels, groups=alone)
    model = LabelPrivateClassifier("subset", **given).fit(rows, labels, groups=persons)
    assert model.total_epsilon_ == 1.0 + EACH
    vault = SharedVault()
    private = LabelPrivateClassifier("subset", **given, vault=vault)
    private.fit(rows, labels, groups=persons)
    again = private.fit(rows, labels, groups=[f" {person}.0"[:-2] for person in persons])
    assert not again.ledger_[0].new and vault.epsilon(delta=0.0) == 1.0
    for other in (np.arange(ROWS), None):
        with pytest.raises(ValueError, match="this vault counts persons"):
            private.fit(rows, labels, groups=other)
    assert len(vault.charges()) == 1
    with pytest.raises(ValueError, match="rows= names labels, and groups= names the persons"):
        private.fit(rows, labels, rows=np.arange(ROWS), groups=persons)
    for refused, says in (
        ({"method": "pate", "delta": DELTA}, "groups are given, or .* PATE's teachers"),
        ({"method": "alibi", "canaries": 2}, "canaries is 2, and groups are given: canaries"),
    ):
        model = LabelPrivateClassifier(**{**given, **refused, "estimator": None})
        with pytest.raises(ValueError, match=says):
            model.fit(rows, labels, groups=persons)


def test_commands_release_for_persons() -> None:
    ran("data", "make", "conversions", "--rows", "1500", "-o", "log")
    persons = pd.read_parquet("log/labels.parquet").person.nunique()
    asking = "--id-column id --method moments --classes no,yes -o request"
    ran("request", "log/features.parquet", *asking.split())
    release = "release log/labels.parquet --id-column id --label-column bought".split()
    release += "--request request --epsilon 1 --person-column person".split()
    assert "can't hold both labels and persons" in refusal(*release[:-1], "bought", "--dry-run")
    told = words(*release, "--dry-run")
    assert f"moments of 1,500 labels of {persons} persons, epsilon 1 at delta" in told
    assert "the person that has paid most" in told
    found = ran(*release, "-o", "release")
    assert (found["rows"], found["persons"], found["epsilon"]) == (1500, persons, pytest.approx(1))
    fit = "fit log/features.parquet --release release --estimator logistic -o model"
    assert ran(*fit.split())["epsilon"] == found["epsilon"]
    assert f"for each of {persons} persons" in words("ledger", "log/labels.vault")
