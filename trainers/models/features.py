"""Features that no label goes into: computed once, kept by content, free of any privacy cost.

For tables these are standardized columns, for images patches that are described in one of two ways.

`PatchFeatures` is the single-layer network of Coates, Ng and Lee ("An Analysis of Single-Layer
Networks in Unsupervised Feature Learning", AISTATS 2011): k-means on small whitened patches, each
patch described by how much nearer than average it is to each center, sums over the cells of a grid.

`RandomPatchFeatures` is after Thiry, Arbel, Belilovsky and Oyallon ("The Unreasonable Effectiveness
of Patches in Deep Convolutional Kernels Methods", ICLR 2021): filters are whitened patches of
random images, compared with x and -x by the cosine. Answers above a threshold are averaged over the
cells of a grid. Each filter's mirror image is a filter too: for photographs, not for letters.

Both end with square roots and principal components, which help linear models.
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.files import make_folder, whole_file
from labeldp.trainers.data.labelled_data import FeatureKind, PublicData
from labeldp.trainers.data.stored import Step
from labeldp.trainers.models.networks import settled
from labeldp.trainers.performance import Precision

#: Counted up when the same settings give other features, so that stale files are not read.
_VERSION = 5
#: How long one process waits for another at most: ten times what the slowest of these arrays take
#: on a busy machine. Afterwards it computes for itself, which costs time and nothing else.
PATIENCE_SECONDS = 900.0
#: Numbers that the distances of one batch may fill: more do not fit into a processor's cache.
_BATCH_NUMBERS = 2**20
#: Added to a patch's variance (of pixels in 0..255), so that noise in flat patches is not
#: amplified.
_PATCH_VARIANCE = 10.0
#: Added to the eigenvalues of the patches' covariance before whitening.
_WHITENING = 0.01


@dataclass(frozen=True, kw_only=True)
class PatchFeatures:
    """Settings of features by k-means on patches.

    Whitening and `centers` are learned from `sampled_patches`, as many of the `dimensions` of the
    sums over `cells` x `cells` as there are from `sampled_images`.
    """

    patch: int = 6
    centers: int = 300
    cells: int = 3
    dimensions: int = 800
    sampled_patches: int = 100_000
    sampled_images: int = 10_000
    seed: int = 0

    def fit(self, images: Tensor) -> "PatchEncoder":
        """Learn an encoder from images, uint8 [N, C, H, W]."""
        # A model that is read has its encoder, and needs no scikit-learn.
        from sklearn.cluster import MiniBatchKMeans

        _check_images(images, self)
        generator = torch.Generator().manual_seed(self.seed)
        patches = _normalized(_sampled(images, self, generator).flatten(1).float())
        mean = patches.mean(0)
        centered = patches - mean
        values, vectors = torch.linalg.eigh((centered.mT @ centered / len(centered)).double())
        whitening = (vectors * (values + _WHITENING).rsqrt() @ vectors.mT).float()

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


class _ImageStep(Step):
    """Images in, features out: a step of a preprocessing.

    `shift` is subtracted before the `projection` on scaled principal components [numbers,
    dimensions], which is None before they are known.
    """

    at_once: ClassVar[int]
    shift: Tensor
    projection: Tensor | None

    def __call__(self, rows: object) -> Tensor:
        """Return features, single precision [N, dimensions], of uint8 images [N, C, H, W].

        They are centered, with a mean squared norm of 1, over the images that were learned from.
        """
        parts = torch.split(torch.as_tensor(rows), self.at_once)
        blocks = []
        with torch.inference_mode():
            for part in parts:
                pooled = self._pooled_answers(part)
                if self.projection is not None:
                    pooled = (pooled - self.shift) @ self.projection.float()
                blocks.append(pooled)
        return torch.cat(blocks).clone()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        assert self.projection is not None, "it is fitted"
        return (self.projection.shape[1],)

    @classmethod
    def _made(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        tensors: dict[str, Any] = {
            name: torch.from_numpy(np.array(of)) for name, of in arrays.items()
        }
        return super()._made(described, tensors)

    @abstractmethod
    def _pooled_answers(self, images: Tensor) -> Tensor:
        """Return the numbers that the components are taken of, [B, numbers]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchEncoder(_ImageStep):
    """k-means on patches; D is C * patch^2.

    `mean` [D] and `whitening` [D, D] are those of normalized patches, `centers` those of whitened
    ones [centers, D].
    """

    kind: ClassVar[str] = "patches"
    at_once: ClassVar[int] = 1024

    patch: int
    cells: int
    mean: Tensor
    whitening: Tensor
    centers: Tensor
    shift: Tensor
    projection: Tensor | None

    def _pooled_answers(self, images: Tensor) -> Tensor:
        rows, columns = (length - self.patch + 1 for length in images.shape[2:])
        count = len(self.centers)
        places = rows * columns
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
        kept = settled(vectors[:, -dimensions:].flip(1))
        norm = (pooled @ kept).square().sum(1).mean().sqrt()
        # Matrices that lie in columns would give other last bits, and files keep none of these.
        projection = (kept / norm.clamp(min=1e-12)).contiguous()
        return replace(self, shift=shift, projection=projection)

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


