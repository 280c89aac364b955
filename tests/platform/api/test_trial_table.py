"""trial_table: columns, spreads over seeds, the best of them; private if asked for."""

import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.api.trial_table import best_of, trial_table
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.accuracy_figures import ChooseBy, figures_of
from tests.platform.sweep.examples import a_record


def trial(
    digest: str, epsilon: float, accuracy: float, *, seed: int = 0, **facts: object
) -> TrialRecord:
    return a_record(
        digest,
        point={"trainer.epsilon": epsilon, "seed": seed},
        changes={"trainer.epsilon": epsilon, "seed": seed},
        epsilon=epsilon,
        accuracy=accuracy,
        **facts,  # type: ignore[arg-type]
    )


RECORDS = [
    trial("a1", 2.0, 0.9),
    trial("a2", 2.0, 0.8, seed=1),
    trial("b1", 1.0, 0.7, figures={"private/secret": 0.1, "ensemble_accuracy": 0.5}),
    trial("b2", 1.0, 0.75, seed=1),
    a_record(
        "c1", variant="AGIBI", changes={"trainer.noise": "gaussian"}, epsilon=1.0, accuracy=0.74
    ),
    a_record("d1", finished=False, reason="TrainingDiverged: the loss is not finite"),
]


def test_rows_are_ordered_and_have_what_the_contract_names() -> None:
    table = trial_table(RECORDS)
    assert list(table["trial"]) == ["b2", "c1", "b1", "a1", "a2", "d1"]
    assert list(table.columns[:5]) == ["method", "variant", "epsilon", "delta", "accuracy"]
    assert {"epsilon_m_low", "epsilon_m_high", "seed", "trainer.epsilon"} <= set(table.columns)
    assert table["method"].tolist() == ["alibi", "agibi", *["alibi"] * 4]
    assert table.set_index("trial")["reason"]["d1"].startswith("TrainingDiverged")


def test_spread_is_over_seeds_where_there_are_several() -> None:
    spread = trial_table(RECORDS).set_index("trial")["accuracy_spread"]
    assert spread["a1"] == spread["a2"] == pytest.approx(0.1 / 2**0.5)
    assert spread.isna().sum() == 2
    assert "accuracy_spread" not in trial_table(RECORDS[:1]).columns


def test_private_columns_are_there_only_if_asked_for() -> None:
    plain, owners = trial_table(RECORDS), trial_table(RECORDS, private=True)
    assert set(owners.columns) - set(plain.columns) == {
        *("private/secret", "ensemble_accuracy", "epsilon_m_ceiling")
    }
    assert "private" not in plain.to_csv()


def test_the_best_is_the_best_mean_over_seeds_and_its_first_seed() -> None:
    assert best_of(RECORDS, by=None).hash == "a1"
    # .725 on average, and one seed of .75 that would win alone.
    assert best_of(RECORDS[2:], by=ChooseBy.TEST).hash == "c1"
    with pytest.raises(ValueError, match="no trial has finished"):
        best_of(RECORDS[-1:], by=None)


def test_an_empty_sweep_is_an_empty_table() -> None:
    assert trial_table([]).empty


def test_the_best_is_not_chosen_by_noise() -> None:
    found = AccuracyEstimate(accuracy=0.8, sampling_error=0.03, count_scale=0.2)
    records = [a_record(digest, figures=figures_of(found)) for digest in ("a", "b")]
    with pytest.raises(ValueError, match="noise is too large to choose by estimated accuracy"):
        best_of(records, by=ChooseBy.ESTIMATED)
    assert best_of(records, by=ChooseBy.TEST).hash == "a"
