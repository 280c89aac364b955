"""The ledger of a shared vault, which grows: people by the release with which they joined.

Fits and requests of one vault name their people. Early ones that later releases name again pay for
all of them, and late ones for those since they joined.
"""

from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices, stated
from labeldp.platform.report.wording import counted, price, what_of
from labeldp.platform.vault.shared_vault import joint_ledger, kept_fits


def is_shared_vault(folder: Path) -> bool:
    """Whether this is the folder of a shared vault, and not one of a sweep's results."""
    return (folder / "fits").is_dir() and not (folder / "sweep.json").exists()


def vault_ledger(folder: Path, *, delta: float | None = None) -> dict[str, Any]:
    """Return what the people of a vault have paid, for `labeldp ledger --json`; reads only.

    `epsilon` is of the person who paid most, at `delta`, as are all others; `epsilon_private` and
    those of `cohorts` leave out releases that handed labels out. A cohort has the number and the
    day of its first release, and the epsilons of those in it who paid least and most.
    """
    fits = kept_fits(folder)
    lines = sorted(
        ((made, charge, side) for side, kept in fits for charge, made in kept.lines),
        key=lambda line: line[0],
    )
    noisy = [
        (side, [charge for charge, _ in kept.lines if not charge.hands_out]) for side, kept in fits
    ]
    asked = USUAL_DELTA if delta is None else delta
    at = delta_of_total([charge for _, charges in noisy for charge in charges], delta=asked)
    ledger, everybody = joint_ledger(noisy)
    total = stated(ledger.epsilon_or_infinity(delta=at))
    paid = ledger.epsilon_per_label(delta=at) if isfinite(total) else np.full(len(everybody), total)
    words, told = [f"{folder}: {counted(len(lines), 'release')}"], []
    cohorts: list[dict[str, Any]] = []
    unseen = np.ones(len(everybody), dtype=bool)
    for number, (made, charge, side) in enumerate(lines, start=1):
        day, own = made.partition("T")[0], delta_of_total([charge], delta=asked)
        unit = "person" if side.grouping else "label"
        labels = side.num_labels if charge.indices is None else len(charge.indices)
        words.append(
            f"- {number}, {day}: {what_of(str(charge.mechanism.get('name')))}, "
            f"{price(epsilon_of_prices([charge], delta=own), own)} for each of "
            f"{counted(labels, unit)}"
        )
        if side.people is None:
            continue
        members = np.searchsorted(everybody, np.unique(side.names))
        members = members[unseen[members]]
        unseen[members] = False
        if len(members):
            least, most = (
                stated(float(each)) for each in (paid[members].min(), paid[members].max())
            )
            cohorts.append(
                {
                    "release": number,
                    "joined": day,
                    "people": len(members),
                    "epsilon_least": least,
                    "epsilon_most": most,
                }
            )
            spent = (
                price(most, at) if least == most else f"{price(least, at)} up to {price(most, at)}"
            )
            told.append(f"{len(members):,} joined with release {number} and have paid {spent}")
    bare = sum(charge.hands_out for _, charge, _ in lines)
    told.append(
        f"In all, nobody has paid more than {price(total, at)}"
        + (f", beside {counted(bare, 'release')} without any noise" if bare else "")
    )
    return {
        "epsilon": inf if bare else total,
        "epsilon_private": total,
        "epsilon_if_different": total,
        "delta": at,
        "cohorts": cohorts,
        "words": [*words, *told],
    }
