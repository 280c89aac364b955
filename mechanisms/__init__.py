"""Mechanisms on labels, their price, and how leaky they prove. NumPy and SciPy only.

| question | modules |
|---|---|
| Where do labels live, what leaves? | `vault`, `release_store`, `release_address`, `ledger` |
| Where does noise come from? | `randomness`, `secure_noise` |
| What is done to each label? | `additive_noise`, `randomized_response`, `channels`, `bit_flip`, |
| | `rr_with_prior`, `cluster_prior`, `label_moments`, `label_channels` |
| How is a noisy label read? | `posterior` |
| How accurate, without test labels? | `accuracy_estimate`, `score_histogram` |
| What does it cost? | `accounting`, `calibration`, `selection` |
| How do votes become answers, what do they cost? | `pate` |
| How leaky does it prove? | `auditing` |

Each module begins with its purpose, its paper, and an example. The names below are those to build
on; all else is imported from its module. `posterior` is the function here, not its module.

>>> import numpy as np
>>> vault = LabelVault(labels=np.array([0, 2, 1, 1]), num_classes=3, budget=Budget(epsilon=2.0))
>>> vault.release(RandomizedResponse(epsilon=1.5, num_classes=3)).values.shape
(4,)
>>> vault.epsilon(delta=0.0)
1.5
"""

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    DecisionEvent,
    GaussianEvent,
    PureEvent,
    RenyiEvent,
    epsilon_from_rdp,
    epsilon_of,
)
from labeldp.mechanisms.accuracy_estimate import (
    AccuracyEstimate,
    BestOf,
    CorrectCount,
    MostCorrect,
)
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.channels import StaircaseChannel, SubsetSelection, optimal_channel
from labeldp.mechanisms.cluster_prior import ClusterHistograms, prior_from_histograms
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.ledger import Budget, BudgetExceeded, PrivacyLedger
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.published_cost import SanitizedEpsilon, release_epsilon
from labeldp.mechanisms.posterior import (
    PostProcessing,
    posterior,
    project_to_simplex,
    soft_labels,
)
from labeldp.mechanisms.randomized_response import (
    NoNoise,
    PublishedClasses,
    RandomizedResponse,
    debiased_loss,
)
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy, SeededNoise
from labeldp.mechanisms.rr_with_prior import RRWithPrior, tempered
from labeldp.mechanisms.score_histogram import ScoreCells, ScoreEstimates, ScoreHistogram
from labeldp.mechanisms.vault import LabelVault, Release

__all__ = [
    "ORDERS",
    "Accounting",
    "AccuracyEstimate",
    "BestOf",
    "BitFlip",
    "Budget",
    "BudgetExceeded",
    "ClusterHistograms",
    "ConfidentGNMax",
    "Conversion",
    "CorrectCount",
    "DecisionEvent",
    "GNMax",
    "GaussianEvent",
    "GaussianNoise",
    "InteractiveGNMax",
    "LNMax",
    "LabelMoments",
    "LabelVault",
    "LaplaceNoise",
    "MostCorrect",
    "NoNoise",
    "OsEntropy",
    "PostProcessing",
    "PrivacyLedger",
    "PublishedClasses",
    "PureEvent",
    "RRWithPrior",
    "RandomizedResponse",
    "Release",
    "RenyiEvent",
    "SanitizedEpsilon",
    "ScoreCells",
    "ScoreEstimates",
    "ScoreHistogram",
    "SecureEntropy",
    "SeededNoise",
    "StaircaseChannel",
    "SubsetSelection",
    "debiased_loss",
    "epsilon_from_rdp",
    "epsilon_of",
    "optimal_channel",
    "posterior",
    "prior_from_histograms",
    "project_to_simplex",
    "release_epsilon",
    "soft_labels",
    "tempered",
]
