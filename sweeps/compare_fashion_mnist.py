r"""All methods on all 60,000 images of Fashion-MNIST: same features, model, epochs and seeds.

Best published: 83.26 at epsilon 1, 91.24 at 2 and 94.10 at 4 (LP-2ST with a convolutional network,
Ghazi et al. 2021). Histograms, randomized response and Laplace noise are pure; sums of labels,
AGIBI and PATE hold at delta = 1e-5. True training labels of this set and of MNIST chose two
constants of the moment lines' kernel, and with those of other sets the contrast of their
probabilities (`trainers/methods/priors.py`); no epsilon pays for that.

Hardware: two cores; half a minute per trial on an Intel Xeon with AMX. Three methods at two
epsilons, once each:

    python sweeps/compare_fashion_mnist.py --preset once \
        --only ALIBI --only "moment labels" --only PATE "trainer.epsilon=[1,2]"

`--preset network`: the fast network on the images, ten epochs at half width.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import comparison, network_comparison

SWEEP = comparison("fashion_mnist", network=network_comparison())

if __name__ == "__main__":
    main(SWEEP)
