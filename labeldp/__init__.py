"""labeldp: learning when the features are public and only the labels are secret.

`LabelPrivateClassifier` is a scikit-learn classifier; `run`, `load` and `plan` are sweeps from
Python; `epsilon` prices a mechanism. docs/python.md shows them all. They are imported when they are
first used, and Ray and torch when they are needed, so that `labeldp --help` is instant.

The three layers below are `labeldp.mechanisms` (what is done to labels, what it costs, how much
audits show that it leaks), `labeldp.trainers` (data, models and training loops in one process) and
`labeldp.platform` (Ray, Tune, MLflow, reports and the command line).
"""

import os
import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp.platform.api.classifier import LabelPrivateClassifier as LabelPrivateClassifier
    from labeldp.platform.api.label_release import epsilon as epsilon
    from labeldp.platform.api.label_release import privatize as privatize
    from labeldp.platform.api.prediction_sets import PredictionSets as PredictionSets
    from labeldp.platform.api.preferences import LabelPrivatePreferences as LabelPrivatePreferences
    from labeldp.platform.api.process_ledger import PrivacyAddsUp as PrivacyAddsUp
    from labeldp.platform.api.process_ledger import PrivacyNotCounted as PrivacyNotCounted
    from labeldp.platform.api.regressor import LabelPrivateRegressor as LabelPrivateRegressor
    from labeldp.platform.api.result import Result as Result
    from labeldp.platform.api.result import load as load
    from labeldp.platform.api.result import plan as plan
    from labeldp.platform.api.result import run as run
    from labeldp.platform.vault.shared_vault import SharedVault as SharedVault

# Threads of one calculation that wait for each other in a loop take 40 times as long where others
# use the processor too. OpenMP reads this when torch is imported; workers inherit it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

try:
    __version__ = version("labeldp")
except PackageNotFoundError:  # a Ray worker that runs from an uploaded copy of the sources
    __version__ = "0+uninstalled"

#: Name -> the module that has it.
_WHERE = {
    "LabelPrivateClassifier": "labeldp.platform.api.classifier",
    "LabelPrivatePreferences": "labeldp.platform.api.preferences",
    "LabelPrivateRegressor": "labeldp.platform.api.regressor",
    "PredictionSets": "labeldp.platform.api.prediction_sets",
    "PrivacyAddsUp": "labeldp.platform.api.process_ledger",
    "PrivacyNotCounted": "labeldp.platform.api.process_ledger",
    "Result": "labeldp.platform.api.result",
    "SharedVault": "labeldp.platform.vault.shared_vault",
    "epsilon": "labeldp.platform.api.label_release",
    "load": "labeldp.platform.api.result",
    "plan": "labeldp.platform.api.result",
    "privatize": "labeldp.platform.api.label_release",
    "run": "labeldp.platform.api.result",
}

__all__ = ["__version__", *_WHERE]


def install_hint(error: ModuleNotFoundError) -> str:
    """Return which package is missing, and the command that installs it; or a user's module."""
    missing = str(error.name).partition(".")[0]
    own = {"sklearn", "yaml", "aiohttp", "PIL"}  # called otherwise than their packages
    try:
        needed = re.findall(r"^[\w-]+", "\n".join(requires("labeldp") or ()), re.MULTILINE)
        own |= {each.lower().replace("-", "_") for each in needed}
    except PackageNotFoundError:  # not installed itself
        own.add(missing)
    if missing not in own:
        return (
            f"module {error.name!r} is not found; put it beside the sweep's file or into the "
            "folder where labeldp is started, or install it"
        )
    return (
        f"package {error.name!r} is not installed, and this needs it: run `make install` in a "
        "checkout of labeldp, or `pip install WHEEL` of its wheel, with all that it needs"
    )


if not TYPE_CHECKING:  # type checkers would take every name for one of ours

    def __getattr__(name: str) -> object:
        """Import a name when it is first used."""
        if name not in _WHERE:
            raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
        found = getattr(import_module(_WHERE[name]), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """List what there is, imported or not."""
        return sorted({*globals(), *__all__})
