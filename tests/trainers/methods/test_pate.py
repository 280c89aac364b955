"""PATE-FM: its questions, its plan, its prior, and what its students refuse."""

from dataclasses import replace

import numpy as np
import pytest

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.pate.releases import PublishedCost
from labeldp.trainers.methods.pate import further_labels, start_student
from labeldp.trainers.settings.methods import PriorSettings, PriorSource
from labeldp.trainers.settings.pate import (
    AggregatorKind,
    EnsembleConfig,
    PateConfig,
    StudentConfig,
    StudentKind,
)
from labeldp.trainers.settings.training import LearnerConfig
from tests.trainers.small_data import ON_CPU, Given, SeededVault, small_images, small_table, trained

CONFIG = PateConfig(
    ensemble=EnsembleConfig(teachers=40, queries=100, seed=2),
    threshold=25.0,
    sigma1=10.0,
    sigma2=5.0,
    answers=60,
    student=StudentConfig(
        kind=StudentKind.NETWORK,
        network=LearnerConfig(width=16, epochs=5, batch_size=16, learning_rate=0.1),
    ),
)
INTERACTIVE = replace(CONFIG, aggregator=AggregatorKind.INTERACTIVE, threshold=10.0)


def given() -> Given:
    data, labels = small_table()
    return data, SeededVault(labels, 3)


def test_an_interactive_run_requests_twice_with_a_student_in_between() -> None:
    data, vault = given()
    trainer = trained(INTERACTIVE, (data, vault))
    (first, nothing, _), (both, scores, publish) = vault.asked
    assert first == INTERACTIVE.rounds[:1] and nothing is None
    assert both == INTERACTIVE.rounds and scores is not None and scores.shape == (50, 3)
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)
    assert not publish  # no bound is proven for two rounds
    assert [r.queries for r in both] == [50, 50] and [r.max_answers for r in both] == [30, 30]
    # The student's own sure labels come on top of what teachers answered.
    assert trainer.evaluate() > 0.7 and trainer.figures()["answered"] > 30


@pytest.mark.parametrize("publish", [True, False])
def test_a_vault_charges_the_planned_price(publish: bool) -> None:
    config = replace(CONFIG, publish_cost=publish)
    (request,) = config.rounds
    planned = config.planned_charge(num_classes=3, seed=5)
    events = [request.event]
    if publish:
        cost = PublishedCost.of(request, teachers=40, classes=3, delta=config.delta)
        assert cost is not None
        events.append(cost.event)
        assert planned.failure_probability == cost.tail
    assert planned.releases == len(events)
    assert epsilon_of([planned.event], delta=1e-5) == pytest.approx(epsilon_of(events, delta=1e-5))
    # Students and seeds of training read the same release; other noise does not.
    same = replace(config, students=1).planned_charge(num_classes=3, seed=9)
    assert same.release == planned.release
    other = replace(config, sigma2=6.0).planned_charge(num_classes=3, seed=5)
    assert other.release != planned.release


def with_prior(source: PriorSource, config: PateConfig = CONFIG) -> PateConfig:
    prior = PriorSettings(source=source, clusters=20)
    return replace(config, prior=prior, prior_epsilon=4.0, publish_cost=False)


@pytest.mark.parametrize("config", [CONFIG, INTERACTIVE], ids=["one round", "two rounds"])
@pytest.mark.parametrize("source", [PriorSource.CLUSTERS, PriorSource.MOMENTS])
def test_students_learn_from_a_prior_too_and_it_is_paid_for(
    source: PriorSource, config: PateConfig
) -> None:
    data, vault = given()
    config = with_prior(source, config)
    trainer = trained(config, (data, vault))
    (charge,) = vault.charges()
    planned = config.planned_charge(num_classes=3, seed=0)
    assert planned.before is not None and charge.event == planned.before.event
    assert epsilon_of([charge.event], delta=1e-5) == pytest.approx(4.0, rel=1e-6)
    assert trainer.evaluate() > 0.8
    # Queries that were answered are counted, the hundreds of labels that the prior adds are not.
    assert trainer.figures()["answered"] <= 100


def test_a_prior_adds_what_it_is_surest_of_but_overrules_no_answer() -> None:
    prior = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.45, 0.55], [0.7, 0.3]])
    rows, labels = further_labels(prior, share=0.5, answered=np.array([0]))
    # One of three in class 0 (the first, which has an answer) and one of two in class 1.
    assert rows.tolist() == [2] and labels.tolist() == [1]
    rows, labels = further_labels(prior, share=0.99, answered=np.array([], dtype=np.intp))
    assert rows.tolist() == [0, 2, 4] and labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threshold": 71.0}, r"threshold is 71, but 40 teachers that all agree reach 40 votes"),
        ({"answers": 101}, "answers is 101, but ensemble.queries is 100"),
        ({"aggregator": AggregatorKind.INTERACTIVE, "answers": 1}, "two rounds"),
        (
            {"prior": with_prior(PriorSource.CLUSTERS).prior, "publish_cost": True},
            r"publish_cost is True.*set publish_cost=False",
        ),
        ({"prior_trusted": 1.5}, r"prior_trusted is 1\.5"),
        ({"prior_epsilon": 0.0}, "prior_epsilon is 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(CONFIG, **changes)  # type: ignore[arg-type]


def test_students_without_answers_or_features_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no query was answered.*lower the threshold"):
        trained(replace(CONFIG, threshold=49.0, sigma1=3.0), given())
    images, _ = small_images(examples=50)
    for kind in (StudentKind.PROBE, StudentKind.SELF_TRAINED):
        with pytest.raises(ValueError, match=r"holds images.*features=patches"):
            start_student(
                StudentConfig(kind=kind),
                data=images,
                examples=np.arange(5),
                labels=np.arange(5) % 3,
                seed=0,
                performance=ON_CPU,
            )
