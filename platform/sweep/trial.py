"""One trial: privatize, train, evaluate, audit; numbers out, labels never in.

`run_trial` runs it in any process, `tune_trial` as Ray Tune's trainable. The latter rarely raises:
an error is part of its result, and the driver marks the trial failed while the others continue.
Only the end of a process (a lost node, a killed worker), and too little memory on a shared GPU, are
left to Tune, which starts the trial again.

Nor does Tune end a trial that falls behind: the evaluation and the audit would end with it. The
scheduler gives the trial's name to the keeper. The trial looks there after a rung, and ends as it
would after its last epoch.
"""

import contextlib
import io
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray import ObjectRef, tune
from ray.exceptions import ActorUnavailableError
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate, CorrectCount
from labeldp.mechanisms.amounts import ErrorSums, error_estimates
from labeldp.mechanisms.ledger import BudgetExceeded, stated
from labeldp.mechanisms.score_histogram import (
    TOP_SHARE,
    Estimated,
    ScoreCells,
    ScoreEstimates,
    ScoreHistogram,
    among_top,
)
from labeldp.platform.records.results import write_model
from labeldp.platform.settings.configuration import (
    AshaStop,
    Checkpoint,
    TrialConfig,
    config_hash,
    flatten,
    provenance_of,
)
from labeldp.platform.settings.metrics import ChooseBy, figures_of
from labeldp.platform.settings.sweep import PlannedTrial
from labeldp.platform.sweep.cost import held_out_mechanism
from labeldp.platform.sweep.open_sweep import describe
from labeldp.platform.vault.label_home import LabelHome, TrialLabels
from labeldp.trainers.data.files import inner_folder, replacing
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.learner import starting_weights
from labeldp.trainers.models.trained_model import Origin, TrainedModel
from labeldp.trainers.performance import NO_MEMORY
from labeldp.trainers.settings.trainer import Trainer
from labeldp.trainers.settings.training import EpochMetrics, TrainingDiverged, is_address

#: Epochs are reported together, at most this often: a report costs the driver some milliseconds.
REPORT_SECONDS = 1.0
#: A state is tens of megabytes for a large network, so a trial keeps one at most this often.
KEEP_SECONDS = 60.0
_WAIT_SECONDS = 120.0
#: A large model on a slow disk, behind those of other trials.
_MODEL_SECONDS = 900.0
#: A model is sent again this often to a keeper that is being restarted.
_MODEL_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """The result of a trial; `stopped_early` counts its epochs, and is 0 if it was not stopped."""

    metrics: Mapping[str, float]
    release_keys: list[str]
    stopped_early: int = 0


@dataclass(frozen=True, kw_only=True)
class EarlyStops:
    """The rule that stops trials early; the actor `keeper` has the names of those that should."""

    rule: AshaStop
    by: ChooseBy
    keeper: Any

    def stop(self, digest: str) -> None:
        """Name a trial that should stop, and wait until the keeper has it."""
        ray.get(self.keeper.stop.remote(digest), timeout=_WAIT_SECONDS)

    def stopped(self, digest: str) -> bool:
        """Whether a trial should stop."""
        return bool(ray.get(self.keeper.stopped.remote(digest), timeout=_WAIT_SECONDS))


class Checkpoints:
    """One trial's side of the actor `keeper`: its states in training, and its trained model."""

    def __init__(self, *, keeper: Any, digest: str) -> None:
        """Start the clock: the first state is kept after `KEEP_SECONDS`."""
        self.digest = digest
        self._keeper = keeper
        self._kept = time.monotonic()
        self._pending: ObjectRef[None] | None = None

    def find(self) -> Mapping[str, Any] | None:
        """Return the state of an earlier start; None where there is none that can be read."""
        content = ray.get(self._keeper.find.remote(self.digest), timeout=_WAIT_SECONDS)
        if content is None:
            return None
        try:
            # Without code: the file lies in a folder that others may have copied here.
            return dict(torch.load(io.BytesIO(content), weights_only=True))
        except Exception:  # damaged: the trial starts anew
            return None

    def due(self) -> bool:
        """Whether it is time to keep a state."""
        return time.monotonic() - self._kept >= KEEP_SECONDS

    def keep(self, state: Mapping[str, Any]) -> None:
        """Send a state without waiting for it; at most one is under way.

        A keeper that can't write (a full disk) costs the state, not the trial.
        """
        # Waits for the last state: a keeper that is slower than training would fill the memory.
        if self._pending is not None:
            with contextlib.suppress(Exception):
                ray.get(self._pending, timeout=_WAIT_SECONDS)
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        self._pending = self._keeper.keep.remote(self.digest, buffer.getvalue())
        self._kept = time.monotonic()

    def keep_model(self, model: TrainedModel) -> None:
        """Keep the trained model; returns when it is written, or raises `ValueError`."""
        files = dict(model.files())
        try:
            for attempt in range(_MODEL_ATTEMPTS):
                try:
                    # Large files travel through Ray's object store, and none stays there.
                    call = self._keeper.keep_model.remote(self.digest, files)
                    ray.get(call, timeout=_MODEL_SECONDS)
                    return
                except ActorUnavailableError:  # it died, and is being restarted
                    if attempt == _MODEL_ATTEMPTS - 1:
                        raise
                    time.sleep(1.0)
        except Exception as error:
            text = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise ValueError(
                f"the trained model can't be kept ({text[:300]}); free the disk or make the "
                "results folder writable, or keep none with models.keep=false, and run again with "
                "--resume auto"
            ) from error


