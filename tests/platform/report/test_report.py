"""The owner's report, the cards for both audiences, and the finding in two sentences."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.mechanisms.ledger import Total
from labeldp.platform.cli.reports import report_experiment
from labeldp.platform.records.results import REPORT_FILES, TrialRecord
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import default_uri
from labeldp.platform.report.card import facts, public_card, run_card
from labeldp.platform.report.finding import finding
from labeldp.platform.report.ledger import Audience, read_folder
from labeldp.platform.report.page import page, write_report
from labeldp.platform.report.publish import public_record
from labeldp.platform.report.selection import Reservation, Selected, selected
from labeldp.platform.settings.metrics import (
    ChooseBy,
    accuracy_text,
    figures_of,
    majority_text,
)
from labeldp.trainers.methods.settings import TableStackConfig
from tests.platform.report.folders import a_folder
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import a_charge, a_record, mode
from tests.platform.sweep.stores import new_store
from tests.trainers.encoders.test_libraries import MADE
from tests.trainers.small_data import SeededVault, small_table, trained

LEDGER = {"releases": 2, "epsilon_total": 3.0, "delta": 0.0}
AUDITS: dict[str, Any] = {
    **{"epsilon_m_paper_low": 0.5, "epsilon_m_paper_high": 1.25, "label_inference_bound": 0.1425},
    **{"epsilon_one_run_ceiling": 3.49, "epsilon_f_dp_ceiling": 3.57},
    **{"epsilon_tight_ceiling": 9.91, "epsilon_release_ceiling": 8.91},
    **{"private/epsilon_tight": 0.9173, "private/epsilon_release": 0.9589},
    **{"private/release_guesses": 60.0, "private/release_correct": 48.0},
    **{"private/epsilon_one_run": 0.7654, "private/epsilon_f_dp": 0.8768},
    **{"private/one_run_guesses": 50.0, "private/one_run_correct": 37.0},
    **{"private/label_inference_accuracy": 0.234, "private/label_inference_advantage": 0.1229},
}


def some_records() -> list[TrialRecord]:
    bare: dict[str, Any] = {"epsilon": math.inf, "epsilon_m_high": math.inf}
    return [
        a_record(
            "a", point={"trainer.epsilon": 1.0}, accuracy=0.8, figures={"private/epsilon_x": 0.123}
        ),
        a_record("b", point={"trainer.epsilon": 2.0}, accuracy=0.9, epsilon=2.0),
        a_record("c", point={"trainer.epsilon": 4.0}, accuracy=0.85, epsilon=4.0),
        a_record("d", variant="no privacy", accuracy=0.97, **bare),
        a_record("e", variant="AGIBI", finished=False, reason="loss is not finite"),
    ]


def audited(digest: str, **changes: float) -> TrialRecord:
    return a_record(digest, **{**AUDITS, **changes})


def test_a_page_that_stands_alone_a_table_and_a_figure(tmp_path: Path) -> None:
    write_report(some_records(), folder=tmp_path, title="small & fine", ledger=LEDGER)
    html, png, table = (tmp_path / name for name in REPORT_FILES)
    rows = pd.read_csv(table)
    assert rows["variant"].tolist() == ["ALIBI"] * 3 + ["no privacy"]
    assert rows["pareto"].tolist() == [1, 1, 0, 1]
    assert rows["trainer.epsilon"].tolist()[:3] == [1, 2, 4]
    assert rows["epsilon"].tolist() == [1, 2, 4, math.inf]
    assert rows["accuracy"].tolist() == [0.8, 0.9, 0.85, 0.97]
    page = html.read_text()
    assert "<h1>small &amp; fine</h1>" in page and "4 trials finished, 1 failed" in page
    fetched = r"""(src|href|action|data)=['"](?!data:|#)|url\(|@import|https?://|fetch\("""
    assert not re.search(fetched, page), "something is fetched from elsewhere"
    assert "loss is not finite" in page
    assert "2 releases" in page and "epsilon 3 at delta 0" in page
    assert page.count('<tr class="front">') == 3
    assert png.read_bytes().startswith(b"\x89PNG")
    for path in (html, table):
        assert "private/" not in path.read_text() and "0.123" not in path.read_text()


@pytest.fixture
def tracked(tmp_path: Path) -> str:
    uri = new_store(tmp_path / "store")
    tracker = Tracker(uri=uri, experiment="small")
    tracker.open_parent("small", tags={}, run_id=None)
    tracker.write(some_records()[0], name="trial", tags={}, texts={})
    write_report(some_records(), folder=tmp_path, title="small", ledger=LEDGER)
    files = [tmp_path / name for name in REPORT_FILES]
    tracker.close_parent(metrics=LEDGER, files=files, texts={}, finished=True)
    return uri


def test_the_store_gives_the_report_that_its_latest_sweep_left(
    tracked: str, tmp_path: Path
) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "report.html").touch(0o644)
    deep = str(tmp_path / "out" / "deep")
    found = report_experiment("small", tracking_uri=tracked, out=deep)
    page = Path(found.facts["html"])
    assert found.facts["rows"] == 4
    for name in ("report.html", "pareto.png", "pareto.csv"):
        assert (page.with_name(name)).read_bytes() == (tmp_path / name).read_bytes()
        assert mode(page.with_name(name)) == 0o600
    assert "4 trials finished, 1 failed" in page.read_text()
    tracker = Tracker(uri=tracked, experiment="small")
    tracker.open_parent("small", tags={}, run_id=None)
    with pytest.raises(ValueError, match="has left no report there yet; name its results folder"):
        report_experiment("small", tracking_uri=tracked, out=deep)


