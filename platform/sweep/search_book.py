"""What a search has suggested and what became of it: the next trial follows from both.

Every suggestion is written down before its trial starts, so that a later start runs that trial and
no other in its place. Which trials are done is for the records to say, as it is for every sweep.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labeldp.platform.records.json_files import ResultsFolderError, read_json, write_json
from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.sweep.stand_ins import Search
from labeldp.platform.sweep.strands import Numbers
from labeldp.platform.sweep.suggestions import suggest
from labeldp.platform.sweep.sweep import PlannedTrial

#: How often a search that comes up with a setting again is asked for another one.
_ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """A trial that a search asks for.

    Attributes:
        strand: Its place among the strands.
        numbers: A number for each axis.
        hash: The trial's identity.
    """

    strand: int
    numbers: Numbers
    hash: str


class SearchBook:
    """Suggestions in their order, kept in a file."""

    def __init__(self, path: Path, search: Search) -> None:
        """Read what earlier starts suggested.

        Args:
            path: The file; none for a new search.
            search: What is searched.

        Raises:
            ResultsFolderError: The file is damaged.
            ConfigurationError: It holds settings that can't be used.
        """
        self.search = search
        self.plans: dict[str, PlannedTrial] = {}
        self._path = path
        self._kept = _read(path)
        self._suggested: list[list[Suggested]] = []
        for place, strand in enumerate(search.strands):
            earlier = self._kept.get(strand.id, [])
            if any(len(numbers) != len(strand.axes) for numbers in earlier):
                raise _damaged(path)
            entries = [self._entry(place, tuple(numbers)) for numbers in earlier[: strand.size]]
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
        sizes = [strand.size for strand in self.search.strands]
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
        self._kept[self.search.strands[place].id] = numbers
        write_json(self._path, self._kept)
        return entry

    @property
    def rest(self) -> list[PlannedTrial]:
        """What stands in for the trials that are not suggested yet."""
        known = enumerate(map(len, self._suggested))
        return [trial for place, number in known for trial in self.search.rest(place, number)]

    def _new(self, place: int, records: Mapping[str, TrialRecord]) -> Suggested:
        strand, number = self.search.strands[place], len(self._suggested[place])
        if not strand.axes:
            return self._entry(place, ())
        tried = {entry.numbers for entry in self._suggested[place]}
        told = [
            (entry.numbers, self._accuracy(records[entry.hash]))
            for entry in self._suggested[place]
            if entry.hash in records
        ]
        for attempt in range(_ATTEMPTS):
            numbers = suggest(strand.axes, told, seed=strand.seed, number=number, attempt=attempt)
            if numbers not in tried:
                return self._entry(place, numbers)
        return self._entry(place, next(each for each in strand.all_numbers() if each not in tried))

    def _accuracy(self, record: TrialRecord) -> float:
        """What a trial is worth; one that failed is worth nothing."""
        return record.metrics[self.search.by.metric] if record.finished else 0.0

    def _entry(self, place: int, numbers: Numbers) -> Suggested:
        """Plan a suggestion's trial, and check that it asks for nothing new."""
        trial = self.search.planned(place, numbers)
        digest = trial.hash(self.search.fingerprint)
        self.plans[digest] = trial
        return Suggested(strand=place, numbers=numbers, hash=digest)


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
