"""Answers leave the home, votes stay; charged once; figures speak of the whole run."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.ledger import Budget, BudgetExceeded, epsilon_of_prices
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, InteractiveGNMax, LNMax, count_votes
from labeldp.mechanisms.pate.published_cost import ConditionsFailed
from labeldp.mechanisms.pate.releases import (
    AnsweredRequest,
    PateAnswers,
    PublishedCost,
    epsilon_of_counts,
    private_costs,
)
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy, SeededNoise
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.platform.settings.metrics import PUBLIC, is_owners
from labeldp.platform.vault import label_home
from labeldp.platform.vault.label_home import LabelHome, SecretLabels
from labeldp.trainers.methods.pate import TeacherVotes
from labeldp.trainers.methods.pate_settings import EnsembleConfig, PateConfig, TeacherKind
from tests.platform.vault.homes import DRIVER, home_settings
from tests.trainers.small_data import small_table

DATA, LABELS = small_table(examples=300)
ENSEMBLE = EnsembleConfig(teachers=20, queries=80, seed=1)
CONFIDENT = ConfidentGNMax(threshold=12.0, sigma1=4.0, sigma2=2.0)
REQUEST = PateAnswers(aggregator=CONFIDENT, queries=80, max_answers=40)
TRIAL = "ab12"


def a_home(folder: Path | None, *, labels: NDArray[np.int64] = LABELS, **changes: Any) -> LabelHome:
    """A home that has begun a trial; without canaries unless the changes plant some."""
    own = {"audit": AuditSettings(canaries=0, coin_canaries=0), "fingerprint": DATA.fingerprint}
    home = LabelHome(
        SecretLabels(training=labels, held_out=LABELS[:20], num_classes=3),
        **home_settings(folder, **{**own, **changes}),
    )
    home.begin(DRIVER, TRIAL)
    return home


def train(home: LabelHome, ensemble: EnsembleConfig = ENSEMBLE) -> NDArray[np.uint8]:
    ids = list(range(ensemble.teachers))
    votes = TeacherVotes(config=ensemble)(ids, home.shards(DRIVER, ensemble), DATA)
    journal = home.journal(ensemble)()
    with journal.writing():
        journal.append(ids, votes)
    return votes


def ask(home: LabelHome, *requests: PateAnswers, **changes: Any) -> Any:
    """Answers, keys, and the figures that the home keeps for the driver."""
    given = {
        "ensemble": ENSEMBLE,
        "student_scores": None,
        "delta": 1e-5,
        "publish_cost": True,
        "noise": SeededNoise(seed=3),
        **changes,
    }
    values, keys = home.answers(TRIAL, requests=requests or (REQUEST,), **given)
    figures = home._private_record(TRIAL)["answers"]["figures"]
    return SimpleNamespace(values=values, keys=keys, figures=figures)


def test_rounds_and_ensembles_that_vote_alike_share_nothing(tmp_path: Path) -> None:
    """Whether they do is a secret: one key, and a part of the price, would tell it."""
    home = a_home(tmp_path)
    rounds = [replace(REQUEST, queries=40, max_answers=20)] * 2
    keys = set[str]()
    for ensemble in (ENSEMBLE, replace(ENSEMBLE, seed=2)):
        journal = home.journal(ensemble)()
        with journal.writing():
            journal.append(list(range(20)), np.zeros((20, 80), dtype=np.uint8))
        reply = ask(home, *rounds, ensemble=ensemble, publish_cost=False)
        keys.update(reply.keys)
        answered = reply.values[:, 0] >= 0
        assert answered.any() and (reply.values[answered, 0] == 0).all()
    assert len(home.ledger()) == len(keys) == 4


def test_secure_answers_and_their_published_cost_are_releases_of_their_own(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    train(home)
    plain, secure = (ask(home, noise=noise) for noise in (OsEntropy(), SecureEntropy()))
    assert not set(plain.keys) & set(secure.keys)
    first, second = home.ledger()[:2], home.ledger()[2:]
    assert [line.event for line in first] == [line.event for line in second]
    assert {line.mechanism["noise"]["name"] for line in second} == {"SecureEntropy"}
    for line in home.ledger():  # not to held-out labels, which no teacher has seen
        assert line.indices is not None and np.array_equal(line.indices, np.arange(300))
    assert secure.figures["answered_by_teachers"] == 40
    epsilon, _ = home.epsilon(secure.keys, 1e-5)
    assert 0 < secure.figures["epsilon_sanitized"] <= epsilon


def test_figures_are_those_of_the_votes(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    votes = count_votes(train(home), num_classes=3)
    reply = ask(home)
    truth = LABELS[ENSEMBLE.query_positions(300)]
    figures = reply.figures
    assert figures["ensemble_accuracy"] == (votes.argmax(1) == truth).mean() > 0.8
    known = reply.values[:, 0] >= 0
    assert figures["answered_by_teachers"] == known.sum() == 40
    assert figures["vote_label_accuracy"] == (reply.values[known, 0] == truth[known]).mean()
    open_ones = {name for name in figures if not is_owners(name) and name not in PUBLIC}
    assert open_ones == {"answered_by_teachers", "epsilon_of_counts", "epsilon_realised"}
    run = AnsweredRequest(request=REQUEST, votes=votes, released=reply.values)
    assert "array" not in repr(run), "votes are secret"
    costs = private_costs([run], delta=1e-5)
    assert figures["private/epsilon_data_dependent"] == costs["realised"]
    assert figures["private/epsilon_expected"] == costs["expected"]
    assert figures["private/epsilon_expected_of_counts"] == costs["expected_of_counts"]
    assert figures["epsilon_realised"] == costs["realised_data_independent"]
    assert 0 < costs["realised"] < figures["epsilon_sanitized"]
    # Both prices are of the same things: the answers, and the bound that is released about them.
    answers_alone = epsilon_of_counts([REQUEST], delta=1e-5)
    assert figures["epsilon_of_counts"] > max(answers_alone, home.epsilon(reply.keys, 1e-5)[0])


def test_two_rounds_are_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublishedCost, "of", None)  # it is not called
    home = a_home(tmp_path)
    votes = count_votes(train(home), num_classes=3)
    first = replace(REQUEST, queries=40, max_answers=20)
    interactive = InteractiveGNMax(threshold=6.0, sigma1=4.0, sigma2=2.0, confidence=0.9)
    second = PateAnswers(aggregator=interactive, queries=40, max_answers=20)
    alone = ask(home, first, publish_cost=False)
    scores = np.full((40, 3), 1 / 3, dtype=np.float32)
    with pytest.raises(ValueError, match="cost of 2 rounds can't be published"):
        ask(home, first, second, student_scores=scores)
    assert len(home.ledger()) == 1, "refused before anything is drawn"
    both = ask(home, first, second, student_scores=scores, publish_cost=False)
    np.testing.assert_array_equal(both.values[:40], alone.values)
    assert both.values.shape == (80, 2) and both.keys[0] == alone.keys[0]
    assert len(home.ledger()) == len(both.keys) == 2  # the first was read, not paid, again
    events = [first.event, second.event]
    assert home.epsilon(both.keys, 1e-5)[0] == pytest.approx(epsilon_of(events, delta=1e-5))
    assert "epsilon_sanitized" not in both.figures
    rounds = [
        AnsweredRequest(request=first, votes=votes[:40], released=both.values[:40]),
        AnsweredRequest(
            request=second, votes=votes[40:], released=both.values[40:], student_scores=scores
        ),
    ]
    costs = private_costs(rounds, delta=1e-5)
    assert both.figures["private/epsilon_data_dependent"] == costs["realised"]
    once = private_costs(rounds[:1], delta=1e-5)
    assert all(costs[name] > once[name] for name in costs)


def test_answers_are_charged_once_and_read_again_for_nothing(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    with pytest.raises(ValueError, match="20 of 20 teachers have not voted yet"):
        ask(home)
    assert home.ledger() == ()
    votes = train(home)
    first, again = ask(home), ask(home)
    np.testing.assert_array_equal(first.values, again.values)
    assert first.figures == again.figures and first.keys == again.keys
    names = [charge.mechanism["name"] for charge in home.ledger()]
    assert names == ["PateAnswers", "PublishedCost"]
    assert [charge.key for charge in home.ledger()] == list(first.keys)
    # The journal holds votes and no shard.
    (file,) = home.journal(ENSEMBLE)().folder.glob("*.npz")
    content = file.read_bytes()
    assert votes.tobytes() in content
    assert LABELS.astype(np.uint8).tobytes() not in content and LABELS.tobytes() not in content


def test_costs_are_computed_once_and_none_for_a_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltas: list[float] = []

    def counted(rounds: Any, *, delta: float) -> dict[str, float]:
        deltas.append(delta)
        return private_costs(rounds, delta=delta)

    monkeypatch.setattr(label_home, "private_costs", counted)
    home, fit = a_home(tmp_path), a_home(None)
    for each in (home, fit):
        train(each)
    assert ask(home).figures == ask(home).figures and deltas == [1e-5]
    other = ask(home, delta=1e-6, publish_cost=False)
    assert deltas == [1e-5, 1e-6] and "epsilon_realised" in other.figures
    found = ask(fit).figures
    assert len(deltas) == 2 and not {"epsilon_realised", "private/epsilon_expected"} & set(found)
    fit.end()


def test_answers_are_refused_where_their_published_cost_is_beyond_the_budget(
    tmp_path: Path,
) -> None:
    bound = PublishedCost.of(REQUEST, teachers=20, classes=3, delta=1e-5)
    assert bound is not None
    alone = epsilon_of_prices([REQUEST], delta=1e-5)
    both = epsilon_of_prices([REQUEST, bound], delta=1e-5)
    home = a_home(tmp_path, budget=Budget(epsilon=(alone + both) / 2, delta=1e-5))
    train(home)
    with pytest.raises(BudgetExceeded, match=r"the answers alone make it .*publish_cost=false"):
        ask(home)
    assert not home.ledger()
    ask(home, publish_cost=False)
    with pytest.raises(BudgetExceeded, match=r"^PublishedCost is refused"):
        ask(home)  # the answers are there
    assert len(home.ledger()) == 1
    for budget, lines in ((alone / 2, 0), (1.01 * both, 2)):
        other = a_home(tmp_path / f"{lines}", budget=Budget(epsilon=budget, delta=1e-5))
        train(other)
        with nullcontext() if lines else pytest.raises(BudgetExceeded, match=r"^PateAnswers is"):
            ask(other)
        assert len(other.ledger()) == lines


def test_nearest_labels_answer_at_the_price_of_a_labels_own_queries(tmp_path: Path) -> None:
    config = PateConfig(
        ensemble=replace(
            ENSEMBLE, kind=TeacherKind.NEIGHBORS, teachers=15, queries=60, queries_per_label=6
        ),
        epsilon=4.0,
        answers=30,
    )
    ensemble, (request,) = config.ensemble, config.rounds
    given = {"ensemble": ensemble, "publish_cost": False}
    home = a_home(tmp_path)
    train(home, ensemble)
    first = ask(home, request, **given)
    (line,) = home.ledger()
    assert line.event == PateAnswers(aggregator=request.aggregator, queries=6, max_answers=6).event
    assert home.epsilon(first.keys, 1e-5)[0] == pytest.approx(4.0)
    assert first.figures["epsilon_realised"] <= 4.0 + 1e-9
    assert first.figures["vote_label_accuracy"] > 0.7
    # A driver that was killed finds votes and answers, and pays nothing again.
    again = ask(a_home(tmp_path), request, **given)
    np.testing.assert_array_equal(again.values, first.values)
    assert again.keys == first.keys and again.figures == first.figures


def test_a_canary_counts_as_what_it_truly_is(tmp_path: Path) -> None:
    """Teachers outvote the few canaries, and are right to: a planted label is a wrong one."""
    home = a_home(tmp_path, audit=AuditSettings(canaries=30, coin_canaries=0))
    votes = count_votes(train(home), num_classes=3)
    positions = ENSEMBLE.query_positions(300)
    right = (votes.argmax(1) == LABELS[positions]).mean()
    assert ask(home).figures["ensemble_accuracy"] == right
    assert right > (votes.argmax(1) == home._planted[positions]).mean()


def test_only_a_proven_cost_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, capped_home = a_home(tmp_path), a_home(tmp_path / "capped")
    train(home)
    train(capped_home)
    silent = ask(home, publish_cost=False)
    unproven = ask(home, replace(REQUEST, aggregator=LNMax(scale=10.0)))
    # Much noise and few answers: smooth sensitivity has nothing to gain, and the bound is no more
    # than what holds for any votes.
    noisy = ConfidentGNMax(threshold=12.0, sigma1=400.0, sigma2=80.0)
    capped = ask(capped_home, PateAnswers(aggregator=noisy, queries=80, max_answers=5))
    assert capped.figures["answered_by_teachers"] == 5
    assert capped.figures["epsilon_sanitized"] == capped_home.epsilon(capped.keys, 1e-5)[0]

    def refuse(*_: object, **__: object) -> None:
        raise ConditionsFailed("C6 does not hold")

    monkeypatch.setattr(PublishedCost, "release", refuse)
    for reply in (silent, unproven, ask(home)):
        assert len(reply.keys) == 1 and "epsilon_sanitized" not in reply.figures
    assert [charge.mechanism["name"] for charge in home.ledger()] == ["PateAnswers"] * 2


def test_votes_have_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(home: LabelHome, ensemble: EnsembleConfig = ENSEMBLE) -> str:
        return home.journal(ensemble)().folder.name

    def beside(name: str, **changes: Any) -> LabelHome:
        return a_home(tmp_path / name, votes=tmp_path / "votes", **changes)

    home, other = beside("first"), replace(ENSEMBLE, seed=2)
    with monkeypatch.context() as later:
        later.setattr(label_home, "VOTES_VERSION", 99)
        changed = key(home)
    assert key(home) == key(beside("equal"))
    others = {
        changed,
        key(home, other),
        key(home, replace(ENSEMBLE, ridge=0.2)),
        key(beside("features", fingerprint="other features")),
        key(beside("labels", labels=LABELS[::-1].copy())),
        # A secret of the folder: who sees an address can't try labels until one fits.
        key(a_home(tmp_path / "elsewhere")),
    }
    assert len(others | {key(home)}) == 7
    pairs = zip(home.shards(DRIVER, ENSEMBLE), home.shards(DRIVER, other), strict=True)
    assert any((mine.indices != each.indices).any() for mine, each in pairs)
    # Votes that were put in another's place are not read.
    train(home)
    home.journal(ENSEMBLE)().folder.rename(home.journal(other)().folder)
    with pytest.raises(ValueError, match="have not voted yet"):
        ask(home, ensemble=other)
    # Teachers learn from planted labels, and some of those are chosen by secret coins.
    coins: dict[str, Any] = {"audit": AuditSettings(canaries=30, coin_canaries=30)}
    shared = [key(beside(f"shared {each}", shared_coins=True, **coins)) for each in range(2)]
    assert shared[0] == shared[1] != key(beside("own coins", **coins))


def test_figures_of_answers_go_to_the_driver_alone(tmp_path: Path) -> None:
    home = a_home(tmp_path, audit=AuditSettings(canaries=30, coin_canaries=30))
    train(home)
    request = (ENSEMBLE, (REQUEST,), None, 1e-5, True, SeededNoise(seed=3))
    with pytest.raises(ValueError, match="names its audits and answers"):
        home.answers("", *request)
    with pytest.raises(ValueError, match="trial ab13 was not begun by the driver"):
        home.answers("ab13", *request)
    assert not home.ledger()
    values, answered = home.answers(TRIAL, *request)
    assert values.shape == (REQUEST.queries, 2) and values.dtype == np.int64
    # A count of held-out labels changes no price of the answers.
    count = home.release(CorrectCount(epsilon=0.1), (LABELS[:20],), None, OsEntropy(), True)
    assert home.epsilon([count.key], 0.0)[0] == 0.1
    home.audit(TRIAL, np.full((60, 3), 1 / 3), 0.95, [*answered, count.key], 1e-5)
    prices = {"epsilon_realised", "epsilon_sanitized", "private/epsilon_data_dependent"}
    for keys in (answered, [*answered, count.key]):
        known = home.figures(DRIVER, TRIAL, keys)
        assert prices | {"ensemble_accuracy", "vote_label_accuracy", "epsilon_m_low"} <= set(known)
    # A trial that has paid for more than answers has no figure that is the answers' price alone.
    with_prior = home.figures(DRIVER, TRIAL, [*answered, "a prior's"])
    assert not prices & set(with_prior) and "ensemble_accuracy" in with_prior