class Keeper:
    """An actor beside the driver: writes and reads states and models, and names trials to stop."""

    def __init__(self, folder: str, models: str) -> None:
        """Use these folders for states and for models; they are created when first needed."""
        self._folder = Path(folder)
        self._models = Path(models)
        self._stopped: set[str] = set()

    def stop(self, digest: str) -> None:
        """Name a trial that should stop."""
        self._stopped.add(digest)

    def stopped(self, digest: str) -> bool:
        """Whether a trial should stop."""
        return digest in self._stopped

    def keep(self, digest: str, content: bytes) -> None:
        """Keep a trial's state; an earlier one is replaced at once or not at all."""
        # A cluster that runs already has an umask of its own; states hold released labels.
        inner_folder(self._folder)
        with replacing(self._folder / f"{digest}.state") as file:
            file.write(content)

    def find(self, digest: str) -> bytes | None:
        """Return a trial's state, or None."""
        try:
            return (self._folder / f"{digest}.state").read_bytes()
        except FileNotFoundError:
            return None

    # A trial retries. Ray would tell a driver that ends about each of its own retries.
    @ray.method(max_task_retries=0)
    def keep_model(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Keep a trained model's files."""
        write_model(self._models, digest, files)


def forget(folder: Path, digest: str) -> None:
    """Delete the state of a trial that has ended."""
    with contextlib.suppress(OSError):
        (folder / f"{digest}.state").unlink()


def run_trial(
    config: TrialConfig,
    *,
    data: PublicData,
    vault: TrialLabels,
    on_epoch: Callable[[Mapping[str, float], bool], Any],
    checkpoints: Checkpoints,
    stops: EarlyStops | None,
) -> TrialOutcome:
    """Run one trial to its end.

    `on_epoch` takes an epoch's figures, and whether the trial may be stopped after it; a resumed
    trial repeats its earlier epochs. Without `stops` it is not stopped early.
    """
    begun = time.perf_counter()
    trainer = config.trainer.start(
        data=data, labels=vault, seed=config.seed, performance=config.performance
    )
    epochs, begun, best = _resume(trainer, checkpoints, vault=vault) or ([], begun, None)
    selects = config.evaluation.checkpoint is Checkpoint.TEST_SELECTED
    # Tune has forgotten them: it takes the trial for a new one.
    for metrics in epochs:
        on_epoch(asdict(metrics), False)
    rungs = () if stops is None else stops.rule.of(vault.trial).rungs(config.trainer.epochs)
    stopped = stops is not None and bool(epochs) and stops.stopped(vault.trial)
    while len(epochs) < config.trainer.epochs and not stopped:
        read = len(vault.keys)
        epochs.append(trainer.epoch())
        # The first of the best ones.
        if selects and len(epochs) == 1 + np.argmax([each.val_accuracy for each in epochs]):
            best = trainer.state_dict()
        figures = asdict(epochs[-1])
        rung = len(epochs) in rungs
        if rung and stops is not None and stops.by is not ChooseBy.TEST:
            if stops.by.estimated:
                figures |= estimate(config, trainer, data=data, vault=vault)
            else:
                figures |= on_test_split(trainer, data)
        on_epoch(figures, rung)
        stopped = rung and stops is not None and stops.stopped(vault.trial)
        # A later stage's request follows from a network, to the last digit: one that is trained
        # again, on more threads or another device, would request anew, and labels would pay again.
        requested = len(vault.keys) > read
        if requested or checkpoints.due():
            checkpoints.keep(
                {
                    "trainer": trainer.state_dict(),
                    "release_keys": list(vault.keys),
                    "epochs": [asdict(metrics) for metrics in epochs],
                    "seconds": time.perf_counter() - begun,
                    "best": best,
                }
            )
    if best is not None:
        trainer.load_state_dict(best)
    measured = _measured(config, trainer, data=data, vault=vault, begun=begun)
    predictor = trainer.predictor() if config.models.keep else None
    if predictor is not None:
        origin = Origin(
            method=config.method,
            epsilon=measured["epsilon"],
            delta=measured["delta"],
            num_classes=data.num_classes,
            classes=data.class_names,
            data_name=data.name,
            fingerprint=data.fingerprint,
            trial=checkpoints.digest,
            seed=config.seed,
            noise=config.noise.source().kind,
            provenance=provenance_of(config, data.provenance),
            bounds=data.bounds,
        )
        model = TrainedModel(predictor=predictor, preprocessing=data.preprocessing, origin=origin)
        checkpoints.keep_model(model)
    return TrialOutcome(
        metrics=measured,
        release_keys=vault.keys,
        stopped_early=len(epochs) if stopped else 0,
    )


def _resume(
    trainer: Trainer, checkpoints: Checkpoints, *, vault: TrialLabels
) -> tuple[list[EpochMetrics], float, Mapping[str, Any] | None] | None:
    """Restore a trainer's kept state, if there is one; returns its epochs, and when it began.

    That is as if it had trained without a break, by the clock of this process. The state of its
    best epoch comes last, if the trial reports that one.
    """
    state = checkpoints.find()
    # A state that grew from other releases than those just read belongs to a ledger that is gone:
    # continuing from it would use labels that this ledger does not know to be paid for.
    if state is None or not set(vault.keys) <= set(state.get("release_keys", ())):
        return None
    trainer.load_state_dict(state["trainer"])
    # Later stages' releases are in that state, and `start` did not read them again.
    vault.keys.extend(key for key in state.get("release_keys", ()) if key not in vault.keys)
    begun = time.perf_counter() - float(state["seconds"])
    epochs = [EpochMetrics(**metrics) for metrics in state["epochs"]]
    return epochs, begun, state.get("best")


def _measured(
    config: TrialConfig, trainer: Trainer, *, data: PublicData, vault: TrialLabels, begun: float
) -> dict[str, float]:
    measured = {"accuracy": trainer.evaluate()}
    measured |= trainer.figures()
    audited = time.perf_counter()
    positions = vault.canary_positions()
    # Networks don't take batches of nothing.
    confidences = (
        trainer.predict(data.train_features[positions])
        if len(positions)
        else np.empty((0, data.num_classes))
    )
    vault.audit(confidences, confidence=config.audit.confidence, delta=config.trainer.delta)
    audit_seconds = time.perf_counter() - audited
    # After the audit, which is about the training examples: canaries are not held out.
    estimated = estimate(config, trainer, data=data, vault=vault)
    if data.has_test_split:
        estimated |= on_test_split(trainer, data)
    elif data.bounds is None and data.held_out_features is not None and len(data.held_out_features):
        mean = trainer.predict(data.held_out_features).mean(0)
        estimated["majority_share_by_model"] = float(mean.max())
    epsilon, delta = vault.epsilon(delta=config.trainer.delta)
    return {
        "epsilon": stated(epsilon),
        "delta": delta,
        "train_seconds": audited - begun,
        "audit_seconds": audit_seconds,
        # Without a public test split the accuracy is not a number, and is left out.
        **{name: value for name, value in measured.items() if not math.isnan(value)},
        **estimated,
    }


def on_test_split(trainer: Any, data: PublicData) -> dict[str, float]:
    """Measure a trained model on the public test split, which there is."""
    if data.bounds is None:
        return test_figures(trainer.predict(data.test_features), data.test_labels)
    assert data.test_amounts is not None
    predicted = trainer.predictor().amounts(data.test_features)
    return error_figures(predicted, data.test_amounts, bounds=data.bounds)


def estimate(
    config: TrialConfig, trainer: Trainer, *, data: PublicData, vault: TrialLabels
) -> dict[str, float]:
    """Estimate a trained model's figures on held-out labels, if there are any."""
    features = data.held_out_features
    if features is None:
        return {}
    mechanism = held_out_mechanism(config, num_classes=data.num_classes)
    if isinstance(mechanism, ErrorSums):
        assert data.bounds is not None
        low, high = data.bounds
        width = high - low
        predicted = (cast(Any, trainer.predictor()).amounts(features) - low) / width
        sums = vault.release(mechanism, predicted, held_out=True).values
        return _parts(error_estimates(sums, mechanism, examples=len(predicted), width=width))
    scores = trainer.predict(features)
    guesses = scores.argmax(1).astype(np.int64)
    if isinstance(mechanism, CorrectCount):
        (correct,) = vault.release(mechanism, guesses, held_out=True).values.tolist()
        found = AccuracyEstimate.from_count(correct, examples=len(guesses), mechanism=mechanism)
        return figures_of(found)
    if isinstance(mechanism, ScoreHistogram):
        cells = ScoreCells.of(scores, epsilon=mechanism.epsilon)
        counts = vault.release(mechanism, cells.places, held_out=True).values
        return estimated_figures(cells, counts, epsilon=mechanism.epsilon)
    values = vault.release(mechanism, held_out=True).values
    return figures_of(AccuracyEstimate.from_release(values, guesses, mechanism))


def rung_metric(by: ChooseBy) -> str:
    """Return the name that this accuracy has among an epoch's figures."""
    return "val_accuracy" if by is ChooseBy.TEST else by.metric


def tune_trial(
    config: Mapping[str, Any],
    *,
    plans: Mapping[str, PlannedTrial],
    data: PublicData,
    home: LabelHome,
    keeper: Any,
    cpus: float,
    stops: EarlyStops | None,
) -> None:
    """Run the trial that `config` names.

    Args:
        config: A hash, and the trial's settings where `plans` does not have it.
        plans: Hash -> planned trial, of a grid.
        data: Public data.
        home: Holds the labels.
        keeper: Actor that keeps checkpoints.
        cpus: Number of threads of torch.
        stops: Rules of early stopping; None for none.
    """
    digest = config["hash"]
    settings = config["settings"] if "settings" in config else plans[digest].config
    # Ray reserves processors, but does not keep torch from taking all of them.
    torch.set_num_threads(max(1, int(cpus)))
    reports = _Reports(ChooseBy.TEST if stops is None else stops.by)
    vault = TrialLabels(home=home, noise=settings.noise.source(), trial=digest)
    started = time.perf_counter()
    end: dict[str, Any] = {"finished": False, "reason": "", "metrics": {}}
    end["environment"] = describe()  # of this node, which the driver may not be on
    try:
        check_encoders(settings, data, digest=digest)
        outcome = run_trial(
            settings,
            data=data,
            vault=vault,
            on_epoch=reports.take,
            checkpoints=Checkpoints(keeper=keeper, digest=digest),
            stops=stops,
        )
        end |= {"finished": True, **vars(outcome)}
    # A user's network may call sys.exit, which would end the worker and start the trial again.
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error) and _shares_a_gpu():
            raise MemoryError(_reason(error)) from error
        end |= {"reason": _reason(error), "over_budget": isinstance(error, BudgetExceeded)}
    end |= {"release_keys": vault.keys, "seconds": time.perf_counter() - started}
    reports.send(end=end)


