"""count_price: a count is as dear as it must be to be of use, and as is free."""

from typing import Any

from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import EvaluationSettings, TrialConfig, with_changes
from labeldp.platform.sweep.cost import cost_of
from labeldp.platform.sweep.count_price import (
    choice_beforehand,
    count_note,
    counts_of,
    free_epsilon,
    with_count_price,
)
from labeldp.platform.sweep.evaluation_settings import (
    AIMED_NOISE,
    LEAST_EPSILON,
    MOST_EPSILON,
    default_epsilon,
)
from labeldp.platform.sweep.search_settings import AshaStop, OptunaSearch
from labeldp.platform.sweep.space import Axis, Grid, LogUniform
from labeldp.platform.sweep.stand_ins import DataFacts, Search
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, Variant, plan_trials
from labeldp.trainers.settings.alibi import Noise


def facts(held_out: int = 100, before: float | None = None) -> DataFacts:
    return DataFacts(num_classes=3, with_estimates=True, held_out=held_out, count_before=before)


def a_sweep(space: dict[str, Axis], *, baseline: bool = False, **changes: Any) -> Sweep:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    variants = [Variant(name="ALIBI", space=space)]
    if baseline:
        variants.append(Variant(name="none", changes={"trainer.noise": Noise.NONE}))
    return Sweep(name="s", base=with_changes(TrialConfig(), named), variants=variants)


def priced(
    sweep: Sweep, facts: DataFacts
) -> tuple[list[PlannedTrial], Search | None, float | None]:
    listed = [] if sweep.search else plan_trials(sweep)
    return with_count_price(
        sweep,
        listed,
        facts,
        by=ChooseBy.ESTIMATED,
        overrides={},
        budgeted=False,
        fingerprint="f",
    )


def test_the_default_makes_counts_of_use_between_its_bounds() -> None:
    for held_out in (40, 100, 500):
        epsilon = default_epsilon(held_out=held_out, free=9.0)
        noise = CorrectCount(epsilon=epsilon).noise_std / held_out
        assert 0.9 * AIMED_NOISE < noise < AIMED_NOISE
    assert default_epsilon(held_out=10, free=9.0) == MOST_EPSILON
    assert default_epsilon(held_out=6000, free=9.0) == LEAST_EPSILON
    assert default_epsilon(held_out=100, free=0.001) == LEAST_EPSILON, "the least is asked anyway"
    assert default_epsilon(held_out=100, free=0.1239) == 0.12, "rounded so that it stays free"


EPSILONS: dict[str, Axis] = {"trainer.epsilon": Grid(0.5, 1.0, 2.0)}


def test_a_small_file_is_counted_at_a_price_that_makes_nothing_dearer() -> None:
    trials, search, epsilon = priced(a_sweep(EPSILONS, baseline=True), facts())
    assert search is None and epsilon == 0.36
    assert {trial.config.evaluation.epsilon for trial in trials} == {epsilon}
    without = cost_of(trials[:-1], num_classes=3)
    cost = cost_of(trials[:-1], num_classes=3, with_estimates=True)
    assert (cost.epsilons, cost.epsilon_total) == (without.epsilons, without.epsilon_total)


def test_no_trial_and_no_sweep_is_dearer_for_its_counts() -> None:
    cheap = a_sweep({"trainer.epsilon": Grid(0.2, 2.0)})
    assert priced(cheap, facts())[2] == 0.2
    rates = a_sweep({"trainer.learning_rate": Grid(*(0.01 * n for n in range(1, 9)))})
    trials, _, epsilon = priced(rates, facts())  # eight trials on one release of epsilon 1
    assert epsilon == 0.12
    assert cost_of(trials, num_classes=3, with_estimates=True).epsilon_total == 1.0
    assert free_epsilon(plan_trials(a_sweep({}, trainer__noise="none")), num_classes=3) > 1e9


def test_what_is_stated_stays_what_it_is() -> None:
    trials, _, epsilon = priced(a_sweep(EPSILONS, evaluation__epsilon=0.05), facts())
    assert epsilon is None and trials[0].config.evaluation == EvaluationSettings(epsilon=0.05)
    axis: dict[str, Axis] = {"evaluation.epsilon": Grid(0.1, 0.7)}
    found = [trial.config.evaluation.epsilon for trial in priced(a_sweep(axis), facts())[0]]
    assert found == [0.1, 0.7]
    release = a_sweep(EPSILONS, evaluation__estimate="release")
    assert priced(release, facts())[2] is None
    none = DataFacts(num_classes=3, with_estimates=False)
    assert priced(a_sweep(EPSILONS), none)[0][0].config.evaluation.epsilon is None


def test_a_folder_keeps_the_price_that_it_was_begun_with() -> None:
    assert priced(a_sweep(EPSILONS), facts(before=0.05))[2] == 0.05


def test_many_labels_cost_what_they_always_did() -> None:
    sweep = a_sweep(EPSILONS)
    trials, _, epsilon = priced(sweep, facts(held_out=6000))
    assert epsilon == LEAST_EPSILON
    assert [trial.hash("f") for trial in trials] == [each.hash("f") for each in plan_trials(sweep)]


def a_search(**changes: Any) -> Sweep:
    base = with_changes(TrialConfig(), {"trainer.epochs": 10, **changes})
    axes: dict[str, Axis] = {"trainer.learning_rate": LogUniform(0.01, 1.0)}
    search, stop = OptunaSearch(trials=4), AshaStop(grace_epochs=2)
    return Sweep(name="s", base=base, space=axes, search=search, stop=stop)


def test_a_search_asks_for_its_counts_at_that_price_wherever_it_goes() -> None:
    trials, search, epsilon = priced(a_search(), facts(held_out=1000))
    assert search is not None
    # After 2 and 8 epochs and at the end: twelve counts, and one release of epsilon 1.
    assert counts_of(trials) == 12 and epsilon == LEAST_EPSILON
    trials, search, epsilon = priced(a_search(**{"trainer.epsilon": 6.0}), facts())
    assert search is not None and epsilon == 0.36
    assert search.planned(0, (0.5,)).config.evaluation.epsilon == 0.36


def test_it_is_said_before_it_is_paid() -> None:
    trials, _, _ = priced(a_sweep(EPSILONS), facts())
    said = count_note(trials, held_out=100)
    for words in ("100 held-out labels", "epsilon 0.36 for each of 3 counts", "3.9 points"):
        assert words in said
    loud = plan_trials(a_sweep(EPSILONS, evaluation__epsilon=0.05))
    assert "too much to choose a trial by" in count_note(loud, held_out=100)
    noise = choice_beforehand(loud, held_out=100)
    assert noise is not None and noise.swamps and noise.candidates == 3
    assert count_note(loud, held_out=0) == ""
    release = plan_trials(a_sweep(EPSILONS, evaluation__estimate="release"))
    assert choice_beforehand(release, held_out=100) is None
