"""PATE on Fashion-MNIST: as `pate_mnist`, on clothes, whose mirror images show the same class."""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import OVERLAPPING, pate_on_images
from labeldp.trainers.settings.training import SemiSupervisedConfig

SWEEP = pate_on_images("fashion_mnist", SemiSupervisedConfig(padding=2, box=8, **OVERLAPPING))

if __name__ == "__main__":
    main(SWEEP)
