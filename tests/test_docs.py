"""Documents stay true: their links lead somewhere, and their Python runs."""

import re
from pathlib import Path

import pytest

from tests.faults.without_cluster import without_cluster

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("infra/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_are_there(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
    # Pages of docs/reference/ are made with the site (docs/reference_pages.py).
    there = [link for link in links if not re.match(r"(?:\.\./)?reference/\w+\.md$", link)]
    missing = [link for link in there if not (page.parent / link).exists()]
    # `platform/x.py` of ours, in backticks; the standard library's and a deployment's are not.
    ours = r"`((?:docs|sweeps|platform|trainers|mechanisms)/[a-z_/]+\.(?:py|md))`"
    named = re.findall(ours, text)
    missing += [name for name in named if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize(
    ("page", "block"),
    [
        pytest.param(page, block, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
    ],
)
def test_python_in_documents_runs(
    page: Path, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what it writes is written here
    with without_cluster():
        exec(compile(block, str(page), "exec"), {"__name__": "document"})
