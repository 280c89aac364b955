"""`pretrained:NAME`: the fast network, trained here on the public labels of another data set.

No mechanism protects those labels: the user states that they are public, and they must not be those
to protect. Results are in the league of public encoders. Weights are kept in a cache, by images,
labels and settings.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from labeldp.mechanisms import _validate
from labeldp.trainers.data.files import whole_file
from labeldp.trainers.data.labelled_data import FeatureKind, LabelledData, load
from labeldp.trainers.data.splits import digest_of_images
from labeldp.trainers.encoders.encoder import (
    ArraySource,
    Encoder,
    EncoderRequest,
    ImageSource,
    Preparation,
    Surroundings,
    WeightsKind,
    finished,
)
from labeldp.trainers.encoders.libraries import WeightsRefused, digest_of, put_in, read_weights
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.networks import FastCnn
from labeldp.trainers.models.predictors import NetworkSettings
from labeldp.trainers.models.schedules import HALF_WIDTH, LABEL_SMOOTHING, fast_training
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.training import LearnerConfig

#: Share of the images that may be in both sets. Collections from the web have a few images twice.
_MOST_SHARED = 0.01
#: Notes on data sets that are related to others.
_ORIGINS = {
    "cifar10": "; of the same 80 million tiny images as CIFAR-100, no class in common",
    "cifar100": "; of the same 80 million tiny images as CIFAR-10, no class in common",
}
#: Images whose bytes are compared at a time.
_COMPARED = 1024


def pretrained_encoder(request: EncoderRequest, around: Surroundings) -> Encoder:
    """Return the fast network, trained on a data set that the user calls public."""
    _check(request, around)
    data = load(request.name, root=around.root)
    shared = 0 if around.images is None else shared_images(data, around.images)
    if around.images is not None and shared:
        if shared > _MOST_SHARED * around.images.rows:
            raise ValueError(
                f"{shared:,} of the {around.images.rows:,} images are in {request.name} too, byte "
                f"for byte, and {request.address} would be trained on their labels: its vectors "
                "would tell what is to be protected; train it on another data set"
            )
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
            mean=data.public.mean,
            std=data.public.std,
        ),
        weights=digest_of(network),
    )


class MirroredFeatures(nn.Module):
    """The mean of a fast network's features of an image and of its mirror image."""

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

    An image without color equals its copy in three channels, which reading a file of it gives.
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
    if around.name == request.name:
        raise ValueError(
            f"{request.address} would be trained on the labels of {request.name}, and its vectors "
            "would tell those that are to be protected; train it on another data set"
        )
    if not request.public_labels:
        raise ValueError(
            f"{request.address} is trained on the labels of {request.name} as they are, and "
            "its vectors tell about them: no epsilon covers it. If these labels are public, add "
            "--public-labels"
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


def _in_color(data: LabelledData) -> LabelledData:
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


#: Names the folder of what labeldp keeps for a user; below XDG's folder of caches if not set.
CACHE = "LABELDP_CACHE"
#: Increase it when the same settings give other weights.
_VERSION = 2
#: Metadata of a file of weights: their digest, and the hash of images, labels and settings.
_DIGEST, _MADE_OF = "sha256", "made_of"


@dataclass(frozen=True, kw_only=True)
class PublicTraining:
    """How the network is trained."""

    epochs: int = 10
    width: int = HALF_WIDTH
    seed: int = 0
    device: Device = Device.AUTO

    def __post_init__(self) -> None:
        _validate.whole(minimum=1, epochs=self.epochs, width=self.width)
        _validate.whole(seed=self.seed)
        _validate.members(self)

    @property
    def learner(self) -> LearnerConfig:
        """The recipe."""
        return LearnerConfig(
            **fast_training(epochs=self.epochs, width=self.width, label_smoothing=LABEL_SMOOTHING)
        )

    @property
    def performance(self) -> Performance:
        """In bfloat16 where the device has units for it."""
        return Performance(device=self.device, precision=Precision.AUTO, channels_last=True)


def cache_folder() -> Path:
    """Return where weights are kept: LABELDP_CACHE, else a folder among the user's caches."""
    named = os.environ.get(CACHE)
    if named:
        return Path(named).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "labeldp"


def publicly_trained(
    data: LabelledData, settings: PublicTraining, *, folder: Path, told: Callable[[str], None]
) -> FastCnn:
    """Return the network, trained on public training labels, or as the folder keeps it."""
    if data.public.kind is not FeatureKind.IMAGE:
        raise ValueError(f"{data.public.name} holds no images; an encoder of images learns of some")
    key = _key(data, settings)
    file = folder / f"pretrained-{data.public.name}-{key[:32]}.safetensors"
    if os.path.lexists(file):
        network = _kept(file, data, settings, key=key)
        told(f"weights of an earlier call: {file}")
        return network
    folder.mkdir(parents=True, exist_ok=True)
    network = _trained(data, settings, told=told)
    _keep(file, network, key=key)
    told(f"weights are kept for the next time: {file}")
    return network


def _key(data: LabelledData, settings: PublicTraining) -> str:
    """Hash of all that the weights depend on, but for the machine's last bits."""
    recipe = asdict(settings.learner)
    parts: dict[str, Any] = {
        "version": _VERSION,
        "images": digest_of_images(data.public.train_features.numpy()),
        "labels": hashlib.sha256(data.train_labels.tobytes()).hexdigest(),
        "classes": data.public.num_classes,
        "recipe": recipe,
        "seed": settings.seed,
        "precision": settings.performance.precision_here().value,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _trained(
    data: LabelledData, settings: PublicTraining, *, told: Callable[[str], None]
) -> FastCnn:
    config = settings.learner
    learner = Learner(
        config, data=data.public, seed=settings.seed, performance=settings.performance
    )
    labels = torch.from_numpy(data.train_labels).to(learner.device)

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        return functional.cross_entropy(
            logits, labels[rows], label_smoothing=config.recipe.label_smoothing
        )

    told(
        f"training the fast network on {len(labels):,} images of {data.public.name} and their "
        f"labels, {config.epochs} epochs"
    )
    seconds = 0.0
    for epoch in range(1, config.epochs + 1):
        figures = learner.epoch(loss)
        seconds += figures.seconds
        judged = f"{100 * figures.val_accuracy:.1f}% of the test images are right, "
        left = seconds / epoch * (config.epochs - epoch)
        told(
            f"epoch {epoch} of {config.epochs}: "
            f"{judged if len(data.public.test_labels) else ''}about {left:.0f} s left"
        )
    network = learner.predictor().network.to("cpu").to(memory_format=torch.contiguous_format)
    assert isinstance(network, FastCnn)
    return network


def _kept(file: Path, data: LabelledData, settings: PublicTraining, *, key: str) -> FastCnn:
    """The network of a file of weights, which itself states its images, labels and settings.

    A file's name proves nothing: its weights could have learned secret labels.
    """
    config = settings.learner
    shape = NetworkSettings.for_data(data.public, model=config.model, width=config.width)
    network = shape.seeded(0)
    assert isinstance(network, FastCnn)
    way_out = f"take {file} away, and it is trained again"
    try:
        put_in(network, read_weights(file), what="they")
        with safe_open(file, framework="pt") as opened:
            written = opened.metadata() or {}
    except WeightsRefused as error:
        raise WeightsRefused(f"kept weights can't be used ({error}); {way_out}") from error
    if written != {_DIGEST: digest_of(network), _MADE_OF: key}:
        raise WeightsRefused(
            f"kept weights can't be used: another file lies under their name, or it is damaged; "
            f"{way_out}"
        )
    return network


def _keep(file: Path, network: FastCnn, *, key: str) -> None:
    with whole_file(file) as opened:
        said = {_DIGEST: digest_of(network), _MADE_OF: key}
        opened.write(save(network.state_dict(), metadata=said))
