"""`--table`: what was found, as rows for docs/reproduction.md; `not run` where nothing was."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.benchmarks.gpu_campaign.encoder_step import EncoderStep
from tests.benchmarks.gpu_campaign.place import Place
from tests.benchmarks.gpu_campaign.speed_step import SpeedStep, speed_rows
from tests.benchmarks.gpu_campaign.step import Step
from tests.benchmarks.gpu_campaign.trial_step import TrialStep

NOT_RUN = "not run"
_TRIALS = (
    "| data | method | network | epsilon | delta | accuracy, % | published | league | seed "
    "| noise | accelerator, commit | seconds |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)
_ENCODERS = (
    "| data | encoder | epochs | loss | seed | league | accelerator, commit | seconds |",
    "|---|---|---|---|---|---|---|---|",
)
_SPEEDS = ("| what | how | per second | utilization | GiB |", "|---|---|---|---|---|")


def table(place: Place, steps: Sequence[Step]) -> str:
    """Return all tables as Markdown."""
    trials = (_trial(place, step) for step in steps if isinstance(step, TrialStep))
    encoders = (_encoder(place, step) for step in steps if isinstance(step, EncoderStep))
    parts = [_block(_TRIALS, trials), _block(_ENCODERS, encoders)]
    if any(isinstance(step, SpeedStep) for step in steps):
        parts.append(_block(_SPEEDS, _speeds(place)))
    return "\n\n".join(parts)


def _block(head: Iterable[str], rows: Iterable[str]) -> str:
    return "\n".join([*head, *rows])


def _trial(place: Place, step: TrialStep) -> str:
    found = place.result(step.name)
    if found is None:
        asked = getattr(step.config, "epsilon", None)
        epsilon = "" if asked is None or step.row == "no noise" else f"{asked:g}"
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
            f"{_device(found)}, {found['commit']}",
            f"{found['train_seconds']:.0f}",
        ]
    )


def _encoder(place: Place, step: EncoderStep) -> str:
    found = place.result(step.name)
    if found is None:
        why = _why_not(place, step.name)
        return _row([step.dataset, step.network, why, "", str(step.seed), "", "", ""])
    loss = "" if found["loss"] is None else f"{found['loss']:.3f}"
    return _row(
        [
            found["dataset"],
            found["network"],
            str(found["epochs"]),
            loss,
            str(found["seed"]),
            found["league"],
            f"{_device(found)}, {found['commit']}",
            f"{found['train_seconds']:.0f}",
        ]
    )


def _speeds(place: Place) -> Iterator[str]:
    found = place.result("speeds")
    if found is None:
        yield _row([NOT_RUN, "", "", "", ""])
        return
    yield from speed_rows(found["speeds"])


def _why_not(place: Place, name: str) -> str:
    failed = place.failure(name)
    return NOT_RUN if failed is None else f"failed: {failed['why'][:80]}"


def _device(found: dict[str, Any]) -> str:
    """The accelerator, or the processor where there is none."""
    return str(found["accelerator"] if found["accelerator"] != "none" else found["processor"])


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
