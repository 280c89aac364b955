"""All methods on all 60,000 images of MNIST: same features, model, epochs and seeds.

Best published: 91.1 at epsilon 0.1 and 94.1 at 0.5 (LabelDP-Pro, Ghazi et al. 2024), 95.82 at 1 and
98.78 at 2 (LP-2ST, Ghazi et al. 2021). `compare_fashion_mnist.py` has what was chosen by true
labels, and the hardware. `--preset network`: the fast network on the images, ten epochs at half
width, without mirror images.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import comparison, network_comparison

SWEEP = comparison("mnist", network=network_comparison(mirrored=False))

if __name__ == "__main__":
    main(SWEEP)
