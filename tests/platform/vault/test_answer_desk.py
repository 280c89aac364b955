"""The desk: answers leave, votes stay; charged once; figures speak of the whole run."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms import randomness
from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, InteractiveGNMax, LNMax
from labeldp.mechanisms.pate.published_cost import ConditionsFailed
from labeldp.mechanisms.pate.releases import (
    AnsweredRequest,
    PateAnswers,
    PublishedCost,
    epsilon_of_counts,
    private_costs,
)
from labeldp.mechanisms.pate.votes import count_votes
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy, SeededNoise
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault import answer_desk
from labeldp.platform.vault.answer_desk import AnswerDesk
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from labeldp.platform.vault.vote_store import VoteStoreUnusable
from labeldp.trainers.methods.teachers import TeacherVotes
from labeldp.trainers.settings.pate import EnsembleConfig
from tests.platform.sweep.test_accuracy_figures import wrongly_classed
from tests.platform.vault.homes import DRIVER, home_settings
from tests.trainers.small_data import small_table

DATA, LABELS = small_table(examples=300)
ENSEMBLE = EnsembleConfig(teachers=20, queries=80, seed=1)
CONFIDENT = ConfidentGNMax(threshold=12.0, sigma1=4.0, sigma2=2.0)
REQUEST = PateAnswers(aggregator=CONFIDENT, queries=80, max_answers=40)
NOISE = SeededNoise(seed=3)


def a_desk(
    folder: Path,
    *,
    budget: Budget | None = None,
    labels: NDArray[np.int64] = LABELS,
    fingerprint: str = DATA.fingerprint,
) -> tuple[AnswerDesk, LabelVault]:
    vault = LabelVault(labels=labels, num_classes=3, budget=budget)
    desk = AnswerDesk(
        vault=vault, labels=labels, truth=LABELS, folder=folder, fingerprint=fingerprint
    )
    return desk, vault


def a_home(folder: Path, **changes: Any) -> LabelHome:
    labels = SecretLabels(training=LABELS, held_out=LABELS[:20], num_classes=3)
    audit = AuditSettings(canaries=30, coin_canaries=30)
    own = {"audit": audit, "fingerprint": DATA.fingerprint, **changes}
    return LabelHome(labels, **home_settings(folder, **own))


def train(desk: AnswerDesk) -> NDArray[np.uint8]:
    """Train the ensemble here and now, and journal its votes."""
    ids = list(range(ENSEMBLE.teachers))
    votes = TeacherVotes(config=ENSEMBLE)(ids, desk.shards(ENSEMBLE), DATA)
    journal = desk.file_of(ENSEMBLE).journal()
    with journal.writing():
        journal.append(ids, votes)
    return votes


@pytest.fixture
def known_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secret noise under keys that a test knows: its statements hold always or never."""
    count = itertools.count()
    keys = SimpleNamespace(token_bytes=lambda size: next(count).to_bytes(size, "little"))
    monkeypatch.setattr(randomness, "secrets", keys)


@pytest.mark.usefixtures("known_keys")
def test_ensembles_that_happen_to_vote_alike_share_no_answers(tmp_path: Path) -> None:
    """Whether they do is a secret: else one key, and half the price, would tell it."""
    desk, vault = a_desk(tmp_path)
    other = replace(ENSEMBLE, network=replace(ENSEMBLE.network, weight_decay=1e-9))
    votes = train(desk)
    journal = desk.file_of(other).journal()
    with journal.writing():
        journal.append(list(range(other.teachers)), votes)
    asked: dict[str, Any] = {"delta": 1e-5, "publish_cost": True, "noise": SecureEntropy()}
    one, two = (desk.answers(each, (REQUEST,), **asked) for each in (ENSEMBLE, other))
    assert set(one.keys).isdisjoint(two.keys) and len(vault.charges()) == 4
    assert desk.answers(other, (REQUEST,), **asked).keys == two.keys


