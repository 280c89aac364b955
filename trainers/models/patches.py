"""Images described by their patches, learned without any label: k-means patches, random patches.

`PatchFeatures` is the single-layer network of Coates, Ng and Lee ("An Analysis of Single-Layer
Networks in Unsupervised Feature Learning", AISTATS 2011): k-means on small whitened patches, each
patch described by how much nearer than average it is to each center, sums over the cells of a grid.

`RandomPatchFeatures` is after Thiry, Arbel, Belilovsky and Oyallon ("The Unreasonable Effectiveness
of Patches in Deep Convolutional Kernels Methods", ICLR 2021): the filters are whitened patches of
random images, each compared with x and -x by the cosine after whitening, as one convolution. What
lies above a threshold is averaged over the cells of a grid. Every filter's mirror image is a filter
too, so that the features of an image and its mirror image can be averaged at no cost. It is for
photographs: letters and digits change their meaning when they are mirrored.

Both end with square roots and principal components, which help linear models.

>>> images = torch.randint(256, (64, 3, 12, 12), dtype=torch.uint8)
>>> settings = RandomPatchFeatures(patch=3, filters=8, dimensions=10, sampled_patches=500)
>>> settings.fit(images)(images).shape
torch.Size([64, 10])
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms import _validate
from labeldp.trainers.data.columns import Step
from labeldp.trainers.models.telling import counted, tell
from labeldp.trainers.performance import Precision

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
        """Learn an encoder from images, uint8 [N, C, H, W]."""
        # Who has an encoder already, in a model that is read, does without it.
        from sklearn.cluster import MiniBatchKMeans

        _check_images(images, self)
        generator = torch.Generator().manual_seed(self.seed)
        patches = _normalized(_sampled(images, self, generator).flatten(1).float())
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


def _sampled(
    images: Tensor, settings: "PatchFeatures | RandomPatchFeatures", generator: torch.Generator
) -> Tensor:
    """Patches of random images at random places, uint8 [sampled_patches, C, patch, patch]."""
    count, side = settings.sampled_patches, settings.patch
    rows, columns = (length - side + 1 for length in images.shape[2:])
    chosen = torch.randint(len(images), (count,), generator=generator)
    top = torch.randint(rows, (count, 1), generator=generator)
    left = torch.randint(columns, (count, 1), generator=generator)
    y = (top + torch.arange(side))[:, :, None]
    x = (left + torch.arange(side))[:, None, :]
    patches = images[chosen[:, None, None], :, y, x]  # [P, patch, patch, C]
    return patches.permute(0, 3, 1, 2)


def _check_images(images: Tensor, settings: "PatchFeatures | RandomPatchFeatures") -> None:
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


#: Answers of filters that are worked out at once: more do not fit into a processor's cache.
_ANSWERS_AT_ONCE = 2**22
#: Images whose components are worked out at once.
_PHOTOGRAPHS_AT_ONCE = 512
#: Of an encoder: what goes into a model's file as arrays.
_MATRICES = ("kernels", "bias", "shift", "projection")
#: Components with less than this share of the first one's spread are numerical noise.
_LEAST_SPREAD = 1e-3
#: Rounds of the power iteration that finds the components, and directions beside the wanted ones.
_ROUNDS, _BESIDE = 3, 50


@dataclass(frozen=True, kw_only=True)
class RandomPatchFeatures:
    """How photographs are described.

    `whitening`, `threshold`, `cells` and `flattening` were chosen among two to four values each by
    accuracy on true labels of CIFAR-10, which no epsilon pays for: say so beside numbers on that
    set. On other sets nothing was looked at.

    Attributes:
        patch: Side of a patch in pixels.
        filters: Random patches, half of them mirror images of the other half; even.
        whitening: Added to the eigenvalues of the patches' covariance, of pixels in 0..1.
        threshold: Cosines above it count, in units of their standard deviation among random
            directions; .25 is passed by the best 40%, .4 by the best 34%.
        cells: The grid over which answers are averaged has this many rows and columns.
        dimensions: Principal components that are kept (fewer if there are fewer).
        flattening: How far components are made alike, from 0, not at all, to 1, all of the same
            size: the strongest are light and shade more than they are things.
        sampled_patches: Patches that the whitening is learned from, and filters chosen from.
        sampled_images: Images that the principal components are learned from.
        precision: Of the convolution and what follows up to the averages.
        seed: Of the samples.
    """

    patch: int = 6
    filters: int = 1024
    whitening: float = 1e-3
    threshold: float = 0.4
    cells: int = 3
    dimensions: int = 1600
    flattening: float = 0.5
    sampled_patches: int = 100_000
    sampled_images: int = 10_000
    precision: Precision = Precision.BF16
    seed: int = 0

    def __post_init__(self) -> None:
        """Check every field."""
        _validate.members(self)
        _validate.whole(minimum=2, patch=self.patch, filters=self.filters)
        _validate.whole(minimum=1, cells=self.cells, dimensions=self.dimensions)
        _validate.whole(minimum=2, sampled_images=self.sampled_images)
        _validate.whole(minimum=self.filters, sampled_patches=self.sampled_patches)
        _validate.positive(whitening=self.whitening)
        _validate.number(threshold=self.threshold, flattening=self.flattening)
        _validate.whole(seed=self.seed)
        if not 0 <= self.flattening <= 1:
            raise ValueError(f"flattening is {self.flattening}; it must lie in [0, 1]")
        if self.filters % 2:
            raise ValueError(
                f"filters is {self.filters}; half of them are mirror images of the others, so that "
                "it must be even"
            )

    def fit(self, images: Tensor) -> "RandomPatchEncoder":
        """Learn an encoder from images, uint8 [N, C, H, W]."""
        _check_images(images, self)
        generator = torch.Generator().manual_seed(self.seed)
        patches = _sampled(images, self, generator).float() / 255
        shape = patches.shape[1:]
        rows = patches.flatten(1)
        mirrored = torch.arange(rows.shape[1]).view(shape).flip(2).flatten()
        # The statistics of patches and of their mirror images together.
        mean = (rows.mean(0) + rows.mean(0)[mirrored]) / 2
        centered = rows - mean
        covariance = centered.mT @ centered / len(rows)
        covariance = (covariance + covariance[mirrored][:, mirrored]) / 2
        values, vectors = torch.linalg.eigh(covariance.double())
        whitening = (vectors * (values + self.whitening).rsqrt() @ vectors.mT).float()

        chosen = F.normalize(centered[: self.filters // 2] @ whitening)
        filters = torch.cat((chosen, chosen[:, mirrored])) @ whitening
        kernels = torch.cat((filters, whitening))
        encoder = RandomPatchEncoder(
            cells=self.cells,
            threshold=self.threshold,
            precision=self.precision,
            kernels=kernels.view(-1, *shape),
            bias=-(kernels @ mean),
            shift=torch.zeros(()),
            projection=None,
        )
        order = torch.randperm(len(images), generator=generator)
        return encoder.with_principal_components(
            images[order[: self.sampled_images]],
            self.dimensions,
            flattening=self.flattening,
            generator=generator,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomPatchEncoder:
    """Photographs in, features out; F filters on patches of D = C * patch^2 numbers.

    Attributes:
        cells: Rows and columns of the grid.
        threshold: See `RandomPatchFeatures`.
        precision: Likewise.
        kernels: Of the convolution: the F filters, half of them mirrored, and the D rows of the
            whitening [F + D, C, patch, patch].
        bias: What the convolution adds, for patches to be centered [F + D].
        shift: What is subtracted before the projection.
        projection: Principal components, scaled [numbers, dimensions]; None before they are known.
    """

    cells: int
    threshold: float
    precision: Precision
    kernels: Tensor
    bias: Tensor
    shift: Tensor
    projection: Tensor | None

    def __call__(self, images: Tensor) -> Tensor:
        """Return features, single precision [N, dimensions], of uint8 images [N, C, H, W].

        They are centered, with a mean squared norm of 1, over the images that were learned from.
        """
        blocks = []
        with torch.inference_mode():
            for part in counted(torch.split(images, _PHOTOGRAPHS_AT_ONCE), "describing images"):
                pooled = self._described(part)
                if self.projection is not None:
                    pooled = (pooled - self.shift) @ self.projection.float()
                blocks.append(pooled)
        return torch.cat(blocks).clone()

    @property
    def filters(self) -> int:
        """F."""
        return len(self.kernels) - self.kernels[0].numel()

    def _described(self, images: Tensor) -> Tensor:
        """Return what the components are taken of, [B, numbers]."""
        patch = self.kernels.shape[-1]
        places = (images.shape[2] - patch + 1) * (images.shape[3] - patch + 1)
        batch = max(1, _ANSWERS_AT_ONCE // (places * len(self.kernels)))
        kind = torch.bfloat16 if self.precision is Precision.BF16 else torch.float32
        kernels = self.kernels.to(kind).contiguous(memory_format=torch.channels_last)
        bias = self.bias.to(kind)
        # Among random directions a cosine has a standard deviation of 1 over the root of D.
        deviations = self.kernels[0].numel() ** 0.5
        pooled = []
        for some in torch.split(images, batch):
            pixels = (some.float() / 255).to(kind).contiguous(memory_format=torch.channels_last)
            answers = F.conv2d(pixels, kernels, bias)
            cosines, white = answers[:, : self.filters], answers[:, self.filters :]
            length = torch.linalg.vector_norm(white, dim=1, keepdim=True, dtype=torch.float32)
            cosines = cosines * (deviations / length.clamp(min=1e-6)).to(kind)
            sides = [
                F.adaptive_avg_pool2d(F.relu_(side), self.cells).float()
                for side in (cosines - self.threshold, -cosines - self.threshold)
            ]
            pooled.append(_with_mirror_image(torch.stack(sides, 1)))
        # The root keeps the few strong answers from drowning the many weak ones.
        return torch.cat(pooled).sqrt_()

    def with_principal_components(
        self, images: Tensor, dimensions: int, *, flattening: float, generator: torch.Generator
    ) -> "RandomPatchEncoder":
        """Return an encoder that keeps the directions in which these images differ most."""
        pooled = self(images)
        shift = pooled.mean(0)
        pooled -= shift
        kept = _strongest_directions(pooled, dimensions, generator)
        spread = (pooled @ kept).square().mean(0).sqrt()
        kept *= spread.clamp(min=max(_LEAST_SPREAD * float(spread[0]), 1e-12)).pow(-flattening)
        norm = (pooled @ kept).square().sum(1).mean().sqrt()
        # In half precision: it goes into every model's file, and is most of it.
        projection = (kept / norm.clamp(min=1e-12)).half().contiguous()
        return replace(self, shift=shift, projection=projection)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedImages(Step):
    """Images described by an encoder that was fitted to the training images."""

    encoder: PatchEncoder | RandomPatchEncoder

    def __call__(self, rows: Any) -> Tensor:
        """Return features, single precision [N, D], of images uint8 [N, C, H, W]."""
        return self.encoder(torch.as_tensor(rows))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row that comes out."""
        assert self.encoder.projection is not None, "it is fitted"
        return (self.encoder.projection.shape[1],)


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomPatchStep(EncodedImages):
    """Photographs described by an encoder of random patches, as a step of a preprocessing."""

    kind: ClassVar[str] = "random_patches"

    encoder: RandomPatchEncoder

    def described(self) -> dict[str, Any]:
        """Return what is no array."""
        encoder = self.encoder
        return {
            "cells": encoder.cells,
            "threshold": encoder.threshold,
            "precision": encoder.precision.value,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the encoder's matrices by name."""
        return {name: getattr(self.encoder, name).contiguous().numpy() for name in _MATRICES}

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "RandomPatchStep":
        """Return what `described` and `arrays` were taken of."""
        matrices = {name: torch.from_numpy(np.array(arrays[name])) for name in _MATRICES}
        return cls(
            encoder=RandomPatchEncoder(
                cells=described["cells"],
                threshold=described["threshold"],
                precision=Precision(described["precision"]),
                **matrices,
            )
        )


def _with_mirror_image(answers: Tensor) -> Tensor:
    """Average the answers of an image with those of its mirror image, without repetitions.

    Args:
        answers: [B, 2, F, rows, columns], the second half of the filters mirrors the first.

    Returns:
        The left half of the grid, and its middle column, if there is one, of half the filters
        [B, numbers].
    """
    half = answers.shape[2] // 2
    mirrored = torch.cat((answers[:, :, half:], answers[:, :, :half]), 2).flip(4)
    mean = (answers + mirrored) / 2
    columns = answers.shape[4]
    left = mean[..., : columns // 2].flatten(1)
    middle = mean[:, :, :half, :, columns // 2 : (columns + 1) // 2].flatten(1)
    return torch.cat((left, middle), 1)


def _strongest_directions(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Orthonormal principal directions of centered rows [N, D], the strongest first [D, count].

    By power iteration on a block: all eigenvectors of a large matrix would take far longer.
    """
    wanted = min(count, *rows.shape)
    block = torch.randn(rows.shape[1], min(wanted + _BESIDE, *rows.shape), generator=generator)
    for _ in range(_ROUNDS):
        block, _triangle = torch.linalg.qr(rows.mT @ (rows @ block))
    projected = rows @ block
    _, vectors = torch.linalg.eigh((projected.mT @ projected).double())
    kept = block @ vectors.float().flip(1)[:, :wanted]
    # The sign of an eigenvector is arbitrary, and differs between machines.
    signed: Tensor = kept * kept.gather(0, kept.abs().argmax(0, keepdim=True)).sign()
    return signed
