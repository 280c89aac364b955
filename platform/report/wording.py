"""Numbers, counts, prices and releases as pages show them.

>>> number(3.9999999999999276), number(1e-05), number(math.inf)
('4', '1e-5', '∞')
>>> counted(1437, "label")
'1,437 labels'
>>> what_of("LaplaceNoise", number=2)
'2 releases of Laplace noise'
"""

import math
import re

from labeldp.mechanisms.accuracy_estimate import CorrectCount, CoverageChoice
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.amounts import AmountChannel, AmountSums, ErrorSums
from labeldp.mechanisms.channels import StaircaseChannel, SubsetSelection
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.ledger import shown
from labeldp.mechanisms.pate.releases import NeighborAnswers, PateAnswers, PublishedCost
from labeldp.mechanisms.randomized_response import (
    BitFlip,
    NoNoise,
    PublishedClasses,
    RandomizedResponse,
)
from labeldp.mechanisms.rr_with_prior import ClusterHistograms, RRWithPrior, TwoClassHistograms
from labeldp.mechanisms.score_histogram import ScoreHistogram

#: Class of a mechanism of ours -> a release of it; the word before "of", "by" or "on" is its noun.
RELEASES: dict[type, str] = {
    LaplaceNoise: "release of Laplace noise",
    GaussianNoise: "release of Gaussian noise",
    RandomizedResponse: "release of labels by randomized response",
    RRWithPrior: "release of labels by randomized response under a prior",
    SubsetSelection: "release of subsets of the classes",
    StaircaseChannel: "release of labels by the best channel under a prior",
    BitFlip: "release of flipped bits",
    ClusterHistograms: "release of noisy counts of classes in clusters",
    TwoClassHistograms: "release of noisy counts of one of two classes in clusters",
    LabelMoments: "release of noisy sums of labels",
    PateAnswers: "round of answers by an ensemble of teachers",
    NeighborAnswers: "round of answers by nearest labels",
    PublishedCost: "published bound on what answers cost",
    CorrectCount: "noisy count of right answers",
    ErrorSums: "triple of noisy sums of errors",
    AmountChannel: "release of amounts by a channel",
    AmountSums: "release of noisy sums of amounts",
    ScoreHistogram: "noisy histogram of labels by a model's scores",
    CoverageChoice: "choice of a threshold of prediction sets",
    PublishedClasses: "list of the classes, read off the labels",
    NoNoise: "copy of the labels without any noise",
}


def number(value: object) -> str:
    """Return a float in at most four digits, any other value as it is written."""
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.4g}")


def bound(value: float) -> str:
    """Return an epsilon or a delta as `number` does, and never less than it is."""
    return number(float(shown(value)))


def short_key(key: str) -> str:
    """Return the last part of a dotted key, in words."""
    return key.rpartition(".")[2].replace("_", " ")


def counted(count: int, one: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {re.sub('y$', 'ie', one)}s"


def what_of(name: str, *, number: int = 1, ours: bool = True) -> str:
    """Return `number` releases of the mechanism of this name, in words; a user's is not `ours`.

    The name of a user's mechanism is left out in public.
    """
    words = {kind.__name__: text for kind, text in RELEASES.items()} if ours else {}
    known = words.get(name, f"release by {name or 'a mechanism of the owner'}")
    noun, rest = re.split(r"(?= of | by | on )", known, maxsplit=1)
    return f"{counted(number, noun)}{rest}"


def price(epsilon: float, delta: float) -> str:
    """Return epsilon and, where it is above 0, delta, in words."""
    if math.isinf(epsilon):
        return "no bound on epsilon"
    return f"epsilon {shown(epsilon)}" + (f" at delta {shown(delta)}" if delta > 0 else "")


def concern_of_delta(delta: float, *, payers: int, unit: str) -> str | None:
    """Return what a delta above 1 / `payers` allows, and the way out; None for a smaller one."""
    if delta * payers <= 1:
        return None
    return (
        f"delta {delta:g} is above 1 / {payers:,}, the number of {unit}s, and allows to publish a "
        f"random one of them as it is; choose a delta of {0.1 / payers:.0e} or less"
    )
