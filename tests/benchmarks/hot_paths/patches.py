"""Random-patch features, against the same formula with every patch laid out."""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.trainers.models.features import RandomPatchFeatures
from tests.benchmarks.benchmark import Work, benchmark
from tests.trainers.pillow_reference import sample_tiles

_DESCRIBED, _BY_HAND, _PIXELS = 256, 32, 255


@benchmark(
    "random-patches",
    "1,024 random patches of 256 photographs, bfloat16",
    "every patch of image and mirror image laid out, in single precision",
    mark=3.7,
)
def _random_patches(scratch: Path) -> Work:
    images = sample_tiles(count=2 * _DESCRIBED)
    settings = RandomPatchFeatures(dimensions=200, sampled_patches=20_000, sampled_images=256)
    encoder = settings.fit(images)
    described = images[:_DESCRIBED]
    filters, cells = encoder.filters, encoder.cells
    kernels = encoder.kernels.flatten(1)
    deviations = kernels.shape[1] ** 0.5

    def answers(some: Tensor) -> Tensor:
        """What each filter says of each patch of an image, on a grid [B, 2, F, cells, cells]."""
        patch = settings.patch
        patches = functional.unfold(some.float() / _PIXELS, patch).mT
        products = patches @ kernels.mT + encoder.bias
        cosines = products[..., :filters] / products[..., filters:].norm(dim=2, keepdim=True)
        sides = torch.stack((cosines, -cosines), 1) * deviations - encoder.threshold
        shape = (-1, filters, *(length - patch + 1 for length in some.shape[2:]))
        pooled = functional.adaptive_avg_pool2d(sides.clamp(min=0).mT.reshape(shape), cells)
        return pooled.view(len(some), 2, filters, cells, cells)

    def plain() -> Tensor:
        """An image and its mirror image, all in single precision."""
        assert encoder.projection is not None
        with torch.inference_mode():
            some = described[:_BY_HAND]
            mean = (answers(some) + answers(some.flip(3))) / 2
            middle = cells // 2
            left = mean[..., :middle].flatten(1)
            center = mean[:, :, : filters // 2, :, middle].flatten(1)
            found: Tensor = torch.cat((left, center), 1).sqrt() - encoder.shift
            return found @ encoder.projection.float()

    def check() -> None:
        """Ours is in bfloat16: the features' inner products are within 1% of those of the plain."""
        ours, exact = encoder(described[:_BY_HAND]), plain()
        gap = (ours @ ours.mT - exact @ exact.mT).square().mean()
        assert gap < 1e-4 * (exact @ exact.mT).square().mean(), gap

    return Work(
        ours=lambda: encoder(described),
        reference=plain,
        part=_BY_HAND / _DESCRIBED,
        check=check,
    )
