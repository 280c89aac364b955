"""Signatures of ledgers, records and released folders: what is edited afterwards is found.

`signature.json` has the digest of every file that it covers and of every line of the ledgers, and
an ed25519 signature of them all. It is written only where `LABELDP_SIGNING_KEY` names a key. A
signature proves that a holder of the key wrote all of it in one state. It does not prove that this
is the latest state: anybody with write access can put a whole earlier folder back.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from labeldp.platform.vault.vault_store import read_ledger
from labeldp.trainers.data.files import open_regular, read_bytes, replacing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VARIABLE = "LABELDP_SIGNING_KEY"
SIGNATURE = "signature.json"
_PREFIX = b"labeldp signature 1\n"
_MOST_BYTES = 100_000_000
#: Of a results folder or a shared vault: what is never written again. Pages are made of these.
#: Models are covered wherever they are: those of tracking, and any that were put there.
_RECORDS = (
    "sweep.json",
    "trials/*.json",
    "models/**/[!.]*",  # drafts begin with a dot
    "fits/*/fit.json",
    "fits/*/*.npy",
    "**/model.json",
    "**/model.safetensors",
    "**/MLmodel",
)
_LEDGERS = ("vault.db", "fits/*/vault.db")
#: Of a released or published folder, whose signature covers every file.
_HANDED_ON = ("release.json", "*/release.json", "run_card.md")
#: Prime of ed25519's field, and the second coordinates of its points of low order: under such a
#: "public key" anybody can sign.
_PRIME = 2**255 - 19
_OF_EIGHT = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_LOW_ORDER = (0, 1, _PRIME - 1, _OF_EIGHT, _PRIME - _OF_EIGHT)


class Signature(BaseModel):
    """The content of `signature.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1] = 1
    covers: Literal["every file", "records"]  # records also cover the lines of ledgers
    made: str
    entries: dict[str, str]  # file, or line of a ledger -> SHA-256
    public_key: str  # 32 bytes as hexadecimal digits
    signature: str

    @property
    def signed(self) -> bytes:
        """The bytes that the signature is of."""
        return _PREFIX + json.dumps(self.model_dump(exclude={"signature"}), sort_keys=True).encode()

    def is_genuine(self) -> bool:
        """Whether the private key of its `public_key` signed it."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
            if _anybody_signs(self.public_key):
                return False
            key.verify(bytes.fromhex(self.signature), self.signed)
        except (InvalidSignature, ValueError):
            return False
        return True


def _anybody_signs(key: str) -> bool:
    """Whether a key, 64 hexadecimal digits, is a point of low order."""
    coordinate = int.from_bytes(bytes.fromhex(key), "little") % 2**255  # without a sign
    return coordinate % _PRIME in _LOW_ORDER


def signing_key() -> "Ed25519PrivateKey | None":
    """Return the private key in the file that `LABELDP_SIGNING_KEY` names; None where it is unset.

    Raises:
        ValueError: It can't be read, or closed to other users, before anything is released.
    """
    place = os.environ.get(VARIABLE)
    if not place:
        return None
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with suppress(OSError):  # a file that is not there is told below
        mode = os.stat(place).st_mode
        if mode & 0o077:
            os.chmod(place, mode & 0o700)
    try:
        if os.stat(place).st_mode & 0o007:
            raise ValueError("other users can read it: chmod 600")
        key = load_pem_private_key(read_bytes(place), password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"it is a {type(key).__name__}")
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"{VARIABLE} is {place}, which holds no ed25519 key without a password ({error}); make "
            f"one with: openssl genpkey -algorithm ed25519 -out {place}"
        ) from error
    return key


def signed(entries: Mapping[str, str], *, covers: str = "every file") -> bytes | None:
    """Return the `signature.json` of digests; None without a key, or of nothing.

    A signature of nothing would be valid in any folder.
    """
    key = signing_key()
    if key is None or not entries:
        return None
    facts: dict[str, Any] = {
        "covers": covers,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "entries": dict(entries),
        "public_key": key.public_key().public_bytes_raw().hex(),
    }
    draft = Signature(**facts, signature="")
    made = Signature(**facts, signature=key.sign(draft.signed).hex())
    return (made.model_dump_json(indent=1) + "\n").encode()


def with_signature(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a folder that is about to be written, and their signature."""
    made = signed({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    return {**files, **({} if made is None else {SIGNATURE: made})}


def sign_folder(folder: Path, *, records: bool = False, only: Callable[[str], bool] = bool) -> None:
    """Sign a folder, if there is a key: every file, or the records of results or of a vault.

    `only` some of them, by name: a sweep that starts leaves out what it may write again.

    Raises:
        ValueError: Something that was signed before is another now; nothing is signed.
    """
    if signing_key() is None:
        return
    covers = "records" if records else "every file"
    if records:
        refuse_changed(folder)
    found = sorted(_digests(folder, covers))
    made = signed({name: digest for name, digest in found if only(name)}, covers=covers)
    if made is None:  # an earlier one is of what may be written again
        (folder / SIGNATURE).unlink(missing_ok=True)
        return
    with replacing(folder / SIGNATURE) as file:
        file.write(made)


def refuse_changed(folder: Path) -> None:
    """Refuse results or a vault that this key signed, and that are not as they were signed."""
    key = signing_key()
    if key is None or not (folder / SIGNATURE).exists():
        return
    found = verify(folder, key=key.public_key().public_bytes_raw().hex())
    # Models may be removed to free the disk, and others may be saved below a vault, or tracked.
    lasting = ("trials/", "vault.db", "fits/", SIGNATURE)
    changed = (*found["damaged"], *found["edited"])
    bad = [name for name in changed if name.startswith((*lasting, "models/", "sweep.json"))]
    bad += [name for name in found["removed"] if name.startswith(lasting)]
    if bad:
        raise ValueError(
            f"{bad[0]} in {folder} is not as it was signed, so nothing is released or signed "
            f"again; restore it, or remove {folder / SIGNATURE} to accept the change"
        )


def verify(folder: Path, *, key: str | None = None) -> dict[str, Any]:
    """Compare a folder with its signature.

    `key` is the public key that must have signed it: 64 hexadecimal digits, or a PEM file.

    Returns:
        `ok`, `signed_by`, `made`, `entries`, and the names of files and lines that are `edited`,
        `removed` or `added`, or of the signature itself as `damaged`, each with the reason in
        `problems`, as is a signature of nothing, or of other things than the folder holds.
    """
    path = folder / SIGNATURE
    if not path.exists():
        raise ValueError(
            f"{folder} has no {SIGNATURE}: it was never signed, or somebody removed it; labeldp "
            f"signs the folders that it writes if {VARIABLE} names a key"
        )
    wanted = None if key is None else public_key(key)
    facts: dict[str, Any] = {name: [] for name in ("damaged", "edited", "removed", "added")}
    try:
        found = Signature.model_validate_json(read_bytes(path, most_bytes=_MOST_BYTES))
    except ValidationError as error:
        why = f"{SIGNATURE} is damaged ({error.errors()[0]['msg']})"
        return {**facts, "ok": False, "damaged": [SIGNATURE], "problems": [why]}
    problems = []
    if not found.is_genuine():
        problems = [f"{SIGNATURE} was edited: its signature does not match its content"]
    elif wanted not in (None, found.public_key):
        problems = [f"{SIGNATURE} is by key {found.public_key}, not by {wanted}"]
    if problems:
        facts["damaged"] = [SIGNATURE]
    else:
        then = found.entries
        now = dict(sorted(_digests(folder, found.covers)))
        facts["edited"] = [name for name in then if name in now and now[name] != then[name]]
        facts["removed"] = [name for name in then if name not in now]
        facts["added"] = [name for name in now if name not in then]
        problems = [f"{name} was {how}" for how in facts for name in facts[how]]
        problems += _unfit(folder, found)
    return {
        **facts,
        "ok": not problems,
        "signed_by": found.public_key,
        "made": found.made,
        "entries": len(found.entries),
        "problems": problems,
    }


def public_key(key: str) -> str:
    """Return a public key as 64 hexadecimal digits, of these digits or a PEM file."""
    if len(key) == 64 and all(digit in "0123456789abcdef" for digit in key.lower()):
        found = key.lower()
    else:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            loaded = load_pem_public_key(read_bytes(key))
            if not isinstance(loaded, Ed25519PublicKey):
                raise ValueError(f"it is a {type(loaded).__name__}")
        except (OSError, ValueError) as error:
            raise ValueError(
                f"--key is {key}, which is neither 64 hexadecimal digits nor a file with a public "
                f"ed25519 key ({error}); openssl pkey -in PRIVATE.pem -pubout writes one"
            ) from error
        found = loaded.public_bytes_raw().hex()
    if _anybody_signs(found):
        raise ValueError(f"--key is {key}, a point of low order, for which anybody can sign")
    return found


def _unfit(folder: Path, signature: Signature) -> Iterator[str]:
    """Say why a genuine signature proves less than a reader of this folder would think."""
    if not signature.entries:
        yield (
            f"{SIGNATURE} covers nothing, so anything could be in the folder; get the folder from "
            "its writer again"
        )
    if signature.covers == "records":
        for path in (path for pattern in _HANDED_ON for path in folder.glob(pattern)):
            yield (
                f"{path.relative_to(folder)} is of a released or published folder, but {SIGNATURE} "
                "covers the records of results or of a vault only; get the folder from its writer "
                "again, or move it out of the results or the vault"
            )


def _digests(folder: Path, covers: str) -> Iterator[tuple[str, str]]:
    patterns = ("**/*",) if covers == "every file" else _RECORDS
    for path in {path for pattern in patterns for path in folder.glob(pattern)}:
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            yield name, "a link"
        elif name != SIGNATURE and not path.is_dir():
            with open_regular(path) as file:
                yield name, hashlib.file_digest(file, "sha256").hexdigest()
    if covers == "records":
        for path in (path for pattern in _LEDGERS for path in folder.glob(pattern)):
            name = path.relative_to(folder).as_posix()
            for line in read_ledger(path).lines:
                yield f"{name} line {line.position}", line.digest
