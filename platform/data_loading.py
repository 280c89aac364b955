"""The data of a sweep: read from disk, described by features, some labels held out."""

from dataclasses import replace
from pathlib import Path

from labeldp.platform.configuration import DataSettings, EvaluationSettings, FeatureSet
from labeldp.platform.data_settings import OWN_KEYS
from labeldp.trainers import data as data_sets
from labeldp.trainers.data import LabelledData
from labeldp.trainers.data_sets.catalog import find
from labeldp.trainers.data_sets.embedded import with_embeddings
from labeldp.trainers.data_sets.files import data_root
from labeldp.trainers.features import described_by_features
from labeldp.trainers.held_out import set_aside


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
    loaded = _as_on_disk(settings, cache)
    if settings.features is not FeatureSet.AS_THEY_ARE:
        loaded = replace(loaded, public=described_by_features(loaded.public, folder=cache))
    evaluation = evaluation or EvaluationSettings()
    share = evaluation.share(has_test_split=loaded.public.has_test_split)
    if share is None:
        return loaded
    return set_aside(loaded, share=share, seed=evaluation.held_out_seed)


def _as_on_disk(settings: DataSettings, cache: Path | None) -> LabelledData:
    if settings.name == "own":
        if settings.embeddings is not None:
            raise ValueError(
                f"data.embeddings is {settings.embeddings}, but data.name is own: embeddings of "
                "your own images are your features; set data.path to them, and data.labels to the "
                "file of their labels"
            )
        return data_sets.load_own(settings.own_source, limit=settings.limit, folder=cache)
    said = [f"data.{key}" for key in OWN_KEYS if getattr(settings, key)]
    if said:
        raise ValueError(
            f"{', '.join(said)}: for data of your own, but data.name is {settings.name}; set "
            "data.name=own, or leave them out"
        )
    if settings.embeddings is None:
        return data_sets.load(settings.name, root=settings.root, limit=settings.limit)
    splits = find(settings.name).read(data_root(settings.root))
    seen = with_embeddings(settings.name, splits, settings.embeddings, folder=cache)
    return data_sets.labelled(settings.name, seen, limit=settings.limit)
