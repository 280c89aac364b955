"""figure_names: each figure that the code makes is of one class, and no two places differ."""

from collections.abc import Iterable

import pytest

from labeldp import LabelPrivateClassifier
from labeldp.platform.sweep.figure_names import OPEN, OWNERS, PRIVATE_PREFIX, PUBLIC, is_owners
from tests.platform.api.labelled_rows import rows_and_labels
from tests.source_tree import ROOT


def wrongly_classed(names: Iterable[str]) -> dict[str, int]:
    """Figures that are of no class, or of several."""
    classes = {name: is_owners(name) + (name in PUBLIC) + (name in OPEN) for name in names}
    return {name: number for name, number in classes.items() if number != 1}


def test_classes_have_nothing_in_common() -> None:
    assert not wrongly_classed([*OWNERS, *PUBLIC, *OPEN])
    assert len({*OWNERS, *PUBLIC, *OPEN}) == len([*OWNERS, *PUBLIC, *OPEN])


@pytest.mark.parametrize("name", ["private/of_tomorrow", "epsilon_m_of_tomorrow", *OWNERS])
def test_the_owners_are_known_by_prefix_and_by_name(name: str) -> None:
    assert is_owners(name) and name not in PUBLIC


def test_every_figure_of_an_audited_fit_has_one_class_and_lies_where_it_belongs() -> None:
    model = LabelPrivateClassifier(
        "alibi", epsilon=4.0, classes=3, canaries=100, settings={"epochs": 1}
    ).fit(*rows_and_labels(400))
    told = {name for name, value in model.audit_.items() if isinstance(value, float)}
    kept = set(model.private_)
    assert "private/epsilon_release" in kept and "epsilon_release_ceiling" in told
    assert "epsilon_m_low" in kept
    assert not wrongly_classed(told | kept)
    assert all(map(is_owners, kept)) and not any(map(is_owners, told))


def test_docs_name_the_same_figures() -> None:
    page = (ROOT / "docs" / "sharp_edges.md").read_text()
    (paragraph,) = (part for part in page.split("\n- ") if part.startswith("**Private numbers.**"))
    assert f"`{PRIVATE_PREFIX}`" in paragraph and "`epsilon_m_*`" in paragraph
    for name in OWNERS:
        assert name.startswith("epsilon_m_") or f"`{name}`" in paragraph
    assert not [name for name in (*PUBLIC, *OPEN) if f"`{name}`" in paragraph]
