"""The run card: one page that explains what a trial's numbers mean, and what they don't.

It has an audience. The public card is made of a public record (`publish.public_record`), and
never has what the labels' owner alone may see: audits, canaries, numbers made of true labels.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from labeldp.mechanisms.guess_risk import guesses_after, risk_in_words
from labeldp.mechanisms.ledger import shown
from labeldp.mechanisms.randomness import NoiseKind, is_private
from labeldp.mechanisms.release_store import write_event
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.ledger import Audience, LedgerLine, sentences
from labeldp.platform.report.selection import Selected
from labeldp.platform.report.wording import bound, counted, number, price
from labeldp.platform.settings.configuration import Checkpoint, spoiled_text
from labeldp.platform.settings.methods import name_of, release_of_stack
from labeldp.platform.settings.metrics import (
    DAGGER,
    SCORES,
    attack_published,
    estimate_of,
    figure_text,
    majority_text,
    share_text,
    stack_text,
)

NIST_PAGE = "nist_sp_800_226.md"
TO_FILL_IN = "TO BE FILLED IN BY THE OWNER"
TEMPLATES = Path(__file__).parent / "templates"
#: Audit -> its part in names of figures, and that of the coins it guessed.
_AUDITS = {
    "one-run audit: epsilon is at least": ("one_run", "one_run"),
    "f-DP audit (the curve that is claimed): at least": ("f_dp", ""),
    "tight audit (the noise that is claimed): at least": ("tight", ""),
    "release audit (the noisy labels alone): at least": ("release", "release"),
}


@cache
def _templates() -> Environment:
    """Return the templates; those of HTML escape their values."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=lambda name: not (name or "").endswith(".md.jinja"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    filters: dict[str, Any] = {"limit": bound, "anchor": anchor}
    made.filters |= filters
    made.globals |= {
        "style": Markup((TEMPLATES / "page.css").read_text()),
        "script": Markup((TEMPLATES / "page.js").read_text()),
        "glossary": json.loads((TEMPLATES / "glossary.json").read_text()),
        "counted": counted,
        "bound": _bound,
        "shown": shown,
        "risk": risk_in_words,
        "dagger": DAGGER,
        "infinity": math.inf,
    }
    return made


def render(template: str, **parts: object) -> str:
    """Return a page or a card made from a template."""
    made: str = _templates().get_template(template).render(**parts)
    return made


def anchor(word: str) -> str:
    """Return the name that pages link to a word of the glossary by."""
    return "word-" + "".join(c if c.isalnum() else "-" for c in word)


def run_card(
    record: TrialRecord, charges: Sequence[Charge], *, num_labels: int | None = None
) -> str:
    """Return a trial's card for the labels' owner, as Markdown; `num_labels` is N, where known."""
    spoiled = spoiled_text(record.canaries, num_labels=num_labels) if record.canaries else ""
    metrics = record.metrics
    return render(
        "run_card.md.jinja",
        owner=True,
        record=record,
        title=record.variant,
        facts=facts(record, Audience.OWNER),
        epsilon=metrics["epsilon"],
        delta=metrics["delta"],
        of_persons=_of_persons(record),
        releases=map(_release, charges),
        audits=audits_of(record),
        spoiled=spoiled,
        attacked=not record.canaries or record.canaries[0] > 0,
        fruitless=metrics.get("epsilon_m_ceiling") == 0,
    )


def public_card(
    record: TrialRecord,
    chosen: Selected,
    lines: Sequence[LedgerLine],
    *,
    fingerprint: str,
    replaced: int | None,
    num_labels: int | None,
    has_model: bool,
) -> str:
    """Return the card of a published trial, as Markdown.

    Args:
        record: The trial's public values.
        chosen: Its cost, and that of the trials among which it was chosen.
        lines: Of the ledger, for its releases.
        fingerprint: Of the data.
        replaced: Number of labels that were spoiled to audit it; None where that is not known.
        num_labels: Number of labels; None where that is not known.
        has_model: Whether a model is published beside the card.
    """
    cost = chosen.cost
    together = chosen.together
    rows = facts(record, Audience.PUBLIC, cost=(cost.epsilon, cost.delta), choices=chosen.among)
    choice = f"{_bound(together.epsilon)} at delta {shown(together.delta)}"
    rows["epsilon with the choice of this trial"] = choice
    if replaced is not None:
        of = "" if num_labels is None else f" of {num_labels:,}"
        rows["labels that were replaced on purpose, to audit it"] = f"{replaced:,}{of}"
    return render(
        "run_card.md.jinja",
        owner=False,
        record=record,
        title=f"{name_of(record.config)}, trained on {record.config['data.name']}",
        facts=rows,
        epsilon=cost.epsilon,
        delta=cost.delta,
        of_persons=_of_persons(chosen.record),
        releases=sentences(lines, public=True),
        fingerprint=fingerprint[:16],
        chosen=chosen,
        alone=chosen.among == 1 and together.releases == cost.releases,
        trials=counted(chosen.among, "trial"),
        price=price(together.epsilon, together.delta),
        has_model=has_model,
    )


