"""A scikit-learn classifier whose training labels stay private: features are public, labels not.

>>> import numpy as np
>>> generator = np.random.default_rng(0)
>>> X = generator.normal(size=(400, 5))
>>> y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
>>> model = LabelPrivateClassifier(epsilon=2.0, classes=["no", "yes"], random_state=0).fit(X, y)
>>> model.method_, model.epsilon_, model.delta_
('subset', 2.0, 0.0)
>>> model.predict(X[:3]).shape, model.predict_proba(X[:3]).shape
((3,), (3, 2))
>>> [(line.mechanism, line.epsilon, line.labels) for line in model.ledger_]
[('SubsetSelection', 2.0, 400)]

A fit runs in this process, on labels in a vault; Ray is for sweeps (`labeldp.run`).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp import install_hint
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import Total
from labeldp.mechanisms.persons import Groups
from labeldp.mechanisms.randomized_response import PublishedClasses
from labeldp.platform.api import fitting, two_parties
from labeldp.platform.api.label_release import mechanism_for
from labeldp.platform.api.paid_fits import FitAccount, PaysForLabels, is_table
from labeldp.platform.api.party_files import PartyRelease, read_release
from labeldp.platform.settings.configuration import TrialConfig, provenance_of
from labeldp.platform.settings.methods import (
    AUTO,
    NAMED,
    NETWORK_CLASSES,
    NamedMethod,
    choose,
    choose_for_stack,
    named,
    sums_of_many,
)
from labeldp.platform.settings.metrics import mixture_text
from labeldp.platform.vault.shared_vault import FitLabels
from labeldp.trainers.base import check_name, near_miss
from labeldp.trainers.data.columns import TextColumns
from labeldp.trainers.data.splits import NO_OUTSIDE_DATA
from labeldp.trainers.methods.any_model import check_learner, named_estimator
from labeldp.trainers.methods.settings import NETWORK, STACKED, PriorSource
from labeldp.trainers.methods.table_stack import FOLDS
from labeldp.trainers.models.trained_model import Origin, TrainedModel, class_facts


def network_fits() -> ModuleType:
    """Import what fits a method's own model: torch, which takes seconds, or is not installed."""
    try:
        from labeldp.platform.api import network_fits as found
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{install_hint(error)}; or learn without it: estimator=LogisticRegression()",
            name=error.name,
        ) from error
    return found