def test_figures_are_those_of_the_votes(tmp_path: Path) -> None:
    desk, vault = a_desk(tmp_path)
    votes = count_votes(train(desk), num_classes=3)
    reply = desk.answers(ENSEMBLE, (REQUEST,), delta=1e-5, publish_cost=True, noise=NOISE)
    truth = LABELS[ENSEMBLE.query_positions(300)]
    figures = reply.figures
    assert figures["ensemble_accuracy"] == (votes.argmax(1) == truth).mean() > 0.8
    known = reply.values[:, 0] >= 0
    assert figures["answered_by_teachers"] == known.sum() == 40
    assert figures["vote_label_accuracy"] == (reply.values[known, 0] == truth[known]).mean()
    assert not wrongly_classed(figures)
    run = AnsweredRequest(request=REQUEST, votes=votes, released=reply.values)
    costs = private_costs([run], delta=1e-5)
    assert figures["private/epsilon_data_dependent"] == costs["realised"]
    assert figures["private/epsilon_expected"] == costs["expected"]
    assert figures["epsilon_realised"] == costs["realised_data_independent"]
    assert 0 < costs["realised"] < figures["epsilon_sanitized"]
    # Both prices are of the same things: the answers, and the bound that is released about them.
    answers_alone = epsilon_of_counts([REQUEST], delta=1e-5)
    assert figures["epsilon_of_counts"] > max(answers_alone, vault.epsilon(delta=1e-5))
    seen = reply.values[:, 1] >= 0
    assert reply.consensus is not None
    assert sum(reply.consensus.answered) == 40
    assert sum(reply.consensus.refused) == seen.sum() - 40
    shares = votes[seen].max(1) / ENSEMBLE.teachers
    together = np.add(reply.consensus.answered, reply.consensus.refused)
    np.testing.assert_array_equal(together, np.histogram(shares, len(together), (0, 1))[0])


def test_two_rounds_are_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any, **more: Any) -> None:
        raise AssertionError("no plan has a published cost of several rounds")

    monkeypatch.setattr(AnswerDesk, "_published_cost", never)
    desk, vault = a_desk(tmp_path)
    votes = count_votes(train(desk), num_classes=3)
    first = replace(REQUEST, queries=40, max_answers=20)
    interactive = InteractiveGNMax(threshold=6.0, sigma1=4.0, sigma2=2.0, confidence=0.9)
    second = PateAnswers(aggregator=interactive, queries=40, max_answers=20)
    alone = desk.answers(ENSEMBLE, (first,), delta=1e-5, publish_cost=False, noise=NOISE)
    scores = np.full((40, 3), 1 / 3, dtype=np.float32)
    asked = (ENSEMBLE, (first, second), scores)
    with pytest.raises(ValueError, match="cost of 2 rounds can't be published"):
        desk.answers(*asked, delta=1e-5, publish_cost=True, noise=NOISE)
    assert len(vault.charges()) == 1, "refused before anything is drawn"
    both = desk.answers(*asked, delta=1e-5, publish_cost=False, noise=NOISE)
    np.testing.assert_array_equal(both.values[:40], alone.values)
    assert both.values.shape == (80, 2) and both.keys[0] == alone.keys[0]
    assert len(vault.charges()) == len(both.keys) == 2  # the first was read, not paid, again
    events = [first.event, second.event]
    assert vault.epsilon(delta=1e-5) == pytest.approx(epsilon_of(events, delta=1e-5))
    assert "epsilon_sanitized" not in both.figures
    rounds = [
        AnsweredRequest(request=first, votes=votes[:40], released=both.values[:40]),
        AnsweredRequest(
            request=second, votes=votes[40:], released=both.values[40:], student_scores=scores
        ),
    ]
    costs = private_costs(rounds, delta=1e-5)
    assert both.figures["private/epsilon_data_dependent"] == costs["realised"]
    assert costs["realised"] > alone.figures["private/epsilon_data_dependent"]


