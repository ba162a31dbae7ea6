"""A folder on disk that treadle made for itself: no one else's files are read or removed there.

    folder = PrivateFolder("~/.cache/treadle")     # ~/.cache/treadle/treadle-kernels
    with folder.opened() as files:                 # OSError where it is not safe to use
        files.write("name", b"...")
        files.read("name")  ->  b"..."

Code is run from here. So the folder is ours only if we made it (it holds a marker file), if it
belongs to this user and if nobody else may enter it. A folder of another kind is left as it is:
never entered, changed or emptied. The folders above it must belong to this user or to root, and
others may write into them only under the sticky bit, as in /tmp. Every file is opened below a
descriptor of the folder, without following links and without waiting, and is looked at before it
is read: a regular file of this user into which nobody else may write.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator

__all__ = ["NAME", "Files", "PrivateFolder"]

NAME = "treadle-kernels"
MARKER = ".made-by-treadle"
_PARTIAL = ".part"
_EXPLANATION = (
    b"treadle made this folder for compiled code, and removes in it what it has written itself.\n"
)
_POSIX = os.name == "posix"
# Neither flag exists on Windows, which has no links, FIFOs or devices in place of files.
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_SAFELY |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _SAFELY
_OTHERS, _OTHERS_WRITE = 0o077, 0o022
_OVERFLOW_ID = "/proc/sys/kernel/overflowuid"
_ALL_IDS = ["0", "0", "4294967295"]


class PrivateFolder:
    """The folder NAME below `cache`, which is made when it is first opened."""

    def __init__(self, cache: str | os.PathLike[str]) -> None:
        self._cache = os.path.abspath(cache)
        self.path = os.path.join(self._cache, NAME)
        self._known: tuple[int, int] | None = None  # its number, once all above it was looked at

    @contextlib.contextmanager
    def opened(self, *, make: bool = True, only_reads: bool = False) -> Iterator[Files]:
        """The files of the folder, while the block lasts.

        One that `only_reads` does not look for the marker again where it has found it before.
        Raises PermissionError, with the reason, if it is not safe to use; FileNotFoundError if it
        is not there and `make` is false; another OSError if the disk refuses.
        """
        if not _POSIX:
            if make:
                os.makedirs(self.path, exist_ok=True)
            os.stat(self.path)
            yield Files(self.path, None)
            return
        descriptor = self._open(make, only_reads)
        try:
            yield Files(self.path, descriptor)
        finally:
            os.close(descriptor)

    def _open(self, make: bool, only_reads: bool) -> int:
        try:
            descriptor = os.open(self.path, _FOLDER)
        except FileNotFoundError:
            if not make:
                raise
            descriptor = self._make()
        except OSError:
            _require_folder(self.path)
            raise
        try:
            self._check(descriptor, only_reads)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check(self, descriptor: int, only_reads: bool) -> None:
        status = os.fstat(descriptor)
        known = (status.st_dev, status.st_ino) == self._known
        if not known:
            _require_safe_above(self._cache)
        if status.st_uid != os.geteuid():
            raise PermissionError(1, f"{self.path} belongs to another user")
        if status.st_mode & _OTHERS:
            raise PermissionError(1, f"{self.path} is open to other users")
        if not (known and only_reads):  # a new folder may have an old number
            _require_marker(self.path, descriptor)
            self._known = status.st_dev, status.st_ino

    def _make(self) -> int:
        """The descriptor of a new folder, which nobody ever sees without its marker."""
        _make_all(self._cache)
        _require_safe_above(self._cache)
        aside = f"{self.path}.{secrets.token_hex(8)}{_PARTIAL}"
        os.mkdir(aside, 0o700)
        try:
            descriptor = os.open(aside, _FOLDER)
            try:
                Files(aside, descriptor).create(MARKER, _EXPLANATION)
                with contextlib.suppress(OSError):
                    os.rename(aside, self.path)  # another process may have been first
            finally:
                os.close(descriptor)
        finally:
            if os.path.isdir(aside):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(aside, MARKER))
                with contextlib.suppress(OSError):
                    os.rmdir(aside)
        return os.open(self.path, _FOLDER)


class Files:
    """The files of a folder: `descriptor` is that of the folder, None where there is no such."""

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path, self._descriptor = path, descriptor

    def open(self, name: str, flags: int) -> int:
        """A descriptor of one file, which no link, FIFO or device stands in for. Raises OSError."""
        return self._open(name, flags)[0]

    def _open(self, name: str, flags: int) -> tuple[int, int]:
        """The descriptor of a file, and how many bytes it has."""
        descriptor = os.open(self._place(name), flags | _SAFELY, 0o600, dir_fd=self._descriptor)
        try:
            status = os.fstat(descriptor)
            _require_own_file(status, name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, status.st_size

    def read(self, name: str, most: int | None = None, *, touch: bool = False) -> bytes:
        """What is in a file, its first `most` bytes; `touch` notes that it was used."""
        descriptor, size = self._open(name, os.O_RDONLY)
        try:
            if touch:
                with contextlib.suppress(OSError):
                    os.utime(descriptor if os.utime in os.supports_fd else self._place(name))
            return _read(descriptor, size if most is None else min(size, most))
        finally:
            os.close(descriptor)

    def create(self, name: str, content: bytes) -> None:
        """Writes a file that is not there yet; one that fails half-way is removed again."""
        descriptor = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except BaseException:
            self.remove(name)
            raise

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, in place of the one of that name: others see all of it or none."""
        aside = f"{name}.{secrets.token_hex(8)}{_PARTIAL}"
        self.create(aside, content)
        try:
            at = self._descriptor
            os.replace(self._place(aside), self._place(name), src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            self.remove(aside)
            raise

    def remove(self, name: str) -> bool:
        """Removes a file; whether that worked."""
        try:
            os.unlink(self._place(name), dir_fd=self._descriptor)
        except OSError:
            return False
        return True

    def rows(self) -> list[tuple[str, os.stat_result]]:
        """The name of everything that is here, and what the system says of it."""
        if self._descriptor is None:
            where: int | str = self.path
        else:  # a descriptor of its own: a listing moves it
            where = os.open(".", _FOLDER, dir_fd=self._descriptor)
        try:
            rows = []
            with os.scandir(where) as found:
                for entry in found:
                    with contextlib.suppress(OSError):  # another process may have removed it
                        rows.append((entry.name, entry.stat(follow_symlinks=False)))
            return rows
        finally:
            if isinstance(where, int):
                os.close(where)

    def _place(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self.path, name)


def _read(descriptor: int, size: int) -> bytes:
    found = os.read(descriptor, size)
    while len(found) < size and (more := os.read(descriptor, size - len(found))):
        found += more  # one call may give less than there is
    return found


def _require_own_file(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PermissionError(1, f"{name} is not a regular file")
    if not _POSIX:
        return
    if status.st_uid != os.geteuid():
        raise PermissionError(1, f"{name} belongs to another user")
    if status.st_mode & _OTHERS_WRITE or status.st_nlink > 1:
        raise PermissionError(1, f"{name} can be written by others")


def _require_folder(path: str) -> None:
    """Raises PermissionError if a link or a file has the folder's name."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # its own error says more
        return
    if not stat.S_ISDIR(mode):
        raise PermissionError(1, f"{path} is a link or a file, not a folder")


def _require_marker(path: str, descriptor: int) -> None:
    try:
        os.close(Files(path, descriptor).open(MARKER, os.O_RDONLY))
    except FileNotFoundError:
        raise PermissionError(1, f"treadle did not make {path}") from None


def _require_safe_above(cache: str) -> None:
    """Raises PermissionError if another user decides what `cache` is."""
    owners = _trusted_owners()
    for path in dict.fromkeys((*_upwards(cache), *_upwards(os.path.realpath(cache)))):
        status = os.lstat(path)
        if status.st_uid not in owners:
            raise PermissionError(1, f"{path} belongs to another user")
        loose = status.st_mode & _OTHERS_WRITE and not stat.S_ISLNK(status.st_mode)
        own_group = status.st_gid == os.getegid() and not status.st_mode & 0o002
        if loose and not status.st_mode & stat.S_ISVTX and not own_group:
            raise PermissionError(1, f"other users may write into {path}")


def _trusted_owners() -> set[int]:
    """This user, root and, in a container that does not say who root is, who is not named."""
    owners = {0, os.geteuid()}
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/uid_map") as ids:
            unnamed = ids.read().split() != _ALL_IDS
        if unnamed:
            with open(_OVERFLOW_ID) as number:
                owners.add(int(number.read()))
    return owners


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _make_all(path: str) -> None:
    """Makes a folder and those above it, for this user alone."""
    if not os.path.isdir(path):
        above = os.path.dirname(path)
        if above != path:
            _make_all(above)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
