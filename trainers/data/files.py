"""Files: read if they are regular and end, written whole, closed to other users.

A pipe without a writer waits for ever, `/dev/zero` never ends, and a few bytes of an archive
can stand for more than any machine holds. All of it is read from what the file system and the
file's own table of contents say, before anything is read.

Records, votes, audits, reports and tracking are computed from true labels, so other users of the
machine get no access to a results folder, whatever was there before and whatever the umask. Files
of another user are refused: that user could read and write them. So are links: they would lead
writes to a place that another user chose.
"""

import errno
import hashlib
import os
import re
import resource
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import IO
from zipfile import ZipFile

#: A file of settings, or a record, has a few thousand bytes.
SETTINGS_BYTES = 4_000_000
#: Of files that are read in parts, and may be larger than memory.
ANY_SIZE = 1 << 62
#: Of files that are not complete yet.
DRAFT_ENDING = ".draft"

#: By the first letter that `ls -l` shows.
_KINDS = {"d": "a folder", "p": "a pipe", "s": "a socket", "c": "a device", "b": "a device"}
_GROUPS = Path("/sys/fs/cgroup")
#: Control characters but tab and end of line, and marks of the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class FileRefused(ValueError):
    """A path that is not a regular file, or a file too large to read."""


def memory_bytes() -> int:
    """Return how much memory this process may have: the machine's, or less where it is limited."""
    # A container sees the memory of the whole machine; its limit is in its control group.
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits_of_groups()]
    own = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return min([*limits, *(limit for limit in own if limit != resource.RLIM_INFINITY)])


