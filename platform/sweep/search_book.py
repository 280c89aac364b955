"""What a search has suggested and what became of it: the next trial follows from both.

Every suggestion is written down before its trial starts, so that a later start runs that trial and
no other in its place. Which trials are done is for the records to say, as it is for every sweep.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labeldp.platform.records.results import ResultsFolderError, TrialRecord, read_json, write_json
from labeldp.platform.sweep.plan import Plan
from labeldp.platform.sweep.search import Numbers, suggest
from labeldp.platform.sweep.sweep import PlannedTrial

#: How often a search that comes up with a setting again is asked for another one.
_ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """A trial that a search asks for.

    Attributes:
        search: Its place among the searches.
        numbers: A number for each axis.
        hash: The trial's identity.
    """

    search: int
    numbers: Numbers
    hash: str


class SearchBook:
    """Suggestions in their order, kept in a file."""

    def __init__(self, path: Path, plan: Plan) -> None:
        """Read what earlier starts suggested, if there is such a file.

        Raises:
            ResultsFolderError: The file is damaged.
            ConfigurationError: It holds settings that can't be used.
        """
        self._plan = plan
        self.plans: dict[str, PlannedTrial] = {}
        self._path = path
        self._kept = _read(path)
        self._suggested: list[list[Suggested]] = []
        for place, search in enumerate(plan.searches):
            earlier = self._kept.get(search.id, [])
            if any(len(numbers) != len(search.axes) for numbers in earlier):
                raise _damaged(path)
            entries = [self._entry(place, tuple(numbers)) for numbers in earlier[: search.size]]
            self._suggested.append(entries)
        self._handed_out: set[str] = set()

    def next(self, records: Mapping[str, TrialRecord]) -> Suggested | None:
        """Return the next trial, written down; None when all are handed out.

        Args:
            records: Of trials that ended, now or in earlier starts, by hash.

        Raises:
            ConfigurationError: A suggestion that can't be used or was not foreseen.
            ResultsFolderError: It can't be written down.
        """
        for entries in self._suggested:
            for entry in entries:
                if entry.hash not in self._handed_out and entry.hash not in records:
                    self._handed_out.add(entry.hash)
                    return entry
        sizes = [search.size for search in self._plan.searches]
        open_ones = [
            place for place, size in enumerate(sizes) if len(self._suggested[place]) < size
        ]
        if not open_ones:
            return None
        place = min(open_ones, key=lambda each: len(self._suggested[each]))
        entry = self._new(place, records)
        self._suggested[place].append(entry)
        self._handed_out.add(entry.hash)
        numbers = [list(each.numbers) for each in self._suggested[place]]
        self._kept[self._plan.searches[place].id] = numbers
        write_json(self._path, self._kept)
        return entry

    @property
    def rest(self) -> list[PlannedTrial]:
        """What prices the trials that are not suggested yet."""
        known = zip(self._plan.searches, map(len, self._suggested), strict=True)
        return [trial for search, number in known for trial in search.rest(number)]

    def _new(self, place: int, records: Mapping[str, TrialRecord]) -> Suggested:
        search, number = self._plan.searches[place], len(self._suggested[place])
        if not search.axes:
            return self._entry(place, ())
        tried = {entry.numbers for entry in self._suggested[place]}
        told = [
            (entry.numbers, self._accuracy(records[entry.hash]))
            for entry in self._suggested[place]
            if entry.hash in records
        ]
        for attempt in range(_ATTEMPTS):
            numbers = suggest(search.axes, told, seed=search.seed, number=number, attempt=attempt)
            if numbers not in tried:
                return self._entry(place, numbers)
        return self._entry(place, next(each for each in search.all_numbers() if each not in tried))

    def _accuracy(self, record: TrialRecord) -> float:
        """What a trial is worth; one that failed is worth nothing."""
        return record.metrics[self._plan.choose_by.metric] if record.finished else 0.0

    def _entry(self, place: int, numbers: Numbers) -> Suggested:
        """Plan a suggestion's trial, and check that it asks for nothing new."""
        trial = self._plan.suggested(place, numbers)
        digest = trial.hash(self._plan.fingerprint)
        self.plans[digest] = trial
        return Suggested(search=place, numbers=numbers, hash=digest)


def _read(path: Path) -> dict[str, list[list[float]]]:
    if not path.exists():
        return {}
    kept = read_json(path)
    rows = [row for rows in kept.values() for row in (rows if isinstance(rows, list) else [None])]
    good = all(isinstance(row, list) and all(map(_is_number, row)) for row in rows)
    if not good:
        raise _damaged(path)
    return kept


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _damaged(path: Path) -> ResultsFolderError:
    return ResultsFolderError(
        f"{path} is damaged: it should hold the suggestions of a search, a row of numbers each; "
        "restore it, or choose another folder with --results DIR"
    )
