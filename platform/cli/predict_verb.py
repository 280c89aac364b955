"""`labeldp predict MODEL DATA -o FILE`: what a kept model says of raw rows."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.verb import Verb, plain_text

if TYPE_CHECKING:  # it loads torch
    from labeldp.platform.cli.predicting import Predictions


def _arguments(parser: argparse.ArgumentParser) -> None:
    text = "folder of a model, or of a sweep's results (with --trial)"
    parser.add_argument("model", metavar="MODEL", help=text)
    text = "rows as the training file had them: .parquet, .csv, .npy or .npz[:key]"
    parser.add_argument("data", metavar="DATA", help=text)
    text = "where predictions are written: .parquet or .csv"
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help=text)
    text = "which trial of the results, by its hash or how that begins"
    parser.add_argument("--trial", metavar="HASH", help=text)


def _predict(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.predicting import predict

    return predict(options.model, options.data, out=options.out, trial=options.trial)


def _text(predictions: "Predictions") -> str:
    """The method in the words of the report, where there is one."""
    said = asdict(predictions)
    line = said.pop("line")
    return plain_text(said if line is None else {**said, "method": line})


VERBS = (
    Verb(
        name="predict",
        summary="classes and probabilities of raw rows, by a kept model",
        example="labeldp predict results/quickstart --trial HASH ROWS.npz -o predictions.parquet",
        arguments=_arguments,
        run=_predict,
        text=_text,
    ),
)
