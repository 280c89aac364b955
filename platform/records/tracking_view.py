"""Tracking stores of results folders, as one server can show them: where they lie now, all in one.

A store that is one file holds absolute paths of its artifacts, and one server shows one store. For
folders that were moved or copied, or for several, a copy is made in a folder of its own: paths lead
to where the folders are now, and every folder's experiment is in it. The folders themselves are
read and not changed.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from labeldp.platform.records.local_tracking import move_artifacts
from labeldp.platform.records.tracking import TrackingUnusable, check_file, default_uri

#: Tables that hold what a sweep tracks, parents first. Others stay empty: labeldp writes none.
_TABLES = (
    *("experiments", "experiment_tags", "runs", "tags", "params", "metrics", "latest_metrics"),
    *("datasets", "inputs", "input_tags", "logged_models", "logged_model_metrics"),
    *("logged_model_params", "logged_model_tags"),
)
#: MLflow makes it in every store.
_DEFAULT_EXPERIMENT = 0


def store_to_show(folders: Sequence[Path], *, scratch: Path) -> str:
    """Return the address of a store that shows what these folders hold.

    Args:
        folders: Results folders; a folder of results folders stands for those in it.
        scratch: Where a copy is made if one is needed: an empty folder.

    Returns:
        The one folder's own store, where it has not been moved: a sweep that goes on is seen to.
        A copy as of now otherwise.

    Raises:
        TrackingUnusable: A folder that holds no store, or one that can't be read together.
    """
    found = _with_stores(folders)
    if len(found) == 1 and not _moved(found[0]):
        return default_uri(found[0])
    copy = scratch / "mlflow.db"
    try:
        _copied(found[0], copy)
        names = _names(copy)
        for folder in found[1:]:
            part = scratch / "part.db"
            _copied(folder, part)
            _merge(part, copy, folder=folder, taken=names)
            part.unlink()
    except sqlite3.Error as error:
        raise TrackingUnusable(
            f"tracking stores of {', '.join(map(str, found))} can't be shown together ({error}); "
            "stores of different versions of MLflow can be shown one by one"
        ) from error
    return default_uri(scratch)


def _with_stores(folders: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for folder in folders:
        here = folder.expanduser().absolute()
        inside = [here] if (here / "mlflow.db").is_file() else sorted(here.glob("*/"))
        stores = [path for path in inside if (path / "mlflow.db").is_file()]
        if not stores:
            raise TrackingUnusable(
                f"{folder} holds no tracking store (mlflow.db); name a results folder, such as "
                "results/quickstart. What went to a server is on that server's pages"
            )
        found += [path for path in stores if path not in found]
    for path in found:
        check_file(default_uri(path))
    return found


def _read(store: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True, timeout=60)


def _moved(folder: Path) -> bool:
    """Whether artifacts are said to lie somewhere else than in the folder."""
    try:
        with closing(_read(folder / "mlflow.db")) as store:
            places = store.execute(
                "SELECT artifact_location FROM experiments WHERE experiment_id != ?",
                (_DEFAULT_EXPERIMENT,),
            ).fetchall()
    except sqlite3.Error as error:
        raise TrackingUnusable(f"{folder / 'mlflow.db'} is no tracking store ({error})") from error
    return any(place != (folder / "artifacts").as_uri() for (place,) in places)


def _copied(folder: Path, target: Path) -> None:
    """Copy a store, whoever may be writing to it, and lead its paths into the folder."""
    with closing(_read(folder / "mlflow.db")) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        query = "SELECT experiment_id, artifact_location FROM experiments WHERE experiment_id != ?"
        for experiment, place in copy.execute(query, (_DEFAULT_EXPERIMENT,)).fetchall():
            formerly = place
            copy.commit()
            move_artifacts(
                f"sqlite:///{target}",
                experiment=str(experiment),
                artifacts=folder / "artifacts",
                formerly=Path(formerly.removeprefix("file://")),
            )


def _names(store: Path) -> set[str]:
    with closing(_read(store)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM experiments")}


def _merge(part: Path, into: Path, *, folder: Path, taken: set[str]) -> None:
    """Add a store's experiments to another's, under ids and names that are free there."""
    with closing(sqlite3.connect(into)) as store:
        store.execute("ATTACH DATABASE ? AS part", (str(part),))
        both = "SELECT 1 FROM part.runs WHERE run_uuid IN (SELECT run_uuid FROM main.runs)"
        if store.execute(both).fetchone() is not None:
            return  # a copy of a folder that is shown already
        (offset,) = store.execute("SELECT MAX(experiment_id) FROM experiments").fetchone()
        for (name,) in store.execute("SELECT name FROM part.experiments").fetchall():
            new, number = name, 1
            while new in taken:
                number += 1
                new = f"{name} ({folder.name}{'' if number == 2 else f', {number}'})"
            taken.add(new)
            store.execute("UPDATE part.experiments SET name = ? WHERE name = ?", (new, name))
        for table in _TABLES:
            columns = [row[1] for row in store.execute(f"PRAGMA part.table_info({table})")]
            values = [
                f"{column} + {offset}" if column == "experiment_id" else column
                for column in columns
            ]
            kept = f" WHERE experiment_id != {_DEFAULT_EXPERIMENT}" if table in _OF_DEFAULT else ""
            if columns:
                store.execute(
                    f"INSERT OR IGNORE INTO main.{table} ({', '.join(columns)}) "
                    f"SELECT {', '.join(values)} FROM part.{table}{kept}"
                )
        store.commit()


#: Of these, what belongs to MLflow's own first experiment is left out.
_OF_DEFAULT = ("experiments", "experiment_tags")
