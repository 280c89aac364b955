"""All methods on all 60,000 images of MNIST: same features, model, epochs and seeds.

Best published: 91.1 at epsilon 0.1 and 94.1 at 0.5 (LabelDP-Pro, Ghazi et al. 2024), 95.82 at 1 and
98.78 at 2 (LP-2ST, Ghazi et al. 2021). A prototype of ALIBI with a cluster prior reached 95.5 at
0.2, 97.2 at 0.5 and 97.3 at 1, of cluster labels 90.3 at 0.1.

See `compare_fashion_mnist.py`, also for what was chosen by true labels. `--smoke`: 4,000 images,
one seed, epsilon 1.

Hardware: two cores; half a minute per trial on an Intel Xeon with AMX (`labeldp plan`).
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.comparison import comparison

SWEEP = comparison("compare_mnist", dataset="mnist")

if __name__ == "__main__":
    main(SWEEP)
