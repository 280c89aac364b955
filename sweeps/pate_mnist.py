"""PATE on MNIST: teachers on smooth functions of all images, and a semi-supervised student.

Each of 250 teachers reads its shard along smooth functions of label-free patch features. A small
convolutional network learns from their answers and from all images. Marks: Papernot et al. 2018,
Table 1, 98.5% at an expected epsilon of 1.97 with 250 convolutional teachers (286 answers on
test images, delta 1e-5). Their epsilon depends on the votes, like
`private/epsilon_expected_of_counts`; `epsilon` here is guaranteed for any votes, checks and unused
answers included. docs/reproduction/pate.md has the numbers of a full run.

Hardware: two cores, half an hour; the first run computes features for two minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import pate_on_images
from labeldp.trainers.settings.training import SemiSupervisedConfig

SWEEP = pate_on_images("mnist", SemiSupervisedConfig(flip=False, padding=2, box=8))

if __name__ == "__main__":
    main(SWEEP)
