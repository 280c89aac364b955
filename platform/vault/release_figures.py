"""What a trial's release proves, and its model within the family of that release's noise.

Only where the model is made of one release, by a mechanism that acted on each label by itself: then
the likelihood ratio is the best attack, and one run proves nearly all (`auditing.release_audit`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing import (
    CoinCanaries,
    LocalMechanism,
    audit_release,
    best_tight_bound,
    family_of,
    guess_counts,
    right_guesses,
    tight_lower_bound,
)
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.descriptions import is_of
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.release_store import ReleaseStore
from labeldp.mechanisms.vault import Charge

#: What a ledger's line says beside a mechanism's parameters.
_BESIDE = ("name", "noise")
#: Those that act on each label by itself.
_LOCAL: tuple[type[LocalMechanism], ...] = (
    *(LaplaceNoise, GaussianNoise, RandomizedResponse, BitFlip),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedByItself:
    """A release of training labels, by a mechanism that acted on each by itself.

    Attributes:
        mechanism: What it was.
        values: What came out, [N] or [N, K].
    """

    mechanism: LocalMechanism
    values: NDArray[Any]

    @classmethod
    def find(
        cls, charges: Iterable[Charge], *, store: ReleaseStore, training: int
    ) -> "ReleasedByItself | None":
        """Return what a model was made of, if that is one such release of all training labels.

        Args:
            charges: The ledger's lines that it read.
            store: Where releases are kept.
            training: How many labels there are to train on; those after them are held out, and
                pay for estimates of accuracy that no model is made of.
        """
        lines = [line for line in charges if not line.is_beyond(training)]
        if len(lines) != 1:
            return None
        (line,) = lines
        if line.indices is not None and not np.array_equal(line.indices, np.arange(training)):
            return None
        mechanism = _local(line)
        values = None if mechanism is None else store.release(line.key)
        if mechanism is None or values is None:
            return None
        return cls(mechanism=mechanism, values=values)

    def figures(
        self,
        scores: NDArray[np.float64],
        coins: CoinCanaries,
        *,
        delta: float,
        confidence: float,
    ) -> dict[str, float]:
        """Return what the model and what the release prove, by name.

        Args:
            scores: The model's, of the coins [C].
            coins: The canaries that coins chose labels for.
            delta: At which epsilons are stated.
            confidence: Of each bound by itself.
        """
        family = family_of(self.mechanism)
        stated: dict[str, Any] = {"family": family, "delta": delta, "confidence": confidence}
        right = right_guesses(scores, coins.coins)
        released = audit_release(
            self.values[coins.positions],
            mechanism=self.mechanism,
            coins=coins,
            delta=delta,
            confidence=confidence,
        )
        return {
            "private/epsilon_tight": best_tight_bound(
                [(guesses, int(right[:guesses].sum())) for guesses in guess_counts(scores.size)],
                canaries=scores.size,
                **stated,
            ),
            "epsilon_tight_ceiling": tight_lower_bound(
                canaries=scores.size,
                guesses=scores.size,
                correct=scores.size,
                guesses_fixed=True,
                **stated,
            ),
            "private/epsilon_release": released.epsilon_tight,
            "private/epsilon_release_one_run": released.epsilon_low,
            "private/release_guesses": float(released.guesses),
            "private/release_correct": float(released.correct),
            "epsilon_release_ceiling": released.ceiling,
        }


def _local(line: Charge) -> LocalMechanism | None:
    """The mechanism that made a line, if it is one of ours; its price has to be ours as well."""
    kind = next((each for each in _LOCAL if is_of(each, line.mechanism)), None)
    if kind is None:
        return None
    settings = {name: line.mechanism[name] for name in line.mechanism if name not in _BESIDE}
    mechanism = kind(**settings)
    return mechanism if mechanism.event == line.event else None
