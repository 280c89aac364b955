"""Publishing: a folder with a trial's model, card and ledger, or the public page of a sweep.

    run_card.md   the model and its guarantee
    config.json   settings and figures
    ledger.json   what was released of the labels, and what that cost
    model/        the trained model, if one was kept
    nist_sp_800_226.md    the questions of that publication, with a record of a registry

Every file is made anew of named values, and nothing is copied. A value is public because it is
named, never because it was forgotten: metrics one by one in `accuracy_figures.py`, settings here.
Settings of a method are those that its own class declares, and of them numbers, truth values and
words of an enumeration: text is typed by people, and may be a path, a person's name or a password.

A model is read and written anew: a predictor and a preprocessing have fields for what predicts and
for nothing else, so that arrays that no prediction uses, further keys, and notes in a file's header
are gone.

All files are searched for what must not be in them before anything is written, in case one of those
rules has a hole.
"""

import hashlib
import html
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml
from markupsafe import escape

import labeldp
from labeldp.mechanisms.ledger import Budget, shown
from labeldp.mechanisms.randomness import NoiseKind, is_private
from labeldp.platform.records.results import TrialRecord, dumps, kept_model
from labeldp.platform.records.tracking_address import default_uri, file_of
from labeldp.platform.report.card import NIST_PAGE, nist_answers, public_card, registry_record
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
from labeldp.platform.report.selection import (
    Selected,
    check_record,
    check_whole,
    cost_of,
    cost_of_page,
    noise_of,
    price_of,
    rivals_of,
    selected,
)
from labeldp.platform.settings.configuration import EvaluationSettings
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.metrics import PUBLIC, estimate_of
from labeldp.platform.vault.signing import with_signature
from labeldp.trainers.base import PRETRAINED, FeatureSet
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.files import draft_of, make_folder, whole_file
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.models.trained_model import DESCRIPTION, load_model
from labeldp.trainers.settings.training import OwnModel

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
#: A finished record must have the attack's interval, which is the owner's: an empty one.
_NOTHING = {"epsilon_m_low": 0.0, "epsilon_m_high": math.inf}
#: Settings whose values are numbers, truth values or nothing.
_PLAIN_SETTINGS = (
    "seed",
    "data.limit",
    "noise.secure",
    "noise.draw",
    "evaluation.held_out_share",
    "evaluation.epsilon",
)
#: Published as their sum.
_REPLACED = ("audit.canaries", "audit.coin_canaries")
#: Where an architecture and a preprocessing may hold text: words of ours, and names of public
#: columns and of their categories.
_WORDS = {
    "architecture": ("kind", "model", "precision", "view"),
    "preprocessing": ("kind", "name", "names", "categories", "form"),
}
_HASH = re.compile(r"[0-9a-f]{8,64}")
_NAME = re.compile(r"(setting|figure) [a-z][a-z0-9_./]{0,60}")


