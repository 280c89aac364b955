"""Ledgers for readers: sentences for people, rows for tables, and lines that anybody may see.

>>> counted(1, "trial"), counted(9, "trial"), counted(1438, "label")
('one trial', 'nine trials', '1,438 labels')
>>> what_of("LaplaceNoise", number=2)
'two releases of Laplace noise'
"""

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labeldp.mechanisms.accuracy_estimate import CorrectCount, MostCorrect
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.channels import StaircaseChannel, SubsetSelection
from labeldp.mechanisms.cluster_prior import ClusterHistograms
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost
from labeldp.mechanisms.randomized_response import NoNoise, PublishedClasses, RandomizedResponse
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_address import is_of
from labeldp.mechanisms.release_store import write_event
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.mechanisms.score_histogram import ScoreHistogram
from labeldp.platform.records.results import ResultsFolderError, write_text
from labeldp.platform.report.ledger import (
    Account,
    Audience,
    LedgerLine,
    account_of,
    read_folder,
)

#: Class of a mechanism of ours -> one release of it, and several: the ends in brackets.
_WHAT: dict[type, str] = {
    LaplaceNoise: "release[|s] of Laplace noise",
    GaussianNoise: "release[|s] of Gaussian noise",
    RandomizedResponse: "release[|s] of labels by randomized response",
    RRWithPrior: "release[|s] of labels by randomized response under a prior",
    SubsetSelection: "release[|s] of subsets of the classes",
    StaircaseChannel: "release[|s] of labels by the best channel under a prior",
    BitFlip: "release[|s] of flipped bits",
    ClusterHistograms: "release[|s] of noisy counts of classes in clusters",
    LabelMoments: "release[|s] of noisy sums of labels",
    PateAnswers: "round[|s] of answers by an ensemble of teachers",
    PublishedCost: "published bound[|s] on what answers cost",
    CorrectCount: "noisy count[|s] of right answers",
    ScoreHistogram: "noisy histogram[|s] of labels by a model's scores",
    MostCorrect: "choice[|s] of the model with most right answers",
    PublishedClasses: "list[|s] of the classes, read off the labels",
    NoNoise: "cop[y|ies] of the labels without any noise",
}
_BY_NAME = {kind.__name__: words for kind, words in _WHAT.items()}
_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
#: Parameters of our mechanisms that are published; those of other code never are.
_PARAMETERS = (
    *("epsilon", "num_classes", "noise_std", "scale"),
    *("queries", "max_answers", "threshold", "sigma1", "sigma2", "confidence"),
    *("order", "delta", "tail", "subset_size", "prototypes"),
)
_COLUMNS = (
    *("folder", "sweep", "line", "release", "made", "what", "noise", "epsilon", "delta"),
    *("labels", "trials", "configurations", "who_may_see_it", "counted"),
)
#: Any of these files makes a folder one of results, or a fit's of a shared vault.
_OF_RESULTS = frozenset({"vault.db", "vault.lines", "sweep.json"})


def counted(number: int, what: str, several: str = "") -> str:
    """Return a number with its noun, small numbers in words."""
    noun = what if number == 1 else several or f"{what}s"
    return f"{_NUMBERS[number] if number < len(_NUMBERS) else f'{number:,}'} {noun}"


def what_of(name: str, *, number: int = 1, ours: bool = True) -> str:
    """Return `number` releases of the mechanism of this name, in words; a user's is not `ours`."""
    words = _BY_NAME.get(name, "") if ours else ""
    words = words or f"release[|s] by {name or 'a mechanism of the owner'}"
    one, several = (re.sub(r"\[(\w*)\|(\w*)\]", end, words) for end in (r"\1", r"\2"))
    return counted(number, one, several)


def is_ours(mechanism: Mapping[str, Any]) -> bool:
    """Whether a line is of our mechanism, and not of a user's own code by the same name."""
    return any(is_of(kind, mechanism) for kind in _WHAT)


def price(epsilon: float, delta: float) -> str:
    """Return epsilon and, where it is above 0, delta, in words."""
    if math.isinf(epsilon):
        return "no bound on epsilon"
    return f"epsilon {epsilon:.4g}" + (f" at delta {delta:g}" if delta > 0 else "")


