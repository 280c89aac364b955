"""`labeldp advise`: which method at which epsilon, what that means for a person, what to expect.

Nothing is released: labels are made up. Features are the user's, or made up as well. Real labels
may be harder or easier to learn, so that epsilons and methods are to be compared by these figures,
and no figure is a promise.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp.mechanisms import _validate
from labeldp.mechanisms.guess_risk import PRIORS, guess_after, percent
from labeldp.platform.api.classifier import LabelPrivateClassifier
from labeldp.platform.api.fitting import number_rows
from labeldp.platform.api.process_ledger import PrivacyAddsUp
from labeldp.platform.cli.command import Answer, table
from labeldp.platform.cli.parties import read_table
from labeldp.platform.report.wording import price
from labeldp.platform.settings.methods import named

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
#: The smallest epsilon that loses at most this much of the figure without privacy is advised.
CLOSE = 0.05
#: Rows that are simulated at most, which take seconds; a fifth of them are test rows.
MOST_ROWS = 4000
#: Fewer rows of a class show nothing.
_OF_A_CLASS = 50
#: Made-up features, and the share of made-up labels that no feature explains.
_FEATURES = 10
_NOISE = 0.1


def advise(
    *,
    rows: int | None,
    classes: int,
    rare: float | None,
    persons: int | None,
    features: str | None,
    seed: int | None,
) -> Answer:
    """Advise on a method and an epsilon for N `rows` of K `classes`.

    `rare` is the share of the rarest class, `persons` the number of people behind the rows,
    `features` a file of public features.
    """
    if rare is not None:
        _validate.between(0, 0.5, rare=rare)
    generator = np.random.default_rng(seed)
    given: NDArray[Any] | None = None
    if features is not None:  # as a fit reads them
        given = number_rows(read_table(features), num_classes=classes).scaled
    rows = rows or (None if given is None else len(given))
    if rows is None:
        raise ValueError("state how many labels there are with --rows, or name --features FILE")
    used = min(rows, persons or rows)
    fewest = min(used, used if given is None else len(given))
    if fewest < _OF_A_CLASS * classes:
        what = "people" if fewest == persons else "rows"  # one row of each is used
        raise ValueError(
            f"{fewest} {what} are too few to learn {classes} classes from with any privacy: have "
            f"at least {_OF_A_CLASS * classes}, also in a file of --features, or join classes"
        )
    if given is None:
        given = generator.normal(size=(min(used, MOST_ROWS) * 5 // 4, _FEATURES))
    chosen = generator.permutation(len(given))[: min(used, MOST_ROWS) * 5 // 4]
    given = given[chosen]
    if rare is not None and rare * len(given) < _OF_A_CLASS:
        raise ValueError(
            f"rare is {rare:g}, but {len(given)} rows are simulated, too few for {_OF_A_CLASS} of "
            f"the rarest class: state --rare {_OF_A_CLASS / len(given):.2g} or more"
        )
    labels = _made_up(given, classes, rare, generator)
    score = _accuracy if rare is None else _rare_auc
    words = "accuracy" if rare is None else "ROC AUC"
    cut = len(given) * 4 // 5
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    best = score(plain.fit(given[:cut], labels[:cut]), given[cut:], labels[cut:])
    found: list[dict[str, Any]] = []
    for epsilon in EPSILONS:
        model = LabelPrivateClassifier(
            epsilon=epsilon, classes=classes, random_state=seed, noise_seed=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyAddsUp)  # the labels are nobody's
            model.fit(given[:cut], labels[:cut])
        paid = {"epsilon": epsilon, "delta": model.delta_}
        row: dict[str, Any] = {**paid, "method": model.method_, "reason": model.method_reason_}
        row["guess_after"] = {str(p): guess_after(p, **paid) for p in PRIORS}
        row["expected"] = score(model, given[cut:], labels[cut:])
        found.append(row)
    close = [each for each in found if each["expected"] >= best - CLOSE]
    advice = close[0] if close else found[-1]
    facts = {
        "rows": rows,
        "labels_used": used,
        "classes": classes,
        "simulated_rows": cut,
        "metric": words,
        "without_privacy": best,
        "epsilons": found,
        "advice": advice,
        "two_parties": {name: advice[name] for name in paid} | {"labels_charged": used},
    }
    return Answer(facts=facts, words=_in_words(facts, enough=bool(close), persons=persons))


def _in_words(facts: dict[str, Any], *, enough: bool, persons: int | None) -> list[Any]:
    advice = facts["advice"]
    metric = facts["metric"]
    near = f"within {CLOSE:g} of the {facts['without_privacy']:.3f} without privacy"
    why = f"the smallest epsilon with {metric} {near}" if enough else f"no epsilon is {near}"
    rows = [
        (
            f"{each['epsilon']:g}",
            each["method"],
            f"{each['expected']:.3f}",
            *(percent(guess) for guess in each["guess_after"].values()),
        )
        for each in facts["epsilons"]
    ]
    guesses = (f"guess of {100 * prior:.0f}% becomes, %" for prior in PRIORS)
    person = ""
    groups = "" if persons is None else ", groups=persons"
    column = "" if persons is None else " and labeldp release --person-column PERSON"
    if persons is not None and facts["labels_used"] < facts["rows"]:
        person = (
            f"One label of each of {persons:,} people is used (groups=, or data.group_column), so "
            "that epsilon covers a person."
        )
    cost = price(advice["epsilon"], advice["delta"])
    release = named(advice["method"]).release
    return [
        f"Use {advice['method']} at {cost}: {why}.",
        f"Why this method: {advice['reason']}.",
        *filter(None, [person]),
        *table(("epsilon", "method", f"{metric}, simulated", *guesses), rows),
        f"Labels were made up, of {facts['simulated_rows']:,} rows: compare epsilons by these "
        "figures, and do not expect them.",
        f'From Python: LabelPrivateClassifier("{advice["method"]}", epsilon='
        f"{advice['epsilon']:g}, classes=[...]).fit(X, y{groups})",
        f"Between two parties (labeldp request --method {release}{column}): one release, {cost} "
        f"for each of {facts['labels_used']:,} labels, whatever is fitted to it later. "
        "`labeldp release --dry-run` states its size.",
    ]


def _made_up(
    features: NDArray[Any], classes: int, rare: float | None, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return labels [N] that follow linearly from the features [N, F], but for some noise."""
    units = (features - features.mean(0)) / np.maximum(features.std(0), 1e-12)
    scores = units @ generator.normal(size=(units.shape[1], classes))
    scores += generator.normal(scale=3 * _NOISE * scores.std(), size=scores.shape)
    if rare is None:
        return np.asarray(scores.argmax(1), dtype=np.int64)
    labels = np.asarray(scores[:, 1:].argmax(1) + 1, dtype=np.int64)
    labels[scores[:, 0] > np.quantile(scores[:, 0], 1 - rare)] = 0
    return labels


def _accuracy(model: Any, features: NDArray[Any], labels: NDArray[np.int64]) -> float:
    return float(accuracy_score(labels, model.predict(features)))


def _rare_auc(model: Any, features: NDArray[Any], labels: NDArray[np.int64]) -> float:
    return float(roc_auc_score(labels == 0, model.predict_proba(features)[:, 0]))
