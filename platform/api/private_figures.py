"""Figures made of true labels: for their owner alone, and so in no text and in no file unasked.

>>> figures = PrivateFigures({"private/training_accuracy": 0.93})
>>> figures
PrivateFigures(1 figure, for the labels' owner alone)
>>> figures["private/training_accuracy"]
0.93
>>> import pickle
>>> len(pickle.loads(pickle.dumps(figures)))
0
"""

from collections.abc import Iterator, Mapping
from typing import Any


class PrivateFigures(Mapping[str, float]):
    """Name -> number; neither shown nor pickled, unless `pickled` is set.

    Attributes:
        pickled: Whether a pickle of this, or of what it is part of, holds the figures.
    """

    def __init__(self, figures: Mapping[str, float], *, pickled: bool = False) -> None:
        """Keep them."""
        self._figures = dict(figures)
        self.pickled = pickled

    def __getitem__(self, name: str) -> float:
        """Return one of them."""
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        """Go through their names."""
        return iter(self._figures)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._figures)

    def __repr__(self) -> str:
        """Say how many there are, and show none."""
        count = len(self._figures)
        plural = "" if count == 1 else "s"
        return f"PrivateFigures({count} figure{plural}, for the labels' owner alone)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel empty, unless asked not to."""
        kept = self._figures if self.pickled else {}
        return (PrivateFigures, (kept,), {"_figures": kept, "pickled": self.pickled})


def without_figures(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of an audit may travel: how many labels it spoiled, and no word of its outcome.

    >>> without_figures({"epsilon_one_run_ceiling": 0.4, "spoiled_labels": 20})["spoiled_labels"]
    20
    """
    figures = [name for name, value in audit.items() if isinstance(value, float)]
    if not figures:
        return dict(audit)
    kept = {name: value for name, value in audit.items() if name not in figures}
    return {**kept, "reason": "what the audit found stayed with the labels' owner"}
