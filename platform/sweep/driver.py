"""Run a sweep from its plan to its report; resume one that was cut off.

The order matters: everything that can be refused is refused before the first label is released, and
what can be refused without Ray and MLflow before those are loaded, which takes seconds.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.platform.records.progress import Steps
from labeldp.platform.records.tracking_address import check_file, default_uri
from labeldp.platform.settings.configuration import TrialConfig
from labeldp.platform.settings.sweep import Sweep, SweepOptions, ensembles_of
from labeldp.platform.sweep.plan import Plan, as_on_disk, plan_sweep, prepare
from labeldp.platform.vault.signing import sign_folder, signing_key
from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.files import owner_only
from labeldp.trainers.data.labelled_data import LabelledData, labelled, set_aside
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.models.features import described_by_features, image_features
from labeldp.trainers.models.learner import starting_weights

if TYPE_CHECKING:
    from labeldp.platform.sweep.recorder import SweepOutcome


#: Names of the sweeps that this process has started.
STARTED: list[str] = []


@owner_only()
def run_sweep(sweep: Sweep, options: SweepOptions) -> "SweepOutcome":
    """Run a sweep's unfinished trials and report on all of them."""
    STARTED.append(sweep.name)
    if sweep.blocks:
        from labeldp.platform.sweep.block_check import run_blocks

        return run_blocks(sweep, options)
    steps = Steps(quiet=options.quiet)
    with steps.during(f"{sweep.name}: planning trials, reading and checking data"):
        plan, data = check(sweep, options)
    from labeldp.platform.sweep.open_sweep import opened

    with opened(plan, data, steps=steps) as open_sweep:
        from labeldp.platform.sweep import recorder, trial_runs

        try:
            return recorder.report(open_sweep, trial_runs.run(open_sweep))
        finally:
            sign_folder(open_sweep.folder.path, records=True)


def check(sweep: Sweep, options: SweepOptions) -> tuple[Plan, LabelledData]:
    """Plan a sweep, load its data, and check both against each other and the budget."""
    signing_key()
    sized, trials = prepare(sweep, options)
    # A new store is opened beside Ray's start, too late to refuse its address.
    check_file(options.tracking_uri or default_uri(options.results.absolute()))
    data = load_data(trials[0].config, cache=options.shared_folder / "features")
    public = data.public
    for trainer in dict.fromkeys(trial.config.trainer for trial in trials):
        trainer.check_data(public)
    size = DataSize(
        num_classes=public.num_classes,
        num_labels=len(data.train_labels),
        held_out=0 if data.held_out_labels is None else len(data.held_out_labels),
        has_test_split=public.has_test_split,
        amounts=public.bounds is not None,
        shape=tuple(public.train_features.shape[1:]),
        num_test=len(public.test_labels),
    )
    plan = plan_sweep(options, (sized, trials), size, fingerprint=public.fingerprint)
    for refusal in plan.refusals:
        raise refusal
    for prior in {trial.config.trainer.prior for trial in trials}:
        if prior is not None:
            prior_features(prior, public)
    every = [*(trial.config.trainer for trial in trials), *ensembles_of(trials)]
    for network in {part.network for each in every for part in each.work(size.num_labels)}:
        starting_weights(network, public)  # trials that start at once all find its weights
    return plan, data


def load_data(config: TrialConfig, *, cache: Path | None = None) -> LabelledData:
    """Load a trial's data set, compute the features that it names, hold labels out.

    `cache` keeps computed features; None computes them anew.
    """
    settings = config.data
    loaded = labelled(settings.name, as_on_disk(settings), limit=settings.limit)
    if settings.features is not FeatureSet.AS_THEY_ARE:
        how = image_features(settings.features)
        loaded = replace(loaded, public=described_by_features(loaded.public, how, folder=cache))
    # Priors may compute features of their own.
    loaded = replace(loaded, public=replace(loaded.public, features_folder=cache))
    share = config.evaluation.share(has_test_split=loaded.public.has_test_split)
    if share is None:
        return loaded
    return set_aside(loaded, share=share, seed=config.evaluation.held_out_seed)
