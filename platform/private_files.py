"""Folders and files for their owner alone, whatever was there before and whatever the umask.

What is computed from true labels lies in a results folder: records, votes, audits, reports,
tracking. Others on the machine get no access to any of it. What belongs to somebody else is refused
and not used: its owner could read it, and write it.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotOurs(ValueError):
    """A file or folder of another user, or one that is everybody's; says what to do."""


@contextmanager
def owner_only() -> Iterator[None]:
    """Give what this process makes, and the processes that it starts, to its owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def private_folder(folder: Path) -> None:
    """Make `folder` if need be, and take it and all below it from everybody but its owner.

    What the owner may do stays as it is. Links are left alone, and so is what they point at.

    Raises:
        NotOurs: Something in it belongs to another user, or the folder is one that a machine's
            users share, or a home folder.
        OSError: It can't be made.
    """
    with owner_only():
        folder.mkdir(parents=True, exist_ok=True)
    _refuse_shared(folder)
    _tighten(folder, folder.stat())
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    if entry.is_symlink():
                        continue
                    _tighten(Path(entry.path), entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue  # another process's draft, which has got its name by now
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))


def private_file(path: Path) -> None:
    """Make an empty file for its owner alone, or take the one that is there from everybody else.

    Raises:
        NotOurs: It belongs to another user.
        OSError: It can't be made.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    _tighten(path, path.stat())


def _tighten(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise NotOurs(
            f"{path} belongs to user {found.st_uid}, and this is user {os.geteuid()}; have it "
            "given to you (chown), or choose another folder"
        )
    if stat.S_IMODE(found.st_mode) & 0o7077:
        path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def _refuse_shared(folder: Path) -> None:
    here, home = folder.resolve(), Path(os.path.expanduser("~")).resolve()
    if folder.stat().st_mode & stat.S_ISVTX or here == home or here in home.parents:
        raise NotOurs(
            f"{folder} holds more than results, and all of a results folder is closed to other "
            "users; choose a folder of its own"
        )
