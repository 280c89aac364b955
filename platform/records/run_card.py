"""The run card: one page that says what a trial's numbers mean, and what they don't."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labeldp.mechanisms.release_store import write_event
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.accuracy_figures import beyond_text, estimate_of
from labeldp.platform.sweep.configuration import spoiled_text


def run_card(
    record: TrialRecord, charges: Sequence[Charge], *, num_labels: int | None = None
) -> str:
    """Return a trial's card as Markdown.

    Args:
        record: What the trial left behind.
        charges: The ledger's lines for the releases that it read.
        num_labels: N, labels that it was trained on, where that is known.
    """
    metrics, config = record.metrics, record.config
    epsilon, delta = metrics["epsilon"], metrics["delta"]
    lines = [
        f"# {record.variant}",
        "",
        f"Trial `{record.hash}` of method `{config['method']}` on `{config['data.name']}`, "
        f"training seed {config['seed']}.",
        "",
        "| | |",
        "|---|---|",
        f"| league | {record.features_from.words} |",
        *_accuracies(metrics),
        f"| epsilon, provable | {_number(epsilon)} |",
        f"| delta | {delta:g} |",
        *_attack(record),
        f"| training time | {metrics['train_seconds']:.1f} s |",
        "",
        "## What is guaranteed",
        "",
        _guarantee(epsilon, delta),
        "",
        _noise(config),
        "",
        "## Releases",
        "",
    ]
    for charge in charges:
        touched = "all labels" if charge.indices is None else f"{len(charge.indices)} labels"
        parameters = {k: v for k, v in charge.mechanism.items() if k not in ("name", "noise")}
        lines.append(
            f"- `{charge.key}`: {charge.mechanism['name']} {parameters} on {touched}, "
            f"charged {write_event(charge.event)}"
        )
    lines += _audits(record)
    lines += ["", "## Notes", "", f"- {_about_the_attack(record)}"]
    if record.canaries:
        canaries, coins = record.canaries
        told = spoiled_text(canaries=canaries, coin_canaries=coins, num_labels=num_labels)
        lines.append(f"- Labels: {told}.")
    return "\n".join(lines) + "\n"


def _accuracies(metrics: Mapping[str, float]) -> list[str]:
    """What was measured on the public test split, what was estimated on held-out labels."""
    lines = []
    if "accuracy" in metrics:
        lines.append(f"| accuracy, public test split, last epoch | {metrics['accuracy']:.4f} |")
    found = estimate_of(metrics)
    if found is not None:
        low, high = found.interval()
        lines.append(
            f"| accuracy, estimated on held-out labels, standard error {found.error:.4f}, 95% "
            f"interval {low:.4f} to {high:.4f}{_aside(found.accuracy)} | {found.accuracy:.4f} |"
        )
    return lines


def _aside(accuracy: float) -> str:
    beyond = beyond_text(accuracy)
    return f"; {beyond}" if beyond else ""


def _attack(record: TrialRecord) -> list[str]:
    """The memorization attack's interval, where there was one."""
    metrics = record.metrics
    if record.canaries and record.canaries[0] == 0:
        return ["| epsilon_m | none: no label was spoiled for the attack |"]
    attack = f"{metrics['epsilon_m_low']:.3f} to {_number(metrics['epsilon_m_high'])}"
    attack += ", lower end at delta 0 only" if metrics["delta"] > 0 else ""
    confidence = record.config["audit.confidence"]
    return [
        f"| epsilon_m, {record.config['audit.canaries']} canaries, confidence {confidence} | "
        f"{attack} |",
        f"| the most that so many canaries can certify | {metrics['epsilon_m_ceiling']:.3f} |",
    ]


