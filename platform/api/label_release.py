"""A release about labels, and how a learner reads it (`privatize`); and the price of mechanisms.

>>> release = privatize(["no", "yes", "yes", "no"], epsilon=2.0, classes=["no", "yes"])
>>> release.values.shape, release.soft_labels().shape, release.epsilon
((4, 2), (4, 2), 2.0)
>>> print(release.ledger[0])
1 release of subsets of the classes: epsilon 2 for each of 4 labels, paid now

>>> from labeldp.mechanisms import LaplaceNoise
>>> epsilon(LaplaceNoise(epsilon=0.5, num_classes=10), LaplaceNoise(epsilon=1.0, num_classes=10))
1.5
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import as_numpy, is_torch
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import Priced, epsilon_of_prices
from labeldp.mechanisms.persons import Groups
from labeldp.mechanisms.posterior import posterior
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import SecureEntropy
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.api.process_ledger import PaidRelease, line_of
from labeldp.platform.settings.methods import RELEASED
from labeldp.trainers.base import check_name, near_miss
from labeldp.trainers.data.columns import class_name, class_places

#: Releases of each label by itself, which need no features.
SINGLE = tuple(name for name, method in RELEASED.items() if method.alone)
#: Memory grows with rows times classes; a larger number is mostly a mistake.
MOST_CLASSES = 1000


def mechanism_for(method: str, *, epsilon: float, delta: float, num_classes: int) -> Any:
    """Return the mechanism of a release of `RELEASED` at this price; pure ones ignore delta."""
    found = RELEASED.get(method)
    if found is None or found.mechanism is None:
        pate = "PATE's teachers need features and true labels in one place."
        hint = f"{near_miss(method, RELEASED)}. {pate if 'pate' in method else ''}".rstrip()
        raise ValueError(f"method is {method!r}; {hint}")
    if delta == 0 and not found.pure:
        raise ValueError(
            f"{method} have Gaussian noise, which holds at a delta above 0 only; take delta "
            f"{USUAL_DELTA:g}, or a pure method: {', '.join(SINGLE)}"
        )
    return found.mechanism(epsilon=epsilon, delta=delta, num_classes=num_classes)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelRelease:
    """A release about N labels of K classes, each row by itself.

    Attributes:
        values: Sets of classes bool [N, K], noisy labels [N] as 0..K-1, or noisy vectors [N, K].
        classes: Their names in order.
        ledger: Its price.
        kept: With persons, the rows that `values` are of, out of `count`; the others are rows
            without a label, whose likelihood is flat.
    """

    mechanism: Any
    values: NDArray[Any]
    classes: tuple[Hashable, ...]
    ledger: tuple[PaidRelease, ...]
    kept: NDArray[np.intp] | None = None
    count: int = 0

    @property
    def epsilon(self) -> float:
        """Price of each label, or of each person, at `delta`."""
        return self.ledger[0].epsilon

    @property
    def delta(self) -> float:
        """0 where the mechanism is pure."""
        return self.ledger[0].delta

    @property
    def flip_probability(self) -> float:
        """How often `values` are wrong; of randomized response alone."""
        if not isinstance(self.mechanism, RandomizedResponse):
            raise ValueError(
                f"{type(self.mechanism).__name__} has no probability of a wrong label; take "
                "method='randomized_response'"
            )
        return 1 - self.mechanism.keep_probability

    @property
    def log_likelihood(self) -> NDArray[np.float64]:
        """Log-likelihood of the release of each row by class [N, K], up to a term of the row."""
        rows = len(self.values) if self.kept is None else self.count
        return self._log_likelihood_of(np.arange(rows))

    def _log_likelihood_of(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        if self.kept is None:
            return np.asarray(self.mechanism.log_likelihood(self.values[places]), np.float64)
        at = np.searchsorted(self.kept, places).clip(max=len(self.kept) - 1)
        has = self.kept[at] == places
        known = np.zeros((len(places), len(self.classes)))
        known[has] = self.mechanism.log_likelihood(self.values[at[has]])
        return known

    def soft_labels(self, prior: object = None) -> NDArray[np.float64]:
        """Return the posterior of each label [N, K] under a prior [K] or [N, K]; flat if None.

        The prior must be made without these labels, or of releases of them.
        """
        flat = np.full(len(self.classes), 1 / len(self.classes))
        given = flat if prior is None else np.asarray(prior, dtype=np.float64)
        _validate.probabilities(np.atleast_2d(given), name="prior", num_classes=len(self.classes))
        with np.errstate(divide="ignore"):
            return np.asarray(posterior(self.log_likelihood, np.log(given)))

    def loss(self, logits: Any, rows: object) -> Any:
        """Return the mean of -log Pr[release | model] of a batch, for PyTorch to differentiate.

        `logits` [B, K] are the model's for the rows `rows` [B], whole numbers from 0.
        """
        places = np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows)
        evidence = logits.new_tensor(self._log_likelihood_of(places))  # of the batch alone
        return -(logits.log_softmax(1) + evidence).logsumexp(1).mean()


def listed_classes(classes: Any) -> list[Hashable]:
    """Return all stated classes in their order; a whole number K states 0..K-1."""
    numbered = isinstance(classes, int | np.integer) and not isinstance(classes, bool)
    listed = isinstance(classes, Collection) and len(getattr(classes, "shape", (0,))) == 1
    # Entries of a tensor are tensors, which no label equals.
    named = listed and not (is_torch(classes) or isinstance(classes, str | bytes | Mapping))
    if not (numbered or named):
        raise ValueError(
            f"classes is {classes!r:.100}; the classes are not read off secret labels, since a "
            "rare one would reveal somebody's label: state them, classes=['no', 'yes'], or how "
            "many there are of 0..K-1, classes=10. (LabelPrivateClassifier(classes='publish') "
            "reads them off y, at an infinite epsilon.)"
        )
    count = int(classes) if numbered else len(classes)
    if not 2 <= count <= MOST_CLASSES:
        raise ValueError(
            f"classes is {classes!r:.100}; there must be two classes at least, and "
            f"{MOST_CLASSES:,} at most: merge rare ones, or predict amounts with "
            "LabelPrivateRegressor"
        )
    return list(range(count) if numbered else classes)


def choices_of(labels: Any) -> NDArray[np.int64]:
    """Return secret choices [N] as 1, where a is preferred, and 0.

    The ValueError for another value names the row and never the value.
    """
    given = np.asarray(labels)
    wrong = np.ones(given.shape, bool)
    if given.dtype.kind in "biufO":
        wrong = (given != 0) & (given != 1)
    if given.ndim != 1 or wrong.any():
        first = f"row {np.flatnonzero(wrong)[0]}" if wrong.any() else f"shape {given.shape}"
        raise ValueError(
            f"choices have a value that is not one of 0 and 1 ({first}), or are not of shape [N]; "
            "give truth values, whether a is preferred, and leave ties out"
        )
    return given.astype(np.int64)


def class_numbers(labels: Any, classes: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return the place of each label among the classes by name [N] (`class_places`)."""
    if len(set(map(class_name, classes))) < len(classes) or len(classes) < 2:
        raise ValueError(f"classes are {list(classes)}; name two or more that differ")
    numbers = class_places(labels, classes)
    if unknown := int((numbers < 0).sum()):
        # The labels are secret: this message names none of them.
        raise ValueError(
            f"{unknown:,} labels are not among the classes {', '.join(map(str, classes))}; state "
            "all classes, as the labels are written"
        )
    return numbers


