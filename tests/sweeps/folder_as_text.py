"""A results folder as text files, for a test that goes on from one: `python -m ... FOLDER TEXTS`.

`before_the_move/` beside this file was made by the code of commit 7e5f390, when all modules still
lay flat in their layers:

    python sweeps/quickstart.py --results before noise.seed=7 data.limit=80 trainer.epochs=2 \
        'trainer.noise=[laplace,gaussian,randomized_response]' trainer.epsilon=2 \
        audit.canaries=20 audit.coin_canaries=20
    python -m tests.sweeps.folder_as_text before tests/sweeps/before_the_move

Its vault holds scikit-learn's digits under seeded noise: the salt in it protects nothing.
"""

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path


def pack(results: Path, texts: Path) -> None:
    """Write what resumes a sweep as text; what says where it lay is left out."""
    shutil.copytree(results / "trials", texts / "trials")
    facts = json.loads((results / "sweep.json").read_text())
    del facts["tracking_uri"]
    (texts / "sweep.json").write_text(json.dumps(facts, indent=1) + "\n")
    with closing(sqlite3.connect(results / "vault.db")) as store:
        (texts / "vault.sql").write_text("\n".join(store.iterdump()) + "\n")


def unpack(texts: Path, results: Path) -> None:
    """Make a results folder of what `pack` has written."""
    shutil.copytree(texts / "trials", results / "trials")
    shutil.copy(texts / "sweep.json", results)
    with closing(sqlite3.connect(results / "vault.db")) as store:
        store.executescript((texts / "vault.sql").read_text())


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
