"""`labeldp request`, `release` and `fit`: labels with one party, features with another."""

import csv
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.progress import track

from labeldp.platform.api import party_files, two_parties
from labeldp.platform.api.histograms import fit_histograms
from labeldp.platform.cli.command import Answer
from labeldp.platform.report.wording import concern_of_delta, price
from labeldp.platform.settings.methods import RELEASED
from labeldp.platform.settings.metrics import mixture_text
from labeldp.trainers.data.conversions import SECRETS, conversions
from labeldp.trainers.data.conversions import weeks as by_week
from labeldp.trainers.data.files import make_folder
from labeldp.trainers.data.tables import (
    QueriedLabels,
    csv_table,
    database_file,
    is_address,
    opened_query,
    parquet_count,
    parquet_table,
)
from labeldp.trainers.methods.any_model import named_estimator
from labeldp.trainers.methods.histograms import planned_buckets
from labeldp.trainers.models.trained_model import TrainedModel

if TYPE_CHECKING:  # half a second
    from sklearn.base import ClassifierMixin


def request(
    *,
    features: str,
    classes: str,
    after: Sequence[str],
    estimator: str | None,
    out: str,
    rows_at_once: int | None = None,
    **how: Any,
) -> Answer:
    """Write a request for labels of a table's rows; `how` is as in `write_request`.

    Of a large table it is written in parts of `rows_at_once`, each in a folder.
    """
    # As lines of CSV: a name with a comma stands in double quotes.
    lines = csv.reader(classes.splitlines(keepends=True), skipinitialspace=True)
    named = [name.strip() for name in chain.from_iterable(lines)]
    method = how["method"]

    def written(table: pd.DataFrame, to: str) -> tuple[int, int]:
        """Return the numbers of rows and of directions."""
        asked = two_parties.write_request(
            table,
            to,
            classes=named,
            after=[party_files.read_release(each) for each in after],
            estimator=_estimator(estimator, len(table), how["seed"]),
            **how,
        )
        return len(asked.ids), 0 if asked.weights is None else asked.weights.shape[1]

    if rows_at_once is None:
        sizes = [written(read_table(features, how["id_column"]), out)]
    else:
        path = Path(features)
        whole = after or how["pairs"] or method == "stages"
        if path.suffix.lower() != ".parquet" or rows_at_once < 2 or whole:
            raise ValueError(
                f"--rows-at-once is {rows_at_once} for {features}; it needs a .parquet, at least 2 "
                "rows per part, and neither --after nor --pairs nor --method stages"
            )
        sizes = []
        with party_files.new_folder(out) as folder:
            # No rows are one part, too, which is refused.
            for number in _shown(range(max(1, -(-parquet_count(path) // rows_at_once))), "parts"):
                own = range(number * rows_at_once, (number + 1) * rows_at_once)
                some = parquet_table(path, rows=own)
                sizes.append(written(some.to_pandas(), f"{folder}/part{number:04}"))
    what = "choices" if how["pairs"] else "labels"
    rows = sum(count for count, _ in sizes)
    directions = max(count for _, count in sizes)
    size = _bytes(Path(out))
    shows = "the group of each row" if method == "clusters" else "no features"
    if directions:
        more = "names of the columns"
        if not how["pairs"]:
            more = "names and quantiles of the columns, and some rows as they are, scaled"
        shows = f"{directions} functions of each row's features, {more}"
    elif after:
        shows = "a guess of each label, from an earlier release"
    facts = {"rows": rows, "method": method, "directions": directions, "bytes": size, "folder": out}
    price_of = f"--epsilon {how['epsilon']:g}"
    if not RELEASED[method].pure:
        price_of += f" --delta {how['delta']:g}"
    return Answer(
        facts=facts,
        words=[
            f"{out}: a request for {rows:,} {what} by {method}, {size:,} bytes",
            f"The party with the labels sees the ids and {shows}.",
            f"That party runs: labeldp release LABELS --id-column ID --label-column LABEL "
            f"--request {shlex.quote(out)} {price_of} -o release",
        ],
    )


def _shown(parts: Iterable[Any], work: str) -> Iterable[Any]:
    """Pass on the parts, with a bar on a terminal."""
    console = Console(stderr=True)
    hidden = not console.is_terminal
    return track(parts, work, console=console, transient=True, disable=hidden)


def release(
    *,
    labels: str,
    request: str,
    vault: str | None,
    dry_run: bool,
    out: str | None,
    query: str | None = None,
    push_down: bool = False,
    **how: Any,
) -> Answer:
    """Answer a request with a release of labels, or state its price.

    Args:
        labels: File of labels, or address of a database.
        request: Folder of the request.
        vault: File of the vault; None for one beside the labels.
        dry_run: State the price, and write nothing.
        out: New folder of the release.
        query: SELECT for the labels in a database.
        push_down: Count clusters in the database.
        **how: As in `two_parties.answer`.
    """
    if out is None and not dry_run:
        raise ValueError("name a new folder for the release with -o DIR, or use --dry-run")
    columns = [how["id_column"], how["label_column"]]
    if how["person_column"]:
        columns.append(how["person_column"])
    with _labels(labels, query, push_down, columns) as table:
        found = two_parties.answer(
            table,
            party_files.parts_of(request),
            None if dry_run else out,
            vault=vault or _beside(labels),
            vault_is_guessed=vault is None,
            progress=_shown,
            **how,
        )
    lines = _in_words(found, dry_run=dry_run)
    if found.absent:
        lines.append(
            f"{found.absent:,} of {found.rows:,} ids have no label in {labels} and count as "
            f"{how['missing']!r}; both files must write ids alike"
        )
    written: dict[str, Any] = {"bytes": 0, "folder": None}
    if out is not None and not dry_run:
        written = {"bytes": _bytes(Path(out)), "folder": out}
        lines.append(f"{out}: {written['bytes']:,} bytes for the party with the features")
    return Answer(facts={**asdict(found), **written}, words=lines)


def _in_words(found: two_parties.Answered, *, dry_run: bool) -> list[str]:
    unit = found.unit
    payers = found.rows if found.persons is None else found.persons
    of_whom = "" if found.persons is None else f" of {payers:,} persons"
    what = "choices" if unit == "pair" else "labels"
    lines = [
        f"{'would release' if dry_run else 'released'}: {found.method} of {found.rows:,} "
        f"{what}{of_whom}, {price(found.epsilon, found.delta)} for each {unit}",
        f"the {unit} that has paid most to {found.vault} {'would have' if dry_run else 'has'} "
        f"paid {price(found.total_epsilon, found.total_delta)}",
    ]
    if not found.new:
        lines.append("this request was answered before: the same release is read, at no cost")
    elif found.known:
        lines.append(
            f"{found.known:,} of {payers:,} {unit}s are known to {found.vault}; they pay again"
        )
    if found.new_vault:
        lines.append(
            f"{found.vault} {'would be' if dry_run else 'is'} a new vault: it counts no release "
            "that another vault made of these labels (--vault names the one to use)"
        )
    concern = concern_of_delta(found.delta, payers=payers, unit=unit)
    return lines if concern is None else [*lines, concern]


def buckets(*, features: str, budget: float) -> Answer:
    """Propose histograms to request from a party that noises them."""
    planned = planned_buckets(read_table(features), epsilon=budget)
    columns = planned["column"].unique().tolist()
    facts = {
        "columns": columns,
        "epsilon": budget,
        "scale": float(planned["scale"].iloc[0]),
        "l1": len(columns),
        "buckets": planned.astype(object).where(planned.notna(), None).to_dict("records"),
    }
    return Answer(facts=facts, words=planned.to_csv(index=False).rstrip())


@contextmanager
def _labels(
    labels: str, query: str | None, push_down: bool, columns: Sequence[str]
) -> Iterator[pd.DataFrame | QueriedLabels]:
    """Yield columns of a file or of a query, or the query itself; the second holds the labels."""
    if is_address(labels) != (query is not None) or (push_down and query is None):
        raise ValueError("--query goes with the address of a database, and --push-down with both")
    if query is None:
        yield read_table(labels, *columns, as_written=[columns[1]])
        return
    with opened_query(labels, query) as rows:
        yield rows if push_down else rows.table(*columns)


def _beside(labels: str) -> Path:
    """Return the vault beside labels in a file; those of a server have none."""
    place = database_file(labels) if is_address(labels) else Path(labels)
    if place is None:
        raise ValueError(
            "name the vault of these labels with --vault DIR: no file stands beside it"
        )
    return place.with_suffix(".vault")


def fit(
    *,
    features: Sequence[str],
    release: Sequence[str] = (),
    request: Sequence[str] = (),
    histograms: str | None = None,
    noise: str | None = None,
    l1: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    estimator: str | None,
    seed: int,
    out: str,
) -> Answer:
    """Fit a classifier to releases or histograms, and write it for `labeldp predict`.

    Args:
        features: Files of features, one for each release.
        release: Folders of releases.
        request: Folders of their requests; by default beside them.
        histograms: File of counts that somebody else noised, in place of releases.
        noise: Its distribution, where the file states none.
        l1: Most that a person adds to all counts together.
        epsilon: What the other party states.
        delta: What the other party states.
        estimator: Name of a model, in place of the default.
        seed: Public seed of the fit.
        out: New folder of the model.
    """
    if (histograms is None) != bool(release):
        raise ValueError("name what to learn from: either --release DIR or --histograms FILE")
    if (noise is None) != (l1 is None) or (release and (noise, epsilon) != (None, None)):
        raise ValueError(
            "--noise laplace goes with --l1, and both and --epsilon with --histograms: a release "
            "states its own"
        )
    if histograms is not None and (len(features) > 1 or request):
        raise ValueError("--histograms are of one table of features, and answer no --request")
    if release and delta:
        raise ValueError(f"--delta is {delta:g}, but a release states its own; leave it out")
    party_files.check_new(Path(out))  # before the training
    if histograms is None:
        model, rows, paid, notes = _of_releases(features, release, request, estimator, seed)
        of_pairs = model.origin.method.startswith("a reward")
        what = f"released {'choices' if of_pairs else 'labels'}"
    else:
        table = read_table(features[0])
        rows = len(table)
        model = fit_histograms(
            table,
            read_table(histograms, "column", "category"),
            epsilon=epsilon,
            delta=delta,
            l1=l1,
            estimator=_estimator(estimator, rows, seed),
            seed=seed,
        )
        paid = f"by the word of {model.origin.stated_by} (--epsilon): no vault of yours paid it"
        notes = []
        what = "rows in histograms"
    with party_files.new_folder(out) as folder:
        model.save(folder)
    origin = model.origin
    facts = {
        "rows": rows,
        "estimator": origin.method.partition(" on ")[0],
        "models": model.models,
        "epsilon": origin.epsilon,
        "delta": origin.delta,
        "epsilon_stated_by": origin.stated_by,
        "bytes": _bytes(Path(out)),
        "folder": out,
    }
    cost = price(origin.epsilon, origin.delta)
    lines = [
        f"{out}: {facts['estimator']} of {rows:,} {what}, {cost} {paid}",
        f"labeldp predict {shlex.quote(out)} ROWS.parquet -o predictions.parquet",
    ]
    if mixed := mixture_text(model.models):
        lines.append(f"models by weight and held-out log-likelihood: {mixed}")
    return Answer(facts=facts, words=lines + notes)


def _of_releases(
    features: Sequence[str],
    release: Sequence[str],
    request: Sequence[str],
    estimator: str | None,
    seed: int,
) -> tuple[TrainedModel, int, str, list[str]]:
    """Return a model of releases, the number of their labels, who paid for it, and notes."""
    answers = [
        [*map(party_files.read_release, party_files.parts_of(each, name="release.json"))]
        for each in release
    ]
    releases = [*chain.from_iterable(answers)]
    unknown = _refuse_others(releases, release, request)
    files = [*features] * (len(release) if len(features) == 1 else 1)
    id_column = releases[0].id_column
    if len(features) == 1 and len(releases) == len(release):
        tables = read_table(features[0], id_column)
    elif len(files) == len(release):  # of what was requested in parts, the rows part by part
        places = [
            (file, range(*ends) if len(own) > 1 else None)
            for file, own in zip(files, answers, strict=True)
            for ends in pairwise(accumulate((len(each.ids) for each in own), initial=0))
        ]
        tables = (
            parquet_table(Path(file), rows=rows).to_pandas()
            if rows
            else read_table(file, id_column)
            for file, rows in _shown(places, "parts")
        )
    else:
        tables = (read_table(each, id_column) for each in features)
    count = sum(len(each.ids) for each in releases)
    learner = _estimator(estimator, count, seed)
    model = two_parties.fit_release(tables, releases, estimator=learner, seed=seed)
    note = f"{unknown} releases were not compared with a request: --request DIR"
    paid = f"for the {releases[0].ledger[0].unit} that paid most"
    return model, count, paid, [note] * (unknown > 0)


def _refuse_others(
    releases: Sequence[party_files.PartyRelease], places: Sequence[str], requests: Sequence[str]
) -> int:
    """Refuse releases that answer no request named, or not as one beside them asked.

    Returns the number of releases whose request is not here.
    """
    beside = {path for place in places for path in Path(place).absolute().parent.glob("*")}
    named = [*map(Path, requests)] or sorted(beside)
    folders = [part for each in named for part in party_files.parts_of(each)]
    own: dict[str, party_files.Request] = {}
    for folder in folders:
        try:
            asked = party_files.read_request(folder)
        except party_files.FileNotAsWritten as error:
            if requests or isinstance(error, party_files.FileAltered):
                raise
            continue  # nobody named this folder, and it holds no request that can be read
        # Without what is as large as the table.
        own[asked.digest] = replace(asked, weights=None, prior=None, clusters=None)
    for each in releases:
        digest = each.ledger[0].key
        if digest in own:
            party_files.check_answers(each, own[digest])
        elif requests:
            raise ValueError(
                f"a release answers the request {digest:.12}..., which none of "
                f"{', '.join(requests)} is; name its own request with --request DIR"
            )
    return sum(each.ledger[0].key not in own for each in releases)


def make(*, rows: int, weeks: int, window: float | None, seed: int, out: str) -> Answer:
    """Write a synthetic log as the tables of two parties, and a fifth as many rows to test with.

    The party with the labels knows who made a visit, too; with a window, of those that ended in a
    purchase in time.
    """
    log = conversions(rows, seed=seed)
    tables = {"test": conversions(max(1000, rows // 5), seed=seed + 1_000_000)}
    for number, week in enumerate(by_week(log, weeks), start=1):
        place = f"week{number}/" if weeks > 1 else ""
        tables[f"{place}features"] = week.drop(columns=list(SECRETS))
        known = week if window is None else week[week.delay <= window]
        columns = ["id", "person", "bought", "amount", "delay"]
        tables[f"{place}labels"] = known[columns].sort_values("id")
    with party_files.new_folder(out) as folder:
        for table, content in tables.items():
            path = folder / f"{table}.parquet"
            make_folder(path.parent)
            content.to_parquet(path, index=False)
    share = float((log.bought == "yes").mean())
    each = f" in each of {weeks} folders" if weeks > 1 else ""
    timely = log.delay.dropna().le(window or 0).mean()
    late = "" if window is None else f" ({timely:.0%} of them within {window:g} days)"
    return Answer(
        facts={"rows": rows, "share": share, "bytes": _bytes(Path(out)), "folder": out},
        words=f"{out}: {rows:,} visits, {share:.1%} of which ended in a purchase{late}: "
        f"features.parquet, labels.parquet{each}, and test.parquet with both",
    )


def read_table(file: str, *text: str, as_written: Sequence[str] = ()) -> pd.DataFrame:
    """A `.csv`, `.xlsx` or `.parquet`; of one of labels `as_written`, the named columns alone."""
    path = Path(file)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".xlsx", ".parquet"):
        raise ValueError(f"{file} is not a .csv, .xlsx or .parquet; save the table as one of them")
    if suffix == ".parquet":
        table = parquet_table(path, columns=text if as_written else None)
    else:
        table = csv_table(path, text=text, as_written=as_written)
    # pandas turns whole numbers beside a gap into floats, and floats round long names.
    return table.to_pandas(integer_object_nulls=bool(as_written))


def _estimator(name: str | None, rows: int, seed: int) -> "ClassifierMixin | None":
    return None if name is None else named_estimator(name, rows=rows, seed=seed)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
