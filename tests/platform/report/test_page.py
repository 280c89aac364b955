"""page: what it says of any sweep, to both audiences, at any size, whatever users have named."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.card import TEMPLATES, anchor
from labeldp.platform.report.ledger import Audience
from labeldp.platform.report.page import page
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import a_record

GLOSSARY = json.loads((TEMPLATES / "glossary.json").read_text())
HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}{% raw %}"


def made(records: Sequence[TrialRecord], **changes: Any) -> Page:
    return Page(page(records, **{"title": "small", **changes}))


def comparison() -> list[TrialRecord]:
    """Two methods of two seeds and a baseline, one trial of which failed."""
    records = [
        a_record(
            f"{variant}{epsilon}{seed}".lower(),
            variant=variant,
            point={"trainer.epsilon": epsilon, "trainer.learning_rate": 0.1, "seed": seed},
            epsilon=epsilon,
            accuracy=0.8 + 0.01 * epsilon + 0.005 * seed,
        )
        for variant in ("ALIBI", "AGIBI")
        for epsilon in (1.0, 4.0)
        for seed in (0, 1)
    ]
    baseline = a_record("z", variant="none", epsilon=math.inf, epsilon_m_low=2.5, accuracy=0.97)
    failed = a_record("f", variant="ALIBI", finished=False, reason="the loss is not finite")
    return [*records, baseline, failed]


def test_seeds_share_a_row_and_its_spread() -> None:
    found = made(comparison())
    assert found.column("method")[0].startswith("● AGIBI")
    assert found.column("accuracy, %")[0] == "81.25 ± 0.35"
    assert found.column("seeds") == ["2", "2", "2", "2", "1"]
    assert found.column("epsilon") == ["1", "1", "4", "4", "∞"]
    assert found.column("ceiling")[0] == "3"
    # On a screen of 400 pixels three columns are seen, and a reader needs these two together.
    assert found.tables[0][0][:3] == ["method", "epsilon", "accuracy, %"]
    assert "learning rate" in found.tables[0][0], "a setting that is the same in all rows stays"
    assert "trainer.epsilon" not in found.text.partition("All settings")[2].partition("Run c")[0]


def test_the_public_page_has_nothing_of_the_owners() -> None:
    figures = {"private/epsilon_x": 0.1234, "ensemble_accuracy": 0.5678}
    records = [*comparison(), a_record("s", figures=figures)]
    owner, public = (made(records, audience=audience) for audience in reversed(Audience))
    for words in ("epsilon_m", "the attack", "the loss is not finite", "ceiling"):
        # The glossary explains them all.
        assert words in owner.text.partition("The words used here")[0]
        assert words not in public.text.partition("The words used here")[0], words
    assert "1 trial. Why they failed is for the owner" in public.text
    assert "public edition" in public.text and "epsilon_m" not in public.tables[0][0]
    for found in (owner, public):
        assert not {"0.1234", "12.34", "0.5678", "56.78"} & set(found.text.split())
        assert "private/" not in found.text


def test_names_are_shown_and_never_run() -> None:
    records = [
        a_record("a", variant=HOSTILE, point={f"x.{HOSTILE}": HOSTILE}, epsilon=1.0),
        a_record("b", variant=f"{HOSTILE}2", point={f"x.{HOSTILE}": 1}, epsilon=2.0),
        a_record("c", variant=HOSTILE, finished=False, reason=HOSTILE),
    ]
    ledger = {"releases": 1, "epsilon_total": 1.0, "delta": 0.0}
    found = made(records, title=HOSTILE, releases=(HOSTILE,), ledger=ledger)
    assert sum(tag == "script" for tag, _ in found.tags) == 1
    assert found.text.count(HOSTILE) >= 6 and "49" not in found.text.split()
    assert not [name for _, attributes in found.tags for name in attributes if name[:2] == "on"]


@pytest.mark.parametrize(
    ("records", "facts", "words"),
    [
        ([], {}, "0 trials finished, 0 failed"),
        ([], {"running": True, "left": 3}, "0 failed, 3 left; the sweep is running"),
        ([a_record(finished=False, reason="too large")], {}, "1 failed"),
        ([a_record()], {}, "1 trial finished, 0 failed"),
        ([a_record(epsilon=math.inf)], {}, "1 trial finished"),
        ([a_record(epsilon=0.0)], {}, "1 trial finished"),
        ([a_record(epsilon_m_ceiling=0.0, epsilon_m_high=math.inf)], {}, "not measured"),
        (
            comparison(),
            {"ledger": {"releases": 1, "epsilon_total": 2.5, "delta": 0.0}},
            "1 release. A label that all of them touch has paid epsilon 2.5 at delta 0",
        ),
        (
            comparison(),
            {
                "ledger": {
                    **{"releases": 5, "epsilon_total": math.inf, "delta": 1e-5},
                    "epsilon_private": 46.2,
                }
            },
            "5 releases. Those with noise add up to epsilon 46.2 at delta 1e-5",
        ),
    ],
)
def test_any_records_make_a_page(
    records: list[TrialRecord], facts: dict[str, Any], words: str
) -> None:
    found = made(records, **facts)
    assert words in found.text
    assert "nan" not in found.text.lower().split() and "None" not in found.text.split()


def test_links_lead_somewhere_and_names_are_given_once() -> None:
    found = made(comparison(), ledger={"releases": 1, "epsilon_total": math.inf, "delta": 0.0})
    names = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = {a["href"] for tag, a in found.tags if tag == "a"}
    assert {f"#{anchor('ceiling')}", "#trial-z", "#cost", "#failed"} <= links
    assert {str(link)[1:] for link in links} <= set(names)
    assert len({anchor(word) for word in GLOSSARY}) == len(GLOSSARY)
