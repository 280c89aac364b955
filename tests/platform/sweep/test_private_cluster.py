"""Ray's private cluster: a start that takes its time, told from one that fails. No Ray is started.

What it leaves open to others is seen in tests/faults/test_private_cluster.py.
"""

import os
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray._private import parameter, services

from labeldp.platform.sweep import private_cluster


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Ray asks for its node; the third question has an answer."""
    questions: list[str] = []

    def get_node(gcs_address: str, node_id: str) -> dict[str, str]:
        questions.append(node_id)
        if len(questions) < 3:
            raise RuntimeError("no such node yet")
        return {"node": node_id}

    monkeypatch.setattr(services, "get_node", get_node)
    monkeypatch.setattr(private_cluster, "_ASK_AGAIN_SECONDS", 0.0)
    return questions


def _ray() -> Any:
    """Ray's own module, which has no types."""
    return services


def test_what_ray_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ray's own bound labels of 100,000 rows would not travel with the request."""
    asked: dict[str, Any] = {}

    def init(**options: Any) -> None:
        asked.update(options, agent=parameter.RayParams().dashboard_agent_listen_port)

    node = SimpleNamespace(node_ip_address="127.0.0.1")
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    private_cluster.start()
    assert asked["_system_config"]["max_direct_call_object_size"] >= 4_000_000
    assert asked["agent"] == 0  # any free port, and not the one that `ray start` needs
    assert parameter.RayParams().dashboard_agent_listen_port == 52365


def test_a_node_that_is_late_is_waited_for(asked: list[str]) -> None:
    before = services.get_node
    with private_cluster._patient():
        assert os.environ["RAY_gcs_server_port_wait_time_s"] == "180"
        assert _ray().get_node("here", "a") == {"node": "a"}
    assert asked == ["a", "a", "a"]
    assert services.get_node is before
    assert "RAY_gcs_server_port_wait_time_s" not in os.environ


def test_a_node_that_never_comes_is_explained(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_cluster, "START_SECONDS", 0.0)
    monkeypatch.setattr(private_cluster, "_SLOW_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match=r"Ray did not start within .* cores; wait until it"):
        with private_cluster._patient():
            _ray().get_node("here", "a")


@pytest.mark.parametrize("error", [ValueError("bad"), RuntimeError("at once")])
def test_what_fails_for_another_reason_says_so_itself(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), private_cluster._patient():
        raise error
