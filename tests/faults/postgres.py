"""A real PostgreSQL on a port and folder of its own, run by a user who is not root."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from tests.faults.processes import end_all, family, wait_until
from tests.faults.tracking_server import free_port


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, where it is installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in versions), default=None)


class Postgres:
    """A server with one database, asked for a password; ends with the `with` block."""

    def __init__(self, folder: Path, *, programs: Path) -> None:
        self._data, self._programs, self._folder = folder / "data", programs, folder
        self.port, self.password = free_port(), secrets.token_hex(16)
        # PostgreSQL refuses to run as root; Debian's package brings a user for it.
        root = os.geteuid() == 0
        self._user = "postgres" if root else None
        if root:
            os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
        password_file = folder / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o644 if root else 0o600)
        self._run(
            "initdb",
            f"--pgdata={self._data}",
            "--username=mlflow",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--no-sync",
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Address of the database, without the password: that comes in PGPASSWORD."""
        return f"postgresql+psycopg://mlflow@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> "Postgres":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"):
            command += ["-c", setting]
        with open(self._folder / "postgres.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                user=self._user,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, what="PostgreSQL takes connections", seconds=60)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            seen = family(self._process.pid)
            self._process.kill()
            self._process.wait()
            self._process = None
            end_all(seen)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self._folder,
            user=self._user,
            check=True,
            capture_output=True,
            timeout=120,
        )

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False
