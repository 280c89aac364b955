"""The rooms: who may enter where, that tests mirror them, and how long files and functions are."""

import ast
import importlib
import re
import statistics
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.import_map import DOORS, PAGE, drawing, page_with
from tests.room_exceptions import LONG, TRUSTED, UNMIRRORED, CoveredBy
from tests.source_tree import (
    FINDERS,
    LAYERS,
    ROOT,
    file_of,
    files_imported,
    found_by_name,
    imports,
    imports_when_loaded,
    named,
    sources,
    tree,
)

PACKAGES = ("mechanisms", "trainers", "platform")
LONGEST_FILE = 400
MEDIAN_FILE = 150
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 7
#: Of a sweep; each is shorter than other functions have to be.
STEPS = {
    "check": "platform/sweep_check.py",
    "opened": "platform/open_sweep.py",
    "run": "platform/driver.py",
    "report": "platform/sweep_report.py",
}
LONGEST_STEP = 49


def taken_from(path: Path, room: str) -> set[str]:
    """What a file imports from a room, by names that begin inside of it."""
    inside = f"labeldp.{room.replace('/', '.')}."
    outer, _, last = inside.rstrip(".").rpartition(".")
    found = {name.removeprefix(inside) for name in imports(path) if name.startswith(inside)}
    return found | ({last} if f"{outer}.{last}" in imports(path) else set())


def test_only_who_is_named_takes_only_what_is_named_from_the_trusted_room() -> None:
    found = {
        named(path): taken
        for path in sources(*LAYERS)
        if path.parent != ROOT / "platform" / "trusted"
        and (taken := taken_from(path, "platform/trusted"))
    }
    assert found == TRUSTED, "tests/room_exceptions.py names who may import platform/trusted/"


def test_records_and_sweeps_take_nothing_from_the_trusted_room() -> None:
    assert not [name for name in TRUSTED if name.startswith(("platform/records/", "sweeps/"))]


def test_reports_and_studies_enter_the_trusted_room_by_one_door() -> None:
    door = {"audits.AttackEvidence", "audits.evidence_path"}
    for name, taken in TRUSTED.items():
        if name.startswith(("platform/reports/", "platform/studies/")):
            assert taken <= door, f"{name} takes {taken - door}"


@pytest.mark.parametrize(("room", "other"), [("pate", "auditing"), ("auditing", "pate")])
def test_pate_and_the_audits_do_not_know_each_other(room: str, other: str) -> None:
    files = sources(f"mechanisms/{room}")
    assert files
    doors = {ROOT / door for door in DOORS} if other == "pate" else set[Path]()
    for path in files:
        assert not taken_from(path, f"mechanisms/{other}"), named(path)
        assert not files_imported(path) & doors, f"{named(path)} goes round by a door"


def test_rooms_are_one_level_deep_and_packages_outside_of_platform_only() -> None:
    for layer in PACKAGES:
        for path in sources(layer):
            assert len(path.relative_to(ROOT).parts) <= 3, f"{named(path)} is too deep"
        rooms = {path.parent for path in sources(layer)} - {ROOT / layer}
        assert rooms
        for room in rooms:
            assert (room / "__init__.py").exists() == (layer != "platform"), (
                f"{room.relative_to(ROOT)}: a room of platform/ has no __init__.py, others have one"
            )


def test_modules_that_load_import_no_circles() -> None:
    graph = {
        path: {other for name in imports_when_loaded(path) if (other := file_of(name))} - {path}
        for path in sources(*LAYERS)
    }
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(("door", "room"), DOORS.items())
def test_doors_hand_on_what_is_public_in_the_room(door: str, room: str) -> None:
    opened, inside = (
        importlib.import_module("labeldp." + name.removesuffix(".py").replace("/", "."))
        for name in (door, room)
    )
    assert sorted(opened.__all__) == sorted(inside.__all__)
    assert all(getattr(opened, name) is getattr(inside, name) for name in inside.__all__)


def test_the_sources_themselves_go_in_by_no_door() -> None:
    doors = {ROOT / door for door in DOORS}
    for path in sources(*LAYERS):
        assert not files_imported(path) & doors, f"{named(path)}: import from the room"


