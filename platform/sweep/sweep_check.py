"""First step of a sweep: all that can be refused without its results folder and a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.records.tracking_address import check_file, default_uri
from labeldp.platform.sweep.configuration import DataSettings, EvaluationSettings
from labeldp.platform.sweep.data_size import DataSize, as_on_disk
from labeldp.platform.sweep.plan import Plan, plan_sweep, prepare
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, SweepOptions
from labeldp.trainers.data.labelled_data import LabelledData, labelled, set_aside
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.models.features import described_by_features, image_features
from labeldp.trainers.settings.base import FeatureSet


@dataclass(frozen=True, kw_only=True)
class CheckedSweep:
    """A sweep whose plan and data are accepted.

    Attributes:
        folder: The results folder; not held yet.
    """

    plan: Plan
    data: LabelledData
    folder: ResultsFolder

    @cached_property
    def plans(self) -> Mapping[str, PlannedTrial]:
        """Every trial by hash; none of a search, whose trials are not known yet."""
        if self.plan.searches:
            return {}
        return {trial.hash(self.plan.fingerprint): trial for trial in self.plan.trials}


def check(sweep: Sweep, options: SweepOptions) -> CheckedSweep:
    """Plan a sweep, load its data, and check both against each other and the budget.

    Raises:
        BudgetExceeded: The sweep would cost more than its budget.
    """
    sized, trials = prepare(sweep, options)
    # A new store is opened beside Ray's start, too late to refuse its address.
    check_file(options.tracking_uri or default_uri(options.results.absolute()))
    first = trials[0].config
    loaded = load_data(
        first.data, evaluation=first.evaluation, cache=beside(options.results) / "features"
    )
    public = loaded.public
    for trial in trials:
        trial.config.trainer.check_data(public)
    size = DataSize(
        num_classes=public.num_classes,
        num_labels=len(loaded.train_labels),
        held_out=loaded.num_held_out,
        has_test_split=public.has_test_split,
        shape=tuple(public.train_features.shape[1:]),
    )
    plan = plan_sweep(sweep, options, (sized, trials), size, fingerprint=public.fingerprint)
    for refusal in plan.refusals:
        raise refusal
    for prior in {trial.config.trainer.prior for trial in trials}:
        if prior is not None:
            prior_features(prior, public)
    return CheckedSweep(
        plan=plan, data=loaded, folder=ResultsFolder(options.results, sweep=sweep.name)
    )


def load_data(
    settings: DataSettings,
    *,
    evaluation: EvaluationSettings | None = None,
    cache: Path | None = None,
) -> LabelledData:
    """Load a data set, compute the features that the settings name, hold labels out.

    `cache` keeps computed features; None computes them anew.
    """
    splits = as_on_disk(settings, cache=cache)
    loaded = labelled(settings.name, splits, limit=settings.limit)
    if settings.features is not FeatureSet.AS_THEY_ARE:
        how = image_features(settings.features)
        loaded = replace(loaded, public=described_by_features(loaded.public, how, folder=cache))
    if cache is not None:  # priors may compute features of their own
        loaded = replace(loaded, public=replace(loaded.public, features_folder=cache))
    evaluation = evaluation or EvaluationSettings()
    share = evaluation.share(has_test_split=loaded.public.has_test_split)
    if share is None:
        return loaded
    return set_aside(loaded, share=share, seed=evaluation.held_out_seed)


def beside(results: Path) -> Path:
    """Return the folder where sweeps with results beside each other share features and votes."""
    return results.expanduser().absolute().parent
