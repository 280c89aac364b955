"""All methods: names, settings, and what each can do. A new method is an entry here.

A method is a trainer with the settings that make it that method; names of trainers work too.

>>> named("agibi").method, dict(named("agibi").changes)
('alibi', {'trainer.noise': <Noise.GAUSSIAN: 'gaussian'>})
>>> named("alibbi")
Traceback (most recent call last):
ValueError: method is 'alibbi'; did you mean alibi or agibi?
>>> choose(epsilon=1.0, delta=1e-5, num_classes=10)[0]
'moment_labels'
>>> [choose(epsilon=e, delta=1e-5, num_classes=10, rows=60_000)[0] for e in (0.05, 0.1)]
['cluster_labels', 'moment_labels']
>>> choose(epsilon=4.0, delta=1e-5, num_classes=10)[1]
'epsilon 4 leaves 86% of labels of 10 classes right, more than 60%: single labels teach most'
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from labeldp.mechanisms import _validate
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.channels import StaircaseChannel
from labeldp.mechanisms.randomized_response import keep_probability
from labeldp.trainers.base import Registry, near_miss
from labeldp.trainers.methods.pate_settings import PateConfig
from labeldp.trainers.methods.settings import (
    LEAST_INFORMATION,
    AlibiConfig,
    AlibiPriorConfig,
    AmountsConfig,
    BitFlipConfig,
    ConsensusConfig,
    ConvexConfig,
    LpMstConfig,
    Noise,
    PriorLabelsConfig,
    PriorSettings,
    PriorSource,
    PriorStudentConfig,
    Randomizer,
    RecommenderConfig,
    StagedMomentsConfig,
    TableStackConfig,
    kept_information,
    label_mechanism,
    worthwhile,
)
from labeldp.trainers.settings.trainer import what_is_missing

#: Takes a method by the rule of `choose`.
AUTO = "auto"
#: Single labels are used where randomized response leaves them as they are this often.
ENOUGH_KEPT = 0.6
#: From so many rows on and up to this epsilon, sums are ahead: of 100,000 rows with 2% positives at
#: epsilon 1 by .05 of AUC, while they lose little where classes are balanced (docs/tables.md).
MANY_ROWS = 50_000
SUMS_UP_TO = 1.0
#: Counts win also where all labels together keep less information than that of so many true ones,
#: if each keeps less than a share. On 14 tables of KEEL of 149 to 592 rows, eight splits each, AUC
#: at epsilon 1 is higher on 11, by .016 on average (standard error .009); at 1.4 and 2 it is not.
_FEW_KNOWN = 130
_LITTLE_EACH = 0.3
#: Counts in clusters are taken in place of sums where fewer of these are worthwhile for each class,
#: of ten at most: more classes were not measured.
FUNCTIONS_EACH = 7
#: From so many classes on, a network learns from numbers without names: pixels and embeddings.
NETWORK_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class NamedMethod:
    """A method by its name.

    Attributes:
        method: Name of its trainer, `method=` of sweeps.
        changes: Dotted key -> value: the settings that make the trainer this method.
        pure: Whether its guarantee holds at delta 0.
        line: Its name in comparisons; empty where none has it.
        fits: Whether `LabelPrivateClassifier` takes it by `name`.
        persons: Whether all labels of a person can share epsilon (`groups=`).
        release: Name of its release between two parties; empty where it needs labels and features
            in one place.
        alone: Whether that release needs no features at all: `privatize` has it.
        mechanism: Makes that release's mechanism of epsilon, delta and num_classes.
    """

    name: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    pure: bool = True
    line: str = ""
    fits: bool = True
    persons: bool = True
    release: str = ""
    alone: bool = False
    mechanism: Callable[..., Any] | None = None

    @property
    def estimator(self) -> bool:
        """Whether other models can learn from its release (`estimator=`)."""
        return self.fits and bool(self.release)

    @property
    def stack(self) -> bool:
        """Whether a stack of models of a table can learn from its release."""
        return self.estimator and self.pure


_MOMENTS: Mapping[str, Any] = {"trainer.prior.source": PriorSource.MOMENTS}
_CLUSTERS: Mapping[str, Any] = {"trainer.prior.source": PriorSource.CLUSTERS}

EVERY: tuple[NamedMethod, ...] = (
    NamedMethod(
        name="moment_labels",
        method="prior_labels",
        changes=_MOMENTS,
        pure=False,
        line="moment labels",
        release="moments",
        mechanism=PriorSettings(source=PriorSource.MOMENTS).mechanism,
    ),
    NamedMethod(
        name="staged_moment_labels",
        method="staged_moments",
        pure=False,
        line="moment labels in stages",
    ),
    NamedMethod(
        name="cluster_labels",
        method="prior_labels",
        changes=_CLUSTERS,
        line="cluster labels",
        release="clusters",
        mechanism=PriorSettings(source=PriorSource.CLUSTERS).mechanism,
    ),
    NamedMethod(
        name="moment_student",
        method="prior_student",
        changes=_MOMENTS,
        pure=False,
        line="moment labels + student",
        fits=False,
    ),
    NamedMethod(
        name="cluster_student",
        method="prior_student",
        changes=_CLUSTERS,
        line="cluster labels + student",
        fits=False,
    ),
    NamedMethod(
        name="subset",
        method="alibi",
        changes={"trainer.noise": Noise.SUBSET},
        line="subset selection",
        release="subset",
        alone=True,
        mechanism=partial(label_mechanism, Noise.SUBSET),
    ),
    NamedMethod(
        name="randomized_response",
        method="lp_mst",
        changes={"trainer.stages": 1},
        line="RR",
        release="randomized_response",
        alone=True,
        mechanism=partial(label_mechanism, Noise.RANDOMIZED_RESPONSE),
    ),
    NamedMethod(
        name="alibi",
        method="alibi",
        line="ALIBI",
        release="laplace",
        alone=True,
        mechanism=partial(label_mechanism, Noise.LAPLACE),
    ),
    NamedMethod(
        name="alibi_randomized_response",
        method="alibi",
        changes={"trainer.noise": Noise.RANDOMIZED_RESPONSE},
        line="ALIBI, randomized response",
    ),
    NamedMethod(
        name="agibi",
        method="alibi",
        changes={"trainer.noise": Noise.GAUSSIAN},
        pure=False,
        line="AGIBI",
    ),
    NamedMethod(
        name="alibi_moment_prior",
        method="alibi_prior",
        changes={**_MOMENTS, "trainer.prior.share": 0.8},
        pure=False,
        line="ALIBI + moment prior",
    ),
    NamedMethod(
        name="alibi_cluster_prior",
        method="alibi_prior",
        changes={**_CLUSTERS, "trainer.prior.most_epsilon": 0.3},
        line="ALIBI + cluster prior",
    ),
    NamedMethod(
        name="optimal_moment_prior",
        method="alibi_prior",
        changes={**_MOMENTS, "trainer.noise": Noise.OPTIMAL},
        pure=False,
        line="moment prior + optimal channel",
        fits=False,
    ),
    NamedMethod(name="consensus", method="consensus", line="ALIBI, consensus"),
    NamedMethod(name="lp_2st", method="lp_mst", changes={"trainer.stages": 2}, line="LP-2ST"),
    NamedMethod(name="lp_3st", method="lp_mst", changes={"trainer.stages": 3}),
    NamedMethod(
        name="optimal_2st",
        method="lp_mst",
        changes={
            "trainer.stages": 2,
            "trainer.randomizer": Randomizer.OPTIMAL,
            "trainer.temperature": 1.0,
        },
        line="optimal channels in 2 stages",
        fits=False,
        release="stages",
        mechanism=lambda epsilon, **_: StaircaseChannel(epsilon=epsilon),
    ),
    NamedMethod(name="table_stack", method="table_stack", line="table stack", fits=False),
    NamedMethod(name="recommender", method="recommender", fits=False),
    NamedMethod(name="bit_flip", method="bit_flip", line="BitFlip"),
    NamedMethod(name="convex", method="convex"),
    NamedMethod(name="amounts", method="amounts", pure=False, fits=False),
    NamedMethod(
        name="pate",
        method="pate",
        pure=False,
        line="PATE with probes",
        persons=False,
    ),
    NamedMethod(
        name="no_privacy",
        method="alibi",
        changes={"trainer.noise": Noise.NONE},
        line="no privacy",
    ),
)
#: Name -> method, of those that estimators take.
NAMED: Mapping[str, NamedMethod] = {each.name: each for each in EVERY if each.fits}
#: Name of a release between two parties -> its method; those that need no features come first.
RELEASED: Mapping[str, NamedMethod] = {
    each.release: each for each in sorted(EVERY, key=lambda each: not each.alone) if each.release
}
#: Name of a trainer -> settings; other packages add theirs by entry points of `labeldp.methods`.
METHODS: Registry[type] = Registry(
    {
        "alibi": AlibiConfig,
        "alibi_prior": AlibiPriorConfig,
        "amounts": AmountsConfig,
        "bit_flip": BitFlipConfig,
        "consensus": ConsensusConfig,
        "convex": ConvexConfig,
        "lp_mst": LpMstConfig,
        "pate": PateConfig,
        "prior_labels": PriorLabelsConfig,
        "prior_student": PriorStudentConfig,
        "recommender": RecommenderConfig,
        "staged_moments": StagedMomentsConfig,
        "table_stack": TableStackConfig,
    },
    group="labeldp.methods",
    kind="method",
    wrong=lambda _, thing: what_is_missing(thing),
)
#: They tell methods of one trainer apart; other changes are sizes.
_TELLING = ("source", "noise", "stages")


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

    def written(value: object) -> str:
        # Of tables, as `fit_changes` sets it, moments are sums of smooth functions.
        text = str(value).lower()
        return "moments" if text == "smooth_sums" else text

    fitting = [
        each
        for each in NAMED.values()
        if each.method == str(config.get("method"))
        and all(
            written(config.get(key)) == written(value)
            for key, value in each.changes.items()
            if key.rpartition(".")[2] in _TELLING
        )
    ]
    if not fitting:
        return str(config.get("method"))
    return max(fitting, key=lambda each: len(each.changes)).name


def choose(
    *, epsilon: float, delta: float, num_classes: int, rows: int | None = None
) -> tuple[str, str]:
    """Return the name of a method and the reason; the rule uses public facts alone.

    Sums over many labels (`moment_labels`) take little noise, but only show smooth functions of the
    features. Single labels, each with its own noise, win where randomized response keeps more than
    six in ten (docs/python.md has the measurements). Sums have Gaussian noise and hold at a delta;
    at delta 0 counts in clusters, which are pure, take their place. So they do where noise leaves
    few sums worthwhile for each class, by the number of rows; None stands for many.
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
    if rows is not None:
        noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta)
        functions = worthwhile(rows=rows, noise_std=noise_std)
        if functions < FUNCTIONS_EACH * min(num_classes, NETWORK_CLASSES):
            return "cluster_labels", (
                f"{why}; of {rows:,} rows, noise leaves {functions} sums worthwhile, too few for "
                f"{num_classes} classes: counts in clusters of rows say more"
            )
    return "moment_labels", why


