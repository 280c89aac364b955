"""`labeldp doctor`: versions, devices, Ray, tracking, data sets; and the fix for each problem."""

import importlib.metadata
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from platform import python_version

import torch
from packaging.requirements import Requirement

from labeldp.platform.cli.command import Answer, table
from labeldp.platform.cli.data_sets import entries
from labeldp.platform.cluster import ClusterUnusable, connected
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import default_uri, shown
from labeldp.platform.settings.methods import METHODS
from labeldp.trainers import performance
from labeldp.trainers.base import ExtensionError
from labeldp.trainers.data.catalog import DATASETS

#: Extras whose packages are listed, too.
_EXTRAS = ("accounting", "encoders")


@dataclass(frozen=True)
class Check:
    """One thing that sweeps need; `fix` explains how to get it, or is empty."""

    name: str
    detail: str
    fix: str = ""


def examine() -> Answer:
    """Look at everything that sweeps need; takes some seconds."""
    fitting = (3, 11) <= sys.version_info[:2] < (3, 14)
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    room = "" if free > 1 else "free some disk, or use --results DIR on another one"
    checks = [
        Check("python", python_version(), "" if fitting else "use Python 3.11 to 3.13"),
        *_packages(),
        *_extensions(),
        _devices(),
        Check("disk", f"{free:.1f} GiB free here", room),
        _ray(),
        _tracking(),
        *(
            Check(
                f"data {each['name']}",
                f"at {each['path']}" if each["present"] else f"not here: {each['command']}",
            )
            for each in entries()
        ),
    ]
    bad = {row: "bold red" for row, check in enumerate(checks) if check.fix}
    rows = [(check.name, "NO" if check.fix else "yes", check.detail) for check in checks]
    fixes = [(check.name, check.fix) for check in checks if check.fix]
    to_do = table(("what", "fix"), fixes, title="what to do") if fixes else ["all is well"]
    facts = [{**asdict(check), "ok": not check.fix} for check in checks]
    return Answer(
        facts={"ok": not fixes, "checks": facts},
        words=[*table(("what", "ok", "found"), rows, styles=bad), *to_do],
    )


def _packages() -> list[Check]:
    """Compare the packages that pyproject.toml names with those that are installed."""
    checks = []
    for needed in map(Requirement, importlib.metadata.requires("labeldp") or ()):
        found = None
        with suppress(importlib.metadata.PackageNotFoundError):
            found = importlib.metadata.version(needed.name)
        fix = ""
        marker = needed.marker
        extras = [each for each in _EXTRAS if marker and marker.evaluate({"extra": each})]
        missing = "not installed"
        if extras:
            missing += f"; optional ({extras[0]}): pip install '{needed.name}{needed.specifier}'"
        elif marker:
            continue
        elif found is None or not needed.specifier.contains(found, prereleases=True):
            fix = f"run `make install` ({needed})"
        checks.append(Check(needed.name, found or missing, fix))
    return checks


def _extensions() -> list[Check]:
    checks = []
    for registry, kind in ((METHODS, "method"), (DATASETS, "data set")):
        for name, package in registry.added().items():
            detail = f"from package {package}"
            fix = ""
            try:
                registry[name]
            except ExtensionError as error:
                detail = str(error)
                fix = f"repair or uninstall {package}"
            checks.append(Check(f"{kind} {name}", detail, fix))
    return checks


def _devices() -> Check:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    units = performance.bf16_units(torch.device("cpu"))
    precision = f"precision auto takes {f'bf16, by {units}' if units else 'fp32 on the CPU'}"
    gpu_names = ", ".join(gpus) or "none"
    return Check("devices", f"{os.cpu_count()} cores, {precision}; GPUs: {gpu_names}")


def _ray() -> Check:
    try:
        with connected(None) as found:
            return Check("ray", f"{len(found.nodes)} nodes with {found.sizes}")
    except ClusterUnusable as error:
        return Check("ray", str(error), "check RAY_ADDRESS")


def _tracking() -> Check:
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    with tempfile.TemporaryDirectory() as folder:
        try:
            Tracker.probe(uri or default_uri(Path(folder)))
        except ValueError as error:
            fix = "start the server, or unset MLFLOW_TRACKING_URI"
            return Check("tracking", str(error), fix)
    return Check("tracking", shown(uri or "SQLite beside the results"))