@pytest.mark.usefixtures("known_keys")
def test_secure_answers_and_their_published_cost_are_releases_of_their_own(tmp_path: Path) -> None:
    desk, vault = a_desk(tmp_path)
    train(desk)
    plain, secure = (
        desk.answers(ENSEMBLE, (REQUEST,), delta=1e-5, publish_cost=True, noise=noise)
        for noise in (OsEntropy(), SecureEntropy())
    )
    assert not set(plain.keys) & set(secure.keys)
    first, second = vault.charges()[:2], vault.charges()[2:]
    assert [line.event for line in first] == [line.event for line in second]
    assert {line.mechanism["noise"]["name"] for line in second} == {"SecureEntropy"}
    assert secure.figures["answered_by_teachers"] == 40
    assert 0 < secure.figures["epsilon_sanitized"] <= vault.epsilon(delta=1e-5, keys=secure.keys)


ASKED: dict[str, Any] = {"delta": 1e-5, "publish_cost": True, "noise": NOISE}


def test_answers_are_charged_once_and_read_again_for_nothing(tmp_path: Path) -> None:
    desk, vault = a_desk(tmp_path)
    with pytest.raises(VoteStoreUnusable, match="20 of 20 teachers have not voted yet"):
        desk.answers(ENSEMBLE, (REQUEST,), **ASKED)
    assert vault.charges() == ()
    votes = train(desk)
    first, again = (desk.answers(ENSEMBLE, (REQUEST,), **ASKED) for _ in range(2))
    np.testing.assert_array_equal(first.values, again.values)
    assert first.figures == again.figures and first.keys == again.keys
    names = [charge.mechanism["name"] for charge in vault.charges()]
    assert names == ["PateAnswers", "PublishedCost"]
    assert [charge.key for charge in vault.charges()] == list(first.keys)
    # The journal holds votes and no shard.
    content = desk.file_of(ENSEMBLE).path.read_bytes()
    assert votes.tobytes() in content
    assert LABELS.astype(np.uint8).tobytes() not in content and LABELS.tobytes() not in content


def test_over_budget_nothing_is_answered(tmp_path: Path) -> None:
    desk, vault = a_desk(tmp_path, budget=Budget(epsilon=1.0, delta=1e-5))
    train(desk)
    with pytest.raises(BudgetExceeded, match="PateAnswers"):
        desk.answers(ENSEMBLE, (REQUEST,), **ASKED)
    assert vault.charges() == ()


def test_a_canary_counts_as_what_it_truly_is(tmp_path: Path) -> None:
    """Teachers outvote the few canaries, and are right to: a planted label is a wrong one."""
    planted, positions = LABELS.copy(), ENSEMBLE.query_positions(300)
    planted[positions[::8]] = (planted[positions[::8]] + 1) % 3
    desk, _ = a_desk(tmp_path, labels=planted)
    votes = count_votes(train(desk), num_classes=3)
    reply = desk.answers(ENSEMBLE, (REQUEST,), **ASKED)
    right = (votes.argmax(1) == LABELS[positions]).mean()
    assert reply.figures["ensemble_accuracy"] == right
    assert right > (votes.argmax(1) == planted[positions]).mean()


def test_the_cost_is_published_only_where_that_is_wanted_and_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, vault = a_desk(tmp_path)
    train(desk)
    silent = desk.answers(ENSEMBLE, (REQUEST,), **{**ASKED, "publish_cost": False})
    unproven = desk.answers(ENSEMBLE, (replace(REQUEST, aggregator=LNMax(scale=10.0)),), **ASKED)
    # Much noise and few answers: smooth sensitivity has nothing to gain, and the bound is no more
    # than what holds for any votes.
    noisy = ConfidentGNMax(threshold=12.0, sigma1=400.0, sigma2=80.0)
    capped_desk, capped_vault = a_desk(tmp_path)
    few = PateAnswers(aggregator=noisy, queries=80, max_answers=5)
    capped = capped_desk.answers(ENSEMBLE, (few,), **ASKED)
    assert capped.figures["epsilon_sanitized"] == capped_vault.epsilon(delta=1e-5)

    def refuse(*_: object, **__: object) -> None:
        raise ConditionsFailed("C6 does not hold")

    monkeypatch.setattr(PublishedCost, "release", refuse)
    failed = desk.answers(ENSEMBLE, (REQUEST,), **ASKED)
    for reply in (silent, unproven, failed):
        assert len(reply.keys) == 1 and "epsilon_sanitized" not in reply.figures
    assert [charge.mechanism["name"] for charge in vault.charges()] == ["PateAnswers"] * 2