def sentences(lines: Iterable[LedgerLine], *, public: bool = False) -> list[str]:
    """Describe a folder's releases, equal ones in one sentence; those with a bound first.

    In public, names that users chose (mechanisms, lines of a comparison) are left out.
    """
    groups: dict[str, list[LedgerLine]] = {}
    for line in lines:
        mechanism, noise = dict(line.charge.mechanism), line.charge.mechanism.get("noise")
        # Draws are numbered, and so differ between releases that are alike.
        mechanism["noise"] = noise.get("name") if isinstance(noise, dict) else None
        alike = [line.epsilon, line.delta, line.labels, _day(line), line.audience.value]
        likeness = json.dumps([mechanism, alike], sort_keys=True, default=str)
        groups.setdefault(likeness, []).append(line)

    def order(group: Sequence[LedgerLine]) -> tuple[bool, str, float]:
        first = group[0]
        return math.isinf(first.epsilon), str(first.charge.mechanism.get("name")), first.epsilon

    return [_sentence(group, public=public) for group in sorted(groups.values(), key=order)]


def _sentence(group: Sequence[LedgerLine], *, public: bool) -> str:
    first, number = group[0], len(group)
    ours = is_ours(first.charge.mechanism)
    name = "" if public and not ours else str(first.charge.mechanism.get("name"))
    readers = {record.hash: record.variant for line in group for record in line.readers}
    # The names of a comparison's lines are the sweep's own words.
    variants = (
        "" if public or not readers else f"for {', '.join(dict.fromkeys(readers.values()))}; "
    )
    # That no trial on the public page has read a line is not for the public either.
    read = f"read by {counted(len(readers), 'trial')}, " if readers or not public else ""
    each = " each" if number > 1 and not math.isinf(first.epsilon) else ""
    labels = "all labels" if first.labels is None else f"{first.labels:,} labels"
    if first.noise is None:
        seen = "For the owner of the labels only: these are the labels."
    elif first.noise is NoiseKind.SEEDED:
        seen = "For the owner of the labels only: the seed takes this noise off again."
    elif first.audience is Audience.OWNER:
        seen = "For the owner of the labels only: the baseline without noise read it, or may have."
    else:
        seen = "Anybody may see results computed from it."
    return (
        f"{what_of(name, number=number, ours=ours)}, {price(first.epsilon, first.delta)}{each}, "
        f"{read}paid once{each}; {variants}of {labels}, made on {_day(first)}. {seen}"
    )


def _day(line: LedgerLine) -> str:
    return line.made.partition("T")[0]


def rows(account: Account) -> list[dict[str, Any]]:
    """Return every line as a row of plain values."""
    return [
        {
            "folder": str(folder.path),
            "sweep": folder.results.sweep,
            "line": line.number,
            "release": line.charge.key,
            "made": line.made,
            "what": _kind(line.charge.mechanism, ours=is_ours(line.charge.mechanism)),
            "noise": "none" if line.noise is None else line.noise.value,
            "epsilon": line.epsilon,
            "delta": line.delta,
            "labels": "all" if line.labels is None else line.labels,
            "trials": [record.hash for record in line.readers],
            "configurations": list(dict.fromkeys(record.variant for record in line.readers)),
            "who_may_see_it": line.audience.value,
            "counted": not line.repeats,
        }
        for folder in account.folders
        for line in folder.lines
    ]


def _kind(mechanism: Mapping[str, Any], *, ours: bool, public: bool = False) -> str:
    name = str(mechanism.get("name")) if ours or not public else ""
    return what_of(name, ours=ours).partition(" ")[2]


def as_csv(account: Account) -> str:
    """Return every line as a table for spreadsheets, in which no cell is a formula."""
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, _COLUMNS)
    writer.writeheader()
    for row in rows(account):
        plain = {
            **row,
            "counted": int(row["counted"]),
            "trials": "; ".join(row["trials"]),
            "configurations": "; ".join(row["configurations"]),
        }
        # Spreadsheets run text that begins like a formula, and users choose names of sweeps.
        risky = re.compile(r"[=+\-@\t\r]")
        writer.writerow(
            {
                name: f"'{value}" if isinstance(value, str) and risky.match(value) else value
                for name, value in plain.items()
            }
        )
    return table.getvalue()


