"""labeldp: learning when the features are public and only the labels are secret.

The three layers are `labeldp.mechanisms` (what is done to labels, what it costs, how leaky it
proves), `labeldp.trainers` (data, models and training loops in one process) and
`labeldp.platform` (Ray, Tune, MLflow, reports and the command line). Importing this package
imports none of them, so that `labeldp --help` is instant.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("labeldp")
except PackageNotFoundError:  # a Ray worker that runs from an uploaded copy of the sources
    __version__ = "0+uninstalled"

__all__ = ["__version__"]
