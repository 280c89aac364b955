"""Base of estimators with private labels: one ledger for all fits, and a guarantee in words.

It finds the code that called `fit`: the user's own, or a wrapper that may have changed labels.
Wrappers compute on y before `fit` gets it: they number the labels that occur, scale or resample
them, or make features of them. Epsilon covers none of that. Labels may come from the user's own
code, and through the few wrappers below, which hand them on as they are (tested one by one). All
others are refused; they take a `SharedVault`'s tokens, from which nothing can be computed.
"""

import hashlib
import inspect
import math
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.mechanisms import _validate
from labeldp.mechanisms.guess_risk import guess_after, percent
from labeldp.mechanisms.ledger import Total, shown
from labeldp.mechanisms.persons import Groups, refuse_rounded
from labeldp.mechanisms.randomness import NoiseSource, SecureEntropy, SeededNoise
from labeldp.platform.api import fitting
from labeldp.platform.api.process_ledger import (
    LEDGER,
    PaidRelease,
    People,
    PrivacyAddsUp,
    PrivacyNotCounted,
    all_numbers,
    line_of,
)
from labeldp.platform.report.wording import concern_of_delta
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.platform.settings.metrics import is_owners
from labeldp.platform.vault.label_home import SecretLabels
from labeldp.platform.vault.shared_vault import FitLabels, PublicSide, SharedVault
from labeldp.trainers.data.preprocessing import Preprocessing

