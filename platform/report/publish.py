"""Publishing: a folder with a trial's model, card and ledger, or the public page of a sweep.

    run_card.md   what it is and what is guaranteed
    config.json   settings and figures
    ledger.json   what was released of the labels, and what that cost
    model/        the trained model, if one was kept

Every file is made anew of public values (`public_values`); nothing is copied. All of it is searched
for what must not be in it before anything is written, in case one of those has a hole.
"""

import html
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import labeldp
from labeldp.mechanisms.randomness import is_private
from labeldp.platform.records.kept_models import kept_model
from labeldp.platform.records.results import TrialRecord, dumps
from labeldp.platform.report.card import public_card
from labeldp.platform.report.ledger import (
    Audience,
    FolderLedger,
    LedgerLine,
    public_lines,
    read_folder,
    sentences,
)
from labeldp.platform.report.page import page
from labeldp.platform.report.pareto import points
from labeldp.platform.report.public_values import (
    left_out,
    public_digest,
    public_metrics,
    public_model,
    public_record,
    public_records,
)
from labeldp.platform.report.selection import (
    NotPublishable,
    Reservation,
    Selected,
    check_record,
    check_whole,
    cost_of_page,
    failed_rivals,
    keys_cut_off,
    noise_of,
    price_of,
    private_trials,
    selected,
)
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.trainers.models.own_models import OwnModel

PAGE = "report.html"
#: Text of the owner's that is shorter may stand in a card by chance.
_LONG_ENOUGH = 8
#: Signs that text is a place or an address, and not a word.
_OF_PLACES = ("/", "\\", "@", ":")
#: Parts of names of environment variables that hold secrets.
_SECRET_NAMES = ("TOKEN", "SECRET", "PASS", "PWD", "CREDENTIAL", "KEY", "AUTH")
#: They hold places of this machine, which may be short, and are looked for elsewhere.
_NO_SECRETS = ("PWD", "OLDPWD")
#: A password within an address.
_IN_ADDRESSES = re.compile(r"://[^/@\s:]*:([^/@\s]+)@")


