"""Results folders' ledgers for people who answer for labels and run no sweeps: words and a table.

>>> counted(1, "trial"), counted(9, "trial"), counted(1438, "label")
('one trial', 'nine trials', '1,438 labels')
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labeldp.mechanisms.accuracy_estimate import CorrectCount, MostCorrect
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.cluster_prior import ClusterHistograms
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost
from labeldp.mechanisms.randomized_response import NoNoise, PublishedClasses, RandomizedResponse
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_address import is_of
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.platform.report.folder_ledger import Audience, FolderLedger, LedgerLine
from labeldp.platform.report.total_ledger import Account, Total

_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()

#: What a mechanism is called whose own name is not told.
OTHERS = "a mechanism of the owner's own"
#: Class of a mechanism of ours -> what one release of it is, and what several are.
_WHAT: dict[type, tuple[str, str]] = {
    LaplaceNoise: ("release of Laplace noise", "releases of Laplace noise"),
    GaussianNoise: ("release of Gaussian noise", "releases of Gaussian noise"),
    RandomizedResponse: (
        "release of labels by randomized response",
        "releases of labels by randomized response",
    ),
    RRWithPrior: (
        "release of labels by randomized response under a prior",
        "releases of labels by randomized response under a prior",
    ),
    BitFlip: ("release of flipped bits", "releases of flipped bits"),
    ClusterHistograms: (
        "release of noisy counts of classes in clusters",
        "releases of noisy counts of classes in clusters",
    ),
    LabelMoments: ("release of noisy sums of labels", "releases of noisy sums of labels"),
    PateAnswers: (
        "round of answers by an ensemble of teachers",
        "rounds of answers by an ensemble of teachers",
    ),
    PublishedCost: ("published bound on what answers cost", "published bounds on such costs"),
    CorrectCount: ("noisy count of right answers", "noisy counts of right answers"),
    MostCorrect: (
        "choice of the model with most right answers",
        "choices of the model with most right answers",
    ),
    PublishedClasses: (
        "list of the classes, read off the labels",
        "lists of the classes, read off the labels",
    ),
    NoNoise: ("copy of the labels without any noise", "copies of the labels without any noise"),
}
_BY_NAME = {kind.__name__: words for kind, words in _WHAT.items()}

_COLUMNS = (
    "folder",
    "sweep",
    "line",
    "release",
    "made",
    "what",
    "noise",
    "epsilon",
    "delta",
    "labels",
    "trials",
    "configurations",
    "who_may_see_it",
    "counted",
)


def counted(number: int, what: str, several: str | None = None) -> str:
    """Return a number with what is counted, small numbers in words."""
    noun = what if number == 1 else several or f"{what}s"
    return f"{_NUMBERS[number] if number < len(_NUMBERS) else f'{number:,}'} {noun}"


def what_of(name: str, *, number: int = 1, ours: bool = True) -> str:
    """Say what so many releases of the mechanism of this class are, with their number.

    Args:
        name: Of the class.
        number: How many.
        ours: Whether it is the class of that name that is ours.
    """
    unknown = (f"release by {name or OTHERS}", f"releases by {name or OTHERS}")
    one, several = _BY_NAME.get(name, unknown) if ours else unknown
    return counted(number, one, several)


def is_ours(mechanism: Mapping[str, Any]) -> bool:
    """Whether a line is of a mechanism of ours, and not of a user's own code by the same name.

    Args:
        mechanism: Name and parameters, as the ledger has them.
    """
    return any(is_of(kind, mechanism) for kind in _WHAT)


def price(epsilon: float, delta: float) -> str:
    """Return epsilon and, where there is one, delta, in words."""
    if math.isinf(epsilon):
        return "no bound on epsilon"
    return f"epsilon {epsilon:.4g}" + (f" at delta {delta:g}" if delta > 0 else "")


def sentences(lines: Iterable[LedgerLine], *, public: bool = False) -> list[str]:
    """Say what was released, equal releases in one sentence.

    Args:
        lines: Of one folder, those that repeat another one's left out.
        public: Whether names of other people's mechanisms, which they chose, are left out.
    """
    groups: dict[str, list[LedgerLine]] = {}
    for line in lines:
        groups.setdefault(_likeness(line), []).append(line)
    return [_sentence(group, public=public) for group in sorted(groups.values(), key=_order)]


def in_words(account: Account) -> list[str]:
    """Say all that an account holds, a paragraph or an item each."""
    said = []
    for folder in account.folders:
        said.append(_heading(folder))
        said += [
            f"- {text}" for text in sentences(each for each in folder.lines if not each.repeats)
        ]
    said.append(_sum(account))
    if account.together.handed_out:
        said.append(_without_noise(account.together))
    said += account.notes
    if account.problems:
        said.append("THIS LEDGER IS NOT WHOLE, and its sums are too low:")
        said += [f"- {problem}" for problem in account.problems]
    return said


def rows(account: Account) -> list[dict[str, Any]]:
    """Return every line as a row of plain values."""
    return [_row(line) for folder in account.folders for line in folder.lines]


def as_csv(account: Account) -> str:
    """Return every line as a table that spreadsheets read, and take for no formula."""
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, _COLUMNS)
    writer.writeheader()
    for row in rows(account):
        plain = {**row, "counted": int(row["counted"])}
        for name in ("trials", "configurations"):
            plain[name] = "; ".join(row[name])
        writer.writerow({name: _no_formula(value) for name, value in plain.items()})
    return table.getvalue()


def _row(line: LedgerLine) -> dict[str, Any]:
    name = str(line.charge.mechanism.get("name"))
    return {
        "folder": line.folder,
        "sweep": line.sweep,
        "line": line.number,
        "release": line.charge.key,
        "made": line.made or "unknown",
        "what": what_of(name, ours=is_ours(line.charge.mechanism)).partition(" ")[2],
        "noise": "none" if line.noise is None else line.noise.value,
        "epsilon": line.epsilon,
        "delta": line.delta,
        "labels": "all" if line.labels is None else line.labels,
        "trials": [record.hash for record in line.readers],
        "configurations": list(dict.fromkeys(record.variant for record in line.readers)),
        "who_may_see_it": line.audience.value,
        "counted": not line.repeats,
    }


def _order(group: Sequence[LedgerLine]) -> tuple[bool, str, float]:
    """What has a bound first; equal kinds beside each other, by their price."""
    first = group[0]
    return math.isinf(first.epsilon), str(first.charge.mechanism.get("name")), first.epsilon


def _likeness(line: LedgerLine) -> str:
    noise = line.charge.mechanism.get("noise")
    # Draws are numbered, and so differ between releases that are alike.
    kind = noise.get("name") if isinstance(noise, dict) else None
    facts = {
        **{key: value for key, value in line.charge.mechanism.items() if key != "noise"},
        "kind of noise": kind,
    }
    facts |= {"price": [line.epsilon, line.delta], "on": line.labels, "day": _day(line)}
    facts["who"] = line.audience.value
    return json.dumps(facts, sort_keys=True, default=str)


def _sentence(group: Sequence[LedgerLine], *, public: bool) -> str:
    first, number = group[0], len(group)
    name = str(first.charge.mechanism.get("name"))
    ours = is_ours(first.charge.mechanism)
    name = "" if public and not ours else name
    readers = {record.hash: record.variant for line in group for record in line.readers}
    # What lines of a comparison are called is the sweep's own word.
    asked = "" if public or not readers else f"for {', '.join(dict.fromkeys(readers.values()))}; "
    # Nor is it said to anybody that nobody who may be named has read a line.
    read = f"read by {counted(len(readers), 'trial')}, " if readers or not public else ""
    each = " each" if number > 1 and not math.isinf(first.epsilon) else ""
    text = (
        f"{what_of(name, number=number, ours=ours)}, {price(first.epsilon, first.delta)}{each}, "
        f"{read}paid once{each and ' each'}; {asked}"
        f"of {_labels(first.labels)}, made {_day(first)}. "
    )
    if first.noise is None:
        return text + "For the owner of the labels only: these are the labels."
    if first.noise is NoiseKind.SEEDED:
        return text + (
            "For the owner of the labels only: who knows the seed of this noise takes it off again."
        )
    if first.audience is Audience.OWNER:
        return text + (
            "For the owner of the labels only: the baseline without noise read it, or may have."
        )
    return text + "Anybody may see what was made of it."


def _labels(number: int | None) -> str:
    return "all labels" if number is None else f"{number:,} labels"


def _day(line: LedgerLine) -> str:
    return "at an unknown time" if line.made is None else f"on {line.made.partition('T')[0]}"


def _heading(folder: FolderLedger) -> str:
    text = f"{folder.path}, sweep {folder.results.sweep}"
    number = folder.num_labels
    on = "" if number is None else f" on {number:,} labels"
    return f"{text}: {counted(len(folder.lines), 'release')}{on}"


def _sum(account: Account) -> str:
    total = account.together
    paid = f"no label has paid more than {price(total.epsilon_private, total.delta)}"
    number = counted(total.releases, "release")
    which = " with noise" if total.handed_out else ""
    if len(account.folders) == 1:
        return f"In all, {number}: {paid} for those{which}."
    folders = counted(len(account.folders), "folder")
    if len(account.groups) == 1:
        return (
            f"In all, {folders} on the same labels (equal public data, or one secret) and "
            f"{number}: {paid} for those{which}, all folders together."
        )
    parts = "; ".join(
        " and ".join(str(account.folders[place].path) for place in group)
        for group in account.groups
    )
    apart = price(account.apart.epsilon_private, account.apart.delta)
    return (
        f"In all, {folders} and {number}. Whether they are of the same people's labels can't be "
        f"known from the folders, whose public data differ ({parts}). If they are, {paid} for "
        f"those{which}; if those groups have no label in common, than {apart}. "
        "Reckon with the first unless you know better."
    )


def _without_noise(total: Total) -> str:
    copies = counted(total.handed_out, "release has", "releases have")
    return (
        f"{copies[0].upper()}{copies[1:]} no noise at all, so that nothing bounds what all of it "
        "together tells: keep to yourself what was made of it (models, predictions, accuracy), and "
        "the sum above holds for the rest."
    )


def _no_formula(value: Any) -> Any:
    """Spreadsheets run what begins like a formula, and people call sweeps what they like."""
    risky = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if risky else value
