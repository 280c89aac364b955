"""pictures: what shows the same is not drawn again, and nothing else is taken for a picture."""

import io
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from labeldp.platform.records.private_files import NotOurs
from labeldp.platform.report import pictures
from labeldp.platform.report.pictures import write_picture


class Draft:
    """Draws, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, file: IO[bytes]) -> None:
        self.times += 1
        figure = Figure(figsize=(1, 1))
        FigureCanvasAgg(figure)
        figure.savefig(file, dpi=10, format="png")


@dataclass(frozen=True)
class Shown:
    """What a figure may show."""

    values: Any
    epsilon: float = math.inf


def test_the_same_is_drawn_once_and_is_a_picture(tmp_path: Path) -> None:
    path, draw, bare = tmp_path / "a.png", Draft(), io.BytesIO()
    for _ in range(3):
        write_picture(path, [Shown(np.ones(3))], draw)
    assert draw.times == 1
    draw(bare)
    bare.seek(0)
    assert (imread(path) == imread(bare)).all()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


CHANGED = np.ones(2000)
CHANGED[1000] = 1 + 1e-16 * 4


@pytest.mark.parametrize(
    "other",
    [
        Shown(np.ones(2000), epsilon=1.0),
        Shown(CHANGED),
        Shown(np.ones(2000, np.float32)),
        Shown(np.ones((2000, 1))),
        Shown(np.ones(1999)),
        Shown({"a": 1.0}),
        Shown(None),
    ],
    ids=["epsilon", "digit", "type", "shape", "length", "mapping", "none"],
)
def test_anything_else_is_drawn_anew(tmp_path: Path, other: Shown) -> None:
    path, draw = tmp_path / "a.png", Draft()
    write_picture(path, Shown(np.ones(2000)), draw)
    write_picture(path, other, draw)
    assert draw.times == 2
    write_picture(path, other, draw)
    assert draw.times == 2


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "gone", "unmarked", "pipe"])
def test_what_is_no_such_picture_any_more_is_drawn_anew(tmp_path: Path, damage: str) -> None:
    path, draw = tmp_path / "a.png", Draft()
    write_picture(path, "it", draw)
    whole = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(whole[:-1])
        case "bit":
            path.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
        case "empty":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
        case "unmarked":
            with path.open("wb") as file:
                Draft()(file)
        case "pipe":
            path.unlink()
            os.mkfifo(path)
    write_picture(path, "it", draw)
    assert draw.times == 2 and path.read_bytes() == whole


def test_one_that_was_drawn_elsewhere_is_copied(tmp_path: Path) -> None:
    first, second, draw = tmp_path / "a.png", tmp_path / "b.png", Draft()
    write_picture(first, "it", draw)
    write_picture(second, "it", draw, earlier=(tmp_path / "nowhere.png", first))
    assert draw.times == 1 and second.read_bytes() == first.read_bytes()


def test_other_code_draws_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, draw = tmp_path / "a.png", Draft()
    write_picture(path, "it", draw)
    monkeypatch.setattr(pictures, "_code", lambda: "changed")
    write_picture(path, "it", draw)
    assert draw.times == 2


def test_links_are_refused_as_everywhere(tmp_path: Path) -> None:
    path, draw = tmp_path / "a.png", Draft()
    write_picture(path, "it", draw)
    (tmp_path / "link.png").symlink_to(path)
    with pytest.raises(NotOurs):
        write_picture(tmp_path / "link.png", "it", draw)
