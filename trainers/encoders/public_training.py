"""The fast network, trained on a data set whose labels nobody protects; kept by content.

In label privacy there is more public than the features at hand: other sets come with labels that
have been published for long. Ghazi et al. ("Deep Learning with Label Differential Privacy", NeurIPS
2021) train on CIFAR-100 first, to classify CIFAR-10 privately. The recipe is `fast_training`'s for
labels that are right.

Weights are kept in a folder of the user's, under a hash of images, labels and settings: who asks
for the same again waits for nothing. They are written when training has ended, whole.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms import _validate
from labeldp.trainers.data.labelled_data import FeatureKind, LabelledData
from labeldp.trainers.encoders.image_sources import digest_of_images
from labeldp.trainers.encoders.weights import WeightsRefused, digest_of, put_in, read_weights
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.networks import FastCnn
from labeldp.trainers.models.predictors import NetworkSettings
from labeldp.trainers.models.recipe import HALF_WIDTH, LABEL_SMOOTHING, fast_training
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.learner import LearnerConfig

#: Names the folder of what labeldp keeps for a user; below XDG's folder of caches if not set.
CACHE = "LABELDP_CACHE"
#: Counted up when the same settings give other weights, or files say other things beside them.
_VERSION = 2
#: What is said in a file of weights beside them: their digest, and of what they were made.
_DIGEST, _MADE_OF = "sha256", "made_of"


@dataclass(frozen=True, kw_only=True)
class PublicTraining:
    """How the network is trained.

    Attributes:
        epochs: Passes over the images.
        width: See `FastCnn`.
        seed: Of weights, order and augmentation.
        device: Where.
    """

    epochs: int = 10
    width: int = HALF_WIDTH
    seed: int = 0
    device: Device = Device.AUTO

    def __post_init__(self) -> None:
        """Check every field."""
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
    """Return the network, trained on all of the data's training labels, or as it was kept.

    Args:
        data: Images, and labels that are no secret.
        settings: How it is trained.
        folder: Where its weights are kept; made if it is not there.
        told: How far it is, in words.

    Raises:
        WeightsRefused: Another file lies where the weights are kept.
        TrainingDiverged: The loss is not finite any more.
        ValueError: The data are no images.
        OSError: The weights can't be written.
    """
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
    network = learner.judged.to("cpu").to(memory_format=torch.contiguous_format)
    assert isinstance(network, FastCnn)
    return network


def _kept(file: Path, data: LabelledData, settings: PublicTraining, *, key: str) -> FastCnn:
    """The network of a file of weights.

    A name is changed in a moment: weights that learned of other labels, secret ones perhaps, would
    be taken for those of the public ones. So the file itself says of what it was made.

    Raises:
        WeightsRefused: It is damaged, or not what was written under that name.
    """
    config = settings.learner
    network = NetworkSettings.for_data(data.public, model=config.model, width=config.width).build()
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
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        said = {_DIGEST: digest_of(network), _MADE_OF: key}
        save_file(network.state_dict(), draft, metadata=said)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
