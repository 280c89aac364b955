"""The tracking server's compose file: on loopback, behind a password, its stores out of reach."""

import configparser
import re
import subprocess

import pytest

from tests.infra.documents import ROOT, SECRET, is_pinned, load, strings

COMPOSE = "mlflow/compose.yaml"


def test_the_compose_file_is_closed() -> None:
    compose = load(COMPOSE)
    internal = {name for name, network in compose["networks"].items() if network.get("internal")}
    for service in compose["services"].values():
        ports = service.get("ports", [])
        assert is_pinned(service["image"])
        assert all(isinstance(port, str) and port.startswith("127.0.0.1:") for port in ports)
        assert ports or set(service.get("networks", ["default"])) <= internal
        assert not service.get("privileged") and service.get("network_mode") != "host"
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable):  # refused where it is empty
                assert re.fullmatch(r"\$\{\w+:\?[^}]*\}", value)
    # A password in an address is shown to every `ps`.
    assert not any(re.search(r"://\w+:[^@/]+@", text) for text in strings(compose))
    server = compose["services"]["mlflow"]
    command = server["command"]
    options = dict(text.removeprefix("--").split("=", 1) for text in command if "=" in text)
    assert options["app-name"] == "basic-auth"
    assert "--disable-security-middleware" not in command and "*" not in options["allowed-hosts"]
    assert options["backend-store-uri"].startswith("postgresql+psycopg://")
    assert options["artifacts-destination"].startswith("s3://")
    assert "default-artifact-root" not in options, "clients would need keys of the object store"
    for step in ("migrate", "bucket"):
        assert server["depends_on"][step]["condition"] == "service_completed_successfully"


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