def public_lines(lines: Iterable[LedgerLine]) -> list[dict[str, Any]]:
    """Return lines as plain values that anybody may see, and can compute epsilon from.

    Neither sweep nor folder is named, times are days, and a seed of noise is never shown.
    """
    found = []
    for line in lines:
        mechanism = line.charge.mechanism
        ours = is_ours(mechanism)
        found.append(
            {
                "release": line.charge.key,
                "what": _kind(mechanism, ours=ours, public=True),
                "mechanism": str(mechanism.get("name")) if ours else "other",
                "parameters": _numbers(mechanism) if ours else {},
                "noise": "none" if line.noise is None else line.noise.value,
                "made": _day(line),
                "labels": "all" if line.labels is None else line.labels,
                "event": json.loads(write_event(line.charge.event)),
                "failure_probability": line.charge.failure_probability,
                "epsilon": line.epsilon,
                "delta": line.delta,
            }
        )
    return found


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: values[name]
        for name in _PARAMETERS
        if isinstance(values.get(name), int | float) and not isinstance(values[name], bool)
    }


def ledger_report(
    folders: Sequence[str], *, csv: str | None = None, delta: float | None = None
) -> dict[str, Any]:
    """Return what folders, and all folders in them, have spent, for `labeldp ledger --json`.

    `ok` is false where a line is missing, so that sums are too low. `epsilon` at `delta` is of the
    worst label over all folders, if any two of them may have it in common; `epsilon_private` leaves
    out lines that handed labels out, and `epsilon_if_different` is that number if groups of folders
    have no label in common. `same_labels` is None where that is unknown.
    """
    if delta is not None and not 0 <= delta < 1:
        raise ValueError(
            f"delta is {delta}; it must lie in [0, 1): 1e-5 for instance, or 0 for pure releases"
        )
    places = [place for folder in folders for place in _results_in(Path(folder))]
    account = account_of((read_folder(place, delta=delta) for place in places), delta=delta)
    if csv is not None:
        try:
            write_text(Path(csv), as_csv(account))
        except ResultsFolderError as error:
            raise ValueError(
                f"the table can't be written: {error}; choose another --csv"
            ) from error
    total = account.together
    group_of = {place: number for number, group in enumerate(account.groups) for place in group}
    return {
        "ok": not account.problems,
        "releases": total.releases,
        "epsilon": total.epsilon,
        "delta": total.delta,
        "epsilon_private": total.epsilon_private,
        "same_labels": True if len(account.groups) == 1 else None,
        "epsilon_if_different": account.apart.epsilon_private,
        "folders": [
            {
                "folder": str(folder.path),
                "sweep": folder.results.sweep,
                "vault": folder.vault,
                "fingerprint": folder.fingerprint,
                "labels": folder.num_labels,
                "releases": len(folder.lines),
                "group": group_of[place],
            }
            for place, folder in enumerate(account.folders)
        ],
        "lines": rows(account),
        "words": in_words(account),
        "problems": list(account.problems),
    }


def _results_in(folder: Path) -> list[Path]:
    """Return all results folders in a folder, itself included; links are not followed.

    A folder whose vault is gone is included, so that it is reported as a problem.
    """
    found = [
        Path(place) for place, _, files in os.walk(folder) if not _OF_RESULTS.isdisjoint(files)
    ]
    return sorted(found) or [folder]


def in_words(account: Account) -> list[str]:
    """Return all of an account as paragraphs and items."""
    words = []
    for folder in account.folders:
        on = "" if folder.num_labels is None else f" on {folder.num_labels:,} labels"
        number = counted(len(folder.lines), "release")
        words.append(f"{folder.path}, sweep {folder.results.sweep}: {number}{on}")
        words += [
            f"- {text}" for text in sentences(each for each in folder.lines if not each.repeats)
        ]
    words.append(_sum(account))
    if handed_out := account.together.handed_out:
        copies = counted(handed_out, "release has", "releases have").capitalize()
        words.append(
            f"{copies} no noise at all, so nothing bounds what all of it together reveals: keep "
            "all results of it (models, predictions, accuracy) to yourself; the sum above holds "
            "for the rest."
        )
    words += account.notes
    if account.problems:
        words.append("THIS LEDGER IS NOT WHOLE, and its sums are too low:")
        words += [f"- {problem}" for problem in account.problems]
    return words


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
        f"In all, {folders} and {number}. The public data of these folders differ ({parts}), so "
        "it can't be known whether their labels are of the same people. If they are, "
        f"{paid} for those{which}; if those groups have no label in common, than {apart}. Assume "
        "the first unless you know better."
    )
