"""A reward from secret preferences, as scikit-learn's estimators are used; both sides are public.

>>> import numpy as np
>>> generator = np.random.default_rng(0)
>>> A, B = generator.normal(size=(2, 2000, 3))
>>> prefers_a = A[:, 0] > B[:, 0]
>>> model = LabelPrivatePreferences(epsilon=1.0).fit(A, B, prefers_a)
>>> model.method_, model.epsilon_, model.delta_
('randomized_response', 1.0, 0.0)
>>> print(model.ledger_[0])
1 release of labels by randomized response: epsilon 1 for each of 2,000 pairs, paid now
>>> model.score(A).shape, model.predict_proba(A, B).shape
((2000,), (2000, 2))
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.mechanisms.persons import Groups
from labeldp.platform.api import fitting
from labeldp.platform.api.label_release import choices_of
from labeldp.platform.api.paid_fits import TAKEN, PaysForLabels, is_matrix, is_table
from labeldp.platform.settings.methods import AUTO
from labeldp.platform.vault.shared_vault import PublicSide
from labeldp.trainers.base import check_name
from labeldp.trainers.methods import preferences as rewards

METHODS = ("sums", "counts", "randomized_response")


# scikit-learn has no types, so that its classes are Any here.
@dataclass(eq=False, repr=False)
class LabelPrivatePreferences(PaysForLabels):
    """Learn a reward from secret choices between pairs of public rows.

    A and B are the sides of the pairs: matrices [N, D], DataFrames with equal columns, or texts
    [N], prepared as X of `LabelPrivateClassifier`.

    Args:
        epsilon: Largest cost of a fit for each pair, or with `groups` for each annotator.
        delta: Probability that the bound may fail; 0 excludes sums.
        random_state: Not used: a fit draws nothing but noise.
        method: "sums" of choices (at a delta), "counts" or "randomized_response" (pure). "auto"
            takes what tells most, by epsilon, delta and the features.
        vault: As in `LabelPrivateClassifier`; tokens stand for choices 0 and 1.
        noise_seed: Seed that makes the noise repeatable. Anybody with the seed can remove it.
        canaries: Number of choices that coins replace, for an audit: 0, or at least 7.
        max_labels_per_person: As in `LabelPrivateClassifier`; "sums" use all pairs of an annotator.
        keep: As in `LabelPrivateClassifier`.

    Attributes:
        epsilon_, delta_, total_epsilon_, total_delta_, ledger_, guarantee_, audit_, private_: As in
            `LabelPrivateClassifier`.
        method_: The method.
        n_features_in_, feature_names_in_: Of one side.
    """

    _unit = "pair"
    _secret = "choice"

    epsilon: float = 2.0
    delta: float = 0.0
    random_state: Any = None
    _: KW_ONLY
    method: str = AUTO
    canaries: int = 0
    max_labels_per_person: int = 1
    keep: Sequence[str] | None = None

    def fit(self, A: Any, B: Any, prefers_a: Any, groups: Any = None) -> Self:
        """Learn from the choices, and pay for them.

        Args:
            A: Features of one side of each pair [N, ...], public.
            B: Features of the other side, with the same columns.
            prefers_a: Whether a was preferred [N], secret: truth values, or 1 and 0. Leave ties
                out.
            groups: Name of each pair's annotator [N]; epsilon then holds for all choices of an
                annotator together.
        """
        check_name((AUTO, *METHODS), method=self.method)
        if self.method == "sums" and self.delta == 0:
            raise ValueError(
                "delta is 0, and sums have Gaussian noise, which holds at a delta above 0 only; "
                "take delta=1e-6, or method='counts', which is pure"
            )
        sides = _sides(A, B)
        _, found, account = self._checked(_side_by_side(*sides), prefers_a, groups=groups)
        choices = choices_of(found)
        tables = is_table(sides[0])
        both: Any = pd.concat(sides, ignore_index=True) if tables else np.vstack(sides)
        # What is known of X, of which predictions are made, is of one side.
        account.columns = tuple(map(str, both.columns)) if tables else ()
        validate_data(self, both, **(TAKEN if is_matrix(both) else {"skip_check_array": True}))
        data = fitting.number_rows(both, num_classes=2, keep=self.keep or (), own=True)
        functions = rewards.RewardFunctions.learned(data.train_features, epsilon=self.epsilon)
        differences = functions.differences(data.train_features)
        sums = self.method == "sums" or (self.method == AUTO and self.delta > 0)
        grouped = self._payers(groups, account, len(choices), every=sums)
        choices = grouped.rows_of(choices)
        differences = grouped.rows_of(differences)
        plan, method = self._plan(differences, grouped)
        with self._paying(
            account,
            choices,
            num_classes=2,
            delta=self.delta,
            classes=PublicSide.CHOICES,
            fingerprint=data.fingerprint,
        ) as labels:
            evidence = plan.read(labels.release(plan.mechanism, *plan.public).values)
        slopes = rewards.fitted(differences, evidence)
        self.method_ = method
        self._functions = functions
        self._slopes = slopes
        self._preprocessing: Any = data.preprocessing

        figures = labels.figures(
            lambda places: _chances(differences[places] @ slopes)[:, ::-1].astype(np.float32),
            delta=self.delta,
        )
        self._audited(figures, labels)
        self._tell_price()
        return self

    def score(self, X: Any) -> NDArray[np.float64]:
        """Return the reward [N] of raw rows X [N, ...], up to a constant."""
        check_is_fitted(self, "method_")
        rows = self._rows_to_predict(X, self._preprocessing)
        numbers = np.asarray(self._preprocessing.rows(rows))
        return np.asarray(self._functions(numbers) @ self._slopes)

    def predict_proba(self, A: Any, B: Any) -> NDArray[np.float64]:
        """Return the probabilities that a and that b is preferred [N, 2], which swap with them."""
        rewards_of_a = self.score(A)
        rewards_of_b = self.score(B)
        check_consistent_length(rewards_of_a, rewards_of_b)
        return _chances(rewards_of_a - rewards_of_b)

    def predict(self, A: Any, B: Any) -> NDArray[np.bool_]:
        """Return whether a is likelier to be preferred [N]."""
        return np.asarray(self.predict_proba(A, B)[:, 0] > 0.5)

    def _plan(
        self, differences: NDArray[np.float64], grouped: Groups
    ) -> tuple[rewards.Planned, str]:
        """Return what to request, and its name: of several, what tells most, by public facts."""
        epsilon = self.epsilon / grouped.most
        known: dict[str, Callable[[], rewards.Planned]] = {
            "sums": lambda: rewards.planned_sums(
                differences, epsilon=self.epsilon, delta=self.delta, persons=grouped.used
            ),
            "counts": lambda: rewards.planned_counts(differences, epsilon=epsilon),
            "randomized_response": lambda: rewards.planned_choices(epsilon=epsilon),
        }
        names: Sequence[str] = [self.method]
        if self.method == AUTO:
            # Sums, at a delta, use all pairs of a person, and the others few.
            names = (
                METHODS[1:] if self.delta == 0 else METHODS[: None if grouped.names is None else 1]
            )
        plans = {name: known[name]() for name in names}
        best = max(plans, key=lambda name: plans[name].nats(differences))
        return plans[best], best


def _sides(A: Any, B: Any) -> tuple[Any, Any]:
    """Both sides as tables or as matrices, with the same columns."""
    a = _table_or_matrix(A)
    b = _table_or_matrix(B)
    for name, side in (("A", a), ("B", b)):
        if hasattr(side, "tocsr") or len(np.shape(side)) != 2:
            raise ValueError(
                f"{name} is a {type(side).__name__} of shape {np.shape(side)}; it must be a dense "
                "matrix [N, D] or a DataFrame: TruncatedSVD makes a sparse one small"
            )
    same = [*a.columns] == [*b.columns] if is_table(a) and is_table(b) else a.shape == b.shape
    if is_table(a) != is_table(b) or not same or len(a) != len(b):
        raise ValueError(
            f"A has shape {a.shape} and B {b.shape}, or other columns; they must be the two sides "
            "of the same pairs, with the same columns in the same order"
        )
    return a, b


def _table_or_matrix(side: Any) -> Any:
    found = fitting.readable(side, name="text")  # two Series may have two names
    return found if is_table(found) or hasattr(found, "tocsr") else np.asarray(found)


def _side_by_side(a: Any, b: Any) -> Any:
    """The pairs [N, 2 D]: equal ones have equal rows, whichever side is first."""
    if not is_table(a):
        return np.hstack([a, b])
    named = [side.add_suffix(f" of {name}") for name, side in (("a", a), ("b", b))]
    return pd.concat([side.reset_index(drop=True) for side in named], axis=1)


def _chances(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities [N, 2], which add up to 1 exactly, and swap where logits change their sign."""
    likelier = expit(np.abs(logits))
    first = np.where(logits >= 0, likelier, 1 - likelier)
    return np.stack([first, np.where(logits >= 0, 1 - likelier, likelier)], axis=1)
