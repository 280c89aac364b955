"""Images described by how their patches resemble typical patches, learned without any label.

The single-layer network of Coates, Ng and Lee ("An Analysis of Single-Layer Networks in
Unsupervised Feature Learning", AISTATS 2011): k-means on small whitened patches, each patch
described by how much nearer than average it is to each center, sums over the cells of a grid. Then
square roots and principal components, which help linear models.

>>> images = torch.randint(256, (64, 1, 8, 8), dtype=torch.uint8)
>>> settings = PatchFeatures(patch=3, centers=8, dimensions=10, sampled_patches=500)
>>> settings.fit(images)(images).shape
torch.Size([64, 10])
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.mechanisms import _validate
from labeldp.trainers.models.telling import counted, tell

#: Numbers that the distances of one batch may fill: more do not fit into a processor's cache.
_BATCH_NUMBERS = 2**20
#: Images whose components are worked out at once.
_IMAGES_AT_ONCE = 1024
#: Added to a patch's variance (of pixels in 0..255), lest noise in flat patches is blown up.
_PATCH_VARIANCE = 10.0
#: Added to the eigenvalues of the patches' covariance before whitening.
_WHITENING = 0.01


@dataclass(frozen=True, kw_only=True)
class PatchFeatures:
    """How images are described.

    Attributes:
        patch: Side of a patch in pixels.
        centers: Of k-means; doubling it doubles the time and adds a little accuracy.
        cells: The grid on which patches are summed has this many rows and columns.
        dimensions: Principal components that are kept (fewer if there are fewer).
        sampled_patches: Patches that k-means and whitening learn from.
        sampled_images: Images that the principal components are learned from.
        seed: Of the samples and of k-means.
    """

    patch: int = 6
    centers: int = 300
    cells: int = 3
    dimensions: int = 800
    sampled_patches: int = 100_000
    sampled_images: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Check every field."""
        _validate.whole(minimum=2, patch=self.patch, centers=self.centers)
        _validate.whole(minimum=1, cells=self.cells, dimensions=self.dimensions)
        _validate.whole(minimum=2, sampled_images=self.sampled_images)
        _validate.whole(minimum=self.centers, sampled_patches=self.sampled_patches)
        _validate.whole(seed=self.seed)

    def fit(self, images: Tensor) -> "PatchEncoder":
        """Learn an encoder from images, uint8 [N, C, H, W].

        Raises:
            ValueError: Not images, or too small for the patches and the grid.
        """
        # Who has an encoder already, in a model that is read, does without it.
        from sklearn.cluster import MiniBatchKMeans

        _check_images(images, self)
        generator = torch.Generator().manual_seed(self.seed)
        patches = self._sample(images, generator)
        mean = patches.mean(0)
        centered = patches - mean
        values, vectors = torch.linalg.eigh((centered.mT @ centered / len(centered)).double())
        whitening = (vectors * (values + _WHITENING).rsqrt() @ vectors.mT).float()

        tell("learning patches")
        clusters = MiniBatchKMeans(
            self.centers, batch_size=4096, max_iter=10, n_init=1, random_state=self.seed
        ).fit((centered @ whitening).numpy())
        encoder = PatchEncoder(
            patch=self.patch,
            cells=self.cells,
            mean=mean,
            whitening=whitening,
            centers=torch.from_numpy(clusters.cluster_centers_).float(),
            shift=torch.zeros(()),
            projection=None,
        )
        chosen = torch.randperm(len(images), generator=generator)[: self.sampled_images]
        return encoder.with_principal_components(images[chosen], self.dimensions)

    def _sample(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Normalized patches of random images at random places [sampled_patches, C * patch^2]."""
        rows, columns = (length - self.patch + 1 for length in images.shape[2:])
        chosen = torch.randint(len(images), (self.sampled_patches,), generator=generator)
        top = torch.randint(rows, (self.sampled_patches, 1), generator=generator)
        left = torch.randint(columns, (self.sampled_patches, 1), generator=generator)
        y = (top + torch.arange(self.patch))[:, :, None]
        x = (left + torch.arange(self.patch))[:, None, :]
        patches = images[chosen[:, None, None], :, y, x]  # [P, patch, patch, C]
        return _normalized(patches.permute(0, 3, 1, 2).flatten(1).float())


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchEncoder:
    """Images in, features out; D is C * patch^2.

    Attributes:
        patch: Side of a patch.
        cells: Rows and columns of the grid.
        mean: Of normalized patches [D].
        whitening: Matrix [D, D].
        centers: Of whitened patches [centers, D].
        shift: What is subtracted before the projection [cells^2 * centers].
        projection: Principal components, scaled [cells^2 * centers, dimensions]; None before they
            are known.
    """

    patch: int
    cells: int
    mean: Tensor
    whitening: Tensor
    centers: Tensor
    shift: Tensor
    projection: Tensor | None

    def __call__(self, images: Tensor) -> Tensor:
        """Return features, single precision [N, dimensions], of uint8 images [N, C, H, W].

        They are centered, with a mean squared norm of 1, over the images that were learned from.
        """
        blocks = [
            self._projected(self._described(part))
            for part in counted(torch.split(images, _IMAGES_AT_ONCE), "describing images")
        ]
        return torch.cat(blocks)

    def _described(self, images: Tensor) -> Tensor:
        """Return what the components are taken of, [B, cells^2 * centers]."""
        rows, columns = (length - self.patch + 1 for length in images.shape[2:])
        count, places = len(self.centers), rows * columns
        batch = max(1, _BATCH_NUMBERS // (places * count))
        # |x - c|^2 = |x|^2 - 2 x c + |c|^2 as one matrix product, written into one buffer: fresh
        # memory for every batch would cost more than the arithmetic.
        against = torch.cat((-2 * self.centers.mT, self.centers.square().sum(1)[None]))
        against = torch.cat((against, torch.ones(1, count)))
        buffer = torch.empty(batch * places, count)
        pooled = []
        for some in torch.split(images, batch):
            patches = (self._patches(some) - self.mean) @ self.whitening
            squares = patches.square().sum(1, keepdim=True)
            extended = torch.cat((patches, torch.ones_like(squares), squares), 1)
            distances = torch.mm(extended, against, out=buffer[: len(patches)])
            distances.clamp_(min=0).sqrt_()
            average = distances.mean(1, keepdim=True)
            nearer = torch.sub(average, distances, out=distances).relu_()
            pooled.append(self._pooled(nearer.view(len(some), rows, columns, count)))
        return torch.cat(pooled)

    def with_principal_components(self, images: Tensor, dimensions: int) -> "PatchEncoder":
        """Return an encoder that keeps the directions in which these images differ most."""
        pooled = self(images)
        shift = pooled.mean(0)
        pooled -= shift
        _, vectors = torch.linalg.eigh(pooled.mT @ pooled)
        kept = vectors[:, -dimensions:].flip(1)
        # The sign of an eigenvector is arbitrary, and differs between machines.
        kept = kept * kept.gather(0, kept.abs().argmax(0, keepdim=True)).sign()
        norm = (pooled @ kept).square().sum(1).mean().sqrt()
        return PatchEncoder(
            patch=self.patch,
            cells=self.cells,
            mean=self.mean,
            whitening=self.whitening,
            centers=self.centers,
            shift=shift,
            projection=kept / norm.clamp(min=1e-12),
        )

    def _patches(self, images: Tensor) -> Tensor:
        """All patches of each image, normalized [B * rows * columns, D]."""
        patches = images.float().unfold(2, self.patch, 1).unfold(3, self.patch, 1)
        return _normalized(patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2))

    def _pooled(self, values: Tensor) -> Tensor:
        """Square roots of sums over the grid's cells [B, cells^2 * centers] of [B, H, W, centers].

        The root keeps the few strong answers from drowning the many weak ones.
        """
        by_row = [part.sum(1) for part in torch.tensor_split(values, self.cells, 1)]
        by_cell = [part.sum(1) for row in by_row for part in torch.tensor_split(row, self.cells, 1)]
        return torch.cat(by_cell, 1).sqrt_()

    def _projected(self, pooled: Tensor) -> Tensor:
        return pooled if self.projection is None else (pooled - self.shift) @ self.projection


def _normalized(patches: Tensor) -> Tensor:
    """Subtract each patch's mean and divide by its spread [P, D]."""
    centered = patches - patches.mean(1, keepdim=True)
    variance = centered.square().mean(1, keepdim=True)  # torch.var is six times as slow here
    return centered.mul_((variance + _PATCH_VARIANCE).rsqrt_())


def _check_images(images: Tensor, settings: PatchFeatures) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise ValueError(
            f"images are {images.dtype} of shape {tuple(images.shape)}; they must be uint8 "
            "[N, C, H, W]"
        )
    least = settings.patch + settings.cells - 1
    if min(images.shape[2:]) < least:
        raise ValueError(
            f"images have {images.shape[2]} x {images.shape[3]} pixels; patches of "
            f"{settings.patch} in {settings.cells} x {settings.cells} cells need at least "
            f"{least} x {least}: take a smaller patch or fewer cells"
        )
