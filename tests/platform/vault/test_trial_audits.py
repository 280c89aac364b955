"""label_home: one audit per trial, figures for the driver, and no label by asking cleverly."""

import stat
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.auditing import GaussianCurve
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.environment import Provenance
from labeldp.platform.records.private_files import NotOurs
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.records.recorder import Recorder
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.sweep.sweep import plan_trials
from labeldp.platform.vault.audits import AttackEvidence, evidence_path
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from tests.platform.sweep.examples import METRICS, a_sweep

DRIVER = b"the driver's token"
LABELS = np.random.default_rng(1).integers(10, size=1000)
TRIAL = "0123456789abcdef"


def start(folder: Path, *, coins: int = 0) -> LabelHome:
    return LabelHome(
        SecretLabels(training=LABELS, num_classes=10),
        audit=AuditSettings(canaries=50, coin_canaries=coins),
        coin_seed=None,
        places=HomePlaces(store=folder / "vault.db", votes=folder / "votes"),
        fingerprint="",
        budget=None,
        authority=DRIVER,
    )


def rows(seed: int = 0) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.random.default_rng(seed).dirichlet(np.ones(10), size=50)
    return found


def crafted(canary: int, label: int) -> NDArray[np.float64]:
    """Confidences under which one canary's label decides how many labels are inferred."""
    confidences = np.full((50, 10), 0.1)
    confidences[canary] = 0.0
    confidences[canary, label] = 1.0
    return confidences


def planted_labels(home: LabelHome) -> NDArray[np.int64]:
    """What the first ten canaries were given."""
    assert home._canaries.mislabeled is not None
    return home._canaries.mislabeled.labels[:10]


def attack(home: LabelHome, trials: Sequence[str]) -> NDArray[np.int64]:
    """The labels of ten canaries, from what the home tells a trial that asks again and again.

    A name of its own for every question is the most that a trial can try.
    """
    guesses = np.zeros(10, dtype=np.int64)
    for canary in range(10):
        seen = []
        for label in range(10):
            name = trials[(10 * canary + label) % len(trials)]
            try:
                told: Any = home.audit(name, crafted(canary, label), 0.95, [], 0.0)  # type: ignore[func-returns-value]
                told = told or home.figures(b"a guess", name, [])
                seen.append(told["private/label_inference_accuracy"])
            except ValueError:
                seen.append(0.0)
        guesses[canary] = int(np.argmax(seen))
    return guesses


@pytest.mark.parametrize("names", [1, 100])
def test_crafted_confidences_tell_a_trial_nothing(tmp_path: Path, names: int) -> None:
    home = start(tmp_path)
    trials = [f"{number:016x}" for number in range(names)]
    for trial in trials:
        home.begin(DRIVER, trial)
    guesses = attack(home, trials)
    planted = planted_labels(home)
    assert (guesses == 0).all() and (guesses != planted).any()


def test_the_same_questions_would_tell_the_driver_every_label(tmp_path: Path) -> None:
    """The attack is one: whoever may begin trials and read figures gets ten labels of ten."""
    home, guesses = start(tmp_path), []
    for canary in range(10):
        seen = []
        for label in range(10):
            home.begin(DRIVER, TRIAL)
            home.audit(TRIAL, crafted(canary, label), 0.95, [], 0.0)
            figures = home.figures(DRIVER, TRIAL, [])
            seen.append(figures["private/label_inference_accuracy"])
        guesses.append(int(np.argmax(seen)))
    assert guesses == planted_labels(home).tolist()


