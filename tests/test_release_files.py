"""What a stranger reads before installing: licenses, citation, versions that are promised."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import labeldp
from docs import licenses
from labeldp.platform.records.results import FORMAT, ResultsFolder, ResultsFolderError, read_results
from tests.source_tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_licenses_are_those_of_the_packages_here() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    rows = dict(re.findall(r"^\| ([a-z][\w.-]*) \| (.*) \|$", licenses.page(), re.M))
    listed = dict(re.findall(r"^\| ([a-z][\w.-]*) \| (.*) \|$", licenses.PAGE.read_text(), re.M))
    assert rows.pop("package") == listed.pop("package")
    assert rows.keys() == listed.keys() >= {"torch", "ray", "mlflow", "cryptography", "timm"}
    same = [name for name in rows if rows[name].split(" |")[0] == pinned.get(name)]
    assert len(same) > 100 and {name: rows[name] for name in same}.items() <= listed.items()
    assert not [name for name, row in listed.items() if re.search(r"\bA?GPL", row)]


def test_the_citation_names_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == PROJECT["version"] == labeldp.__version__
    assert cited["license"] == PROJECT["license"] and cited["cff-version"] == "1.2.0"
    assert all({"type", "title", "authors"} <= each.keys() for each in cited["references"])


def test_results_of_another_format_are_refused(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    folder.identify(num_labels=5)
    known = json.loads((tmp_path / "sweep.json").read_text())
    assert known["format"] == FORMAT
    (tmp_path / "sweep.json").write_text(json.dumps({**known, "format": FORMAT + 1}))
    with pytest.raises(ResultsFolderError, match=f"of format {FORMAT + 1}, and this labeldp"):
        read_results(tmp_path)
    with pytest.raises(ResultsFolderError, match="use the version that wrote it"):
        ResultsFolder(tmp_path, sweep="small")
