"""KubeRay's schemas, what they have against a manifest, and the rules for a pod."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema

from tests.infra.documents import SECRET, Document, is_pinned
from tests.shared_material import shared_path

CLUSTER, JOB = "k8s/raycluster.yaml", "k8s/rayjob.yaml"
SCHEMAS = {CLUSTER: "rayclusters.v1.schema.json", JOB: "rayjobs.v1.schema.json"}


def schema_of(path: str) -> Document:
    """Return KubeRay's schema for a manifest."""
    schema: Document = json.loads(shared_path("schemas", SCHEMAS[path]).read_text())
    return schema


def unknown_fields(node: Any, schema: Document, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that a schema does not know; an API server drops or refuses them.

    `jsonschema` lets them pass, because a custom resource's schema says so nowhere.
    """
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(node, list):
        for position, value in enumerate(node):
            yield from unknown_fields(value, schema.get("items", {}), f"{path}.{position}")
    elif isinstance(node, dict) and ("properties" in schema or "additionalProperties" in schema):
        extra = schema.get("additionalProperties")
        for key, value in node.items():
            inner = schema.get("properties", {}).get(
                key, extra if isinstance(extra, dict) else None
            )
            if inner is None:
                yield f"{path}.{key}"
            else:
                yield from unknown_fields(value, inner, f"{path}.{key}")


def check_schema(node: Any, schema: Document) -> None:
    """A schema has nothing against a node, and knows its fields."""
    errors = jsonschema.Draft7Validator(schema).iter_errors(node)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []
    assert list(unknown_fields(node, schema)) == []


def check_pod(pod: Document) -> None:
    """A pod template has no privileges, limits, pinned images, and secrets by reference."""
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert "labeldp/role" in pod["metadata"]["labels"], "no network policy selects it"
    for container in spec.get("initContainers", []) + spec["containers"]:
        assert is_pinned(container["image"])
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]
        for variable in container.get("env", []):
            secret = SECRET.search(variable["name"])
            assert not secret or "secretKeyRef" in variable.get("valueFrom", {})
