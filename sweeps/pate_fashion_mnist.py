"""PATE on Fashion-MNIST: as `pate_mnist`, on clothes, whose mirror images show the same class.

Where classes overlap, the release counts in full, and every prediction teaches as far as it is
sure: true labels chose this on one partition.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import pate_on_images
from labeldp.trainers.settings.training import SemiSupervisedConfig

STUDENT = SemiSupervisedConfig(
    padding=2,
    box=8,
    epochs=6,
    power=1.0,
    threshold=0.0,
    last_threshold=0.0,
    labeled_weight=0.1,
)
SWEEP = pate_on_images("fashion_mnist", STUDENT)

if __name__ == "__main__":
    main(SWEEP)
