"""label_home: what a home locks away and hands out, and no label by asking cleverly."""

import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing import GaussianCurve
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy
from labeldp.mechanisms.release_store import MemoryStore, OtherLabels
from labeldp.platform.records.results import SweepIdentity
from labeldp.platform.report.ledger import sweep_totals
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.platform.settings.sweep import Unfinished
from labeldp.platform.vault import actors
from labeldp.platform.vault.actors import HomeActor, HomeProxy, ask
from labeldp.platform.vault.actors import start_home as start_actor
from labeldp.platform.vault.audits import AttackEvidence, PlantedCanaries, evidence_path
from labeldp.platform.vault.label_home import LabelHome, SecretLabels, TrialLabels
from labeldp.trainers.data.files import NotOurs
from labeldp.trainers.methods.pate_settings import EnsembleConfig
from tests.platform.sweep.examples import mode
from tests.platform.vault.homes import DRIVER, home_settings

TRIAL = "0123456789abcdef"
TRAINING = np.random.default_rng(1).integers(10, size=300)
HELD_OUT = np.random.default_rng(2).integers(10, size=40)
SECRETS = SecretLabels(training=TRAINING, held_out=HELD_OUT, num_classes=10)
LAPLACE = LaplaceNoise(epsilon=1.0, num_classes=10)
COUNT = CorrectCount(epsilon=0.25)


def start(folder: Path, **changes: Any) -> LabelHome:
    return LabelHome(SECRETS, **home_settings(folder, **changes))


def rr(epsilon: float) -> RandomizedResponse:
    return RandomizedResponse(epsilon=epsilon, num_classes=10)


def test_secrets_show_no_label(tmp_path: Path) -> None:
    assert repr(SECRETS) == "SecretLabels(num_classes=10)"
    for bad in (-1, 256):  # one byte would make others of them: they stay for the vault to refuse
        wrong = actors._small(np.append(TRAINING, bad), 10)
        assert wrong[-1] == bad
        with pytest.raises(ValueError, match=r"labels\[300\]"):
            LabelHome(replace(SECRETS, training=wrong), **home_settings(tmp_path))


def test_canaries_are_planted_among_the_labels_to_train_on_alone(tmp_path: Path) -> None:
    home = start(tmp_path, audit=AuditSettings(canaries=30, coin_canaries=20))
    positions = home.canary_positions()
    assert home.num_labels() == 300 and positions.max() < 300
    assert len(set(positions.tolist())) == 50
    given = home.release(NoNoise(num_classes=10), (), None, OsEntropy()).values
    changed = np.flatnonzero(given != TRAINING)
    # Every wrong label is another one; of ten classes no coin falls on the label that was there.
    assert set(changed) == set(positions)
    coins, wrong = home._canaries.coins, home._canaries.mislabeled
    assert coins is not None and (given[coins.positions] == coins.labels).all()
    assert wrong is not None and (given[wrong.positions] == wrong.labels).all()
    held_out = home.release(NoNoise(num_classes=10), (), None, OsEntropy(), True).values
    assert (held_out == HELD_OUT).all()


def test_coins_are_a_secret_of_the_store_unless_a_seed_is_given(tmp_path: Path) -> None:
    audit = AuditSettings(canaries=0, coin_canaries=200)

    def planted(store: MemoryStore, seed: int | None) -> list[int]:
        home = start(tmp_path, audit=audit, coin_seed=seed, store=store, votes=None)
        return [int(label) for label in home._planted]

    one, other = MemoryStore(), MemoryStore()
    assert planted(one, None) == planted(one, None) != planted(other, None)
    with pytest.raises(OtherLabels):
        planted(one, 7)
    assert planted(MemoryStore(), 7) == planted(MemoryStore(), 7) != planted(MemoryStore(), 8)
    # A vault is bound to its labels, coins included: other coins would shut stored ones.
    drawn = PlantedCanaries.draw(TRAINING, num_classes=10, settings=audit, secret=b"coin seed 7")
    assert planted(MemoryStore(), 7) == drawn.plant(TRAINING).tolist()


def test_held_out_labels_pay_apart_from_those_to_train_on(tmp_path: Path) -> None:
    home = start(tmp_path)
    release = home.release(LAPLACE, (), None, OsEntropy())
    assert release.indices is None, "all that a trial knows of"
    first = release.key
    second = home.release(COUNT, (HELD_OUT,), None, OsEntropy(), True).key
    lines = {line.key: line.indices for line in home.ledger()}
    for key, rows in ((first, np.arange(300)), (second, np.arange(300, 340))):
        indices = lines[key]
        assert indices is not None and np.array_equal(indices, rows)
    assert home.epsilon([first, second], 1e-5) == (1.0, 0.0), "no label has paid for both"
    assert home.epsilon([second], 1e-5) == (0.25, 0.0)
    (line,) = home.charges([second, "of nothing"])
    assert line.key == second


