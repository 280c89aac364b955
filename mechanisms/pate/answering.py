"""A PATE answering service in one process, and what it can do against the vote-leakage attack.

The attack (`vote_leakage`) lives on fresh noise: the same question, asked again, gives another
sample of the same votes. Each defence here takes that away in its own way:

| defence | the same input asked again | what remains |
|---|---|---|
| `FreshNoise` | new noise each time | everything: the attack works |
| `CachedAnswers` | the first answer | memory for each input; one answer each |
| `NoiseKeyedByInput` | the same noise, from a secret key | one answer each, by every replica |
| `AnswerLimit` | new noise up to a limit, then no answer | as much as that many answers tell |

All of them recognize an input by a fingerprint. Who may change an input a little without changing
the votes asks a "new" question each time, so `fingerprint` should send inputs that mean the same to
the same bytes, and no defence replaces the privacy budget, which every fresh draw must be charged
to. `AnsweringService.drawn` counts them.
"""

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import Array, as_numpy
from labeldp.mechanisms.randomness import KEY_BYTES, cryptographic_generator

#: The label that stands for "no answer", as the aggregators have it.
NO_ANSWER = -1

Draw = Callable[[np.random.Generator | None], int]


class Answerer(Protocol):
    """Whatever turns votes into noisy labels: GNMax and its kin."""

    def answer(self, votes: NDArray[Any], *, generator: np.random.Generator) -> Any:
        """Return labels [N] for votes [N, K], -1 where there is no answer."""


@dataclass(frozen=True, kw_only=True)
class FreshNoise:
    """No defence: every question is answered with new noise."""

    def respond(self, fingerprint: bytes, earlier: Sequence[int], draw: Draw) -> int:
        """Answer one question, given earlier answers about the same input."""
        return draw(None)


@dataclass(frozen=True, kw_only=True)
class CachedAnswers:
    """The first answer about an input is the only one, "no answer" included."""

    def respond(self, fingerprint: bytes, earlier: Sequence[int], draw: Draw) -> int:
        """Answer one question, given earlier answers about the same input."""
        return earlier[0] if earlier else draw(None)


@dataclass(frozen=True, kw_only=True)
class NoiseKeyedByInput:
    """The noise is a keyed hash of the input: same input, same noise, nothing to remember.

    Attributes:
        key: Secret, at least 16 bytes, such as `secrets.token_bytes(32)`. Who knows it can subtract
            the noise, so it must be guarded like the labels, and replaced when the votes change.
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check the key's length."""
        if not isinstance(self.key, bytes) or len(self.key) < 16:
            raise ValueError(
                "key must be at least 16 secret bytes, such as secrets.token_bytes(32): noise from "
                "a key that can be guessed can be subtracted"
            )

    def respond(self, fingerprint: bytes, earlier: Sequence[int], draw: Draw) -> int:
        """Answer one question, given earlier answers about the same input."""
        digest = hmac.digest(self.key, fingerprint, "sha256")
        return draw(cryptographic_generator(digest[:KEY_BYTES]))


@dataclass(frozen=True, kw_only=True)
class AnswerLimit:
    """New noise each time, but at most `answers` answers about one input.

    Attributes:
        answers: How many, at least 1.
    """

    answers: int

    def __post_init__(self) -> None:
        """Check the limit."""
        _validate.whole(minimum=1, answers=self.answers)

    def respond(self, fingerprint: bytes, earlier: Sequence[int], draw: Draw) -> int:
        """Answer one question, given earlier answers about the same input."""
        return NO_ANSWER if len(earlier) >= self.answers else draw(None)


Defence = FreshNoise | CachedAnswers | NoiseKeyedByInput | AnswerLimit


def exact_fingerprint(features: NDArray[Any]) -> bytes:
    """Digest of an input's type, shape and bytes: only the very same input has it again."""
    contiguous = np.ascontiguousarray(features)
    header = f"{contiguous.dtype.str}{contiguous.shape}".encode()
    return hashlib.sha256(header + contiguous.tobytes()).digest()


class AnsweringService:
    """Answers questions about inputs from an ensemble's votes, behind one defence.

    Args:
        vote: The ensemble: features [N, ...] -> votes [N, K].
        aggregator: What makes noisy labels of votes.
        defence: What happens when an input comes again.
        generator: Source of fresh noise.
        fingerprint: How an input is recognized.
    """

    def __init__(
        self,
        *,
        vote: Callable[[NDArray[Any]], NDArray[Any]],
        aggregator: Answerer,
        defence: Defence,
        generator: np.random.Generator,
        fingerprint: Callable[[NDArray[Any]], bytes] = exact_fingerprint,
    ) -> None:
        self._vote = vote
        self._aggregator = aggregator
        self._defence = defence
        self._generator = generator
        self._fingerprint = fingerprint
        self._earlier: defaultdict[bytes, list[int]] = defaultdict(list)
        self._drawn = 0

    @property
    def drawn(self) -> int:
        """How many different noise draws were made: what the privacy budget must pay for."""
        return self._drawn

    def answer(self, features: Array) -> NDArray[np.int64]:
        """Answer questions [N, ...] in order; labels [N], -1 where there is no answer.

        Raises:
            ValueError: No question, or an ensemble that returns another number of rows.
        """
        inputs = as_numpy(features)
        if inputs.ndim == 0 or len(inputs) == 0:
            raise ValueError(f"features has shape {inputs.shape}; at least one input is needed")
        votes = self._vote(inputs)
        if votes.ndim != 2 or len(votes) != len(inputs):
            raise ValueError(
                f"the ensemble returned votes of shape {votes.shape} for {len(inputs)} inputs; it "
                f"must be [{len(inputs)}, K]"
            )
        labels = np.empty(len(inputs), dtype=np.int64)
        for index, row in enumerate(votes):
            labels[index] = self._answer_one(self._fingerprint(inputs[index]), row)
        return labels

    def _answer_one(self, fingerprint: bytes, votes: NDArray[Any]) -> int:
        earlier = self._earlier[fingerprint]

        def draw(keyed: np.random.Generator | None) -> int:
            if keyed is None or not earlier:  # keyed noise is drawn once, however often it is made
                self._drawn += 1
            noise = self._generator if keyed is None else keyed
            return int(self._aggregator.answer(votes[None], generator=noise)[0])

        label = self._defence.respond(fingerprint, earlier, draw)
        earlier.append(label)
        return label
