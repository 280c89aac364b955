"""`labeldp self-supervise IMAGES -o ENCODER.pt`: an encoder of the images alone, without labels."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.verb import Verb, plain_text

if TYPE_CHECKING:  # torch, which `labeldp --help` has no use for
    from labeldp.trainers.encoders.pretraining import Pretrained, PretrainingMetrics

#: Networks that can be an encoder, by the name that people type.
_MODELS = ("fast_cnn", "resnet18", "wide_resnet28", "small_cnn")


def _arguments(parser: argparse.ArgumentParser) -> None:
    text = "an .npz or .npy of images, a folder of images of one size, or the name of a data set"
    parser.add_argument("source", metavar="IMAGES", help=text)
    text = (
        "where the encoder is written; FILE.pt.state beside it is for the next call to go on from"
    )
    parser.add_argument("-o", "--out", metavar="FILE.pt", required=True, help=text)
    parser.add_argument("--model", choices=_MODELS, default="fast_cnn", help="the network")
    text = "its width (default: the network's own)"
    parser.add_argument("--width", type=int, metavar="N", help=text)
    text = "passes over the images (default: 100)"
    parser.add_argument("--epochs", type=int, default=100, metavar="N", help=text)
    text = "images in a step (default: 512)"
    parser.add_argument("--batch-size", type=int, default=512, metavar="N", help=text)
    text = "highest learning rate (default: the settings' own)"
    parser.add_argument("--learning-rate", type=float, metavar="R", help=text)
    text = "never mirror images: for digits and letters"
    parser.add_argument("--no-flip", action="store_true", help=text)
    text = "stop after the epoch in which so many minutes are over; call again to go on"
    parser.add_argument("--minutes", type=float, metavar="M", help=text)
    text = "of initial weights, order and views (default: 0)"
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=text)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    text = "start anew in place of what is there"
    parser.add_argument("--replace", action="store_true", help=text)
    text = "folder of the data sets (default: LABELDP_DATA)"
    parser.add_argument("--root", metavar="DIR", help=text)


def _told(metrics: "PretrainingMetrics") -> None:
    said = f"epoch {metrics.epoch}: loss {metrics.loss:.4f}, {metrics.seconds:.0f} s"
    print(said, file=sys.stderr, flush=True)


def _self_supervise(options: argparse.Namespace) -> Any:
    from labeldp.platform.sweep.sweep import Unfinished
    from labeldp.trainers.encoders.pretraining import (
        PretrainRequest,
        pretrain,
        training_images,
    )
    from labeldp.trainers.models.schedules import TrainingDiverged
    from labeldp.trainers.performance import Device, Performance, Precision
    from labeldp.trainers.settings.base import ModelName
    from labeldp.trainers.settings.training import SelfSupervisedConfig

    own = {} if options.learning_rate is None else {"learning_rate": options.learning_rate}
    config = SelfSupervisedConfig(
        model=ModelName(options.model),
        width=options.width,
        epochs=options.epochs,
        batch_size=options.batch_size,
        flip=not options.no_flip,
        **own,
    )
    root = None if options.root is None else Path(options.root)
    request = PretrainRequest(
        images=training_images(options.source, root=root),
        out=Path(options.out).expanduser(),
        config=config,
        seed=options.seed,
        seconds=None if options.minutes is None else 60 * options.minutes,
        performance=Performance(
            device=Device(options.device),
            precision=Precision(options.precision),
            channels_last=True,
        ),
        replace=options.replace,
    )
    try:
        return pretrain(request, told=_told)
    except TrainingDiverged as error:
        raise Unfinished(
            f"{error}; nothing is written to {request.out}: say --learning-rate R, and --replace "
            "if an earlier call has left files there"
        ) from error


def _text(pretrained: "Pretrained") -> str:
    return plain_text(
        {name: value for name, value in asdict(pretrained).items() if value is not None}
    )


VERBS = (
    Verb(
        name="self-supervise",
        summary="train an encoder on images alone, without labels, some minutes at a time",
        example="labeldp self-supervise cifar10 --minutes 30 -o encoder.pt",
        arguments=_arguments,
        run=_self_supervise,
        text=_text,
    ),
)
