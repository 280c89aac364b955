"""Evidence for a privacy officer: a published trial in the words of two public forms.

`registry_record` is an entry of OpenDP's Deployment Registry
(https://github.com/opendp/deployments-registry-data), `answers` a page with the questions of NIST
SP 800-226. Both are made of what a published folder has. What only people know stays to be filled
in, and says so.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from labeldp.mechanisms.randomness import NoiseKind, is_private
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.card import render
from labeldp.platform.report.ledger import LedgerLine, sentences
from labeldp.platform.report.selection import Selected
from labeldp.platform.report.wording import counted, price
from labeldp.platform.settings.methods import name_of

PAGE = "nist_sp_800_226.md"
TO_FILL_IN = "TO BE FILLED IN BY THE OWNER"


def registry_record(
    public: TrialRecord,
    chosen: Selected,
    lines: Sequence[LedgerLine],
    *,
    has_model: bool,
    of_persons: bool,
) -> dict[str, Any]:
    """Return a draft of a record of the registry, for all three of its tiers.

    Args:
        public: The trial's public values.
        chosen: What it cost, alone and with its choice; the larger price is stated.
        lines: Of the ledger, behind the trial.
        has_model: Whether its model is published, and not only its figures.
        of_persons: Whether all labels of a person are the unit of privacy.

    Raises:
        ValueError: The trial has no guarantee to state.
    """
    cost = chosen.together
    if not is_private(cost.epsilon, public.noise):
        raise ValueError(
            "--registry states a guarantee, and this trial has none, or not for its choice: its "
            "epsilon is infinite, or its noise came from a seed; publish it without --registry"
        )
    unit = "all labels of one person" if of_persons else "one label"
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


def answers(record: dict[str, Any], *, noise: NoiseKind) -> str:
    """Return the page for NIST SP 800-226 of a record of the registry, as Markdown."""
    exact = noise is NoiseKind.SECURE
    return render("nist.md.jinja", exact=exact, to_fill_in=TO_FILL_IN, **record["deployment"])
