"""PATE on Fashion-MNIST: as `pate_mnist`, on clothes, whose mirror images show the same class."""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import pate_on_images

SWEEP = pate_on_images("fashion_mnist", flip=True)

if __name__ == "__main__":
    main(SWEEP)
