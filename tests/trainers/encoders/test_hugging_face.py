"""hugging_face: a tiny vision model of transformers from a folder, with and without its pooler."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from labeldp.trainers.encoders.embedding import load_encoder
from labeldp.trainers.encoders.encoder import EncoderRequest, Pool
from labeldp.trainers.encoders.libraries import WeightsRefused
from tests.trainers.encoders.small_encoders import some_images

IMAGES = torch.from_numpy(some_images(2, side=20))


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers")


@pytest.fixture
def folder(transformers: Any, tmp_path: Path) -> Iterator[Path]:
    """A model of 8 numbers on images of 16 x 16."""
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=16,
        patch_size=8,
    )
    torch.manual_seed(0)
    place = tmp_path / "tiny-vit"
    transformers.ViTModel(config).save_pretrained(place)
    settings = {"size": {"height": 16, "width": 16}, "resample": 3, "image_mean": [0.5] * 3}
    (place / "preprocessor_config.json").write_text(json.dumps(settings))
    yield place


def asked(folder: Path, **said: Any) -> EncoderRequest:
    return EncoderRequest(address=f"huggingface:{folder}", **said)


def test_a_folder_gives_pooled_vectors_and_no_place_is_told(folder: Path) -> None:
    encoder = load_encoder(asked(folder))
    assert encoder(IMAGES).shape == (2, 8)
    assert encoder.name == "huggingface:tiny-vit"
    made = encoder.preparation
    assert (made.resize, made.square, made.interpolation) == (16, True, "bicubic")
    assert made.mean == (0.5, 0.5, 0.5)
    assert str(folder.parent) not in encoder.provenance.words
    first = load_encoder(asked(folder, pool=Pool.CLS))
    assert (first(IMAGES) != encoder(IMAGES)).any() and first.weights == encoder.weights


def test_a_pooler_left_to_chance_is_not_used(transformers: Any, folder: Path) -> None:
    network = transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False)
    network.save_pretrained(folder)
    with pytest.raises(ValueError, match=r"shape \(2, 5, 8\) .* sequences .* --pool cls"):
        load_encoder(asked(folder))(IMAGES)
    assert load_encoder(asked(folder, pool=Pool.MEAN))(IMAGES).shape == (2, 8)


def test_random_weights_and_weights_of_a_file(folder: Path) -> None:
    random, other = (
        load_encoder(asked(folder, weights=weights, seed=5))
        for weights in ("random", str(folder / "model.safetensors"))
    )
    assert random.weights != other.weights == load_encoder(asked(folder)).weights


def test_what_does_not_fit_or_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    torch.save({"x": torch.ones(1)}, tmp_path / "w.pt")
    with pytest.raises(WeightsRefused, match="do not fit"):
        load_encoder(asked(folder, weights=str(tmp_path / "w.pt")))
    with pytest.raises(WeightsRefused, match="there is no such file"):
        load_encoder(asked(folder, weights="V2"))
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeightsRefused, match=r"fetch config.json.* --encoder huggingface:FOLDER"):
        load_encoder(asked(folder))
