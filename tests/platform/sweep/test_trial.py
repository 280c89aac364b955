"""trial: what it releases and pays, also when it starts again; estimates without test labels."""

import io
import math
import pickle
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch
from numpy.typing import NDArray
from ray import tune
from ray.tune.error import TuneError

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.platform.settings.configuration import (
    AshaStop,
    AuditSettings,
    Estimate,
    EvaluationSettings,
    TrialConfig,
    config_hash,
    with_changes,
)
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.settings.sweep import Grid, PlannedTrial, Sweep, plan_trials
from labeldp.platform.sweep import trial as trial_module
from labeldp.platform.sweep.plan import check_kind
from labeldp.platform.sweep.recorder import Recorder
from labeldp.platform.sweep.trial import (
    Checkpoints,
    EarlyStops,
    Keeper,
    TrialOutcome,
    run_trial,
    tune_trial,
)
from labeldp.platform.sweep.trial_runs import AshaByGroup, SuggestionSearcher, _fit, scheduler_of
from labeldp.platform.vault.label_home import LabelHome, SecretLabels, TrialLabels
from labeldp.trainers.data.labelled_data import FeatureKind, LabelledData, load, set_aside
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.methods.settings import AlibiConfig, LpMstConfig, Noise
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.trained_model import load_model
from labeldp.trainers.settings.training import TrainingDiverged, source_of
from tests.faults.without_cluster import Here
from tests.platform.sweep.examples import a_record
from tests.platform.vault.homes import DRIVER, home_settings
from tests.trainers.small_data import ON_CPU, small_table

TWO_STAGES = TrialConfig(
    method="lp_mst",
    trainer=LpMstConfig(epochs=4, width=8, epsilon=2.0),
    performance=ON_CPU,
)
ESTIMATED = TrialConfig(
    trainer=AlibiConfig(
        epochs=3, width=16, epsilon=2.0, noise=Noise.RANDOMIZED_RESPONSE, learning_rate=0.1
    ),
    evaluation=EvaluationSettings(epsilon=1.5),
    performance=ON_CPU,
)


class Labels(TrialLabels):
    """A trial's labels, in a home in this process; it knows what was read before the audit."""

    def __init__(self, home: LabelHome) -> None:
        super().__init__(home=home, noise=OsEntropy(), trial="a1")

    def audit(self, confidences: NDArray[Any], *, confidence: float, delta: float) -> None:
        self.keys_at_the_audit = list(self.keys)
        super().audit(confidences, confidence=confidence, delta=delta)


def home_of(data: LabelledData) -> LabelHome:
    home = LabelHome(
        SecretLabels(
            training=data.train_labels,
            held_out=data.held_out_labels,
            num_classes=data.public.num_classes,
        ),
        **home_settings(None, audit=AuditSettings(canaries=0, coin_canaries=0)),
    )
    home.begin(DRIVER, "a1")
    return home


@pytest.fixture(scope="module")
def digits() -> LabelledData:
    return load("digits", limit=200)


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Actors are objects of this process (`Here`); a state is due after each epoch."""
    monkeypatch.setattr(ray, "get", lambda reference, **limits: reference)
    monkeypatch.setattr(trial_module, "KEEP_SECONDS", 0.0)


class States(Checkpoints):
    """A trial's states and models in a folder; counts the states."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.model = folder / "models" / "ab"
        keeper = Here(Keeper(str(folder / "states"), str(folder / "models")))
        super().__init__(keeper=keeper, digest="ab")
        self.kept = 0

    def keep(self, state: Mapping[str, Any]) -> None:
        super().keep(state)
        self.kept += 1


class Killed(Exception):
    """A lost worker as it looks from inside."""


def run(
    data: LabelledData,
    home: LabelHome,
    states: States,
    config: TrialConfig = TWO_STAGES,
    *,
    on_epoch: Callable[[Any, bool], Any] = lambda figures, rung: None,
    stops: EarlyStops | None = None,
) -> TrialOutcome:
    how: Any = {"on_epoch": on_epoch, "checkpoints": states, "stops": stops}
    return run_trial(config, data=data.public, vault=Labels(home), **how)


