"""A Ray cluster with token authentication whose environment lacks the project, and its clients."""

import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path

from tests.faults.processes import end_all, family, wait_until
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

    def __init__(self, folder: Path, *, environment: dict[str, str]) -> None:
        """Prepare one whose processes get `environment` beside ours.

        All that it writes goes to `folder`, whose path must be short: Ray puts sockets in it.
        """
        self.folder, self.token = folder, secrets.token_hex(32)
        self.token_file = folder / "token"
        self.token_file.write_text(self.token)
        self.token_file.chmod(0o600)
        self.url = f"http://127.0.0.1:{free_port()}"
        # Every package of this environment but for editable installs: those come by `.pth` files,
        # which Python reads in its own folder of packages only.
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True
        )
        self._python = folder / "venv" / "bin" / "python"
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        (packages / "packages.pth").write_text(sysconfig.get_path("purelib"))
        (folder / "home").mkdir()
        inherited = own_environment()
        del inherited["PYTHONPATH"]
        path = f"{self._python.parent}{os.pathsep}{inherited['PATH']}"
        #: Of a client without a token; its home holds none either.
        self.bare = {**inherited, "HOME": str(folder / "home"), "PATH": path}
        self._with_token = {
            **self.bare,
            **environment,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token_file),
        }

    def __enter__(self) -> "JobCluster":
        options = [
            *("port", "ray-client-server-port", "metrics-export-port"),
            *("dashboard-agent-listen-port", "dashboard-agent-grpc-port"),
        ]
        with open(self.folder / "head.log", "wb") as log:
            self._process = subprocess.Popen(
                [
                    *self._ray("start", "--head", "--block", "--num-cpus=2"),
                    *("--disable-usage-stats", "--node-ip-address=127.0.0.1"),
                    f"--temp-dir={self.folder / 'ray'}",
                    "--dashboard-host=127.0.0.1",
                    f"--dashboard-port={self.url.rpartition(':')[2]}",
                    *(f"--{option}={free_port()}" for option in options),
                ],
                cwd=self.folder,
                env=self._with_token,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(lambda: self.get()[0] == 200, what="the cluster answers", seconds=180)
        return self

    def __exit__(self, *error: object) -> None:
        seen = family(self._process.pid)
        self._process.kill()
        self._process.wait()
        end_all(seen)

    def has_the_project(self) -> bool:
        """Whether the cluster's own environment can import it."""
        command = [str(self._python), "-c", "import labeldp"]
        done = subprocess.run(command, cwd=self.folder, env=self.bare, capture_output=True)
        return done.returncode == 0

    def has_in_its_environment(self, word: str) -> bool:
        """Whether the head, and so every job, was given this."""
        return word.encode() in Path(f"/proc/{self._process.pid}/environ").read_bytes()

    def get(self, *, token: bool = True) -> tuple[int, str]:
        """Return status and text of the list of jobs; status 0 without an answer."""
        assert self._process.poll() is None, "the head ended"
        headers = {"Authorization": f"Bearer {self.token}"} if token else {}
        request = urllib.request.Request(f"{self.url}/api/jobs/", headers=headers)
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
        options = (f"--address={self.url}", f"--working-dir={project}", "--")
        return subprocess.run(
            [*self._ray("job", "submit", *options), *command],
            cwd=self.folder,
            env=self._with_token if token else self.bare,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
        )

    def _ray(self, *arguments: str) -> list[str]:
        return [str(self._python), "-m", "ray.scripts.scripts", *arguments]
