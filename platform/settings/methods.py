"""Methods by the names of docs/reproduction.md, and the rule by which `auto` takes one of them.

A name is a trainer with the settings that make it that line. Names of trainers work too.

>>> named("agibi").method, dict(named("agibi").changes)
('alibi', {'trainer.noise': 'gaussian'})
>>> named("alibbi")
Traceback (most recent call last):
ValueError: method is 'alibbi'; did you mean alibi or agibi?
>>> choose(epsilon=1.0, delta=1e-5, num_classes=10)[0]
'moment_labels'
>>> choose(epsilon=4.0, delta=1e-5, num_classes=10)[1]
'epsilon 4 leaves 86% of labels of 10 classes right, more than 60%: single labels teach most'
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labeldp.mechanisms import _validate
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.randomized_response import keep_probability
from labeldp.platform.settings.configuration import METHODS
from labeldp.trainers.base import near_miss

#: Takes a method by the rule of `choose`.
AUTO = "auto"
#: Single labels are used where randomized response leaves them as they are this often.
ENOUGH_KEPT = 0.6
#: Counts are released where a single label has less information than this, of 1 for a true one.
LEAST_INFORMATION = 0.15
#: From so many classes on, a network learns from numbers without names: pixels and embeddings.
NETWORK_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class NamedMethod:
    """A method by its name.

    Attributes:
        changes: Dotted key -> value: the settings that make the trainer this method.
        pure: Whether its guarantee holds at delta 0.
    """

    name: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    pure: bool = True


def _method(name: str, method: str, *, pure: bool = True, **changes: Any) -> NamedMethod:
    keys = {f"trainer.{key.replace('__', '.')}": value for key, value in changes.items()}
    return NamedMethod(name=name, method=method, changes=keys, pure=pure)


_EVERY = (
    # Of tables, as `fit_changes` sets it; the line below it is for everything else.
    _method("moment_labels", "prior_labels", pure=False, prior__source="smooth_sums"),
    _method("moment_labels", "prior_labels", pure=False, prior__source="moments"),
    _method("staged_moment_labels", "staged_moments", pure=False),
    _method("cluster_labels", "prior_labels", prior__source="clusters"),
    _method("alibi", "alibi"),
    _method("alibi_randomized_response", "alibi", noise="randomized_response"),
    _method("subset", "alibi", noise="subset"),
    _method("agibi", "alibi", pure=False, noise="gaussian"),
    _method(
        "alibi_moment_prior", "alibi_prior", pure=False, prior__source="moments", prior__share=0.8
    ),
    _method(
        "alibi_cluster_prior", "alibi_prior", prior__source="clusters", prior__most_epsilon=0.3
    ),
    _method("consensus", "consensus"),
    _method("randomized_response", "lp_mst", stages=1),
    _method("lp_2st", "lp_mst", stages=2),
    _method("lp_3st", "lp_mst", stages=3),
    _method("bit_flip", "bit_flip"),
    _method("convex", "convex"),
    _method("pate", "pate", pure=False),
    _method("no_privacy", "alibi", noise="none"),
)
#: Name -> method.
NAMED: Mapping[str, NamedMethod] = {each.name: each for each in _EVERY}


def named(name: str) -> NamedMethod:
    """Return the method of this name."""
    if name in NAMED:
        return NAMED[name]
    if name in METHODS:
        return NamedMethod(name=name, method=name)
    raise ValueError(f"method is {name!r}; {near_miss(str(name), (AUTO, *NAMED))}")


def name_of(config: Mapping[str, Any]) -> str:
    """Return the name here that fits a configuration best; its trainer's where none does.

    `config`: dotted key -> value, as records of trials have it.
    """
    fitting = [
        each
        for each in _EVERY
        if each.method == str(config.get("method"))
        and all(
            str(config.get(key)).lower() == str(value).lower()
            for key, value in each.changes.items()
            # They tell methods of one trainer apart; the others are sizes.
            if key.rpartition(".")[2] in ("source", "noise", "stages")
        )
    ]
    if not fitting:
        return str(config.get("method"))
    return max(fitting, key=lambda each: len(each.changes)).name


def choose(*, epsilon: float, delta: float, num_classes: int) -> tuple[str, str]:
    """Return the name of a method and the reason; the rule uses public facts alone.

    Sums over many labels (`moment_labels`) take little noise, but only show smooth functions of the
    features. Single labels, each with its own noise, win where randomized response keeps more than
    six in ten (docs/python.md has the measurements). Sums have Gaussian noise and hold at a delta;
    at delta 0 counts in clusters, which are pure, take their place.
    """
    _validate.positive(epsilon=epsilon)
    share = keep_probability(epsilon=epsilon, num_classes=num_classes)
    facts = f"epsilon {epsilon:g} leaves {share:.0%} of labels of {num_classes} classes right"
    if share >= ENOUGH_KEPT:
        why = f"{facts}, more than {ENOUGH_KEPT:.0%}: single labels teach most"
        return "subset", why
    why = f"{facts}, less than {ENOUGH_KEPT:.0%}: sums over many labels teach more than single ones"
    if delta == 0:
        return "cluster_labels", f"{why}; delta is 0, and counts are pure"
    return "moment_labels", why


def choose_for_stack(*, epsilon: float, num_classes: int, single: bool) -> tuple[str, str]:
    """Return the name of a pure method and the reason, for a stack of models of a table.

    >>> choose_for_stack(epsilon=0.5, num_classes=2, single=False)[0]
    'cluster_labels'
    >>> choose_for_stack(epsilon=1.0, num_classes=2, single=False)[0]
    'subset'

    `single`: one of the models learns from single labels alone.
    """
    sets = SubsetSelection(epsilon=epsilon, num_classes=num_classes)
    spread = sets.size * (num_classes - sets.size)
    share = sets.agreement.gain**2 * (num_classes - 1) / spread
    facts = f"at epsilon {epsilon:g} a single label of {num_classes} classes keeps {share:.0%}"
    if single or share >= LEAST_INFORMATION:
        why = "an own model needs it" if single and share < LEAST_INFORMATION else "enough"
        return "subset", f"{facts} of its information: {why}"
    return "cluster_labels", (
        f"{facts} of its information, less than {LEAST_INFORMATION:.0%}: counts in groups of like "
        "rows say more"
    )
