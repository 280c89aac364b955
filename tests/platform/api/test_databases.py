"""Labels in a database: the same release as from a file, nothing written, every refusal free."""

import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest

from labeldp.platform.api.party_files import read_release
from labeldp.trainers.data.tables import PASSWORD, PASSWORD_FILE, QueriedLabels
from tests.platform.api.asked import both_tables
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import refusal

ALL = "SELECT id, bought FROM labels -- of everybody"
COLUMNS = ("--id-column", "id", "--label-column", "bought")
ENGINES = ("duckdb", "sqlite", "postgresql")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A PostgreSQL of this test alone; where it is, in psycopg's words."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    as_other: list[str] = []
    if os.geteuid() == 0:
        if not (shutil.which("setpriv") and subprocess.run(["id", "postgres"]).returncode == 0):
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        as_other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    # Not under pytest's folder, which is closed to other users.
    folder = Path("/tmp") / f"labeldp-{os.getpid()}-postgres"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / "password").write_text("s3cret\n")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        command = [*as_other, str(found[-1] / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, timeout=120)

    try:
        run("initdb", "-U", "owner", "--pwfile", str(folder / "password"), "-A", "scram-sha-256")
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -F"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield {
                "host": "127.0.0.1",
                "port": port,
                "user": "owner",
                "password": "s3cret",
                "dbname": "postgres",
            }
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


Run = Callable[[str], Any]


@pytest.fixture
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Run]:
    """The address of a database with the labels, and a way to run a statement there."""
    _, labels = both_tables(600)
    rows = labels.to_numpy().tolist()
    create = "CREATE TABLE labels (id VARCHAR(20), bought VARCHAR(20))"
    if request.param == "postgresql":
        server = request.getfixturevalue("server")
        monkeypatch.setenv(PASSWORD, server["password"])

        def run(statement: str) -> Any:
            with psycopg.connect(**server, autocommit=True) as connection:
                return connection.execute(statement)

        run("DROP TABLE IF EXISTS labels")
        address = f"postgresql://owner@127.0.0.1:{server['port']}/postgres"
    else:
        connect: Any = duckdb.connect if request.param == "duckdb" else sqlite3.connect

        def run(statement: str) -> Any:
            with closing(connect("labels.db")) as connection:
                found = connection.execute(statement).fetchall()
                connection.commit()
                return found

        address = "duckdb:labels.db" if request.param == "duckdb" else "sqlite:///labels.db"
    run(create)
    run("INSERT INTO labels VALUES " + ", ".join(f"('{name}', '{label}')" for name, label in rows))
    return address, run


@pytest.fixture
def asked() -> Callable[..., tuple[str, ...]]:
    """Write a request by a method, and return the options of a release that answers it."""
    features, labels = both_tables(600)
    features.to_parquet("features.parquet")
    labels.to_parquet("labels.parquet")

    def options(method: str = "clusters", epsilon: str = "1", vault: str = "vault") -> Any:
        folder = f"request-{method}"
        if not Path(folder).exists():
            wanted = ("--id-column", "id", "--method", method, "--classes", "no,yes")
            ran("request", "features.parquet", *wanted, "-o", folder)
        return (*COLUMNS, "--request", folder, "--epsilon", epsilon, "--vault", vault)

    return options


@pytest.mark.parametrize("kept", ENGINES, indirect=True)
@pytest.mark.parametrize("method", ["moments", "clusters"])
def test_a_database_gives_the_labels_of_the_file(
    method: str, kept: tuple[str, Run], asked: Any
) -> None:
    first = ran("release", "labels.parquet", *asked(method), "-o", "file")
    # The vault knows labels by a digest: equal ones read the release that was paid for already.
    query = ("--query", ALL)
    again = ran("release", kept[0], *asked(method), *query, "-o", "database")
    assert (first["new"], again["new"], again["epsilon"]) == (True, False, first["epsilon"])
    assert again["total_epsilon"] == first["total_epsilon"]
    np.testing.assert_array_equal(read_release("file").values, read_release("database").values)


@pytest.mark.parametrize("kept", ["duckdb", "postgresql"], indirect=True)
def test_a_database_counts_what_a_file_has(kept: tuple[str, Run], asked: Any) -> None:
    address, run = kept
    run("DELETE FROM labels WHERE id IN ('u1', 'u2')")
    run("UPDATE labels SET bought = NULL WHERE id = 'u3'")
    labels = both_tables(600)[1].set_index("id")["bought"].drop(["u1", "u2"])
    labels["u3"] = None
    labels.reset_index().to_parquet("labels.parquet")
    # So large an epsilon leaves counts as they are.
    exact, query = asked(epsilon="200"), ("--query", ALL, "--missing", "no")
    ran("release", "labels.parquet", *exact, *query[2:], "-o", "1")
    given = (*exact, *query, "--push-down")
    pushed = ran("release", address, *given, "-o", "2")
    # Labels that nobody read can't be compared with a file's: the release is paid for again.
    assert (pushed["new"], pushed["known"], pushed["absent"]) == (True, 600, 3)
    np.testing.assert_array_equal(read_release("1").values, read_release("2").values)
    turned = (*exact, "--query", f"{ALL}\nORDER BY id DESC", *given[-3:])
    assert not ran("release", address, *turned, "-o", "3")["new"]
    run("UPDATE labels SET bought = 'yes'")
    assert "had other labels; nothing was released" in refusal(
        "release", address, *given, "-o", "4"
    )
    run("UPDATE labels SET bought = 'perhaps' WHERE id = 'stranger'")
    why = refusal("release", address, *given, "-o", "4")
    assert "1 labels are not among the classes" in why and "perhaps" not in why
    assert "leave out --push-down" in refusal(
        *("release", address, *asked("moments"), *query, "--push-down", "-o", "4")
    )


