"""What Ray Tune asks for the next trial: hands on what the search's book says."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher

from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.sweep.search_book import SearchBook


class HandOut(Searcher):
    """Tune's searcher; what it has found lies in the records, and nowhere else."""

    def __init__(self, book: SearchBook, *, records: Callable[[], Mapping[str, TrialRecord]]):
        """Stand ready.

        Args:
            book: Says what is next.
            records: Returns all that is known of trials that ended.
        """
        super().__init__()
        self._book, self._records = book, records
        self.broken: Exception | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's snapshots: a sweep resumes from its records."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """Return the next trial's settings, or Tune's word for that there is none."""
        try:
            found = self._book.next(self._records())
        except Exception as error:
            self.broken = error  # Tune passes on its text only
            raise
        if found is None:
            return Searcher.FINISHED
        return {"hash": found.hash, "strand": found.strand, "numbers": list(found.numbers)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing: the trial's record is what counts."""

    def save(self, checkpoint_path: str) -> None:
        """Leave an empty file: Tune moves one."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a sweep is not resumed by Tune."""
