"""What a sweep left behind, from Python: a table, the best trial, its model, the ledger, the page.

A results folder is read as it lies there; nothing in it is made or changed, and neither Ray nor
torch is needed (but for a model).
"""

import html
import os
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.api.trial_table import best_of, trial_table
from labeldp.platform.records.results import KeptResults, ResultsFolderError, read_results
from labeldp.platform.sweep.accuracy_figures import ChooseBy

if TYPE_CHECKING:
    import pandas as pd

    from labeldp.platform.records.results import TrialRecord
    from labeldp.trainers.models.trained_model import TrainedModel


@dataclass(frozen=True)
class ReportPage:
    """A report: shows itself in a notebook.

    Attributes:
        path: The page.
    """

    path: Path

    def open(self) -> None:
        """Open it in a browser."""
        webbrowser.open(self.path.as_uri())

    def _repr_html_(self) -> str:
        """Show the page where notebooks show things."""
        page = html.escape(self.path.read_text(), quote=True)
        return (
            # Apart from the notebook, in whose name its scripts could otherwise do anything: a
            # folder of results may be somebody else's.
            '<iframe title="report" sandbox="allow-scripts allow-popups" '
            f'srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'
        )


@dataclass(frozen=True)
class Result:
    """Trials of a sweep that have ended, in their results folder.

    Attributes:
        folder: Where they lie.
    """

    folder: Path

    def __repr__(self) -> str:
        """Say what there is."""
        kept = self._kept()
        finished = sum(record.finished for record in kept.records.values())
        failed = len(kept.records) - finished
        return f"Result({kept.sweep}: {finished} trials finished, {failed} failed, {self.folder})"

    def table(self, *, private: bool = False) -> "pd.DataFrame":
        """Return one row per trial: method, epsilon, delta, accuracy, epsilon_m, seed, trial, ...

        `accuracy_spread` is the standard deviation over seeds, where there are several. epsilon_m
        is measured on canaries, outside of the guarantee, and so the labels' owner's: leave it out
        where a table goes beyond them.

        Args:
            private: With all other columns that are the labels' owner's alone.
        """
        return trial_table(self._kept().records.values(), private=private)

    def best(self, *, at_epsilon: float = float("inf"), by: str | None = None) -> "pd.Series[Any]":
        """Return the table's row of the most accurate settings that cost at most `at_epsilon`.

        What a trial costs is what `labeldp publish` goes by: all releases on which it depends, and
        so more than its row says where a search had a say in its settings.

        Args:
            at_epsilon: The most that the trial may have cost.
            by: `test` or `estimated`; which accuracy.

        Raises:
            ValueError: No trial cost so little, or noise would choose among those that did.
            StoreUnusable: The vault can't be read, so that nobody knows what anything cost.
        """
        records = list(self._kept().records.values())
        near = records if at_epsilon == float("inf") else self._within(at_epsilon)
        chosen = best_of(near, by=None if by is None else ChooseBy(by))
        table = trial_table(records)
        return table[table["trial"] == chosen.hash].iloc[0]

    def model(self, trial: Any) -> "TrainedModel":
        """Return a trial's model: raw rows in, predictions out.

        Args:
            trial: Its hash or how that begins, or a row of the table.

        Raises:
            ResultsFolderError: There is no such trial.
            ModelFileError: It kept no model, or one that can't be read.
        """
        from labeldp.trainers.models.trained_model import load_model

        named = trial if isinstance(trial, str) else str(trial["trial"])
        return load_model(self.folder / "models" / self._kept().trial(named).hash)

    def ledger(self) -> "pd.DataFrame":
        """Return one row per release: what, when, of how many labels, at what price, who read it.

        Raises:
            StoreUnusable: The vault can't be read.
        """
        import pandas as pd

        from labeldp.platform.report.ledger import account_of, read_folder
        from labeldp.platform.report.ledger_words import rows

        return pd.DataFrame(rows(account_of([read_folder(self.folder)])))

    def total(self) -> tuple[float, float]:
        """Return what all releases together cost the label that paid most: epsilon and delta.

        Of a sweep that learns it is the plan's price, where that is more.

        Raises:
            StoreUnusable: The vault can't be read.
        """
        from labeldp.platform.report.ledger import account_of, read_folder

        total = account_of([read_folder(self.folder)]).together
        return total.epsilon, total.delta

    def report(self) -> ReportPage:
        """Return the sweep's page; it shows itself in a notebook, and `.open()` opens a browser.

        Raises:
            ResultsFolderError: There is none yet.
        """
        page = self.folder / "report.html"
        if not page.exists():
            raise ResultsFolderError(
                f"{page} is not there yet: a sweep writes it when it ends; `labeldp report` writes "
                "one of what there is"
            )
        return ReportPage(path=page)

    def _within(self, at_epsilon: float) -> "list[TrialRecord]":
        """Finished trials that cost no more than that."""
        from labeldp.mechanisms.ledger import Budget
        from labeldp.platform.report.ledger import read_folder
        from labeldp.platform.report.selection import price_of, within

        folder = read_folder(self.folder)
        finished = [each for each in folder.results.records.values() if each.finished]
        near = within(folder, finished, Budget(epsilon=at_epsilon))
        if finished and not near:
            least = min(price_of(folder, each).epsilon for each in finished)
            raise ValueError(
                f"no trial is within epsilon {at_epsilon:g}; the cheapest costs {least:.4g}"
            )
        return near

    def _kept(self) -> KeptResults:
        return read_results(self.folder)


def load(folder: str | os.PathLike[str]) -> Result:
    """Return what a sweep left in its results folder.

    Args:
        folder: That `run` or a sweep's `--results` was given.

    Raises:
        ResultsFolderError: It is no results folder, or a file in it is damaged.
    """
    path = Path(folder).expanduser().absolute()
    read_results(path)
    return Result(folder=path)
