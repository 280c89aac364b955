"""All methods on all 50,000 images of CIFAR-10: same features, model, epochs and seeds.

Published without outside data: 63.67 at epsilon 1, 86.05 at 2 and 93.4 at 4 (LP-2ST with a
ResNet18, Ghazi et al. 2021; its published code has 88.1 and 94.2 at 2 and 4), 71.0 at 1 (ALIBI with
a WRN-28-4, the best checkpoint), and on features that SimCLR learned of the same images without
labels 85.5 at .05, 86.6 at .18 and 87.4 at .5 (LabelDP-Pro, Ghazi et al. 2024).

Features are of random patches, without labels. But four of their constants were chosen on this set
by accuracy on true labels (`trainers/models/features.py`), which no epsilon pays for;
`compare_cifar100.py` confirms them. One line first, and the others later in the same folder:

    python sweeps/compare_cifar10.py --only "moment labels" trainer.epsilon=[0.5,1,2]

`--preset network`: the fast network on the images, ten epochs at half width. `--preset night`:
thirty epochs at full width.

Hardware: two cores; four minutes for the features, once, one or two per trial (network: six).
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import PHOTOGRAPHS, comparison

SWEEP = comparison("cifar10", photographs=True, **PHOTOGRAPHS)

if __name__ == "__main__":
    main(SWEEP)
