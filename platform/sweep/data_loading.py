"""The data of a sweep: read from disk, described by features, some labels held out."""

from dataclasses import replace
from pathlib import Path

from labeldp.platform.sweep.configuration import DataSettings, EvaluationSettings, FeatureSet
from labeldp.platform.sweep.data_size import as_on_disk
from labeldp.trainers.data.labelled_data import LabelledData, labelled, set_aside
from labeldp.trainers.models.features import described_by_features, image_features


def load_data(
    settings: DataSettings,
    *,
    evaluation: EvaluationSettings | None = None,
    cache: Path | None = None,
) -> LabelledData:
    """Load what the settings name, compute the features that they ask for, hold labels out.

    Args:
        settings: Which data set.
        evaluation: Which labels are held out; the defaults if not given.
        cache: Where computed features are kept; computed anew each time if not given.

    Raises:
        ValueError: It is not there or damaged; the message says what to do.
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