def facts(
    record: TrialRecord,
    audience: Audience,
    *,
    cost: tuple[float, float] | None = None,
    choices: int = 1,
) -> dict[str, str]:
    """Return the table of a card; the public sees nothing of attacks.

    The trial is one of so many `choices`, for which the interval of its accuracy is corrected.
    """
    metrics = record.metrics
    config = record.config
    found: dict[str, str] = {"league": record.features_from.words}
    if "accuracy" in metrics:
        last = config.get("evaluation.checkpoint", Checkpoint.LAST) == Checkpoint.LAST
        epoch = "last epoch" if last else "best epoch by the same labels: too high"
        found[f"accuracy, public test split, {epoch}"] = f"{metrics['accuracy']:.2%}"
    estimate = estimate_of(metrics)
    if estimate is not None:
        low, high = (f"{end:.2%}" for end in estimate.interval(choices=choices))
        corrected = f", corrected for the choice among {choices}" if choices > 1 else ""
        found[f"accuracy, estimated on held-out labels{corrected}"] = (
            f"{share_text(estimate.accuracy, digits=2)}, standard error {estimate.error:.2%}, 95% "
            f"interval {low} to {high}"
        )
    found |= _scores(metrics, choices)
    epsilon, delta = cost or (metrics["epsilon"], metrics["delta"])
    if (majority := majority_text(metrics)) and math.isfinite(epsilon):
        found["largest class"] = majority
    found["epsilon, provable"] = _bound(epsilon)
    found["delta"] = shown(delta)
    if math.isfinite(epsilon):
        # Of the trial's own releases alone.
        mu = metrics.get("gaussian_mu") if epsilon == metrics.get("epsilon") else None
        found["best guess of one label"] = risk_in_words(epsilon=epsilon, delta=delta, mu=mu)
        if mu is not None:
            found["Gaussian DP, mu"] = number(mu)
    if "epsilon_sanitized" in metrics:
        found[
            "published cost of its answers for the actual votes, known only afterwards; with more "
            "than two classes it covers one direction of a change"
        ] = _bound(metrics["epsilon_sanitized"])
    if audience is Audience.OWNER:
        found |= attack_of(record)
    if "answered_by_teachers" in metrics:
        queries = config.get("trainer.ensemble.queries")
        of = "" if queries is None else f" of {queries} queries"
        found["answers of teachers"] = f"{metrics['answered_by_teachers']:.0f}{of}"
    if (share := metrics.get("stack/information")) is not None:
        found["reason for this release"] = release_of_stack(share)[1]
        mixed = "models by weight (held-out log-likelihood of the release)"
        found[mixed] = stack_text(metrics)
    found["noise"] = record.noise.value
    found["releases read"] = str(len(record.release_keys))
    if "train_seconds" in metrics:
        found["training time"] = f"{metrics['train_seconds']:.1f} s"
    if record.git_commit:
        found["code"] = record.git_commit[:12]
    return found


def guess_of(metrics: Mapping[str, float]) -> float:
    """Return the largest probability of guessing a label right, if it was 1/2 before."""
    epsilon = metrics["epsilon"]
    delta = metrics["delta"]
    mu = metrics.get("gaussian_mu")
    return guesses_after(epsilon=epsilon, delta=delta, mu=mu)[0.5]


def _scores(metrics: Mapping[str, float], choices: int) -> dict[str, str]:
    """Figures of scores; the class prior, and the threshold that follows from it."""
    corrected = ", not corrected for the choice" if choices > 1 else ""
    found = {SCORES[name]: f"{metrics[name]:.4f}" for name in SCORES if name in metrics}
    words = {**SCORES, "positive_share": "share of the second class"}
    for name in words:
        if (estimated := f"{name}_estimated") in metrics:
            value, low, high = (
                figure_text(name, metrics[f"{estimated}{end}"]) for end in ("", "_low", "_high")
            )
            found[f"{words[name]}, estimated on held-out labels{corrected}"] = (
                f"{value}, 95% interval {low} to {high}"
            )
    if (threshold := metrics.get("threshold_estimated")) is not None:
        found["score that the estimated share of the second class exceeds"] = f"{threshold:.4g}"
    return found


def attack_of(record: TrialRecord) -> dict[str, str]:
    """Return the finding of the memorization attack, for the owner of the labels."""
    metrics = record.metrics
    config = record.config
    if record.canaries and record.canaries[0] == 0:
        return {"epsilon_m": "none: no label was spoiled for the attack"}
    if metrics.get("epsilon_m_ceiling") == 0:
        return {}
    dagger = f"{DAGGER} (lower end at delta 0 only)" if metrics["delta"] > 0 else ""
    attack = f"{metrics['epsilon_m_low']:.3f} to {_bound(metrics['epsilon_m_high'])}{dagger}"
    if "epsilon_m_ceiling" in metrics:
        attack += f", ceiling {metrics['epsilon_m_ceiling']:.3f}"
    if record.canaries:
        attack += f" ({record.canaries[0]} canaries, confidence {config.get('audit.confidence')})"
    return {"epsilon_m": attack}


