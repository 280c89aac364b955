"""A folder that may leave the house: what `labeldp publish` writes.

    run_card.md   what it is and what is guaranteed
    config.json   settings and figures
    ledger.json   what was released of the labels, and what that cost
    model/        the trained model, if one was kept

Every file is made anew of public values (`public_values`, `public_model`); nothing is copied. What
is about to be written is searched for what must not be in it, in case one of those has a hole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import labeldp
from labeldp.mechanisms.randomness import is_private
from labeldp.platform.records.kept_models import kept_model
from labeldp.platform.records.results import dumps
from labeldp.platform.report.folder_ledger import FolderLedger, read_folder
from labeldp.platform.report.outbox import check_target, search, write_folder
from labeldp.platform.report.public_card import CardFacts, public_card
from labeldp.platform.report.public_ledger import public_lines
from labeldp.platform.report.public_model import public_model
from labeldp.platform.report.public_values import PublicTrial, public_trial
from labeldp.platform.report.selection import Reservation, Selected, noise_of, selected
from labeldp.platform.sweep.accuracy_figures import ChooseBy


@dataclass(frozen=True, kw_only=True)
class PublishRequest:
    """What is to be published.

    Attributes:
        results: Results folder of a sweep.
        trial: The beginning of a trial's hash, or `best`.
        to: Folder to write; it is not there yet, or empty.
        at_epsilon: The most that the best trial may cost.
        choose_by: Which accuracy decides on the best.
        accepted: What the owner has said a second time is meant.
        with_model: Whether the model goes along.
    """

    results: Path
    trial: str
    to: Path
    at_epsilon: float | None = None
    choose_by: ChooseBy | None = None
    accepted: frozenset[Reservation] = field(default_factory=frozenset)
    with_model: bool = True


@dataclass(frozen=True, kw_only=True)
class Published:
    """What was written, told to the owner.

    Attributes:
        folder: The folder.
        files: Its files, below it.
        epsilon: Of the releases on which the trial depends.
        delta: At which it holds.
        left_out: What stays, by name.
        trial: The trial's own hash, which is not in the folder.
        name: What the trial is called there.
        epsilon_with_choice: Of the releases of all trials that it was chosen among, failed ones
            and those that were cut off included.
        delta_with_choice: At which that holds.
        chosen_among: How many those are.
        doubt: Why another of them may be better; empty where nothing speaks for it.
    """

    folder: str
    files: list[str]
    epsilon: float
    delta: float
    left_out: list[str]
    trial: str
    name: str
    epsilon_with_choice: float
    delta_with_choice: float
    chosen_among: int
    doubt: str = ""


def publish(request: PublishRequest) -> Published:
    """Write a folder that may leave the house.

    Raises:
        NotPublishable: The trial, or something of it, must not leave.
        ValueError: Nothing is there to publish, or the folder can't be written.
    """
    to = request.to.expanduser().absolute()
    check_target(to, results=request.results)
    folder = read_folder(request.results)
    chosen = selected(
        folder,
        request.trial,
        at_epsilon=request.at_epsilon,
        choose_by=request.choose_by,
        accepted=request.accepted,
    )
    trial = public_trial(chosen.record, fingerprint=folder.fingerprint)
    trial = replace(trial, noise=noise_of(folder, chosen.record))
    files = _files(folder, chosen, trial, with_model=request.with_model)
    search(files, folder=folder, records=[chosen.record])
    write_folder(to, files)
    left_out = [*trial.left_out]
    if not any(name.startswith("model/") for name in files):
        left_out.append("model: none was kept" if request.with_model else "model: not wanted")
    return Published(
        folder=str(to),
        files=sorted(files),
        epsilon=chosen.cost.epsilon,
        delta=chosen.cost.delta,
        left_out=left_out,
        trial=chosen.record.hash,
        name=trial.name,
        epsilon_with_choice=chosen.choice.cost.epsilon,
        delta_with_choice=chosen.choice.cost.delta,
        chosen_among=chosen.choice.among,
        doubt=chosen.choice.doubt,
    )


def _files(
    folder: FolderLedger, chosen: Selected, trial: PublicTrial, *, with_model: bool
) -> dict[str, bytes]:
    """Content of every file by its place in the folder."""
    # That another trial has read a line too, a baseline say, tells of that trial: two share a count
    # if they predict alike on held-out labels, which this one's epsilon does not pay for.
    lines = [
        replace(
            line,
            handed_out=frozenset(),
            readers=tuple(each for each in line.readers if each == chosen.record),
        )
        for line in folder.lines_of(chosen.keys)
    ]
    place = kept_model(folder.path / "models", chosen.record.hash)
    model: Mapping[str, bytes] = {}
    if with_model and chosen.record.finished and place is not None:
        model = public_model(
            place, record=chosen.record, trial=trial, cost=chosen.cost, own=chosen.own
        )
    card = public_card(
        CardFacts(
            trial=trial,
            lines=lines,
            cost=chosen.cost,
            choice=chosen.choice,
            num_labels=folder.results.identity.num_labels,
            has_model=bool(model),
        )
    )
    config = {
        "name": trial.name,
        "labeldp": labeldp.__version__,
        "settings": trial.config,
        "features": trial.features.described(),
        "data": {"name": trial.data, "fingerprint": trial.fingerprint, "labels": folder.num_labels},
        "figures": {
            **trial.metrics,
            "epsilon": chosen.cost.epsilon,
            "delta": chosen.cost.delta,
        },
        "private": is_private(chosen.cost.epsilon, trial.noise),
        "noise": trial.noise.value,
        "finished": trial.finished,
        "labels_replaced_for_audits": trial.replaced,
        "chosen": {
            "by": chosen.choice.by or "named by the owner",
            "among": chosen.choice.among,
            "epsilon": chosen.choice.cost.epsilon,
            "delta": chosen.choice.cost.delta,
        },
    }
    return {
        "run_card.md": card.encode(),
        "config.json": _json(config),
        "ledger.json": _json({"releases": public_lines(lines)}),
        **{f"model/{name}": content for name, content in model.items()},
    }


def _json(value: Mapping[str, object]) -> bytes:
    return (dumps(value, indent=1) + "\n").encode()