def test_bad_stores_are_refused(tracked: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for experiment, uri, words in (
        ("smal", tracked, "has no experiment 'smal'; it has small"),
        ("small", default_uri(tmp_path / "nowhere"), r"file .*nowhere\S* does not exist"),
    ):
        with pytest.raises(ValueError, match=words):
            report_experiment(experiment, tracking_uri=uri, out=out)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"can't be written .*--out DIR"):
        report_experiment("small", tracking_uri=tracked, out=str(tmp_path / "file" / "out"))
    assert not (tmp_path / "nowhere").exists() and not Path(out).exists()


def test_the_report_has_no_audit() -> None:
    shown = Page(page([audited("a"), a_record("c", finished=False, reason="x")], title="small"))
    assert not re.search(r"0\.7654|0\.77|0\.8768|0\.88|0\.9173|0\.92|0\.9589", shown.text)


ESTIMATE = figures_of(AccuracyEstimate(accuracy=0.8, sampling_error=0.01))


class Folder:
    """A results folder's published trial."""

    def __init__(self, path: Path, *, trial: str = "best", **facts: Any) -> None:
        a_folder(path, epsilon=2.0, **facts)
        folder = read_folder(path)
        self.chosen = selected(folder, trial, accepted=frozenset(Reservation))
        self.public = public_record(self.chosen.record, fingerprint=folder.fingerprint)
        self.lines = folder.lines_of(self.chosen.record.release_keys)

    def card(
        self, public: TrialRecord | None = None, chosen: Selected | None = None, **facts: Any
    ) -> str:
        known = {"fingerprint": "f" * 64, "replaced": 200, "num_labels": 60, "has_model": True}
        of = (public or self.public, chosen or self.chosen, self.lines)
        return public_card(*of, **{**known, **facts})


def has(card: str, *words: str) -> bool:
    missing = [each for each in words if each not in card]
    assert not missing, (missing, card)
    return True


@pytest.mark.parametrize(("epsilon", "why"), [(0.5, "counts in groups"), (6.0, "enough")])
def test_a_stack_states_the_reason_for_its_release_and_its_models(epsilon: float, why: str) -> None:
    data, labels = small_table()
    vault = SeededVault(labels, data.num_classes)
    figures = trained(TableStackConfig(epsilon=epsilon), (data, vault)).figures()
    changes = {"method": "table_stack", "trainer.epsilon": epsilon}
    record = a_record(changes=changes, figures=figures)
    public = public_record(record, fingerprint="f" * 64)
    for told in (facts(record, Audience.OWNER), facts(public, Audience.PUBLIC)):
        assert why in told["reason for this release"]
        mixed = told["models by weight (held-out log-likelihood of the release)"]
        assert re.search(r"(linear|kernel) [1-9]\d*% \(-?\d", mixed)
    assert ("boosting" in mixed) is (epsilon > 1)


def test_an_accuracy_of_the_epoch_that_it_chose_is_stated_as_such() -> None:
    record = a_record(changes={"evaluation.checkpoint": "test_selected"})
    public = public_record(record, fingerprint="f" * 64)
    for told in (facts(record, Audience.OWNER), facts(public, Audience.PUBLIC)):
        stated = [name for name in told if name.startswith("accuracy, public test split")]
        assert stated == ["accuracy, public test split, best epoch by the same labels: too high"]


