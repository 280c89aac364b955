"""Sweeps from Python: plan one, run one, and read its results folder.

Reading changes nothing in the folder, and loads neither Ray nor torch (except for a model).
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from labeldp.mechanisms.ledger import Budget, shown
from labeldp.platform.records.results import TrialRecord, default_results, lasting, read_results
from labeldp.platform.report.ledger import read_folder, rows, spent_by
from labeldp.platform.report.pareto import points
from labeldp.platform.report.selection import price_of, within
from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.platform.settings.methods import name_of
from labeldp.platform.settings.metrics import SCORES, ChooseBy, is_owners, refuse_lottery
from labeldp.platform.settings.sweep import Sweep, SweepOptions
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.plan import PlanResult, plan_of

if TYPE_CHECKING:
    from labeldp.trainers.models.trained_model import TrainedModel

Runnable = TrialConfig | Sweep | Mapping[str, Any] | str | os.PathLike[str]

#: Columns of the table in this order, where any trial has them; axes and the owner's between.
_FIRST = [
    *"method variant epsilon delta accuracy accuracy_spread".split(),
    *"accuracy_estimated accuracy_estimated_error".split(),
    *SCORES,
    *(f"{name}_estimated" for name in SCORES),
    *"epsilon_m_low epsilon_m_high seed".split(),
]
_LAST = "train_seconds noise league status reason trial".split()


@dataclass(frozen=True)
class Result:
    """The ended trials in the results folder of a sweep."""

    folder: Path

    def __repr__(self) -> str:
        kept = read_results(self.folder)
        finished = sum(record.finished for record in kept.records.values())
        failed = len(kept.records) - finished
        return f"Result({kept.sweep}: {finished} trials finished, {failed} failed, {self.folder})"

    def table(self, *, private: bool = False) -> pd.DataFrame:
        """Return one row per trial: method, epsilon, delta, accuracy, epsilon_m, seed, trial, ...

        `accuracy_spread` is the standard deviation over several seeds. epsilon_m is measured on
        canaries, outside of the guarantee: remove it before you share a table. `private` includes
        all other columns that are for the labels' owner alone.
        """
        return trial_table(read_results(self.folder).records.values(), private=private)

    def best(self, *, at_epsilon: float = float("inf"), by: str | None = None) -> "pd.Series[Any]":
        """Return the table's row of the most accurate settings that cost at most `at_epsilon`.

        A trial's cost is that of all releases on which it depends, as in `labeldp publish`. After a
        search this is more than its row states. `by` is the figure to compare: `test` or
        `estimated` accuracy, or as in `--choose-by`; the sweep's own if None.

        Raises:
            ValueError: All trials cost more, or noise would decide the choice.
        """
        kept = read_results(self.folder)
        records = list(kept.records.values())
        finished = [record for record in records if record.finished]
        if at_epsilon < float("inf"):
            account = read_folder(self.folder)
            affordable = within(account, finished, Budget(epsilon=at_epsilon))
            if finished and not affordable:
                least = min(price_of(account, each).epsilon for each in finished)
                raise ValueError(
                    f"no trial is within epsilon {at_epsilon:g}; the cheapest costs {shown(least)}"
                )
            finished = affordable
        chosen = best_of(finished, by=kept.identity.choose_by if by is None else ChooseBy(by))
        table = trial_table(records)
        return table[table["trial"] == chosen.hash].iloc[0]

    def model(self, trial: Any, *, allow_code: str | None = None) -> "TrainedModel":
        """Return the model of a trial, given by its hash, first digits of it, or a table row.

        `allow_code` is as of `load_model`.
        """
        from labeldp.trainers.models.trained_model import load_model  # it loads torch

        named = trial if isinstance(trial, str) else str(trial["trial"])
        folder = self.folder / "models" / read_results(self.folder).trial(named).hash
        return load_model(folder, allow_code=allow_code)

    def ledger(self) -> pd.DataFrame:
        """Return one row per release: mechanism, time, number of labels, price, readers."""
        return pd.DataFrame(rows([read_folder(self.folder)]))

    def total(self) -> tuple[float, float]:
        """Return epsilon and delta of all releases together, for the label that paid most.

        After a search it is the plan's price, if that is larger.
        """
        folder = read_folder(self.folder)
        total = spent_by([[folder]], delta=folder.delta)
        return total.epsilon, total.delta


def load(folder: str | os.PathLike[str]) -> Result:
    """Return the result of a sweep from its results folder."""
    path = Path(folder).expanduser().absolute()
    read_results(path)
    return Result(folder=path)


def run(
    what: Runnable,
    *,
    results: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    quiet: bool = False,
    allow_code: str | None = None,
    **options: Any,
) -> Result:
    """Run a trial or a sweep, as the command line does, and return its result.

    Finished trials in the results folder are not run again, and nothing is paid twice.

    Args:
        what: A `TrialConfig` or its dotted key -> value, a `Sweep`, or the path of a sweep file.
        results: The results folder; `results/NAME` if not given, of `~/labeldp` in a Ray job.
        overrides: Further dotted keys -> values; a list makes an axis.
        quiet: Print nothing on standard error.
        allow_code: The one module of the user's that a sweep in YAML may name: it is imported.
        **options: Further options of `SweepOptions`: `smoke`, `address`, `max_epsilon_total`, ...

    Raises:
        BudgetExceeded: The sweep would cost more than `max_epsilon_total`.
        CannotFit: The cluster can't hold a trial.
    """
    from labeldp.platform.sweep import driver  # it loads Ray, which `load` and `plan` do without

    sweep = sweep_of(what, allow_code=allow_code)
    if sweep.blocks:
        raise ValueError(
            f"{sweep.name} is a study of {1 + sweep.blocks} sweeps, which has no single result; "
            f"run it with `labeldp sweep {sweep.name}`"
        )
    chosen = _options(sweep, results=results, overrides=overrides, **options)
    with contextlib.redirect_stderr(io.StringIO() if quiet else sys.stderr):
        driver.run_sweep(sweep, chosen)
    return Result(folder=chosen.results.expanduser().absolute())


def plan(what: Runnable, *, allow_code: str | None = None, **options: Any) -> PlanResult:
    """Return the trials and cost of what `run` would do with these options; starts nothing."""
    sweep = sweep_of(what, allow_code=allow_code)
    return plan_of(sweep, _options(sweep, **options))


def _options(
    sweep: Sweep, *, results: Any = None, overrides: Any = None, **options: Any
) -> SweepOptions:
    if results is None:
        folder = default_results(sweep.name)
    else:
        folder = lasting(results, name_with="results=")
    return SweepOptions(results=folder, overrides=overrides or {}, **options)


def sweep_of(what: Runnable, *, allow_code: str | None = None) -> Sweep:
    """Return a runnable thing as a sweep; a trial alone is a sweep of one trial."""
    if isinstance(what, Sweep):
        return what
    if isinstance(what, Mapping):
        what = with_changes(TrialConfig(), what)
    if isinstance(what, TrialConfig):
        return Sweep(name=re.sub(r"[^\w.-]", "_", f"{what.method}_{what.data.name}"), base=what)
    if isinstance(what, str | os.PathLike):
        return load_sweep(os.fspath(what), allow_code=allow_code)
    raise ValueError(
        f"{type(what).__name__} can't be run; give a TrialConfig, keys and values of one, a Sweep, "
        "or the path of a sweep file"
    )


def trial_table(records: Iterable[TrialRecord], *, private: bool = False) -> pd.DataFrame:
    """Return trials of a sweep as rows, by epsilon and accuracy; those that failed last.

    Columns for the labels' owner alone are left out unless `private`. The interval of epsilon_m is
    the owner's too, and stands in every row: a table is for the owner, as the report is.
    """
    every = list(records)
    rows = {record.hash: _row(record, private=private) for record in every}
    measured = [record for record in every if record.finished and "accuracy" in record.metrics]
    for point in points(measured, choose_by=ChooseBy.TEST):
        if len(point.hashes) > 1:
            for digest in point.hashes:
                rows[digest]["accuracy_spread"] = point.accuracy_std
    known = {name for row in rows.values() for name in row}
    axes = dict.fromkeys(key for record in every for key in record.point)
    own = sorted(name for name in known if is_owners(name))
    columns = dict.fromkeys(name for name in (*_FIRST, *axes, *own, *_LAST) if name in known)
    cells = [{name: row.get(name) for name in columns} for row in sorted(rows.values(), key=_order)]
    return pd.DataFrame(cells, columns=list(columns))


def _row(record: TrialRecord, *, private: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": name_of(record.config),
        "variant": record.variant,
        **dict(record.point),
        "seed": record.config.get("seed"),
        "noise": record.noise.value,
        "league": record.features_from.league.words,
        "status": "finished" if record.finished else "failed",
        "trial": record.hash,
    }
    if not record.finished:
        row["reason"] = record.reason
    for name, value in record.metrics.items():
        if name in _FIRST or name in _LAST or (private and is_owners(name)):
            row[name] = value
    return row


def _order(row: dict[str, Any]) -> tuple[bool, float, float]:
    accuracy = row.get("accuracy", row.get("accuracy_estimated", 0.0))
    return (row["status"] == "failed", row.get("epsilon", 0.0), -accuracy)


def best_of(records: Iterable[TrialRecord], *, by: ChooseBy | None) -> TrialRecord:
    """Return the first seed of the most accurate settings, by their mean over seeds.

    The best of several seeds would look better than it is. `by` None is the accuracy on the public
    test split, where there is one.

    Raises:
        ValueError: None has finished, or noise would choose.
    """
    finished = [record for record in records if record.finished]
    if not finished:
        raise ValueError("no trial has finished; wait for the sweep, or start it again")
    found = points(finished, choose_by=by)
    refuse_lottery((each.metrics for each in finished), by=found[0].accuracy_by)
    best = max(found, key=lambda point: point.rank)
    seeds = [record for record in finished if record.hash in best.hashes]
    return min(seeds, key=lambda record: (int(record.config.get("seed", 0)), record.hash))