def mirror_of(path: Path) -> Path:
    """Where the test of a module is; a face is tested under the name of its room."""
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    return ROOT / "tests" / path.parent.relative_to(ROOT) / f"test_{stem}.py"


def says_something(path: Path) -> bool:
    """Whether a file is more than a docstring."""
    return any(not isinstance(node, ast.Expr) for node in tree(path).body)


def reached_from(path: Path) -> set[Path]:
    """All files of ours that a file imports, or that those import, and so on."""
    found: set[Path] = set()
    waiting = {path}
    while waiting:
        found |= waiting
        waiting = {other for one in waiting for other in files_imported(one)} - found
    return found


def test_every_module_has_a_mirroring_test_or_is_a_named_exception() -> None:
    faces = {ROOT / layer / "__init__.py" for layer in PACKAGES}  # names, tried by a doctest
    modules = {path for path in sources(*PACKAGES) if says_something(path)} - faces
    found = {named(path) for path in modules if not mirror_of(path).exists()}
    missing, stale = found - set(UNMIRRORED), set(UNMIRRORED) - found
    assert not missing, f"no test mirrors {missing}; tests/room_exceptions.py takes a reason"
    assert not stale, f"these have a test now, or are gone: {stale}"


@pytest.mark.parametrize(("module", "tested"), UNMIRRORED.items())
def test_what_is_said_to_test_a_module_imports_it(module: str, tested: CoveredBy) -> None:
    assert tested.reason
    test = ROOT / tested.test
    assert test.exists(), tested.test
    if test == Path(__file__).resolve():
        assert module in DOORS
    else:
        assert ROOT / module in reached_from(test), f"{tested.test} does not get to {module}"


def test_tests_are_where_their_modules_are() -> None:
    """A test in a mirrored room is named after a module there, so that no move leaves it behind."""
    for path in sources("tests"):
        room = path.parent.relative_to(ROOT / "tests")
        if path.name.startswith("test_") and len(room.parts) == 2:
            stem = path.stem.removeprefix("test_")
            module = ROOT / room / ("__init__.py" if stem == room.name else f"{stem}.py")
            assert module.exists(), f"{named(path)} mirrors nothing"


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources(*LAYERS, "tests")}
    long = {named(path): lines for path, lines in lengths.items() if lines > LONGEST_FILE}
    assert not long, f"longer than {LONGEST_FILE} lines: {long}"
    modules = [lengths[path] for path in sources(*LAYERS) if says_something(path)]
    assert statistics.median(modules) <= MEDIAN_FILE


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, Function]]:
    """All functions with the classes and functions that they are in: `Class.method`."""
    for child in ast.iter_child_nodes(node):
        inner = within
        if isinstance(child, Function | ast.ClassDef):
            inner = f"{within}.{child.name}".lstrip(".")
        if isinstance(child, Function):
            yield inner, child
        yield from functions(child, inner)


def length(function: Function) -> int:
    """How many lines a function has, its docstring's too."""
    return (function.end_lineno or 0) - function.lineno + 1


def parameters(function: Function) -> int:
    """How many parameters a function has, `self` and `cls` not among them."""
    given = function.args
    positional = [argument.arg for argument in given.posonlyargs + given.args]
    stars = (given.vararg is not None) + (given.kwarg is not None)
    return len(positional) + len(given.kwonlyargs) + stars - (positional[:1] in (["self"], ["cls"]))


@pytest.mark.parametrize(("step", "module"), STEPS.items())
def test_a_sweep_is_four_short_steps(step: str, module: str) -> None:
    (function,) = (found for name, found in functions(tree(ROOT / module)) if name == step)
    assert length(function) <= LONGEST_STEP
    driver = tree(ROOT / "platform/driver.py")
    (whole,) = (found for name, found in functions(driver) if name == "run_sweep")
    called = {node.func for node in ast.walk(whole) if isinstance(node, ast.Call)}
    assert step in {name.id for name in called if isinstance(name, ast.Name)}


