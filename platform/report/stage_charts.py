"""What LP-MST's stages picked from: k* of each released label, by stage.

It follows from the prior, hence from releases and public features alone, and is part of what the
guarantee covers.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from markupsafe import Markup

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.histograms import bars
from labeldp.platform.report.pareto import Point, settings_beside_epsilon
from labeldp.platform.report.wording import number, short_key

#: More histograms than this are not looked at.
MOST_CHARTS = 12
_SHARE = re.compile(r"top_k_stage_(\d+)_share_(\d+)")


def stage_charts(found: Sequence[Point], *, records: Mapping[str, TrialRecord]) -> list[Markup]:
    """Return a histogram for each point and stage whose trials kept one.

    Args:
        found: Points of a sweep.
        records: Its trials by hash.
    """
    charts: list[Markup] = []
    settings = settings_beside_epsilon(found)
    for point in found:
        for stage, shares in _shares(point, records).items():
            if len(charts) == MOST_CHARTS:
                return charts
            most = max(2, *shares)
            heights = [100 * shares.get(k, 0.0) for k in range(1, most + 1)]
            charts.append(
                bars(
                    {"share of labels, %": heights},
                    edges=[k + 0.5 for k in range(most + 1)],
                    title=f"{_name(point, settings)}, stage {stage}",
                    along="k*: classes to pick from",
                )
            )
    return charts


def _name(point: Point, settings: Sequence[str]) -> str:
    values = dict(point.point)
    own = (f"{short_key(key)} {number(values[key])}" for key in settings if key in values)
    return ", ".join([point.variant, f"ε {number(point.epsilon)}", *own])


def _shares(point: Point, records: Mapping[str, TrialRecord]) -> dict[int, dict[int, float]]:
    """Stage -> k* -> share of its labels, mean over the point's trials."""
    seen: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for digest in point.hashes:
        for name, value in records[digest].metrics.items():
            match = _SHARE.fullmatch(name)
            if match:
                seen[int(match[1])][int(match[2])].append(value)
    # A k* that a trial has no figure for was not there.
    count = len(point.hashes)
    return {
        stage: {k: fmean([*v, *[0.0] * (count - len(v))]) for k, v in shares.items()}
        for stage, shares in sorted(seen.items())
    }
