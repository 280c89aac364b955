"""Where the noise on labels comes from."""

from dataclasses import dataclass

from labeldp.mechanisms import _validate
from labeldp.mechanisms.randomness import (
    NoiseKind,
    NoiseSource,
    OsEntropy,
    SecureEntropy,
    SeededNoise,
)


@dataclass(frozen=True, kw_only=True)
class NoiseSettings:
    """Where the labels' noise comes from; never the seed that training uses.

    Attributes:
        seed: Makes the noise repeatable, and void as a guarantee for whoever knows the seed. Not
            given: the operating system's entropy.
        draw: Numbers independent releases; each is charged.
        secure: Noise that an attack on floating-point numbers can't read: exact, and on a lattice.
            Not given: yes for labels of the user's own (`data.name=own`) without a `seed`, which is
            for experiments.
    """

    seed: int | None = None
    draw: int = 0
    secure: bool | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.whole(draw=self.draw)
        if self.seed is not None:
            _validate.whole(seed=self.seed)
            if self.secure:
                raise ValueError(
                    f"noise.secure is true and noise.seed is {self.seed}; who knows the seed takes "
                    "the noise off however it was drawn: leave noise.seed out, or noise.secure"
                )

    @property
    def kind(self) -> NoiseKind:
        """What tables say of it."""
        return self.source().kind

    def source(self) -> NoiseSource:
        """Return the source of noise that these settings ask for."""
        if self.secure:
            return SecureEntropy(draw=self.draw)
        if self.seed is None:
            return OsEntropy(draw=self.draw)
        return SeededNoise(seed=self.seed, draw=self.draw)