def test_functions_are_short_and_take_few_parameters() -> None:
    over = {}
    for path in sources(*LAYERS):
        for name, function in functions(tree(path)):
            lines = length(function)
            if lines > LONGEST_FUNCTION or parameters(function) > MOST_PARAMETERS:
                over[f"{named(path)}:{name}"] = (lines, parameters(function))
    unnamed, stale = set(over) - set(LONG), set(LONG) - set(over)
    assert not unnamed, {name: over[name] for name in unnamed}
    assert not stale, f"short enough now, or gone; take them out of the table: {stale}"
    for name, (lines, count) in over.items():
        allowed = LONG[name]
        assert allowed.reason
        assert lines <= allowed.lines and count <= allowed.parameters, (
            f"{name} has grown to {lines} lines and {count} parameters: {allowed}"
        )


def test_the_measure_of_functions_sees_what_it_should() -> None:
    body = ast.parse(
        "def f(a, /, b, *c, d, **e):\n  def g(): pass\nclass H:\n  def i(self, j):\n    pass\n"
    )
    assert [(name, parameters(found)) for name, found in functions(body)] == [
        ("f", 5),
        ("f.g", 0),
        ("H.i", 1),
    ]


def test_the_drawing_of_imports_is_the_code() -> None:
    text = PAGE.read_text()
    assert text == page_with(text, drawing()), "run: python -m tests.import_map --write"


MAPS = [
    path
    for layer in ("mechanisms", "trainers")
    for path in sources(layer)
    if path.name == "__init__.py"
]


@pytest.mark.parametrize("face", MAPS, ids=named)
def test_maps_name_all_that_is_there_and_nothing_else(face: Path) -> None:
    rows = [line for line in (ast.get_docstring(tree(face)) or "").splitlines() if line[:1] == "|"]
    assert len(rows) > 3, f"{named(face)} has no map"
    listed = set(re.findall(r"`([a-z_]+)`", " ".join(row.split("|", 2)[2] for row in rows[2:])))
    files = {path for path in face.parent.glob("*.py") if path != face}
    rooms = {path.parent.name for path in face.parent.glob("*/__init__.py")}
    there = rooms | {path.stem for path in files}
    missing = rooms | {path.stem for path in files - found_otherwise()}
    assert missing <= listed, f"{named(face)} has no word of {missing - listed}"
    assert not {name for name in listed - there if not defined(face, name)}


def found_otherwise() -> set[Path]:
    """Files that a map need not name: methods have a table of their own, verbs are found by name.

    So that who adds one has no further file to touch; those that are here are named nonetheless.
    """
    methods = files_imported(ROOT / "platform" / "configuration.py")
    return methods.union(*(found_by_name(ROOT / finder) for finder in FINDERS))


def defined(face: Path, name: str) -> bool:
    """Whether a face hands on this name."""
    return any(found.rpartition(".")[2] == name for found in imports(face))


def test_the_map_of_platform_names_all_that_is_there_and_nothing_else() -> None:
    """It has no docstring to hold one, so that it stands in ARCHITECTURE.md."""
    (rows,) = re.findall(r"\| `platform/` \|.*?\n\n", PAGE.read_text(), re.DOTALL)
    listed = {
        (room.strip("/"), name)
        for room, names in re.findall(r"^\| (?:`(\w+/)`|\(itself\)) \|.*\| (.*) \|$", rows, re.M)
        for name in re.findall(r"`(\w+)`", names)
    }
    there, missing = (
        {("" if path.parent.name == "platform" else path.parent.name, path.stem) for path in paths}
        for paths in (sources("platform"), set(sources("platform")) - found_otherwise())
    )
    assert listed <= there, f"not there: {listed - there}"
    assert missing <= listed, f"not listed: {missing - listed}"


def test_the_tree_of_the_readme_names_every_room_and_only_what_is_there() -> None:
    block = (ROOT / "README.md").read_text().split("## Where things are")[1].split("\n\n")[1]
    listed, layer = set(), ""
    for indent, name in re.findall(r"^    ( *)(\w+)/ ", block, re.M):
        layer = layer if indent else name
        listed.add(f"{layer}/{name}" if indent else name)
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in sources(*LAYERS)} - {"labeldp"}
    assert rooms <= listed, f"README.md has no word of {rooms - listed}"
    assert not {name for name in listed if not (ROOT / name).is_dir()}
