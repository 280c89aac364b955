"""The encoder's file: written whole, read without running anything, refused when it is another."""

from pathlib import Path

import pytest
import torch

from labeldp.trainers.encoders.image_encoder import (
    EncoderFileRefused,
    ImageEncoder,
    build,
    read_encoder,
    write_encoder,
)
from labeldp.trainers.models.predictors import Pixels
from labeldp.trainers.settings.base import ModelName

IMAGES = torch.randint(
    256, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)


def an_encoder(*, mirrored: bool = True) -> ImageEncoder:
    encoder = ImageEncoder(
        ModelName.FAST_CNN,
        shape=(3, 8, 8),
        width=2,
        pixels=Pixels(mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2)),
        mirrored=mirrored,
        seed=4,
    )
    encoder.fit_first(IMAGES)
    return encoder.eval()


@pytest.mark.parametrize("mirrored", [True, False])
def test_it_says_the_same_when_it_is_read_back(tmp_path: Path, mirrored: bool) -> None:
    encoder = an_encoder(mirrored=mirrored)
    write_encoder(tmp_path / "encoder.pt", encoder)
    assert [path.name for path in tmp_path.iterdir()] == ["encoder.pt"]
    again = build(tmp_path / "encoder.pt")
    with torch.inference_mode():
        vectors = encoder(IMAGES)
        assert torch.equal(again(IMAGES), vectors)
        assert torch.allclose(encoder(IMAGES.flip(3)), vectors, atol=1e-5) is mirrored
    assert vectors.shape == (6, again.dimensions) == (6, 8)


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"trained on \(3, 8, 8\).*--image-size"):
        an_encoder()(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))


def test_files_that_hold_none_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "encoder.pt"
    with pytest.raises(EncoderFileRefused, match="can't be read"):
        read_encoder(file)
    file.write_bytes(b"no encoder")
    with pytest.raises(EncoderFileRefused, match="can't be read"):
        read_encoder(file)
    torch.save({"format": 1, "model": "fast_cnn"}, file)
    with pytest.raises(EncoderFileRefused, match="holds no encoder"):
        read_encoder(file)
    torch.save({"format": 2}, file)
    with pytest.raises(EncoderFileRefused, match="of no format"):
        read_encoder(file)
    torch.save(an_encoder(), file)  # a whole object, which reading would run
    with pytest.raises(EncoderFileRefused, match="can't be read"):
        read_encoder(file)


def test_without_a_file_the_way_to_one_is_said() -> None:
    with pytest.raises(ValueError, match="--weights FILE"):
        build(None)
