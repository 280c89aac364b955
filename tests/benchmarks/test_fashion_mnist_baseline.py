"""Full Fashion-MNIST on one thread of a CPU: 90% without noise, in minutes."""

import numpy as np
import pytest

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.alibi import AlibiConfig
from labeldp.trainers.data import load
from labeldp.trainers.models import ModelName
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.schedules import Schedule
from labeldp.trainers.targets import Noise
from tests.real_data import real_data_root


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_ninety_percent_without_noise_in_minutes() -> None:
    data = load("fashion_mnist", root=real_data_root("fashion_mnist"))
    config = AlibiConfig(
        noise=Noise.NONE,
        model=ModelName.SMALL_CNN,
        epochs=12,
        weight_decay=5e-4,
        schedule=Schedule.COSINE,
    )
    trainer = config.start(
        data=data.public,
        labels=LabelVault(labels=data.train_labels, num_classes=10),
        seed=0,
        performance=Performance(device=Device.CPU, threads=1),
    )
    metrics = [trainer.epoch() for _ in range(config.epochs)]
    seconds = [m.seconds for m in metrics]
    print(
        f"\naccuracy {metrics[-1].val_accuracy:.4f}, {np.median(seconds):.1f} s an epoch, "
        f"{sum(seconds):.0f} s in all"
    )
    assert metrics[-1].val_accuracy > 0.90
    assert np.median(seconds) < 15
