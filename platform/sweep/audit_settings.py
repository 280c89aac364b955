"""How a trial's privacy is attacked, as part of its configuration.

Canaries are labels that are spoiled on purpose. Where nobody says how many, so few are that it
costs less than half a point of accuracy (docs/audits.md has the measurements), and none where so
few could prove nothing.

A file of its own, so that the vault's home reads it without loading any trainer.

>>> AuditSettings().settled(num_labels=60_000, num_classes=10).spoiled
600
>>> AuditSettings().settled(num_labels=500, num_classes=10).spoiled
0
>>> AuditSettings(canaries=50).settled(num_labels=500, num_classes=10).spoiled
50
"""

from dataclasses import dataclass, replace

from labeldp.mechanisms import _validate
from labeldp.mechanisms.auditing.one_run import FRACTIONS, canaries_needed, check_enough_canaries

#: One label in so many is spoiled, for both audits together, where nobody says how many.
LABELS_PER_CANARY = 100
#: Canaries of each kind at most where nobody says: more cost labels and prove little more.
MOST_BY_DEFAULT = 1000
#: What canaries must be able to prove, if everything leaks, to be planted where nobody says.
WORTHWHILE_EPSILON = 1.0


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How privacy is attacked.

    Attributes:
        canaries: How many training labels are replaced by wrong ones that the attack looks for; 0
            for no attack. Not given: a share of the labels, see `settled`.
        canary_seed: Which ones; 11337 gives the positions and labels of the published attack.
        canary_block: Which of several sets of canaries that share no example; the first and only
            one if not given.
        coin_canaries: How many labels more are chosen by coins, for the one-run audit; 0 for none.
            Not given: what is left of the share; none beside `canaries=0`.
        confidence: Of every bound, each by itself.
    """

    canaries: int | None = None
    canary_seed: int = 11337
    canary_block: int | None = None
    coin_canaries: int | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Check counts and probabilities."""
        _validate.whole(canary_seed=self.canary_seed)
        for name in ("canaries", "canary_block", "coin_canaries"):
            if getattr(self, name) is not None:
                _validate.whole(**{name: getattr(self, name)})
        _validate.between(0, 1, confidence=self.confidence)
        if self.canaries:
            check_enough_canaries(self.canaries, self.confidence)
        needed = self.coins_for(0.0)
        if self.coin_canaries is not None and 0 < self.coin_canaries < needed:
            raise ValueError(
                f"coin_canaries is {self.coin_canaries}; at confidence {self.confidence} so few "
                f"prove nothing: it takes {needed}, or 0 to go without the one-run audit"
            )

    @property
    def spoiled(self) -> int:
        """How many labels are wrong on purpose, both kinds together, as far as it is stated."""
        return (self.canaries or 0) + (self.coin_canaries or 0)

    def settled(self, *, num_labels: int, num_classes: int) -> "AuditSettings":
        """Return these settings with both numbers in them, as they are hashed and recorded.

        Both kinds share what may be spoiled, half of it each; where that is too little for both,
        the memorization attack has all of it. It gets nothing where there are two classes, of which
        it could tell nothing.

        Args:
            num_labels: N, labels to train on.
            num_classes: K.
        """
        canaries, coins = self.canaries, self.coin_canaries
        left = num_labels // LABELS_PER_CANARY - self.spoiled
        for_attack = canaries_needed(epsilon=WORTHWHILE_EPSILON, confidence=self.confidence)
        for_coins = self.coins_for(WORTHWHILE_EPSILON)
        if canaries is None:
            both = coins is None and left // 2 >= max(for_attack, for_coins)
            canaries = min(left // 2 if both else left, MOST_BY_DEFAULT)
            canaries = canaries if num_classes > 2 and canaries >= for_attack else 0
            left -= canaries
        if coins is None:
            coins = min(left, MOST_BY_DEFAULT)
            coins = coins if coins >= for_coins and self.canaries != 0 else 0
        return replace(self, canaries=canaries, coin_canaries=coins)

    def coins_for(self, epsilon: float) -> int:
        """Return how few coins could prove `epsilon`."""
        # The best of several numbers of guesses is shown, and each of them pays for the choice.
        each = 1 - (1 - self.confidence) / len(FRACTIONS)
        return canaries_needed(epsilon=epsilon, confidence=each)


def spoiled_text(*, canaries: int, coin_canaries: int, num_labels: int | None = None) -> str:
    """Say how many labels were spoiled for audits, or why there is no epsilon_m.

    Args:
        canaries: For the memorization attack, as settled.
        coin_canaries: For the one-run audit, as settled.
        num_labels: N, labels that were trained on; not said where it is not known.
    """
    spoiled = canaries + coin_canaries
    of_all = "" if num_labels is None else f" of {num_labels:,} labels"
    if spoiled:
        share = "" if num_labels is None else f" ({100 * spoiled / num_labels:.2g}%)"
        return (
            f"{spoiled:,}{of_all} were made wrong on purpose for the audits{share}: {canaries:,} "
            f"for the memorization attack, {coin_canaries:,} for the one-run audit"
        )
    attack = canaries_needed(epsilon=WORTHWHILE_EPSILON) * LABELS_PER_CANARY
    coins = AuditSettings().coins_for(WORTHWHILE_EPSILON) * LABELS_PER_CANARY
    return (
        f"none{of_all} was made wrong for audits, so there is no epsilon_m: by default one label "
        f"in {LABELS_PER_CANARY} is, from {attack:,} labels on, and of two classes, of which the "
        f"memorization attack can tell nothing, from {coins:,} on; below that so few would prove "
        "nothing, and more would cost accuracy (audit.coin_canaries=100 spoils 100 all the same)"
    )


def refuse_useless(audit: AuditSettings, *, num_classes: int) -> None:
    """Refuse canaries that somebody asks for and that can prove nothing.

    Args:
        audit: As asked for.
        num_classes: K.

    Raises:
        ValueError: There are two classes, and wrong labels for the memorization attack.
    """
    if audit.canaries and num_classes == 2:
        raise ValueError(
            f"audit.canaries is {audit.canaries}, and there are 2 classes: the memorization attack "
            "compares a wrong label with other wrong ones, and of 2 classes only one is wrong, so "
            "that labels would be spoiled for nothing; leave it out or set audit.canaries=0 (the "
            "one-run audit takes any classes: audit.coin_canaries)"
        )
