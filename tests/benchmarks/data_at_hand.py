"""Data sets for benchmarks: where one is not at hand, the command says so and ends."""

import argparse

from labeldp.trainers.data.labelled_data import LabelledData, load


def load_or_refuse(
    parser: argparse.ArgumentParser, name: str, *, limit: int | None = None
) -> LabelledData:
    """Return a data set; one that can't be read ends the command as a wrong argument does."""
    try:
        return load(name, limit=limit)
    except ValueError as error:
        parser.error(str(error))
