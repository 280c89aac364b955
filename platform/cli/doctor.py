"""`labeldp doctor`: versions, devices, Ray, tracking, data sets; and the fix for each problem."""

import importlib.metadata
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from labeldp.platform.cli.command import Table
from labeldp.platform.cli.data_sets import entries
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import TrackingUnusable, default_uri
from labeldp.platform.sweep.cluster import ClusterUnusable, connected
from labeldp.platform.sweep.configuration import METHODS
from labeldp.trainers import performance
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.extensions import ExtensionError

#: Package -> lowest version that works, as in pyproject.toml.
_NEEDED = {
    "ray": "2.60",
    "torch": "2.8",
    "torchvision": "0.23",
    "mlflow": "3.14",
    "numpy": "2.0",
    "randomgen": "2.5",
}
_EXTRAS = {
    "dp-accounting": "accounting",
    "timm": "encoders",
    "transformers": "encoders",
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that sweeps need.

    Attributes:
        ok: Whether a sweep can run with it as it is.
        fix: Instructions; empty if ok.
    """

    name: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Examination:
    """All checks, and whether every one is ok."""

    ok: bool
    checks: list[Check]


def examine() -> Examination:
    """Look at everything that sweeps need; takes some seconds."""
    checks = [
        _python(),
        *_packages(),
        *_extensions(),
        _devices(),
        _disk(),
        _ray(),
        _tracking(),
        *_data(),
    ]
    return Examination(ok=all(check.ok for check in checks), checks=checks)


def _python() -> Check:
    ok = (3, 11) <= sys.version_info[:2] < (3, 14)
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(name="python", ok=ok, detail=version, fix="" if ok else "use Python 3.11 to 3.13")


def _packages() -> list[Check]:
    checks = []
    for name, lowest in _NEEDED.items():
        found = _version(name)
        ok = found is not None and _release(found) >= _release(lowest)
        ok = ok and (name, found) != ("mlflow", "3.18.0")
        fix = "" if ok else f"run `make install` ({name} {lowest} or newer)"
        checks.append(Check(name=name, ok=ok, detail=found or "not installed", fix=fix))
    for name, extra in _EXTRAS.items():
        detail = _version(name) or f"not installed; optional: pip install 'labeldp[{extra}]'"
        checks.append(Check(name=name, ok=True, detail=detail))
    return checks


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _extensions() -> list[Check]:
    checks = []
    for registry, kind in ((METHODS, "method"), (DATASETS, "data set")):
        for name, package in registry.added().items():
            what = f"{kind} {name}"
            try:
                registry[name]
            except ExtensionError as error:
                fix = f"repair or uninstall {package}"
                checks.append(Check(name=what, ok=False, detail=str(error), fix=fix))
            else:
                checks.append(Check(name=what, ok=True, detail=f"from package {package}"))
    return checks


def _devices() -> Check:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    units = performance.bf16_units(torch.device("cpu"))
    precision = f"precision auto takes {f'bf16, by {units}' if units else 'fp32 on the CPU'}"
    detail = f"{os.cpu_count()} cores, {precision}; GPUs: {', '.join(gpus) or 'none'}"
    return Check(name="devices", ok=True, detail=detail)


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    ok = free > 1
    fix = "" if ok else "free some disk, or use --results DIR on another one"
    return Check(name="disk", ok=ok, detail=f"{free:.1f} GiB free here", fix=fix)


def _ray() -> Check:
    started = time.monotonic()
    try:
        with connected(None) as capacity:
            detail = (
                f"{capacity.nodes} nodes, {capacity.cpus:g} CPUs, {capacity.gpus:g} GPUs, "
                f"up in {time.monotonic() - started:.1f} s"
            )
    except ClusterUnusable as error:
        return Check(name="ray", ok=False, detail=str(error), fix="check RAY_ADDRESS")
    return Check(name="ray", ok=True, detail=detail)


def _tracking() -> Check:
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    with tempfile.TemporaryDirectory() as folder:
        try:
            Tracker.probe(uri or default_uri(Path(folder)))
        except TrackingUnusable as error:
            fix = "start the server, or unset MLFLOW_TRACKING_URI"
            return Check(name="tracking", ok=False, detail=str(error), fix=fix)
    return Check(name="tracking", ok=True, detail=uri or "SQLite beside the results")


def _data() -> list[Check]:
    return [
        Check(
            name=f"data {entry.name}",
            ok=True,
            detail=f"at {entry.path}" if entry.present else f"not here: {entry.command}",
        )
        for entry in entries(None)
    ]


def words(examination: Examination) -> list[Table | str]:
    """Return the checks for a person, and what to do about those that are not ok."""
    checks = examination.checks
    table = Table(
        columns=("what", "ok", "found"),
        rows=[(check.name, "yes" if check.ok else "NO", check.detail) for check in checks],
        styles={row: "bold red" for row, check in enumerate(checks) if not check.ok},
    )
    fixes = [(check.name, check.fix) for check in checks if not check.ok]
    if not fixes:
        return [table, "all is well"]
    return [table, Table(title="what to do", columns=("what", "fix"), rows=fixes)]
