"""Records of trials: read by a resumed sweep, and made into a report."""

import csv
import json
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.report.report import write_report
from labeldp.platform.sweep.open_sweep import finished_before
from labeldp.platform.sweep.sweep import Resume
from tests.benchmarks.benchmark import Work, benchmark
from tests.platform.sweep.examples import a_record

_READ, _REPORTED = 5000, 1000


def _many(number: int) -> list[TrialRecord]:
    made = a_record()
    return [
        replace(
            made,
            hash=f"{seed:016x}",
            point={"seed": seed % 4, "trainer.epsilon": 0.01 * (seed // 4 + 1)},
            metrics={
                **made.metrics,
                "accuracy": 0.5 + 0.4 * (seed * 7919 % number) / number,
                "epsilon": 0.01 * (seed // 4 + 1),
            },
        )
        for seed in range(number)
    ]


@benchmark(
    "resume",
    "5,000 records checked by a resumed sweep",
    "the same files read and not checked",
    mark=0.055,
    most_seconds=10.0,
)
def _resume(scratch: Path) -> Work:
    folder = ResultsFolder(scratch, sweep="small")
    for record in _many(_READ):
        text = json.dumps(asdict(record), indent=1)
        (scratch / "trials" / f"{record.hash}.json").write_text(text)

    def ours() -> set[str]:
        return set(finished_before(folder, Resume.AUTO, ""))

    def plain() -> set[str]:
        """Read each file, check nothing."""
        found = (json.loads(path.read_text()) for path in (scratch / "trials").glob("*.json"))
        return {record["hash"] for record in found if record["finished"]}

    def check() -> None:
        assert ours() == plain() and len(plain()) == _READ

    return Work(ours=ours, reference=plain, check=check)


@benchmark(
    "report",
    "report of 1,000 trials: page, figures, table",
    "pandas and one scatter plot",
    mark=0.09,
)
def _report(scratch: Path) -> Work:
    mpl.use("agg")
    records, plain_folder = _many(_REPORTED), scratch / "plain"
    plain_folder.mkdir()

    def plain() -> None:
        """A table of all trials, their means, and a scatter plot."""
        table = pd.DataFrame([{"variant": r.variant, **r.point, **r.metrics} for r in records])
        keys = ["variant", "trainer.epsilon"]
        means = table.groupby(keys).mean(numeric_only=True).reset_index()
        means.to_csv(plain_folder / "means.csv", index=False)
        figure = Figure()
        axes = figure.subplots()
        axes.scatter(means["epsilon"], means["accuracy"])
        figure.savefig(plain_folder / "means.png", dpi=150)
        (plain_folder / "report.html").write_text(table.to_html() + means.to_html())

    number = count()

    def ours() -> Path:
        # Into a new folder each time: pictures that are there already are not drawn again.
        folder = scratch / f"{next(number)}"
        folder.mkdir()
        write_report(records, folder=folder, title="small")
        return folder

    def check() -> None:
        plain()
        with (ours() / "pareto.csv").open() as file:
            found = {float(row["epsilon"]): float(row["accuracy"]) for row in csv.DictReader(file)}
        means = pd.read_csv(plain_folder / "means.csv").set_index("epsilon")["accuracy"]
        assert len(found) == len(means)
        gaps = means.sort_index().to_numpy() - [found[epsilon] for epsilon in sorted(found)]
        assert abs(gaps).max() < 1e-6

    return Work(ours=ours, reference=plain, check=check)
