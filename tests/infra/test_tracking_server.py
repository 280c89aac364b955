"""The tracking server's compose file: on loopback, behind a password, its stores out of reach."""

import configparser
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from tests.infra.documents import (
    ROOT,
    SECRET,
    Document,
    image_complaints,
    load,
    load_all,
    strings,
)

COMPOSE = "mlflow/compose.yaml"


def compose_complaints(compose: Document) -> list[str]:
    """Return what is wrong with a compose file."""
    found = []
    internal = {name for name, network in compose["networks"].items() if network.get("internal")}
    for name, service in compose["services"].items():
        found += image_complaints(service["image"])
        ports = service.get("ports", [])
        if not all(isinstance(port, str) and port.startswith("127.0.0.1:") for port in ports):
            found.append(f"{name} is published beyond loopback")
        if not ports and not set(service.get("networks", ["default"])) <= internal:
            found.append(f"{name} is on a network that is not internal")
        if service.get("privileged") or service.get("network_mode") == "host":
            found.append(f"{name} shares the host")
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable) and not re.fullmatch(r"\$\{\w+:\?[^}]*\}", value):
                found.append(f"{name}: {variable} stands in the file, or may be left empty")
    for text in strings(compose):
        if re.search(r"://\w+:[^@/]+@", text):
            found.append("a password in an address is shown to every `ps`")
    return found + _server_complaints(compose["services"]["mlflow"])


def _server_complaints(server: Document) -> list[str]:
    command = server["command"]
    options = dict(text.removeprefix("--").split("=", 1) for text in command if "=" in text)
    found = []
    if options.get("app-name") != "basic-auth":
        found.append("no password is asked")
    if "--disable-security-middleware" in command or "*" in options.get("allowed-hosts", "*"):
        found.append("any Host header is answered")
    if not options.get("backend-store-uri", "").startswith("postgresql+psycopg://"):
        found.append("runs are not in PostgreSQL")
    if not options.get("artifacts-destination", "").startswith("s3://"):
        found.append("artifacts are not proxied to the object store")
    if "default-artifact-root" in options:
        found.append("clients would need keys of the object store")
    waits = server.get("depends_on", {})
    for step in ("migrate", "bucket"):
        if waits.get(step, {}).get("condition") != "service_completed_successfully":
            found.append(f"starts before {step} is done")
    return found


def test_we_have_no_complaint_of_the_compose_file() -> None:
    assert compose_complaints(load(COMPOSE)) == []


MLFLOW = "services/mlflow"


def test_every_variable_is_in_the_example_and_none_has_a_value() -> None:
    example = (ROOT / "infra/mlflow/.env.example").read_text()
    lines = [line for line in example.splitlines() if line and not line.startswith("#")]
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "infra" / COMPOSE).read_text()))
    assert {line.removesuffix("=") for line in lines} == used
    assert all(line.endswith("=") for line in lines)


def test_the_filled_in_env_file_stays_out_of_git() -> None:
    command = ["git", "-C", str(ROOT), "check-ignore", "--quiet", "infra/mlflow/.env"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode == 128:
        pytest.skip("this copy of the sources is not a git repository")
    assert done.returncode == 0


def test_the_server_s_users_are_in_postgres_and_see_nothing_by_default() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "infra/mlflow/basic_auth.ini")
    settings = parser["mlflow"]
    assert settings["default_permission"] == "NO_PERMISSIONS"
    assert settings["database_uri"] == "postgresql+psycopg://mlflow@postgres:5432/mlflow"
    assert "admin_password" not in settings


def test_mlflow_knows_every_option_that_it_is_started_with() -> None:
    # From the source: importing MLflow's command line takes 4 seconds, many on a busy machine.
    spec = importlib.util.find_spec("mlflow")
    assert spec is not None and spec.origin is not None
    sources = [path.read_text() for path in (Path(spec.origin).parent / "cli").glob("*.py")]
    sources.append((Path(spec.origin).parent / "utils" / "cli_args.py").read_text())
    known = {option for text in sources for option in re.findall(r"[\"'/ ](--[\w-]+)", text)}
    commands = [load(COMPOSE)["services"]["mlflow"]["command"]]
    for document in load_all("k8s/mlflow.yaml"):
        if document["kind"] == "Deployment":
            commands.append(document["spec"]["template"]["spec"]["containers"][0]["command"])
    assert len(commands) == 2
    for command in commands:
        assert command[:2] == ["mlflow", "server"]
        assert {text.split("=")[0] for text in command[2:]} <= known
