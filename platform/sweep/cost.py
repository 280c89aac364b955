"""The price of a sweep: its releases, whether a budget allows them, and hours of a device."""

import gc
import json
import math
import re
import time
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.amounts import ErrorSums
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.ledger import (
    Budget,
    BudgetExceeded,
    Priced,
    epsilon_of_prices,
    least_total,
    ledger_of,
    total_of_prices,
)
from labeldp.mechanisms.release_store import describe
from labeldp.mechanisms.score_histogram import ScoreHistogram
from labeldp.mechanisms.vault import Charge
from labeldp.platform.settings.configuration import ConfigurationError, Estimate, TrialConfig
from labeldp.platform.settings.sweep import PlannedTrial, ensembles_of
from labeldp.platform.vault.witness import state_folder
from labeldp.trainers.base import FeatureSet, ModelName
from labeldp.trainers.data.files import private_folder, replacing
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.methods.pate_settings import EnsembleConfig
from labeldp.trainers.performance import Performance, threads
from labeldp.trainers.settings.trainer import PlannedCharge
from labeldp.trainers.settings.training import (
    FewLabelsConfig,
    LearnerConfig,
    Schedule,
    SemiSupervisedConfig,
    Work,
)

if TYPE_CHECKING:  # a plan does without torch where nothing is to be measured
    from labeldp.trainers.data.labelled_data import PublicData


@dataclass(frozen=True, kw_only=True)
class SweepCost:
    """The price of a list of trials.

    Attributes:
        epsilon_total: Of a label that all releases touch: all of them composed.
        delta: At which the total holds; 0 where it is a sum of pure epsilons.
        epsilon_estimates: Of a held-out label, which pays for estimates of accuracy alone.
    """

    epsilons: tuple[float, ...]
    releases: int
    epsilon_total: float
    delta: float
    trials: int
    epsilon_estimates: float = 0.0
    trained: Sequence[Priced] = field(default=(), repr=False)
    estimated: Sequence[Priced] = field(default=(), repr=False)


def _dearest(parts: Sequence[Sequence[Priced]], *, delta: float) -> float:
    return max(epsilon_of_prices(part, delta=delta) for part in parts)


def cost_of(
    trials: Sequence[PlannedTrial], *, num_classes: int, with_estimates: bool = False
) -> SweepCost:
    """Compose the requests of `trials` to one vault.

    Held-out labels pay for estimates of accuracy and for nothing else: the dearest label pays the
    larger of the two sums, and not both. `with_estimates`: whether labels are held out.
    """
    epsilons: list[float] = []
    charges: dict[tuple[object, ...], PlannedCharge] = {}
    estimates: dict[tuple[object, ...], PlannedCharge] = {}
    for trial in trials:
        config = trial.config
        own = releases_of(trial, num_classes=num_classes)
        # Where much may fail that is a larger delta, as in the trial's record, and never the sum's.
        epsilon, _ = total_of_prices(own.values(), delta=config.trainer.delta)
        charges |= own
        if with_estimates:
            asked = planned_estimate(config, num_classes=num_classes)
            shared = config.evaluation.estimate is Estimate.RELEASE
            each = 1 if shared else trial.estimates
            copies = range(1 if shared else trial.stands_for * each)
            estimates |= {(asked.release, config.noise, copy): asked for copy in copies}
            shown = epsilon_of_prices([asked] * each, delta=config.trainer.delta)
            epsilon = max(epsilon, shown)
        epsilons.append(epsilon)
    trained = tuple(charges.values())
    estimated = tuple(estimates.values())
    every = [*trained, *estimated]
    most = max(trial.config.trainer.delta for trial in trials)
    epsilon, delta = least_total(partial(_dearest, (trained, estimated)), every, delta=most)
    return SweepCost(
        epsilons=tuple(epsilons),
        releases=sum(charge.releases for charge in every),
        epsilon_total=epsilon,
        delta=delta,
        trials=sum(trial.stands_for for trial in trials),
        epsilon_estimates=epsilon_of_prices(estimated, delta=delta),
        trained=trained,
        estimated=estimated,
    )


