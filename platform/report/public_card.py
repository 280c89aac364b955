"""The public run card: one page that says what a published model is, and what is guaranteed.

It is written anew from public values. The owner's card (`records/run_card.py`) has more, and stays.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.api.methods import name_of
from labeldp.platform.report.folder_ledger import LedgerLine
from labeldp.platform.report.ledger_words import counted, price, sentences
from labeldp.platform.report.public_values import PublicTrial
from labeldp.platform.report.selection import HowChosen
from labeldp.platform.report.total_ledger import Total
from labeldp.platform.sweep.accuracy_figures import beyond_text, estimate_of, majority_text


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """What a card is made of.

    Attributes:
        trial: Public values.
        lines: The releases that it read.
        cost: What those cost, by the ledger.
        choice: How it was chosen.
        num_labels: How many labels there were to train on; None where that was not kept.
        has_model: Whether its model lies beside the card.
    """

    trial: PublicTrial
    lines: Sequence[LedgerLine]
    cost: Total
    choice: HowChosen
    num_labels: int | None
    has_model: bool


def public_card(facts: CardFacts) -> str:
    """Return the card as Markdown."""
    trial = facts.trial
    return (
        "\n".join(
            [
                f"# {_method(trial)}, trained on {trial.data}",
                "",
                f"Trial `{trial.name}`, trainer `{trial.method}`, training seed "
                f"{trial.config.get('seed', 'unknown')}"
                f"{f', data {trial.fingerprint[:16]}' if trial.fingerprint else ''}.",
                "",
                *_warnings(facts),
                "| | |",
                "|---|---|",
                *_figures(facts),
                "",
                "## What is guaranteed",
                "",
                _guarantee(facts),
                "",
                _choice(facts),
                "",
                _noise(trial.noise),
                "",
                "## What was released of the labels",
                "",
                *(f"- {sentence}" for sentence in sentences(facts.lines, public=True)),
                "",
                "`ledger.json` has the same for programs.",
                "",
                "## What is in this folder, and what is not",
                "",
                _contents(facts),
            ]
        )
        + "\n"
    )


def _method(trial: PublicTrial) -> str:
    """The method in words, as reports call it."""
    if str(trial.config.get("trainer.noise")) == "RANDOMIZED_RESPONSE":
        return "randomized response"  # a sweep's line; Bayes' rule is how all of them train
    words = name_of(trial.config).replace("_", " ")
    return words.upper() if words in ("alibi", "agibi", "pate", "lp 2st", "lp 3st") else words


def _warnings(facts: CardFacts) -> list[str]:
    """What a reader must know before any number; nothing for an ordinary trial."""
    said = []
    if not facts.trial.finished:
        said.append(
            "This trial FAILED: there is nothing here but its settings and what was released."
        )
    if math.isinf(facts.cost.epsilon):
        said.append(
            "NO PRIVACY: what is here was made of the true labels without noise, and may tell any "
            "of them. It was published on the owner's explicit word."
        )
    if facts.trial.noise is NoiseKind.SEEDED:
        said.append(
            "NO PRIVACY TOWARDS WHO KNOWS THE SEED: the noise is repeatable, and the seed takes it "
            "off again. It was published on the owner's explicit word."
        )
    return [line for text in said for line in (f"**{text}**", "")]


def _figures(facts: CardFacts) -> list[str]:
    metrics, cost = facts.trial.metrics, facts.cost
    rows = [f"| league | {facts.trial.features.words} |"]
    if "accuracy" in metrics:
        rows.append(f"| accuracy, public test split, last epoch | {metrics['accuracy']:.4f} |")
    found = estimate_of(metrics)
    if found is not None:
        low, high = found.interval()
        beyond = beyond_text(found.accuracy)
        rows.append(
            f"| accuracy, estimated on held-out labels, 95% interval {low:.4f} to {high:.4f}"
            f"{f'; {beyond}' if beyond else ''} | {found.accuracy:.4f} |"
        )
    if majority := majority_text(metrics):
        rows.append(f"| largest class | {majority} |")
    rows.append(f"| epsilon, provable | {_number(cost.epsilon)} |")
    rows.append(f"| delta | {cost.delta:g} |")
    choice = facts.choice.cost
    rows.append(
        f"| epsilon with the choice of this trial | {_number(choice.epsilon)} at delta "
        f"{choice.delta:g} |"
    )
    if "epsilon_sanitized" in metrics:
        rows.append(
            "| published price of its answers at the votes that were cast, known afterwards only; "
            "with more than two classes it covers one direction of a change and not both | "
            f"{_number(metrics['epsilon_sanitized'])} |"
        )
    replaced = facts.trial.replaced
    if replaced is not None:
        of = "" if facts.num_labels is None else f" of {facts.num_labels:,}"
        rows.append(f"| labels that were replaced on purpose, to audit it | {replaced:,}{of} |")
    return rows


def _guarantee(facts: CardFacts) -> str:
    if math.isinf(facts.cost.epsilon):
        return "Nothing."
    return (
        f"({_number(facts.cost.epsilon)}, {facts.cost.delta:g})-label differential privacy: "
        "another value of any one training label changes the probability of whatever is made of "
        "the releases below, the model, its predictions and its accuracy, by a factor of "
        f"e^{_number(facts.cost.epsilon)} at most"
        + (f", but for a probability of {facts.cost.delta:g}" if facts.cost.delta else "")
        + ". Features, the test split and the names of the classes are public and not protected. "
        "The unit is one label: who has ten of them has ten times the epsilon."
    )


def _choice(facts: CardFacts) -> str:
    choice = facts.choice
    cost = price(choice.cost.epsilon, choice.cost.delta)
    if choice.learned:
        return (
            "Its sweep learned: what earlier trials found decided which settings came next, or how "
            "long trials ran. The epsilon above is therefore that of all releases which may have "
            "had a say in this trial, and not of its own alone. For who knows of all of the "
            f"sweep's {choice.among} trials, their releases cost {cost}."
        )
    if choice.among == 1 and choice.cost.releases == facts.cost.releases:
        return "No other trial of its sweep could have been chosen."
    number = counted(choice.among, "trial")
    how = f"This trial is one of {number}, and its owner named it"
    if choice.by:
        how = f"This trial was chosen for the best {choice.by} of {number}"
    return (
        f"{how}. The epsilon above is that of its own releases, for a reader who sees nothing "
        "else. The choice depends on the other trials' releases too, those of trials that failed "
        f"or were cut off included: with the choice, all those releases cost {cost}."
    )


def _noise(noise: NoiseKind) -> str:
    match noise:
        case NoiseKind.SECURE:
            return (
                "The noise came from the operating system's entropy and was drawn exactly, so that "
                "no bit of a floating-point number tells more than epsilon says."
            )
        case NoiseKind.PLAIN:
            return (
                "The noise came from the operating system's entropy, as plain floating-point "
                "numbers, the last bits of which may tell more than epsilon says to who sees the "
                "releases themselves; they are not in this folder."
            )
        case NoiseKind.SEEDED:
            return "The noise came from a seed, which is not in this folder."


def _contents(facts: CardFacts) -> str:
    model = (
        "The trained model is in `model/`"
        if facts.has_model
        else "There is no model, since none was kept or wanted"
    )
    return (
        f"{model}; the settings are in `config.json`, what was charged in `ledger.json`. With the "
        "owner of the labels stay the labels, the releases, what audits found, every figure that "
        "was computed from true labels, which labels were replaced, and all settings that are text "
        "(paths, names of columns)."
    )


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.4g}"
