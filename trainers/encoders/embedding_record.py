"""What lies beside a file of features: `FEATURES.npy.json`, which says what made them, and of what.

The file is known again by its hash: another one under the same name is refused, since what is said
beside it would be said of the wrong features.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import labeldp
from labeldp.trainers.data.regular_files import FileRefused, open_regular, read_bytes
from labeldp.trainers.encoders.provenance import FeatureProvenance

#: Of the record; counted up when an older version could not read it any more.
FORMAT = 1
#: What is put after the name of the file of features.
ENDING = ".json"
_MOST_BYTES = 1 << 62


class EmbeddingRefused(ValueError):
    """Features, or what is said of them, that can't be used; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecord:
    """What is said of a file of features.

    Attributes:
        provenance: What made them.
        preparation: What was done to an image before, in full.
        inputs: SHA-256 of the images.
        rows: How many features there are, N.
        dimensions: Numbers in each, D.
        dtype: Of the numbers.
        key: Hash of encoder, weights, preparation, inputs and type: of equal ones, features are.
        sha256: Of the file.
    """

    provenance: FeatureProvenance
    preparation: Mapping[str, Any]
    inputs: str
    rows: int
    dimensions: int
    dtype: str
    key: str
    sha256: str

    def write(self, file: Path) -> None:
        """Write it beside a file of features, whole.

        Raises:
            OSError: It can't be written.
        """
        said = {"format": FORMAT, "labeldp": labeldp.__version__, **asdict(self)}
        said["provenance"] = self.provenance.described()
        place = record_place(file)
        draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
        try:
            draft.write_text(json.dumps(said, indent=1) + "\n")
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)

    def check(self, file: Path) -> None:
        """Refuse another file than the one that this was written of.

        Raises:
            EmbeddingRefused: It is another one.
        """
        found = sha256_of(file)
        if found != self.sha256:
            raise EmbeddingRefused(
                f"{file} has SHA-256 {found[:16]}..., and {record_place(file).name} beside it was "
                f"written of a file with {self.sha256[:16]}...: another file lies under that name, "
                "or it is damaged; put the right one there, make it again (`labeldp embed ... "
                "--replace`), or, if it was made elsewhere, take the .json away"
            )


def record_place(file: Path) -> Path:
    """Return where the record of a file of features lies."""
    return file.with_name(file.name + ENDING)


def record_beside(file: Path) -> EmbeddingRecord | None:
    """Return what lies beside a file; None for features that come without a word.

    Raises:
        EmbeddingRefused: What lies there is no such record.
    """
    place = record_place(file)
    if not os.path.lexists(place):
        return None
    try:
        said = json.loads(read_bytes(place))
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise ValueError("it is of no format that this labeldp reads")
        return EmbeddingRecord(
            provenance=FeatureProvenance.restored(said["provenance"]),
            preparation=dict(said["preparation"]),
            inputs=str(said["inputs"]),
            rows=int(said["rows"]),
            dimensions=int(said["dimensions"]),
            dtype=str(said["dtype"]),
            key=str(said["key"]),
            sha256=str(said["sha256"]),
        )
    except (
        *(AttributeError, FileRefused, KeyError, OSError),
        *(RecursionError, TypeError, ValueError),
    ) as error:
        raise EmbeddingRefused(
            f"{place} should say what made {file.name}, and can't be read ({error}); make the "
            "features again (`labeldp embed ... --replace`), or take it away"
        ) from error


def checked_record(file: Path) -> EmbeddingRecord | None:
    """Return what lies beside a file that is the one it was written of; None where nothing lies.

    Raises:
        EmbeddingRefused: It is of another file, or can't be read.
        FileRefused: The file of features is no file.
    """
    record = record_beside(file)
    if record is not None:
        record.check(file)
    return record


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file that may be larger than memory."""
    with open_regular(file, most_bytes=_MOST_BYTES) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