@_validate.plain_numbers
def privatize(
    labels: Any,
    *,
    epsilon: float,
    classes: int | Sequence[Hashable] | None = None,
    method: str = "subset",
    delta: float = 0.0,
    groups: object = None,
    max_labels_per_person: int = 1,
    task: str = "classes",
) -> LabelRelease:
    """Release each label alone, with noise from the operating system, for your own training.

    Args:
        labels: Secret labels [N].
        epsilon: Cost for each label. Every call draws and pays again, and the costs add up.
        classes: All possible classes, which are public, or their number K for labels 0..K-1.
            Labels and classes are compared as text.
        method: One of `SINGLE`. Sums need the features: `LabelPrivateClassifier(estimator=...)`.
        delta: Can stay 0, because these methods are pure.
        groups: The person of each label [N]; epsilon then holds for all labels of a person.
        max_labels_per_person: Number of labels of a person that are released and share epsilon. A
            public seed selects them; the other rows have no label.
        task: "classes", or "preference": labels are truth values, whether a is preferred to b, and
            `values` are 1 and 0, wrong with the probability `flip_probability`.
    """
    check_name(("classes", "preference"), task=task)
    if task == "preference":
        labels = choices_of(labels)
        classes = 2
        method = "randomized_response"
    check_name(SINGLE, method=method)
    _validate.positive(epsilon=epsilon)
    _validate.delta(delta)
    names = listed_classes(classes)
    if is_torch(labels):
        labels = as_numpy(labels)
    shape = labels.shape if hasattr(labels, "shape") else np.asarray(labels, dtype=object).shape
    if len(shape) != 1:
        raise ValueError(
            f"labels is a {type(labels).__name__} of shape {tuple(shape)}; it must be "
            "one-dimensional, a label for each row (of a table take one column, table['outcome'])"
        )
    numbers = class_numbers(labels, names)
    grouped = Groups.of(groups, count=len(numbers), most=max_labels_per_person)
    share = epsilon / grouped.most
    mechanism = mechanism_for(method, epsilon=share, delta=delta, num_classes=len(names))
    vault = LabelVault(
        labels=grouped.rows_of(numbers), num_classes=len(names), persons=grouped.used
    )
    release = vault.release(mechanism, noise=SecureEntropy())
    unit = "label" if groups is None else "person"
    (charge,) = vault.charges()
    return LabelRelease(
        mechanism=mechanism,
        values=release.values,
        classes=tuple(names),
        ledger=(line_of(charge, num_labels=vault.num_people, delta=delta, unit=unit),),
        kept=grouped.kept,
        count=len(numbers),
    )


@_validate.plain_numbers
def epsilon(*mechanisms: Priced, delta: float = USUAL_DELTA) -> float:
    """Return epsilon of mechanisms together on the same labels.

    It is infinite if their probability of failure exceeds delta.
    """
    for each in mechanisms:
        if not hasattr(each, "event"):
            raise ValueError(
                f"epsilon() takes mechanisms, and {each!r} is none; pass, for example, "
                "RandomizedResponse(epsilon=1, num_classes=2)"
            )
    return epsilon_of_prices(mechanisms, delta=delta)
