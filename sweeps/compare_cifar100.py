"""All methods on all 50,000 images of CIFAR-100: same features, model, epochs and seeds.

Best published without outside data, ALIBI with a ResNet18 (Malek et al. 2021): 55.0 at epsilon 3,
65.0 at 4, 69.0 at 5, 71.5 at 6 and 74.4 at 8. Nothing was chosen on this set: features, settings,
presets and times are those of `compare_cifar10.py`.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import PHOTOGRAPHS, comparison

SWEEP = comparison("cifar100", photographs=True, **PHOTOGRAPHS)

if __name__ == "__main__":
    main(SWEEP)
