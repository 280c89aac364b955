"""A folder that may leave the house: what `labeldp publish` writes.

    run_card.md   what it is and what is guaranteed
    config.json   settings and figures
    ledger.json   what was released of the labels, and what that cost
    model/        the trained model, if one was kept

Every file is made anew of public values (`public_values`, `public_model`); nothing is copied. What
is about to be written is searched for what must not be in it, in case one of those has a hole.
"""

import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import labeldp
from labeldp.platform.accuracy_figures import ChooseBy
from labeldp.platform.publishing.folder_ledger import FolderLedger, read_folder
from labeldp.platform.publishing.public_card import CardFacts, public_card
from labeldp.platform.publishing.public_ledger import public_lines
from labeldp.platform.publishing.public_model import model_folder, public_model
from labeldp.platform.publishing.public_values import PublicTrial, public_trial
from labeldp.platform.publishing.selection import (
    NotPublishable,
    Reservation,
    Selected,
    selected,
)
from labeldp.platform.records.json_files import dumps
from labeldp.platform.records.trial_record import TrialRecord

#: Text of the owner's that is shorter may stand in a card by chance.
_LONG_ENOUGH = 8
#: What marks text as a place or an address, and not as a word.
_OF_PLACES = ("/", "\\", "@", ":")
#: Parts of names of environment variables that hold what nobody may know.
_SECRET_NAMES = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "ACCESS_KEY")


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
        epsilon: Of the releases that the trial read.
        delta: At which it holds.
        left_out: What stays, by name.
        trial: The trial's own hash, which is not in the folder.
        name: What the trial is called there.
        epsilon_with_choice: Of the releases of all trials that it was chosen among.
        delta_with_choice: At which that holds.
        chosen_among: How many those are.
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


def publish(request: PublishRequest) -> Published:
    """Write a folder that may leave the house.

    Raises:
        NotPublishable: The trial, or something of it, must not leave.
        ValueError: Nothing is there to publish, or the folder can't be written.
    """
    to = request.to.expanduser().absolute()
    _check_target(to, results=request.results)
    folder = read_folder(request.results)
    chosen = selected(
        folder,
        request.trial,
        at_epsilon=request.at_epsilon,
        choose_by=request.choose_by,
        accepted=request.accepted,
    )
    trial = public_trial(chosen.record, fingerprint=folder.fingerprint)
    files = _files(folder, chosen, trial, with_model=request.with_model)
    _search(files, folder=folder, record=chosen.record)
    _write(to, files)
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
    )


def _files(
    folder: FolderLedger, chosen: Selected, trial: PublicTrial, *, with_model: bool
) -> dict[str, bytes]:
    """Content of every file by its place in the folder."""
    lines = folder.lines_of(chosen.record.release_keys)
    kept = None
    if with_model and chosen.record.finished:
        place = model_folder(folder.path, chosen.record.hash)
        kept = public_model(place, record=chosen.record, trial=trial, cost=chosen.cost)
    card = public_card(
        CardFacts(
            trial=trial,
            lines=lines,
            cost=chosen.cost,
            choice=chosen.choice,
            num_labels=folder.num_labels,
            has_model=kept is not None,
        )
    )
    config = {
        "name": trial.name,
        "labeldp": labeldp.__version__,
        "settings": trial.config,
        "data": {"name": trial.data, "fingerprint": trial.fingerprint, "labels": folder.num_labels},
        "figures": {
            **trial.metrics,
            "epsilon": chosen.cost.epsilon,
            "delta": chosen.cost.delta,
        },
        "private": math.isfinite(chosen.cost.epsilon) and trial.noise.value != "seeded",
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
        **{f"model/{name}": content for name, content in (kept or {}).items()},
    }


def _json(value: Mapping[str, object]) -> bytes:
    return (dumps(value, indent=1) + "\n").encode()


def _search(files: Mapping[str, bytes], *, folder: FolderLedger, record: TrialRecord) -> None:
    """Refuse files that hold something of the owner's; no message shows what.

    Raises:
        NotPublishable: Names the file and what kind of thing is in it.
    """
    for what, text in _owners(folder, record):
        if len(text) < _LONG_ENOUGH:
            continue
        forms = {text.encode(), json.dumps(text)[1:-1].encode()}
        for name, content in files.items():
            if any(form in content for form in forms):
                raise NotPublishable(
                    f"{name} would hold {what}, which stays with the owner of the labels; nothing "
                    "was written: take it out of what the model was made of (names of columns or "
                    "classes), or publish without the model (--without-model)"
                )


def _owners(folder: FolderLedger, record: TrialRecord) -> Iterator[tuple[str, str]]:
    """Texts that must not be in any file, and what each of them is."""
    yield "the hash of the trial", record.hash
    yield "the place of the results", str(folder.path)
    for name in ("path", "tracking_uri", "vault", "sweep_id", "parent_run_id"):
        value = folder.results.identity.get(name)
        if isinstance(value, str):
            yield f"what sweep.json has under {name}", value
    for key, value in record.config.items():
        if isinstance(value, str) and any(mark in value for mark in _OF_PLACES):
            yield f"the value of {key}", value
    for name, value in os.environ.items():
        if any(part in name.upper() for part in _SECRET_NAMES):
            yield f"the value of the environment's {name}", value


def _check_target(to: Path, *, results: Path) -> None:
    if to.is_symlink() or (to.exists() and not to.is_dir()):
        raise ValueError(f"{to} is there and is no folder of its own; choose another --to FOLDER")
    if to.exists() and any(to.iterdir()):
        raise ValueError(
            f"{to} is not empty: what lies there would go out with what is published; choose "
            "another --to FOLDER"
        )
    inside = results.expanduser().resolve()
    if to.resolve().is_relative_to(inside):
        raise ValueError(
            f"{to} lies in the results folder, all of which is the owner's; choose another --to "
            "FOLDER"
        )


def _write(to: Path, files: Mapping[str, bytes]) -> None:
    """Write all of it or nothing."""
    draft = to.with_name(f".{to.name}.{secrets.token_hex(8)}.draft")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
        for name, content in files.items():
            path = draft / name
            path.parent.mkdir(exist_ok=True)
            with open(path, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        draft.replace(to)  # over an empty folder too, and over nothing else
    except OSError as error:
        raise ValueError(
            f"{to} can't be written ({error.strerror}); free the disk, or choose another --to "
            "FOLDER"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
