"""advise: a method and an epsilon by a simulation, which releases nothing."""

from pathlib import Path

import numpy as np
import pytest

import labeldp
from labeldp.mechanisms.guess_risk import guess_after
from labeldp.platform.cli import advise
from labeldp.platform.settings import methods
from tests.platform.cli.asked import answer, refusal, run, words


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advise, "EPSILONS", (0.01, 4.0))


def test_it_advises_the_smallest_epsilon_that_is_close(tmp_path: Path) -> None:
    found = answer("advise", "--rows", "800", "--classes", "2")
    small, large = found["epsilons"]
    assert [row["method"] for row in (small, large)] == ["cluster_labels", "subset"]
    for row in (small, large):
        assert row["guess_after"]["0.5"] == guess_after(0.5, epsilon=row["epsilon"])
    # At epsilon .01 nothing can be learned from 800 labels; at 4 nearly all of it.
    assert small["expected"] < 0.75 < found["without_privacy"] - 0.05 < large["expected"]
    assert found["advice"] == large and found["two_parties"]["labels_charged"] == 800
    assert answer("advise", "--rows", "800", "--classes", "2") == found, "its seed is fixed"
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_it_states_the_delta_of_sums_and_names_their_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advise, "EPSILONS", (1.0,))
    monkeypatch.setattr(methods, "MANY_ROWS", 800)
    asked = ("advise", "--rows", "800", "--classes", "2")
    found = answer(*asked)
    assert found["advice"]["method"] == "moment_labels"
    assert found["advice"]["guess_after"]["0.5"] == guess_after(0.5, epsilon=1.0, delta=1e-5)
    assert found["two_parties"]["delta"] == 1e-5
    text = words(*asked)
    assert "request --method moments): one release, epsilon 1 at delta 1e-05 for each" in text
    # Of many classes some may not be made up. They are possible all the same.
    monkeypatch.setattr(methods, "MANY_ROWS", 50_000)
    monkeypatch.setattr(advise, "_made_up", lambda rows, *_: np.arange(len(rows)) % 2)
    three = answer("advise", "--rows", "800", "--classes", "3")
    assert "at epsilon 1 and 3 classes" in three["advice"]["reason"]


def test_it_takes_rare_classes_people_and_a_file_of_features() -> None:
    random = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'xy'[int(a > b)]}" for a, b in random.random((1500, 2))]
    Path("features.csv").write_text("\n".join(["a,b,c", *rows]) + "\n")
    common = ("advise", "--classes=2", "--features=features.csv", "--rare=.1", "--seed=1")
    found = answer(*common, "--persons", "800")
    assert (found["rows"], found["labels_used"], found["simulated_rows"]) == (1500, 800, 800)
    assert found["metric"] == "ROC AUC" and found["epsilons"][1]["expected"] > 0.8
    text = words(*common, "--persons", "800")
    assert text.startswith("Use ") and "One label of each of 800 people is used" in text
    assert "labeldp request --method subset and labeldp release --person-column" in text
    assert 'LabelPrivateClassifier("subset", epsilon=' in text and ", groups=persons)" in text


def test_what_cannot_be_advised_on_is_refused() -> None:
    assert "--rows, or name --features" in refusal("advise", "--classes", "2")
    assert "at least 500" in refusal("advise", "--classes", "10", "--rows", "300")
    Path("few.csv").write_text("a,b\n1,2.5\n2,1.5\n4,0.5\n3,3.5\n")
    few = ("advise", "--classes", "2", "--rows", "10000", "--features", "few.csv")
    assert "4 rows are too few" in refusal(*few)
    people = ("advise", "--classes", "2", "--rows", "900", "--persons", "20")
    assert "20 people are too few" in refusal(*people)
    assert "rare" in refusal("advise", "--classes", "2", "--rows", "900", "--rare", ".7")
    rarest = refusal("advise", "--classes", "2", "--rows", "900", "--rare", ".005")
    assert "1125 rows are simulated, too few for 50 of the rarest class" in rarest


def test_features_are_read_as_a_fit_reads_them() -> None:
    asked = ("advise", "--classes", "2", "--features", "features.csv")
    rows = [f"{each / 8},1" for each in range(900)]
    Path("features.csv").write_text("\n".join(["a,b", *rows, ",1"]) + "\n")
    assert answer(*asked)["without_privacy"] > 0.8
    Path("features.csv").write_text("\n".join(["a,b", *rows, "inf,1"]) + "\n")
    assert "row 900, column 'a' is inf" in refusal(*asked)


def test_it_states_its_version() -> None:
    assert run("--version") == (0, f"labeldp, version {labeldp.__version__}\n", "")