def test_a_pure_trial() -> None:
    answers = {"answered": 9.0, "answered_by_teachers": 7.0}  # the student gave itself two more
    card = run_card(a_record(figures=answers), [a_charge()])
    assert card.startswith("# ALIBI\n") and card.endswith("\n") and "nan" not in card.lower()
    assert has(
        card,
        "Trial `0123456789abcdef` of method `alibi` on `digits`, training seed 0",
        "| accuracy, public test split, last epoch | 90.00% |",
        "| epsilon, provable | 1 |",
        "| delta | 0 |",
        "0.250 to 1.5",
        "(1, 0)-label differential privacy (pure)",
        "operating system's entropy",
        "- `r1`: LaplaceNoise {'epsilon': 1.0, 'num_classes': 10} on all labels, charged",
        "does not bound stronger attacks",
        "| league | no outside data |",
        "| answers of teachers | 7 |",
    )
    assert "\n\n\n" not in card and "## Audits" not in card
    guarantee = card.partition("## Guarantee")[2].partition("## Releases")[0]
    assert has(guarantee, "made of the releases below", "Not covered", "epsilon_m", "`private/`")


def test_a_baseline_promises_nothing() -> None:
    card = run_card(a_record(epsilon=math.inf, epsilon_m_high=math.inf), [a_charge()])
    assert has(card, "Nothing: this baseline trains on the true", "epsilon, provable | infinite |")
    assert "label differential privacy (" not in card


def test_every_audit_is_on_the_owners_card() -> None:
    assert has(
        run_card(audited("a"), [a_charge()]),
        "## Audits, for the owner of the labels only",
        "| epsilon_m as published, an estimate | 0.500 to 1.25 |",
        "| one-run audit: epsilon is at least | 0.765 (37 of 50 coins right; ceiling 3.490) |",
        "f-DP audit (the curve that is claimed): at least | 0.877 (ceiling 3.570) |",
        "tight audit (the noise that is claimed): at least | 0.917 (ceiling 9.910) |",
        "(the noisy labels alone): at least | 0.959 (48 of 60 coins right; ceiling 8.910) |",
        "advantage over guessing | 0.123 (0.234 right; label DP allows an advantage of 0.142) |",
    )


def test_an_ordinary_trial_in_public(tmp_path: Path) -> None:
    folder = Folder(tmp_path, readers=9)
    card = folder.card()
    assert card.startswith("# alibi, trained on digits\n") and "\n\n\n" not in card
    assert has(
        card,
        f"Trial `{folder.public.hash}`, trainer `alibi`, training seed 0, data ffffffffffffffff.",
        "| epsilon with the choice of this trial | 2 at delta 0 |",
        "| accuracy, public test split, last epoch | 90.00% |",
        "| epsilon, provable | 2 |",
        "| labels that were replaced on purpose, to audit it | 200 of 60 |",
        "(2, 0)-label differential privacy",
        "by a factor of at most e^2. Features",
        "chosen for the best accuracy on the public test split of 9 trials",
        "with the choice, all those releases cost epsilon 2.",
        "- 1 release of Laplace noise, epsilon 2, read by 9 trials, paid once; of 60 labels",
        "The trained model is in `model/`",
        "| league | no outside data |",
    )
    assert "NO PRIVACY" not in card and "FAILED" not in card
    made = replace(folder.public, features=MADE.described())
    words = "| league | public encoder: timm:net (weights abababab), trained on ImageNet-1k"
    assert words in folder.card(public=made)


def test_the_choice_is_priced_and_explained(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "nine", readers=9)
    config = {**folder.public.config, "trainer.noise": "randomized_response"}
    dearer = replace(folder.chosen, together=replace(folder.chosen.together, epsilon=3.0))
    card = folder.card(public=replace(folder.public, config=config), chosen=dearer)
    assert card.startswith("# alibi_randomized_response, trained on digits\n")
    assert "| epsilon with the choice of this trial | 3 at delta 0 |" in card
    figures = {**folder.public.metrics, **ESTIMATE, "log_loss_estimated": 0.5}
    ends = {"log_loss_estimated_low": 0.4, "log_loss_estimated_high": 0.6}
    card = folder.card(public=replace(folder.public, metrics={**figures, **ends}))
    low, high = AccuracyEstimate(accuracy=0.8, sampling_error=0.01).interval(choices=9)
    assert has(card, "labels, corrected for the choice among 9 |", f"{low:.2%} to {high:.2%} |")
    assert has(card, "labels, not corrected for the choice | 0.500")
    card = folder.card(chosen=replace(folder.chosen, learned=True))
    assert has(card, "results of earlier trials decided", "not only its own")
    assert has(card, "9 trials, their releases cost")
    named = Folder(tmp_path / "named", trial="0" * 15 + "1", readers=3).card()
    assert "one of 3 trials, and its owner named it" in named and "cost epsilon 2." in named
    alone = Folder(tmp_path / "alone").card()
    assert "No other trial of its sweep could have been chosen." in alone


