"""Figures of audits: every bound on a model's epsilon on one axis, and how sure attackers were."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from labeldp.platform.report.figures import as_written
from labeldp.platform.vault.audits import AttackEvidence

_PROVABLE, _ESTIMATE, _PROVEN, _CEILING = "#1c2430", "#d98c2b", "#3465a4", "#9aa4af"
_RIGHT, _WRONG = "#3465a4", "#cc4e4e"
_BINS = 50


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditedModel:
    """One trained model in a figure.

    Attributes:
        name: Above its panel.
        metrics: Of its trial.
        evidence: What its audits rest on, where it is at hand.
    """

    name: str
    metrics: Mapping[str, float]
    evidence: AttackEvidence | None


def audit_figure(models: Sequence[AuditedModel], file: IO[bytes]) -> None:
    """Draw all audits of each model, one panel each.

    Bars from 0 are proven: with the stated confidence the model's epsilon is at least as large, at
    the model's delta or, where the bar's name says so and its color is faint, at delta 0 only.
    Segments are estimates. A tick is the ceiling, the most that as many canaries could prove.

    Args:
        models: At least one.
        file: The PNG is written to it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.7 + 1.9 * len(models)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(models), 1, sharex=True, squeeze=False)[:, 0]
    right = 1.08 * max(1.0, *(value for model in models for value in _finite(model.metrics)))
    for axis, model in zip(panels, models, strict=True):
        _draw_audits(axis, model.metrics, right)
        axis.set_title(as_written(model.name), loc="left", fontsize="medium")
        axis.set_xlim(0, right)
        axis.grid(alpha=0.25, axis="x")
    panels[-1].set_xlabel(
        "epsilon (dark line: provable upper bound; blue: proven lower bounds; orange: published "
        "estimate; grey: ceiling)",
        fontsize="small",
    )
    figure.savefig(file, dpi=130, format="png")


def confidence_figure(models: Sequence[AuditedModel], file: IO[bytes]) -> None:
    """Draw how sure the attacker was where it was right and where it was wrong.

    Malek et al. 2021, Figure 1: each guess is between a canary's own label and another wrong one;
    its confidence is the model's in the likelier of the two.

    Args:
        models: Those with evidence are drawn; at least one.
        file: The PNG is written to it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = [
        (as_written(model.name), model.evidence) for model in models if model.evidence is not None
    ]
    figure = Figure(figsize=(max(5.0, 1.2 + 1.5 * len(drawn)), 5), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    edges = np.linspace(0, 1, _BINS + 1)
    for place, (_, evidence) in enumerate(drawn):
        confidence, right = evidence.pairs()
        # Square roots, or the few sure guesses would vanish beside the many unsure ones.
        halves = [np.sqrt(np.histogram(confidence[part], edges)[0]) for part in (right, ~right)]
        widest = max(1.0, *(half.max() for half in halves))
        for half, side, color in zip(halves, (1, -1), (_RIGHT, _WRONG), strict=True):
            outline = place + side * 0.42 * half / widest
            axis.stairs(
                outline, edges, baseline=place, orientation="horizontal", fill=True, color=color
            )
        sure = confidence >= 0.99
        text = f"{int((sure & right).sum())} of {int(sure.sum())}\nright above .99"
        axis.text(place, 1.02, text, ha="center", va="bottom", fontsize="small")
    axis.set_xticks(
        range(len(drawn)), [name.replace(", ", "\n") for name, _ in drawn], fontsize="small"
    )
    axis.set_ylim(0, 1.12)
    axis.set_xlim(-0.6, len(drawn) - 0.4)
    axis.set_ylabel("attacker's confidence (blue: right, red: wrong)")
    figure.savefig(file, dpi=130, format="png")


def _finite(metrics: Mapping[str, float]) -> list[float]:
    audits = ("m", "one_run", "f_dp", "tight", "release")
    ceilings = [f"epsilon_{audit}_ceiling" for audit in audits]
    names = ("epsilon", "epsilon_m_paper_high", *ceilings)
    return [metrics[name] for name in names if math.isfinite(metrics.get(name, math.nan))]


def _draw_audits(axis: Any, metrics: Mapping[str, float], right: float) -> None:
    pure = "memorization" if metrics["delta"] == 0 else "memorization, delta 0"
    lines: list[tuple[str, float | None, float | None]] = [
        (pure, metrics["epsilon_m_low"], metrics.get("epsilon_m_ceiling")),
        (
            "one-run",
            metrics.get("private/epsilon_one_run"),
            metrics.get("epsilon_one_run_ceiling"),
        ),
        (
            "one-run, f-DP",
            metrics.get("private/epsilon_f_dp"),
            metrics.get("epsilon_f_dp_ceiling"),
        ),
        (
            "one-run, tight",
            metrics.get("private/epsilon_tight"),
            metrics.get("epsilon_tight_ceiling"),
        ),
        (
            "release itself",
            metrics.get("private/epsilon_release"),
            metrics.get("epsilon_release_ceiling"),
        ),
    ]
    names = ["as published"]
    low, high = metrics.get("epsilon_m_paper_low"), metrics.get("epsilon_m_paper_high")
    if low is not None and high is not None:
        axis.plot([low, min(high, right)], [0, 0], color=_ESTIMATE, linewidth=5, alpha=0.8)
        if math.isinf(high):
            axis.annotate("", (right, 0), (0.97 * right, 0), arrowprops={"color": _ESTIMATE})
    for row, (name, proven, ceiling) in enumerate(lines, start=1):
        names.append(name)
        if proven is None:
            axis.text(0.01 * right, row, "does not apply", va="center", color=_CEILING)
            continue
        faint = 0.4 if name.endswith("delta 0") else 1.0
        axis.barh(row, proven, height=0.5, color=_PROVEN, alpha=faint)
        axis.text(proven + 0.01 * right, row, f"{proven:.2f}", va="center", fontsize="small")
        if ceiling is not None:
            axis.plot([ceiling] * 2, [row - 0.35, row + 0.35], color=_CEILING, linewidth=2)
    epsilon = metrics["epsilon"]
    if math.isfinite(epsilon):
        axis.axvline(epsilon, color=_PROVABLE, linewidth=1.5)
    else:
        axis.text(right, -0.4, "provable: nothing ", ha="right", va="center", color=_PROVABLE)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