def test_a_trial_is_audited_once_also_by_a_home_that_is_made_again(tmp_path: Path) -> None:
    home = start(tmp_path)
    home.begin(DRIVER, TRIAL)
    home.audit(TRIAL, rows(), 0.95, [], 0.0)
    figures = home.figures(DRIVER, TRIAL, [])
    for again in (home, start(tmp_path)):
        again.audit(TRIAL, rows(), 0.95, [], 0.0)  # a request that is repeated
        assert again.figures(DRIVER, TRIAL, []) == figures
        other = rows()
        other[3, [0, 1]] = other[3, [1, 0]]
        with pytest.raises(ValueError, match=f"trial {TRIAL} was audited already"):
            again.audit(TRIAL, other, 0.95, [], 0.0)
        with pytest.raises(ValueError, match="audited already"):
            again.audit(TRIAL, rows(), 0.9, [], 0.0)
        assert again.figures(DRIVER, TRIAL, []) == figures
    path = tmp_path / "private" / "figures" / f"{TRIAL}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_only_the_driver_lets_a_trial_be_audited_again(tmp_path: Path) -> None:
    home = start(tmp_path)
    home.begin(DRIVER, TRIAL)
    home.audit(TRIAL, rows(), 0.95, [], 0.0)
    for token in (b"", b"a trial's"):
        with pytest.raises(ValueError, match="the driver's"):
            home.begin(token, TRIAL)
        with pytest.raises(ValueError, match="the driver's"):
            home.figures(token, TRIAL, [])
    home.begin(DRIVER, TRIAL)
    with pytest.raises(ValueError, match="was not audited"):
        home.figures(DRIVER, TRIAL, [])
    home.audit(TRIAL, rows(1), 0.95, [], 0.0)
    assert home.figures(DRIVER, TRIAL, [])["epsilon_m_ceiling"] > 0


