"""Vision models of transformers: by name, or a folder with `config.json` and weights.

Of a model that has one, the pooled vector is taken, unless its weights leave that part to chance;
otherwise the user says which vector of the sequence is meant (`Pool`).
"""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from labeldp.trainers.data.regular_files import FileRefused, read_bytes
from labeldp.trainers.encoders.encoder import (
    Encoder,
    EncoderRequest,
    WeightsKind,
    finished,
    sized,
)
from labeldp.trainers.encoders.hub import silence
from labeldp.trainers.encoders.libraries import library, seeded
from labeldp.trainers.encoders.preparation import IMAGENET_MEAN, IMAGENET_STD, Preparation
from labeldp.trainers.encoders.weights import WeightsRefused, digest_of, read_weights

_FILES = "config.json, preprocessor_config.json and model.safetensors"
#: Pillow's numbers of ways to change sizes, of those that are known here.
_RESAMPLING = {2: "bilinear", 3: "bicubic"}
#: Part of a model that pools, which not all published weights hold.
_POOLER = "pooler."


class _Vectors(nn.Module):
    """A vision model, and what is taken of its output."""

    def __init__(self, network: nn.Module, *, pooled: bool) -> None:
        super().__init__()
        self.network, self._pooled = network, pooled

    def forward(self, batch: Tensor) -> Any:
        output = self.network(pixel_values=batch)
        found = getattr(output, "pooler_output", None) if self._pooled else None
        return output.last_hidden_state if found is None else found


def hugging_face_encoder(request: EncoderRequest) -> Encoder:
    """Return a vision model of transformers.

    Raises:
        WeightsRefused: Weights or settings that are not there, can't be downloaded, or do not fit.
        ValueError: transformers is not installed, or the model does not take images.
    """
    transformers = library("transformers")
    place = Path(request.name).expanduser()
    local = place.is_dir()
    where = str(place) if local else request.name
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    if request.kind is WeightsKind.LIBRARY and request.weights is not None:
        raise WeightsRefused(f"--weights is {request.weights}, and there is no such file")
    unheard = None if local else silence(where, ["config.json"])
    if unheard is not None:
        raise _not_loaded(request, unheard)
    try:
        missing: tuple[str, ...] = ()
        if request.kind is WeightsKind.LIBRARY:
            model = transformers.AutoModel
            network, missing = _fitting(model, where, what=where, local_files_only=local)
        else:
            config = transformers.AutoConfig.from_pretrained(where, local_files_only=local)
            with seeded(request.seed):
                network = transformers.AutoModel.from_config(config)
            if request.kind is WeightsKind.FILE:
                # By the library too, since files and networks differ in the names of weights.
                given = {"config": config, "state_dict": read_weights(request.file)}
                network, missing = _fitting(type(network), None, what=str(request.file), **given)
        network = _vision(network)
        settings = _settings(transformers, place, where, local=local)
    except WeightsRefused:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise _not_loaded(request, error) from error
    whole = not any(_POOLER in name for name in missing)
    return finished(
        request,
        _Vectors(network, pooled=request.pool is None and whole),
        name=f"huggingface:{place.resolve().name}" if local else request.address,
        preparation=sized(_preparation(settings), request.image_size),
        weights=digest_of(network),
        known_as="" if local else request.address,
    )


def _not_loaded(request: EncoderRequest, error: Exception) -> WeightsRefused:
    first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return WeightsRefused(
        f"{request.address} can't be loaded ({first}); fetch {_FILES} on a machine that can, "
        "put them into a folder here, and name it: --encoder huggingface:FOLDER"
    )


def _fitting(
    model: Any, where: str | None, *, what: str, **given: Any
) -> tuple[nn.Module, tuple[str, ...]]:
    """A model with weights that fit, but for a pooler's; the names of those that are missing."""
    network, loading = model.from_pretrained(where, output_loading_info=True, **given)
    missing = tuple(sorted(map(str, loading["missing_keys"])))
    others = [name for name in missing if _POOLER not in name]
    wrong = [*others, *(str(name) for name in loading.get("mismatched_keys", ()))]
    if wrong:
        raise WeightsRefused(
            f"weights of {what} do not fit: {len(wrong)} of the model's tensors are not in them "
            f"({wrong[0]}, ...); they are another model's, or only a part"
        )
    return network, missing


def _vision(network: nn.Module) -> nn.Module:
    """The part of a model that sees; all of most."""
    part = getattr(network, "vision_model", None)
    return part if isinstance(part, nn.Module) else network


def _settings(transformers: Any, place: Path, where: str, *, local: bool) -> Mapping[str, Any]:
    """What the model's publisher does to images; nothing where that is not said."""
    found: Any = {}
    if local:
        with suppress(OSError, FileRefused):
            found = json.loads(read_bytes(place / "preprocessor_config.json"))
    else:
        found = transformers.AutoImageProcessor.from_pretrained(where).to_dict()
    return found if isinstance(found, Mapping) else {}


def _preparation(settings: Mapping[str, Any]) -> Preparation:
    size = settings.get("size") if settings.get("do_resize", True) else None
    crop = settings.get("crop_size") if settings.get("do_center_crop", False) else None
    resize, square = _side(size)
    return Preparation(
        resize=resize,
        crop=_side(crop)[0],
        square=square,
        interpolation=_RESAMPLING.get(settings.get("resample", 2), "bilinear"),
        mean=tuple(settings.get("image_mean", IMAGENET_MEAN)),
        std=tuple(settings.get("image_std", IMAGENET_STD)),
    )


def _side(size: Any) -> tuple[int | None, bool]:
    """A length, and whether it is of both sides."""
    if isinstance(size, Mapping):
        if "shortest_edge" in size:
            return int(size["shortest_edge"]), False
        return (int(size["height"]), True) if "height" in size else (None, False)
    return (int(size), True) if isinstance(size, int) else (None, False)
