"""leakage_study: sweeps/vote_leakage.py at its smoke size, with and without each kind of data."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.studies.leakage_study import LeakageStudy, main
from tests.source_tree import ROOT
from tests.trainers.methods.test_attribute_inference import write_adult

HISTOGRAMS = "dataset,sample,level,c0,c1,c2\nmnist,1,H,100,3,2\nmnist,2,L,50,35,20\n"


@pytest.fixture(scope="module")
def smoke() -> LeakageStudy:
    study: LeakageStudy = runpy.run_path(str(ROOT / "sweeps" / "vote_leakage.py"))["SMOKE"]
    ensemble = replace(study.ensemble, teachers=10, others=40)
    return replace(study, ensemble=ensemble, attribute_people=5, questions=50)


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    folder = tmp_path / "votes"
    folder.mkdir()
    (folder / "histograms.csv").write_text(HISTOGRAMS)
    np.savez(folder / "adult_votes_250.npz", phd=[[150, 100]], not_phd=[[240, 10], [100, 150]])
    return folder


def ran(
    study: LeakageStudy, folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, Any]:
    every = ["--smoke", "--json", "--results", str(folder / "out"), *arguments]
    assert main(study, study, name="vote_leakage", arguments=every) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_everything_is_measured(
    smoke: LeakageStudy, votes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_adult(tmp_path / "adult")
    found = ran(smoke, tmp_path, capsys, "--data", str(tmp_path), "--votes", str(votes))
    assert found["experiment"] == "vote_leakage" and found["missing"] == []
    attribute = {(row["votes"], row["seen"]): row for row in found["attribute_inference"]}
    assert len(attribute) == 5
    published = attribute["published, scaled by each group's own", "votes"]
    assert (published["consensus_phd"], published["consensus_others"]) == (0.0, 0.5)
    one = attribute["own teachers, scaled by training rows", "1 answer each"]
    assert one["auc"] == pytest.approx(0.5, abs=0.01)  # one answer tells nothing of consensus
    assert [row["attacker"] for row in found["reconstruction"]] == [
        "answers",
        "budget: epsilon 1.97, delta 1e-05",
    ]
    assert found["defenses"][0]["defense"] == "none"
    assert found["defended_votes"] == "published mnist"
    report = Path(found["report"]).read_text()
    for heading in ("PhD holders", "Histograms recovered", "Defenses (published mnist votes)"):
        assert f"## {heading}" in report


def test_bad_input(smoke: LeakageStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: str) -> str:
        every = ["--results", str(tmp_path / "out"), "--data", str(tmp_path), *arguments]
        assert main(smoke, smoke, name="vote_leakage", arguments=every) == 2
        return capsys.readouterr().err

    assert "nothing to measure" in refused()
    assert "histograms.csv can't be read" in refused("--votes", str(tmp_path))
    (tmp_path / "histograms.csv").write_text("dataset,c0,c1\nmnist,1,x\n")
    assert "histograms.csv can't be read" in refused("--votes", str(tmp_path))
    (tmp_path / "histograms.csv").write_text("dataset,c0,c1\nmnist,1,2\nmnist,2,2\n")
    assert "row 1 sums to 4" in refused("--votes", str(tmp_path))
    assert not (tmp_path / "out").exists()