def releases_of(
    trial: PlannedTrial, *, num_classes: int
) -> dict[tuple[Hashable, ...], PlannedCharge]:
    """Return a trial's charges on labels to train on; equal keys are one release."""
    config = trial.config
    charge = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    if charge is None:
        return {}
    # Another device or precision trains another model, and so requests a release of its own
    # wherever the release depends on a model; elsewhere one too many is planned.
    how = config.performance
    return {(part.release, config.noise, how): part for part in charge.chain()}


def held_out_mechanism(config: TrialConfig, *, num_classes: int) -> Any:
    """Return the mechanism of a trial's estimate of accuracy."""
    settings = config.evaluation
    if config.of_amounts:
        if settings.estimate is not Estimate.COUNT:
            raise ConfigurationError(
                f"evaluation.estimate is {settings.estimate}, which is of classes; errors of "
                "amounts are estimated from sums: leave it out"
            )
        largest = settings.largest_error or 1.0
        return ErrorSums(epsilon=settings.count_epsilon, largest=largest)
    if settings.estimate is Estimate.COUNT:
        return CorrectCount(epsilon=settings.count_epsilon)
    if settings.estimate is Estimate.HISTOGRAM:
        return ScoreHistogram(epsilon=settings.count_epsilon)
    planned = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    own = None if planned is None else planned.release
    if not isinstance(own, PerLabel):
        raise ConfigurationError(
            f"evaluation.estimate is release, but method {config.method!r} with these settings "
            "releases nothing about single labels; use evaluation.estimate=count"
        )
    return own


def planned_estimate(config: TrialConfig, *, num_classes: int) -> PlannedCharge:
    """Return the charge on each held-out label for a trial's estimate of accuracy."""
    mechanism = held_out_mechanism(config, num_classes=num_classes)
    shared = config.evaluation.estimate is Estimate.RELEASE
    # Counts depend on predictions: a plan can't foresee which trials predict alike and share one.
    return PlannedCharge.of(mechanism, release=None if shared else (config, "count"))


def budget_of(
    stated: Budget | None, max_epsilon_total: float | None, *, delta: float
) -> Budget | None:
    """Return the most that a label may pay: the smaller epsilon of sweep and command line.

    The delta of `stated` stands; `delta` is of a budget that the command line alone sets.
    """
    if max_epsilon_total is None:
        return stated
    requested = Budget(epsilon=max_epsilon_total, delta=delta)
    if stated is None:
        return requested
    return replace(stated, epsilon=min(stated.epsilon, requested.epsilon))


def check_budget(
    cost: SweepCost, budget: Budget | None, *, trials: Sequence[PlannedTrial] = ()
) -> None:
    """Refuse a plan that the budget can't pay; `trials` are in the order of `cost.epsilons`."""
    if budget is None:
        return
    requested = _dearest((cost.trained, cost.estimated), delta=budget.delta)
    if budget.allows(requested):
        return
    bare = sorted(
        {
            trial.variant
            for trial, epsilon in zip(trials, cost.epsilons, strict=False)
            if math.isinf(epsilon)
        }
    )
    fix = ""
    if bare:
        named = " ".join(f'--without "{name}"' for name in bare)
        fix = (
            f"the line {' and '.join(map(repr, bare))} trains on labels without noise, which makes "
            f"the total infinite; leave it out with {named}"
        )
    request = f"a sweep of {cost.trials} trials with {cost.releases} releases"
    raise BudgetExceeded(budget=budget, spent=0.0, requested=requested, request=request, fix=fix)