def publish(
    results: Path,
    *,
    trial: str,
    to: Path,
    with_model: bool = True,
    allow_code: str | None = None,
    registry: Path | None = None,
    register: str | None = None,
    **choice: Any,
) -> dict[str, Any]:
    """Write a trial's public folder.

    Args:
        results: Results folder of a sweep.
        trial: Beginning of its hash, or `best`.
        to: Folder that does not exist yet or is empty.
        with_model: Whether to publish the model too.
        allow_code: As of `load_model`.
        registry: New file for a record of OpenDP's registry (`registry_record`).
        register: Name in MLflow's registry of models.
        **choice: As of `selected`.

    Returns:
        Facts for the owner. `left_out` names what stays; `trial` is the trial's own hash, which is
        not in the folder, `name` its name there; `epsilon_with_choice` is of the releases of all
        trials that it was chosen among, failed ones and those that were cut off included.

    Raises:
        ValueError: The trial, or something of it, must stay with the owner.
    """
    to = to.expanduser().absolute()
    # Before the work: a folder that exists could hold what was published of another trial.
    check_target(to, results=results)
    if registry is not None and (registry.exists() or not registry.parent.is_dir()):
        raise ValueError(f"--registry is {registry}; name a new file, in a folder that exists")
    folder = read_folder(results)
    chosen = selected(folder, trial, **choice)
    noise = noise_of(folder, chosen.record)
    public = public_record(chosen.record, fingerprint=folder.fingerprint, noise=noise)
    # All releases on which the trial depends, not only those that it read.
    lines = _seen_by(folder, folder.keys_behind(chosen.record), [chosen.record])
    files = _files(folder, chosen, public, lines, with_model=with_model, allow_code=allow_code)
    has_model = "model/model.json" in files
    record = b""
    if registry is not None:
        found = registry_record(public, chosen, lines, has_model=has_model)
        record = yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=100).encode()
        files[NIST_PAGE] = nist_answers(found, noise=public.noise).encode()
    # A second look at the bytes: whatever was forgotten above is refused here.
    search({**files, "the registry's record": record}, folder=folder, records=[chosen.record])
    register_as = None
    if register is not None:
        if allow_code or not has_model:
            raise ValueError(
                f"--register is {register!r}, but MLflow would find no model that it can load: "
                "none was kept, --without-model leaves it out, or its network is your own code"
            )
        register_as = _registration(folder, register, trial=chosen.record.hash)
    write_folder(to, with_signature(files))
    registered = None
    try:
        if registry is not None:
            with whole_file(registry) as file:
                file.write(record)
        if register_as is not None:
            tags = {"epsilon": chosen.cost.epsilon, "delta": chosen.cost.delta}
            registered = register_as(to / "model", files["run_card.md"].decode(), tags)
    except (OSError, ValueError):
        shutil.rmtree(to)  # all of it, or nothing
        if registry is not None:
            with suppress(OSError):
                registry.unlink()
        raise
    stays = left_out(chosen.record, public)
    if not has_model:
        stays.append("model: none was kept" if with_model else "model: not wanted")
    return {
        "folder": str(to),
        "files": sorted(files),
        "epsilon": chosen.cost.epsilon,
        "delta": chosen.cost.delta,
        "left_out": stays,
        "trial": chosen.record.hash,
        "name": public.hash,
        "epsilon_with_choice": chosen.together.epsilon,
        "delta_with_choice": chosen.together.delta,
        "chosen_among": chosen.among,
        "doubt": chosen.doubt,
        "registered": registered,
    }


def _registration(folder: FolderLedger, name: str, *, trial: str) -> Callable[..., str]:
    from labeldp.platform.records.tracking import registration  # MLflow takes seconds

    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(folder.path)
    store = file_of(uri)
    if store is not None and not store.exists():  # MLflow would make one
        raise ValueError(
            f"{store} does not exist; set MLFLOW_TRACKING_URI to the sweep's tracking store, "
            f"{folder.identity.tracking_uri}"
        )
    run = folder.identity.parent_run_id or ""
    return registration(uri, name, parent_run_id=run, trial=trial)


def _files(
    folder: FolderLedger,
    chosen: Selected,
    public: TrialRecord,
    lines: list[LedgerLine],
    *,
    with_model: bool,
    allow_code: str | None,
) -> dict[str, bytes]:
    place = kept_model(folder.path / "models", chosen.record.hash)
    fingerprint = public_digest(folder.fingerprint)
    cost = chosen.cost
    model: Mapping[str, bytes] = {}
    if with_model and chosen.record.finished and place is not None:
        model = public_model(folder, chosen, public, place=place, allow_code=allow_code)
    replaced = chosen.record.canaries and sum(chosen.record.canaries)
    figures = public_metrics(public.metrics)
    if (estimate := estimate_of(figures)) is not None:
        ends = estimate.interval(choices=chosen.among)  # as on the card
        figures |= zip(("accuracy_estimated_low", "accuracy_estimated_high"), ends, strict=True)
    card = public_card(
        public,
        chosen,
        lines,
        fingerprint=fingerprint,
        replaced=replaced,
        num_labels=folder.identity.num_labels,
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
            "labels": folder.identity.all_labels,
        },
        "figures": {**figures, "epsilon": cost.epsilon, "delta": cost.delta},
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
        "config.json": f"{dumps(config, indent=1)}\n".encode(),
        "ledger.json": f"{dumps({'releases': public_lines(lines)}, indent=1)}\n".encode(),
        **{f"model/{name}": content for name, content in model.items()},
    }


