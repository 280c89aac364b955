"""Mechanisms on labels, their price, and how much audits show that they leak.

NumPy and SciPy only.

| topic | modules |
|---|---|
| the home of labels, their way out | `vault`, `release_store`, `ledger` |
| sources of noise | `randomness` |
| noise on each label | `additive_noise`, `randomized_response`, `channels`, |
| | `rr_with_prior`, `label_moments`, `label_channels` |
| reading a noisy label | `posterior` |
| accuracy without test labels | `accuracy_estimate`, `score_histogram` |
| amounts, and errors of a regression | `amounts` |
| cost | `accounting`, `calibration`, `selection`, `guess_risk` |
| votes, answers and their cost | `pate` |
| proofs of leaks | `auditing` |

Each module begins with its purpose, its paper, and an example. The names below are those to build
on; all else is imported from its module. `posterior` is the function here, not its module.

>>> import numpy as np
>>> vault = LabelVault(labels=np.array([0, 2, 1, 1]), num_classes=3, budget=Budget(epsilon=2.0))
>>> vault.release(RandomizedResponse(epsilon=1.5, num_classes=3)).values.shape
(4,)
>>> vault.epsilon(delta=0.0)
1.5
"""

# isort: off
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
from labeldp.mechanisms.accuracy_estimate import (
    AccuracyEstimate as AccuracyEstimate,
    CorrectCount as CorrectCount,
)
from labeldp.mechanisms.additive_noise import (
    GaussianNoise as GaussianNoise,
    LaplaceNoise as LaplaceNoise,
)
from labeldp.mechanisms.channels import (
    StaircaseChannel as StaircaseChannel,
    SubsetSelection as SubsetSelection,
    optimal_channel as optimal_channel,
)
from labeldp.mechanisms.label_moments import LabelMoments as LabelMoments
from labeldp.mechanisms.ledger import (
    Budget as Budget,
    BudgetExceeded as BudgetExceeded,
    PrivacyLedger as PrivacyLedger,
)
from labeldp.mechanisms.pate.aggregators import (
    ConfidentGNMax as ConfidentGNMax,
    GNMax as GNMax,
    InteractiveGNMax as InteractiveGNMax,
    LNMax as LNMax,
)
from labeldp.mechanisms.pate.decisions import Accounting as Accounting
from labeldp.mechanisms.pate.published_cost import (
    SanitizedEpsilon as SanitizedEpsilon,
    release_epsilon as release_epsilon,
)
from labeldp.mechanisms.posterior import (
    PostProcessing as PostProcessing,
    posterior as posterior,
    project_to_simplex as project_to_simplex,
    soft_labels as soft_labels,
)
from labeldp.mechanisms.randomized_response import (
    BitFlip as BitFlip,
    NoNoise as NoNoise,
    PublishedClasses as PublishedClasses,
    RandomizedResponse as RandomizedResponse,
)
from labeldp.mechanisms.randomness import (
    OsEntropy as OsEntropy,
    SecureEntropy as SecureEntropy,
    SeededNoise as SeededNoise,
)
from labeldp.mechanisms.rr_with_prior import (
    ClusterHistograms as ClusterHistograms,
    RRWithPrior as RRWithPrior,
    TwoClassHistograms as TwoClassHistograms,
    tempered as tempered,
)
from labeldp.mechanisms.score_histogram import (
    ScoreCells as ScoreCells,
    ScoreEstimates as ScoreEstimates,
    ScoreHistogram as ScoreHistogram,
)
from labeldp.mechanisms.vault import LabelVault as LabelVault, Release as Release

# isort: on
