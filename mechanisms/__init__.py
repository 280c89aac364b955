"""What is done to labels and votes, what it costs, and how leaky it proves. NumPy and SciPy only.

A map of this folder; every module opens with what it is, from which paper, and an example.

| question | modules |
|---|---|
| Where do labels live, what leaves? | `vault`, `release_store`, |
| | `release_address`, `descriptions`, `ledger` |
| Where does noise come from? | `randomness`; `secure_noise` on `exact_digits` |
| What is done to each label? | `additive_noise`, `randomized_response`, `channels`, `bit_flip`, |
| | `rr_with_prior`, `cluster_prior`, `label_moments` |
| How is a noisy label read? | `posterior`, `debiased_loss` |
| How accurate, without test labels? | `accuracy_estimate`, `correct_count` |
| What does it cost? | `accounting`, `calibration`, `selection` |
| How do votes become answers, what do they cost? | the room `pate` |
| How leaky does it prove? | the room `auditing` |
| How are arguments checked and refused? | `_validate`, `_arrays` |

Each room's map is in its `__init__`.

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
from labeldp.mechanisms.randomness import (
    OsEntropy as OsEntropy,
    SecureEntropy as SecureEntropy,
    SeededNoise as SeededNoise,
)

# What is done to each label.
from labeldp.mechanisms.additive_noise import (
    GaussianNoise as GaussianNoise,
    LaplaceNoise as LaplaceNoise,
)
from labeldp.mechanisms.randomized_response import (
    NoNoise as NoNoise,
    PublishedClasses as PublishedClasses,
    RandomizedResponse as RandomizedResponse,
)
from labeldp.mechanisms.bit_flip import BitFlip as BitFlip
from labeldp.mechanisms.channels import (
    StaircaseChannel as StaircaseChannel,
    SubsetSelection as SubsetSelection,
    optimal_channel as optimal_channel,
)
from labeldp.mechanisms.rr_with_prior import RRWithPrior as RRWithPrior, tempered as tempered
from labeldp.mechanisms.cluster_prior import (
    ClusterHistograms as ClusterHistograms,
    prior_from_histograms as prior_from_histograms,
)
from labeldp.mechanisms.label_moments import LabelMoments as LabelMoments

# How a noisy label is read: post-processing, free of charge.
from labeldp.mechanisms.posterior import (
    PostProcessing as PostProcessing,
    posterior as posterior,
    project_to_simplex as project_to_simplex,
    soft_labels as soft_labels,
)
from labeldp.mechanisms.debiased_loss import debiased_loss as debiased_loss

# How accurate a model is, by what is released of held-out labels.
from labeldp.mechanisms.accuracy_estimate import (
    AccuracyEstimate as AccuracyEstimate,
    BestOf as BestOf,
)
from labeldp.mechanisms.correct_count import (
    CorrectCount as CorrectCount,
    MostCorrect as MostCorrect,
)

# How votes become answers.
from labeldp.mechanisms.pate.aggregators import (
    ConfidentGNMax as ConfidentGNMax,
    GNMax as GNMax,
    LNMax as LNMax,
)
from labeldp.mechanisms.pate.aggregators import InteractiveGNMax as InteractiveGNMax

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
from labeldp.mechanisms.pate.decisions import Accounting as Accounting
from labeldp.mechanisms.pate.published_cost import (
    SanitizedEpsilon as SanitizedEpsilon,
    release_epsilon as release_epsilon,
)

# isort: on