def check_what_is_left(
    trials: Sequence[PlannedTrial],
    earlier: Sequence[Charge],
    size: DataSize,
    *,
    read: Collection[str] = (),
    budget: Budget | None,
) -> None:
    """Refuse a plan that the budget can't pay beside the releases of earlier starts (`earlier`).

    A release that the ledger may hold already counts as paid. Whether it does depends on labels and
    on public inputs, so the vault decides; nothing is refused here that it would grant. Held-out
    labels pay for no training. `read`: keys of the releases that finished trials have read.
    """
    if budget is None:
        return
    num_labels = size.num_labels
    every = size.num_labels + size.held_out
    apart = [charge for charge in earlier if charge.is_beyond(num_labels)]
    paid = Counter(_line(each.mechanism) for each in earlier if not each.is_beyond(num_labels))
    planned: Counter[str] = Counter()
    prices: dict[str, Priced] = {}
    for trial in trials:
        parts = releases_of(trial, num_classes=size.num_classes).values()
        asked = [each for part in parts for each in part.mechanisms]
        lines = [_line(describe(each, trial.config.noise.source())) for each in asked]
        prices |= zip(lines, asked, strict=True)
        planned |= Counter(lines)  # trials may share what looks alike, and a trial's own differ
    new = [prices[line] for line in (planned - paid).elements()]
    estimates = _new_estimates(trials, apart, size, read) if size.held_out else []
    ledger = ledger_of(earlier, num_labels=every)
    spent = ledger.epsilon_or_infinity(delta=budget.delta)
    for requests, labels in ((new, range(num_labels)), (estimates, range(num_labels, every))):
        ledger.add_failures(requests)
        for request in requests:
            ledger.charge(request.event, indices=np.array(labels))
    requested = ledger.epsilon_or_infinity(delta=budget.delta)
    number = len(new) + len(estimates)
    if not number or budget.allows(requested):
        return
    left = sum(trial.stands_for for trial in trials)
    raise BudgetExceeded(
        budget=budget,
        spent=spent,
        requested=requested,
        request=f"a sweep with {left} trials left and {number} releases that are new",
    )


def _new_estimates(
    trials: Sequence[PlannedTrial], stored: Sequence[Charge], size: DataSize, read: Collection[str]
) -> list[Priced]:
    """Charges that estimates of accuracy will add on held-out labels.

    A stored release serves every trial. A count is of one trial's predictions: those that no
    finished trial has read may be of trials that ended too early for a record; further trials
    request new ones.
    """
    known = {_line(charge.mechanism) for charge in stored}
    begun = Counter(_line(charge.mechanism) for charge in stored if charge.key not in read)
    new: list[Priced] = []
    for trial in trials:
        asked = planned_estimate(trial.config, num_classes=size.num_classes)
        line = _line(describe(asked.mechanisms[0], trial.config.noise.source()))
        if trial.config.evaluation.estimate is not Estimate.RELEASE:
            counts = trial.stands_for * trial.estimates
            begun[line] -= counts
            fresh = min(max(-begun[line], 0), counts)
        else:
            fresh = int(line not in known)
            known.add(line)
        new += [asked] * fresh
    return new


def _line(description: Mapping[str, Any]) -> str:
    return json.dumps(description, sort_keys=True, default=str)


# --- hours of one device --------------------------------------------------------------------------

# Examples that networks learn from, over a measured rate. The trainer itself measures it on made-up
# images, for some seconds; it is kept by device in the user's folder of state, with the memory that
# it took of a GPU. A processor's is of one thread in processor time, times the threads: clocks of a
# machine with other work would count that work too. A sweep that wants a GPU where there is none is
# stated for another one, by counted operations.

#: Convolutional networks that learn from fewer examples, in all, take minutes: not measured.
_SMALL = 200_000
#: Seconds that a rate is measured for, after a first epoch.
_SECONDS = 1.0
#: Epochs of a network that is measured, more than there is time for.
_EPOCHS = 10**6
#: Steps of a made-up epoch on a GPU: enough for a recording (`training_step`).
_STEPS = 6
#: Seconds of a step that shows the rate of a processor: a larger step would have about the same.
_LONG = 0.5
#: An example that is judged takes a forward pass, a third of one that is learned from.
_JUDGED = 1 / 3
#: Operations a second of an H200 that trains WRN-28-4 in bfloat16: 36,830 images of 5.0e9 each.
#: It stands for a GPU where there is none.
_OPERATIONS = 36_830 * 5.0e9
#: What they may fill of a GPU's free memory, and bytes of a process before it has a tensor.
_FILLED = 0.9
_PROCESS = 2**30


def made_up_images(size: DataSize, count: int) -> "PublicData":
    """Return as many images of noise, of the shape and the classes of a data set."""
    images = np.random.default_rng(0).integers(0, 256, (count, *size.shape), dtype=np.uint8)
    return rows_alone(images, name="made-up images", num_classes=size.num_classes)


def rows_alone(rows: NDArray[Any], *, name: str, num_classes: int) -> "PublicData":
    """Return public data of features [N, ...] to train on, and none to test on."""
    import torch

    from labeldp.trainers.data.labelled_data import PublicData

    return PublicData(
        name=name,
        num_classes=num_classes,
        train_features=torch.from_numpy(rows),
        test_features=torch.from_numpy(rows[:0]),
        test_labels=np.empty(0, dtype=np.int64),
    )


