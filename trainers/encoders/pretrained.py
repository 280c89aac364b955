"""`pretrained:NAME`: the fast network, trained here on the public labels of another data set.

Its vectors are what the head sees, the mean of an image's and its mirror image's. What it knows of
classes it has from labels that no mechanism stood before: the user says that they are public, and
they must not be those that are to be protected. Results are in the league of public encoders.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.encoders.encoder import (
    Encoder,
    EncoderRequest,
    Surroundings,
    WeightsKind,
    finished,
)
from labeldp.trainers.encoders.image_sources import ArraySource, ImageSource
from labeldp.trainers.encoders.preparation import Preparation
from labeldp.trainers.encoders.public_training import (
    PublicTraining,
    cache_folder,
    publicly_trained,
)
from labeldp.trainers.encoders.weights import digest_of
from labeldp.trainers.models.networks import FastCnn

#: Share of the images that may be in both sets. Collections from the web have a few images twice.
_MOST_SHARED = 0.01
#: What is to be known of sets that are relatives of others.
_ORIGINS = {
    "cifar10": "; of the same 80 million tiny images as CIFAR-100, no class in common",
    "cifar100": "; of the same 80 million tiny images as CIFAR-10, no class in common",
}
#: Images whose bytes are compared at a time.
_COMPARED = 1024


def pretrained_encoder(request: EncoderRequest, around: Surroundings) -> Encoder:
    """Return the fast network, trained on a data set that the user calls public.

    Raises:
        ValueError: Nobody says that the labels are public; they are those of the images that are to
            be embedded; a request that contradicts itself.
        WeightsRefused: Weights of an earlier call that can't be used.
        TrainingDiverged: The loss is not finite any more.
    """
    _check(request, around)
    data = load(request.name, root=around.root)
    shared = 0 if around.images is None else shared_images(data, around.images)
    if around.images is not None and shared:
        _check_shared(shared, around.images.rows, request)
        around.told(f"{shared:,} of the images are in {request.name} too, with a label")
    data = _in_color(data)
    settings = PublicTraining(seed=request.seed, device=request.device)
    network = publicly_trained(data, settings, folder=cache_folder(), told=around.told)
    height, width = data.public.train_features.shape[2:]
    said = replace(
        request,
        trained_on=f"{request.name} with its labels, public by the user's word"
        f"{_ORIGINS.get(request.name, '')}",
        trained_by=request.trained_by or "the user, by labeldp",
    )
    return finished(
        said,
        MirroredFeatures(network),
        name=request.address,
        preparation=Preparation(
            resize=request.image_size or min(height, width),
            square=True,
            mean=_three(data.public.mean),
            std=_three(data.public.std),
        ),
        weights=digest_of(network),
    )


class MirroredFeatures(nn.Module):
    """What a fast network's head sees of images and of their mirror images, in the mean."""

    def __init__(self, network: FastCnn) -> None:
        super().__init__()
        self.network = network.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Return vectors [B, D] of images [B, 3, H, W]."""
        images = images.contiguous(memory_format=torch.channels_last)
        both = self.network.features(images) + self.network.features(images.flip(3))
        return both / 2


def shared_images(data: LabelledData, images: ImageSource) -> int:
    """Return how many images are among a data set's training images, byte for byte.

    An image without color is the same as its copy in three equal channels, which is what a file of
    it becomes when it is read.
    """
    known = set(_marks(ArraySource(parts=(data.public.train_features.numpy(),))))
    return sum(mark in known for mark in _marks(images))


def _marks(images: ImageSource) -> Iterable[bytes]:
    for batch in images.batches(_COMPARED):
        for image in batch:
            if image.ndim == 3 and len(image) == 1:
                image = image.expand(3, -1, -1)
            content = image.numpy()
            shape = str(content.shape).encode()
            yield hashlib.blake2b(shape + content.tobytes(), digest_size=16).digest()


def _check(request: EncoderRequest, around: Surroundings) -> None:
    """Refuse, before anything is read, what contradicts itself."""
    if around.name == request.name:
        raise ValueError(
            f"{request.address} would be trained on the labels of {request.name}, and its vectors "
            "would tell those that are to be protected; train it on another data set"
        )
    if not request.public_labels:
        raise ValueError(
            f"{request.address} is trained on the labels of {request.name} as they are, and "
            "whoever has its vectors can learn of them: no epsilon covers it. If they are nobody's "
            "secret, say --public-labels"
        )
    if request.kind is not WeightsKind.LIBRARY or request.weights is not None:
        raise ValueError(
            f"--weights is {request.weights}, and {request.address} trains its own (they are kept "
            f"in {cache_folder()}); leave --weights out"
        )
    if request.no_outside_data or request.trained_on:
        raise ValueError(
            f"{request.address} is trained on {request.name} with its labels, and says so beside "
            "every result; leave --no-outside-data and --trained-on out"
        )


def _check_shared(shared: int, rows: int, request: EncoderRequest) -> None:
    if shared > _MOST_SHARED * rows:
        raise ValueError(
            f"{shared:,} of the {rows:,} images are in {request.name} too, byte for byte, and "
            f"{request.address} would be trained on their labels: its vectors would tell what is "
            "to be protected; train it on another data set"
        )


def _in_color(data: LabelledData) -> LabelledData:
    """The same with three channels, as all images are that an encoder gets."""
    public = data.public
    if public.train_features.ndim != 4 or public.train_features.shape[1] == 3:
        return data
    train, test = (
        features.expand(-1, 3, -1, -1).contiguous()
        for features in (public.train_features, public.test_features)
    )
    color = replace(
        public,
        train_features=train,
        test_features=test,
        preprocessing=replace(public.preprocessing, steps=()),
    )
    return replace(data, public=color)


def _three(numbers: tuple[float, ...]) -> tuple[float, float, float]:
    first, second, third = numbers
    return first, second, third
