"""`labeldp report` and `labeldp ledger`: of results folders in any state, or a tracked sweep.

A results folder is left as it is: ended, cut off, failed, or still running. A tracking store that
lies in the sweep's results folder stands for that folder.
"""

import csv
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from labeldp.mechanisms.ledger import shown
from labeldp.platform.cli.command import Answer, in_a_folder, table
from labeldp.platform.records.results import REPORT_FILES, KeptResults, read_results
from labeldp.platform.records.tracking_address import check_file, default_uri
from labeldp.platform.report import paper_figures
from labeldp.platform.report.ledger import (
    FolderLedger,
    ledger_report,
    read_folder,
    sentences,
    sweep_totals,
)
from labeldp.platform.report.page import write_report
from labeldp.platform.report.pareto import points
from labeldp.platform.vault import signing
from labeldp.trainers.data.files import (
    FileRefused,
    make_folder,
    open_regular,
    owner_only,
    replacing,
)
from labeldp.trainers.data.splits import League


def ledger(*, folders: list[str], delta: float | None) -> Answer:
    """Return an account over several folders."""
    found = ledger_report(folders, delta=delta)
    return Answer(facts=found, words="\n".join(found["words"]))


def verify(*, folder: str, key: str | None) -> Answer:
    """Compare a folder with its signature."""
    found = signing.verify(Path(folder), key=key)
    if not found["ok"]:
        return Answer(facts=found, words="\n".join(found["problems"]))
    whose = "" if key else "; compare the key with the owner's, or give that with --key"
    words = "{entries} files and lines are as they were signed at {made} by key {signed_by}"
    return Answer(facts=found, words=words.format(**found) + whose)


def report(
    *,
    experiment: str,
    tracking_uri: str | None,
    out: str | None,
    edition: str,
    **paper: str | None,
) -> Answer:
    """Write the report of a results folder or an experiment, for its owner or for the public.

    `paper` names a figure, a table or a study in place of the report, and the file of it.
    """
    if any(paper.values()):
        one = sum(bool(paper[name]) for name in ("figure", "table", "study")) == 1
        if edition == "public" or out or tracking_uri or not one:
            raise ValueError(
                "a figure, a table or a study is made of a results folder alone, one at a time: "
                "labeldp report RESULTS --figure NAME --to FILE.pdf, --table latex [--to FILE], or "
                "--study FILE.db"
            )
        return _for_paper(Path(experiment), **paper)
    if edition == "public":
        if out is None or tracking_uri is not None:
            raise ValueError(
                "the public edition needs a results folder and a new folder to write, so that "
                "nothing else is published: labeldp report RESULTS --edition public --out DIR"
            )
        from labeldp.platform.report.publish import public_report  # it loads torch

        found = public_report(Path(experiment), to=Path(out))
        return Answer(
            facts=found,
            words="{trials} trials in the public page {html}; {left_out} left out; epsilon "
            "{} at delta {}".format(*map(shown, (found["epsilon"], found["delta"])), **found),
        )
    if tracking_uri is None and is_results(experiment):
        return report_folder(experiment, out=out)
    return report_experiment(experiment, tracking_uri=tracking_uri, out=out or ".")


@owner_only()
def _for_paper(
    results: Path, *, figure: str | None, table: str | None, study: str | None, to: str | None
) -> Answer:
    if study and to:
        raise ValueError(f"--study names its own file; leave out --to {to}")
    for option, file in (("--study", study), ("--to", to)):
        if file:
            in_a_folder(option, file)
    kept = read_results(results)
    found = points(kept.records.values(), choose_by=kept.identity.choose_by)
    if study:
        return _study(kept, Path(study), name=results.name)
    if figure:
        if to is None:
            raise ValueError(f"--figure {figure} needs a file: --to {figure}.pdf")
        if not found:
            raise ValueError("no trial of this sweep has finished: there is nothing to draw")
        paper_figures.write_figure(found, figure, Path(to))
        return Answer(facts={"figure": to, "points": len(found)}, words=f"figure: {to}")
    text = paper_figures.table(found, kind=str(table))
    if to is None:
        return Answer(facts={"table": text, "rows": len(found)}, words=text)
    with replacing(Path(to)) as written:
        written.write(f"{text}\n".encode())
    return Answer(facts={"file": to, "rows": len(found)}, words=f"table: {to}")


def _study(kept: KeptResults, file: Path, *, name: str) -> Answer:
    from labeldp.platform.sweep.search import check_installed, write_study  # for this alone

    check_installed()
    if file.exists():
        raise ValueError(f"--study {file} is there already; name a new file")
    records = kept.records.values()
    shares = write_study(records, file, choose_by=kept.identity.choose_by, name=name)
    rows = [(key, f"{share:.0%}") for key, share in shares.items()]
    return Answer(
        facts={"file": str(file), "importance": shares},
        words=[*table(("setting", "share of the variance"), rows), f"Optuna study: {file}"],
    )