@dataclass(frozen=True, kw_only=True)
class Hours:
    """Hours of one device that a sweep takes.

    Attributes:
        lines: Hours by line; an ensemble of teachers counts for the first line that uses it.
        device: Where they were measured, or what they are counted for.
    """

    lines: Mapping[str, float]
    device: str

    @property
    def total(self) -> float:
        """Of all lines together."""
        return math.fsum(self.lines.values())


def _works(trials: Sequence[PlannedTrial], size: DataSize) -> list[tuple[str, Performance, Work]]:
    """Return what networks learn from, by line: of trials, and once of each ensemble's teachers.

    Nothing is known of features that are not images as they are.
    """
    if len(size.shape) != 3 or trials[0].config.data.features is not FeatureSet.AS_THEY_ARE:
        return []
    paid: set[EnsembleConfig] = set()
    works: list[tuple[str, Performance, Work]] = []
    for trial in trials:
        ensembles = set(ensembles_of([trial])) - paid
        paid |= ensembles
        own = trial.config.trainer.work(size.num_labels)
        parts = [each.times(trial.stands_for) for each in own]
        parts += [each for ensemble in ensembles for each in ensemble.work(size.num_labels)]
        works += [(trial.variant, trial.config.performance, each) for each in parts]
    return works


def planned_hours(
    trials: Sequence[PlannedTrial], size: DataSize, *, measured: bool = False
) -> Hours | None:
    """Return the hours of a sweep's trials; None if they are not known, or only minutes.

    They are known of images as they are: `measured` on the device that trials take here, or of
    counted operations for a GPU that is not here.
    """
    works = _works(trials, size)
    long = [part for *_, part in works if part.network.model is not ModelName.MLP]
    if sum(part.examples for part in long) < _SMALL:
        return None
    lines = dict.fromkeys((trial.variant for trial in trials), 0.0)
    for line, how, part in works:
        lines[line] += seconds_of(part, size, how, measured=measured) / 3600
    if not measured:
        return Hours(lines=lines, device="an H200, by counted operations")
    on_gpu = any(how.torch_device().type == "cuda" for _, how, _ in works)
    return Hours(lines=lines, device=device_name(on_gpu=on_gpu))


def gpus_here() -> int:
    """Return how many GPUs torch sees on this machine."""
    import torch  # more than a second, which plans without a GPU do without

    return torch.cuda.device_count()


def device_name(*, on_gpu: bool) -> str:
    """Return the name of the GPU, or of the processor with its number of cores."""
    import torch

    if on_gpu:
        return torch.cuda.get_device_name()
    about = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", about.read_text() if about.exists() else "")
    return f"{torch.get_num_threads()} threads of {named[1] if named else 'a processor'}"


def seconds_of(part: Work, size: DataSize, performance: Performance, *, measured: bool) -> float:
    """Return seconds of one part of a trial, by a measured rate or by counted operations."""
    network = part.network
    if measured:
        rate = _kept(network, size, performance)["rate"]
    else:
        rate = _OPERATIONS / _operations(network.model, network.width, size)
    return (part.examples + _JUDGED * part.epochs * size.num_test) / rate


def places_on_gpu(trials: Sequence[PlannedTrial], size: DataSize) -> int:
    """Return for how many trials, or actors that train teachers, this machine's GPU has memory.

    1 where the memory of a step is not known: of tables, of a network too large for the GPU.
    """
    import torch

    networks = {(part.network, how) for _, how, part in _works(trials, size)}
    if not networks or not gpus_here():
        return 1
    free, _ = torch.cuda.mem_get_info()
    data = (size.num_labels + size.num_test) * math.prod(size.shape)
    try:
        most = max(_kept(network, size, how)["bytes"] for network, how in networks)
    except torch.OutOfMemoryError:
        return 1
    return max(1, int(_FILLED * free / (most + data + _PROCESS)))


