"""Late labels: the page's weeks on one vault, killed in every one of them, and charged once.

Each kill is another one: before the charge, after it, within the arrays, and before the facts.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from labeldp import LabelPrivateClassifier
from labeldp.platform.api.party_files import read_release
from labeldp.platform.api.two_parties import answer, fit_release, write_request
from labeldp.platform.report.ledger import vault_ledger
from labeldp.platform.vault.shared_vault import SharedVault
from tests.platform.api.asked import ASKED, COLUMNS
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import words
from tests.test_commands import commands

PAGE = [
    each.words[1:]
    for each in commands()
    if each.page == "docs/late_labels.md" and each.line.startswith("labeldp ")
]
#: `labeldp` in a process that ends at a point of its way.
KILLED = """
import os, signal, sys
import numpy as np
from labeldp.platform.cli.command_line import main
from labeldp.platform.vault.vault_store import SqliteStore

def end(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def half(file, **_):
    file.write(b"PK half of it")
    file.flush()
    end()

point, *words = sys.argv[1:]
record, savez = SqliteStore.record, np.savez
if point == "before the charge":
    SqliteStore.record = end
if point == "after the charge":
    SqliteStore.record = lambda *a, **k: (record(*a, **k), end())
if point == "within the arrays":
    np.savez = half
if point == "before the facts":
    np.savez = lambda file, **k: (savez(file, **k), file.flush(), end())
main(words)
"""
POINTS = ("before the charge", "after the charge", "within the arrays", "before the facts")


def composed(epsilon: float, *, times: int, delta: float) -> float:
    """Epsilon of equal Gaussian releases by the formula of Balle and Wang (2018)."""

    def delta_of(mu: float, at: float) -> float:
        lower = norm.cdf(-mu / 2 - at / mu)
        return float(norm.cdf(mu / 2 - at / mu) - np.exp(at) * lower)

    mu = brentq(lambda each: delta_of(each, epsilon) - delta, 1e-3, 10, xtol=1e-14)
    return float(brentq(lambda at: delta_of(mu * times**0.5, at) - delta, 0, 50, xtol=1e-12))


def test_weeks_are_charged_once_whatever_ends() -> None:
    points, week = iter(POINTS), 0
    for line in PAGE:
        if line[0] == "release":
            point, week = next(points), week + 1
            ended = subprocess.run([sys.executable, "-c", KILLED, point, *line], timeout=300)
            assert ended.returncode == -9
            vault = SharedVault("late/labels.vault")
            charged = point != "before the charge"
            assert len(vault.charges()) == week - 1 + charged
            assert ("at no cost" in words(*line)) == charged
            again = ran(*line[:-1], f"late/again{week}")
            assert not again["new"] and len(SharedVault("late/labels.vault").charges()) == week
            first, second = (Path(f"late/{name}{week}/arrays.npz") for name in ("release", "again"))
            assert first.read_bytes() == second.read_bytes()
            assert again["known"] == (0 if week == 1 else 250)
        elif line[0] == "ledger":
            found = ran(*line)
            most = composed(1.0, times=4, delta=1e-5)
            assert found["epsilon"] == pytest.approx(most, rel=1e-6)
            joined = [(each["release"], each["people"]) for each in found["cohorts"]]
            assert joined == [(1, 2500), (2, 2250), (3, 2250), (4, 2250)]
            for each in found["cohorts"]:
                assert each["epsilon_least"] == pytest.approx(1.0, rel=1e-6)
                last = most if each["release"] == 1 else 1.0
                assert each["epsilon_most"] == pytest.approx(last, rel=1e-6)
        else:
            words(*line)
    assert week == 4
    facts = json.loads(Path("late/model/model.json").read_text())
    assert facts["epsilon"] == pytest.approx(most, rel=1e-6)


def a_week(first: int, rows: int, *, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of ids from `first` on, and their labels."""
    x = np.random.default_rng(seed).normal(size=(rows, 3))
    features = pd.DataFrame(x, columns=["a", "b", "c"])
    features["id"] = np.arange(first, first + rows)
    labels = features[["id"]].assign(bought=np.where(x[:, 0] > 0, "yes", "no"))
    return features, labels


@pytest.mark.parametrize("method", ["moments", "clusters", "subset"])
def test_a_model_learns_from_several_weeks(method: str) -> None:
    vault, tables, releases = SharedVault(), [], []
    # Half of the second week's ids are known, with other rows.
    for week, first in enumerate((0, 500)):
        features, labels = a_week(first, 1000, seed=week)
        # Weeks differ in their units, so that only its own preparation reads a week's sums.
        features["a"] += 10 * week
        request = write_request(features, f"q{week}", **{**ASKED, "method": method})
        given: dict[str, Any] = {**COLUMNS, "epsilon": 2.0 + week, "vault": vault}
        found = answer(labels, request, f"r{week}", **given)
        assert found.known == (0, 500)[week]
        tables.append(features.sample(frac=1, random_state=0))
        releases.append(read_release(f"r{week}"))
        model = fit_release(tables, releases)
        origin = model.origin
        if method != "moments":
            assert (origin.epsilon, origin.delta) == vault.total() == ((2.0, 0.0), (5.0, 0.0))[week]
        assert origin.epsilon == pytest.approx(vault.total()[0], rel=1e-9)
        test, truth = a_week(0, 2000, seed=7)
        scores = model.predict_proba(test.assign(a=test.a + 10 * week))[:, 1]
        assert roc_auc_score(truth.bought == "yes", scores) > 0.85
    learner = LabelPrivateClassifier(random_state=0).fit_release(tables, *releases)
    assert learner.epsilon_ == learner.total_epsilon_ == origin.epsilon
    with pytest.raises(ValueError, match="fewer tables of features are given than the 2 releases"):
        fit_release(tables[:1], releases)


def test_weeks_may_be_requested_in_parts() -> None:
    asked = "--id-column id --method subset --classes no,yes".split()
    owner = "--id-column id --label-column bought --epsilon 8 --vault vault".split()
    line = ["fit", "features0.parquet", "features1.parquet", "features2.parquet"]
    for week, parts in enumerate((["--rows-at-once", "60"], [], ["--rows-at-once", "40"])):
        features, labels = a_week(50 * week, 100, seed=week)
        features.to_parquet(f"features{week}.parquet")
        labels.to_parquet("labels.parquet")
        ran("request", f"features{week}.parquet", *asked, *parts, "-o", f"q{week}")
        ran("release", "labels.parquet", *owner, "--request", f"q{week}", "-o", f"r{week}")
        line += ["--release", f"r{week}"]
    assert ran(*line, "--estimator", "logistic", "-o", "model")["rows"] == 300
    test, truth = a_week(0, 1000, seed=7)
    test.to_parquet("test.parquet")
    ran("predict", "model", "test.parquet", "-o", "found.csv")
    chances = pd.read_csv("found.csv")["probability_yes"]
    assert roc_auc_score(truth.bought == "yes", chances) > 0.85


@pytest.mark.parametrize("persons", [False, True])
def test_whole_numbers_that_a_file_has_as_floats_are_known(persons: bool) -> None:
    release = "--id-column id --label-column bought --vault vault --epsilon 1".split()
    release += ["--person-column", "person"] if persons else []
    for week, kind in enumerate((int, float)):
        features, labels = a_week((100 if persons else 50) * week, 100, seed=week)
        labels["person"] = np.arange(100).astype(kind)
        for name, table in (("features", features), ("labels", labels)):
            table.assign(id=table.id.astype(kind)).to_csv(f"{name}{week}.csv", index=False)
        asked = ("--id-column", "id", "--method", "subset", "--classes", "no,yes")
        ran("request", f"features{week}.csv", *asked, "-o", f"q{week}")
        given = (f"labels{week}.csv", *release, "--request", f"q{week}", "-o", f"r{week}")
        found = ran("release", *given)
    assert (found["known"], found["total_epsilon"]) == (100 if persons else 50, 2.0)


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
def test_fits_of_a_vault_with_names_have_cohorts() -> None:
    def fit(first: int, **more: Any) -> None:
        features, labels = a_week(first, 100, seed=first)
        learner = LabelPrivateClassifier(
            "randomized_response",
            epsilon=1.0,
            classes=["no", "yes"],
            settings={"epochs": 1},
            vault="vault",
            **more,
        )
        learner.fit(features[["a", "b", "c"]], labels.bought, rows=features.id)

    fit(0)
    fit(60)
    fit(60, noise_seed=3)
    found = vault_ledger(Path("vault"))
    assert found["epsilon"] == 3.0 and found["delta"] == 0.0
    names = ("release", "people", "epsilon_least", "epsilon_most")
    cohorts = [tuple(each[name] for name in names) for each in found["cohorts"]]
    assert cohorts == [(1, 100, 1.0, 3.0), (2, 60, 2.0, 2.0)]