# scikit-learn has no types, so that its classes are Any here.
@dataclass(eq=False, repr=False)
class LabelPrivateClassifier(ClassifierMixin, PaysForLabels):  # type: ignore[misc]
    """Learn from secret labels under label differential privacy; features are public.

    X is a matrix [N, D], dense or sparse, a DataFrame, texts [N], or uint8 images [N, H, W] or
    [N, C, H, W].
    Preparation of X is part of the model, so `predict` takes raw rows. In a DataFrame, text becomes
    categories and dates become days. A missing number becomes its column's median, and a further
    column marks it. Missing text is a category.

    Args:
        method: A name of docs/python.md, such as "moment_labels", "alibi" or "pate". "auto" chooses
            by epsilon, delta and the number of classes.
        epsilon: Largest cost of a fit for each label.
        delta: Probability that the bound may fail; 0 allows only pure methods.
        classes: All possible classes, which are public, or their number K for labels 0..K-1.
            "publish" reads them from y, at infinite epsilon. None takes those of the vault.
        random_state: Seed of training (weights, batches), not of the noise on labels. The noise
            comes from the operating system's entropy and is drawn exactly (docs/sharp_edges.md).
        vault: A `SharedVault` or its folder. Equal requests read stored releases at no cost, and
            the costs of all others add up. Without a vault, every fit draws and pays, and fits of
            this process add up by their rows. With the labels of a `SharedVault(labels=y)`, y are
            its tokens.
        estimator: A classifier with `predict_proba` (scikit-learn, LightGBM, XGBoost, CatBoost), or
            a pipeline that ends in one. It replaces the method's own model, for moment_labels,
            cluster_labels, subset, randomized_response and alibi. Numbers reach it as they are.
        settings: Models of a stack, such as {"models": ["linear", "boosting"]}; or settings of the
            method's trainer, such as {"epochs": 20, "learning_rate": 0.5}, and a network learns.
            Those that do not change the noise are free for fits that share a vault.
        canaries: Number of labels that coins choose, for an audit of the model; from three classes
            on, as many more are replaced by wrong ones. 0, or at least 7.
        noise_seed: Seed that makes the noise repeatable. Anybody with the seed can remove it.
        device: "auto", "cpu" or "cuda".
        verbose: Print progress on standard error. A terminal shows that of long fits anyway.
        max_labels_per_person: With `groups`, number of labels per person that share epsilon, for
            methods that release labels one by one. A public seed selects them, and the others are
            not used. Sums (`moment_labels`) use all.
        n_jobs: Fits of a stack side by side, in threads; None for one of a small table, else for
            OMP_NUM_THREADS, or all cores.
        keep: Columns of a DataFrame to use although they look like identifiers (`id`, or text that
            differs in nearly every row). Other such columns are left out with a warning.
        text: "tfidf" learns from the words of columns of sentences, "drop" leaves them out,
            "category" takes each text as a category.

    Attributes:
        epsilon_, delta_: Cost of the releases that this fit has read, for the label that paid most.
        total_epsilon_: Cost of all fits on these rows in this process and of all fits with the
            vault together, at `total_delta_`.
        ledger_: Releases of this fit, a list of `PaidRelease`.
        classes_: The classes, sorted [K].
        method_, method_reason_: What was released, and the reason for it.
        models_: Name, weight and held-out log-likelihood of each model of the stack that learned
            from the release; empty where one network learned.
        summary_: These in sentences.
        model_: The trained model (`labeldp.trainers.models.trained_model`).
        audit_: The largest epsilons that attacks could prove, and the number of replaced labels.
        private_: Results of the attacks (epsilon_m, ...) and other figures computed from true
            labels, for the owner only. A pickle omits them unless `private_.pickled` is set.
        guarantee_: The guarantee in a sentence.
        n_features_in_, feature_names_in_: As in scikit-learn.
    """

    method: str = AUTO
    epsilon: float = 2.0
    delta: float = USUAL_DELTA
    classes: object = None
    random_state: object = None
    _: KW_ONLY
    settings: Mapping[str, Any] | None = None
    canaries: int = 0
    device: str = "auto"
    verbose: bool = False
    n_jobs: int | None = None
    keep: Sequence[str] | None = None
    text: str = "tfidf"
    estimator: Any = None
    max_labels_per_person: int = 1

    def fit(self, X: object, y: object, rows: object = None, groups: object = None) -> Self:
        """Learn from the labels y [N] of the rows X [N, ...], and pay for it.

        Args:
            X: Features, public.
            y: Labels, secret; each one of `classes`. In scikit-learn's wrappers: tokens of the
                vault. A row whose token occurs twice pays twice.
            rows: Name of each row's person [N], a number or text with the same meaning in every
                fit. The ledger then adds up for each person; without names, it adds up all fits as
                if each used the same label. `cross_val_score(..., params={"rows": range(N)})`
                passes them.
            groups: Name of each row's person [N], if persons have several rows. Epsilon then holds
                for all labels of a person together (docs/persons.md).
        """
        rows_of_x, labels, account = self._checked(X, y, groups=groups, names=rows)
        stated = self._shared().classes if self.classes is None else self.classes
        if isinstance(stated, str) and stated == fitting.PUBLISH:
            check_classification_targets(labels)  # of secret ones it would tell
        classes = fitting.stated_classes(stated, labels)
        places = fitting.places_of(labels, classes)
        named_columns = bool(account.columns)
        # Other settings than models are those of a network.
        stacks = self.estimator is None and {*(self.settings or {})} <= {"models"}
        stacks = stacks and len(rows_of_x.shape) == 2
        # Numbers without names may be pixels or embeddings, of which a network tells many classes
        # apart.
        described = named_columns or issparse(rows_of_x) or bool(self.settings)
        unnamed = stacks and not described and len(classes) >= NETWORK_CLASSES
        stacks = stacks and not unnamed
        method, reason = self._method(
            len(classes), len(places), persons=groups is not None, stacks=stacks
        )
        stacked = method.stack and (stacks or (unnamed and method.alone))
        if "models" in (self.settings or {}) and not stacked:
            raise ValueError(
                f"settings has 'models', which a stack mixes, but method {method.name!r} has a "
                "network here: leave other settings and groups out, or take subset, cluster_labels"
            )
        if self.estimator is not None and (self.settings or not method.estimator):
            known = ", ".join(each.name for each in NAMED.values() if each.estimator)
            raise ValueError(
                f"method {method.name!r} and settings={self.settings!r} configure labeldp's own "
                f"model; with estimator= use one of {known}, and no settings"
            )
        if self.estimator is not None:
            check_learner(self.estimator)
        grouped = self._grouped(groups, method, account, len(places))
        rows_of_x = grouped.rows_of(rows_of_x)
        places = grouped.rows_of(places)
        most = grouped.most
        models: Sequence[Any] = (*self._models(), *([NETWORK] if unnamed else []))
        # Boosting fits all numbers, and takes the longest.
        rehearsed = [each for each in models if each != "boosting"] or models
        tell = fitting.teller(verbose=self.verbose)
        tell(f"{method.name}: preparing {len(places):,} rows")
        learner = self.estimator
        if stacks and self.method == AUTO and method.name == "moment_labels" and groups is None:
            learner = named_estimator("boosting", rows=len(places), seed=0)
        by_numbers = stacked or learner is not None
        check_name(TextColumns, text=self.text)
        text = TextColumns(self.text)
        how: Any = {"num_classes": len(classes), "keep": self.keep or (), "text": text}
        if by_numbers:
            data: Any = fitting.number_rows(rows_of_x, **how, own=not stacked)
        else:
            data = network_fits().public_rows(rows_of_x, **how)
        rows_used, *shape = data.train_features.shape
        size: Any = {"shape": shape, "most": most, "named_columns": named_columns}
        config = self._configuration(method, rows=rows_used, **size, seed=self._seed())
        if method.name != "no_privacy":
            fitting.check_price(
                config,
                epsilon=self.epsilon / most,
                delta=self.delta / most,
                num_classes=len(classes),
            )

        def learn(
            fit_labels: FitLabels, some: Any, config: TrialConfig, *, epochs: int | None
        ) -> Any:
            if not by_numbers:
                return network_fits().fit(
                    config, data=some, labels=fit_labels, tell=tell, epochs=epochs
                )
            mixed = [
                network_fits().in_stack(config, epochs=epochs) if each == NETWORK else each
                for each in (models if epochs is None else rehearsed)
            ]
            delta = config.trainer.delta if not method.pure else 0.0
            share = self.epsilon / most
            predictor, figures = fitting.fit_estimator(
                learner,
                mechanism_for(method.release, epsilon=share, delta=delta, num_classes=len(classes)),
                delta=delta,
                data=some,
                labels=fit_labels,
                seed=config.seed,
                models=mixed,
                classes=() if unnamed else classes,  # numbers of digits have no order
                n_jobs=self.n_jobs,
                tell=tell,
                folds=FOLDS if epochs is None else 2,  # a rehearsal asks whether it works at all
            )
            return predictor, some.preprocessing, figures

        def rehearse(fit_labels: FitLabels, some: NDArray[np.intp]) -> Any:
            few = self._configuration(method, rows=len(some), **size, seed=config.seed)
            predictor = learn(fit_labels, data.only(some), fitting.shortened(few), epochs=1)[0]
            return predictor.predict(data.train_features[some]) if by_numbers else 0

        own = self.estimator is not None or self._models() != STACKED
        for rare in [False, True] if own else [False]:
            fitting.rehearse(rehearse, data.train_features, classes=len(classes), rare=rare)
        with self._paying(
            account,
            places,
            num_classes=len(classes),
            delta=most * config.trainer.delta,
            classes=repr(classes.tolist()),
            fingerprint=data.fingerprint,
        ) as fit_labels:
            if isinstance(stated, str) and stated == fitting.PUBLISH:
                fit_labels.release(PublishedClasses(num_classes=len(classes)))
            if by_numbers:
                what = "a stack" if stacked else type(learner).__name__
                tell(f"{method.name}: fitting {what}")
            predictor, preprocessing, figures = learn(fit_labels, data, config, epochs=None)
        self.classes_ = classes
        self.method_ = method.name
        self.method_reason_ = reason
        self._audited(figures, fit_labels)
        self.model_ = TrainedModel(
            predictor=predictor,
            preprocessing=preprocessing,
            origin=Origin(
                method=self.method_,
                epsilon=self.epsilon_,
                delta=self.delta_,
                num_classes=len(classes),
                **class_facts(classes),
                fingerprint=data.fingerprint,
                seed=config.seed,
                noise=self._noise().kind,
                provenance=provenance_of(config, NO_OUTSIDE_DATA),
            ),
        )
        self.models_: list[tuple[str, float, float]] = self.model_.models
        self._tell_price()
        return self

    @property
    def summary_(self) -> str:
        """The release, its reason, and the weights of the models, in a sentence."""
        check_is_fitted(self, "method_")
        told = f"released {self.method_}: {self.method_reason_}"
        mixed = mixture_text(self.models_)
        return told + (f"; models by weight and held-out log-likelihood: {mixed}" if mixed else "")

    def fit_release(self, X: Any, *release: PartyRelease | str | os.PathLike[str]) -> Self:
        """Learn from releases of another party, which has charged its labels for them.

        Args:
            X: The table of the request, with its column of ids. For releases of several weeks: a
                list with one table for each release.
            release: Folder of a release, or the result of `read_release`; for `stages` both.
        """
        releases = [
            each if isinstance(each, PartyRelease) else read_release(each) for each in release
        ]
        if any(each.pairs for each in releases):
            raise ValueError(
                "a release of choices between pairs teaches a reward, no classifier: `labeldp fit`"
            )
        fitted = two_parties.fit_release(X, releases, estimator=self.estimator, seed=self._seed())
        id_column = releases[0].id_column
        rows = (X if is_table(X) else X[0]).drop(columns=id_column)
        validate_data(self, rows, skip_check_array=True)
        self.ledger_ = [line for each in releases for line in each.ledger]
        self.model_ = fitted
        self.models_ = fitted.models
        self.classes_ = fitted.classes
        self.method_ = self.ledger_[0].mechanism
        self.method_reason_ = "chosen by the request"
        self.epsilon_ = fitted.origin.epsilon
        self.delta_ = fitted.origin.delta
        self._account = FitAccount(
            columns=tuple(map(str, rows.columns)),
            elsewhere=self._account.elsewhere,
            unit=releases[0].ledger[0].unit,
            vault_total=Total(epsilon=self.epsilon_, delta=self.delta_),
            id_column=id_column,
        )
        return self

    def predict_proba(self, X: object) -> NDArray[np.float32]:
        """Return probabilities of `classes_` [N, K] for raw rows X [N, ...]."""
        check_is_fitted(self, "model_")
        return self.model_.predict_proba(self._rows_to_predict(X, self.model_.preprocessing))

    def predict(self, X: object) -> NDArray[Any]:
        """Return the likeliest class [N] of raw rows X [N, ...]."""
        likeliest = self.predict_proba(X).argmax(1)  # which refuses what is not fitted
        return np.asarray(self.classes_[likeliest])

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the share of right predictions of X; y are public labels, and no tokens."""
        self._refuse_tokens()
        return float(super().score(X, y, sample_weight))

    def save(self, folder: str | os.PathLike[str], *, after: object = None) -> None:
        """Write the model for others: `labeldp.trainers.models.trained_model.load_model` reads it.

        It holds weights, preparation, classes and cost, and no private value. `after` are fitted
        transformers of scikit-learn that prepare rows first and become part of the model:
        `pipeline[-1].save("model", after=pipeline[:-1])`.
        """
        check_is_fitted(self, "model_")
        self.model_.after(after).save(folder)

    def _models(self) -> Sequence[Any]:
        """Models of a stack, as the user states them."""
        if not isinstance(self.settings, Mapping | None):
            raise ValueError(f"settings is {self.settings!r}; give a dict of settings")
        stated = (self.settings or {}).get("models", STACKED)
        known = (*STACKED, NETWORK)
        if isinstance(stated, str) or not isinstance(stated, Sequence) or not len(stated):
            raise ValueError(
                f"settings['models'] is {stated!r}; give a list of {', '.join(known)}, and of "
                "classifiers"
            )
        for each in stated:
            if not isinstance(each, str):
                check_learner(each)
            elif each not in known:
                raise ValueError(f"settings['models'] names {each!r}; {near_miss(each, known)}")
        return tuple(stated)

    def _method(
        self, num_classes: int, rows: int, *, persons: bool, stacks: bool
    ) -> tuple[NamedMethod, str]:
        if self.method != AUTO:
            found = named(self.method)
            if self.delta == 0 and not found.pure:
                raise ValueError(
                    f"delta is 0, and {found.name} holds at a delta above 0 only; take "
                    "delta=1e-5, or a pure method: randomized_response, alibi, cluster_labels"
                )
            return found, "chosen by the user"
        if stacks:
            name, reason = choose_for_stack(
                epsilon=self.epsilon,
                num_classes=num_classes,
                single=any(each not in STACKED for each in self._models()),
                rows=rows,
            )
        else:
            name, reason = choose(
                epsilon=self.epsilon, delta=self.delta, num_classes=num_classes, rows=rows
            )
        many = sums_of_many(epsilon=self.epsilon, delta=self.delta, rows=rows)
        if many and not self.settings and (stacks or self.estimator is not None):
            name = "moment_labels"
            reason = many
        if persons and self.delta > 0:
            name = "moment_labels"
            reason = "sums use all labels of a person, at the price of one"
        return named(name), reason

    def _grouped(
        self, groups: object, method: NamedMethod, account: FitAccount, count: int
    ) -> Groups:
        """The persons of the rows, and which rows are used: all for sums, without which few are."""
        if groups is None and not account.copies:
            return Groups.of(None, count=count, most=self.max_labels_per_person)
        if not method.persons:
            raise ValueError(
                "groups are given, or a row is given twice, and PATE's teachers share labels row "
                "by row: a person would change many votes; leave them out, or take moment_labels"
            )
        named_columns = bool(account.columns)
        config = self._configuration(method, rows=count, shape=(1,), named_columns=named_columns)
        trainer = config.trainer
        prior = trainer.prior
        planned = trainer.planned_charge(num_classes=2, seed=0)
        stages = planned is not None and max(each.releases for each in planned.chain()) > 1
        if stages and (account.copies or self.max_labels_per_person > 1):
            raise ValueError(
                f"max_labels_per_person is {self.max_labels_per_person}, or a row is given twice, "
                f"but {method.name} takes labels in stages, and a person's would be in several: "
                "take 1 and each row once, or subset"
            )
        of_sums = method.method in ("prior_labels", "staged_moments") and (
            prior is not None and prior.source in (PriorSource.MOMENTS, PriorSource.SMOOTH_SUMS)
        )
        return self._payers(groups, account, count, every=of_sums or method.name == "no_privacy")

    def _configuration(
        self,
        method: NamedMethod,
        *,
        rows: int,
        shape: Sequence[int],
        most: int = 1,
        named_columns: bool = False,
        seed: int = 0,
    ) -> TrialConfig:
        changes = fitting.fit_changes(
            method,
            rows=rows,
            shape=shape,
            epsilon=self.epsilon / most,
            delta=self.delta / most,
            named_columns=named_columns,
        )
        changes["performance.device"] = str(self.device).lower()
        settings = {name: of for name, of in (self.settings or {}).items() if name != "models"}
        return fitting.configured(changes, seed=seed, settings=settings)
