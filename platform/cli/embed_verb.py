"""`labeldp embed SOURCE --encoder E -o FEATURES.npy`: images through an encoder, league said."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labeldp.platform.cli.verb import Verb

#: Seconds between two words on how far it is.
_PAUSE = 5.0


class _Progress:
    """Says on standard error, now and then, how far it is.

    Its clock starts with the first images: an encoder that is trained here takes minutes before.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._said = 0.0

    def __call__(self, done: int, rows: int) -> None:
        now = self._clock()
        if self._first is None:
            self._first, self._said = (now, done), now
            return
        began, before = self._first
        if now - self._said < _PAUSE or done == rows:
            return
        self._said = now
        rate = (done - before) / (now - began)
        left = (rows - done) / rate
        print(
            f"embedded {done:,} of {rows:,} images, {rate:.0f} a second, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _arguments(parser: argparse.ArgumentParser) -> None:
    text = "a folder of images, an .npz or .npy of them, or the name of a data set"
    parser.add_argument("source", metavar="SOURCE", help=text)
    text = (
        "torchvision:NAME, timm:NAME, huggingface:NAME or :FOLDER, module:function, or "
        "pretrained:NAME, which is trained here on a data set with public labels"
    )
    parser.add_argument("--encoder", metavar="E", required=True, help=text)
    text = "where features are written; FILE.npy.json beside them says what made them"
    parser.add_argument(
        "-o", "--to", "--out", dest="out", metavar="FILE.npy", required=True, help=text
    )
    text = "a file, random, or the library's name for them (default: the library's own)"
    parser.add_argument("--weights", metavar="W", help=text)
    text = "side of the square that images become (default: the encoder's own)"
    parser.add_argument("--image-size", type=int, metavar="N", help=text)
    text = "of a sequence of vectors: the first, or the mean"
    parser.add_argument("--pool", choices=("cls", "mean"), help=text)
    text = "what the weights were trained on; shown with every result"
    parser.add_argument("--trained-on", default="", metavar="TEXT", help=text)
    parser.add_argument("--trained-by", default="", metavar="TEXT", help="by whom")
    text = "the weights have seen nothing but these images, and no secret label of theirs"
    parser.add_argument("--no-outside-data", action="store_true", help=text)
    text = "the labels of pretrained:NAME are nobody's secret"
    parser.add_argument("--public-labels", action="store_true", help=text)
    parser.add_argument("--half", action="store_true", help="write half precision")
    parser.add_argument("--replace", action="store_true", help="replace what lies there")
    text = "images at a time (default: 256)"
    parser.add_argument("--batch-size", type=int, default=256, metavar="N", help=text)
    text = "of random weights, and of what is trained here (default: 0)"
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=text)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    text = "folder of the data sets (default: LABELDP_DATA)"
    parser.add_argument("--root", metavar="DIR", help=text)


def _embed(options: argparse.Namespace) -> Any:
    from labeldp.trainers.encoders.embedding import EmbedRequest, embed
    from labeldp.trainers.encoders.encoder import EncoderRequest, Pool
    from labeldp.trainers.performance import Device

    request = EmbedRequest(
        source=options.source,
        out=Path(options.out).expanduser(),
        encoder=EncoderRequest(
            address=options.encoder,
            weights=options.weights,
            image_size=options.image_size,
            pool=None if options.pool is None else Pool(options.pool),
            seed=options.seed,
            trained_on=options.trained_on,
            trained_by=options.trained_by,
            no_outside_data=options.no_outside_data,
            public_labels=options.public_labels,
            device=Device(options.device),
        ),
        root=None if options.root is None else Path(options.root),
        batch_size=options.batch_size,
        half=options.half,
        replace=options.replace,
    )
    return embed(request, told=_Progress(), told_in_words=_say)


VERBS = (
    Verb(
        name="embed",
        summary="vectors of images by a public encoder, for private training on them",
        example="labeldp embed cifar10 --encoder torchvision:resnet18 -o cifar10-resnet18.npy",
        arguments=_arguments,
        run=_embed,
    ),
)
