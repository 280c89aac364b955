"""`tests.benchmarks.gpu`, a measurement at a time."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from labeldp.trainers.performance import Performance
from tests.benchmarks.gpu import planned, row, yardstick
from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.machine import machine_facts
from tests.benchmarks.gpu_campaign.place import Place
from tests.benchmarks.gpu_measuring import Sizes, Speed, Stopwatch

#: A measurement of the slowest kind, compilation included.
_MOST_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class SpeedStep:
    """All speeds; each is measured once, and none again when a call was stopped.

    Attributes:
        seconds: For each measurement.
        sizes: Of what is measured.
        needs_seconds: See `Step`.
    """

    seconds: float = 6.0
    sizes: Sizes = field(default_factory=Sizes)
    needs_seconds: float = _MOST_SECONDS
    name: str = "speeds"
    after: None = None

    def advance(self, place: Place, clock: Clock) -> bool:
        """Measure until all is measured, or the time is over."""
        watch = Stopwatch(self.seconds)
        state = place.state(self.name, repr(self.sizes)) or {"speeds": {}}
        speeds: dict[str, dict[str, Any]] = dict(state["speeds"])
        if "yardstick" not in speeds:
            speeds["yardstick"] = asdict(yardstick(watch, self.sizes))
        top = Speed(**speeds["yardstick"])
        for each in planned(watch, self.sizes):
            if each.name in speeds:
                continue
            if not clock.allows(self.needs_seconds):
                return False
            speeds[each.name] = _measured(each.make, top)
            place.keep_state(self.name, repr(self.sizes), {"speeds": speeds})
        facts = machine_facts(Performance(), commit=place.commit)
        place.finish(self.name, {"step": self.name, "speeds": [*speeds.values()], **facts})
        return True


def _measured(make: Callable[[Speed], Speed], top: Speed) -> dict[str, Any]:
    """A speed as plain values; one that fails says why, and the others go on."""
    try:
        return asdict(make(top))
    except (RuntimeError, torch.OutOfMemoryError) as error:
        return {"failed": str(error).splitlines()[0][:200]}


def speed_rows(speeds: list[dict[str, Any]]) -> list[str]:
    """Return the rows of docs/performance.md's table; those that failed are left out."""
    return [row(Speed(**each)) for each in speeds if "failed" not in each]
