"""Names of methods as people say them, and the settings that each stands for.

A name is a line of docs/reproduction.md: a trainer and what makes it that line. Names of trainers,
as sweeps have them (`platform/configuration.METHODS`), are taken as they are.

>>> named("agibi").method, dict(named("agibi").changes)
('alibi', {'trainer.noise': 'gaussian'})
>>> named("moment labels").name
'moment_labels'
>>> named("alibbi")
Traceback (most recent call last):
ValueError: method is 'alibbi'; did you mean 'alibi' or 'agibi'? ...
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: What picks a method by itself; `automatic_method` has its rules.
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class NamedMethod:
    """A method by the name that people give it.

    Attributes:
        name: Its name here.
        method: The trainer's name in configurations.
        changes: Dotted key -> value, what makes the trainer this method.
        says: What it is, in a few words.
        pure: Whether its guarantee holds at delta 0.
    """

    name: str
    method: str
    says: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    pure: bool = True


_EVERY = (
    NamedMethod(
        name="moment_labels",
        method="prior_labels",
        changes={"trainer.prior.source": "moments"},
        says="noisy sums of labels along directions of the features",
        pure=False,
    ),
    NamedMethod(
        name="staged_moment_labels",
        method="staged_moments",
        says="noisy sums along directions of the features, then of a network's own",
        pure=False,
    ),
    NamedMethod(
        name="cluster_labels",
        method="prior_labels",
        changes={"trainer.prior.source": "clusters"},
        says="noisy counts of classes in clusters of the features",
    ),
    NamedMethod(name="alibi", method="alibi", says="Laplace noise on labels, Bayes' rule"),
    NamedMethod(
        name="alibi_randomized_response",
        method="alibi",
        changes={"trainer.noise": "randomized_response"},
        says="each label kept or replaced at random, Bayes' rule",
    ),
    NamedMethod(
        name="agibi",
        method="alibi",
        changes={"trainer.noise": "gaussian"},
        says="Gaussian noise on labels, Bayes' rule",
        pure=False,
    ),
    NamedMethod(
        name="alibi_moment_prior",
        method="alibi_prior",
        changes={"trainer.prior.source": "moments", "trainer.prior.share": 0.8},
        says="ALIBI with a prior from noisy sums",
        pure=False,
    ),
    NamedMethod(
        name="alibi_cluster_prior",
        method="alibi_prior",
        changes={"trainer.prior.source": "clusters", "trainer.prior.most_epsilon": 0.3},
        says="ALIBI with a prior from noisy counts",
    ),
    NamedMethod(
        name="consensus", method="consensus", says="ALIBI, trained again where the model agrees"
    ),
    NamedMethod(
        name="randomized_response",
        method="lp_mst",
        changes={"trainer.stages": 1},
        says="each label kept or replaced at random",
    ),
    NamedMethod(
        name="lp_2st",
        method="lp_mst",
        changes={"trainer.stages": 2},
        says="randomized response in two stages",
    ),
    NamedMethod(
        name="lp_3st",
        method="lp_mst",
        changes={"trainer.stages": 3},
        says="randomized response in three stages",
    ),
    NamedMethod(name="bit_flip", method="bit_flip", says="every bit of a one-hot label flipped"),
    NamedMethod(name="convex", method="convex", says="a linear model with a guarantee of accuracy"),
    NamedMethod(
        name="pate", method="pate", says="teachers vote under noise, a student learns", pure=False
    ),
    NamedMethod(
        name="no_privacy",
        method="alibi",
        changes={"trainer.noise": "none"},
        says="the labels as they are: a baseline that publishes them",
    ),
)
#: Name -> method.
NAMED: Mapping[str, NamedMethod] = {each.name: each for each in _EVERY}
#: Other names that people use.
_ALSO = {
    "rr": "randomized_response",
    "lp_1st": "randomized_response",
    "moments": "moment_labels",
    "clusters": "cluster_labels",
    "pate_fm": "pate",
    "none": "no_privacy",
}


def named(name: str) -> NamedMethod:
    """Return the method of this name; case, spaces and hyphens don't matter.

    Raises:
        ValueError: There is none; the message has the nearest ones.
    """
    plain = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    found = NAMED.get(_ALSO.get(plain, plain))
    if found is not None:
        return found
    from labeldp.platform.sweep.configuration import METHODS  # loads every trainer

    if plain in METHODS:
        return NamedMethod(name=plain, method=plain, says=f"the trainer {plain}")
    known = [AUTO, *NAMED, *_ALSO]
    close = difflib.get_close_matches(plain, known, n=2, cutoff=0.5)
    meant = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise ValueError(f"method is {name!r}; {meant}Known are {', '.join((AUTO, *NAMED))}")


def name_of(config: Mapping[str, Any]) -> str:
    """Return the name of a configuration's method: the one here that fits it best.

    Args:
        config: Dotted key -> value, as records of trials have it.
    """
    method = str(config.get("method"))
    best = method
    most = -1
    for each in _EVERY:
        if each.method != method or len(each.changes) <= most:
            continue
        if all(_same(config.get(key), value) for key, value in _telling(each).items()):
            best, most = each.name, len(each.changes)
    return best


def _telling(method: NamedMethod) -> dict[str, Any]:
    """What tells a method from others of its trainer: what it is, not how much of it."""
    return {
        key: value
        for key, value in method.changes.items()
        if key.rpartition(".")[2] in ("source", "noise", "stages")
    }


def _same(found: Any, meant: Any) -> bool:
    return str(found).lower() == str(meant).lower()
