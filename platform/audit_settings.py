"""How a trial's privacy is attacked, as part of its configuration.

A file of its own, so that the vault's home reads it without loading any trainer.
"""

from dataclasses import dataclass

from labeldp.mechanisms import _validate
from labeldp.mechanisms.auditing.one_run import BestFraction, canaries_needed, check_enough_canaries


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How privacy is attacked.

    Attributes:
        canaries: How many training labels are replaced by wrong ones that the attack looks for.
        canary_seed: Which ones; 11337 gives the positions and labels of the published attack.
        canary_block: Which of several sets of canaries that share no example; the first and only
            one if not given.
        coin_canaries: How many labels more are chosen by coins, for the one-run audit; 0 for none.
        confidence: Of every bound, each by itself.
    """

    canaries: int = 100
    canary_seed: int = 11337
    canary_block: int | None = None
    coin_canaries: int = 100
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Check counts and probabilities."""
        _validate.whole(minimum=1, canaries=self.canaries)
        _validate.whole(canary_seed=self.canary_seed, coin_canaries=self.coin_canaries)
        if self.canary_block is not None:
            _validate.whole(canary_block=self.canary_block)
        _validate.between(0, 1, confidence=self.confidence)
        check_enough_canaries(self.canaries, self.confidence)
        # The best of several numbers of guesses is shown, and each of them pays for the choice.
        tries = len(BestFraction().fractions)
        needed = canaries_needed(epsilon=0.0, confidence=1 - (1 - self.confidence) / tries)
        if 0 < self.coin_canaries < needed:
            raise ValueError(
                f"coin_canaries is {self.coin_canaries}; at confidence {self.confidence} so few "
                f"prove nothing: it takes {needed}, or 0 to go without the one-run audit"
            )
