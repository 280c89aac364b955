"""What is done to labels and votes, what it costs, and how leaky it proves. NumPy and SciPy only.

A map of this folder; every module opens with what it is, from which paper, and an example.

| question | modules |
|---|---|
| Where do labels live, what leaves? | `vault`, `ledger`, `randomness`, `canaries` |
| What is done to each label? | `additive_noise`, `randomized_response`, `bit_flip`, |
| | `rr_with_prior`, `cluster_prior`, `label_moments`, `secure_noise` |
| How is a noisy label read? | `posterior`, `debiased_loss` |
| How do votes become answers? | `votes`, `vote_counts`, `aggregators`, `interactive_gnmax`, |
| | `pate_release`, `answering` |
| What does it cost? | `accounting`, `calibration`, `selection` |
| ... and PATE's answers? | `pate_accounting` on `pate_probabilities`, `renyi_bounds` and |
| | `query_costs`; `pate_pricing`, `pate_settings`, `pate_calibration` |
| ... said in public? | `smooth_sensitivity` on `answer_price`, `local_sensitivity`, |
| | `secret_cost` and `release_noise`; `gnss` repeats the paper's numbers |
| How leaky does it prove? | `auditing`, the door to `memorization`, `one_run`, |
| | `one_run_curves` and `label_inference`; `vote_leakage` |

The names below are those to build on; all else is imported from its module. `posterior` and
`debiased_loss` are functions here, named after their modules.

>>> import numpy as np
>>> vault = LabelVault(labels=np.array([0, 2, 1, 1]), num_classes=3, budget=Budget(epsilon=2.0))
>>> vault.release(RandomizedResponse(epsilon=1.5, num_classes=3)).values.shape
(4,)
>>> vault.epsilon(delta=0.0)
1.5
"""

# In the order of the map, which an alphabet would tear apart.
# isort: off

# Where labels live, and what leaves.
from labeldp.mechanisms.vault import LabelVault as LabelVault, Release as Release
from labeldp.mechanisms.ledger import (
    Budget as Budget,
    BudgetExceeded as BudgetExceeded,
    PrivacyLedger as PrivacyLedger,
)
from labeldp.mechanisms.randomness import OsEntropy as OsEntropy, SeededNoise as SeededNoise

# What is done to each label.
from labeldp.mechanisms.additive_noise import (
    GaussianNoise as GaussianNoise,
    LaplaceNoise as LaplaceNoise,
)
from labeldp.mechanisms.randomized_response import (
    NoNoise as NoNoise,
    RandomizedResponse as RandomizedResponse,
)
from labeldp.mechanisms.bit_flip import BitFlip as BitFlip
from labeldp.mechanisms.rr_with_prior import RRWithPrior as RRWithPrior, tempered as tempered
from labeldp.mechanisms.cluster_prior import (
    ClusterHistograms as ClusterHistograms,
    prior_from_histograms as prior_from_histograms,
)
from labeldp.mechanisms.label_moments import LabelMoments as LabelMoments
from labeldp.mechanisms.secure_noise import (
    SecureGaussianNoise as SecureGaussianNoise,
    SecureLaplaceNoise as SecureLaplaceNoise,
)

# How a noisy label is read: post-processing, free of charge.
from labeldp.mechanisms.posterior import (
    PostProcessing as PostProcessing,
    posterior as posterior,
    project_to_simplex as project_to_simplex,
    soft_labels as soft_labels,
)
from labeldp.mechanisms.debiased_loss import debiased_loss as debiased_loss

# How votes become answers.
from labeldp.mechanisms.aggregators import (
    ConfidentGNMax as ConfidentGNMax,
    GNMax as GNMax,
    LNMax as LNMax,
)
from labeldp.mechanisms.interactive_gnmax import InteractiveGNMax as InteractiveGNMax

# What it costs.
from labeldp.mechanisms.accounting import (
    ORDERS as ORDERS,
    Conversion as Conversion,
    DecisionEvent as DecisionEvent,
    GaussianEvent as GaussianEvent,
    PureEvent as PureEvent,
    RenyiEvent as RenyiEvent,
    epsilon_from_rdp as epsilon_from_rdp,
    epsilon_of as epsilon_of,
)
from labeldp.mechanisms.decision_events import Accounting as Accounting
from labeldp.mechanisms.smooth_sensitivity import (
    SanitizedEpsilon as SanitizedEpsilon,
    release_epsilon as release_epsilon,
)

# isort: on
