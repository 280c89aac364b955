"""Where what leaves the house is put: a folder of its own, searched first, whole or not at all."""

import html
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.folder_ledger import FolderLedger
from labeldp.platform.report.selection import NotPublishable
from labeldp.trainers.models.own_models import OwnModel

#: Text of the owner's that is shorter may stand in a card by chance.
_LONG_ENOUGH = 8
#: What marks text as a place or an address, and not as a word.
_OF_PLACES = ("/", "\\", "@", ":")
#: Parts of names of environment variables that hold what nobody may know.
_SECRET_NAMES = ("TOKEN", "SECRET", "PASS", "PWD", "CREDENTIAL", "KEY", "AUTH")
#: They hold places of this machine, which may be short, and are looked for elsewhere.
_NO_SECRETS = ("PWD", "OLDPWD")
#: A password within an address.
_IN_ADDRESSES = re.compile(r"://[^/@\s:]*:([^/@\s]+)@")


def search(
    files: Mapping[str, bytes], *, folder: FolderLedger, records: Iterable[TrialRecord]
) -> None:
    """Refuse files that hold something of the owner's; no message shows what.

    Args:
        files: Content by name.
        folder: The results that they were made of.
        records: The trials that they were made of.

    Raises:
        NotPublishable: Names the file and what kind of thing is in it.
    """
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
    """Texts that must not be in any file, and what each of them is."""
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
    """Whether a setting is the address of a network of the owner's: it goes with the model.

    Nobody could load the model without; it is a module and a class, and no place on a disk.
    """
    try:
        return key.endswith(".model") and bool(OwnModel(value))
    except ValueError:
        return False


def check_target(to: Path, *, results: Path) -> None:
    """Refuse a folder that can't be handed on as a whole: one that holds something, or is inside.

    Raises:
        ValueError: Says which it is.
    """
    if to.is_symlink() or (to.exists() and not to.is_dir()):
        raise ValueError(f"{to} is there and is no folder of its own; choose another folder")
    if to.exists() and any(to.iterdir()):
        raise ValueError(
            f"{to} is not empty: what lies there would go out with what is published; choose "
            "another folder"
        )
    inside = results.expanduser().resolve()
    if to.resolve().is_relative_to(inside):
        raise ValueError(
            f"{to} lies in the results folder, all of which is the owner's; choose another folder"
        )


def write_folder(to: Path, files: Mapping[str, bytes]) -> None:
    """Write all files, by their places in the folder, or nothing.

    Raises:
        ValueError: The folder can't be written.
    """
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
