"""Where noise comes from: the operating system's entropy, unless an experiment asks otherwise.

A privacy guarantee assumes that nobody can predict the noise. A published seed voids it, so seeds
for noise and seeds for training are different arguments, and a seeded run says so on its card.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import numpy as np

from labeldp.mechanisms import _validate

if TYPE_CHECKING:
    import torch

AnyGenerator = Union[np.random.Generator, "torch.Generator"]


@dataclass(frozen=True, kw_only=True)
class OsEntropy:
    """Noise that nobody can repeat; `draw` numbers independent releases of one mechanism.

    Attributes:
        draw: Which of several independent draws this is. The same draw of the same labels by the
            same mechanism is made once, stored, and read again by whoever asks.
    """

    draw: int = 0

    def __post_init__(self) -> None:
        """Check the number of the draw."""
        _validate.whole(draw=self.draw)

    def generator(self, key: str) -> np.random.Generator:
        """Return a fresh generator; `key` is not used, since the noise is never made twice."""
        del key
        return np.random.default_rng()


@dataclass(frozen=True, kw_only=True)
class SeededNoise:
    """Noise that anyone who knows the seed can repeat: for experiments, never for a real release.

    Attributes:
        seed: The seed, whole and not negative.
        draw: Which of several independent draws this is.
    """

    seed: int
    draw: int = 0

    def __post_init__(self) -> None:
        """Check the seed."""
        _validate.whole(seed=self.seed, draw=self.draw)

    def generator(self, key: str) -> np.random.Generator:
        """Return the generator of the release named `key`: other releases get other streams."""
        words = [int(key[i : i + 8], 16) for i in range(0, 32, 8)]
        return np.random.default_rng(np.random.SeedSequence([self.seed, self.draw, *words]))


NoiseSource = OsEntropy | SeededNoise


def as_numpy_generator(generator: AnyGenerator) -> np.random.Generator:
    """Return a NumPy generator; a torch generator is advanced by one draw of 128 bits to seed it.

    Args:
        generator: `numpy.random.Generator` or `torch.Generator`.

    Raises:
        TypeError: Neither of the two (an int or None, for instance): noise needs an explicit one.
    """
    if isinstance(generator, np.random.Generator):
        return generator
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        high = 2**62
        words = torch.randint(high, (2,), generator=generator, device=generator.device)
        return np.random.default_rng([int(word) for word in words])
    raise TypeError(
        f"generator is {generator!r}; pass numpy.random.default_rng() (OS entropy) or a "
        "torch.Generator, since noise is never drawn from a hidden global state"
    )
