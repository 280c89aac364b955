"""The league that a result is in, and the record of the encoder that made its features.

Training on an encoder's vectors is training on all that the encoder has seen. Results with and
without such outside data can't be compared; hence the leagues. `FEATURES.npy.json`, beside a file
of features, states their making, and is refused beside another file.

>>> made = FeatureProvenance(league=League.PUBLIC_ENCODER, encoder="torchvision:resnet18",
...     weights="a" * 64, trained_on="ImageNet-1k, with its labels", trained_by="torchvision")
>>> made.words.split(", ")[0]
'public encoder: torchvision:resnet18 (weights aaaaaaaa)'
>>> FeatureProvenance.restored(made.described()) == made
True
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import labeldp
from labeldp.trainers.data.files import FileRefused, open_regular, read_bytes, whole_file

#: Of a text that people see beside results.
LONGEST_TEXT = 200
#: Stands for an origin that is unknown.
UNSAID = "not stated"


class League(StrEnum):
    """Outside data behind a result's features.

    NONE: nothing. PUBLIC_ENCODER: what an encoder was trained on; also where nobody says what that
    was. NOT_STATED: the user's own matrix of numbers, with nothing beside it.
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
    League.NOT_STATED: "not stated (features of the user's own, nothing said of their making)",
}


@dataclass(frozen=True, kw_only=True)
class FeatureProvenance:
    """The encoder of the features that models see; all of it may be published.

    Attributes:
        weights: SHA-256 of its weights.
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
        """All of it that people want to know, in a line."""
        if not self.encoder:
            return self.league.words
        trained = f"trained on {self.trained_on or UNSAID}, by {self.trained_by or UNSAID}"
        return f"{self.league.words}: {self.encoder} (weights {self.weights[:8]}), {trained}"

    def described(self) -> dict[str, str]:
        """Return what is said, as JSON has it."""
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


#: Of the record.
FORMAT = 1
#: Features may be larger than memory.
_MOST_BYTES = 1 << 62


class EmbeddingRefused(ValueError):
    """Features, or what is said of them, that can't be used; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecord:
    """The making of a file of features.

    Attributes:
        inputs: SHA-256 of the images.
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
        """Write it beside a file of features, whole."""
        said = {"format": FORMAT, "labeldp": labeldp.__version__, **asdict(self)}
        said["provenance"] = self.provenance.described()
        with whole_file(record_place(file)) as opened:
            opened.write(f"{json.dumps(said, indent=1)}\n".encode())

    def check(self, file: Path) -> None:
        """Refuse another file than the one that this was written of."""
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
    return file.with_name(file.name + ".json")


def record_beside(file: Path) -> EmbeddingRecord | None:
    """Return what lies beside a file; None for features that come without a word."""
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
    """Return what lies beside a file that is the one it was written of; None where nothing lies."""
    record = record_beside(file)
    if record is not None:
        record.check(file)
    return record


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file that may be larger than memory."""
    with open_regular(file, most_bytes=_MOST_BYTES) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
