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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp.mechanisms.auditing import EpsilonInterval, memorization_interval_from_pairs
from labeldp.platform.records.private_files import owner_only, private_folder
from labeldp.platform.records.results import ResultsFolder, TrialRecord, write_text
from labeldp.platform.records.tracking_address import default_uri
from labeldp.platform.sweep.accuracy_figures import chosen_by
from labeldp.platform.sweep.cluster import connected
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.driver import run_sweep
from labeldp.platform.sweep.plan import prepare
from labeldp.platform.sweep.sweep import Sweep, SweepOptions
from labeldp.platform.sweep.sweep_report import SweepOutcome
from labeldp.platform.vault.audits import AttackEvidence, evidence_path

TOGETHER = "together"


@dataclass(frozen=True, kw_only=True)
class BlockRow:
    """One trial, trained once with all M canaries and once for each block.

    Attributes:
        paper: The published interval of one model.
        paper_blocks: The published interval of the blocks pooled.
        corrected: The interval that holds, of one model.
        corrected_blocks: The interval that holds, of the blocks pooled.
    """

    variant: str
    point: Mapping[str, Any]
    epsilon: float
    accuracy: float
    accuracy_blocks: float
    canaries: int
    blocks: int
    paper: EpsilonInterval
    paper_blocks: EpsilonInterval
    corrected: EpsilonInterval
    corrected_blocks: EpsilonInterval
    agree: bool


@dataclass(frozen=True, kw_only=True)
class BlockOutcome(SweepOutcome):
    """The sum over all sweeps, and a row for each trial that finished in every one of them."""

    rows: Sequence[BlockRow]


@owner_only()
def run_blocks(sweep: Sweep, options: SweepOptions, *, blocks: int) -> BlockOutcome:
    """Run a sweep with all its canaries at once, and again for each block of them; compare.

    Every label takes part in all of these runs: what it has paid is the sum over them. A budget is
    split evenly among the runs.
    """
    audit = prepare(sweep, options)[1][0].config.audit
    if audit.canary_block is not None:
        raise ConfigurationError("audit.canary_block is set, but this command runs every block")
    if not audit.canaries or audit.canaries % blocks:
        raise ConfigurationError(
            f"audit.canaries is {audit.canaries}, which {blocks} blocks can't share evenly; take a "
            f"multiple of {blocks}"
        )
    root = options.results.expanduser().absolute()
    parts: dict[str, dict[str, Any]] = {TOGETHER: {"audit.canaries": audit.canaries}}
    for block in range(blocks):
        size = audit.canaries // blocks
        parts[f"block-{block}"] = {"audit.canaries": size, "audit.canary_block": block}
    total, share, started = options.max_epsilon_total, sweep.budget, time.monotonic()
    if share is not None:
        size = len(parts)
        share = replace(share, epsilon=share.epsilon / size, delta=share.delta / size)
    outcomes: dict[str, SweepOutcome] = {}
    private_folder(root)  # tracking of all runs lies here
    with connected(options.address):
        for name, changes in parts.items():
            spent = (time.monotonic() - started) / 60
            minutes = options.max_minutes
            outcomes[name] = run_sweep(
                replace(sweep, name=f"{sweep.name}_{name}", budget=share),
                replace(
                    options,
                    results=root / name,
                    tracking_uri=options.tracking_uri or default_uri(root),
                    overrides={**options.overrides, **changes},
                    max_epsilon_total=None if total is None else total / len(parts),
                    # Runs whose time is over start all the same, to say that their trials are left.
                    max_minutes=None if minutes is None else max(1e-3, minutes - spent),
                ),
            )
    rows = compare(root, sweep=sweep.name, parts=list(parts), confidence=audit.confidence)
    _write_csv(rows, root / "blocks.csv")
    write_text(root / "blocks.md", table(rows))
    return _outcome(sweep.name, root, outcomes, rows)


