"""What trials and the driver have of the vault's home: its answers, each with a time limit.

A trial asks for releases, sends its confidences to be audited, and is told no figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import Mechanism, Release
from labeldp.platform.endings import Unfinished

if TYPE_CHECKING:
    from labeldp.platform.trusted.answer_desk import DeskAnswers
    from labeldp.trainers.pate.teachers import EnsembleConfig

#: A release of 50,000 labels takes well under a second; this is for machines that are swamped.
TIME_LIMIT_SECONDS = 300
#: How often a home whose process died is made again. It comes back from its store: what was charged
#: stays charged, what was drawn is read and not drawn again, and the question under way is asked
#: once more, which is safe since a release and its charge are kept together or not at all.
DEATHS_ALLOWED = 5


class VaultLost(Unfinished):
    """The vault's home is gone for good; the message says what to do."""


@dataclass(kw_only=True)
class VaultClient:
    """What a trial has of the vault: releases, prices and audits, each with a time limit.

    Attributes:
        home: The actor.
        noise: Where this trial's noise comes from.
        trial: Its hash, under which the vault's side keeps what it finds; answers and audits are
            refused without one.
        keys: The releases that this trial has read.
    """

    home: Any
    noise: NoiseSource
    trial: str = ""
    keys: list[str] = field(default_factory=list)

    def answers(
        self,
        ensemble: "EnsembleConfig",
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Return an ensemble's answers [Q, 2]; the driver gets what is known of them."""
        reply: DeskAnswers = ask(
            self.home.answers.remote(
                self.trial, ensemble, requests, student_scores, delta, publish_cost, self.noise
            )
        )
        self.keys.extend(key for key in reply.keys if key not in self.keys)
        return reply.values

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return a release, as `LabelVault.release`, and remember that it was read."""
        release: Release = ask(self.home.release.remote(mechanism, public, indices, self.noise))
        if release.key not in self.keys:
            self.keys.append(release.key)
        return release

    def release_held_out(self, mechanism: Mechanism, *public: NDArray[Any]) -> Release:
        """Return a release of the held-out labels, and remember that it was read."""
        release: Release = ask(self.home.release_held_out.remote(mechanism, public, self.noise))
        if release.key not in self.keys:
            self.keys.append(release.key)
        return release

    def epsilon(self, *, delta: float) -> tuple[float, float]:
        """Epsilon of the releases read here, and the delta at which it holds."""
        result: tuple[float, float] = ask(self.home.epsilon.remote(self.keys, delta))
        return result

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of the canaries among the training examples [M]."""
        # A copy: what lies in Ray's memory is read-only, of which torch warns.
        return np.array(ask(self.home.canary_positions.remote()))

    def audit(self, confidences: NDArray[Any], *, confidence: float, delta: float) -> None:
        """Have a model audited by its confidences on the canaries [M, K]; the driver gets figures.

        Raises:
            ValueError: It was audited with others before, or they are no probabilities.
        """
        ask(self.home.audit.remote(self.trial, confidences, confidence, self.keys, delta))


def ask(reference: Any) -> Any:
    """Wait for a home's answer, but not for ever.

    Raises:
        VaultLost: It did not come; the message says what to look at.
        ValueError: What the vault refused, as it refused it.
    """
    try:
        return ray.get(reference, timeout=TIME_LIMIT_SECONDS)
    except ray.exceptions.GetTimeoutError as error:
        raise VaultLost(
            f"the label vault did not answer within {TIME_LIMIT_SECONDS} s; the driver's node is "
            "overloaded or gone: look at its log, and run again with --resume auto"
        ) from error
    except ray.exceptions.RayActorError as error:
        why = " ".join(str(error).split())[-300:]
        raise VaultLost(
            f"the label vault's process died more than {DEATHS_ALLOWED} times, or its node is gone "
            f"({why}); what was released is kept: see to the memory and the disk of the driver's "
            "node, and run again with --resume auto"
        ) from None
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, ValueError) else error) from None
