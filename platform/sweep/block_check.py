"""One model with M canaries against blocks of them, to see whether sharing a model matters.

Memorization games are independent only if every canary has a model of its own. Malek et al. 2021
(supplement, section C, Table 5) put 1,000 canaries into one model, and justify it by ten models of
100 each, whose intervals for epsilon_m agree. Here each of the eleven is a sweep of its own, since
one vault holds one set of labels; blocks share no canary. Their evidence is pooled as if it had
come from one model.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp.mechanisms.auditing import memorization_interval_from_pairs
from labeldp.platform.cluster import connected
from labeldp.platform.records.results import (
    TrialRecord,
    close_results,
    dumps,
    records_in,
    write_text,
)
from labeldp.platform.records.tracking_address import default_uri
from labeldp.platform.report.ledger import OF_ALL
from labeldp.platform.settings.configuration import LOCAL_KEYS
from labeldp.platform.settings.metrics import chosen_by
from labeldp.platform.settings.sweep import Sweep, SweepOptions
from labeldp.platform.sweep.driver import run_sweep
from labeldp.platform.sweep.plan import TOGETHER, parts_of, prepare
from labeldp.platform.sweep.recorder import SweepOutcome
from labeldp.platform.vault.audits import AttackEvidence, evidence_path
from labeldp.trainers.data.files import inner_folder, owner_only


@dataclass(frozen=True, kw_only=True)
class BlockOutcome(SweepOutcome):
    """The sum over all sweeps, and a row for each trial that finished in every one of them."""

    rows: Sequence[Mapping[str, Any]]


@owner_only()
def run_blocks(sweep: Sweep, options: SweepOptions) -> BlockOutcome:
    """Run a sweep with all its canaries at once, and again for each block of them; compare.

    Every label takes part in all of these runs: what it has paid is the sum over them.
    """
    parts = parts_of(sweep, options)
    audit = prepare(sweep, options)[1][0].config.audit
    for each in parts.values():
        prepare(*each)  # a block that is refused is refused before the first run pays
    root = options.results.expanduser().absolute()
    started = time.monotonic()
    outcomes: dict[str, SweepOutcome] = {}
    close_results(root)  # tracking of all runs lies here
    inner_folder(root / TOGETHER)  # a start that is cut off leaves a folder of results
    with connected(options.address):
        for name, (part, given) in parts.items():
            spent = (time.monotonic() - started) / 60
            minutes = options.max_minutes
            outcomes[name] = run_sweep(
                part,
                replace(
                    given,
                    tracking_uri=options.tracking_uri or default_uri(root),
                    # Runs whose time is over start all the same, to report their remaining trials.
                    max_minutes=None if minutes is None else max(1e-3, minutes - spent),
                ),
            )
    rows = compare(root, parts=list(parts), confidence=audit.confidence)
    write_text(root / "blocks.csv", pd.DataFrame(rows).to_csv(index=False))
    write_text(root / "blocks.md", table(rows))
    first = outcomes[TOGETHER]
    every = list(outcomes.values())
    counts = ("trials", "finished", "failed", "skipped", "over_budget", "left")
    # The runs' labels are the same people's: releases from different vaults add up.
    return BlockOutcome(
        experiment=sweep.name,
        tracking_uri=first.tracking_uri,
        parent_run_id=first.parent_run_id,
        **{count: sum(getattr(each, count) for each in every) for count in counts},
        results_dir=str(root),
        pareto=first.pareto,
        ledger={key: sum(each.ledger[key] for each in every) for key in OF_ALL},
        report=str(root / "blocks.md"),
        tracked=all(each.tracked for each in every),
        league=first.league,
        rows=rows,
    )


def compare(root: Path, *, parts: Sequence[str], confidence: float) -> list[dict[str, Any]]:
    """Compare the results of the sweeps below `root`, the first part with all others pooled.

    A row holds the published interval of one model (`paper`) and of the blocks pooled
    (`paper_blocks`), the intervals that hold (`corrected...`), and whether the published agree.
    """
    kept = [
        {
            _settings_of(record): record
            for record in records_in(root / name).values()
            if record.finished
        }
        for name in parts
    ]
    rows = []
    for identity in kept[0]:
        read = [
            AttackEvidence.read(evidence_path(root / name, records[identity].hash))
            for name, records in zip(parts, kept, strict=True)
            if identity in records
        ]
        evidence = [each for each in read if each is not None]
        if len(evidence) < len(parts):
            continue  # a trial that failed somewhere is in its sweep's report
        record, *blocks = (records[identity] for records in kept)
        alone = evidence[0]
        pooled = AttackEvidence.pooled(evidence[1:])
        once = memorization_interval_from_pairs(alone.own, alone.others, confidence)
        again = memorization_interval_from_pairs(pooled.own, pooled.others, confidence)
        metric = chosen_by([record.metrics]).metric
        accuracies = [block.metrics[metric] for block in blocks]
        intervals = {
            "paper": once.paper,
            "paper_blocks": again.paper,
            "corrected": once.corrected,
            "corrected_blocks": again.corrected,
        }
        rows.append(
            {
                "variant": record.variant,
                "epsilon": record.metrics["epsilon"],
                "accuracy": record.metrics[metric],
                "accuracy_blocks": math.fsum(accuracies) / len(accuracies),
                "canaries": once.canaries,
                "blocks": len(blocks),
                **record.point,
                **{f"{name}_low": each.epsilon_low for name, each in intervals.items()},
                **{f"{name}_high": each.epsilon_high for name, each in intervals.items()},
                "agree": once.paper.epsilon_low <= again.paper.epsilon_high
                and again.paper.epsilon_low <= once.paper.epsilon_high,
            }
        )
    return rows


def _settings_of(record: TrialRecord) -> str:
    """Return what trials of one model have in common: all that decides it but their canaries.

    The price of a count is each folder's own.
    """
    own = {*LOCAL_KEYS, "audit.canaries", "audit.canary_block", "audit.coin_canaries"}
    own |= {"evaluation.epsilon"}
    same = {key: value for key, value in record.config.items() if key not in own}
    return dumps([record.variant, record.point, same])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the comparison as Markdown."""
    if not rows:
        return "No trial finished with all canaries and with every block.\n"
    canaries = rows[0]["canaries"]
    blocks = rows[0]["blocks"]
    text = pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format)
    return (
        f"One model with 1 x {canaries} canaries, and `blocks` of {blocks} x {canaries // blocks}. "
        "`paper` is epsilon_m as published, `agree` whether these intervals overlap.\n\n"
        f"```text\n{text}\n```\n"
    )