#: How scikit-learn checks a matrix of numbers.
TAKEN: Any = {"dtype": "numeric", "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}


# --- who hands labels to a fit -------------------------------------------------------------------

#: They hand labels on, but score models with those of other rows.
_SEARCHES = (GridSearchCV, RandomizedSearchCV)
_VALIDATIONS = {inspect.unwrap(each).__code__ for each in (cross_validate, cross_val_score)}
#: They hand labels on: by the exact type, since a subclass may do anything.
_HANDING_ON = {
    *_SEARCHES,
    Pipeline,
    FixedThresholdClassifier,
    MultiOutputClassifier,
    MultiOutputRegressor,
}
#: Steps before a model that learn from features alone: public names of these modules, unless
#: their tags say that they need labels.
_BY_FEATURES = (
    "sklearn.preprocessing",
    "sklearn.decomposition",
    "sklearn.impute",
    "sklearn.cluster",
    "sklearn.feature_extraction",
    "sklearn.feature_extraction.text",
    "sklearn.manifold",
    "sklearn.kernel_approximation",
    "sklearn.random_projection",
)
_TOKENS = (
    "Or carry tokens in place of labels: vault = SharedVault(labels=y, classes=...), the model "
    "with vault=vault, and y=vault.tokens"
)
#: Checks, decorators and loops around estimators, which compute nothing on labels.
_MACHINERY = ("sklearn.base", "sklearn.utils")
#: Methods whose estimator a frame shows, unless it hides it.
_FITS = ("fit", "fit_predict", "fit_transform", "partial_fit")
#: They hand tokens on as they are, but compute on them, too, as losses or as features.
_ON_TOKENS = {
    "AdaBoostRegressor",
    "ClassifierChain",
    "GradientBoostingRegressor",
    "RANSACRegressor",
    "RegressorChain",
    "StackingRegressor",
}
#: They pickle what goes to workers.
_SENDING = (
    "joblib.externals.loky",
    "joblib.pool",
    "multiprocessing",
    "concurrent",
    "distributed",
    "ray.cloudpickle",
)


def handed_labels(model: object, *, cloned: bool) -> "FitAccount":
    """Open the account of a model's `fit`, by who hands it labels, which the call stack shows.

    A `cloned` model in a thread or process of a pool may be a wrapper's, which the stack no longer
    shows.

    Raises:
        ValueError: A wrapper may have changed the labels, or made features of them.
    """
    transformed = False
    unknown = ""
    scored_by = ""
    for module, frame in _frames(sys._getframe(1)):
        code = frame.f_code
        wrapper = _owner(frame)
        own = wrapper is model and (
            code.co_name not in _FITS or module.startswith(("labeldp.", "sklearn."))
        )
        if wrapper is None and module != "__main__" and code.co_name in _FITS and _is_method(code):
            _refuse(code.co_qualname)
        if wrapper is not None and not own:
            if type(wrapper) not in _HANDING_ON:
                _refuse(type(wrapper).__name__)
            if isinstance(wrapper, Pipeline):
                _refuse_supervised(wrapper)
                transformed = True
            else:  # the clone is its own
                unknown = ""
            if isinstance(wrapper, _SEARCHES):
                scored_by = type(wrapper).__name__
        elif code in _VALIDATIONS:
            scored_by = code.co_name
            unknown = ""
        elif module.startswith(("sklearn.", "imblearn.")) and not module.startswith(_MACHINERY):
            unknown = code.co_name
    pooled = threading.current_thread() is not threading.main_thread()
    if cloned and (pooled or multiprocessing.parent_process() is not None):
        unknown = unknown or "a clone in another thread or process"
    if unknown:
        _refuse(unknown)
    uncounted = (
        f"{scored_by} scores models with true labels, and splits rows by them unless cv= is a "
        "public split such as KFold(5, shuffle=True, random_state=0); no total counts that. Score "
        "on public test labels, with scoring= (log loss is NaN where a stated class does not occur)"
    )
    return FitAccount(transformed=transformed, uncounted=uncounted if scored_by else "")


def handed_tokens() -> "FitAccount":
    """Open the account of a `fit` that gets tokens.

    Raises:
        ValueError: A wrapper would compute on tokens.
    """
    wrappers = [_owner(frame) for _, frame in _frames(sys._getframe(1))]
    for kind in (kind for each in wrappers for kind in type(each).__mro__):
        if kind.__name__ in _ON_TOKENS:
            raise ValueError(
                f"{kind.__name__} computes on y, and these are tokens: random numbers beyond 4e15, "
                "which teach it nothing; nothing was released. Fit the private models by "
                "themselves, or give them this one as estimator="
            )
    return FitAccount(transformed=any(isinstance(each, Pipeline) for each in wrappers))


def _frames(frame: FrameType | None) -> Iterator[tuple[str, FrameType]]:
    """A frame and those that called it, with their modules."""
    while frame is not None:
        yield str(frame.f_globals.get("__name__", "")), frame
        frame = frame.f_back


def _owner(frame: FrameType) -> Any:
    """Return the estimator whose method runs in a frame; None for any other code."""
    code = frame.f_code
    first = None
    if code.co_argcount:
        first = frame.f_locals.get(code.co_varnames[0])
    elif code.co_flags & inspect.CO_VARARGS:  # def fit(*args)
        first = next(iter(frame.f_locals.get(code.co_varnames[code.co_kwonlyargcount]) or ()), None)
    kind = type(first)
    if not hasattr(kind, "fit"):
        return None
    # Lambdas and decorated methods have other names than their attributes.
    members = (member for each in kind.__mro__ for member in vars(each).values())
    named = _is_method(code) and hasattr(kind, code.co_name)
    return first if named or any(getattr(m, "__code__", None) is code for m in members) else None


def _is_method(code: CodeType) -> bool:
    """Whether code is a class's own, and no function's: a user's may be called `fit`, too."""
    inside = code.co_qualname.rpartition(".")[0]
    return bool(inside) and not inside.endswith("<locals>")


def _refuse(name: str) -> None:
    raise ValueError(
        f"{name} hands the labels to fit, and is not known to hand them on as they are. It may "
        "number those that occur (a stated class that does not occur then shifts all others), "
        "scale or copy them, choose rows by them, or make features of them, and epsilon covers "
        f"none of that; nothing was released. {_TOKENS}. What numbers tokens too (voting, bagging, "
        "stacking, calibration) is then refused as well: fit the private models by themselves and "
        "average their predict_proba, or give the private model the other one as estimator="
    )


def _refuse_supervised(pipeline: Pipeline) -> None:
    """Refuse a pipeline that stores true labels, or whose steps may learn from them."""
    _refuse_memory(pipeline)
    for _, step in pipeline.steps[:-1]:
        if name := _supervised(step):
            raise ValueError(
                f"the pipeline's step {name} is not known to learn from features alone: what it "
                "learns from true labels leaves with the features, and epsilon does not cover it; "
                f"nothing was released. Let it learn from the release, estimator=make_pipeline("
                f"{name}(), ...), or apply it to X beforehand if it uses no label. {_TOKENS}"
            )


def _refuse_memory(pipeline: Pipeline) -> None:
    if pipeline.memory is not None:
        raise ValueError(
            f"the pipeline has memory={pipeline.memory!r}, which writes y, the true labels, beside "
            "each step that it keeps; nothing was released. Delete what it has written, and take "
            f"memory=None. {_TOKENS}"
        )


def _supervised(step: object) -> str:
    """The name of a step, or of one in it, that may learn from labels; empty if there is none."""
    if step is None or isinstance(step, str):
        return ""
    kind = type(step)
    if kind is Pipeline:
        _refuse_memory(step)
    inner = ("steps", "transformers", "transformer_list")
    if kind in (Pipeline, ColumnTransformer, FeatureUnion):
        parts = next(getattr(step, name) for name in inner if hasattr(step, name))
        every = [*(part[1] for part in parts), getattr(step, "remainder", None)]
        return next((name for each in every if (name := _supervised(each))), "")
    public = any(
        getattr(sys.modules.get(name), kind.__name__, None) is kind for name in _BY_FEATURES
    )
    return "" if public and not get_tags(step).target_tags.required else kind.__name__


# --- what a fit has paid -------------------------------------------------------------------------


@dataclass(kw_only=True)
class FitAccount:
    """Whose labels a fit reads, and what they have paid: its estimator gets it at the end.

    Attributes:
        transformed: Whether X comes out of a pipeline, so that its rows name nobody.
        uncounted: What true labels decided beside the fit, in words; empty for nothing.
        given: X as the user gave it, and names of its rows, until their digests are made.
        columns: Names of a table's columns; empty for other features.
        rows_of_vault: Row of each token in its vault [N]; None for labels.
        copies: Whether tokens give a row several times, which pays for each time, as a person does.
        elsewhere: Price of fits in other processes, by the names of their ledgers.
        groups: Persons who pay for several labels each, if any do.
        people: Those who pay; None for a copy, and for a release of another party.
        unit: What pays: a label, or a person.
        source: Name of the vault that has the charges too; None where it ends with the fit.
        on_disk: Whether the vault is.
        seed: Of the noise.
        vault_total: Price of all fits with the vault, when it was last read.
        id_column: Of the table that another party's release is of.
        told: Warnings of the price with their categories, which the fit gives at its end.
    """

    transformed: bool = False
    uncounted: str = ""
    given: tuple[Any, Any] = (None, None)
    columns: tuple[str, ...] = ()
    rows_of_vault: NDArray[np.intp] | None = None
    copies: bool = False
    elsewhere: dict[str, Total] = field(default_factory=dict)
    groups: Groups = field(default_factory=Groups)
    people: People | None = None
    unit: str = "label"
    source: str | None = None
    on_disk: bool = False
    seed: int | None = None
    vault_total: Total = field(default_factory=Total)
    id_column: str | None = None
    told: list[tuple[str, type[Warning]]] = field(default_factory=list)

    def in_process(self, *, delta: float) -> Total:
        """Return the price of all fits on these rows in this process, without the vault's."""
        if self.people is None:
            return Total()
        return LEDGER.total(self.people, delta=delta, without=self.source)

    def all_paid(self, vault: Total, *, delta: float) -> Total:
        """Return the price of all fits: of this process, with the vault, and of copies."""
        # Nobody knows which labels of another process these are: any of them may have paid
        # everywhere.
        paid = (vault, self.in_process(delta=delta), *self.elsewhere.values())
        return Total(
            epsilon=math.fsum(each.epsilon for each in paid),
            delta=math.fsum(each.delta for each in paid),
            seeded=any(each.seeded for each in paid),
        )

    def copied(self, *, delta: float) -> "FitAccount":
        """Return the account of a copy: the price goes along, and not the rows that add up."""
        if self.people is None:
            return self
        elsewhere = {**self.elsewhere, LEDGER.identity: self.in_process(delta=delta)}
        return replace(self, people=None, groups=Groups(), rows_of_vault=None, elsewhere=elsewhere)

    def not_counted(self) -> list[str]:
        """Return what the total leaves out, in words."""
        found = [self.uncounted] if self.uncounted else []
        if LEDGER.partial and not self.on_disk:
            found.append(
                "the total counts this process alone, and fits of other processes (n_jobs) may "
                "have paid too; take n_jobs=None, or a vault on disk, vault=SharedVault(FOLDER)"
            )
        return found


# scikit-learn has no types, so that its classes are Any here.
@dataclass(eq=False, repr=False)
class PaysForLabels(BaseEstimator):  # type: ignore[misc]
    """An estimator whose fits are charged.

    Each kind is a dataclass of its parameters, as scikit-learn's get_params and clone need them.
    All have `vault`, `noise_seed`, `epsilon` and `delta`.
    """

    _: KW_ONLY
    vault: SharedVault | str | os.PathLike[str] | None = None
    noise_seed: int | None = None

    #: Of kinds without such parameters.
    canaries = 0
    max_labels_per_person = 1
    #: What pays, where no persons do, and what is secret of it.
    _unit = "label"
    _secret = "label"
    #: A clone may be a wrapper's, which hands it labels in a thread or process of its own.
    _cloned = False
    _account = FitAccount()  # before the first fit

    def __sklearn_clone__(self) -> Any:
        made = super().__sklearn_clone__()
        made._cloned = True
        return made

    def _shared(self) -> SharedVault:
        if not isinstance(self.vault, SharedVault | str | os.PathLike | None):
            raise ValueError(
                f"vault is {self.vault!r}; give a SharedVault, a folder, or None for no vault"
            )
        return self.vault if isinstance(self.vault, SharedVault) else SharedVault(self.vault)

    @property
    def _takes_tokens(self) -> bool:
        return isinstance(self.vault, SharedVault) and self.vault.has_labels

    def _seed(self) -> int:
        """A seed of training."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _noise(self) -> NoiseSource:
        if self.noise_seed is not None:
            return SeededNoise(seed=self.noise_seed)
        return SecureEntropy()

    def _checked(
        self,
        rows: Any,
        y: object,
        *,
        groups: object = None,
        names: object = None,
        amounts: bool = False,
    ) -> tuple[Any, NDArray[Any], FitAccount]:
        """X to learn from, and the labels [N], as scikit-learn checks them, with their account.

        y are the labels, amounts or not, or tokens; `names` are theirs, if no persons pay. What the
        fit may cost is checked first.
        """
        self._check_price()
        tokens = self._takes_tokens
        # Before scikit-learn looks at y: what a wrapper made of labels may be none.
        account = handed_tokens() if tokens else handed_labels(self, cloned=self._cloned)
        account.elsewhere = dict(self._account.elsewhere)
        account.elsewhere.pop(LEDGER.identity, None)  # what a copy knew of this process
        # Before scikit-learn's own checks, whose messages would quote labels.
        fitting.refuse_unusable(y, amounts=amounts)
        rows = fitting.readable(rows)
        account.columns = tuple(map(str, rows.columns)) if is_table(rows) else ()
        if is_matrix(rows):
            taken = {**TAKEN, "ensure_min_samples": 2, "y_numeric": amounts}
            checked, found = validate_data(self, rows, y, **taken)
            rows = rows if account.columns else checked
        else:
            validate_data(self, rows, y, skip_check_array=True)
            if y is None:
                raise ValueError("y is None; training needs a label, or an amount, for each row")
            found = column_or_1d(y, warn=True)
            check_consistent_length(rows, found)
        # From here on `found` are true labels, and no message may show one.
        if tokens:
            account.rows_of_vault, found = self._shared().looked_up(found)
            fitting.refuse_unusable(found, amounts=amounts)
            known = account.rows_of_vault
            account.copies = groups is None and len(np.unique(known)) < len(known)
        account.given = (rows, names)
        return rows, found, account

    def _payers(self, groups: Any, account: FitAccount, count: int, *, every: bool) -> Groups:
        """Return who pays for N labels, and tell the account.

        Of a person `every` label is released, or a few. A row that is given several times pays for
        each time, as a person does.
        """
        named = account.rows_of_vault if account.copies else groups
        if named is not None and self.canaries:
            given = "a row is given twice" if account.copies else "groups are given"
            raise ValueError(
                f"canaries is {self.canaries}, and {given}: canaries replace single "
                f"{self._secret}s, which prove nothing of persons; leave one of them out"
            )
        everything = account.copies or (every and groups is not None)
        most = None if everything else self.max_labels_per_person
        account.groups = Groups.of(named, count=count, most=most)
        known = account.rows_of_vault
        persons = account.groups.persons
        if known is not None and persons is not None:
            owners = np.unique(np.stack([known, persons]), axis=1)
            if owners.shape[1] > len(np.unique(known)):
                raise ValueError(
                    "groups names two persons for a row that is given twice, and each would pay "
                    "for one copy of its label; nothing was released. Name its person each time, "
                    "groups=names[rows], or leave groups= out: a row then pays for each copy"
                )
        return account.groups

    def _side(
        self, account: FitAccount, *, fingerprint: str, classes: str, count: int
    ) -> PublicSide:
        """Return the public side of a fit, and tell the account who pays; as in `_paying`."""
        rows_of_x, names = account.given
        account.given = (None, None)  # the estimator keeps neither
        known = account.rows_of_vault
        groups = account.groups
        if names is not None and groups.names is not None:
            raise ValueError(
                "rows= names labels, and groups= names the persons who pay; use groups= alone"
            )
        if names is not None and known is not None:
            raise ValueError("tokens name the rows of their vault; leave rows= out")
        vault = self._shared()
        names = known if names is None else np.asarray(names)
        if names is not None:
            refuse_rounded(names, what="rows")
        if names is not None and all(isinstance(name, str) for name in names.flat):
            names = names.astype(str)  # a column of texts has objects
        account.unit = self._unit if groups.names is None or account.copies else "person"
        payers = names if groups.names is None else groups.names
        account.people = People.of(
            rows_of_x,
            payers,
            transformed=account.transformed,
            scope="" if known is None else vault.name,  # row 3 of another vault is another person
            persons=groups.persons,
        )
        # Equal rows and names have one store, in which an equal request finds its release.
        digest = fitting.digest_of(fingerprint, rows_of_x)
        if known is not None:
            digest = hashlib.sha256(digest.encode() + known.tobytes()).hexdigest()
        elif groups.names is not None:
            digest = hashlib.sha256(account.people.rows.tobytes()).hexdigest()
        people = names if groups.names is None else None
        side = PublicSide(rows=digest, classes=classes, num_labels=count, people=people)
        side = side.of_persons(groups)
        if payers is None:
            return side
        owners = np.arange(len(payers)) if groups.persons is None else groups.persons
        # In memory, the rows of a vault with labels say all.
        digests = [] if known is not None and vault.folder is None else [account.people.rows]
        if known is not None:
            digests.append(~known.astype(np.uint64))
        places = np.tile(owners.astype(np.uint64), len(digests))
        values = np.stack([np.concatenate(digests), places])
        # A vault counts labels or persons, and copies are labels.
        return replace(side, values=values, grouping="" if account.copies else side.grouping)

    @contextmanager
    def _paying(
        self,
        account: FitAccount,
        labels: NDArray[Any],
        *,
        num_classes: int,
        classes: str,
        fingerprint: str,
        delta: float,
    ) -> Iterator[FitLabels]:
        """Lock the labels [N] of a fit away, count what releases cost, and set the fit's price.

        It warns where a total leaves something out. That these labels had paid before is for
        `_tell_price`. The `classes` as a text are a part of the vault's identity, `fingerprint` is
        of the public rows, and releases that are not pure are priced at `delta`.
        """
        side = self._side(account, fingerprint=fingerprint, classes=classes, count=len(labels))
        secret = SecretLabels(training=labels, num_classes=num_classes, persons=account.groups.used)
        audit = None
        if self.canaries:
            kinds = 1 if num_classes == 2 else 2  # the memorization attack needs three classes
            least = AuditSettings().coins_for(0.0)
            if not least <= self.canaries <= len(labels) // kinds:
                raise ValueError(
                    f"canaries is {self.canaries}, and there are {len(labels)} labels: fewer than "
                    f"{least} canaries prove nothing, and each takes {kinds} of the labels; take "
                    f"{least} to {len(labels) // kinds}, or 0 for no audit"
                )
            audit = AuditSettings(canaries=self.canaries * (kinds - 1), coin_canaries=self.canaries)
        vault = self._shared()
        # A vault that is not as it was signed is refused here, before a draw. The lock is not held
        # longer: fits of several processes go on side by side.
        with vault.alone():
            fit_labels = FitLabels(
                secret,
                audit=audit,
                fingerprint=fingerprint,
                side=side,
                shared=vault,
                noise=self._noise(),
            )
        account.source = None if self.vault is None else vault.name
        account.on_disk = vault.folder is not None
        account.seed = self.noise_seed
        # As of before this fit, for the warning that labels had paid.
        account.vault_total = vault.spent(delta=self.delta)
        before = account.all_paid(account.vault_total, delta=self.delta).epsilon
        for each in account.not_counted():
            warnings.warn(each, PrivacyNotCounted, stacklevel=4)
        try:
            yield fit_labels
        finally:  # a fit that fails has paid for its releases too
            assert account.people is not None
            # What an earlier process paid for, and this fit reads again, counts for other fits too.
            charges = [*fit_labels.new_charges(), *fit_labels.charges()]
            LEDGER.add(charges, account.people, source=account.source)
            fit_labels.home.end()
            if self.vault is not None:
                with vault.alone():  # signs its ledger
                    account.vault_total = vault.spent(delta=self.delta)
                LEDGER.of_vaults[vault.name] = account.vault_total
        new = {charge.key for charge in fit_labels.new_charges()}
        if before > 0 and new:
            total = account.all_paid(account.vault_total, delta=self.delta)
            told = (
                f"labels of these rows or this vault had paid epsilon {shown(before)} before, and "
                f"with this fit's {len(new)} new release(s) the label that paid most has paid "
                f"{shown(total.epsilon)} at delta {shown(total.delta)}"
            )
            account.told.append((told, PrivacyAddsUp))
        self._account = account
        self.epsilon_, self.delta_ = fit_labels.epsilon(delta=delta)
        payers = fit_labels.home.num_people()
        line = partial(line_of, num_labels=payers, delta=delta, unit=account.unit)
        self.ledger_: list[PaidRelease] = [
            line(charge, new=charge.key in new) for charge in fit_labels.charges()
        ]
        concern = concern_of_delta(self.delta_, payers=payers, unit=account.unit)
        if concern is not None:
            account.told.append((concern, UserWarning))

    def _tell_price(self) -> None:
        """Warn of what was paid, once the model is there: users make some warnings errors."""
        for text, category in self._account.told:
            warnings.warn(text, category, stacklevel=3)

    def _check_price(self) -> None:
        """Check what a fit may cost; epsilon and delta become Python's own numbers."""
        for name in ("epsilon", "delta"):
            if type(getattr(self, name)) not in (int, float):  # a fit changes no other parameter
                setattr(self, name, _validate.plain(getattr(self, name)))
        _validate.positive(epsilon=self.epsilon)
        _validate.delta(self.delta)
        _validate.whole(canaries=self.canaries)

    def _audited(self, figures: Mapping[str, float], near: FitLabels) -> None:
        """Set the findings of attacks by canaries, and apart from them the owner's figures."""
        self.private_ = fitting.PrivateFigures({k: v for k, v in figures.items() if is_owners(k)})
        self.audit_: dict[str, Any] = {k: v for k, v in figures.items() if not is_owners(k)}
        self.audit_["spoiled_labels"] = len(near.canary_positions())
        if not self.audit_["spoiled_labels"]:
            self.audit_["reason"] = "no canaries were planted; canaries=100 plants some"

    @property
    def total_epsilon_(self) -> float:
        """Epsilon of the label that paid most, over all fits that are known here."""
        return self._total().epsilon

    @property
    def total_delta_(self) -> float:
        """Delta at which `total_epsilon_` holds."""
        return self._total().delta

    @property
    def guarantee_(self) -> str:
        """The guarantee in a sentence."""
        check_is_fitted(self, "ledger_")
        account = self._account
        if account.seed is not None:
            return (
                f"not private: the noise comes from seed {account.seed}, and anybody with the seed "
                "can remove it"
            )
        if not math.isfinite(self.epsilon_):
            return "not private: labels were published"
        kind = "pure" if self.delta_ == 0 else f"at delta {shown(self.delta_)}"
        start = f"label differential privacy, epsilon {shown(self.epsilon_)} ({kind}) for"
        whole = account.unit != self._unit
        if account.id_column is not None:
            each = f"all {self._secret}s of each person" if whole else f"each {self._unit}"
            return (
                f"{start} {each} of the release; what else their owner released is not counted "
                "here; features are not protected"
            )
        vault = self._of_vault()
        total = account.all_paid(vault, delta=self.delta)
        every = "without any bound"
        if math.isfinite(total.epsilon):
            every = shown(total.epsilon)
            every += f" at delta {shown(total.delta)}" if total.delta != self.delta_ else ""
        scope = "all fits on these rows in this process"
        if account.source is not None:
            alone = (total.epsilon, total.delta) == (vault.epsilon, vault.delta)
            scope = "all fits with its vault" + ("" if alone else f" and {scope}")
        parts = [f"{start} this fit and {every} for {scope}"]
        if total.seeded:
            parts.append("noise of some of those came from a seed, which removes it")
        if whole:
            parts.append(f"it holds for all {self._secret}s of a person together")
        if math.isfinite(total.epsilon) and not total.seeded:
            after = percent(guess_after(0.5, epsilon=total.epsilon, delta=total.delta))
            parts.append(
                f"a guess of a {self._secret} at even odds is then right with at most {after}%"
            )
        parts.append("features are not protected")
        return "; ".join([*parts, *(f"not counted: {each}" for each in account.not_counted())])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _refuse_tokens(self) -> None:
        """Refuse a score of tokens: it would compare predictions with secret labels."""
        if self._takes_tokens:
            raise ValueError(
                "a score of tokens compares predictions with secret labels, which is a release; "
                "score on public test labels: accuracy_score(y_test, model.predict(X_test)), and "
                "in a search scoring=lambda model, *_: accuracy_score(y_test, "
                "model.predict(X_test))"
            )

    def __getstate__(self) -> Any:
        """Leave out figures for the labels' owner, and the rows by which fits add up.

        The price goes along: a copy in another process adds to it.
        """
        state = dict(super().__getstate__())
        # A vault on disk counts fits of all processes; without one this process counts alone, also
        # where joblib or multiprocessing pickles this for another one.
        if self.vault is None and any(
            module.startswith(_SENDING) for module, _ in _frames(sys._getframe(1))
        ):
            LEDGER.sent = True
        # A copy by the module `copy` stays here, and counts later fits as this does.
        if "_account" in state and next(_frames(sys._getframe(1)))[0] != "copy":
            state["_account"] = self._account.copied(delta=self.delta)
        if "audit_" in state and not self.private_.pickled:
            kept = {k: v for k, v in self.audit_.items() if not isinstance(v, float)}
            if len(kept) < len(self.audit_):
                kept["reason"] = "the findings of the audit stayed with the labels' owner"
            state["audit_"] = kept
        return state

    def _rows_to_predict(self, rows: Any, preprocessing: Preprocessing) -> Any:
        account = self._account
        names = account.columns
        rows = fitting.readable(rows, name=names[0] if len(names) == 1 else None)
        if account.id_column is not None and is_table(rows):
            rows = rows.drop(columns=account.id_column, errors="ignore")
        if not is_matrix(rows):
            validate_data(self, rows, reset=False, skip_check_array=True)
        else:
            checked = validate_data(self, rows, reset=False, **TAKEN)
            if not names:
                return checked
            if not is_table(rows):
                checked = checked.toarray() if issparse(checked) else checked
                rows = dict(zip(names, checked.T, strict=True))
        # Columns are found by their names. scikit-learn checks only names that are texts.
        return fitting.used_columns(rows, preprocessing, known=names)

    def _of_vault(self) -> Total:
        """Price of all fits with the vault: as of now, or of the last fit where it is gone."""
        account = self._account
        name = account.source
        there = not account.on_disk or Path(str(name)).is_dir()
        if there and isinstance(self.vault, SharedVault) and self.vault.name == name:
            return self.vault.spent(delta=self.delta)
        if there and account.on_disk:
            return SharedVault(name).spent(delta=self.delta)
        return account.vault_total.at_least(LEDGER.of_vaults.get(str(name), Total()))

    def _total(self) -> Total:
        if "_account" not in vars(self):
            raise AttributeError(
                "this estimator is not fitted; what a fit paid before it failed counts in its "
                "vault and in later fits"
            )
        return self._account.all_paid(self._of_vault(), delta=self.delta)


def is_table(rows: object) -> bool:
    """Whether X is a DataFrame."""
    return hasattr(rows, "columns") and hasattr(rows, "iloc")


def is_matrix(rows: object) -> bool:
    """Whether scikit-learn checks X as numbers [N, D]: neither texts in columns, nor images."""
    if is_table(rows):
        return all_numbers(rows)
    return len(getattr(rows, "shape", ())) not in (3, 4)
