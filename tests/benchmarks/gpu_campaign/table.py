"""`--table`: results as rows for docs/reproduction.md; `not run` where there is none."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.benchmarks.gpu import ROW_HEAD, Speed, row
from tests.benchmarks.gpu_campaign.place import Place
from tests.benchmarks.gpu_campaign.steps import EncoderStep, SpeedStep, Step, TrialStep

_TRIALS = (
    "| data | method | network | epsilon | delta | accuracy, % | published | league | seed "
    "| noise | accelerator, commit | seconds |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)
_ENCODERS = (
    "| data | encoder | epochs | loss | seed | league | accelerator, commit | seconds |\n"
    "|---|---|---|---|---|---|---|---|"
)


def table(place: Place, steps: Sequence[Step]) -> str:
    """Return all tables as Markdown."""
    trials = [_trial(place, step) for step in steps if isinstance(step, TrialStep)]
    encoders = [_encoder(place, step) for step in steps if isinstance(step, EncoderStep)]
    parts = [[_TRIALS, *trials], [_ENCODERS, *encoders]]
    if any(isinstance(step, SpeedStep) for step in steps):
        found = place.result("speeds") or {"speeds": []}
        speeds = [row(Speed(**each)) for each in found["speeds"] if "failed" not in each]
        parts.append([ROW_HEAD, *(speeds or ["| not run | | | | |"])])
    return "\n\n".join("\n".join(part) for part in parts)


def _trial(place: Place, step: TrialStep) -> str:
    found = place.result(step.name)
    if found is None:
        requested = getattr(step.config, "epsilon", None)
        epsilon = "" if requested is None or step.row == "no noise" else f"{requested:g}"
        cells = [step.dataset, step.row, step.network, epsilon, "", _why_not(place, step.name)]
        return _row([*cells, step.published, "", str(step.seed), "", "", ""])
    return _row(
        [
            found["dataset"],
            found["method"],
            found["network"],
            _number(found["epsilon"]),
            _number(found["delta"]),
            f"{100 * found['accuracy']:.2f}",
            found["published"],
            found["league"],
            str(found["seed"]),
            found["noise"].partition(":")[0],
            _made_on(found),
            f"{found['train_seconds']:.0f}",
        ]
    )


def _encoder(place: Place, step: EncoderStep) -> str:
    found = place.result(step.name)
    if found is None:
        why = _why_not(place, step.name)
        return _row([step.dataset, step.network, why, "", str(step.seed), "", "", ""])
    return _row(
        [
            found["dataset"],
            found["network"],
            str(found["epochs"]),
            "" if found["loss"] is None else f"{found['loss']:.3f}",
            str(found["seed"]),
            found["league"],
            _made_on(found),
            f"{found['train_seconds']:.0f}",
        ]
    )


def _why_not(place: Place, name: str) -> str:
    failed = place.failure(name)
    return "not run" if failed is None else f"failed: {failed['why'][:80]}"


def _made_on(found: dict[str, Any]) -> str:
    device = (
        found["machine"].partition(",")[0]
        if found["accelerator"] == "none"
        else found["accelerator"]
    )
    return f"{device}, {found['commit']}"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
