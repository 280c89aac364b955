"""What well-known weights were trained on, and by whom, as their publishers say.

Of others the user has to say it; where nobody does, the record says that.

>>> known("timm:vit_small_patch14_dinov2.lvd142m").trained_by
'Meta'
>>> known("timm:mine.home") is None
True
"""

from dataclasses import dataclass

_IMAGENET = "ImageNet-1k, with its labels"
_IMAGENET_21K = "ImageNet-21k, with its labels"


@dataclass(frozen=True)
class Training:
    """What weights were trained on, and by whom."""

    trained_on: str
    trained_by: str


#: Part of an address, after the library's name, whose weights are these. The first that fits holds.
_KNOWN: tuple[tuple[str, str, Training], ...] = (
    ("torchvision", "SWAG", Training("Instagram's hashtags (SWAG), then ImageNet-1k", "Meta")),
    ("torchvision", "IMAGENET1K", Training(_IMAGENET, "torchvision")),
    ("", "dinov2", Training("LVD-142M, without labels (DINOv2)", "Meta")),
    ("", "dinov3", Training("LVD-1689M, without labels (DINOv3)", "Meta")),
    ("", "dino", Training("ImageNet-1k, without labels (DINO)", "Meta")),
    ("", "_mae", Training("ImageNet-1k, without labels (MAE)", "Meta")),
    ("", "vit-mae", Training("ImageNet-1k, without labels (MAE)", "Meta")),
    ("", "openai/clip", Training("400 million images and their captions (CLIP)", "OpenAI")),
    ("timm", ".openai", Training("400 million images and their captions (CLIP)", "OpenAI")),
    ("", "laion2b", Training("LAION-2B, images and their captions", "LAION")),
    ("timm", "in22k", Training(_IMAGENET_21K, "the model's authors")),
    ("timm", "in21k", Training(_IMAGENET_21K, "the model's authors")),
    ("timm", "in12k", Training("ImageNet-12k, with its labels", "timm")),
    ("timm", "in1k", Training(_IMAGENET, "timm or the model's authors")),
    ("huggingface", "google/vit", Training(_IMAGENET_21K, "Google")),
    ("huggingface", "microsoft/resnet", Training(_IMAGENET, "Microsoft")),
    ("huggingface", "facebook/convnext", Training(_IMAGENET, "Meta")),
    ("huggingface", "facebook/deit", Training(_IMAGENET, "Meta")),
)


def known(address: str) -> Training | None:
    """Return what the weights at an address were trained on; None where that is not known here.

    Args:
        address: `LIBRARY:NAME`, as the library's own weights are named.
    """
    library, _, name = address.partition(":")
    for of_library, part, training in _KNOWN:
        if of_library in ("", library) and part.lower() in name.lower():
            return training
    return None
