"""PATE on Fashion-MNIST: linear-probe teachers on label-free features, a grid of noises.

As `pate_mnist`, on clothes. Mark: linear probes like these, 77.9% at a (vote-dependent) epsilon of
.71. Students are plain probes: self-training costs accuracy where classes overlap.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid
from labeldp.platform.studies.presets import pate_on_probes
from labeldp.trainers.methods.pate_settings import StudentKind

SWEEP = pate_on_probes(
    "fashion_mnist",
    StudentKind.PROBE,
    students=1,
    space={"trainer.ensemble.seed": Grid(0, 1)},
)

if __name__ == "__main__":
    main(SWEEP)
