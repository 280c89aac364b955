"""Folders and files for their owner alone, whatever was there before and whatever the umask.

What is computed from true labels lies in a results folder: records, votes, audits, reports,
tracking. Others on the machine get no access to any of it. What belongs to somebody else is refused
and not used: its owner could read it, and write it. So are links where our own files would lie:
what is written there would be written, or overwritten, in a place that somebody else chose.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: What results folders, and folders of votes, hold of ours; in a folder of these names, everything.
_OUR_NAMES = frozenset(
    {
        *("driver.lock", "sweep.json", "trials", "private", "checkpoints", "models"),
        *("artifacts", "tune"),
        *("vault.db", "vault.db-journal", "vault.db-wal", "vault.db-shm", "vault.lines"),
        *("mlflow.db", "mlflow.db-journal", "mlflow.db-wal", "mlflow.db-shm", "mlflow.db.lock"),
        "tracked.jsonl",
        *("report.html", "pareto.png", "pareto.csv", "blocks.md", "blocks.csv"),
        *("vote_leakage.md", "votes", "salt"),
    }
)
DRAFT_ENDING = ".draft"
_OUR_ENDINGS = (".votes", DRAFT_ENDING)


class NotOurs(ValueError):
    """A file or folder of another user, one that is everybody's, or a link; says what to do."""


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

    What the owner may do stays as it is. The folder may be a link that the user made. Links below
    it are left alone, and so is what they point at, unless they are refused.

    Raises:
        NotOurs: Something in it belongs to another user or is a link in the place of one of our
            own files, or the folder is one that a machine's users share, or a home folder.
        OSError: It can't be made.
    """
    with owner_only():
        folder.mkdir(parents=True, exist_ok=True)
    _refuse_shared(folder)
    named = folder.lstat()
    # The superuser may point where he likes: he can do all else as well.
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in (os.geteuid(), 0):
        raise _not_ours(folder, named)
    _close(folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    waiting = [folder]
    while waiting:
        # Nobody else can put anything here by now: each folder was closed before it is looked into.
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    path, found = Path(entry.path), entry.stat(follow_symlinks=False)
                    if stat.S_ISLNK(found.st_mode):
                        _check_link(path, found, below=folder)
                        continue
                    _tighten(path, found)
                except FileNotFoundError:
                    continue  # another process's draft, which has got its name by now
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)


def inner_folder(folder: Path) -> None:
    """Make a folder for its owner alone within one that is there, or take it from everybody else.

    Raises:
        NotOurs: It is a link, or belongs to another user.
        OSError: It can't be made.
    """
    refuse_link(folder)
    folder.mkdir(exist_ok=True, mode=0o700)
    _close(folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))


def private_file(path: Path) -> None:
    """Make an empty file for its owner alone, or take the one that is there from everybody else.

    Raises:
        NotOurs: It belongs to another user, or is a link.
        OSError: It can't be made.
    """
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))


def open_private(path: Path, flags: int) -> int:
    """Open a file of this user's own, closed to others from then on, and return its descriptor.

    Args:
        path: Where it is.
        flags: As `os.open` takes them; what they make is for its owner alone.

    Raises:
        NotOurs: It belongs to another user, is a link of either kind, or is no regular file.
        OSError: It can't be opened.
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
            raise NotOurs(f"{path} is no regular file; move it away, or choose another folder")
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
    """Open a draft that takes the place of the file at `path` when it is whole, and not before.

    It lies beside the file, for its owner alone, under a name that nobody could foresee.

    Raises:
        NotOurs: At `path` there is a link.
        OSError: It can't be written; the file that was there stays as it was.
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
    """Refuse a symbolic link, whether there is something at its end or not.

    Raises:
        NotOurs: It is one.
    """
    if path.is_symlink():
        raise NotOurs(
            f"{path} is a link to {os.readlink(path)}, and what is written here would be written "
            "there; remove the link (if it is yours, put what it points at in its place), or "
            "choose another folder"
        )


def _check_link(path: Path, found: os.stat_result, *, below: Path) -> None:
    _check_owner(path, found)
    if path.name.endswith(_OUR_ENDINGS) or _OUR_NAMES & set(path.relative_to(below).parts):
        refuse_link(path)


def _close(folder: Path, descriptor: int) -> None:
    """Take the open folder from everybody else, and let go of it."""
    try:
        found = os.fstat(descriptor)
        _check_owner(folder, found)
        if stat.S_IMODE(found.st_mode) & 0o7077:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o700)
    finally:
        os.close(descriptor)


def _tighten(path: Path, found: os.stat_result) -> None:
    """Take what is no link, in a folder that is closed, from everybody else."""
    _check_owner(path, found)
    if stat.S_IMODE(found.st_mode) & 0o7077:
        path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise _not_ours(path, found)


def _not_ours(path: Path, found: os.stat_result) -> NotOurs:
    what, given = "", "have it given to you (chown)"
    if stat.S_ISLNK(found.st_mode):
        what, given = f", a link to {os.readlink(path)},", "remove it"
    return NotOurs(
        f"{path}{what} belongs to user {found.st_uid}, and this is user {os.geteuid()}; {given}, "
        "or choose another folder"
    )


def _refuse_shared(folder: Path) -> None:
    here, home = folder.resolve(), Path(os.path.expanduser("~")).resolve()
    if folder.stat().st_mode & stat.S_ISVTX or here == home or here in home.parents:
        raise NotOurs(
            f"{folder} holds more than results, and all of a results folder is closed to other "
            "users; choose a folder of its own"
        )
