"""private_figures: read by name, and in no text and no pickle unasked."""

import copy
import pickle

from labeldp.platform.api.private_figures import PrivateFigures, without_figures


def test_figures_are_read_by_name_only() -> None:
    figures = PrivateFigures({"private/a": 0.125, "private/b": 2.0})
    assert figures["private/a"] == 0.125 and sorted(figures) == ["private/a", "private/b"]
    assert repr(figures) == str(figures) == "PrivateFigures(2 figures, for the labels' owner alone)"


def test_they_are_pickled_only_if_asked_for() -> None:
    figures = PrivateFigures({"private/a": 0.125})
    assert len(pickle.loads(pickle.dumps(figures))) == len(copy.deepcopy(figures)) == 0
    figures.pickled = True
    assert dict(pickle.loads(pickle.dumps(figures))) == {"private/a": 0.125}


def test_an_audit_travels_without_what_it_found() -> None:
    told = without_figures({"epsilon_m_low": 0.4, "epsilon_m_high": 2.0, "spoiled_labels": 20})
    assert set(told) == {"spoiled_labels", "reason"} and "stayed" in told["reason"]
    nothing = {"spoiled_labels": 0, "reason": "not audited"}
    assert without_figures(nothing) == nothing
