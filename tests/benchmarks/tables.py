"""The default on tables of other people, beside what a user would write in three lines.

    make tables
    python -m tests.benchmarks.tables --only amounts

Writes docs/tables.md, or its part on classes, amounts or sentences (`--only text`). The data are in
`shared/data/tables` and `shared/data/text` beside the checkout (`LABELDP_SHARED` names the folder);
`--rows` takes that many rows of each table at most. Randomized response replaces a label;
scikit-learn's boosting and logistic regression learn from the rest as it is.
"""

import argparse
import lzma
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import LabelPrivateClassifier, LabelPrivateRegressor
from labeldp.platform.api.fitting import number_rows
from labeldp.trainers.data.conversions import SECRETS, conversions
from tests.benchmarks.amounts import rows_and_amounts
from tests.shared_material import SHARED
from tests.source_tree import ROOT

EPSILONS = (0.5, 1.0, 2.0, 4.0)
PAGE = ROOT / "docs" / "tables.md"
_FOLDER = SHARED / "data" / "tables"
_FILES = {"adult": SHARED / "data" / "adult" / "adult.data.xz"}
_VISITS = 100_000
#: Name -> how it is read, the column of labels (the last one if None) and columns to leave out.
TABLES: dict[str, tuple[dict[str, Any], Any, tuple[str, ...]]] = {
    "adult": ({"header": None, "skipinitialspace": True, "na_values": "?"}, None, ()),
    "bank": ({"sep": ";"}, "y", ("duration",)),
    "conversions": ({}, "bought", ("id", *SECRETS)),
    "credit": ({}, "default", ()),
    "mammography": ({"header": None}, None, ()),
    "penguins": ({}, "species", ("rownames",)),
    "pima-indians-diabetes": ({"header": None}, None, ()),
    "shoppers": ({"sep": ";"}, "Revenue", ()),
    "telco": ({"na_values": " "}, "Churn", ("customerID",)),
    "winequality-white": ({"header": None, "sep": None, "engine": "python"}, None, ()),
}
#: Lines of the page: name -> a classifier, fitted to labels that the function makes of true ones.
Learner = Callable[[], Any]
MODELS: dict[str, Learner] = {
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}
#: Methods of docs/python.md that a table's models learn from.
METHODS = ("subset", "alibi", "cluster_labels", "moment_labels")
_SEEDS_OF_METHODS = 3
_INTRO = """# Tables

The default beside randomized response with scikit-learn's models, by `make tables`: {tables} tables
of other people, {rows:,} rows at most, and 100,000 rows of the made-up `conversions`, of which 2%
buy; 30% for testing, {seeds} seeds.

- The gap is to the better of boosting and logistic regression without privacy. Both it and the
  better of the two simple ways are chosen on the test rows.
- AUC of several classes is the mean over the classes.
- Calibration is the mean error of the likeliest class's probability, in ten bins.
- Methods have {few} seeds; `moment_labels` are sums.

"""
_MEANS = """## Means over tables

By epsilon: the gap in AUC, the gap in log loss, calibration.

"""


#: Name -> files of training and testing rows; of one file a tenth is for testing.
TEXTS = {
    "TREC (6 classes)": ("TREC.train.xz", "TREC.test.xz"),
    "SST-2": ("stsa.binary.train.xz", "stsa.binary.test.xz"),
    "subj": ("subj.all.xz",),
}
_SECTION = "\n## Sentences\n"
_TEXT_INTRO = (
    _SECTION
    + """
Accuracy on test rows by epsilon: the mean of {seeds} seeds, and their deviation in brackets. Beside
the default: logistic regression on TF-IDF of words and pairs of words, the better of C=1 and C=10
on the test rows.

"""
)


def scored(predict: Callable[[], NDArray[Any]], labels: NDArray[np.int64]) -> dict[str, float]:
    """Return the figures of predictions [N, K] of rows with these labels [N], and seconds."""
    started = time.perf_counter()
    found = predict()
    seconds = time.perf_counter() - started
    classes = [k for k in range(found.shape[1]) if 0 < (labels == k).sum() < len(labels)]
    auc = np.mean([roc_auc_score(labels == k, found[:, k]) for k in classes])
    surest, right = found.max(1), found.argmax(1) == labels
    bins = np.minimum((10 * surest).astype(int), 9)
    off = [abs((surest - right)[bins == each].sum()) for each in range(10)]
    return {
        "auc": float(auc),
        "log_loss": log_loss(labels, np.clip(found, 1e-6, 1), labels=range(found.shape[1])),
        "calibration": float(np.sum(off)) / len(labels),
        "seconds": seconds,
    }