def _seen_by(
    folder: FolderLedger, keys: Collection[str], records: list[TrialRecord]
) -> list[LedgerLine]:
    """Return lines as if only the published trials had read them.

    Another reader of a line, such as a baseline, reveals that trial: two share a count
    if they predict alike on held-out labels, which a published epsilon does not pay for.
    """
    return [
        replace(
            line, of_baseline=False, readers=tuple(each for each in line.readers if each in records)
        )
        for line in folder.lines_of(keys)
    ]


def public_report(results: Path, *, to: Path) -> dict[str, Any]:
    """Write the public page of a results folder: its private trials, made of public records.

    Trials on labels without noise are not on it, nor are failed ones: the accuracy of the first,
    and that the second failed, was computed from true labels.

    Returns:
        Facts for the owner; `epsilon` at `delta` is the price of all releases on which it depends.

    Raises:
        ValueError: The ledger has holes or contradicts a record, or the page would hold what
            must stay with the owner.
    """
    place = to.expanduser().absolute()
    check_target(place, results=results)
    folder = read_folder(results)
    check_whole(folder)
    shown, failed, cut_off = rivals_of(folder)
    if not shown:
        raise ValueError(
            f"{folder.path} has no finished trial with an epsilon and unseeded noise, so there is "
            "nothing to publish"
        )
    for record in shown:
        check_record(folder, record)
    # That a trial is not on the page depends on its releases too.
    total = cost_of_page(folder, [*shown, *failed], cut_off=cut_off)
    priced = [_at_its_price(folder, record) if folder.learns else record for record in shown]
    records = public_records(priced, fingerprint=folder.fingerprint)
    behind = (key for record in (*shown, *failed) for key in folder.keys_behind(record))
    choose_by = folder.identity.choose_by
    made = page(
        records,
        title=folder.sweep,
        audience=Audience.PUBLIC,
        ledger={
            "releases": total.releases,
            "epsilon_total": total.epsilon,
            "epsilon_private": total.epsilon_private,
            "delta": total.delta,
        },
        releases=sentences(_seen_by(folder, {*cut_off, *behind}, shown), public=True),
        choose_by=choose_by,
    )
    files = {PAGE: made.encode()}
    search(files, folder=folder, records=shown)
    write_folder(place, with_signature(files))
    return {
        "html": str(place / PAGE),
        "rows": len(points(records, choose_by=choose_by)),
        "trials": len(shown),
        "left_out": len(folder.records) - len(shown),
        "epsilon": total.epsilon,
        "delta": total.delta,
    }


def _at_its_price(folder: FolderLedger, record: TrialRecord) -> TrialRecord:
    cost = price_of(folder, record)
    metrics = {**record.metrics, "epsilon": cost.epsilon, "delta": cost.delta}
    if cost.epsilon > record.metrics["epsilon"]:
        metrics.pop("gaussian_mu", None)
    return replace(record, metrics=metrics)


def search(
    files: Mapping[str, bytes], *, folder: FolderLedger, records: Iterable[TrialRecord]
) -> None:
    """Refuse files that hold something of the owner's (folder, trials); no message shows what."""
    for what, text in _owners(folder, records):
        if len(text) < _LONG_ENOUGH:
            continue
        # As each kind of file writes it, and figures within a page.
        marked = (html.escape(text), html.escape(text, quote=False), str(escape(text)))
        forms = {form.encode() for form in (text, json.dumps(text)[1:-1], *marked)}
        for name, content in files.items():
            if any(form in content for form in forms):
                raise ValueError(
                    f"{name} would contain {what}, which is for the owner of the labels only; "
                    "nothing was written. Remove it from the names of columns, classes and "
                    "variants, or publish without the model (--without-model)"
                )


