"""The driver's side of the vault's home: it opens trials' audits and collects what was found.

Trials hold a handle of the same actor. What only the driver may ask takes a token that `start` gave
the home and that no trial gets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labeldp.mechanisms.vault import Charge
from labeldp.platform.vault.home_handle import HomeHandle


@dataclass(frozen=True, kw_only=True)
class VaultOwner:
    """What the driver has of the vault beyond what trials have.

    Attributes:
        home: Where it asks.
        authority: The token that the home was started with.
    """

    home: HomeHandle
    authority: bytes = field(repr=False)

    def begin(self, trial: str) -> None:
        """Let a trial that starts, or starts again, be audited once.

        Raises:
            VaultLost: The home did not answer.
        """
        self.home.begin(self.authority, trial)

    def figures(self, trial: str, release_keys: Sequence[str]) -> dict[str, float]:
        """Return what the vault's side knows of a trial that has ended.

        Raises:
            ValueError: The trial was not audited.
            VaultLost: The home did not answer.
        """
        return self.home.figures(self.authority, trial, list(release_keys))

    def charges(self, keys: Sequence[str]) -> Mapping[str, Charge]:
        """Return the ledger's lines for the releases at `keys`, by key.

        Raises:
            VaultLost: The home did not answer.
        """
        return {charge.key: charge for charge in self.home.charges(list(keys))}
