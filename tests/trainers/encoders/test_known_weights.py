"""known_weights: well-known weights by their names, and no guess at others."""

import pytest

from labeldp.trainers.encoders.encoder import known


@pytest.mark.parametrize(
    ("address", "part", "by"),
    [
        ("torchvision:IMAGENET1K_V2", "ImageNet-1k", "torchvision"),
        ("torchvision:IMAGENET1K_SWAG_E2E_V1", "Instagram", "Meta"),
        ("timm:vit_base_patch16_clip_224.openai", "captions", "OpenAI"),
        ("timm:resnet50.a1_in1k", "ImageNet-1k", "timm"),
        ("huggingface:facebook/dinov2-small", "LVD-142M, without labels", "Meta"),
        ("huggingface:google/vit-base-patch16-224-in21k", "ImageNet-21k", "Google"),
    ],
)
def test_who_trained_them_on_what(address: str, part: str, by: str) -> None:
    trained_on, trained_by = known(address)
    assert part in trained_on and by in trained_by


@pytest.mark.parametrize("address", ["timm:resnet50.mine", "huggingface:me/mine", "mine:in1k"])
def test_nobody_guesses(address: str) -> None:
    assert known(address) == ("", "")
