"""What a step of the campaign is: a name, what it needs, and work that can be stopped."""

from typing import Protocol

from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.place import Place

#: Of a state that is kept between calls; written at most so often, and at the end of a call.
KEEP_SECONDS = 20.0


class Step(Protocol):
    """A piece of work, checkpointed.

    What decides its result is in its settings; its name is the result's.
    """

    @property
    def name(self) -> str:
        """Of the step and its files."""

    @property
    def needs_seconds(self) -> float:
        """Of work that can't be stopped in between; a call with less left ends before it."""

    @property
    def after(self) -> str | None:
        """The step whose files it needs; None for none."""

    def advance(self, place: Place, clock: Clock) -> bool:
        """Go on until the step is done, or the time is over; return whether it is done."""