def killed(
    data: LabelledData, home: LabelHome, config: TrialConfig, states: States, *, epoch: int
) -> list[Any]:
    """Run a trial whose worker dies as it reports this epoch; returns all epochs' figures."""
    told = list[Any]()

    def dies(figures: Any, rung: bool) -> None:
        told.append(figures)
        if len(told) == epoch:
            raise Killed

    with pytest.raises(Killed):
        run(data, home, states, config, on_epoch=dies)
    return told


@pytest.mark.parametrize("due", [True, False])
def test_a_trial_that_resumes_in_a_later_stage_pays_the_releases_of_all_stages_once(
    digits: LabelledData, due: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its worker may die before a state is due, and the next one add up in another order."""
    home, states = home_of(digits), States(tmp_path)
    monkeypatch.setattr(trial_module, "KEEP_SECONDS", 0.0 if due else math.inf)
    killed(digits, home, TWO_STAGES, states, epoch=4)  # in the second stage
    assert len(home.ledger()) == 2
    if not due:
        monkeypatch.setattr(Learner, "_rate", lambda learner, epoch, step: 0.01)
    outcome = run(digits, home, states)
    assert sorted(outcome.release_keys) == sorted(charge.key for charge in home.ledger())
    assert len(home.ledger()) == 2
    assert due or states.kept == 1, "the epoch that requested is kept"


def test_a_trial_goes_on_to_the_same_numbers(digits: LabelledData, tmp_path: Path) -> None:
    home, states = home_of(digits), States(tmp_path)
    killed(digits, home, ESTIMATED, states, epoch=ESTIMATED.trainer.epochs)
    resumed = run(digits, home, states, ESTIMATED)
    assert states.kept == ESTIMATED.trainer.epochs, "one epoch is trained again"
    whole = run(digits, home, States(tmp_path / "whole"), ESTIMATED)  # it reads the same release
    found, expected = (
        {name: value for name, value in each.metrics.items() if "seconds" not in name}
        for each in (resumed, whole)
    )
    assert found == expected and resumed.release_keys == whole.release_keys


class Bomb:
    """What a state must not be able to do: run code when it is read."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_a_state_that_is_damaged_or_hostile_is_not_used(
    digits: LabelledData, tmp_path: Path
) -> None:
    states = States(tmp_path)
    run(digits, home_of(digits), states, ESTIMATED)
    assert states.find() is not None
    path = tmp_path / "states" / "ab.state"
    good = path.read_bytes()
    hostile = io.BytesIO()
    torch.save({"trainer": Bomb(), "epochs": [], "seconds": 0.0}, hostile)
    for content in (good[: len(good) // 2], b"", pickle.dumps(Bomb()), hostile.getvalue()):
        path.write_bytes(content)
        assert states.find() is None
        assert not (tmp_path / "exploded").exists()


def test_a_state_of_another_ledger_is_not_resumed(digits: LabelledData, tmp_path: Path) -> None:
    states = States(tmp_path)
    for shift in range(2):
        home = home_of(replace(digits, train_labels=(digits.train_labels + shift) % 10))
        outcome = run(digits, home, states)
        assert outcome.release_keys == [charge.key for charge in home.ledger()]
    assert states.kept == 2 * TWO_STAGES.trainer.epochs


@pytest.mark.parametrize("brackets", [1, 2])
def test_a_trial_that_stopped_at_a_rung_stays_stopped(
    digits: LabelledData, tmp_path: Path, brackets: int
) -> None:
    """Its worker died after the word and before the end: it trains no further epoch."""
    config = with_changes(TrialConfig(), {"trainer.epochs": 5, "trainer.width": 8})
    home, states, seen = home_of(digits), States(tmp_path), list[tuple[float, bool]]()

    class Stops(EarlyStops):
        def stopped(self, digest: str) -> bool:
            return digest == "a1" and seen[-1][0] == 3

    def start() -> TrialOutcome:
        rule = AshaStop(grace_epochs=1, keep_one_in=3, brackets=brackets)
        return run(
            digits,
            home,
            states,
            config,
            on_epoch=lambda figures, rung: seen.append((figures["epoch"], rung)),
            stops=Stops(rule=rule, by=ChooseBy.TEST, keeper=None),
        )

    first = start()
    assert (first.stopped_early, seen) == (
        3,
        [(1, brackets == 1), (2, False), (3, True)],  # a1 is odd: it is of the later bracket
    )
    again = start()
    assert (again.stopped_early, seen[3:]) == (3, [(1, False), (2, False), (3, False)])
    assert again.metrics["accuracy"] == first.metrics["accuracy"]


@pytest.mark.parametrize("keep", [True, False])
def test_the_measured_model_is_kept(digits: LabelledData, keep: bool, tmp_path: Path) -> None:
    states, config = States(tmp_path), with_changes(TWO_STAGES, {"models.keep": keep})
    outcome = run(digits, home_of(digits), states, config)
    assert states.model.exists() == keep
    if keep:
        model, public = load_model(states.model), digits.public
        right = model.predict(public.test_features.numpy()) == public.test_labels
        assert right.mean() == outcome.metrics["accuracy"]
        assert (model.facts["epsilon"], model.facts["method"]) == (2.0, "lp_mst")


def test_the_best_test_epoch_counts_and_is_labeled_also_after_a_restart(
    digits: LabelledData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"evaluation.checkpoint": "test_selected", "trainer.epochs": 4}
    config = with_changes(ESTIMATED, {**chosen, "trainer.epsilon": 6.0})
    # Steps of the last epoch go uphill.
    monkeypatch.setattr(Learner, "_rate", lambda own, *at: -1.0 if own.epoch_number == 4 else 0.1)
    states, home = States(tmp_path), home_of(digits)
    told = killed(digits, home, config, states, epoch=4)
    epochs = [figures["val_accuracy"] for figures in told]
    best = max(epochs)
    assert best > epochs[3], "the best epoch is not the last one"
    outcome = run(digits, home, states, config)
    assert outcome.metrics["accuracy"] == best
    public = digits.public
    right = load_model(states.model).predict(public.test_features.numpy()) == public.test_labels
    assert right.mean() == best
    (planned,) = plan_trials(Sweep(name="s", base=config))
    assert planned.variant == "s (test_selected)"
    with pytest.raises(ValueError, match="these data have no public test split"):
        check_kind([planned], DataSize(num_classes=10, num_labels=200, has_test_split=False))
    with pytest.raises(ValueError, match="'pate' has no one model that every epoch improves"):
        with_changes(config, {"method": "pate"})


def no_test_split() -> LabelledData:
    public, labels = small_table(examples=600)
    bare = replace(public, test_features=public.test_features[:0], test_labels=np.empty(0, int))
    return set_aside(LabelledData(public=bare, train_labels=labels), share=0.25)


@pytest.mark.parametrize("estimate", list(Estimate))
def test_a_trial_without_test_labels_estimates_its_accuracy(
    estimate: Estimate, tmp_path: Path
) -> None:
    data, states = no_test_split(), States(tmp_path)
    config = with_changes(ESTIMATED, {"evaluation.estimate": estimate})
    client = Labels(home_of(data))
    how: Any = {"on_epoch": lambda *_: None, "checkpoints": states, "stops": None}
    outcome = run_trial(config, data=data.public, vault=client, **how)
    metrics = outcome.metrics
    assert "accuracy" not in metrics
    assert not any(np.isnan(value) for value in metrics.values())
    low, high = metrics["accuracy_estimated_low"], metrics["accuracy_estimated_high"]
    assert data.public.held_out_features is not None
    found = load_model(states.model).predict(data.public.held_out_features.numpy())
    right = (found == data.held_out_labels).mean()
    estimated, error = (metrics[f"accuracy_estimated{end}"] for end in ("", "_error"))
    assert low < estimated < high and abs(estimated - right) < 4 * error < 0.6
    # Held-out labels pay for the estimate and training labels for the training: not for both.
    assert metrics["epsilon"] == 2.0
    assert len(outcome.release_keys) == 2
    assert client.keys_at_the_audit == outcome.release_keys[:1]


OVER = BudgetExceeded(budget=Budget(epsilon=1.0), spent=1.0, requested=2.0, request="r")


@pytest.mark.parametrize(
    ("error", "over", "reason"),
    [
        (OVER, True, "BudgetExceeded: "),
        (TrainingDiverged("the loss is\nnot finite"), False, "TrainingDiverged: the loss is not f"),
        (ValueError("BudgetExceeded: no"), False, "ValueError: BudgetExceeded: no"),
        (MemoryError("too large"), False, "out of memory (too large); lower trainer.batch_size"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), False, "out of memory (CUDA err"),
        (SystemExit(3), False, "SystemExit: 3"),
    ],
)
def test_the_cause_of_a_trials_end_is_in_its_result(
    error: BaseException, over: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[dict[str, Any]] = []
    monkeypatch.setattr(trial_module, "run_trial", failing(error))
    monkeypatch.setattr(tune, "report", reported.append)
    nothing: Any = dict.fromkeys(("data", "home", "keeper", "stops"))
    plans = {"ab": PlannedTrial(variant="ALIBI", config=TrialConfig(), point={})}
    cpus = torch.get_num_threads()
    tune_trial({"hash": "ab"}, plans=plans, cpus=cpus, **nothing)
    (end,) = (each["end"] for each in reported)
    assert (end["finished"], end["over_budget"]) == (False, over)
    assert end["environment"]["system"] == platform.platform()  # of this node
    assert end["reason"].startswith(reason) and "\n" not in end["reason"]
    if reason.startswith("out of memory"):  # with a share of a GPU Tune starts it again
        monkeypatch.setattr(trial_module, "_shares_a_gpu", lambda: True)
        with pytest.raises(MemoryError, match="out of memory"):
            tune_trial({"hash": "ab"}, plans=plans, cpus=cpus, **nothing)


def test_a_file_that_is_not_the_plans_or_missing_is_noticed_before_a_label_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("net_of_a_plan.py")
    data: Any = SimpleNamespace(train_features=[1.0, 2.0], fingerprint="f", kind=FeatureKind.IMAGE)
    for key, named in (("trainer.model", "net_of_a_plan:Net"), ("trainer.encoder", str(file))):
        config = with_changes(TrialConfig(), {key: named})
        file.write_text("Net = 1\n")
        source_of.cache_clear()  # as in a worker that starts now
        digest = config_hash(config, data_fingerprint="f")
        with monkeypatch.context() as patched:
            patched.setattr(trial_module, "starting_weights", lambda network, data: None)
            trial_module.check_encoders(config, data, digest=digest)
            file.write_text("Net = 2  # of another plan\n")
            source_of.cache_clear()
            with pytest.raises(ValueError, match=r"not the one of the plan \(on .* was released"):
                trial_module.check_encoders(config, data, digest=digest)
    file.unlink()
    reported: list[dict[str, Any]] = []
    monkeypatch.setattr(tune, "report", reported.append)
    monkeypatch.setattr(trial_module, "run_trial", failing(AssertionError("it has paid")))
    plans = {digest: PlannedTrial(variant="ALIBI", config=config, point={})}
    nothing: Any = dict.fromkeys(("home", "keeper", "stops"))
    tune_trial({"hash": digest}, plans=plans, data=data, cpus=1, **nothing)
    missing = r".*net_of_a_plan\.py is not there; check trainer.encoder.*on node .*same paths"
    assert re.match(missing, reported[0]["end"]["reason"])


# trial_runs: early stops, and errors that end Tune. Sweeps run elsewhere.


def failing(error: BaseException) -> Any:
    def fail(*given: object, **settings: object) -> None:
        raise error

    return fail


def recorder(**parts: Any) -> Recorder:
    folder = SimpleNamespace(path=Path("/results/small"))
    sweep: Any = SimpleNamespace(folder=folder, skipped={}, **parts)
    return Recorder(sweep)


def test_a_full_disk_is_reported_with_the_folder_and_the_fix() -> None:
    tuner: Any = SimpleNamespace(fit=failing(OSError("no space")))
    with pytest.raises(ValueError, match=r"/results/small can't be .*\(no space\).*resume"):
        _fit(tuner, recorder())


def test_the_error_that_broke_the_driver_is_raised_and_not_its_text_in_tune() -> None:
    refused = ValueError("no such setting")
    tuner: Any = SimpleNamespace(fit=failing(TuneError("a text")))
    driver = recorder(suggestions=SimpleNamespace(next=failing(refused)))
    with pytest.raises(ValueError, match="no such setting"):
        SuggestionSearcher(driver).suggest("x")
    with pytest.raises(ValueError, match="no such setting") as caught:
        _fit(tuner, driver)
    assert caught.value is refused


def scheduler(by: ChooseBy = ChooseBy.TEST, brackets: int = 1) -> tuple[AshaByGroup, EarlyStops]:
    """One of two trials continues; the first letter of a hash is its group."""
    rule = AshaStop(grace_epochs=2, keep_one_in=2, brackets=brackets)
    stops = EarlyStops(rule=rule, by=by, keeper=Here(Keeper("", "")))
    return AshaByGroup(stops, group_of=lambda each: each[0], most_epochs=30), stops


def tell(judge: AshaByGroup, digest: str, accuracy: float, epoch: int = 2) -> None:
    result: dict[str, Any] = {"rung/epoch": epoch, "rung/accuracy": accuracy}
    trial = SimpleNamespace(config={"hash": digest}, trial_id=f"of Tune's {digest}")
    assert judge.on_trial_result(None, trial, result) == "CONTINUE"


@pytest.mark.parametrize(("brackets", "epoch"), [(1, 2), (2, 4)])
def test_the_worse_half_is_stopped_within_its_group(brackets: int, epoch: int) -> None:
    """And within its bracket, of HyperBand: an odd hash is of the later one."""
    judge, board = scheduler(brackets=brackets)
    for digest, accuracy in (("a1", 0.5), ("a3", 0.4), ("a5", 0.3), ("b1", 0.1)):
        tell(judge, digest, accuracy, epoch=epoch)
    tell(judge, "a2", 0.01)
    assert [name for name in ("a1", "a3", "a5", "b1") if board.stopped(name)] == ["a3", "a5"]
    assert board.stopped("a2") is (brackets == 1)


@pytest.mark.parametrize(("by", "stopped"), [(ChooseBy.TEST, True), (ChooseBy.ESTIMATED, False)])
def test_trials_of_an_earlier_start_are_compared_with(by: ChooseBy, stopped: bool) -> None:
    """The example's curve has .9 after its second epoch, and no estimate."""
    _, board = scheduler(by)
    rates = {"trainer.learning_rate": Grid(0.1, 0.2)}
    trials = plan_trials(Sweep(name="s", base=TrialConfig(), space=rates))
    size = SimpleNamespace(num_classes=10)
    plan = SimpleNamespace(searches=(), trials=trials, size=size)
    plans = dict(zip("ab", trials, strict=True))
    sweep: Any = SimpleNamespace(plan=plan, plans=plans, skipped={"a": a_record("a")})
    judge = scheduler_of(sweep, board)
    tell(judge, "b", 0.5)
    assert board.stopped("b") is stopped and not board.stopped("a")