def _owners(folder: FolderLedger, records: Iterable[TrialRecord]) -> Iterator[tuple[str, str]]:
    for record in records:
        yield "the hash of a trial", record.hash
        for key, value in record.config.items():
            place = isinstance(value, str) and any(mark in value for mark in _OF_PLACES)
            if place and not _names_a_network(key, value):
                yield f"the value of {key}", value
    yield "the place of the results", str(folder.path)
    for name, value in folder.identity.of_the_owner.items():
        yield f"what sweep.json has under {name}", value
    for name, value in os.environ.items():
        secret = name not in _NO_SECRETS and any(part in name.upper() for part in _SECRET_NAMES)
        for text in (*([value] if secret else []), *_IN_ADDRESSES.findall(value)):
            yield f"the value of the environment's {name}", text


def _names_a_network(key: str, value: str) -> bool:
    """Return whether a setting names a network without a place on a disk: the card shows it, too.

    A user's own is a module and a class; without it the model can't be loaded.
    """
    if key.endswith(".encoder") and value.startswith(PRETRAINED):
        return True
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
            f"{to} is not empty, and its content would be published too; choose another folder"
        )
    inside = results.expanduser().resolve()
    if to.resolve().is_relative_to(inside):
        raise ValueError(
            f"{to} is inside the results folder, which is for the owner only; choose another folder"
        )


def write_folder(to: Path, files: Mapping[str, bytes]) -> None:
    """Write all files, by their places in the folder, or nothing."""
    draft = draft_of(to)
    try:
        make_folder(draft)
        for name, content in files.items():
            path = draft / name
            make_folder(path.parent)
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


def public_record(
    record: TrialRecord, *, fingerprint: str, noise: NoiseKind | None = None
) -> TrialRecord:
    """Return the public values of a trial, by its public name.

    That name is made of public values only. A trial's own hash is made of all its settings, so that
    a reader could check guesses of those that stay (a seed, a path). Names of variants stay, for
    pages show them; published folders don't. `noise` is its source by the ledger; None: by the
    record.
    """
    config = public_config(record.config)
    for key, what in (("method", "method"), ("data.name", "data set")):
        if key not in config:
            raise ValueError(
                f"trial {record.hash} has a {what} that is unknown here, and so are its public "
                "settings; install the package that provides it"
            )
    releases = [key for key in record.release_keys if _HASH.fullmatch(key)]
    known = [config, public_digest(fingerprint), sorted(releases)]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    # A record's noise is read off its seed; which seed that was stays.
    seeded = (noise or record.noise) is NoiseKind.SEEDED
    return TrialRecord(
        hash=digest[:16],
        variant=record.variant,
        config={"noise.seed": "withheld" if seeded else None, **config},
        point={key: config[key] for key in record.point if key in config},
        finished=record.finished,
        reason="" if record.finished else "it failed; the reason is for the owner of the labels",
        metrics={**public_metrics(record.metrics), **(_NOTHING if record.finished else {})},
        release_keys=releases,
        features=record.features,
    )


def public_records(records: Iterable[TrialRecord], *, fingerprint: str) -> list[TrialRecord]:
    """Return public records, each under a name of its own."""
    found: dict[str, TrialRecord] = {}
    for record in records:
        public = public_record(record, fingerprint=fingerprint)
        # Trials may differ in nothing that is public.
        number = sum(each.startswith(public.hash) for each in found)
        name = f"{public.hash}-{number + 1}" if number else public.hash
        found[name] = replace(public, hash=name)
    return list(found.values())


def public_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the figures that anybody may see."""
    return {name: metrics[name] for name in PUBLIC if name in metrics}


def public_digest(text: str) -> str:
    """Return the text if it is a digest, else nothing."""
    return text if _HASH.fullmatch(text) else ""


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that anybody may see; enumerations are their values."""
    found: dict[str, Any] = {}
    if config.get("method") in METHODS:
        found["method"] = config["method"]
    if config.get("data.name") in DATASETS:
        found["data.name"] = config["data.name"]
    named: dict[str, Any] = {key: float | int | bool | None for key in _PLAIN_SETTINGS}
    named["data.features"] = FeatureSet
    named["data.hold_out"] = HoldOut | None
    for name in ("estimate", "checkpoint"):
        named[f"evaluation.{name}"] = get_type_hints(EvaluationSettings)[name]
    if "method" in found:
        named |= dict(_declared("trainer.", METHODS[found["method"]]))
    return found | {
        key: config[key]
        for key, kind in named.items()
        if key in config and _fits(config[key], kind)
    }


