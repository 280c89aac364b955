"""A Ray cluster with token authentication whose environment lacks the project, and its clients."""

import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.faults.processes import Process, end_all, family, wait_until
from tests.faults.sweep_runs import ROOT, TIME_LIMIT_SECONDS, own_environment
from tests.faults.tracking_server import free_port


def copy_of_the_project(folder: Path) -> Path:
    """Copy what a job needs: the code, and the list of what never travels."""
    folder.mkdir()
    for name in ("labeldp", "mechanisms", "trainers", "platform", "sweeps"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / ".rayignore", folder)
    return folder


class JobCluster:
    """`ray start --head` on ports of its own, in an own environment; ends with the `with` block."""

    def __init__(self, folder: Path, *, environment: Mapping[str, str]) -> None:
        """Prepare one.

        Args:
            folder: For all that it writes; its path must be short, Ray puts sockets in it.
            environment: What its processes get beside ours.
        """
        self.folder, self.token = folder, secrets.token_hex(32)
        self.token_file = folder / "token"
        self.token_file.write_text(self.token)
        self.token_file.chmod(0o600)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._python = _environment_without_the_project(folder / "venv")
        self._with_token = {
            **self.without_token(),
            **environment,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token_file),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: dict[Process, None] = {}

    def __enter__(self) -> "JobCluster":
        ports = {name: free_port() for name in ("gcs", "client", "agent", "agent-grpc", "metrics")}
        command = [
            *self._ray("start", "--head", "--block", "--num-cpus=2", "--disable-usage-stats"),
            "--node-ip-address=127.0.0.1",
            f"--temp-dir={self.folder / 'ray'}",
            f"--port={ports['gcs']}",
            "--dashboard-host=127.0.0.1",
            f"--dashboard-port={self.url.rpartition(':')[2]}",
            f"--ray-client-server-port={ports['client']}",
            f"--dashboard-agent-listen-port={ports['agent']}",
            f"--dashboard-agent-grpc-port={ports['agent-grpc']}",
            f"--metrics-export-port={ports['metrics']}",
        ]
        with open(self.folder / "head.log", "wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._with_token,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(lambda: self.status() == 200, what="the cluster answers", seconds=180)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        seen = family(self._process.pid)
        self._process.kill()
        self._process.wait()
        end_all(seen)

    def without_token(self) -> dict[str, str]:
        """Return the environment of a client that has none; its home holds no token either."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        inherited = own_environment()
        del inherited["PYTHONPATH"]
        path = f"{self._python.parent}{os.pathsep}{inherited['PATH']}"
        return {**inherited, "HOME": str(home), "PATH": path}

    def has_the_project(self) -> bool:
        """Whether the cluster's own environment can import it."""
        command = [str(self._python), "-c", "import labeldp"]
        environment = self.without_token()
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True)
        return done.returncode == 0

    def has_in_its_environment(self, word: str) -> bool:
        """Whether the head, and so every job, was given this."""
        assert self._process is not None
        return word.encode() in Path(f"/proc/{self._process.pid}/environ").read_bytes()

    def status(self, *, token: bool = True) -> int:
        """Return the HTTP status that the list of jobs is answered with; 0 if not at all."""
        return self.get("/api/jobs/", token=token)[0]

    def get(self, path: str, *, token: bool = True) -> tuple[int, str]:
        """Return status and text of an answer of the dashboard."""
        assert self._process is not None and self._process.poll() is None, "the head ended"
        headers = {"Authorization": f"Bearer {self.token}"} if token else {}
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def submit(
        self, project: Path, *command: str, token: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run `ray job submit --working-dir PROJECT -- COMMAND` from an unrelated folder."""
        return subprocess.run(
            [
                *self._ray("job", "submit", f"--address={self.url}"),
                f"--working-dir={project}",
                "--",
                *command,
            ],
            cwd=self.folder,
            env=self._with_token if token else self.without_token(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
            check=False,
        )

    def _ray(self, *arguments: str) -> list[str]:
        return [str(self._python), "-m", "ray.scripts.scripts", *arguments]


def _environment_without_the_project(folder: Path) -> Path:
    """Make an environment that has every package of this one but for editable installs.

    Those come by `.pth` files, which Python reads in its own folder of packages only.
    """
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120
    )
    python = folder / "bin" / "python"
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib"))
    return python
