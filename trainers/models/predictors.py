"""Predictors apart from their training: an architecture in plain values, and its arrays.

A trainer returns its `Predictor` when training ends (`Trainer.predictor`). It is written without
code and read back where nothing trains, and gives the same bits there. Networks, linear models,
probes, estimators of scikit-learn, and means of several.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor, nn

from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import Pixels, PublicData
from labeldp.trainers.models.networks import FastCnn, build_model
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.trainer import Predictor
from labeldp.trainers.settings.training import OwnModel, TrainingDiverged, chosen_model

#: State that modules keep beside weights, such as a generator of dropout; predictions need none.
_NO_WEIGHTS = "_extra_state"
#: Training examples, spread over all, that a first layer is fitted to.
_FITTED_TO = 5000
#: Examples in one forward pass when nothing is learned from it.
_BATCH = 1024


def logits_of(
    forward: Callable[[Tensor], Tensor], inputs: Tensor, performance: Performance
) -> Tensor:
    """Return logits [B, K] in single precision of a network."""
    if inputs.ndim == 4:
        inputs = inputs.contiguous(memory_format=performance.memory_format())
    with performance.autocast():
        logits = forward(inputs)
    return logits.float()


def described(network: nn.Module, inputs: Tensor) -> tuple[Tensor, ...]:
    """Return features of inputs [B, ...], of one kind or several, each [B, D].

    They are those of the network's own method `described`, or the inputs of its last linear layer.
    """
    own: Callable[[Tensor], tuple[Tensor, ...]] | None = getattr(network, "described", None)
    if own is not None:
        return own(inputs)
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise ValueError(
            f"{type(network).__name__} has no linear layer whose inputs would describe an example; "
            "give it a method described(x), which returns features [B, D] of several kinds"
        )
    seen: list[Tensor] = []
    hook = layers[-1].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        network(inputs)
    finally:
        hook.remove()
    return (seen[-1].flatten(1).float(),)


def fitting_images(images: Tensor) -> Tensor:
    """Return some of the images [N, ...], spread over all, that a first layer is fitted to."""
    return images[:: max(1, len(images) // _FITTED_TO)][:_FITTED_TO]


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Everything that a network is built of, beside its weights.

    `width` is None for the network's own (see `ModelName`), `cardinalities` those of `PublicData`.
    """

    model: ModelName | OwnModel
    input_shape: tuple[int, ...]
    num_classes: int
    width: int | None = None
    cardinalities: tuple[int, ...] | None = None

    @classmethod
    def for_data(
        cls, data: PublicData, *, model: ModelName | str, width: int | None
    ) -> "NetworkSettings":
        """Return the settings of a network for these features and classes."""
        return cls(
            model=chosen_model(model),
            input_shape=tuple(data.train_features.shape[1:]),
            num_classes=data.num_classes,
            width=width,
            cardinalities=data.cardinalities,
        )

    def for_training(self, data: PublicData, seed: int, *, dropout: float = 0.0) -> nn.Module:
        """Return the network that training starts from: seeded, and fitted to public features."""
        network = self.seeded(seed, dropout=dropout)
        if isinstance(network, FastCnn):
            assert data.pixels is not None, "the network takes images alone"
            network.fit_first(fitting_images(data.train_features), data.pixels.normalized)
        return network

    def seeded(self, seed: int, *, dropout: float = 0.0) -> nn.Module:
        """Return the network with weights that depend on the seed; see `build_model`."""
        own: dict[str, Any] = {"width": self.width, "cardinalities": self.cardinalities}
        sizes: dict[str, Any] = {"input_shape": self.input_shape, "num_classes": self.num_classes}
        if isinstance(self.model, ModelName):
            return build_model(self.model, seed=seed, dropout=dropout, **sizes, **own)
        if self.width is not None or dropout or self.cardinalities is not None:
            raise ValueError(
                f"model is {self.model}, which takes no width ({self.width}), dropout "
                f"({dropout}) or identifiers; write the first two into the network itself "
                "(width=null, dropout=0), and take model=two_branch for identifiers"
            )
        return self.model.build(seed=seed, **sizes)


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkPredictor(Predictor):
    """A network with its weights, on the device that `performance` names.

    `pixels` is None for features that are not images. With `mirrored` an image is judged by itself
    and its mirror image.
    """

    kind: ClassVar[str] = "network"

    network: nn.Module
    settings: NetworkSettings
    pixels: Pixels | None = None
    performance: Performance = field(default_factory=lambda: Performance(device=Device.CPU))
    mirrored: bool = False

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for unaugmented features [N, ...]."""
        (logits,) = self._batched(features, lambda inputs: (self.network(inputs),))
        probabilities: NDArray[np.float32] = logits.softmax(1).cpu().numpy()
        bad = int((~np.isfinite(probabilities)).any(1).sum())
        if bad:
            raise TrainingDiverged(
                f"the trained network's outputs are not finite for {bad} of {len(probabilities)} "
                "rows: lower learning_rate (a tenth of it is a good next try), or let it warm up "
                "longer"
            )
        return probabilities

    def features(self, examples: Tensor) -> tuple[Tensor, ...]:
        """Features by the network of unaugmented examples [N, ...], each kind [N, D]."""
        found = self._batched(examples, lambda inputs: described(self.network, inputs))
        # Copies, which training may use: tensors of inference may not.
        return tuple(kind.cpu().clone() for kind in found)

    def described(self) -> dict[str, Any]:
        """Return the architecture."""
        return {
            "kind": self.kind,
            **asdict(self.settings),
            "pixels": None if self.pixels is None else asdict(self.pixels),
            "precision": self.performance.precision_here().value,
            "channels_last": self.performance.channels_last,
            "mirrored": self.mirrored,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the network's parameters and buffers."""
        # A copy, in the usual layout: a file holds each array once, and training goes on.
        return {
            name: np.array(value.detach().cpu().numpy(), order="C")
            for name, value in self.network.state_dict().items()
            if not name.endswith(_NO_WEIGHTS)
        }

    @classmethod
    def _made(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the network of `described` and `arrays`, on the CPU."""
        # Fresh memory, laid out as what a network in training has.
        weights = {name: torch.from_numpy(of).clone() for name, of in arrays.items()}
        cardinalities = described["cardinalities"]
        settings = NetworkSettings(
            model=chosen_model(described["model"]),
            input_shape=tuple(described["input_shape"]),
            num_classes=described["num_classes"],
            width=described["width"],
            cardinalities=None if cardinalities is None else tuple(cardinalities),
        )
        performance = Performance(
            device=Device.CPU,
            precision=Precision(described["precision"]),
            channels_last=described["channels_last"],
        )
        if isinstance(settings.model, OwnModel):
            # It may keep more than weights.
            network = settings.seeded(0)
            loaded = network.load_state_dict(weights, strict=False)
            missing = [name for name in loaded.missing_keys if not name.endswith(_NO_WEIGHTS)]
            if missing or loaded.unexpected_keys:
                raise ValueError(
                    "the network does not fit the file: it has "
                    f"{', '.join(missing) or 'nothing'} that the file lacks, and the file has "
                    f"{', '.join(loaded.unexpected_keys) or 'nothing'} that it lacks"
                )
        else:
            # Without memory at first: sizes are compared before a number of the file is believed.
            with torch.device("meta"):
                network = settings.seeded(0)
            network.load_state_dict(weights, assign=True)
        return cls(
            network=network.to(memory_format=performance.memory_format()),
            settings=settings,
            pixels=_pixels(described["pixels"]),
            performance=performance,
            mirrored=described["mirrored"],
        )

    @torch.inference_mode()
    def _batched(
        self, examples: Tensor, outputs: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        """Return outputs, single precision [N, ...] each, of unaugmented examples [N, ...].

        The network is left in evaluation mode. With `mirrored` they are the mean of those of an
        image and of its mirror image.
        """

        def found(inputs: Tensor) -> tuple[Tensor, ...]:
            if inputs.ndim == 4:
                inputs = inputs.contiguous(memory_format=self.performance.memory_format())
            with self.performance.autocast():
                return tuple(part.float() for part in outputs(inputs))

        self.network.eval()
        device = self.performance.torch_device()
        batches = []
        for batch in torch.split(examples, _BATCH):
            inputs = batch.to(device)
            if self.pixels is not None:
                inputs = self.pixels.normalized(inputs)
            parts = found(inputs)
            if self.mirrored:
                pairs = zip(parts, found(inputs.flip(3)), strict=True)
                parts = tuple((one + other) / 2 for one, other in pairs)
            batches.append(parts)
        return tuple(torch.cat(kind) for kind in zip(*batches, strict=True))


def _pixels(described: Mapping[str, Any] | None) -> Pixels | None:
    return Pixels(**{name: tuple(of) for name, of in described.items()}) if described else None


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanPredictor(Predictor):
    """The mean of several: students of one ensemble."""

    kind: ClassVar[str] = "mean"

    parts: tuple[Predictor, ...]

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K], the mean over the parts."""
        found = np.stack([part.predict(features) for part in self.parts])
        mean: NDArray[np.float32] = found.mean(axis=0)
        return mean


_CHUNK_ROWS = 8192
#: Scores of a probe are regressions to 0 and 1, too flat for a softmax without a factor.
SHARPNESS = 8.0


class _Regression(Predictor):
    weights: Any

    def __post_init__(self) -> None:
        if self.weights.ndim != 2:
            shape = tuple(self.weights.shape)
            raise ValueError(f"weights have shape {shape}; they must be [D + 1, K]")


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearPredictor(_Regression):
    """Softmax of a linear model; the last row of `weights` [D + 1, K] is the bias."""

    kind: ClassVar[str] = "linear"

    weights: NDArray[np.float64]
    pixels: Pixels | None = None

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, ...]."""
        chunks = [
            softmax(with_constant(rows, self.pixels) @ self.weights, axis=1)
            for rows in torch.split(features, _CHUNK_ROWS)
        ]
        return np.concatenate(chunks).astype(np.float32)

    def described(self) -> dict[str, Any]:
        """Return its kind and the statistics of pixels."""
        return {"kind": self.kind, "pixels": None if self.pixels is None else asdict(self.pixels)}

    @classmethod
    def _made(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(weights=arrays["weights"], pixels=_pixels(described["pixels"]))


def with_constant(features: Tensor, pixels: Pixels | None) -> NDArray[np.float32]:
    """Return flat features and a constant 1, [N, D + 1]; images are normalized first."""
    if pixels is not None:
        features = pixels.normalized(features)
    flat = features.cpu().flatten(1).float()
    return torch.cat([flat, torch.ones(len(flat), 1)], dim=1).numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbePredictor(_Regression):
    """A ridge regression to the classes; the last row of `weights` [D + 1, K] is the bias."""

    kind: ClassVar[str] = "probe"

    weights: Tensor | NDArray[np.float32]

    def scores(self, features: Tensor) -> Tensor:
        """Regressions to 0 and 1 [N, K]."""
        weights = torch.as_tensor(self.weights)
        return features @ weights[:-1] + weights[-1]

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, D]."""
        return self.scores(features).mul(SHARPNESS).softmax(1).numpy()