def table(name: str) -> tuple[pd.DataFrame, NDArray[np.int64], int]:
    """Return a table's rows, its labels as numbers [N] and the number of classes."""
    how, target, left_out = TABLES[name]
    if name == "conversions":
        read = conversions(_VISITS, seed=0)
    else:
        read = pd.read_csv(_FILES.get(name, _FOLDER / f"{name}.csv.xz"), **how)
    target = read.columns[-1] if target is None else target
    rows = read[read[target].notna()]
    classes, labels = np.unique(rows[target], return_inverse=True)
    return rows.drop(columns=[target, *(c for c in left_out if c in rows)]), labels, len(classes)


def randomized(
    labels: NDArray[np.int64], *, classes: int, epsilon: float, seed: int
) -> NDArray[np.int64]:
    """Return labels [N] after randomized response."""
    generator = np.random.default_rng([seed, int(10 * epsilon)])
    kept = generator.random(len(labels)) < np.exp(epsilon) / (np.exp(epsilon) + classes - 1)
    moved = generator.integers(1, classes, len(labels))
    return np.where(kept, labels, (labels + moved) % classes)


def measured(name: str, *, most: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of every line and epsilon on one split of a table."""
    rows, labels, classes = table(name)
    most = _VISITS if name == "conversions" else most
    order = np.random.default_rng(seed).permutation(len(rows))[:most]
    known, tested = np.split(order, [int(0.7 * len(order))])
    prepared = number_rows(rows.iloc[known], num_classes=classes)
    others = prepared.preprocessing.rows(rows.iloc[tested])

    def simple(model: str, given: NDArray[np.int64]) -> NDArray[Any]:
        fitted = MODELS[model]().fit(prepared.train_features, given)
        found = np.zeros((len(tested), classes))
        found[:, fitted.classes_] = fitted.predict_proba(others)
        return found

    def ours(epsilon: float, method: str) -> NDArray[Any]:
        model = LabelPrivateClassifier(method, epsilon, classes=classes, random_state=seed)
        return np.asarray(
            model.fit(rows.iloc[known], labels[known]).predict_proba(rows.iloc[tested])
        )

    def line(of: str, epsilon: float, predict: Callable[[], NDArray[Any]]) -> dict[str, Any]:
        figures = scored(predict, labels[tested])
        return {"table": name, "seed": seed, "line": of, "epsilon": epsilon, **figures}

    for model in MODELS:
        yield line(f"none, {model}", np.inf, partial(simple, model, labels[known]))
    for epsilon in EPSILONS:
        noisy = randomized(labels[known], classes=classes, epsilon=epsilon, seed=seed)
        for model in MODELS:
            yield line(f"randomized response, {model}", epsilon, partial(simple, model, noisy))
        yield line("default", epsilon, partial(ours, epsilon, "auto"))
        for method in METHODS if seed < _SEEDS_OF_METHODS else ():
            yield line(method, epsilon, partial(ours, epsilon, method))


def page(found: pd.DataFrame, *, most: int) -> str:
    """Return the page of these figures."""
    best = found[found.line.str.startswith("none")].groupby(["table", "seed"])
    ceiling = {"auc": best.auc.max(), "log_loss": best.log_loss.min()}
    private = found[np.isfinite(found.epsilon)].set_index(["table", "seed"])
    private["gap"] = ceiling["auc"] - private.auc
    private["loss"] = private.log_loss - ceiling["log_loss"]
    flat = private.reset_index()
    tables = found.table.nunique() - 1
    seeds = {"seeds": found.seed.nunique(), "few": _SEEDS_OF_METHODS}
    text = _INTRO.format(tables=tables, rows=most, **seeds)
    text += _MEANS + f"| line | {' | '.join(f'{each:g}' for each in EPSILONS)} | seconds |\n"
    text += f"|{'---|' * (2 + len(EPSILONS))}\n"
    # Of each table first, since methods have fewer seeds, and tables are as many for all lines.
    figures = ["gap", "loss", "calibration", "seconds"]
    means = flat.groupby(["line", "epsilon", "table"])[figures].mean()
    means = means.groupby(["line", "epsilon"]).mean()
    for line in ("default", *(f"randomized response, {each}" for each in MODELS), *METHODS):
        of_line = means.loc[line]
        cells = [", ".join(f"{of_line.at[each, k]:.3f}" for k in figures[:3]) for each in EPSILONS]
        text += f"| {line} | {' | '.join(cells)} | {of_line.seconds.mean():.1f} |\n"
    text += "\n## AUC by table\n\n"
    text += "Of the default; in brackets less the better of the two simple ways.\n\n"
    text += f"| table | {' | '.join(f'{each:g}' for each in EPSILONS)} |\n"
    text += f"|{'---|' * (1 + len(EPSILONS))}\n"
    of = flat.pivot_table(index=["table", "seed", "epsilon"], columns="line", values="auc")
    of["ahead"] = of["default"] - of.filter(like="randomized response").max(1)
    by_table = of.groupby(["table", "epsilon"])[["default", "ahead"]].mean()
    for name in TABLES:
        those = by_table.loc[name]
        cells = [
            f"{those.at[each, 'default']:.3f} ({those.at[each, 'ahead']:+.3f})" for each in EPSILONS
        ]
        text += f"| {name} | {' | '.join(cells)} |\n"
    wins = int((of.ahead >= 0).sum())
    return text + f"\nThe default is at least as good in {wins} of {len(of)} splits and epsilons.\n"


Amounts = tuple[pd.DataFrame, NDArray[np.float64], tuple[float, float]]
_AMOUNTS_SECTION = "\n## Amounts\n"
_AMOUNTS = (
    _AMOUNTS_SECTION
    + """
Mean squared error as a share of the variance, by the mean of {seeds} seeds. The others learn from
amounts with Laplace noise; the constant is their mean. Tables are `insurance`, 4,000 rows of the
form of California housing, and 150 made-up used cars, of which 105 teach.

"""
)
REGRESSORS: dict[str, Learner] = {
    "constant": DummyRegressor,
    "Laplace, ridge": lambda: make_pipeline(StandardScaler(), Ridge(10.0)),
    "Laplace, boosting": lambda: HistGradientBoostingRegressor(random_state=0),
}


def insurance() -> Amounts:
    read = pd.read_csv(_FOLDER / "insurance.csv.xz")
    return read.drop(columns="charges"), read.charges.to_numpy(np.float64), (0.0, 50_000.0)


def california() -> Amounts:
    rows, amounts = rows_and_amounts(None)
    table = pd.DataFrame(rows).add_prefix("column")
    return table[:4000], amounts[:4000], (0.0, 500_000.0)


def used_cars() -> Amounts:
    generator = np.random.default_rng(0)
    age = np.round(generator.gamma(3, 1.1, 150)).clip(0, 12)
    miles = ((age + 0.5) * 11_000 * generator.lognormal(0, 0.45, 150) + 4000).clip(4800, 151_000)
    model = generator.choice(["SE", "SEL", "SES"], 150, p=[0.52, 0.15, 0.33])
    color = generator.choice(["black", "silver", "red", "blue", "gray", "white", "gold"], 150)
    price = 16_400 - 900 * age - 0.035 * miles + 1800 * (model == "SEL")
    price += generator.normal(0, 1300, 150)
    rows = pd.DataFrame({"age": age, "miles": miles, "model": model, "color": color})
    return rows, price.clip(3800, 22_000), (0.0, 25_000.0)


def share_of_variance(read: Amounts, line: str, *, epsilon: float, seed: int) -> float:
    """Fit on 70% of the rows, and return the error on the others."""
    rows, amounts, (low, high) = read
    order = np.random.default_rng(seed).permutation(len(rows))
    known, tested = np.split(order, [int(0.7 * len(order))])
    if line == "default":
        model = LabelPrivateRegressor(epsilon, (low, high), random_state=seed)
        found = model.fit(rows.iloc[known], amounts[known]).predict(rows.iloc[tested])
    else:
        prepared = number_rows(rows.iloc[known], num_classes=2)
        noise = np.random.default_rng([seed, int(10 * epsilon)]).laplace(size=len(known)) / epsilon
        noisy = (amounts[known] - low) / (high - low) + noise
        learner = REGRESSORS[line]().fit(prepared.train_features, noisy)
        scaled = learner.predict(prepared.preprocessing.rows(rows.iloc[tested]))
        found = low + np.clip(scaled, 0, 1) * (high - low)
    around = amounts[tested] - amounts[known].mean()
    return float(np.square(found - amounts[tested]).mean() / np.square(around).mean())


def amounts_page(*, seeds: int) -> str:
    """Return the part of the page on amounts."""
    text = _AMOUNTS.format(seeds=seeds)
    text += f"| table | line | {' | '.join(f'{each:g}' for each in EPSILONS)} |\n"
    text += f"|{'---|' * (2 + len(EPSILONS))}\n"
    for read in (insurance, california, used_cars):
        for line in ("default", *REGRESSORS):
            cells = []
            for epsilon in EPSILONS:
                given = {"epsilon": epsilon}
                each = [share_of_variance(read(), line, **given, seed=n) for n in range(seeds)]
                cells.append(f"{np.mean(each):.2f}")
            text += f"| {read.__name__.replace('_', ' ')} | {line} | {' | '.join(cells)} |\n"
    return text


def sentences(name: str) -> tuple[list[str], NDArray[np.int64], list[str], NDArray[np.int64]]:
    """Return texts and labels of training rows, and those of testing rows."""
    parts: list[tuple[list[str], list[str]]] = []
    for file in TEXTS[name]:
        with lzma.open(SHARED / "data" / "text" / file, "rt", errors="replace") as opened:
            pairs = [line.rstrip("\n").split(" ", 1) for line in opened]
        parts.append(([text for _, text in pairs], [label.split(":")[0] for label, _ in pairs]))
    if len(parts) == 1:
        ((texts, names),) = parts
        order = np.random.default_rng(0).permutation(len(texts))
        known, tested = np.split(order, [len(texts) * 9 // 10])
        parts = [([texts[n] for n in some], [names[n] for n in some]) for some in (known, tested)]
    classes = sorted(set(parts[0][1]))
    (texts, names), (others, other_names) = parts
    return texts, _numbers(names, classes), others, _numbers(other_names, classes)


def _numbers(names: list[str], classes: list[str]) -> NDArray[np.int64]:
    return np.array([classes.index(name) for name in names], dtype=np.int64)


def measured_text(name: str, *, seed: int) -> Iterator[dict[str, Any]]:
    """Yield accuracies on a set of sentences, for each line and epsilon."""
    texts, labels, others, tested = sentences(name)
    classes = labels.max() + 1
    words = TfidfVectorizer(ngram_range=(1, 2))
    known = words.fit_transform(texts)

    def simple(given: NDArray[np.int64]) -> float:
        learned = [LogisticRegression(max_iter=1000, C=c).fit(known, given) for c in (1, 10)]
        return max(float(each.score(words.transform(others), tested)) for each in learned)

    of = {"set": name, "seed": seed}
    yield {**of, "epsilon": np.inf, "line": "none", "accuracy": simple(labels)}
    for epsilon in EPSILONS:
        noisy = randomized(labels, classes=classes, epsilon=epsilon, seed=seed)
        of["epsilon"] = epsilon
        yield {**of, "line": "randomized response", "accuracy": simple(noisy)}
        model = LabelPrivateClassifier(epsilon=epsilon, classes=classes, random_state=seed)
        accuracy = model.fit(texts, labels).score(others, tested)
        yield {**of, "line": "default", "accuracy": accuracy}


def text_section(found: pd.DataFrame) -> str:
    """Return the section of the page about sentences."""
    text = _TEXT_INTRO.format(seeds=int(found.seed.max()) + 1)
    text += f"| set | line | {' | '.join(f'{each:g}' for each in EPSILONS)} | no privacy |\n"
    text += f"|{'---|' * (3 + len(EPSILONS))}\n"
    for name in found.set.unique():
        of = found[found.set == name]
        none = of[of.line == "none"].accuracy.iloc[0]
        for line in ("default", "randomized response"):
            part = of[of.line == line].groupby("epsilon").accuracy
            cells = [f"{part.mean()[each]:.3f} ({part.std()[each]:.3f})" for each in EPSILONS]
            last = f"{none:.3f}" if line != "default" else ""
            text += f"| {name} | {line} | {' | '.join(cells)} | {last} |\n"
    return text


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=4000)
    arguments.add_argument("--seeds", type=int, default=6)
    arguments.add_argument("--to", type=Path, default=PAGE)
    arguments.add_argument("--only", choices=("classes", "amounts", "text"))
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    before, _, text = given.to.read_text().partition(_SECTION)
    classes, _, amounts = before.partition(_AMOUNTS_SECTION)
    parts = {"classes": classes, "amounts": _AMOUNTS_SECTION + amounts, "text": ""}
    if text:
        parts["text"] = _SECTION + text
    if given.only in (None, "classes"):
        parts["classes"] = classes_page(most=given.rows, seeds=given.seeds)
    if given.only in (None, "amounts"):
        parts["amounts"] = amounts_page(seeds=5)
    if given.only in (None, "text"):
        parts["text"] = text_page(seeds=5)
    given.to.write_text("".join(parts.values()))


def text_page(*, seeds: int) -> str:
    """Return the part of the page on sentences."""
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        for name in TEXTS:
            for figures in measured_text(name, seed=seed):
                found.append(figures)
                print(figures, flush=True)
    return text_section(pd.DataFrame(found))


def classes_page(*, most: int, seeds: int) -> str:
    """Return the part of the page on classes of tables."""
    rows: list[dict[str, Any]] = []
    for name in TABLES:
        for seed in range(seeds):
            rows += measured(name, most=most, seed=seed)
        print(
            pd.DataFrame(rows).query("table == @name").groupby(["epsilon", "line"]).auc.mean(),
            flush=True,
        )
    return page(pd.DataFrame(rows), most=most)


if __name__ == "__main__":
    main()