def test_a_baseline_and_a_failed_trial_are_shouted_about(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    bare = Total(releases=1, epsilon=math.inf, handed_out=1)
    card = folder.card(chosen=replace(folder.chosen, cost=bare))
    assert "**NO PRIVACY: this folder was computed from the true labels" in card
    assert "## Guarantee\n\nNothing.\n" in card and "e^" not in card
    failed = replace(folder.public, finished=False, metrics={})
    assert "**This trial FAILED" in folder.card(public=failed)


def test_missing_facts_are_not_made_up(tmp_path: Path) -> None:
    folder = Folder(tmp_path, figures={**ESTIMATE, "epsilon_sanitized": 1.25})
    card = folder.card(replaced=None, fingerprint="", num_labels=None, has_model=False)
    assert "replaced on purpose" not in card and ", data" not in card
    assert "There is no model" in card and "`model/`" not in card
    assert "95% interval 78.04% to 81.96% |" in card and "the choice among" not in card
    (row,) = [line for line in card.splitlines() if line.endswith("| 1.25 |")]
    assert "one direction" in row and "bound" not in row, "the sanitized price is not a bound"
    approximate = replace(folder.chosen, cost=replace(folder.chosen.cost, delta=1e-5))
    assert "except with probability 1e-05" in folder.card(chosen=approximate)


COST = {
    **{"releases": 3, "epsilon_total": math.inf, "delta": 1e-5},
    "epsilon_private": 46.2,
}


def trial(digest: str, variant: str, **metrics: Any) -> TrialRecord:
    point = {"trainer.epsilon": metrics.get("epsilon", 1.0)}
    return a_record(digest * 16, variant=variant, point=point, **metrics)


def baseline(**metrics: Any) -> TrialRecord:
    figures = {"accuracy": 0.956, "epsilon_m_low": 1.78, "epsilon_m_ceiling": 3.49, **metrics}
    return trial("a", "no privacy", epsilon=math.inf, **figures)


def private(digest: str = "b", variant: str = "ALIBI", /, **metrics: Any) -> TrialRecord:
    figures = {"epsilon_m_low": 0.0, "epsilon_m_ceiling": 3.49, **metrics}
    return trial(digest, variant, **figures)


def estimated(digest: str, variant: str, accuracy: float, noise: float) -> TrialRecord:
    found = AccuracyEstimate(accuracy=accuracy, sampling_error=0.03, count_scale=noise)
    return trial(digest, variant, **figures_of(found))


def test_baseline_private_trials_and_cost() -> None:
    records = [baseline(), private(accuracy=0.903)]
    found = finding(records, ledger=COST)
    assert found.sentences == (
        "Without privacy the model is 95.6% accurate, and the attack proves that it leaks labels: "
        "its epsilon is at least 1.78.",
        "At epsilon 1 ALIBI is 90.3% accurate, and the attack proves no leak (it can prove at most "
        "3.49).",
    )
    assert found.cost == (
        "The 1 private trial cost epsilon 46.2 at delta 1e-05; the baseline without noise "
        "publishes its labels."
    )
    public = finding(records, with_attack=False)
    text = " ".join(public.sentences)
    assert "attack" not in text and "1.78" not in text and len(public.sentences) == 2


def test_the_finding_names_the_most_accurate_trial_nearest_epsilon_one() -> None:
    records = [
        private("b", "ALIBI", accuracy=0.90),
        private("c", "RR", accuracy=0.93),
        private("d", "AGIBI", accuracy=0.91, epsilon=1 + 1e-13, delta=1e-5),
        private("e", "ALIBI", accuracy=0.99, epsilon=8.0),
        private("f", "ALIBI", accuracy=0.99, epsilon=0.25),
    ]
    (sentence,) = finding(records).sentences
    assert sentence.startswith("At epsilon 1 the best of 3 lines (RR) is 93.0% accurate")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (private(epsilon_m_low=0.4), "an epsilon of at least 0.40 (it can prove at most 3.49)."),
        (private(epsilon_m_low=1.4), "most 3.49), which is above the guarantee"),
        (private(epsilon_m_low=1.4, delta=1e-5), "at epsilon 1 and delta 1e-05 ALIBI"),
        (private(epsilon_m_low=1.4, delta=1e-5), "at least 1.40 at delta 0 (it can prove"),
        (private(epsilon_m_ceiling=0.0), "; no memorization attack was made that could prove a"),
        (baseline(epsilon_m_low=0.0), "proves no leak (it can prove at most 3.49)."),
    ],
)
def test_the_card_states_proven_and_trivial_bounds(record: TrialRecord, words: str) -> None:
    (sentence,) = finding([record]).sentences
    assert words.lower() in sentence.lower()


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [
        (
            0.765,
            "within 1.0 points of always answering the largest class (77.1% of the public test",
        ),
        (0.775, "so the two cannot be told apart"),
        (
            0.76,
            "no better than always answering the largest class (77.1% of the public test split).",
        ),
    ],
)
def test_an_accuracy_near_the_largest_class_is_not_called_worse(
    accuracy: float, words: str
) -> None:
    figures = {"majority_share": 0.771}
    assert words in finding([a_record("a", accuracy=accuracy, figures=figures)]).sentences[0]
    noisy = {**figures_of(AccuracyEstimate(accuracy=0.7, sampling_error=0.05)), **figures}
    assert "within 10.0 points" in majority_text(noisy)