def test_evidence_is_kept_for_the_owner_only_and_holds_no_label(tmp_path: Path) -> None:
    home = start(tmp_path, coins=100)
    home.begin(DRIVER, TRIAL)
    confidences = np.random.default_rng(0).dirichlet(np.ones(10), size=150)
    home.audit(TRIAL, confidences, 0.95, [], 0.0)
    path = evidence_path(tmp_path, TRIAL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    kept = AttackEvidence.read(path)
    assert kept is not None
    assert all(np.isin(part, confidences).all() for part in (kept.own, kept.others))
    assert kept.others.shape == (50, 8) and kept.coin_margins.shape == (100,)
    confidence, right = kept.pairs()
    assert confidence.shape == right.shape == (400,)
    assert AttackEvidence.read(tmp_path / "nothing.npz") is None
    path.write_bytes(path.read_bytes()[:100])
    assert AttackEvidence.read(path) is None


def test_pooled_evidence_counts_every_run() -> None:
    runs = [
        AttackEvidence(
            own=np.full(3, number), others=np.zeros((3, 8)), coin_margins=np.full(2, number)
        )
        for number in (0.25, 0.5)
    ]
    pooled = AttackEvidence.pooled(runs)
    assert pooled.own.tolist() == [0.25] * 3 + [0.5] * 3
    assert pooled.others.shape == (6, 8) and pooled.coin_margins.shape == (4,)


@pytest.mark.parametrize("trial", ["", "../../abc", "ABC", "a/b", "0" * 65])
def test_an_audit_without_a_trials_hash_is_refused(tmp_path: Path, trial: str) -> None:
    with pytest.raises(ValueError, match="without one none is made"):
        start(tmp_path).audit(trial, rows(), 0.95, [], 0.0)
    assert not (tmp_path / "private").exists()


def test_nobody_is_audited_under_a_hash_that_the_driver_has_not_begun(tmp_path: Path) -> None:
    home = start(tmp_path)
    home.begin(DRIVER, TRIAL)
    other = TRIAL[::-1]
    with pytest.raises(ValueError, match=f"trial {other} was not begun by the driver"):
        home.audit(other, rows(), 0.95, [], 0.0)
    assert not evidence_path(tmp_path, other).exists()
    home.begin(DRIVER, other)
    start(tmp_path).audit(other, rows(1), 0.95, [], 0.0)  # by a home that was made again


def test_a_trial_is_audited_with_what_it_read_at_its_delta(tmp_path: Path) -> None:
    """And with nothing else afterwards: other releases or another delta are another question."""
    home = start(tmp_path, coins=50)
    noise = GaussianNoise(noise_std=4.0, num_classes=10)
    key = home.release(noise, (), None, OsEntropy()).key
    seen = np.random.default_rng(1).dirichlet(np.ones(10), size=100)
    home.begin(DRIVER, TRIAL)
    home.audit(TRIAL, seen, 0.95, [key], 1e-5)
    found = home.figures(DRIVER, TRIAL, [key])
    direct = home._canaries.audit(
        seen,
        confidence=0.95,
        epsilon=epsilon_of([noise.event], delta=1e-5),
        delta=1e-5,
        curve=GaussianCurve(delta=1e-5),
    ).figures
    assert {name: found[name] for name in direct} == dict(direct)
    home.audit(TRIAL, seen, 0.95, [key], 1e-5)  # the same again, as a trial that was cut off does
    for other in (([key], 1e-6), ([], 1e-5)):
        with pytest.raises(ValueError, match="audited"):
            home.audit(TRIAL, seen, 0.95, *other)


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    home = start(tmp_path)
    home.begin(DRIVER, TRIAL)
    home.audit(TRIAL, rows(), 0.95, [], 0.0)
    path = tmp_path / "private" / "figures" / f"{TRIAL}.json"
    path.write_text(path.read_text()[:20])
    with pytest.raises(ValueError, match=rf"{TRIAL}\.json can't be read.*--resume auto"):
        home.figures(DRIVER, TRIAL, [])
    home.begin(DRIVER, TRIAL)
    home.audit(TRIAL, rows(), 0.95, [], 0.0)
    assert home.figures(DRIVER, TRIAL, [])


# The driver's side


class Owner:
    """In place of a home: notes what it is asked."""

    def __init__(self, found: dict[str, float] | None) -> None:
        self.begun: list[str] = []
        self._found = found

    def begin(self, authority: bytes, trial: str) -> None:
        self.begun.append(trial)

    def figures(self, authority: bytes, trial: str, keys: Sequence[str]) -> dict[str, float]:
        if self._found is None:
            raise ValueError(f"trial {trial} was not audited")
        return self._found

    def charges(self, keys: Sequence[str]) -> list[Charge]:
        return []


def recorded(folder: Path, owner: Owner, **end: Any) -> Any:
    """What a recorder keeps of a trial that ends so."""
    planned = plan_trials(a_sweep())[0]
    results = ResultsFolder(folder, sweep="small")
    tracker = SimpleNamespace(
        open_child=lambda *_, **__: "run",
        log_curves=lambda *_, **__: None,
        close_child=lambda *_, **__: None,
    )
    recorder = Recorder(
        folder=results,
        tracker=tracker,  # type: ignore[arg-type]
        plans={TRIAL: planned},
        provenance=Provenance(git_commit="", environment={}),
        progress=SweepProgress(total=1, skipped=0),
        home=owner,  # type: ignore[arg-type]
        authority=DRIVER,
    )
    trial = SimpleNamespace(config={"hash": TRIAL})
    recorder.on_trial_start(0, [], trial)
    assert owner.begun == [TRIAL]
    whole = {"finished": True, "reason": "", "metrics": {}, "release_keys": []}
    recorder.on_trial_result(0, [], trial, {"end": {**whole, "seconds": 1.0, **end}})
    return results.records()[TRIAL]


def test_the_driver_adds_the_figures_to_the_record(tmp_path: Path) -> None:
    mine = {k: v for k, v in METRICS.items() if not k.startswith("epsilon_m")}
    found = {k: v for k, v in METRICS.items() if k.startswith("epsilon_m")}
    record = recorded(tmp_path, Owner(found), metrics=mine)
    assert record.finished and record.metrics == METRICS


def test_a_trial_that_was_not_audited_has_failed(tmp_path: Path) -> None:
    record = recorded(tmp_path, Owner(None), metrics=dict(METRICS))
    assert not record.finished and "was not audited" in record.reason and record.metrics == {}


def test_a_trial_that_failed_is_not_asked_about(tmp_path: Path) -> None:
    record = recorded(tmp_path, Owner(None), finished=False, reason="TrainingDiverged: loss")
    assert record.reason == "TrainingDiverged: loss"


def test_evidence_is_written_through_no_link(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", evidence_path(tmp_path / "results", "ab")
    victim.write_text("mine")
    path.parent.mkdir(parents=True)
    path.with_name(".ab.npz").symlink_to(victim)  # the draft's name, until nobody could foresee it
    evidence = AttackEvidence(own=np.ones(2), others=np.ones((2, 3)), coin_margins=np.zeros(0))
    evidence.write(path)
    assert AttackEvidence.read(path) is not None and victim.read_text() == "mine"
    away = tmp_path / "away"
    path.parent.rename(away)
    path.parent.symlink_to(away)
    with pytest.raises(NotOurs, match="evidence is a link"):
        evidence.write(path)
