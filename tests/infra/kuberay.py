"""KubeRay's schemas, what they have against a manifest, and what is wrong with a pod."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema

from tests.infra.documents import Document, image_complaints
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


def schema_complaints(node: Any, schema: Document) -> list[str]:
    """Return what a schema has against a node, unknown fields included."""
    errors = jsonschema.Draft7Validator(schema).iter_errors(node)
    return [f"{error.json_path}: {error.message}" for error in errors] + [
        f"{path} is unknown" for path in unknown_fields(node, schema)
    ]


def pod_complaints(pod: Document) -> list[str]:
    """Return what is wrong with a pod template, whoever makes pods of it."""
    spec = pod["spec"]
    found = []
    if not spec.get("securityContext", {}).get("runAsNonRoot"):
        found.append("may run as root")
    if any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")):
        found.append("shares the host's namespaces")
    if "labeldp/role" not in pod.get("metadata", {}).get("labels", {}):
        found.append("has no labeldp/role: no network policy selects it")
    for container in spec.get("initContainers", []) + spec["containers"]:
        found += image_complaints(container["image"])
        if container.get("securityContext", {}).get("allowPrivilegeEscalation") is not False:
            found.append("may escalate its privileges")
        if not container.get("resources", {}).get("limits"):
            found.append("has no limits")
        for variable in container.get("env", []):
            secret = any(word in variable["name"] for word in ("PASSWORD", "TOKEN", "SECRET"))
            if secret and "secretKeyRef" not in variable.get("valueFrom", {}):
                found.append(f"{variable['name']} does not come from a secret")
    return found
