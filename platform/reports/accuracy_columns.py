"""Columns of a report's table that hold accuracies, and what a reader must know of them."""

from collections.abc import Sequence

from labeldp.mechanisms.accuracy_estimate import BestOf
from labeldp.platform.accuracy_figures import ChooseBy
from labeldp.platform.reports.pareto import Point


def accuracy_heads(found: Sequence[Point]) -> str:
    """Return heads of the columns that `accuracy_cells` fills."""
    heads = "<th>accuracy</th>" if _measured(found) else ""
    return heads + ("<th>estimated</th>" if _estimated(found) else "")


def accuracy_cells(point: Point) -> str:
    """Return a point's cells: of the test split, if there is one, and of held-out labels."""
    spread = f" &plusmn; {100 * point.accuracy_std:.2f}" if len(point.hashes) > 1 else ""
    cells = ""
    if point.accuracy_test is not None:
        own = spread if point.accuracy_by is ChooseBy.TEST else ""
        cells += f"<td>{100 * point.accuracy_test:.2f}{own}</td>"
    if point.estimate is not None:
        error = 100 * point.estimate.error
        cells += f"<td>{100 * point.estimate.accuracy:.2f} (error {error:.2f})</td>"
    return cells


def accuracy_remarks(found: Sequence[Point]) -> str:
    """Return what the columns mean, and how good the best row is if it was chosen by estimates."""
    parts = []
    if _measured(found):
        parts.append(
            "Accuracy: public test split, last epoch, mean &plusmn; standard deviation over seeds "
            "where there are several."
        )
    if _estimated(found):
        parts.append(
            "Estimated: accuracy on labels that were held out of the training, by what was "
            "released of them, with its standard error; that is part of the guarantee."
        )
    estimates = [point.estimate for point in found if point.estimate is not None]
    if found and found[0].accuracy_by is ChooseBy.ESTIMATED:
        best = BestOf.among(estimates)
        parts.append(
            "Rows are compared by it, and no test label was looked at to choose one. The best of "
            f"{len(estimates)} looks better than it is: its accuracy lies between "
            f"{100 * best.low:.2f} and {100 * best.high:.2f} with 95% confidence, the choice "
            "corrected for."
        )
    return " ".join(parts)


def _measured(found: Sequence[Point]) -> bool:
    return any(point.accuracy_test is not None for point in found) or not found


def _estimated(found: Sequence[Point]) -> bool:
    return any(point.estimate is not None for point in found)