def compare(root: Path, *, sweep: str, parts: Sequence[str], confidence: float) -> list[BlockRow]:
    """Compare what the sweeps below `root` left behind, the first part with all others pooled."""
    kept = {
        name: {
            _identity(record): record
            for record in ResultsFolder(root / name, sweep=f"{sweep}_{name}").records().values()
            if record.finished
        }
        for name in parts
    }
    first, others = parts[0], parts[1:]
    rows = []
    for identity, record in kept[first].items():
        members = {name: kept[name].get(identity) for name in others}
        blocks = [_evidence(root, name, member) for name, member in members.items()]
        alone = _evidence(root, first, record)
        if alone is None or any(block is None for block in blocks):
            continue  # a trial that failed somewhere is in its sweep's report
        pooled = AttackEvidence.pooled(block for block in blocks if block is not None)
        once = memorization_interval_from_pairs(alone.own, alone.others, confidence)
        again = memorization_interval_from_pairs(pooled.own, pooled.others, confidence)
        metric = chosen_by([record.metrics]).metric
        accuracies = [member.metrics[metric] for member in members.values() if member]
        rows.append(
            BlockRow(
                variant=record.variant,
                point=record.point,
                epsilon=record.metrics["epsilon"],
                accuracy=record.metrics[metric],
                accuracy_blocks=math.fsum(accuracies) / len(accuracies),
                canaries=once.canaries,
                blocks=len(blocks),
                paper=once.paper,
                paper_blocks=again.paper,
                corrected=once.corrected,
                corrected_blocks=again.corrected,
                agree=once.paper.epsilon_low <= again.paper.epsilon_high
                and again.paper.epsilon_low <= once.paper.epsilon_high,
            )
        )
    return rows


def table(rows: Sequence[BlockRow]) -> str:
    """Return the comparison as Markdown."""
    if not rows:
        return "No trial finished with all canaries and with every block.\n"
    single = f"1 x {rows[0].canaries}"
    many = f"{rows[0].blocks} x {rows[0].canaries // rows[0].blocks}"
    lines = [
        f"| method | epsilon | accuracy {single} | {many} | epsilon_m as published {single} "
        f"| {many} | corrected {single} | {many} | overlap |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        settings = (f"{key.split('.')[-1]} {value}" for key, value in row.point.items())
        intervals = (row.paper, row.paper_blocks, row.corrected, row.corrected_blocks)
        cells = [
            ", ".join([row.variant, *settings]),
            f"{row.epsilon:.4g}",
            f"{100 * row.accuracy:.2f}",
            f"{100 * row.accuracy_blocks:.2f}",
            *(f"{each.epsilon_low:.2f} to {each.epsilon_high:.2f}" for each in intervals),
            "yes" if row.agree else "no",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _identity(record: TrialRecord) -> tuple[str, str]:
    return record.variant, repr(sorted(record.point.items()))


def _evidence(root: Path, name: str, record: TrialRecord | None) -> AttackEvidence | None:
    return None if record is None else AttackEvidence.read(evidence_path(root / name, record.hash))


def _write_csv(rows: Sequence[BlockRow], path: Path) -> None:
    plain = ("variant", "epsilon", "accuracy", "accuracy_blocks", "canaries", "blocks")
    intervals = ("paper", "paper_blocks", "corrected", "corrected_blocks")
    table = pd.DataFrame(
        {
            **{name: getattr(row, name) for name in plain},
            **row.point,
            **{f"{name}_low": getattr(row, name).epsilon_low for name in intervals},
            **{f"{name}_high": getattr(row, name).epsilon_high for name in intervals},
            "agree": int(row.agree),
        }
        for row in rows
    )
    write_text(path, table.to_csv(index=False))


def _outcome(
    name: str, root: Path, outcomes: Mapping[str, SweepOutcome], rows: Sequence[BlockRow]
) -> BlockOutcome:
    first, every = outcomes[TOGETHER], list(outcomes.values())
    # The runs' labels are the same people's: releases from different vaults add up.
    keys = ("releases", "epsilon_releases", "epsilon_selection", "epsilon_total", "delta")
    ledger = {key: sum(outcome.ledger[key] for outcome in every) for key in keys}
    shared = {
        **asdict(first),
        "experiment": name,
        "results_dir": str(root),
        "report": str(root / "blocks.md"),
        "tracked": all(outcome.tracked for outcome in every),
        "ledger": ledger,
        "private": {},
        "labels": {},
        "finding": (),
        "cost": "",
        "spoiled": "",
        "links": {},
    }
    for count in ("trials", "finished", "failed", "skipped", "over_budget", "left"):
        shared[count] = sum(getattr(outcome, count) for outcome in every)
    return BlockOutcome(**shared, rows=rows)
