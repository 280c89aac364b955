"""Speeds of the fast network and of encoders that are trained without labels, for `gpu`."""

from labeldp.trainers.encoders.pretraining import Pretraining
from labeldp.trainers.models.recipe import fast_training
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import AlibiConfig
from labeldp.trainers.settings.training import SelfSupervisedConfig
from tests.benchmarks.gpu_measuring import (
    PERFORMANCES,
    Sizes,
    Speed,
    Stopwatch,
    forward_flops,
    random_images,
    random_labels,
)

_MANY_EPOCHS = 10_000


def fast_network(watch: Stopwatch, sizes: Sizes, width: int, how: str, top: Speed) -> Speed:
    """Epochs of ALIBI with the fast network and its recipe, as images per second."""
    config = AlibiConfig(**fast_training(epochs=_MANY_EPOCHS, width=width))
    trainer = config.start(
        data=random_images(sizes.fast_images, num_classes=10),
        labels=random_labels(sizes.fast_images, num_classes=10),
        seed=0,
        performance=PERFORMANCES[how],
    )
    per_second, rounds = watch.rate(trainer.epoch, count=sizes.fast_images)
    flops = forward_flops(ModelName.FAST_CNN, width=width, num_classes=10)
    return Speed(
        what=f"ALIBI, fast network, width {width}",
        how=how,
        per_second=per_second,
        unit="images",
        rounds=rounds,
        utilization=3 * flops * per_second / (top.per_second * 1e12),
        peak_gib=watch.peak_gib(),
    )


def self_supervised(
    watch: Stopwatch, sizes: Sizes, network: tuple[ModelName, int], how: str, top: Speed
) -> Speed:
    """Epochs of VICReg, views included, as images per second; each is seen twice."""
    model, width = network
    config = SelfSupervisedConfig(model=model, width=width, epochs=_MANY_EPOCHS)
    training = Pretraining(
        config,
        images=random_images(sizes.pairs, num_classes=10).train_features,
        seed=0,
        performance=PERFORMANCES[how],
    )
    per_second, rounds = watch.rate(training.epoch, count=sizes.pairs)
    flops = 2 * forward_flops(model, width=width, num_classes=10)
    return Speed(
        what=f"self-supervised, {model}, width {width}",
        how=how,
        per_second=per_second,
        unit="images",
        rounds=rounds,
        utilization=3 * flops * per_second / (top.per_second * 1e12),
        peak_gib=watch.peak_gib(),
    )