def test_training_cannot_reach_held_out_labels(tmp_path: Path) -> None:
    home = start(tmp_path)
    with pytest.raises(ValueError, match="index 300 is outside"):
        home.release(NoNoise(num_classes=10), (), np.array([300]), OsEntropy())
    some = home.release(NoNoise(num_classes=10), (), np.array([7, 2]), OsEntropy())
    assert some.indices is not None and some.indices.tolist() == [7, 2]
    assert home.release(NoNoise(num_classes=10), (), None, OsEntropy(), True).indices is None
    none = LabelHome(replace(SECRETS, held_out=None), **home_settings(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"no labels are held out.*evaluation\.held_out_share"):
        none.release(COUNT, (HELD_OUT,), None, OsEntropy(), True)
    assert not none.ledger()


def test_a_trial_asks_in_its_own_name_with_its_own_noise() -> None:
    asked: dict[str, tuple[Any, ...]] = {}

    def answers(*given: Any) -> tuple[NDArray[np.int64], list[str]]:
        asked["answers"] = given
        return np.zeros((2, 2), dtype=np.int64), ["a", "b"]

    home: Any = SimpleNamespace(answers=answers, audit=lambda *given: asked.update(audit=given))
    trial = TrialLabels(home=home, noise=SecureEntropy(), trial=TRIAL, keys=["a"])
    ensemble, scores = EnsembleConfig(teachers=20, queries=80), np.zeros((2, 10), np.float32)
    trial.answers(ensemble, [], scores, delta=1e-6, publish_cost=True)
    assert asked["answers"] == (TRIAL, ensemble, [], scores, 1e-6, True, trial.noise)
    assert trial.keys == ["a", "b"]
    rows = some_rows()
    trial.audit(rows, confidence=0.9, delta=1e-6)
    assert asked["audit"] == (TRIAL, rows, 0.9, ["a", "b"], 1e-6)


def test_failures_are_part_of_every_delta(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(RandomizedResponse, "failure_probability", 4e-6)
    trial = TrialLabels(home=start(tmp_path), noise=OsEntropy())
    trial.release(rr(1.0))
    assert trial.epsilon(delta=1e-5) == (1.0, 8e-6)
    other = TrialLabels(home=trial.home, noise=OsEntropy(draw=1))
    other.release(rr(1.0), indices=np.arange(9))
    totals = sweep_totals(trial.home.ledger(), SweepIdentity(), delta=1e-5)
    assert (totals["epsilon_total"], totals["delta"]) == (2.0, 1.6e-5)


def some_rows(seed: int = 0, canaries: int = 50) -> NDArray[np.float64]:
    return np.random.default_rng(seed).dirichlet(np.ones(10), size=canaries)


def crafted(canary: int, label: int) -> NDArray[np.float64]:
    """Confidences under which one canary's label decides how many labels are inferred."""
    confidences = np.full((50, 10), 0.1)
    confidences[canary] = np.eye(10)[label]
    return confidences


def planted_labels(home: LabelHome) -> NDArray[np.int64]:
    assert home._canaries.mislabeled is not None
    return home._canaries.mislabeled.labels[:10]


def inferred(home: LabelHome, ask: Any) -> list[int]:
    """The label of each of ten canaries for which most labels are inferred."""
    guesses = []
    for canary in range(10):
        seen = []
        for label in range(10):
            try:
                figures = ask(10 * canary + label, crafted(canary, label))
                seen.append(figures["private/label_inference_accuracy"])
            except ValueError:
                seen.append(0.0)
        guesses.append(int(np.argmax(seen)))
    return guesses


@pytest.mark.parametrize("names", [1, 100])
def test_crafted_confidences_tell_a_trial_nothing(tmp_path: Path, names: int) -> None:
    """A name of its own for every question is the most that a trial can try."""
    home = start(tmp_path)
    for number in range(names):
        home.begin(DRIVER, f"{number:016x}")

    def ask(number: int, confidences: NDArray[np.float64]) -> Any:
        name = f"{number % names:016x}"
        told: Any = home.audit(name, confidences, 0.95, [], 0.0)  # type: ignore[func-returns-value]
        return told or home.figures(b"a guess", name, [])

    assert inferred(home, ask) == [0] * 10 != planted_labels(home).tolist()


def test_the_same_questions_would_tell_the_driver_every_label(tmp_path: Path) -> None:
    """The attack is one: with the token that begins trials and reads figures, ten of ten labels."""
    home = start(tmp_path)

    def ask(number: int, confidences: NDArray[np.float64]) -> Any:
        home.begin(DRIVER, TRIAL)
        home.audit(TRIAL, confidences, 0.95, [], 0.0)
        return home.figures(DRIVER, TRIAL, [])

    assert inferred(home, ask) == planted_labels(home).tolist()


def test_figures_and_shards_take_the_drivers_token(tmp_path: Path) -> None:
    home, ensemble = start(tmp_path), EnsembleConfig(teachers=20, queries=80)
    calls: dict[str, tuple[Any, ...]] = {
        "begin": (TRIAL,),
        "figures": (TRIAL, []),
        "figures_of_model": (TRAINING, some_rows(), 0.95, [], 0.0),
        "shards": (ensemble,),
    }
    for name, arguments in calls.items():
        for token in (b"", b"a trial's"):
            with pytest.raises(ValueError, match="the driver's"):
                getattr(home, name)(token, *arguments)
    shards = home.shards(DRIVER, ensemble)
    assert all((each.labels == home._planted[each.indices]).all() for each in shards)


def test_a_trial_is_audited_once_also_by_a_home_that_is_made_again(tmp_path: Path) -> None:
    home = start(tmp_path)
    home.begin(DRIVER, TRIAL)
    home.audit(TRIAL, some_rows(), 0.95, [], 0.0)
    figures = home.figures(DRIVER, TRIAL, [])
    for again in (home, start(tmp_path)):
        again.audit(TRIAL, some_rows(), 0.95, [], 0.0)  # a request that is repeated
        assert again.figures(DRIVER, TRIAL, []) == figures
        other = some_rows()
        other[3, [0, 1]] = other[3, [1, 0]]
        with pytest.raises(ValueError, match=f"trial {TRIAL} was audited already"):
            again.audit(TRIAL, other, 0.95, [], 0.0)
        with pytest.raises(ValueError, match="audited already"):
            again.audit(TRIAL, some_rows(), 0.9, [], 0.0)
        assert again.figures(DRIVER, TRIAL, []) == figures
    path = tmp_path / "private" / "figures" / f"{TRIAL}.json"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    # A damaged page is named; when the driver begins the trial again, it is audited again.
    path.write_text(path.read_text()[:20])
    with pytest.raises(ValueError, match=rf"{TRIAL}\.json can't be read.*--resume auto"):
        home.figures(DRIVER, TRIAL, [])
    home.begin(DRIVER, TRIAL)
    with pytest.raises(ValueError, match="was not audited"):
        home.figures(DRIVER, TRIAL, [])
    home.audit(TRIAL, some_rows(1), 0.95, [], 0.0)
    assert home.figures(DRIVER, TRIAL, [])["epsilon_m_ceiling"] > 0


def test_a_trial_is_audited_with_the_releases_that_it_read_at_its_delta(tmp_path: Path) -> None:
    """And with nothing else afterwards: other releases or another delta are another question."""
    home = start(tmp_path, audit=AuditSettings(canaries=50, coin_canaries=50))
    noise = GaussianNoise(noise_std=4.0, num_classes=10)
    key = home.release(noise, (), None, OsEntropy()).key
    seen = some_rows(1, canaries=100)
    home.begin(DRIVER, TRIAL)
    home.audit(TRIAL, seen, 0.95, [key], 1e-5)
    found = home.figures(DRIVER, TRIAL, [key])
    direct = home._canaries.audit(
        seen,
        confidence=0.95,
        epsilon=epsilon_of([noise.event], delta=1e-5),
        delta=1e-5,
        curve=GaussianCurve(delta=1e-5),
    )[0]
    assert {name: found[name] for name in direct} == dict(direct)
    for other in (([key], 1e-6), ([], 1e-5)):
        with pytest.raises(ValueError, match="audited"):
            home.audit(TRIAL, seen, 0.95, *other)


@pytest.mark.parametrize("trial", ["", "../../abc", "ABC", "a/b", "0" * 65, TRIAL[::-1]])
def test_no_audit_without_a_trial_that_began(tmp_path: Path, trial: str) -> None:
    home = start(tmp_path)
    words = "was not begun by the driver" if len(trial) == 16 else "names its audits and answers"
    with pytest.raises(ValueError, match=words):
        home.audit(trial, some_rows(), 0.95, [], 0.0)
    assert not (tmp_path / "private").exists()


def test_evidence_is_kept_for_the_owner_only_and_holds_no_label(tmp_path: Path) -> None:
    home = start(tmp_path, audit=AuditSettings(canaries=50, coin_canaries=100))
    home.begin(DRIVER, TRIAL)
    confidences = some_rows(canaries=150)
    home.audit(TRIAL, confidences, 0.95, [], 0.0)
    path = evidence_path(tmp_path, TRIAL)
    assert path == tmp_path / "private" / "evidence" / f"{TRIAL}.npz"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    kept = AttackEvidence.read(path)
    assert kept is not None
    assert all(np.isin(part, confidences).all() for part in (kept.own, kept.others))
    assert kept.others.shape == (50, 8)
    pooled = AttackEvidence.pooled([kept, kept])
    assert pooled.own.tolist() == [*kept.own, *kept.own]
    assert pooled.others.shape == (100, 8)
    assert AttackEvidence.read(tmp_path / "nothing.npz") is None
    strange = np.array([None])  # a pickle could run anything, and is not opened
    AttackEvidence(own=strange, others=strange).write(path)
    assert AttackEvidence.read(path) is None
    kept.write(path)
    path.write_bytes(path.read_bytes()[:100])
    assert AttackEvidence.read(path) is None
    # It is written through no link.
    away = tmp_path / "away"
    path.parent.rename(away)
    path.parent.symlink_to(away)
    with pytest.raises(NotOurs, match="evidence is a link"):
        kept.write(path)


# actors: it returns the home's answer, in time or not at all.


class Call:
    def remote(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return name, arguments


def test_a_call_travels_with_its_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get", lambda reference, timeout: reference)
    proxy = pickle.loads(pickle.dumps(HomeProxy(SimpleNamespace(call=Call()))))
    assert proxy.epsilon(["k"], 0.0) == ("epsilon", (["k"], 0.0))
    with pytest.raises(AttributeError, match="_truth"):
        _ = proxy._truth
    actor = HomeActor(replace(SECRETS, num_classes=5), **home_settings(None))  # it is refused later
    with pytest.raises(AttributeError, match="a home has no '_findings'"):
        actor.call("_findings", ())


def test_a_home_starts_beside_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    options, sent, killed = dict[str, Any](), list[SecretLabels](), list[Any]()

    class Actor(HomeActor):
        def __init__(self, labels: SecretLabels, **settings: Any) -> None:
            super().__init__(labels, **settings)
            sent.append(labels)
            self.call: Any = SimpleNamespace(remote=super().call)

    def remote(kind: type) -> Any:
        assert kind is HomeActor
        return SimpleNamespace(
            options=lambda **given: options.update(given) or SimpleNamespace(remote=Actor)
        )

    context = SimpleNamespace(get_node_id=lambda: "ab" * 28)
    for name, value in {
        "remote": remote,
        "get": lambda reference, timeout: reference,
        "get_runtime_context": lambda: context,
        "kill": killed.append,
    }.items():
        monkeypatch.setattr(ray, name, value)
    training, held_out = np.arange(300) % 10, np.arange(40) % 10
    for apart in (held_out, None):
        labels = SecretLabels(training=training, held_out=apart, num_classes=10)
        home = start_actor(labels, **home_settings(None, budget=Budget(epsilon=3.0)))
        assert home.num_labels() == 300
        # One byte each, in the request that makes the actor.
        assert sent[-1].training.dtype == np.uint8 and (sent[-1].training == training).all()
    assert sent[0].held_out is not None and sent[0].held_out.dtype == np.uint8
    assert (sent[0].held_out == held_out).all() and sent[1].held_out is None
    with pytest.raises(BudgetExceeded):
        home.release(rr(4.0), (), None, OsEntropy())
    with pytest.raises(ValueError, match="classes"):  # a refusal comes before any trial
        start_actor(replace(labels, num_classes=5), **home_settings(None))
    where = options.pop("scheduling_strategy")
    assert (where.node_id, where.soft) == ("ab" * 28, False), "where its store is"
    # It takes no core from trials, and comes back with the request under way.
    assert options == {"num_cpus": 0, "max_restarts": 5, "max_task_retries": 5}
    home.end()
    assert [type(actor) for actor in killed] == [Actor]


def task_error(cause: Exception) -> Exception:
    make: Any = ray.exceptions.RayTaskError
    error: Exception = make("f", "trace", cause)
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ray.exceptions.GetTimeoutError("late"), Unfinished, "did not answer within 300 s"),
        (ray.exceptions.RayActorError(), Unfinished, "died more than 5 times.*--resume auto"),
        # A refusal is raised as it was; all else is Ray's.
        (task_error(ValueError("over the budget")), ValueError, r"^over the budget$"),
        (task_error(KeyError("a bug")), ray.exceptions.RayTaskError, "trace"),
    ],
)
def test_a_lost_home(
    error: Exception, kind: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(reference: Any, timeout: float) -> Any:
        assert timeout == actors.TIME_LIMIT_SECONDS
        raise error

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(kind, match=words):
        ask("a reference")
