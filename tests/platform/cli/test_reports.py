"""reports: of folders in any state, of experiments, for the public; and the ledger of folders."""

from itertools import product
from pathlib import Path

import optuna

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.settings.metrics import ChooseBy, figures_of
from tests.platform.cli.asked import answer, refusal, words
from tests.platform.report.folders import a_folder, keep
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import METRICS, a_record


def test_a_folder_is_reported_where_it_lies(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", readers=9)
    found = answer("report", "results")
    assert set(found) == {"html", "pareto_png", "rows"} and found["rows"] == 1
    assert Path(found["html"]) == tmp_path / "results" / "report.html"
    page = Page(Path(found["html"]).read_text())
    assert "9 trials finished, 0 failed" in page.text
    said = "1 release of Laplace noise, epsilon 2, read by 9 trials, paid once"
    assert said in page.text and "1 release. A label" in page.text
    assert "is running" not in page.text
    text = words("report", "./results", "--out", "elsewhere")
    assert text.startswith("results by epsilon\n")
    assert "\n1 rows in the page elsewhere/report.html\n" in text
    keep(tmp_path / "results", a_record("f" * 16, variant="PATE", epsilon=1.00049))
    assert " 1.001 " in words("report", "results")


def test_a_running_sweep_is_reported_and_not_disturbed(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    folder.identify(vault="v")
    with folder.held():
        folder.keep(a_record(finished=False, reason="the loss is not finite"))
        found = answer("report", str(folder.path))
        page = Page(Path(found["html"]).read_text())
        assert "0 trials finished, 1 failed; the sweep is running" in page.text
        assert "the loss is not finite" in page.text and found["rows"] == 0
    with folder.held():
        pass  # nothing holds it any more


def test_a_sweep_that_chose_by_estimates_is_reported_so(tmp_path: Path) -> None:
    a_folder(tmp_path / "results")
    ResultsFolder(tmp_path / "results", sweep="small").identify(choose_by=ChooseBy.ESTIMATED)
    assert "no labels are held out" in refusal("report", "results")
    estimated = figures_of(AccuracyEstimate(accuracy=0.7, sampling_error=0.01))
    keep(tmp_path / "results", a_record("0" * 16, figures=estimated))
    found = answer("report", "results")
    assert "Rows are compared by it" in Page(Path(found["html"]).read_text()).text


def test_the_public_edition_has_a_folder_of_its_own(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0)
    asked = ("report", "results", "--edition", "public")
    assert "--edition public --out DIR" in refusal(*asked)
    found = answer(*asked, "--out", "out")
    assert (found["trials"], found["epsilon"]) == (1, 2.0)
    assert "public edition" in (tmp_path / "out" / "report.html").read_text()


def test_the_ledger_of_folders(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", readers=2)
    said = words("ledger", "results")
    assert "1 release of Laplace noise, epsilon 2, read by 2 trials, paid once" in said
    found = answer("ledger", "results")
    assert found["ok"] and (found["epsilon"], found["delta"], found["releases"]) == (2.0, 0.0, 1)
    assert found["lines"][0]["who_may_see_it"] == "anybody"
    (tmp_path / "results" / "vault.db").unlink()
    found = answer("ledger", "results", code=1)
    assert not found["ok"] and "is missing" in found["problems"][0]
    (tmp_path / "empty").mkdir()
    for verb in ("ledger", "report"):
        assert "holds no results" in refusal(verb, "./empty")
    assert not list((tmp_path / "empty").iterdir())
    assert "does not exist" in refusal("report", "./nowhere")


def test_a_study_says_which_setting_mattered(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    folder.identify(vault="v")
    for number, (rate, epochs) in enumerate(product((1e-3, 1e-2, 1e-1, 1.0), (3, 4, 5))):
        point = {"trainer.learning_rate": rate, "trainer.epochs": epochs}
        record = a_record(f"{number:016x}", point=point, accuracy=0.9 - 0.2 * rate + 1e-3 * epochs)
        with folder.held():
            folder.keep(record)
    found = answer("report", "results", "--study", "study.db")
    assert found["importance"]["trainer.learning_rate"] > 0.9
    study = optuna.load_study(study_name="results", storage="sqlite:///study.db")
    assert len(study.trials) == 12 and study.best_params["trainer.learning_rate"] == 1e-3
    assert "log=True" in repr(study.trials[0].distributions["trainer.learning_rate"])
    assert study.trials[0].user_attrs["epsilon"] == METRICS["epsilon"]
    assert "is there already" in refusal("report", "results", "--study", "study.db")
    assert "one at a time" in refusal("report", "results", "--study", "b.db", "--table", "csv")
