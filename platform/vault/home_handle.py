"""The vault's home as everybody else has it: the actor's calls with their types and a time limit.

Nothing else calls the actor. Trials ask through a `VaultClient`, the driver through a `VaultOwner`
where a token is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import Charge, Mechanism, Release, Shard
from labeldp.platform.sweep.endings import Unfinished

if TYPE_CHECKING:
    from labeldp.platform.vault.answer_desk import DeskAnswers, EnsembleFile
    from labeldp.trainers.settings.ensemble import EnsembleConfig

#: A release of 50,000 labels takes well under a second; this is for machines that are swamped.
TIME_LIMIT_SECONDS = 300
#: How often a home whose process died is made again. It comes back from its store: what was charged
#: stays charged, what was drawn is read and not drawn again, and the question under way is asked
#: once more, which is safe since a release and its charge are kept together or not at all.
DEATHS_ALLOWED = 5


class VaultLost(Unfinished):
    """The vault's home is gone for good; the message says what to do."""


@dataclass(frozen=True)
class HomeHandle:
    """The calls of a `VaultHome` that lives in an actor; what each does is said there.

    Each of them may raise `VaultLost`, and the `ValueError` by which the home refuses.

    Attributes:
        actor: Ray's handle; nobody but this class calls it.
    """

    actor: Any

    def num_labels(self) -> int:
        """How many labels there are to train on."""
        number: int = ask(self.actor.num_labels.remote())
        return number

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of all canaries [M]."""
        # A copy: what lies in Ray's memory is read-only, of which torch warns.
        return np.array(ask(self.actor.canary_positions.remote()))

    def release(
        self,
        mechanism: Mechanism,
        public: tuple[NDArray[Any], ...],
        indices: NDArray[np.integer[Any]] | None,
        noise: NoiseSource,
    ) -> Release:
        """Return a release of labels to train on."""
        found: Release = ask(self.actor.release.remote(mechanism, public, indices, noise))
        return found

    def release_held_out(
        self, mechanism: Mechanism, public: tuple[NDArray[Any], ...], noise: NoiseSource
    ) -> Release:
        """Return a release of the held-out labels."""
        found: Release = ask(self.actor.release_held_out.remote(mechanism, public, noise))
        return found

    def ensemble_file(self, ensemble: "EnsembleConfig") -> "EnsembleFile":
        """Return where an ensemble's votes are, or will be."""
        file: EnsembleFile = ask(self.actor.ensemble_file.remote(ensemble))
        return file

    def shards(self, ensemble: "EnsembleConfig") -> tuple[Shard, ...]:
        """Return the teachers' shards."""
        shards: tuple[Shard, ...] = ask(self.actor.shards.remote(ensemble))
        return shards

    def answers(
        self,
        trial: str,
        ensemble: "EnsembleConfig",
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None,
        delta: float,
        publish_cost: bool,
        noise: NoiseSource,
    ) -> "DeskAnswers":
        """Return an ensemble's answers, without their figures."""
        reply: DeskAnswers = ask(
            self.actor.answers.remote(
                trial, ensemble, requests, student_scores, delta, publish_cost, noise
            )
        )
        return reply

    def epsilon(self, keys: Sequence[str], delta: float) -> tuple[float, float]:
        """Epsilon and delta of the worst label over the releases at `keys`."""
        found: tuple[float, float] = ask(self.actor.epsilon.remote(keys, delta))
        return found

    def charges(self, keys: Sequence[str]) -> Sequence[Charge]:
        """Return the lines of the ledger for the releases at `keys`, in the ledger's order."""
        charges: Sequence[Charge] = ask(self.actor.charges.remote(keys))
        return charges

    def ledger(self) -> Sequence[Charge]:
        """Return every line of the ledger, in order."""
        lines: Sequence[Charge] = ask(self.actor.ledger.remote())
        return lines

    def audit(
        self,
        trial: str,
        confidences: NDArray[Any],
        confidence: float,
        keys: Sequence[str],
        delta: float,
    ) -> None:
        """Audit a trial's model by its confidences on the canaries [M, K], once."""
        ask(self.actor.audit.remote(trial, confidences, confidence, keys, delta))

    def begin(self, authority: bytes, trial: str) -> None:
        """Forget what was found of a trial that the driver starts."""
        ask(self.actor.begin.remote(authority, trial))

    def figures(
        self, authority: bytes, trial: str, release_keys: Sequence[str]
    ) -> dict[str, float]:
        """Return what was found of a trial, to the driver alone."""
        found: dict[str, float] = ask(self.actor.figures.remote(authority, trial, release_keys))
        return found

    def end(self) -> None:
        """End the actor; releases and ledger stay in their store."""
        ray.kill(self.actor)


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