def test_trials_with_and_without_a_histogram_of_scores_share_a_page() -> None:
    accuracy = figures_of(AccuracyEstimate(accuracy=0.97, sampling_error=0.01))
    scores = {f"roc_auc_estimated{end}": 0.5 for end in ENDS}
    shares = {"minority_share_estimated": 0.02, "majority_share_estimated": 0.98}
    estimates = {"histogram": {**accuracy, **scores, **shares}, "count": accuracy}
    records = [
        a_record(name, changes={"evaluation.estimate": name}, figures=figures)
        for name, figures in estimates.items()
    ]
    for order in (records, records[::-1]):
        assert "estimated ROC AUC" in page(order, title="x")


def test_no_page_shows_a_figure_outside_of_its_range() -> None:
    """Noise takes estimates over the end; the end is shown, and that it is one."""
    figures = {
        **figures_of(AccuracyEstimate(accuracy=1.0488, sampling_error=0.05)),
        **{
            f"roc_auc_estimated{end}": value
            for end, value in zip(ENDS, (1.2, 0.9, 1.0), strict=True)
        },
        **{
            f"mean_squared_error_estimated{end}": v
            for end, v in zip(ENDS, (-1.6e8, 0, 3e8), strict=True)
        },
    }
    record = a_record("a", accuracy=0.9, figures=figures)
    found = facts(record, Audience.PUBLIC)
    assert found["accuracy, estimated on held-out labels"].startswith(
        "100.00% (noise reaches beyond), standard error 5.00%, 95% interval 95.0"
    )
    told = found["mean squared error, estimated on held-out labels"]
    assert told == "0 (noise reaches beyond), 95% interval 0 to 3e+08"
    assert found["ROC AUC, estimated on held-out labels"].startswith("1.000 (noise reaches")
    assert accuracy_text(figures).endswith("error 0 (noise reaches beyond) (0 to 3e+08)")
    shown = page([record], title="a", choose_by=ChooseBy.ESTIMATED)
    assert "100.00" in shown and "104.88" not in shown
    errors = finding([record], choose_by=ChooseBy.MEAN_SQUARED_ERROR_ESTIMATED).sentences[0]
    assert "has estimated mean squared error 0 (noise reaches beyond) (0 to 3e+08)" in errors
    both = [record, replace(record, hash="b", variant="PATE")]
    chosen = finding(both, choose_by=ChooseBy.MEAN_SQUARED_ERROR_ESTIMATED).sentences[0]
    assert "(0 to 3e+08, not corrected for the choice)" in chosen
    shown = page(both, title="a", choose_by=ChooseBy.MEAN_SQUARED_ERROR_ESTIMATED)
    assert "down is better" in shown and "Estimated mean squared error against epsilon" in shown


ENDS = ("", "_low", "_high")


