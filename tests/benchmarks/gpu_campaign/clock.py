"""How long a call may still work."""

import time


class Clock:
    """Counts down from the minutes that a call was given."""

    def __init__(self, seconds: float) -> None:
        """Begin to count."""
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; below 0 when the time is over."""
        return self._end - time.monotonic()

    def allows(self, seconds: float) -> bool:
        """Whether work of so many seconds ends in time."""
        return self.left() >= seconds
