"""Where features come from: the league that a result is in, and which encoder made its features.

Whoever trains on what an encoder says of images trains on what that encoder has seen, too. A table
that sets such a result beside one without outside data compares what can't be compared, unless it
says so; hence two leagues, and a third word for features that come with no word at all.

>>> made = FeatureProvenance(league=League.PUBLIC_ENCODER, encoder="torchvision:resnet18",
...     weights="a" * 64, trained_on="ImageNet-1k, with its labels", trained_by="torchvision")
>>> made.words.split(", ")[0]
'public encoder: torchvision:resnet18 (weights aaaaaaaa)'
>>> FeatureProvenance.restored(made.described()) == made
True
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

#: Of a text that people see beside results.
LONGEST_TEXT = 200
#: What is said where nobody says it.
UNSAID = "not stated"


class League(StrEnum):
    """What a result's features have seen beside the data set itself.

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
    """What made the features that models see; all of it may be published.

    Attributes:
        league: What they have seen beside the data set.
        encoder: Its address, such as `torchvision:resnet18`; empty where there was none.
        weights: SHA-256 of its weights.
        preparation: What is done to an image before; in words.
        trained_on: What the weights were trained on.
        trained_by: By whom.
    """

    league: League = League.NONE
    encoder: str = ""
    weights: str = ""
    preparation: str = ""
    trained_on: str = ""
    trained_by: str = ""

    def __post_init__(self) -> None:
        """Check that all of it can be shown on a line."""
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
        """Return what `described` was taken of.

        Raises:
            ValueError: An unknown league, or a value that is not text.
        """
        known = [entry.name for entry in fields(cls)]
        return cls(**{name: described[name] for name in known if name in described})

    def same_encoder(self, other: "FeatureProvenance") -> bool:
        """Whether the same encoder with the same weights and preparation made both."""
        mine, others = ((each.encoder, each.weights, each.preparation) for each in (self, other))
        return mine == others


#: Of data sets by name, tables and images as they are.
NO_OUTSIDE_DATA = FeatureProvenance(league=League.NONE)