@pytest.mark.parametrize("kept", ENGINES, indirect=True)
def test_what_is_refused_is_free_and_nothing_is_written(kept: tuple[str, Run], asked: Any) -> None:
    address, run = kept
    options = (*asked(vault="new"), "-o", "out")
    cases = {
        "SELECT id FROM labels": "gives no column 'bought', but id",
        "SELECT id, nope AS bought FROM labels": "nope",
        "SELECT id, bought, id AS bought FROM labels": "two columns of one name ('bought')",
        "SELECT id, 'no' AS \"BOUGHT\", bought FROM labels": "two columns of one name",
        "SELECT id, bought FROM labels WHERE 1 = 0": "the labels have no rows",
        "SELECT id, bought FROM elsewhere": "elsewhere",
        "DELETE FROM labels": "must be one SELECT",
        "SELECT id, bought FROM labels; DROP TABLE labels": "must be one SELECT",
        "WITH x AS (DELETE FROM labels RETURNING *) SELECT * FROM x": "refuses",
        "SELECT id, bought, 'password=x' AS more FROM labels": "has a password",
        "SELECT id, 'perhaps' AS bought FROM labels": "are not among the classes",
        "SELECT id || '' AS id, bought FROM labels UNION ALL SELECT * FROM labels": "601 ids",
    }
    if address.startswith("postgresql"):
        run("DROP SEQUENCE IF EXISTS numbers")
        run("CREATE SEQUENCE numbers")
        cases["SELECT nextval('numbers') AS id, bought FROM labels"] = "ReadOnlySqlTransaction"
        cases["SELECT id, ('perhaps' || id)::int AS bought FROM labels"] = "may quote a value"
    elif address.startswith("sqlite"):  # this one passes for operational
        bad = "CAST(x'70657268617073ff' AS TEXT)"
        cases[f"SELECT id, {bad} AS bought FROM labels"] = "may quote a value"
    else:  # in late rows it is Arrow's
        late = "CASE WHEN i > 200000 THEN ('perhaps' || i)::INT END"
        cases[f"SELECT i AS id, {late} AS bought FROM range(300000) AS r(i)"] = "may quote a value"
    for query, why in cases.items():
        said = refusal("release", address, "--query", query, *options)
        assert why in said and "perhaps" not in said, query
    assert "--query goes with the address" in refusal("release", address, *options)
    changed = run("SELECT COUNT(*) FROM labels")
    assert (changed if isinstance(changed, list) else changed.fetchall()) == [(601,)]
    assert not Path("new").exists() and not Path("out").exists()


@pytest.mark.parametrize("kept", ["postgresql"], indirect=True)
def test_passwords_are_in_the_environment_or_a_file(
    kept: tuple[str, Run], asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = kept
    given = ("--query", ALL, *asked(), "-o", "out")
    for bad in (address.replace("owner@", "owner:s3cret@"), f"{address}?password=s3cret"):
        why = refusal("release", bad, *given)
        assert "has a password" in why and "s3cret" not in why
    monkeypatch.setenv(PASSWORD, "wrong")
    assert "password authentication failed" in refusal("release", address, *given)
    assert not Path("vault").exists()
    Path("password").write_text("s3cret\n")
    monkeypatch.setenv(PASSWORD_FILE, "password")
    assert ran("release", address, *given)["new"]
    written = [path for path in Path().rglob("*") if path.is_file() and path.name != "password"]
    assert not [path for path in written if b"s3cret" in path.read_bytes()]
    without = given[: given.index("--vault")] + given[given.index("--vault") + 2 :]
    assert "name the vault" in refusal("release", address, *without[:-1], "out2")


@pytest.mark.parametrize("kept", ["postgresql"], indirect=True)
def test_a_table_that_changes_while_it_is_counted_is_refused(
    kept: tuple[str, Run], asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, run = kept
    count = QueriedLabels.counts

    def counts_later(*arguments: Any, **more: Any) -> pd.DataFrame:
        run("DELETE FROM labels WHERE id = 'u7'")
        return count(*arguments, **more)

    monkeypatch.setattr(QueriedLabels, "counts", counts_later)
    given = ("--query", ALL, "--push-down", *asked(), "-o", "out")
    assert "the query gave other rows" in refusal("release", address, *given)
    assert not Path("vault").exists() and not Path("out").exists()
