"""`labeldp doctor`: what this machine has, what is missing, and the command that fixes it."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.platform.cli.verb import Verb

if TYPE_CHECKING:
    from labeldp.platform.cli.tables import Table

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
    """One thing looked at.

    Attributes:
        name: What.
        ok: Whether a sweep can run with it as it is.
        detail: What was found.
        fix: What to do if not; empty if ok.
    """

    name: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Examination:
    """All that was looked at.

    Attributes:
        ok: Whether every check is.
        checks: The checks.
    """

    ok: bool
    checks: list[Check]


def examine() -> Examination:
    """Look at versions, devices, memory, disk, Ray, tracking and data sets; takes some seconds."""
    parts: list[Callable[[], list[Check]]] = [
        _python,
        _packages,
        _extensions,
        _devices,
        _disk,
        _ray,
        _tracking,
        _data,
    ]
    checks = [check for part in parts for check in part()]
    return Examination(ok=all(check.ok for check in checks), checks=checks)


def _python() -> list[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = (3, 11) <= sys.version_info[:2] < (3, 14)
    return [
        Check(name="python", ok=ok, detail=version, fix="" if ok else "use Python 3.11 to 3.13")
    ]


def _packages() -> list[Check]:
    import importlib.metadata

    checks = []
    for name, lowest in _NEEDED.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            checks.append(
                Check(name=name, ok=False, detail="not installed", fix="run `make install`")
            )
            continue
        ok = _release(found) >= _release(lowest) and not (name == "mlflow" and found == "3.18.0")
        fix = "" if ok else f"run `make install` ({name} {lowest} or newer)"
        checks.append(Check(name=name, ok=ok, detail=found, fix=fix))
    for name, extra in _EXTRAS.items():
        try:
            detail = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            detail = f"not installed; optional: pip install 'labeldp[{extra}]'"
        checks.append(Check(name=name, ok=True, detail=detail))
    return checks


def _extensions() -> list[Check]:
    """What other packages add, and whether it can be used."""
    from labeldp.platform.sweep.configuration import METHODS
    from labeldp.trainers.data.catalog import DATASETS
    from labeldp.trainers.extensions import ExtensionError

    checks = []
    for registry, kind in ((METHODS, "method"), (DATASETS, "data set")):
        for name, package in registry.added().items():
            what = f"{kind} {name}"
            try:
                registry[name]
            except ExtensionError as error:
                fix = f"mend or uninstall {package}"
                checks.append(Check(name=what, ok=False, detail=str(error), fix=fix))
            else:
                checks.append(Check(name=what, ok=True, detail=f"from package {package}"))
    return checks


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _devices() -> list[Check]:
    import torch

    from labeldp.trainers.performance import bf16_units

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    units = bf16_units(torch.device("cpu"))
    precision = f"precision auto takes {f'bf16, by {units}' if units else 'fp32 on the CPU'}"
    detail = f"{os.cpu_count()} cores, {precision}; GPUs: {', '.join(gpus) or 'none'}"
    return [Check(name="devices", ok=True, detail=detail)]


def _disk() -> list[Check]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    ok = free > 1
    fix = "" if ok else "free some disk, or use --results DIR on another one"
    return [Check(name="disk", ok=ok, detail=f"{free:.1f} GiB free here", fix=fix)]


def _ray() -> list[Check]:
    from labeldp.platform.sweep.cluster import ClusterUnusable, connected

    started = time.monotonic()
    try:
        with connected(None) as capacity:
            detail = (
                f"{capacity.nodes} nodes, {capacity.cpus:g} CPUs, {capacity.gpus:g} GPUs, "
                f"up in {time.monotonic() - started:.1f} s"
            )
    except ClusterUnusable as error:
        return [Check(name="ray", ok=False, detail=str(error), fix="check RAY_ADDRESS")]
    return [Check(name="ray", ok=True, detail=detail)]


def _tracking() -> list[Check]:
    from labeldp.platform.records.tracking import Tracker
    from labeldp.platform.records.tracking_address import TrackingUnusable, default_uri

    uri = os.environ.get("MLFLOW_TRACKING_URI")
    with tempfile.TemporaryDirectory() as folder:
        where = uri or default_uri(Path(folder))
        try:
            Tracker.probe(where)
        except TrackingUnusable as error:
            fix = "start the server, or unset MLFLOW_TRACKING_URI"
            return [Check(name="tracking", ok=False, detail=str(error), fix=fix)]
    return [Check(name="tracking", ok=True, detail=uri or "SQLite beside the results")]


def _data() -> list[Check]:
    from labeldp.platform.cli.data_verbs import list_sets

    return [
        Check(
            name=f"data {entry.name}",
            ok=True,
            detail=f"at {entry.path}" if entry.present else f"not here: {entry.command}",
        )
        for entry in list_sets(None)
    ]


def _told(examination: Examination) -> "list[Table | str]":
    from labeldp.platform.cli.tables import Mood, Table

    checks = examination.checks
    bad = [check for check in checks if not check.ok]
    table = Table(
        columns=("what", "ok", "found"),
        rows=tuple((check.name, "yes" if check.ok else "NO", check.detail) for check in checks),
        moods={row: Mood.BAD for row, check in enumerate(checks) if not check.ok},
    )
    if not bad:
        return [table, "all is well"]
    fixes = tuple((check.name, check.fix) for check in bad)
    return [table, Table(title="what to do", columns=("what", "fix"), rows=fixes)]


VERBS = (
    Verb(
        name="doctor",
        summary="versions, devices, Ray, tracking, data sets; what is missing",
        example="labeldp doctor",
        run=lambda options: examine(),
        tables=_told,
    ),
)
