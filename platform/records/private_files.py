"""Folders and files for their owner alone, whatever was there before and whatever the umask.

Records, votes, audits, reports and tracking are computed from true labels, so other users of the
machine get no access to a results folder. Files of another user are refused: that user could read
and write them. So are links: they would lead writes to a place that another user chose.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

DRAFT_ENDING = ".draft"


class NotOurs(ValueError):
    """A file or folder of another user, a shared one, or a link; the message has the fix."""


@contextmanager
def owner_only() -> Iterator[None]:
    """Create files for their owner alone, in this process and those that it starts."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def private_folder(folder: Path) -> None:
    """Create `folder` if needed, and close it and everything below it to other users.

    The owner's rights stay as they are. The folder may be a link that the user made.

    Raises:
        NotOurs: Something in it is a link or belongs to another user, or users share the folder, or
            it is a home folder.
    """
    with owner_only():
        folder.mkdir(parents=True, exist_ok=True)
    _refuse_shared(folder)
    named = folder.lstat()
    # A link of the superuser is accepted: the superuser could do everything else as well.
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in (os.geteuid(), 0):
        raise _not_ours(folder, named)
    _close(folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    waiting = [folder]
    while waiting:
        # Each folder is closed before it is read, so that nobody else can add to it.
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    path, found = Path(entry.path), entry.stat(follow_symlinks=False)
                    _check_owner(path, found)
                    refuse_link(path)
                    if stat.S_IMODE(found.st_mode) & 0o7077:
                        path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
                except FileNotFoundError:
                    continue  # another process's draft, which has got its name by now
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)


def inner_folder(folder: Path) -> None:
    """Create a folder for its owner alone, or close it to others; raises as `private_folder`."""
    refuse_link(folder)
    folder.mkdir(exist_ok=True, mode=0o700)
    _close(folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))


def private_file(path: Path) -> None:
    """Create an empty file for its owner alone, or close it to others; see `open_private`."""
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))


def open_private(path: Path, flags: int) -> int:
    """Open a file of this user, close it to others, and return its descriptor.

    Raises:
        NotOurs: It belongs to another user, is a link of either kind, or not a regular file.
    """
    # A pipe is opened without waiting for its other end, and refused then.
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            refuse_link(path)
        raise
    try:
        found = os.fstat(descriptor)
        _check_owner(path, found)
        if not stat.S_ISREG(found.st_mode):
            raise NotOurs(f"{path} is not a regular file; move it away, or choose another folder")
        if found.st_nlink > 1:
            raise NotOurs(
                f"{path} is a hard link: the same file has {found.st_nlink} names, and what is "
                "written here would change it elsewhere; replace it by a copy of its own if it is "
                "yours alone, move it away if it is not, or choose another folder"
            )
        if stat.S_IMODE(found.st_mode) & 0o7077:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a draft beside the file at `path`, which replaces it when it is complete.

    The draft is for its owner alone, and its name can't be guessed.

    Raises:
        NotOurs: There is a link at `path`.
    """
    refuse_link(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}{DRAFT_ENDING}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def refuse_link(path: Path) -> None:
    """Raise `NotOurs` for a symbolic link, whether its target exists or not."""
    if path.is_symlink():
        raise NotOurs(
            f"{path} is a link to {os.readlink(path)}, and what is written here would be written "
            "there; remove the link (if it is yours, put what it points at in its place), or "
            "choose another folder"
        )


def _close(folder: Path, descriptor: int) -> None:
    try:
        found = os.fstat(descriptor)
        _check_owner(folder, found)
        if stat.S_IMODE(found.st_mode) & 0o7077:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    finally:
        os.close(descriptor)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise _not_ours(path, found)


def _not_ours(path: Path, found: os.stat_result) -> NotOurs:
    return NotOurs(
        f"{path} belongs to user {found.st_uid}, and this is user {os.geteuid()}; have it given to "
        "you (chown), or choose another folder"
    )


def _refuse_shared(folder: Path) -> None:
    here, home = folder.resolve(), Path(os.path.expanduser("~")).resolve()
    if folder.stat().st_mode & stat.S_ISVTX or here == home or here in home.parents:
        raise NotOurs(
            f"{folder} holds more than results, and all of a results folder is closed to other "
            "users; choose a folder of its own"
        )
