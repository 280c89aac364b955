"""`make lint` finds what has no rule in ruff."""

import pytest

from tests.plain_code import findings

_EXPLAINED = '''
def total(a, b, c, d, e, f, g):
    """Add.

    Args:
        a: One.
        b: Two.
        c: Three.
        d: Four.
        e: Five.
        f: Six.
        g: Seven.
    """
'''


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("a, b = 1, 2", "assign each name in a statement of its own"),
        ("low, high = (1, 2) if a else (3, 4)", "assign each name in a statement of its own"),
        ("names = (*('a', 'b'), 'c')", "write the elements without unpacking a literal"),
        ("rates = {**{'a': 1}, 'b': 2}", "write the entries without unpacking a literal"),
        (_EXPLAINED.replace("        c: Three.\n", ""), "explain c of total in its Args: section"),
    ],
)
def test_a_line_that_breaks_a_rule_is_named_with_its_fix(source: str, fix: str) -> None:
    assert [finding.fix for finding in findings(source)] == [fix]


@pytest.mark.parametrize(
    "source",
    [
        "low, high = high, low",
        "low, high = ends(values)",
        "names = (*others, 'c')",
        _EXPLAINED,
        "def total(a, b, c, d, e, f): ...",
    ],
)
def test_plain_code_has_no_findings(source: str) -> None:
    assert not list(findings(source))