def _normalized(patches: Tensor) -> Tensor:
    """Subtract each patch's mean and divide by its spread [P, D]."""
    centered = patches - patches.mean(1, keepdim=True)
    variance = centered.square().mean(1, keepdim=True)  # torch.var is six times as slow here
    return centered.mul_((variance + _PATCH_VARIANCE).rsqrt_())


def _sampled(
    images: Tensor, settings: "PatchFeatures | RandomPatchFeatures", generator: torch.Generator
) -> Tensor:
    """Patches of random images at random places, uint8 [sampled_patches, C, patch, patch]."""
    count = settings.sampled_patches
    side = settings.patch
    rows, columns = (length - side + 1 for length in images.shape[2:])
    chosen = torch.randint(len(images), (count,), generator=generator)
    top = torch.randint(rows, (count, 1), generator=generator)
    left = torch.randint(columns, (count, 1), generator=generator)
    y = (top + torch.arange(side))[:, :, None]
    x = (left + torch.arange(side))[:, None, :]
    patches = images[chosen[:, None, None], :, y, x]  # [P, patch, patch, C]
    return patches.permute(0, 3, 1, 2)


def _check_images(images: Tensor, settings: "PatchFeatures | RandomPatchFeatures") -> None:
    least = settings.patch + settings.cells - 1
    if min(images.shape[2:]) < least:
        raise ValueError(
            f"images have {images.shape[2]} x {images.shape[3]} pixels; patches of "
            f"{settings.patch} in {settings.cells} x {settings.cells} cells need at least "
            f"{least} x {least}: take a smaller patch or fewer cells"
        )


#: Answers of filters that are worked out at once: more do not fit into a processor's cache.
_ANSWERS_AT_ONCE = 2**22
#: Components with less than this share of the first one's spread are numerical noise.
_LEAST_SPREAD = 1e-3
#: Rounds of the power iteration that finds the components, and directions beside the wanted ones.
_ROUNDS = 3
_BESIDE = 50


@dataclass(frozen=True, kw_only=True)
class RandomPatchFeatures:
    """Settings of features by random patches.

    `whitening`, `threshold`, `cells` and `flattening` were chosen among two to four values each by
    accuracy on true labels of CIFAR-10, which no epsilon pays for: state that beside numbers on
    that set. Other sets played no part.

    Half of the `filters` are mirror images of the other half. Cosines above the `threshold` count,
    in units of their standard deviation among random directions; .25 is passed by the best 40%, .4
    by the best 34%. `flattening` makes components alike, from 0, not at all, to 1, all of the same
    size: the strongest components show lighting rather than objects. `precision` is that of the
    convolution and what follows up to the averages.
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
class RandomPatchEncoder(_ImageStep):
    """F filters on patches of D = C * patch^2 numbers of photographs.

    The `kernels` of the convolution are the F filters, half of them mirrored, and the D rows of the
    whitening [F + D, C, patch, patch]; `bias` [F + D] centers the patches.
    """

    kind: ClassVar[str] = "random_patches"
    at_once: ClassVar[int] = 512

    cells: int
    threshold: float
    precision: Precision
    kernels: Tensor
    bias: Tensor
    shift: Tensor
    projection: Tensor | None

    @property
    def filters(self) -> int:
        """F."""
        return len(self.kernels) - self.kernels[0].numel()

    def _pooled_answers(self, images: Tensor) -> Tensor:
        patch = self.kernels.shape[-1]
        places = (images.shape[2] - patch + 1) * (images.shape[3] - patch + 1)
        batch = max(1, _ANSWERS_AT_ONCE // (places * len(self.kernels)))
        kind = torch.bfloat16 if self.precision == Precision.BF16 else torch.float32
        kernels = self.kernels.to(kind).contiguous(memory_format=torch.channels_last)
        bias = self.bias.to(kind)
        # Among random directions a cosine has a standard deviation of 1 over the root of D.
        deviations = self.kernels[0].numel() ** 0.5
        pooled = []
        for some in torch.split(images, batch):
            pixels = (some.float() / 255).to(kind).contiguous(memory_format=torch.channels_last)
            answers = F.conv2d(pixels, kernels, bias)
            cosines = answers[:, : self.filters]
            white = answers[:, self.filters :]
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


def _with_mirror_image(answers: Tensor) -> Tensor:
    """Average the answers of an image with those of its mirror image, without repetitions.

    Answers are [B, 2, F, rows, columns], where the second half of the filters mirrors the first.
    The result is the left half of the grid, and its middle column, if there is one, of half the
    filters [B, numbers].
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
    return settled(block @ vectors.float().flip(1)[:, :wanted])


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledStep(Step):
    """Columns less `center` times `factor`, both [D]: a mean squared norm of 1 in all.

    Before that, numbers have a variance of 1 and columns of two values a distance of 1 between
    them: with a variance of 1 a rare category would outweigh all numbers.
    """

    kind: ClassVar[str] = "scaled"

    center: NDArray[np.float32]
    factor: NDArray[np.float32]

    @classmethod
    def fit(cls, train: Tensor) -> "ScaledStep":
        """Learn from the training rows [N, D]."""
        std, mean = torch.std_mean(train.double(), 0, correction=0)
        low = train.amin(0)
        high = train.amax(0)
        of_two_values = ((train == low) | (train == high)).all(0)
        unit = torch.where(of_two_values, (high - low).double(), std)
        scale = torch.where(std > 0, 1 / unit, 0.0)
        scale /= (scale * std).square().sum().sqrt().clamp(min=1e-12)
        return cls(center=mean.float().numpy(), factor=scale.float().numpy())

    def __call__(self, rows: object) -> Tensor:
        """Return features, single precision [N, D], of numbers [N, D]."""
        center, factor = (torch.tensor(each) for each in (self.center, self.factor))
        return (torch.as_tensor(rows) - center) * factor

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (len(self.center),)


