"""JSON as every reader takes it, and writing that is all or nothing, for its owner alone."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labeldp.platform.records.private_files import NotOurs, replacing
from labeldp.trainers.data.regular_files import read_bytes

#: Records hold a number per metric and epoch: a few megabytes at the most.
_RECORD_BYTES = 100_000_000


class ResultsFolderError(ValueError):
    """A results folder that can't be used; the message says why and what to do."""


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return standard JSON: infinity as 1e999, which every reader takes for it, NaN as null."""
    text = json.dumps(_plain(value), indent=indent)
    return _STRING_OR_INFINITY.sub(lambda m: "1e999" if m[0] == "Infinity" else m[0], text)


#: Strings are matched so that a text that says "Infinity" is passed over as a whole.
_STRING_OR_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity')


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it.

    Raises:
        ResultsFolderError: The disk is full or the folder can't be written.
    """
    write_text(path, dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never half of it.

    Raises:
        ResultsFolderError: The disk is full, the folder can't be written, or the file is a link.
    """
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except NotOurs as error:
        raise ResultsFolderError(str(error)) from error
    except OSError as error:
        raise ResultsFolderError(
            f"{path} can't be written ({error.strerror}); free the disk or make the folder "
            "writable, and run again with --resume auto"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ResultsFolderError: There is none that can be read.
    """
    try:
        loaded = json.loads(read_bytes(path, most_bytes=_RECORD_BYTES))
        if not isinstance(loaded, dict):
            raise ValueError("it holds no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsFolderError(
            f"{path} can't be read ({error}); restore it, or move the folder away and start anew"
        ) from error
    return loaded
