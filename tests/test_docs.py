"""Documents stay true: their links lead somewhere, and their Python runs."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import labeldp
from labeldp.platform.cli.command_line import VERBS
from labeldp.platform.settings.methods import METHODS
from tests.faults.without_cluster import without_cluster
from tests.source_tree import ROOT, run

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


# The documentation as a site: built strictly, all keys and verbs in it; its notebook runs.


def test_the_site_is_built_and_nothing_is_missing(tmp_path: Path) -> None:
    build = ("mkdocs", "build", "--quiet", "--site-dir", tmp_path / "site")
    environment = {"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    run(sys.executable, "-m", *build, env=environment)
    pages = {path.stem: path.read_text() for path in (tmp_path / "site").rglob("*.html")}
    for method in METHODS:
        assert f"method={method}" in pages["configuration"]
    for verb in VERBS:
        assert f"labeldp {verb.words}" in pages["command_line"]
    for name in labeldp.__all__:
        assert name.startswith("_") or f"labeldp.{name}" in pages["python"]
    assert "predict_proba" in pages["LabelPrivateClassifier"]
    assert "trainer.aggregator" in pages["method_pate"] and "data.path" in pages["data"]
    # It works from the file system, and nothing is fetched from elsewhere.
    for name, page in pages.items():
        fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', page)
        assert not [address for address in fetched if "canonical" not in address], name
        # Notebooks too link to pages, and not to the files that these are made of.
        assert not re.findall(r'href="(?!\w+:)[^"]*\.md["#][^"]*"', page), name


def test_nobody_is_sent_to_a_package_index_for_labeldp() -> None:
    """No index has it yet, so that a stranger may take the name."""
    named = re.compile(r"pip install (?:-\S+ )*'?labeldp\b(?!-)")
    folders = ("docs", "infra", "labeldp", "mechanisms", "platform", "sweeps", "trainers")
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    files += [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    kinds = (".py", ".md", ".ipynb", ".jinja", ".txt")
    found = [path for path in files if path.suffix in kinds and named.search(path.read_text())]
    assert not found and named.search("pip install 'labeldp[search]'")


def test_the_tutorial_runs(tmp_path: Path) -> None:
    path = ROOT / "docs" / "tutorial.ipynb"
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # it has no types
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert shown and not [output for output in shown if output.output_type == "error"]
    recorded = _printed(notebook)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    assert "and one more: epsilon 3.0" in recorded and _printed(notebook) == recorded


def _printed(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the printed lines, but for the score and the predictions, which noise decides."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    lines = "".join(output.get("text", "") for output in outputs).splitlines()
    return [line for line in lines if not line.endswith("are right") and line[:2] != "['"]