def compare(*, first: str, second: str) -> Answer:
    """Compare the lines and epsilons that two results folders have in common."""
    every = [read_results(Path(each)) for each in (first, second)]
    sides = [points(each.records.values(), choose_by=each.identity.choose_by) for each in every]
    sets = [{of.config.get("data.name") for of in each.records.values()} for each in every]
    for what, facts in (
        ("compared by", [side[0].accuracy_by.words for side in sides if side]),
        ("of", [", ".join(sorted(map(str, names))) for names in sets if names]),
    ):
        if len(set(facts)) > 1:
            raise ValueError(
                f"trials of {first} are {what} {facts[0]}, and those of {second} {what} "
                f"{facts[1]}; compare sweeps of the same data and the same --choose-by"
            )
    found = paper_figures.differences(*sides)
    if not found:
        raise ValueError(
            f"{first} and {second} have no finished line at the same epsilon and in the same "
            "league; compare sweeps with lines of the same names, or see each with `labeldp report`"
        )
    rows = [
        (
            each["line"] + (f" ({each['league']})" if each["league"] != League.NONE.words else ""),
            shown(each["epsilon"]),
            f"{each['a']:.4g}",
            f"{each['b']:.4g}",
            f"{each['b'] - each['a']:+.4g}",
            "none" if each["low"] is None else f"{each['low']:+.4g} to {each['high']:+.4g}",
        )
        for each in found
    ]
    head = ("line", "epsilon", "A", "B", "B - A", "95% interval")
    note = "none: one seed or a choice; seeds of one release differ in training, not in its noise"
    return Answer(facts={"rows": found}, words=[*table(head, rows), note])


def is_results(named: str) -> bool:
    """Return whether `named` is a folder of results, and not an experiment's name."""
    folder = Path(named).expanduser()
    if any((folder / name).exists() for name in ("sweep.json", "trials", "vault.db")):
        return True
    if "/" not in named and named not in (".", "..", "~"):
        return False
    if not folder.is_dir():
        raise ValueError(f"folder {named} does not exist; name the results of a sweep")
    return True


@owner_only()
def report_folder(named: str | Path, *, out: str | None = None) -> Answer:
    """Write the report of a results folder, into that folder if no other is named."""
    found = read_folder(Path(named))
    folder = found.path if out is None else Path(out)
    with _writing(folder):
        write_report(
            list(found.records.values()),
            folder=folder,
            title=found.sweep,
            ledger=totals_of(found),
            choose_by=found.identity.choose_by,
            releases=sentences(found.lines),
            running=_is_held(found.path),
        )
    return _answer(folder)


def totals_of(folder: FolderLedger) -> dict[str, Any] | None:
    """Return the totals of a folder's ledger, as in a sweep's JSON; None of one without lines.

    Of a sweep that learns they are the plan's, where that is more: its choices are an outcome.
    """
    if not folder.lines:
        return None
    identity = folder.identity
    facts = sweep_totals([line.charge for line in folder.lines], identity, delta=folder.delta)
    num_labels = identity.num_labels
    return facts if num_labels is None else {**facts, "num_labels": num_labels}


def _is_held(folder: Path) -> bool:
    try:
        with open_regular(folder / "driver.lock") as lock:
            # Let go of at once: a driver that starts in this very moment is refused.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FileRefused, OSError):
        pass
    return False


@owner_only()
def report_experiment(experiment: str, *, tracking_uri: str | None, out: str) -> Answer:
    """Write the report of an experiment's latest sweep into the folder `out`.

    The tracking store is MLFLOW_TRACKING_URI or `results/EXPERIMENT` if None. Where it lies apart
    from the results, the report is the one that the sweep left in it.

    Raises:
        ValueError: The store or the experiment is not there, or holds no report.
    """
    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or _beside_results(experiment)
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///"):
        if not path.exists():  # MLflow would make a new one there
            raise ValueError(f"file {path} does not exist; check --tracking-uri")
        check_file(uri)
        sweep = None
        with suppress(ValueError):  # no results, or damaged ones: the store is enough
            sweep = read_folder(path.parent).sweep
        if sweep == experiment:
            return report_folder(path.parent, out=out)
    # MLflow takes two seconds, which reports of folders do without.
    from labeldp.platform.records.tracking import latest_report

    files = latest_report(uri, experiment)
    folder = Path(out)
    with _writing(folder):
        for name, content in files.items():
            with replacing(folder / name) as file:
                file.write(content)
    return _answer(folder)


def _beside_results(experiment: str) -> str:
    for name in (experiment, f"{experiment}-smoke"):
        folder = Path("results", name)
        if (folder / "mlflow.db").exists():
            return default_uri(folder.absolute())
    what = "contains no results" if Path(experiment).is_dir() else "does not exist"
    raise ValueError(
        f"the folder {experiment} {what}, and results/{experiment}/mlflow.db does not exist; name "
        "the results folder of a sweep, or its store with --tracking-uri or MLFLOW_TRACKING_URI"
    )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        make_folder(folder)
        yield
    except OSError as error:
        raise ValueError(
            f"the report can't be written to {folder} ({error.strerror}); choose another --out DIR"
        ) from error


def _answer(folder: Path) -> Answer:
    html, figure, rows_of = (folder / name for name in REPORT_FILES)
    with open_regular(rows_of) as file:
        lines = list(csv.reader(file.read().decode().splitlines()))
    rows = [list(map(_cell, lines[0], line)) for line in lines[1:]]
    drawn = table(lines[0], rows, title="results by epsilon") if rows else []
    return Answer(
        facts={"html": str(html), "pareto_png": str(figure), "rows": len(rows)},
        words=[*drawn, f"{len(rows)} rows in the page {html}", f"figure: {figure}"],
    )


def _cell(name: str, text: str) -> str:
    try:
        value = float(text)
        return shown(value) if name in ("epsilon", "delta") else f"{value:.4g}"
    except ValueError:
        return text
