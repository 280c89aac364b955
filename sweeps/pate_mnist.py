"""PATE on MNIST: linear-probe teachers on features that no label went into, a grid of noises.

Label-free k-means patch features (Coates and Ng) feed 250 or 800 ridge-regression teachers; 36
settings of sigma1, sigma2, tau and K reuse their votes. Marks: Papernot et al. 2018, Table 1, 98.5%
at epsilon 1.97 with 250 convolutional teachers (286 answers on test images, delta 1e-5); linear
probes like these, 92.0% at .46. Both epsilons depend on the votes, like
`private/epsilon_data_dependent`; `epsilon` here is guaranteed for any votes, checks and unused
answers included. docs/reproduction/pate.md has the numbers of a full run.

Hardware: two cores, three minutes.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.studies.presets import pate_on_probes
from labeldp.trainers.methods.pate_settings import StudentKind

SWEEP = pate_on_probes("mnist", StudentKind.SELF_TRAINED, students=3)

if __name__ == "__main__":
    main(SWEEP)