def _limits_of_groups() -> Iterator[int]:
    """Yield the limits of this process's control groups, and of those around them."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            # Of the first version of control groups; the second one names no controllers.
            first = "memory" in controllers.split(",")
            if not (first or not controllers):
                continue
            place = _GROUPS / ("memory" if first else "") / group.lstrip("/")
            for folder in (place, *place.parents):
                with suppress(OSError, ValueError):  # no such file, or "max"
                    name = "memory.limit_in_bytes" if first else "memory.max"
                    yield int((folder / name).read_text())


def open_regular(path: str | Path, *, most_bytes: int | None = None) -> BufferedReader:
    """Open a regular file to read its bytes; the caller closes it."""
    # Before it is opened, since a device may act on that; and after, since it may be another then.
    _check(path, os.stat(path), most_bytes)
    # It may have become a pipe, which would wait; regular files take no notice of the flag.
    how = os.O_NONBLOCK | os.O_NOCTTY
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | how))
    try:
        _check(path, os.fstat(file.fileno()), most_bytes)
    except BaseException:
        file.close()
        raise
    return file


def read_bytes(path: str | Path, *, most_bytes: int = SETTINGS_BYTES) -> bytes:
    """Return the content of a small file."""
    with open_regular(path, most_bytes=most_bytes) as file:
        content = file.read(most_bytes + 1)
    # It may have grown, and files of the kernel's own say that they have no bytes.
    _check_size(path, len(content), most_bytes)
    return content


def draft_of(path: Path) -> Path:
    """Return a place beside a path to complete its content in; its name can't be guessed."""
    # Not the whole name: it may have as many bytes as the file system allows.
    return path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}{DRAFT_ENDING}")


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedWriter]:
    """Open a file to write it, for the owner alone: whole, or it stays as it was."""
    draft = draft_of(path)
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            yield file
            file.flush()
            # Before it gets its name: a power failure could leave an empty file under it.
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        # The user has named no draft, and a full disk names no file at all.
        if error.errno and error.filename in (None, str(draft)):
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def check_unpacked(path: str | Path, size: int) -> None:
    """Refuse a file whose content needs `size` bytes, if that is above half of the memory."""
    if size > (most := memory_bytes() // 2):
        raise FileRefused(
            f"{path} holds {size:,} bytes when unpacked, but this process may fill {most:,} bytes "
            "with one file, half of its memory; keep fewer rows or columns, or give it more memory"
        )


def check_archive(path: str | Path, archive: ZipFile, *, stored: int | None = None) -> int:
    """Refuse an archive that holds more than fits into memory, and return how much it holds.

    `stored` is the size of an archive that its writer does not compress.
    """
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if stored is not None and (size > stored or any(member.compress_type for member in members)):
        raise FileRefused(
            f"{path} holds {size:,} bytes in {stored:,}, and labeldp writes it uncompressed; "
            "get it from its writer again"
        )
    check_unpacked(path, size)
    return size


def _check(path: str | Path, status: os.stat_result, most_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.filemode(status.st_mode)[0], "no regular file")
        way_out = "name a file in it" if kind == "a folder" else "save what it gives to a file"
        raise FileRefused(f"{path} is {kind}, which can't be read as a whole; {way_out}")
    _check_size(path, status.st_size, most_bytes)


def _check_size(path: str | Path, size: int, most_bytes: int | None) -> None:
    if most_bytes is None:
        if size > (memory := memory_bytes()):
            raise FileRefused(
                f"{path} has {size:,} bytes, but this process may have {memory:,} bytes of memory; "
                "keep fewer rows, or give it more memory"
            )
    elif size > most_bytes:
        raise FileRefused(
            f"{path} has more than {most_bytes:,} bytes, too many for such a file; is it the right "
            "file?"
        )


class DatasetMissing(FileNotFoundError, ValueError):
    """A data set is not where it was looked for; the message names the place and what gets it."""


class DataFileError(ValueError):
    """A file of data that is cut off, damaged or of another kind; the message names it."""


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the data sets: `root`, else LABELDP_DATA, else `data` right here."""
    return Path(root or os.environ.get("LABELDP_DATA") or "data").expanduser()


def file_digest(path: Path, kind: str = "sha256", *, most_bytes: int = ANY_SIZE) -> str:
    """Return the digest of a file that may be larger than memory, in hexadecimal digits."""
    with open_regular(path, most_bytes=most_bytes) as file:
        return hashlib.file_digest(file, kind).hexdigest()


def content_of(file: str) -> str:
    """Return the digest of a file that a setting names; what names no file here as it is."""
    return file_digest(Path(file)) if Path(file).is_file() else file


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type's name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


@contextmanager
def readable(file: Path, kind: str, *, fix: str) -> Iterator[None]:
    """Name the file and a fix, whatever a reader raises on damaged bytes."""
    try:
        yield
    except (DataFileError, FileRefused, FileNotFoundError):
        raise
    except Exception as error:
        reason = first_line(error)
        # NumPy takes unknown bytes for a pickle, and explains how to load that unsafely.
        reason = "it is not in NumPy's format" if "pickled" in reason else reason
        raise DataFileError(
            f"{file} ({file.stat().st_size:,} bytes) can't be read as {kind} ({reason}); {fix}"
        ) from error


def visible(text: str) -> str:
    """Return text for a terminal: what would move its cursor or turn its writing is spelled out."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def make_folder(folder: Path, *, mode: int = 0o755) -> None:
    """Create a folder, and those around it, that nobody but its owner writes to."""
    # Not by an umask, which the threads of a process share.
    for each in (*reversed(folder.parents), folder):
        if each.is_dir():
            continue
        try:
            each.mkdir(mode=mode, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(
                errno.ENOTDIR, "it is a file, and a folder is needed; name another", str(each)
            ) from None


class NotOurs(ValueError):
    """A file or folder of another user, a shared one, or a link; the message has the fix."""


@contextmanager
def owner_only() -> Iterator[None]:
    """Create files for their owner alone, in this process and those that it starts."""
    with umask_of(0o077):
        yield


@contextmanager
def umask_of(mask: int) -> Iterator[None]:
    """Create files without the rights in `mask`, beside those that the user leaves out."""
    before = os.umask(mask)
    os.umask(before | mask)
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
    make_folder(folder, mode=0o700)
    here = folder.resolve()
    home = Path.home().resolve()
    if folder.stat().st_mode & stat.S_ISVTX or here == home or here in home.parents:
        raise NotOurs(
            f"{folder} holds more than results, and all of a results folder is closed to other "
            "users; choose a folder of its own"
        )
    named = folder.lstat()
    # A link of the superuser is accepted: the superuser could do everything else as well.
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in (os.geteuid(), 0):
        raise _not_ours(folder, named)
    _close_folder(folder)
    waiting = [folder]
    while waiting:
        # Each folder is closed before it is read, so that nobody else can add to it.
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    path = Path(entry.path)
                    refuse_link(path)
                    _close(path, entry.stat(follow_symlinks=False), path)
                except FileNotFoundError:
                    continue  # another process's draft, which has got its name by now
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)


def inner_folder(folder: Path) -> None:
    """Create a folder for its owner alone, or close it to others; raises as `private_folder`."""
    refuse_link(folder)
    folder.mkdir(exist_ok=True, mode=0o700)
    _close_folder(folder, os.O_NOFOLLOW)


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
        if not stat.S_ISREG(found.st_mode):
            raise NotOurs(f"{path} is not a regular file; move it away, or choose another folder")
        if found.st_nlink > 1:
            raise NotOurs(
                f"{path} is a hard link: the same file has {found.st_nlink} names, and writing "
                "here would change all of them; replace it by a copy if it is yours alone, move "
                "it away if not, or choose another folder"
            )
        _close(path, found, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file as `whole_file`, unless there is a link at `path`."""
    refuse_link(path)
    with whole_file(path) as file:
        yield file


def refuse_link(path: Path) -> None:
    """Raise `NotOurs` for a symbolic link, whether its target exists or not."""
    if path.is_symlink():
        raise NotOurs(
            f"{path} is a link to {os.readlink(path)}, and writing here would write there; remove "
            "the link (if it is yours, put what it points at in its place), or choose another "
            "folder"
        )


def _close_folder(folder: Path, flags: int = 0) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | flags)
    try:
        _close(folder, os.fstat(descriptor), descriptor)
    finally:
        os.close(descriptor)


def _close(path: Path, found: os.stat_result, opened: int | Path) -> None:
    """Take the rights of others from what is `opened`, or refuse what is another user's."""
    if found.st_uid != os.geteuid():
        raise _not_ours(path, found)
    if stat.S_IMODE(found.st_mode) & 0o7077:
        os.chmod(opened, stat.S_IMODE(found.st_mode) & 0o700)


def _not_ours(path: Path, status: os.stat_result) -> NotOurs:
    return NotOurs(
        f"{path} belongs to user {status.st_uid}, and this is user {os.geteuid()}; change its "
        "owner (chown), or choose another folder"
    )