def test_votes_are_found_by_all_that_decides_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, vault = a_desk(tmp_path)
    key = desk.file_of(ENSEMBLE).key
    with monkeypatch.context() as later:
        later.setattr(answer_desk, "VOTES_VERSION", 99)
        changed = desk.file_of(ENSEMBLE).key
    assert key == a_desk(tmp_path)[0].file_of(ENSEMBLE).key
    other = replace(ENSEMBLE, seed=2)
    others = {
        changed,
        desk.file_of(other).key,
        desk.file_of(replace(ENSEMBLE, ridge=0.2)).key,
        a_desk(tmp_path, fingerprint="other features")[0].file_of(ENSEMBLE).key,
        a_desk(tmp_path, labels=LABELS[::-1].copy())[0].file_of(ENSEMBLE).key,
    }
    assert len(others | {key}) == 6
    pairs = zip(desk.shards(ENSEMBLE), vault.partition(20, seed=ENSEMBLE.seed), strict=True)
    assert all((mine.indices == each.indices).all() for mine, each in pairs)
    pairs = zip(desk.shards(ENSEMBLE), desk.shards(other), strict=True)
    assert any((mine.indices != each.indices).any() for mine, each in pairs)
    # Votes that were put in another's place are refused.
    train(desk)
    desk.file_of(ENSEMBLE).path.rename(desk.file_of(other).path)
    with pytest.raises(VoteStoreUnusable, match="was written with key"):
        desk.answers(other, (REQUEST,), **ASKED)


def test_sweeps_beside_each_other_share_votes(tmp_path: Path) -> None:
    # Teachers learn from planted labels, and some of those are chosen by secret coins.
    def file(name: str, *, shared: bool) -> Any:
        store = tmp_path / name / "vault.db"
        store.parent.mkdir()
        places = HomePlaces(store=store, votes=tmp_path / "votes", shared_coins=shared)
        return a_home(tmp_path, places=places).ensemble_file(ENSEMBLE)

    assert file("first", shared=True) == file("second", shared=True)
    # Others toss coins of their own.
    assert file("third", shared=False) != file("first again", shared=True)


def test_figures_of_answers_go_to_the_driver_alone(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    train(home._desk)
    request = (ENSEMBLE, (REQUEST,), None, 1e-5, True, NOISE)
    with pytest.raises(ValueError, match="without one none is made"):
        home.answers("", *request)
    with pytest.raises(ValueError, match="trial ab12 was not begun by the driver"):
        home.answers("ab12", *request)
    assert not home.ledger()
    home.begin(DRIVER, "ab12")
    reply = home.answers("ab12", *request)
    assert reply.figures == {} and reply.values.shape == (REQUEST.queries, 2)
    assert reply.consensus is None
    # A count of held-out labels changes no price of the answers.
    count = home.release_held_out(CorrectCount(epsilon=0.1), (LABELS[:20],), NOISE)
    assert home.epsilon([count.key], 0.0)[0] == 0.1
    home.audit("ab12", np.full((60, 3), 1 / 3), 0.95, [*reply.keys, count.key], 1e-5)
    prices = {"epsilon_realised", "epsilon_sanitized", "private/epsilon_data_dependent"}
    for keys in (reply.keys, [*reply.keys, count.key]):
        known = home.figures(DRIVER, "ab12", keys)
        assert prices | {"ensemble_accuracy", "vote_label_accuracy", "epsilon_m_low"} <= set(known)
    # A trial that has paid for more than answers has no figure that is the answers' price alone.
    with_prior = home.figures(DRIVER, "ab12", [*reply.keys, "a prior's"])
    assert not prices & set(with_prior) and "ensemble_accuracy" in with_prior
