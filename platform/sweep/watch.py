"""A Tune callback that ends a sweep whose trials wait for a place that does not come.

A cluster that lost the node which could hold a trial, or an autoscaler that gets no machine, would
otherwise hold the sweep for ever.
"""

import time
from typing import Any

from ray import tune

from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.sweep.cluster import capacity
from labeldp.platform.sweep.endings import CannotFit
from labeldp.platform.sweep.sweep import Resources

#: How long all trials may wait for a place: a machine of a cloud takes minutes to come.
WAIT_SECONDS = 900.0
#: When the waiting is first spoken of.
TELL_SECONDS = 30.0


class PlaceWatch(tune.Callback):
    """Says that trials wait, and gives up when none gets a place for too long."""

    def __init__(self, *, each: Resources, progress: SweepProgress) -> None:
        """Prepare one.

        Args:
            each: What one trial occupies.
            progress: Told that trials wait.
        """
        self._each, self._progress = each, progress
        self._since: float | None = None
        self._told = False

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's snapshots."""
        return {}

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look whether any trial runs.

        Raises:
            CannotFit: None has for too long.
        """
        now = time.monotonic()
        if any(trial.status == "RUNNING" for trial in trials):
            self._since, self._told = None, False
            return
        # A step lasts as long as the result that it waits for: that is no waiting for a place.
        self._since = now if self._since is None else self._since
        waited = now - self._since
        if waited > WAIT_SECONDS:
            raise CannotFit(
                f"no trial got a place for {waited:.0f} s: {self._why()}; add a node, and run "
                "again: what has finished is kept"
            )
        elif waited > TELL_SECONDS and not self._told:
            self._told = True
            self._progress.say(
                f"trials wait for a place: {self._why()}; giving up after {WAIT_SECONDS:.0f} s"
            )

    def _why(self) -> str:
        here = capacity()
        return (
            f"each takes {self._each.cpus:g} CPU + {self._each.gpus:g} GPU on one node, and the "
            f"{here.nodes} nodes have {here.sizes}, others' work included"
        )