def _audits(record: TrialRecord) -> list[str]:
    """What the audits found, all lines of which come from canaries' secret labels."""
    metrics = record.metrics
    if "epsilon_m_paper_low" not in metrics or record.canaries == (0, 0):
        return []
    paper = f"{metrics['epsilon_m_paper_low']:.3f} to {_number(metrics['epsilon_m_paper_high'])}"
    lines = [
        "",
        "## Audits, for the owner of the labels and not for release",
        "",
        "| | |",
        "|---|---|",
        f"| epsilon_m as published, an estimate | {paper} |",
    ]
    if "private/epsilon_one_run" in metrics:
        guesses = metrics["private/one_run_guesses"]
        lines.append(
            f"| one-run audit: epsilon is at least | {metrics['private/epsilon_one_run']:.3f} "
            f"({metrics['private/one_run_correct']:.0f} of {guesses:.0f} coins right; ceiling "
            f"{metrics['epsilon_one_run_ceiling']:.3f}) |"
        )
    if "private/epsilon_f_dp" in metrics:
        lines.append(
            "| ... if the mechanism has the curve that it claims | "
            f"{metrics['private/epsilon_f_dp']:.3f} (ceiling "
            f"{metrics['epsilon_f_dp_ceiling']:.3f}) |"
        )
    if "private/epsilon_tight" in metrics:
        lines.append(
            "| ... if each label got noise of the family that it claims | "
            f"{metrics['private/epsilon_tight']:.3f} (ceiling "
            f"{metrics['epsilon_tight_ceiling']:.3f}) |"
        )
        lines.append(
            "| the noisy labels themselves, within that family: at least | "
            f"{metrics['private/epsilon_release']:.3f} ({metrics['private/release_correct']:.0f} "
            f"of {metrics['private/release_guesses']:.0f} coins right; ceiling "
            f"{metrics['epsilon_release_ceiling']:.3f}) |"
        )
    if "private/label_inference_advantage" in metrics:
        lines.append(
            "| label inference: advantage over guessing | "
            f"{metrics['private/label_inference_advantage']:.3f} (label DP allows "
            f"{metrics['label_inference_bound']:.3f}) |"
        )
    return lines


def _about_the_attack(record: TrialRecord) -> str:
    """What a reader of epsilon_m must know."""
    metrics = record.metrics
    if record.canaries and record.canaries[0] == 0:
        return "There is no epsilon_m: this attack needs labels that are wrong on purpose."
    if metrics.get("epsilon_m_ceiling") == 0:
        return (
            "epsilon_m says nothing here: the attack compares a canary's wrong label with other "
            "wrong labels, and of two classes only one is wrong. See the one-run audit."
        )
    return (
        "epsilon_m comes from one trained model and its canaries: it bounds from below what this "
        "attack got out of this model, and says nothing of stronger attacks."
    )


def _guarantee(epsilon: float, delta: float) -> str:
    if math.isinf(epsilon):
        return "Nothing: this baseline trains on the true labels and has no privacy at all."
    kind = "pure" if delta == 0 else "approximate"
    return (
        f"({_number(epsilon)}, {delta:g})-label differential privacy ({kind}): substituting any "
        "one training label changes the probability of whatever is made of the releases below, the "
        "model and its accuracy, by at most that. Features and a public test split are not "
        "protected. Other trials of the sweep that read other releases add to it: the sweep's "
        "total is in its ledger. Not covered is what was computed from true labels, for their "
        "owner: epsilon_m and the other audits, an ensemble's own accuracy and its answers', and "
        "all that is named `private/`."
    )


def _noise(config: Any) -> str:
    if config["noise.seed"] is None:
        entropy = "The noise came from the operating system's entropy and can't be repeated."
        if config.get("noise.secure"):
            return (
                f"{entropy} It is secure: drawn exactly and released on a lattice, so that no bit "
                "of a floating-point number tells more than epsilon says."
            )
        return (
            f"{entropy} It is plain floating-point noise, the last bits of which may tell more "
            "than epsilon says; `noise.secure=true` draws noise that does not."
        )
    return (
        f"**The noise was drawn from seed {config['noise.seed']}, for a repeatable experiment. Who "
        "knows the seed can remove the noise: towards them there is no privacy.**"
    )


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.4g}"