Arrays: TypeAlias = tuple[NDArray[Any], ...]
#: Settings of features of images.
ImageFeatures: TypeAlias = PatchFeatures | RandomPatchFeatures


def image_features(which: FeatureSet) -> ImageFeatures:
    """Return the settings of PATCHES or RANDOM_PATCHES."""
    return RandomPatchFeatures() if which is FeatureSet.RANDOM_PATCHES else PatchFeatures()


def described_by_features(
    data: PublicData, settings: ImageFeatures | None = None, *, folder: Path | None = None
) -> PublicData:
    """Return the same data, with features that are learned from the training features alone.

    `settings` are those of images, k-means patches by default; tables need none. Features are kept
    in `folder` and read from there when they are requested again, by several processes at once.
    """
    data.require_numbers(user="data.features=patches")
    settings = settings or PatchFeatures()

    def make() -> Arrays:
        train = data.train_features.cpu()
        step = ScaledStep.fit(train) if data.kind is FeatureKind.TABULAR else settings.fit(train)
        found = torch.cat([step(features.cpu()) for features in data.parts.values()])
        arrays = step.arrays()
        described = json.dumps({"step": step.described(), "names": list(arrays)})
        return found.numpy(), np.array(described), *arrays.values()

    key = {"version": _VERSION, "data": data.fingerprint, "settings": repr(settings)}
    found, described, *arrays = made_once(make, folder=folder, name="features", key=key)
    facts = json.loads(described.item())
    step = Step.restored(facts["step"], dict(zip(facts["names"], arrays, strict=True)))
    sizes = [len(features) for features in data.parts.values()]
    parts = dict(zip(data.parts, torch.split(torch.from_numpy(found), sizes), strict=True))
    return replace(
        data,
        train_features=parts["train"],
        test_features=parts["test"],
        held_out_features=parts.get("held_out"),
        preprocessing=data.preprocessing.then(step),
    )


def made_once(
    make: Callable[[], Arrays],
    *,
    folder: Path | None,
    name: str,
    key: Mapping[str, object],
    patience: float = PATIENCE_SECONDS,
) -> Arrays:
    """Return the arrays of `make`, made by the first process that requests them.

    They are kept in a `folder` that the processes share, or nowhere (None). `key` is all that
    decides their content, as JSON takes it; no label is among it. All processes see the very bits
    that were computed: a release is addressed by them, and other bits would be another, paid
    release.

    A process waits `patience` seconds for another at most; if that one dies, the next computes. A
    folder that can't be written or locked costs time and stops nothing.
    """
    if folder is None:
        return make()
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    place = folder / f"{name}-{digest[:32]}"
    lock = FileLock(f"{place}.lock", timeout=patience, poll_interval=0.2, mode=0o600)
    # It is written last: where it is, all are.
    first = place / "00.npy"
    with suppress(OSError):  # `filelock.Timeout` is one
        make_folder(place)
        if not first.exists():
            lock.acquire()
    try:
        if not first.exists():
            arrays = make()
            try:
                for number in reversed(range(len(arrays))):
                    with whole_file(place / f"{number:02}.npy") as file:
                        np.save(file, arrays[number], allow_pickle=False)
            except OSError:
                return arrays
        # Mapped, and copied on write: processes on one machine share the pages. Each begins at a
        # multiple of 64 bytes, as the order in which a processor adds numbers may depend on that.
        return tuple(np.load(each, mmap_mode="c") for each in sorted(place.glob("*.npy")))
    finally:
        if lock.is_locked:
            # A process that waits sees that its file has no name any more, and locks a new one.
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()
