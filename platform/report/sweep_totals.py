"""Totals of one sweep's ledger as its JSON, its report, a remade one and tracking have them.

>>> sweep_totals([], SweepIdentity(), delta=1e-5)["epsilon_total"]
0.0
"""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from labeldp.mechanisms.release_store import Charge
from labeldp.platform.records.results import SweepIdentity
from labeldp.platform.report.learned_sweeps import plan_of
from labeldp.platform.report.total_ledger import Spending, spent_by, total_of

#: What a sweep's JSON has of its ledger, and what of the releases with noise by themselves.
OF_ALL = ("releases", "epsilon_releases", "epsilon_selection", "epsilon_total", "delta")
OF_PRIVATE = ("epsilon_private", "delta_private")


def sweep_totals(
    charges: Sequence[Charge], identity: SweepIdentity, *, delta: float
) -> dict[str, Any]:
    """Return the totals of a sweep.

    Every release is charged, whichever trial is picked in the end: choosing among them by the
    public test split, or by estimates of accuracy that are among those releases, is post-processing
    and costs nothing more. A sweep that learns is charged as `spent_by` says, and the difference is
    the price of choosing. A baseline that trains on labels as they are has an infinite price, which
    would hide all others: so what has noise is also summed up by itself.

    Args:
        charges: Lines of its ledger.
        identity: What `sweep.json` says.
        delta: At which epsilon is stated where releases are not pure.
    """
    lines = total_of([charges], delta=delta)
    total = spent_by([[Spending(charges=charges, plan=plan_of(identity))]], delta=delta)
    return {
        "releases": lines.releases,
        "epsilon_releases": lines.epsilon,
        "epsilon_selection": total.epsilon - lines.epsilon if isfinite(total.epsilon) else 0.0,
        "epsilon_total": total.epsilon,
        "delta": total.delta,
        "epsilon_private": total.epsilon_private,
        "delta_private": total.delta,
    }
