"""Fits that are refused, and releases between two parties."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp import SharedVault
from labeldp.platform.api.party_files import PartyRelease, Request, read_release
from labeldp.platform.api.two_parties import answer, write_request

ROWS = 3000
COLUMNS: dict[str, Any] = {"id_column": "id", "label_column": "bought"}
ASKED: dict[str, Any] = {"id_column": "id", "method": "subset", "classes": ["no", "yes"]}


def both_tables(rows: int = ROWS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Features with text and gaps; labels in another order, with a row more."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 3))
    ids = [f"u{number}" for number in generator.permutation(rows)]
    features = pd.DataFrame({"id": ids, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})
    features["town"] = np.where(x[:, 1] > 0.5, "Bern", "Rome")
    features.loc[::17, "c"] = np.nan
    bought = np.where(x[:, 0] + x[:, 1] > 0, "yes", "no")
    labels = pd.DataFrame({"id": [*ids, "stranger"], "bought": [*bought, "no"]})
    return features, labels.sample(frac=1, random_state=0)


def requested(rows: int = ROWS, **how: Any) -> tuple[pd.DataFrame, pd.DataFrame, Request]:
    """Both tables, and a request for all labels in the folder `q`."""
    features, labels = both_tables(rows)
    return features, labels, write_request(features, "q", **{**ASKED, **how})


def refused(model: Any, *given: Any, says: str | None = None, **named: Any) -> None:
    """See that a fit is refused before it has paid anything to a vault."""
    vault = SharedVault()
    with pytest.raises(ValueError, match=says):
        model.set_params(vault=vault).fit(*given, **named)
    assert vault.charges() == []


def released(
    features: pd.DataFrame, labels: pd.DataFrame, *, epsilon: float = 1.0, **how: Any
) -> PartyRelease:
    """Request labels in the folder `q`, answer in `r` from a vault in memory, and read that."""
    request = write_request(features, "q", **{**ASKED, "epsilon": epsilon, **how})
    answer(labels, request, "r", **COLUMNS, epsilon=epsilon, vault=SharedVault())
    return read_release("r")