def audits_of(record: TrialRecord) -> dict[str, str]:
    """Return the other audits' findings, all of which come from canaries' secret labels."""
    metrics = record.metrics
    if "epsilon_m_paper_low" not in metrics or record.canaries == (0, 0):
        return {}
    found = {}
    if attack_published(metrics):
        paper = f"{metrics['epsilon_m_paper_low']:.3f} to {_bound(metrics['epsilon_m_paper_high'])}"
        found["epsilon_m as published, an estimate"] = paper
    for name, (audit, guessed) in _AUDITS.items():
        if f"private/epsilon_{audit}" not in metrics:
            continue
        coins = ""
        if guessed:
            right, of = (metrics[f"private/{guessed}_{n}"] for n in ("correct", "guesses"))
            coins = f"{right:.0f} of {of:.0f} coins right; "
        ceiling = metrics[f"epsilon_{audit}_ceiling"]
        found[name] = f"{metrics[f'private/epsilon_{audit}']:.3f} ({coins}ceiling {ceiling:.3f})"
    if "private/label_inference_advantage" in metrics:
        inferred = (metrics[f"private/label_inference_{n}"] for n in ("advantage", "accuracy"))
        found["label inference: advantage over guessing"] = (
            "{:.3f} ({:.3f} right; ".format(*inferred)
            + f"label DP allows an advantage of {metrics['label_inference_bound']:.3f})"
        )
    return found


def _of_persons(record: TrialRecord) -> bool:
    """Whether all labels of a person are the unit of privacy, and not each label."""
    return bool(record.config.get("data.group_column"))


def _release(charge: Charge) -> str:
    touched = "all labels" if charge.indices is None else f"{len(charge.indices)} labels"
    parameters = {k: v for k, v in charge.mechanism.items() if k not in ("name", "noise")}
    return (
        f"`{charge.key}`: {charge.mechanism['name']} {parameters} on {touched}, "
        f"charged {write_event(charge.event)}"
    )


def _bound(value: float) -> str:
    return "infinite" if math.isinf(value) else bound(value)


def registry_record(
    public: TrialRecord,
    chosen: Selected,
    lines: Sequence[LedgerLine],
    *,
    has_model: bool,
) -> dict[str, Any]:
    """Return a draft of a record of the registry, for all three of its tiers.

    The price is that with the choice of the trial, of whose ledger `lines` are. `has_model` says
    whether more than figures is published.

    Raises:
        ValueError: The trial has no guarantee to state.
    """
    cost = chosen.together
    if not is_private(cost.epsilon, public.noise):
        raise ValueError(
            "--registry states a guarantee, and this trial has none, or not for its choice: its "
            "epsilon is infinite, or its noise came from a seed; publish it without --registry"
        )
    unit = "all labels of one person" if _of_persons(chosen.record) else "one label"
    deployment = {
        "basic": {
            "name": f"{name_of(public.config)} on {public.config['data.name']}",
            "data_curators": [TO_FILL_IN],
            "description": "A classifier trained with label differential privacy.",
            "intended_use": TO_FILL_IN,
            "data_product_type": "Machine learning model" if has_model else "Summary statistics",
            "data_product_region": TO_FILL_IN,
            "publication_date": datetime.now(UTC).date().isoformat(),
        },
        "dp_variant": {
            "variant_name": "Approximate DP" if cost.delta else "Pure DP",
            "unprotected_quantities": "Features, the number of labels, names of classes and "
            "columns, and a public test split if there is one.",
        },
        "privacy_loss": {
            "privacy_unit": unit,
            "privacy_unit_details": f"Neighbors differ in the value of {unit}; features are equal.",
            "privacy_parameters": {"epsilon": float(cost.epsilon), "delta": float(cost.delta)},
            "privacy_parameters_details": "The releases of this trial alone cost "
            f"{price(chosen.cost.epsilon, chosen.cost.delta)}; with the choice among "
            f"{counted(chosen.among, 'trial')}, {price(cost.epsilon, cost.delta)}.",
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": "The owner of the labels holds them, draws the noise and publishes; anybody "
            "may read what is published.",
            "release_type": "One release" if cost.releases == 1 else "Many releases",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "composition": f"A ledger has {counted(cost.releases, 'release')}, each charged once. "
            "The total is the smaller of the sum of pure prices and a bound by exact Gaussian and "
            "Renyi accounting at delta. The price of choosing a trial is in it.",
            "post_processing": "Training reads releases and features alone, and no label.",
        },
        "implementation": {
            "mechanisms": " ".join(sentences(lines, public=True)),
            "preprocessing_and_hyperparameter_tuning": "Features are prepared without labels. "
            "Settings that were chosen by results are charged for.",
        },
        "administrative": {"registry_authors": [TO_FILL_IN]},
    }
    slug = f"labeldp-{public.hash}"
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}


def nist_answers(record: dict[str, Any], *, noise: NoiseKind) -> str:
    """Return the page for NIST SP 800-226 of a record of the registry, as Markdown."""
    exact = noise is NoiseKind.SECURE
    return render("nist.md.jinja", exact=exact, to_fill_in=TO_FILL_IN, **record["deployment"])