@dataclass(frozen=True, kw_only=True)
class Published:
    """The written folder, for the owner.

    `left_out` names what stays. `trial` is the trial's own hash, which is not in the folder, `name`
    its name there. `epsilon_with_choice` is of the releases of all trials that it was chosen among,
    failed ones and those that were cut off included.
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


@dataclass(frozen=True, kw_only=True)
class PublicReport:
    """The public page: its trials, and what all releases cost on which it depends."""

    html: str
    rows: int
    trials: int
    left_out: int
    epsilon: float
    delta: float


def publish(
    results: Path,
    *,
    trial: str,
    to: Path,
    at_epsilon: float | None = None,
    choose_by: ChooseBy | None = None,
    accepted: Collection[Reservation] = (),
    with_model: bool = True,
) -> Published:
    """Write a trial's public folder `to`, which does not exist yet or is empty.

    `trial` begins its hash, or is `best`; the owner has confirmed the `accepted` reservations.

    Raises:
        NotPublishable: The trial, or something of it, must stay with the owner.
    """
    to = to.expanduser().absolute()
    check_target(to, results=results)
    folder = read_folder(results)
    chosen = selected(folder, trial, at_epsilon=at_epsilon, choose_by=choose_by, accepted=accepted)
    noise = noise_of(folder, chosen.record)
    public = public_record(chosen.record, fingerprint=folder.fingerprint, noise=noise)
    files = _files(folder, chosen, public, with_model=with_model)
    search(files, folder=folder, records=[chosen.record])
    write_folder(to, files)
    stays = left_out(chosen.record, public)
    if not any(name.startswith("model/") for name in files):
        stays.append("model: none was kept" if with_model else "model: not wanted")
    return Published(
        folder=str(to),
        files=sorted(files),
        epsilon=chosen.cost.epsilon,
        delta=chosen.cost.delta,
        left_out=stays,
        trial=chosen.record.hash,
        name=public.hash,
        epsilon_with_choice=chosen.together.epsilon,
        delta_with_choice=chosen.together.delta,
        chosen_among=chosen.among,
        doubt=chosen.doubt,
    )


def _files(
    folder: FolderLedger, chosen: Selected, public: TrialRecord, *, with_model: bool
) -> dict[str, bytes]:
    lines = _seen_by(folder, chosen.keys, [chosen.record])
    place = kept_model(folder.path / "models", chosen.record.hash)
    fingerprint, cost = public_digest(folder.fingerprint), chosen.cost
    model: Mapping[str, bytes] = {}
    if with_model and chosen.record.finished and place is not None:
        model = public_model(
            place,
            record=chosen.record,
            public=public,
            fingerprint=fingerprint,
            cost=cost,
            own=chosen.own,
        )
    replaced = chosen.record.canaries and sum(chosen.record.canaries)
    card = public_card(
        public,
        chosen,
        lines,
        fingerprint=fingerprint,
        replaced=replaced,
        num_labels=folder.results.identity.num_labels,
        has_model=bool(model),
    )
    config = {
        "name": public.hash,
        "labeldp": labeldp.__version__,
        "settings": {key: value for key, value in public.config.items() if key != "noise.seed"},
        "features": public.features_from.described(),
        "data": {
            "name": public.config["data.name"],
            "fingerprint": fingerprint,
            "labels": folder.num_labels,
        },
        "figures": {
            **public_metrics(public.metrics),
            **{"epsilon": cost.epsilon, "delta": cost.delta},
        },
        "private": is_private(cost.epsilon, public.noise),
        "noise": public.noise.value,
        "finished": public.finished,
        "labels_replaced_for_audits": replaced,
        "chosen": {
            "by": chosen.by or "named by the owner",
            "among": chosen.among,
            "epsilon": chosen.together.epsilon,
            "delta": chosen.together.delta,
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


def _seen_by(
    folder: FolderLedger, keys: Collection[str], shown: list[TrialRecord]
) -> list[LedgerLine]:
    """Return lines as if only the published trials had read them.

    That another trial has read a line too, a baseline say, tells of that trial: two share a count
    if they predict alike on held-out labels, which a published epsilon does not pay for.
    """
    return [
        replace(
            line, of_baseline=False, readers=tuple(each for each in line.readers if each in shown)
        )
        for line in folder.lines_of(keys)
    ]


def public_report(results: Path, *, to: Path) -> PublicReport:
    """Write the public page of a results folder: its private trials, made of public records.

    Trials on labels without noise are not on it, nor are failed ones: the accuracy of the first,
    and that the second failed, was computed from true labels.

    Raises:
        NotPublishable: The ledger has holes or contradicts a record, or the page would hold what
            must stay with the owner.
    """
    place = to.expanduser().absolute()
    check_target(place, results=results)
    folder = read_folder(results)
    check_whole(folder)
    shown = private_trials(folder)
    if not shown:
        raise ValueError(
            f"{folder.path} has no trial that finished, has an epsilon, and noise without a seed: "
            "there is nothing to show in public"
        )
    for record in shown:
        check_record(folder, record)
    # That a trial is not on the page depends on its releases too.
    decided, cut_off = [*shown, *failed_rivals(folder)], keys_cut_off(folder)
    total = cost_of_page(folder, decided, cut_off=cut_off)
    priced = [_at_its_price(folder, record) if folder.learns else record for record in shown]
    records = public_records(priced, fingerprint=folder.fingerprint)
    keys = {*cut_off, *(key for record in decided for key in folder.keys_behind(record))}
    choose_by = folder.results.identity.choose_by
    ledger: dict[str, Any] = {
        "releases": total.releases,
        "epsilon_total": total.epsilon,
        "epsilon_private": total.epsilon_private,
        "delta": total.delta,
    }
    made = page(
        records,
        title=folder.results.sweep,
        audience=Audience.PUBLIC,
        ledger=ledger,
        releases=sentences(_seen_by(folder, keys, shown), public=True),
        choose_by=choose_by,
    )
    files = {PAGE: made.encode()}
    search(files, folder=folder, records=shown)
    write_folder(place, files)
    return PublicReport(
        html=str(place / PAGE),
        rows=len(points(records, choose_by=choose_by)),
        trials=len(shown),
        left_out=len(folder.results.records) - len(shown),
        epsilon=total.epsilon,
        delta=total.delta,
    )


def _at_its_price(folder: FolderLedger, record: TrialRecord) -> TrialRecord:
    cost = price_of(folder, record)
    metrics = {**record.metrics, "epsilon": cost.epsilon, "delta": cost.delta}
    return replace(record, metrics=metrics)


def search(
    files: Mapping[str, bytes], *, folder: FolderLedger, records: Iterable[TrialRecord]
) -> None:
    """Refuse files that hold something of the owner's (folder, trials); no message shows what."""
    for what, text in _owners(folder, records):
        if len(text) < _LONG_ENOUGH:
            continue
        forms = {text.encode(), json.dumps(text)[1:-1].encode(), html.escape(text).encode()}
        for name, content in files.items():
            if any(form in content for form in forms):
                raise NotPublishable(
                    f"{name} would hold {what}, which stays with the owner of the labels; nothing "
                    "was written: take it out of what was named (columns, classes, variants), or "
                    "publish without the model (--without-model)"
                )


def _owners(folder: FolderLedger, records: Iterable[TrialRecord]) -> Iterator[tuple[str, str]]:
    for record in records:
        yield "the hash of a trial", record.hash
        for key, value in record.config.items():
            place = isinstance(value, str) and any(mark in value for mark in _OF_PLACES)
            if place and not _names_a_network(key, value):
                yield f"the value of {key}", value
    yield "the place of the results", str(folder.path)
    for name, value in folder.results.identity.of_the_owner.items():
        yield f"what sweep.json has under {name}", value
    for name, value in os.environ.items():
        secret = name not in _NO_SECRETS and any(part in name.upper() for part in _SECRET_NAMES)
        for text in (*([value] if secret else []), *_IN_ADDRESSES.findall(value)):
            yield f"the value of the environment's {name}", text


def _names_a_network(key: str, value: str) -> bool:
    """Return whether a setting is the address of a user's network, which goes with the model.

    Without it the model can't be loaded; it is a module and a class, and not a place on a disk.
    """
    try:
        return key.endswith(".model") and bool(OwnModel(value))
    except ValueError:
        return False


def check_target(to: Path, *, results: Path) -> None:
    """Refuse a folder that can't be handed on as a whole: not empty, or in the results."""
    if to.is_symlink() or (to.exists() and not to.is_dir()):
        raise ValueError(f"{to} exists and is not a folder of its own; choose another folder")
    if to.exists() and any(to.iterdir()):
        raise ValueError(
            f"{to} is not empty: what lies there would be handed on with what is published; choose "
            "another folder"
        )
    inside = results.expanduser().resolve()
    if to.resolve().is_relative_to(inside):
        raise ValueError(
            f"{to} lies in the results folder, all of which is the owner's; choose another folder"
        )


def write_folder(to: Path, files: Mapping[str, bytes]) -> None:
    """Write all files, by their places in the folder, or nothing."""
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
            f"{to} can't be written ({error.strerror}); free the disk, or choose another folder"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