def _kept(
    network: LearnerConfig | FewLabelsConfig, size: DataSize, performance: Performance
) -> dict[str, float]:
    """Return examples a second, and bytes on a GPU, of the record of this device or measured."""
    on_gpu = performance.torch_device().type == "cuda"
    # Speed depends on sizes and kinds, not on rates, weights (floats) or the number of epochs.
    facts = {name: value for name, value in asdict(network).items() if type(value) is not float}
    facts |= {"epochs": None, "mixup": bool(getattr(network, "mixup", 0.0))}
    facts |= {"shape": size.shape, "classes": size.num_classes}
    key = json.dumps({**facts, **asdict(performance)}, sort_keys=True, default=str)
    file = state_folder() / "rates.json"
    device = device_name(on_gpu=on_gpu)
    kept: dict[str, dict[str, Any]] = {}
    # There is none yet, it is damaged, or of an earlier version.
    with suppress(OSError, ValueError, TypeError, AttributeError, LookupError):
        kept = {name: dict(rates) for name, rates in json.loads(file.read_bytes()).items()}
        found: dict[str, float] = kept[device][key]
        if 0 < found["rate"] < math.inf and found["bytes"] >= 0:
            return found
    found = _measured(network, size, performance)
    kept.setdefault(device, {})[key] = found
    with suppress(OSError):  # a plan does without a folder that can be written
        private_folder(file.parent)
        with replacing(file) as written:
            written.write(json.dumps(kept, indent=1).encode())
    return found


def _measured(
    network: LearnerConfig | FewLabelsConfig, size: DataSize, performance: Performance
) -> dict[str, float]:
    """Measure steps of full size, or on a processor of a size that takes long."""
    import torch

    if performance.torch_device().type == "cuda":
        gc.collect()  # a trainer and its loss refer to each other
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        rate, _ = rate_of_steps(network, size, performance, steps=_STEPS)
        return {"rate": rate, "bytes": torch.cuda.max_memory_reserved()}
    batch = 1
    while True:
        batch = min(4 * batch, network.batch_size)
        part = replace(network, batch_size=batch)
        with threads(1):
            rate, seconds = rate_of_steps(part, size, replace(performance, threads=None), steps=1)
        if batch == network.batch_size or seconds > _LONG:
            return {"rate": rate * torch.get_num_threads(), "bytes": 0}


def rate_of_steps(
    network: LearnerConfig | FewLabelsConfig,
    size: DataSize,
    performance: Performance,
    *,
    steps: int,
) -> tuple[float, float]:
    """Return examples a second in epochs of so many steps, and seconds of an epoch."""
    from labeldp.trainers.methods.fixmatch import FixMatch
    from labeldp.trainers.methods.semi_supervised import SemiSupervised
    from labeldp.trainers.models.learner import OnLabels

    every = np.arange(steps * network.batch_size)
    classes = size.num_classes
    given: dict[str, Any] = {"data": made_up_images(size, len(every)), "performance": performance}
    given |= {"examples": every, "labels": every % classes, "seed": 0}
    kind: Any = OnLabels
    # After its epochs a network gives its recording back, and learning rates turn negative.
    if isinstance(network, LearnerConfig):
        network = replace(network, schedule=Schedule.CONSTANT)
    else:
        kind = FixMatch
        network = replace(network, steps_per_epoch=steps)
    # An encoder's weights are of other images than the made-up ones.
    network = replace(network, epochs=_EPOCHS, encoder=None)
    if isinstance(network, SemiSupervisedConfig):
        kind = SemiSupervised
        given["posterior"] = np.full((len(every), classes), 1 / classes)
    trainer = kind(network, **given)
    (work,) = network.work(len(every))
    on_gpu = performance.torch_device().type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    trainer.epoch()  # chooses kernels, and records the step
    epochs = 0
    begun = clock()
    while True:
        trainer.epoch()
        epochs += 1
        seconds = clock() - begun
        if seconds > _SECONDS or (epochs == 1 and seconds > _LONG):
            return epochs * work.examples / work.epochs / seconds, seconds / epochs


@lru_cache(maxsize=32)
def _operations(model: ModelName | str, width: int | None, size: DataSize) -> float:
    """Return operations to learn from an image: three times those to judge it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from labeldp.trainers.models.predictors import NetworkSettings

    data = made_up_images(size, 1)
    network = NetworkSettings.for_data(data, model=model, width=width).seeded(0).eval()
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        network(data.train_features.float())
    return 3 * counter.get_total_flops()
