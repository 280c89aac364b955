"""The league that a result is in, and the record of the encoder that made its features.

Training on an encoder's vectors is training on all that the encoder has seen. Results with and
without such outside data can't be compared; hence the leagues. `FEATURES.npy.json`, beside a file
of features, states how they were made, and is refused beside another file.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

import labeldp
from labeldp.trainers.data.files import open_regular, read_bytes, whole_file

#: Of a text that people see beside results.
LONGEST_TEXT = 200
#: Stands for an origin that is unknown.
UNSAID = "not stated"
#: Features may be larger than memory.
_MOST_BYTES = 1 << 62


class League(StrEnum):
    """The outside data that a result's features have seen.

    NONE: nothing. PUBLIC_ENCODER: what an encoder was trained on; also where that is not
    stated. NOT_STATED: the user's own matrix of numbers, with nothing beside it.
    """

    NONE = "none"
    PUBLIC_ENCODER = "public-encoder"
    NOT_STATED = "not-stated"

    @property
    def words(self) -> str:
        """As people read it."""
        return _WORDS[self]


_WORDS = {
    League.NONE: "no outside data",
    League.PUBLIC_ENCODER: "public encoder",
    League.NOT_STATED: "not stated (features of the user's own, without a record of their origin)",
}


@dataclass(frozen=True, kw_only=True)
class FeatureProvenance:
    """The origin of the features that models see; all of it may be published.

    `weights` is their SHA-256.
    """

    league: League = League.NONE
    encoder: str = ""
    weights: str = ""
    preparation: str = ""
    trained_on: str = ""
    trained_by: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "league", League(self.league))
        for entry in fields(self):
            text = getattr(self, entry.name)
            if not isinstance(text, str) or len(text) > LONGEST_TEXT or not text.isprintable():
                raise ValueError(
                    f"{entry.name} is {text!r:.80}; it is shown beside results, and must be one "
                    f"line of {LONGEST_TEXT} characters at most"
                )

    @property
    def words(self) -> str:
        """League, encoder and training in a line."""
        if not self.encoder:
            return self.league.words
        trained = f"trained on {self.trained_on or UNSAID}, by {self.trained_by or UNSAID}"
        return f"{self.league.words}: {self.encoder} (weights {self.weights[:8]}), {trained}"

    def described(self) -> dict[str, str]:
        """Return the fields that are set, for JSON."""
        return {
            entry.name: str(value) for entry in fields(self) if (value := getattr(self, entry.name))
        }

    @classmethod
    def restored(cls, described: Mapping[str, Any]) -> "FeatureProvenance":
        """Return what `described` was taken of."""
        known = [entry.name for entry in fields(cls)]
        return cls(**{name: described[name] for name in known if name in described})

    def same_encoder(self, other: "FeatureProvenance") -> bool:
        """Whether the same encoder with the same weights and preparation made both."""
        mine, others = ((each.encoder, each.weights, each.preparation) for each in (self, other))
        return mine == others


#: Of data sets by name, tables and images as they are.
NO_OUTSIDE_DATA = FeatureProvenance(league=League.NONE)


class EmbeddingRefused(ValueError):
    """Features, or a record of them, that can't be used; the message names the fix."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecord:
    """How a file of features was made.

    `inputs` is the SHA-256 of the images, `key` a hash of all that decides the features, `sha256`
    that of the file.
    """

    provenance: FeatureProvenance
    inputs: str
    rows: int
    dimensions: int
    key: str
    sha256: str
    labeldp: str = labeldp.__version__
    format: Literal[1] = 1

    def write(self, file: Path) -> None:
        """Write it beside a file of features, whole."""
        with whole_file(record_place(file)) as opened:
            opened.write(TypeAdapter(EmbeddingRecord).dump_json(self, indent=1))


def record_place(file: Path) -> Path:
    """Return where the record of a file of features lies."""
    return file.with_name(file.name + ".json")


def checked_record(file: Path) -> EmbeddingRecord | None:
    """Return the record beside a file, which was written of this file; None without a record."""
    place = record_place(file)
    if not os.path.lexists(place):
        return None
    try:
        record = TypeAdapter(EmbeddingRecord).validate_json(read_bytes(place))
    except (OSError, ValueError) as error:
        raise EmbeddingRefused(
            f"{place} should name what made {file.name}, and can't be read "
            f"({' '.join(str(error).split())[:200]}); make the features again (`labeldp embed ... "
            "--replace`), or take it away"
        ) from error
    found = sha256_of(file)
    if found != record.sha256:
        raise EmbeddingRefused(
            f"{file} has SHA-256 {found[:16]}..., and {place.name} beside it was written of a file "
            f"with {record.sha256[:16]}...: another file lies under that name, or it is damaged; "
            "put the right one there, make it again (`labeldp embed ... --replace`), or, if it was "
            "made elsewhere, take the .json away"
        )
    return record


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file that may be larger than memory."""
    with open_regular(file, most_bytes=_MOST_BYTES) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
