"""Which method `auto` takes: a rule of epsilon, delta and the number of classes, and of no label.

There are two ways to learn from labels under noise. One asks for **sums** over many of them
(`moment_labels`): little noise, but only what smooth functions of the features tell. The other asks
for **single labels**, each noised by itself: everything a model can learn, drowned in noise while
epsilon is small. What single labels are worth follows from how often randomized response leaves one
as it is, e^epsilon / (e^epsilon + K - 1). docs/python.md has the measurements: where it is more
than six in ten, single labels win, and where it is less, sums do. With ten
classes that puts the border at epsilon 2.6. On MNIST and Fashion-MNIST (docs/reproduction.md) sums
are ahead at 2 and single labels at 4; on CIFAR-10 single labels are at 2 already.

Of the methods for single labels, randomized response read by Bayes' rule is ahead: it keeps most of
what a label tells where most labels are kept, and the model says which of them to doubt. Sums have
Gaussian noise and hold at a delta; where delta is 0, ALIBI with a prior from noisy counts, which is
pure, takes their place.

>>> choose(epsilon=1.0, delta=1e-5, num_classes=10).name
'moment_labels'
>>> choose(epsilon=2.0, delta=1e-5, num_classes=2).name
'alibi_randomized_response'
>>> choose(epsilon=4.0, delta=1e-5, num_classes=10).reason
'epsilon 4 leaves 86% of labels of 10 classes right, more than 60%: single labels teach most'
"""

import math
from dataclasses import dataclass

from labeldp.mechanisms import _validate

#: How often randomized response must leave a label as it is for single labels to be asked for.
ENOUGH_KEPT = 0.6


@dataclass(frozen=True, kw_only=True)
class ChosenMethod:
    """A method, and why.

    Attributes:
        name: Of the method, see `method_names`.
        reason: In words; public, as all that it was chosen by.
    """

    name: str
    reason: str


def kept(*, epsilon: float, num_classes: int) -> float:
    """How often randomized response leaves a label of K classes as it is."""
    return 1 / (1 + (num_classes - 1) * math.exp(-epsilon))


def choose(*, epsilon: float, delta: float, num_classes: int) -> ChosenMethod:
    """Choose a method.

    Args:
        epsilon: Privacy loss per label.
        delta: At which it may hold; 0 for pure methods only.
        num_classes: K.
    """
    _validate.positive(epsilon=epsilon)
    _validate.whole(minimum=2, num_classes=num_classes)
    share = kept(epsilon=epsilon, num_classes=num_classes)
    facts = f"epsilon {epsilon:g} leaves {share:.0%} of labels of {num_classes} classes right"
    if share >= ENOUGH_KEPT:
        why = f"{facts}, more than {ENOUGH_KEPT:.0%}: single labels teach most"
        return ChosenMethod(name="alibi_randomized_response", reason=why)
    if delta == 0:
        why = f"{facts}, less than {ENOUGH_KEPT:.0%}, and delta is 0: single labels need a prior"
        return ChosenMethod(name="alibi_cluster_prior", reason=why)
    why = f"{facts}, less than {ENOUGH_KEPT:.0%}: sums over many labels teach more than single ones"
    return ChosenMethod(name="moment_labels", reason=why)
