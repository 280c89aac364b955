"""Which folder imports which, drawn as text: `python -m tests.import_map [--write]`.

`--write` puts the drawing into ARCHITECTURE.md, where a test wants it to be as the code is. Faces
(`__init__.py`) and doors, which only hand on names, are left out: they would draw circles.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from tests.source_tree import LAYERS, ROOT, files_imported, named, sources

PAGE = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- python -m tests.import_map --write -->"
END = "<!-- end of the drawing -->"
#: Promised paths that hand on names of `mechanisms/pate/`.
DOORS = {
    "mechanisms/pate_accounting.py": "mechanisms/pate/accounting.py",
    "mechanisms/smooth_sensitivity.py": "mechanisms/pate/smooth_sensitivity.py",
    "mechanisms/vote_leakage.py": "mechanisms/pate/vote_leakage.py",
}


def room_of(path: Path) -> str:
    """The folder of a source file, such as `mechanisms/pate`."""
    return path.parent.relative_to(ROOT).as_posix()


def only_hands_on_names(path: Path) -> bool:
    """Whether a file is a layer's or a room's face, or a door."""
    return path.name == "__init__.py" or named(path) in DOORS


def arrows() -> dict[str, set[str]]:
    """Folder -> the other folders that its files may import."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sources(*LAYERS):
        room = room_of(path)
        found[room] |= set()
        if only_hands_on_names(path):
            continue
        found[room] |= {room_of(other) for other in files_imported(path)} - {room, "labeldp"}
    return dict(found)


def drawing() -> str:
    """One line for each folder, highest layer first; what it imports, a layer in each column."""
    found = arrows()
    highest_first = [layer for layer in reversed(LAYERS) if any(_cells(found, layer))]
    lines = []
    for layer in reversed(LAYERS):
        for room in sorted(room for room in found if room.split("/")[0] == layer):
            columns = [
                _cell(found[room], below).ljust(max(map(len, _cells(found, below))))
                for below in highest_first
            ]
            lines.append(f"    {room:<20} -> {'  '.join(columns)}".rstrip(" ->"))
    return "\n".join(lines)


def _cells(found: dict[str, set[str]], layer: str) -> list[str]:
    return [_cell(rooms, layer) for rooms in found.values()]


def _cell(rooms: set[str], layer: str) -> str:
    """The rooms of one layer: `mechanisms` itself by its name, those in it by `/room`."""
    chosen = sorted(room for room in rooms if room.split("/")[0] == layer)
    return " ".join(room if room == layer else room.removeprefix(layer) for room in chosen)


def page_with(text: str, drawn: str) -> str:
    """The page with `drawn` between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{drawn}\n\n{END}{after}"


def main() -> None:
    """Print the drawing, or write it."""
    parser = argparse.ArgumentParser(description="Which folder imports which.")
    parser.add_argument("--write", action="store_true", help="into ARCHITECTURE.md")
    if parser.parse_args().write:
        PAGE.write_text(page_with(PAGE.read_text(), drawing()))
    else:
        print(drawing())


if __name__ == "__main__":
    main()