def test_an_estimated_accuracy_is_called_one_and_a_lottery_a_lottery() -> None:
    loud = [estimated("b", "ALIBI", 1.06, 0.2), estimated("c", "AGIBI", 0.7, 0.2)]
    (sentence,) = finding(loud, choose_by=ChooseBy.ESTIMATED).sentences
    assert "is about 100.0% (noise reaches beyond) accurate" in sentence
    assert "Noise decides the order of these trials: " in sentence and "28.3 points" in sentence
    clear = [estimated("b", "ALIBI", 0.9, 0.02), estimated("c", "AGIBI", 0.7, 0.02)]
    (text,) = finding(clear, choose_by=ChooseBy.ESTIMATED).sentences
    assert "is about 90.0% accurate" in text and "noise" not in text
    assert "Noise decides" not in finding(loud, choose_by=ChooseBy.TEST).sentences[0]


@pytest.mark.parametrize(
    ("lows", "words"),
    [
        ((0.0, 0.0), "the attack proves no leak (it can prove at most 3.00)."),
        ((0.0, 0.9, 0.9), "the attack does not prove a leak in every one of 3 seeds (it can"),
        ((0.8, 0.9), "the attack proves an epsilon of at least 0.80 in every seed (it can prove"),
    ],
)
def test_what_the_attack_proved_is_said_of_all_seeds(lows: tuple[float, ...], words: str) -> None:
    seeds = [
        a_record(f"{seed}" * 16, changes={"seed": seed}, epsilon_m_low=low)
        for seed, low in enumerate(lows)
    ]
    found = finding(seeds)
    assert words in found.sentences[0] and words in found.advice
    bare = [replace(each, metrics={**each.metrics, "epsilon": math.inf}) for each in seeds]
    (sentence,) = finding(bare).sentences
    assert ("in every seed that it leaks labels" in sentence) is (min(lows) > 0)


def test_one_epsilon_and_one_league_are_compared() -> None:
    far = [
        a_record("a" * 16, accuracy=0.7, epsilon=0.5),
        a_record("b" * 16, variant="PATE", accuracy=0.9, epsilon=2.0),
    ]
    assert finding(far).sentences[0].startswith("At epsilon 0.5 ALIBI is 70.0% accurate")
    plain = a_record("a" * 16, accuracy=0.8)
    strong = replace(
        a_record("b" * 16, variant="ALIBI, encoder", accuracy=0.95), features=MADE.described()
    )
    found = finding([plain, strong])
    assert found.sentences[0].startswith("At epsilon 1 ALIBI is 80.0% accurate")
    assert found.sentences[0].endswith("League: no outside data; others are not compared with it.")
    assert found.advice.startswith("Use ALIBI at epsilon 1") and "encoder" not in found.advice
    assert found.advice.endswith("League: no outside data; others are not compared with it.")
    assert "Use ALIBI, encoder" in finding([strong]).advice


def test_the_report_first_says_what_to_use() -> None:
    dear = a_record("a" * 16, accuracy=0.93, epsilon=8.0, epsilon_m_low=1.5)
    cheap = a_record("b" * 16, variant="default", accuracy=0.90, epsilon=1.0, epsilon_m_low=0.5)
    rival = a_record("c" * 16, variant="PATE", accuracy=0.60, epsilon=1.0)
    bare = a_record("d" * 16, variant="no privacy", accuracy=0.99, epsilon=math.inf)
    advice = finding([dear, cheap, rival, bare]).advice
    assert advice.startswith("Use default at epsilon 1: it is 90.0% accurate, and an attacker's")
    assert "to 73.2% at most; the attack proves an epsilon of at least 0.50 (it can" in advice
    assert "less than the best, ALIBI at epsilon 8, and is nearly as good." in advice
    assert advice.endswith("Next best there is PATE, which is 60.0% accurate.")
    assert advice.split("; the attack")[0] in page([dear, cheap, rival, bare], title="x").replace(
        "&#39;", "'"
    )
    assert "the attack" not in finding([cheap], with_attack=False).advice
    far = a_record("e" * 16, accuracy=0.96, epsilon=8.0)
    assert finding([far, cheap]).advice.startswith("Use ALIBI at epsilon 8")
    assert finding([bare]).advice == ""
    # Noise of 50 covers what 140 is behind 100.
    name = "mean_squared_error_estimated"
    errors = [
        a_record(
            str(at) * 16,
            changes={"trainer.epsilon": epsilon},
            figures={name: error, f"{name}_noise": 50.0},
            epsilon=epsilon,
        )
        for at, (epsilon, error) in enumerate([(0.5, 1000.0), (1.0, 140.0), (8.0, 100.0)])
    ]
    assert finding(errors).advice.startswith("Use ALIBI at epsilon 1:")
    majority = {"majority_share": 0.95}
    assert finding([a_record("f" * 16, figures=majority)]).advice == ""