def _declared(prefix: str, settings: type) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(settings)
    for entry in fields(settings):
        kind = hints[entry.name]
        if is_dataclass(kind):
            assert isinstance(kind, type)
            yield from _declared(f"{prefix}{entry.name}.", kind)
        else:
            yield f"{prefix}{entry.name}", kind


def _fits(value: object, kind: object) -> bool:
    """Whether a value is of a type that can hold no text but words of an enumeration."""
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        each = get_args(kind)[0]
        return isinstance(value, list | tuple) and all(_fits(item, each) for item in value)
    if kind in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return value in [each.value for each in kind]
    return kind in (bool, NoneType) and isinstance(value, kind)


def left_out(record: TrialRecord, public: TrialRecord) -> list[str]:
    """Return what stays of a trial, by name and never by value; empty settings are not listed."""
    kept = {*public.config, *_REPLACED} - {"noise.seed"}
    settings = [f"setting {k}" for k, v in record.config.items() if k not in kept and v is not None]
    figures = [f"figure {name}" for name in record.metrics if name not in PUBLIC]
    # Names are ours, unless the record was written by hand: those are counted only.
    named = [each for each in (*settings, *figures) if _NAME.fullmatch(each)]
    more = len(settings) + len(figures) - len(named)
    parts = ("curves", "reason", "git_commit", "environment")
    whole = [name for name in parts if getattr(record, name)]
    others = [f"{more} more settings and figures"] if more else []
    return [*named, *others, "name of the variant", "hash of the trial", *whole]


def public_model(
    folder: FolderLedger,
    chosen: Selected,
    public: TrialRecord,
    *,
    place: Path,
    allow_code: str | None = None,
) -> dict[str, bytes]:
    """Return the files of a trial's model in the folder `place` as they are published, by name.

    Raises:
        ModelFileError: It can't be read.
        ValueError: It is another trial's, or holds text where none belongs.
    """
    record = chosen.record
    # The model states the price of what it read itself.
    own = cost_of(folder, [record])
    model = load_model(place, allow_code=allow_code)
    origin = model.origin
    config = public.config
    facts: dict[str, tuple[Any, Any]] = {
        "trial": (origin.trial, record.hash),
        "method": (origin.method, config["method"]),
        "data.name": (origin.data_name, config["data.name"]),
        "data.fingerprint": (origin.fingerprint, public_digest(folder.fingerprint)),
        "seed": (origin.seed, config.get("seed")),
        "noise": (origin.noise, record.noise),
    }
    if record.features:  # a trial without an encoder has none
        facts["features"] = (origin.provenance.described(), dict(record.features))
    for name, (stated, known) in facts.items():
        if stated != known:
            raise ValueError(
                f"the model in {place} is not that of trial {record.hash}: its {name} is another "
                "one; put the right folder there, or publish without it (--without-model)"
            )
    if not Budget(epsilon=origin.epsilon, delta=origin.delta).allows(own.epsilon):
        raise ValueError(
            f"the model in {place} states that it cost epsilon {origin.epsilon:g}, and by the "
            f"ledger its releases cost {shown(own.epsilon, 6)}; find out which is right before you "
            "publish anything"
        )
    origin = replace(
        origin,
        trial=public.hash,
        epsilon=chosen.cost.epsilon,
        delta=chosen.cost.delta,
        noise=public.noise,
    )
    files = replace(model, origin=origin).files()
    described = json.loads(files[DESCRIPTION])
    for part, allowed in _WORDS.items():
        key = _text_elsewhere(described[part], allowed)
        if key is not None:
            raise ValueError(
                f"{place / DESCRIPTION} holds text in {part}.{key}, where a model has none; "
                "train the model again, or publish without it (--without-model)"
            )
    return files


def _text_elsewhere(value: object, allowed: tuple[str, ...], key: str = "") -> str | None:
    if isinstance(value, str):
        return None if key in allowed else key
    if isinstance(value, Mapping):
        inner = [(str(name), part) for name, part in value.items()]
    else:
        inner = [(key, part) for part in value] if isinstance(value, list) else []
    found = (_text_elsewhere(part, allowed, name) for name, part in inner)
    return next((place for place in found if place is not None), None)
