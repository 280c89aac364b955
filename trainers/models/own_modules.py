"""Modules of the user's own, where a network or an encoder of theirs is named `module:name`.

They lie in the folder where labeldp is started, or are installed.

>>> own_module("json").__name__
'json'
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType


class OwnModuleMissing(ValueError):
    """A module of the user's that can't be imported; the message says why and what to do."""


def own_module(name: str) -> ModuleType:
    """Import a module of the user's.

    Raises:
        OwnModuleMissing: There is none of that name, or it fails.
    """
    try:
        with here_too():
            return importlib.import_module(name)
    except Exception as error:  # whatever the user's module raises
        raise OwnModuleMissing(
            f"module {name} can't be imported here ({type(error).__name__}: {error}); put it into "
            "the folder where labeldp is started, or install it"
        ) from error


@contextlib.contextmanager
def here_too() -> Iterator[None]:
    """Look for modules in the current folder too, which a console script does not."""
    here = os.getcwd()
    sys.path.append(here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(here)
