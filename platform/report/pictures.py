"""Pictures of a report, drawn anew only where they would show something else.

Drawing takes matplotlib, which takes most of a second to load and another to draw, and the figures
of the same trials are the same. So a PNG says what it was made of: a digest of what it shows, of
the code that draws, and of the picture itself. One that was changed by hand or cut off has another.

>>> marked = _with_mark(_HEADER + b"...the rest", "what it shows")
>>> _is_of(marked, "what it shows"), _is_of(marked, "something else"), _is_of(marked[:-1], "...")
(True, False, False)
"""

import hashlib
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from labeldp.platform.records.private_files import replacing
from labeldp.trainers.data.regular_files import FileRefused, read_bytes

#: Files whose code decides how a picture looks.
_DRAWN_BY = ("audit_figures.py", "figures.py", "method_styles.py")
#: Of a PNG: its signature and its first chunk, as long in every picture; only read by its length.
_HEADER = b"\x89PNG\r\n\x1a\n" + bytes(25)
_KEYWORD = b"tEXtlabeldp\0"


def write_picture(
    path: Path,
    shown: Any,
    draw: Callable[[IO[bytes]], None],
    *,
    earlier: Sequence[Path] = (),
) -> None:
    """Write a picture, as it was drawn before where that shows the same.

    Args:
        path: Where to; what is there is looked at first, and replaced with its modes.
        shown: All that the picture depends on: dataclasses, mappings, sequences, arrays, values.
        draw: Draws it as a PNG into a file.
        earlier: Where else it may have been drawn before.
    """
    digest = hashlib.sha256(f"{_code()} {_in_full(shown)}".encode()).hexdigest()
    found = (_kept(place) for place in dict.fromkeys((path, *earlier)))
    picture = next((kept for kept in found if _is_of(kept, digest)), None)
    if picture is None:
        drawing = io.BytesIO()
        draw(drawing)
        picture = _with_mark(drawing.getvalue(), digest)
    with replacing(path) as file:
        file.write(picture)


def _kept(path: Path) -> bytes:
    """What lies there; nothing where that can't be read."""
    try:
        return read_bytes(path)
    except (FileRefused, OSError, ValueError):
        return b""


def _with_mark(png: bytes, digest: str) -> bytes:
    """Return the picture with a chunk of text behind the first one."""
    start, rest = png[: len(_HEADER)], png[len(_HEADER) :]
    chunk = _KEYWORD + _mark(png, digest)
    length, check = (len(chunk) - 4).to_bytes(4, "big"), zlib.crc32(chunk).to_bytes(4, "big")
    return start + length + chunk + check + rest


def _is_of(picture: bytes, digest: str) -> bool:
    """Whether it is a picture that was drawn of this, and nothing was done to it since."""
    begin = len(_HEADER)
    size = 4 + len(_KEYWORD) + 2 * hashlib.sha256().digest_size + 4
    plain = picture[:begin] + picture[begin + size :]
    return len(picture) > begin + size and picture == _with_mark(plain, digest)


def _mark(png: bytes, digest: str) -> bytes:
    return hashlib.sha256(digest.encode() + png).hexdigest().encode()


@cache
def _code() -> str:
    """Digest of the code that draws."""
    here = Path(__file__)
    code = b"".join(here.with_name(name).read_bytes() for name in _DRAWN_BY)
    return hashlib.sha256(code).hexdigest()


def _in_full(value: Any) -> str:
    """A value in words, arrays to their last digit."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if is_dataclass(value) and not isinstance(value, type):
        return _in_full({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return _in_full([part for entry in value.items() for part in entry])
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_in_full, value))}]"
    return repr(value)
