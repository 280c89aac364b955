"""The size of a sweep's data for plans, read from disk without torch."""

from dataclasses import replace
from pathlib import Path

from labeldp.platform.sweep.configuration import OWN_KEYS, DataSettings, EvaluationSettings
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import data_root
from labeldp.trainers.data.own_data import read_own, with_embeddings
from labeldp.trainers.data.splits import DataSize, Splits, held_out_count, size_of


def size_of_data(settings: DataSettings, *, evaluation: EvaluationSettings) -> DataSize:
    """Read what the settings name and count; features that they ask for are not computed."""
    size = size_of(settings.name, as_on_disk(settings), limit=settings.limit)
    share = evaluation.share(has_test_split=size.has_test_split)
    held_out = 0 if share is None else held_out_count(size.num_labels, share=share)
    return replace(size, num_labels=size.num_labels - held_out, held_out=held_out)


def as_on_disk(settings: DataSettings, *, cache: Path | None = None) -> Splits:
    """Return the arrays of the data set that the settings name, before anything is checked.

    `cache` takes features that are too large for memory; a temporary folder if None.
    """
    if settings.name == "own":
        if settings.embeddings is not None:
            raise ValueError(
                f"data.embeddings is {settings.embeddings}, but data.name is own: embeddings of "
                "your own images are your features; set data.path to them, and data.labels to the "
                "file of their labels"
            )
        return read_own(settings.own_source, folder=cache)
    stated = [f"data.{key}" for key in OWN_KEYS if getattr(settings, key)]
    if stated:
        raise ValueError(
            f"{', '.join(stated)}: for data of your own, but data.name is {settings.name}; set "
            "data.name=own, or leave them out"
        )
    splits = find(settings.name).read(data_root(settings.root))
    if settings.embeddings is None:
        return splits
    return with_embeddings(settings.name, splits, settings.embeddings, folder=cache)