def sums_of_many(*, epsilon: float, delta: float, rows: int) -> str | None:
    """Return why the labels of a table are released as sums, by public numbers; None if not.

    >>> sums_of_many(epsilon=1.0, delta=0.0, rows=100_000) is None
    True
    """
    if delta == 0 or epsilon > SUMS_UP_TO or rows < MANY_ROWS:
        return None
    return (
        f"sums over {rows:,} labels have little noise at epsilon {epsilon:g}, for rare classes too"
    )


def release_of_stack(share: float) -> tuple[str, str]:
    """Return the name of a pure method and the reason, where a label keeps a share of information.

    >>> release_of_stack(0.06)[0], release_of_stack(0.21)[0]
    ('cluster_labels', 'subset')
    """
    facts = f"a single label keeps {share:.0%} of its information"
    if share >= LEAST_INFORMATION:
        return "subset", f"{facts}: enough"
    return "cluster_labels", (
        f"{facts}, less than {LEAST_INFORMATION:.0%}: counts in groups of like rows say more"
    )


def choose_for_stack(
    *, epsilon: float, num_classes: int, single: bool, rows: int
) -> tuple[str, str]:
    """Return the name of a pure method and the reason, for a stack of models of N rows.

    `single`: one of the models learns from single labels alone.

    >>> given = {"num_classes": 2, "single": False}
    >>> [choose_for_stack(epsilon=1.0, rows=rows, **given)[0] for rows in (500, 900)]
    ['cluster_labels', 'subset']
    >>> choose_for_stack(epsilon=2.0, rows=100, **given)[0]
    'subset'
    """
    share = kept_information(epsilon=epsilon, num_classes=num_classes)
    name, why = release_of_stack(share)
    if rows * share < _FEW_KNOWN and share < _LITTLE_EACH:
        name = "cluster_labels"
        why = f"{rows} labels keep little information: counts in groups of like rows say more"
    if single and name != "subset":
        name = "subset"
        why = "an own model learns from single labels alone"
    return name, f"at epsilon {epsilon:g} and {num_classes} classes, {why}"
