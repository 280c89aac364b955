"""Models of noisy counts by bucket, as browsers and platforms give them."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from labeldp.platform.api.histograms import fit_histograms
from labeldp.trainers.data.conversions import SECRETS, conversions
from labeldp.trainers.methods.histograms import labels_of_counts, planned_buckets, read_histograms
from labeldp.trainers.models.trained_model import load_model
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import refusal, words


def counted(features: pd.DataFrame, buckets: pd.DataFrame, label: Any, *, seed: int = 0) -> Any:
    """The buckets with counts of the rows with a label, and Laplace noise of their scale.

    Written by itself: it shares no code with the reading.
    """
    rest = buckets[["low", "high", "category"]].isna().all(axis=1)
    counts = np.zeros(len(buckets))
    for name in buckets["column"].unique():
        taken = np.zeros(len(features), bool)
        for place in np.flatnonzero((buckets["column"] == name) & ~rest):
            _, low, high, category, *_ = buckets.iloc[place]
            if category is None or pd.isna(category):
                numbers = features[name]
                above = numbers.notna() if pd.isna(low) else numbers >= low
                inside = (above & (True if pd.isna(high) else numbers < high)).to_numpy()
            else:
                inside = (features[name].astype(str) == category).to_numpy()
            taken |= inside
            counts[place] = (inside & label).sum()
        counts[(buckets["column"] == name) & rest] = (~taken & label).sum()
    noise = np.random.default_rng(seed).laplace(scale=buckets["scale"])
    return buckets.assign(count=counts + noise)


@pytest.fixture(scope="module")
def log() -> tuple[pd.DataFrame, Any, pd.DataFrame, Any]:
    train, test = conversions(100_000, seed=0), conversions(20_000, seed=1_000_000)
    rows = [each.drop(columns=["id", *SECRETS]) for each in (train, test)]
    bought = [(each.bought == "yes").to_numpy() for each in (train, test)]
    return rows[0], bought[0], rows[1], bought[1]


@pytest.mark.parametrize(
    ("epsilon", "least"),
    [
        (1.0, 0.765),
        pytest.param(2.0, 0.79, marks=pytest.mark.benchmark),
        pytest.param(4.0, 0.8, marks=pytest.mark.benchmark),
    ],
)
def test_counts_with_the_noise_of_w3c_teach_a_model(
    epsilon: float, least: float, log: tuple[Any, ...]
) -> None:
    features, bought, others, theirs = log
    asked = planned_buckets(features, epsilon=epsilon)
    assert asked["scale"].iloc[0] == 2 * features.shape[1] / epsilon
    model = fit_histograms(features, counted(features, asked, bought), epsilon=epsilon)
    assert roc_auc_score(theirs, model.predict_proba(others)[:, 1]) >= least


def eight_bins(features: pd.DataFrame, *, scale: float) -> pd.DataFrame:
    rows = list[tuple[Any, ...]]()
    for name, column in features.items():
        if column.dtype.kind in "if":
            cuts = np.unique(np.quantile(column, np.linspace(0, 1, 9)[1:-1])).tolist()
            rows += [(name, low, high, None) for low, high in pairwise([None, *cuts, None])]
        else:
            rows += [(name, None, None, each) for each in column.value_counts().index[:7]]
            rows += [(name, None, None, None)] * (column.nunique() > 7)
    return pd.DataFrame(rows, columns=["column", "low", "high", "category"]).assign(scale=scale)


@pytest.mark.benchmark
def test_the_plan_is_not_worse_than_eight_bins(log: tuple[Any, ...]) -> None:
    features, bought, *_ = log
    plan = planned_buckets(features, epsilon=1.0)
    found = []
    for asked in (plan, eight_bins(features, scale=plan["scale"].iloc[0])):
        read = read_histograms(counted(features, asked, bought))
        found.append(roc_auc_score(bought, labels_of_counts(features, read)[:, 1]))
    assert found[0] >= found[1]


def a_table(rows: int = 4000) -> tuple[pd.DataFrame, Any]:
    draw = np.random.default_rng(0)
    features = pd.DataFrame({"age": draw.normal(50, 10, rows), "town": draw.choice([*"ABC"], rows)})
    features["size"] = draw.integers(0, 3, rows)
    features.loc[::9, "age"] = np.nan
    score = (features["age"].fillna(40) - 50) / 10 + (features["town"] == "A") * 2 - 1
    return features, (score + draw.logistic(size=rows) > 0).to_numpy()


def test_gaps_other_noise_and_counts_that_disagree() -> None:
    features, label = a_table()
    asked = counted(features, planned_buckets(features, epsilon=8.0), label)
    assert set(asked["column"]) == {"age", "town", "size"}
    whole = fit_histograms(features, asked, epsilon=8.0).predict_proba(features)[:, 1]
    base = roc_auc_score(label, whole)
    assert base > 0.8
    odd = asked.drop(columns="scale").assign(deviation=1.0)
    odd.loc[odd["column"] == "size", ["count", "deviation"]] = [-400.0, 500.0]
    odd.loc[odd.index[[1, 4]], "count"] = np.nan
    # Counts that say nothing, and less than nothing, spoil little, since their noise is stated.
    model = fit_histograms(features, odd, estimator=LogisticRegression(max_iter=5000))
    assert roc_auc_score(label, model.predict_proba(features)[:, 1]) > base - 0.06
    assert math.isinf(model.origin.epsilon) and not model.facts["private"]
    stated = asked.assign(deviation=1.0)
    wrong = fit_histograms(features, stated[stated["column"] == "town"]).predict_proba(features)
    assert base > roc_auc_score(label, wrong[:, 1]) > 0.65


def test_rows_of_a_suppressed_bucket_are_not_the_rest() -> None:
    features = pd.DataFrame({"town": ["A", "B", "C", "A"] * 500})
    asked = pd.DataFrame({"column": "town", "category": ["A", "B", None], "scale": 1.0})
    read = read_histograms(asked.assign(count=[np.nan, 250, 0]))
    of_a, of_b, of_c = labels_of_counts(features, read)[:3, 1]
    assert of_a == pytest.approx(0.25, abs=0.02)  # as of all rows that were counted
    assert of_b == pytest.approx(0.5, abs=0.02) and of_c < 0.02


def test_buckets_are_disjoint_and_spelled_as_in_the_table() -> None:
    spent = np.where(np.arange(1000) < 700, 0.0, np.arange(1000))
    spent[::50] = np.nan
    codes = np.tile(["2139", "02139", "02139", "00501"], 250)
    asked = planned_buckets(pd.DataFrame({"spent": spent, "code": codes}), epsilon=1.0)
    assert asked["category"].dropna().tolist() == ["02139", "00501"]
    own = asked[asked["column"] == "spent"]
    assert own["high"].iloc[0] == own["low"].min() == 701  # zeros by themselves
    assert own[["low", "high"]].isna().all(axis=1).sum() == 1  # the rest


def test_a_person_gets_from_a_plan_to_predictions() -> None:
    features, label = a_table()
    features.to_parquet("features.parquet")
    table = "features.parquet"
    plan = ran("buckets", table, "--budget", "8")
    assert (plan["l1"], plan["scale"], plan["columns"]) == (3, 0.75, [*features])
    Path("counts.csv").write_text(words("buckets", table, "--budget", "8"))
    asked = pd.read_csv("counts.csv", keep_default_na=False, na_values=[""])
    assert len(asked) == len(plan["buckets"])
    counted(features, asked, label).to_csv("with_scale.csv", index=False)
    pd.read_csv("with_scale.csv").drop(columns="scale").to_csv("counts.csv", index=False)
    noise = ("--noise", "laplace", "--l1", "3", "--epsilon", "8")
    said = words("fit", table, "--histograms", "counts.csv", *noise, "-o", "model1")
    assert "epsilon 8 by the word of the party that drew the noise (--epsilon): no vault" in said
    found = ran("fit", table, "--histograms", "counts.csv", *noise, "-o", "model")
    assert (found["rows"], found["epsilon"], found["delta"]) == (4000, 8.0, 0.0)
    facts = json.loads(Path("model/model.json").read_text())
    assert facts["epsilon_stated_by"] == load_model("model").origin.stated_by
    assert facts["epsilon_stated_by"] == "the party that drew the noise"
    ran("predict", "model", table, "-o", "p.parquet")
    said = words("predict", "model", table, "-o", "p.parquet")
    assert "columns: prediction, probability_no, probability_yes\ntrial: none\n" in said
    scores = pd.read_parquet("p.parquet").iloc[:, -1]
    assert roc_auc_score(label, scores) > 0.8
    for given, why in (
        (("--histograms", "counts.csv"), "each count needs noise above 0"),
        (("--histograms", "counts.csv", "--noise", "laplace"), "goes with --l1"),
        (
            ("--histograms", "with_scale.csv", *noise),
            "in a column, and --l1 (l1=) gives each count",
        ),
        (("--histograms", table, *noise), "need column, low, high, category"),
        ((), "either --release DIR or --histograms FILE"),
        (("--release", "model", *noise), "states its own"),
    ):
        assert why in refusal("fit", table, *given, "-o", "no")
    assert not Path("no").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"column": "height"}, "which the features lack"),
        ({"column": "town"}, "holds no numbers"),
        ({"low": 1e6, "high": 2e6}, "no row of the features is in a bucket of column 'age'"),
        ({"count": math.nan}, "no row has one"),
        ({"count": math.inf}, "no count or no noise"),
        ({"count": "many"}, "holds text"),
        ({"scale": 0.0}, "each count needs noise above 0"),
        ({"scale": 1e-300}, "each count needs noise above 0"),
        ({"low": 60.0, "high": 40.0}, "a low that is not below its high"),
    ],
)
def test_tables_that_can_t_be_read_are_refused(changes: dict[str, Any], why: str) -> None:
    features, label = a_table(200)
    asked = planned_buckets(features[["age"]], epsilon=1.0).dropna(subset=["low"])
    table = counted(features, asked, label).astype(object).assign(**changes)
    with pytest.raises(ValueError, match=why):
        fit_histograms(features, table, epsilon=1.0)


def test_numbers_may_name_columns_and_one_row_may_be_all() -> None:
    features = pd.DataFrame(np.random.default_rng(0).integers(0, 3, (500, 2)))
    asked = planned_buckets(features, epsilon=8.0)
    counts = counted(features.rename(columns=str), asked, (features[0] == 1).to_numpy())
    found = fit_histograms(features, counts, epsilon=8.0).predict_proba(features)[:, 1]
    assert roc_auc_score(features[0] == 1, found) > 0.9
    alone = fit_histograms(features[:1], counts, epsilon=8.0).predict_proba(features[:1])
    assert np.isfinite(alone).all()
    with pytest.raises(ValueError, match=r"delta is 2\.0"):
        fit_histograms(features, counts, epsilon=8.0, delta=2.0)
    with pytest.raises(ValueError, match="name two or more that differ"):
        fit_histograms(features, counts, epsilon=8.0, classes=["no", "no"])