def check_encoders(config: TrialConfig, data: PublicData, *, digest: str) -> None:
    """Refuse encoders and networks that this node lacks, or not the plan's, before any label pays.

    `digest` is the trial's hash, for which the driver has read the files.
    """
    if not any(
        (name.endswith(".encoder") and each) or is_address(str(each))
        for name, each in flatten(config).items()
    ):
        return
    try:
        for part in config.trainer.work(len(data.train_features)):
            starting_weights(part.network, data)
        if config_hash(config, data_fingerprint=data.fingerprint) != digest:
            raise ValueError("an encoder, or a network of your own, is not the one of the plan")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{error} (on node {os.uname().nodename}); every node needs the same files of encoders "
            "at the same paths, and the data sets of pretrained ones; a network's file must stay "
            "as it is while a sweep runs; nothing was released"
        ) from error


class _Reports:
    def __init__(self, by: ChooseBy) -> None:
        self._epochs: list[dict[str, float]] = []
        self._by = by
        self._sent = time.monotonic()

    def take(self, figures: Mapping[str, float], rung: bool) -> None:
        """Take an epoch's figures, and send what has gathered when it is time."""
        self._epochs.append({name: each for name, each in figures.items() if not math.isnan(each)})
        if rung:
            accuracy = self._by.rank(figures[rung_metric(self._by)])
            self.send(rung={"epoch": int(figures["epoch"]), "accuracy": accuracy})
        elif time.monotonic() - self._sent >= REPORT_SECONDS:
            self.send()

    def send(self, **more: Any) -> None:
        """Send the epochs; returns when Tune has dealt with them."""
        tune.report({"epochs": self._epochs, **more})
        self._epochs = []
        self._sent = time.monotonic()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a trial failed for want of memory, of its device or of its machine."""
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(words in str(error) for words in NO_MEMORY)


def _shares_a_gpu() -> bool:
    if not ray.is_initialized():
        return False
    worker: Any = ray.get_runtime_context()  # Ray gives it no types
    has = worker.get_assigned_resources()
    return bool(0 < has.get("GPU", 0) < 1)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, BudgetExceeded | TrainingDiverged):
        return f"{type(error).__name__}: {text}"
    if is_out_of_memory(error):
        return (
            f"out of memory ({text[:300]}); lower trainer.batch_size or trainer.width, or give the "
            "trial a larger device"
        )
    return f"{type(error).__name__}: {text[:1000]}"


# Figures of a model's scores: scikit-learn measures on public test labels. On held-out labels a
# charged histogram is read; its shares of the classes are the prior, too. More than two classes are
# each held against the rest, and averaged.


def test_figures(scores: NDArray[Any], labels: NDArray[np.int64]) -> dict[str, float]:
    """Measure scores [M, K] on public labels [M], at least one."""
    cells = ScoreCells.of(scores, epsilon=0.0)  # as few bins as there may be
    scores = cells.scores
    classes = range(cells.scores.shape[1])
    truth = labels[:, None] == np.arange(len(classes))
    found = _shares(truth.mean(axis=0), "")
    # Of a class without a label, or without another's, there is nothing to rank.
    counted = [each for each in cells.classes if 0 < truth[:, each].sum() < len(labels)]
    pairs = [(truth[:, each], scores[:, each]) for each in counted]
    if pairs:
        reached = [own @ among_top(score) / own.sum() for own, score in pairs]
        found |= {
            "roc_auc": float(np.mean([roc_auc_score(*pair) for pair in pairs])),
            "average_precision": float(np.mean([average_precision_score(*pair) for pair in pairs])),
            "lift": float(np.mean(reached)) / TOP_SHARE,
        }
    squares = ((scores - truth) ** 2).sum(axis=1).mean()
    gaps = np.abs(cells.expected - cells.exactly(labels))
    found |= {
        "log_loss": float(log_loss(labels, scores / scores.sum(1, keepdims=True), labels=classes)),
        "brier_score": float(squares) / (2 if len(classes) == 2 else 1),
        "calibration_error": float(gaps.sum()) / len(labels) / len(cells.classes),
    }
    return found


def error_figures(
    predicted: NDArray[np.float64], amounts: NDArray[np.float64], *, bounds: tuple[float, float]
) -> dict[str, float]:
    """Measure predicted amounts [M] on public ones [M]; the relative error is of their sums."""
    errors = np.abs(predicted - amounts)
    low, high = bounds
    total = float(np.abs(amounts).sum())
    figures = {
        "mean_squared_error": float(np.mean(errors**2)),
        "mean_absolute_error": float(np.mean(errors)),
        "share_beyond_bounds": float(np.mean((amounts < low) | (amounts > high))),
    }
    return figures | ({"relative_error": float(errors.sum()) / total} if total else {})


def estimated_figures(
    cells: ScoreCells, counts: NDArray[Any], *, epsilon: float
) -> dict[str, float]:
    """Read figures off counts that were released of held-out labels."""
    estimates = ScoreEstimates(cells, counts, epsilon=epsilon)
    found = {**figures_of(estimates.accuracy), **_shares(estimates.prior, "_estimated")}
    if len(estimates.prior) == 2:
        found["threshold_estimated"] = estimates.threshold
    return found | _parts(estimates.figures())


def _parts(figures: Mapping[str, Estimated]) -> dict[str, float]:
    return {
        f"{name}_estimated{'' if part == 'value' else f'_{part}'}": getattr(each, part)
        for name, each in figures.items()
        for part in ("value", "error", "low", "high", "noise")
    }


def _shares(shares: Sequence[float] | NDArray[np.float64], end: str) -> dict[str, float]:
    return {
        f"majority_share{end}": float(np.max(shares)),
        f"minority_share{end}": float(np.min(shares)),
    }
