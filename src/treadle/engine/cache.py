"""The disk cache of compiled code: a key becomes bytes, for as long as nothing is wrong with them.

    cache = CompileCache(Path("~/.cache/treadle").expanduser())
    cache.put(key, code)
    cache.get(key)  ->  code, or None

An entry is one file, written aside and renamed, so other processes see all of it or none; it
opens with a checksum of key and value, so a damaged one is a miss and is removed. One surprise:
nothing here ever raises on account of the disk. Where the folder cannot be used, the cache goes
on in memory and warns once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import time
import warnings
from pathlib import Path

__all__ = ["CompileCache", "digest_of_sources"]

_MAGIC = b"treadle1"
_DIGEST_BYTES = 32
_HEADER_BYTES = len(_MAGIC) + _DIGEST_BYTES
_DEFAULT_LIMIT = 1 << 30
_SUBFOLDER = "code"
_PARTIAL = ".part"
_ABANDONED_SECONDS = 3600
# Looking at all files costs as much as writing some: it waits for so many puts, and one put for
# each so many files.
_PUTS_PER_SWEEP, _FILES_PER_PUT = 64, 16


class CompileCache:
    """Bytes by key, in files of a private folder inside `folder`, which is made when needed.

    An empty or missing `folder` means memory only. The files take at most about `limit` bytes:
    the longest unused go first. Any number of threads and processes may share a folder.
    """

    def __init__(self, folder: Path | str | None, limit: int = _DEFAULT_LIMIT) -> None:
        self._folder = Path(folder) / _SUBFOLDER if folder else None
        self._limit = limit
        self._memory: dict[bytes, bytes] = {}  # what could not be written
        self._puts_to_sweep = 1
        self._opened = self._warned = False
        self._writable = True

    def get(self, key: bytes | str) -> bytes | None:
        """The value last put under `key`, or None."""
        digest = _digest(key)
        value = self._memory.get(digest)
        if value is None and (folder := self._open()) is not None:
            value = _read(folder / digest.hex(), digest)
        return value

    def put(self, key: bytes | str, value: bytes) -> None:
        """Keeps `value` under `key`, replacing what was there."""
        digest = _digest(key)
        folder = self._open()
        if folder is not None and self._writable:
            try:
                _write(folder, digest, value)
            except OSError as error:
                # Reading goes on: a full disk or a read-only folder may hold good entries.
                self._writable = False
                self._warn(error)
            else:
                self._puts_to_sweep -= 1
                if self._puts_to_sweep <= 0:
                    files = _sweep(folder, self._limit)
                    self._puts_to_sweep = max(_PUTS_PER_SWEEP, files // _FILES_PER_PUT)
                return
        self._memory[digest] = value

    def clear(self) -> None:
        """Forgets everything, on disk too."""
        self._memory.clear()
        if (folder := self._open()) is not None:
            _sweep(folder, 0)

    def _open(self) -> Path | None:
        """The folder, once it is known to exist and to be private; None if there is none."""
        if not self._opened and self._folder is not None:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _require_private(self._folder)
            except OSError as error:
                self._warn(error)
                self._folder = None
        self._opened = True
        return self._folder

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"the compile cache {self._folder} cannot be written ({error.strerror or error}), so "
            "each process compiles its kernels anew; free some space, or set CACHE_DIR to a "
            "folder that you can write",
            RuntimeWarning,
            stacklevel=4,
        )


def _digest(key: bytes | str) -> bytes:
    return hashlib.blake2b(
        key.encode() if isinstance(key, str) else key, digest_size=_DIGEST_BYTES
    ).digest()


def _require_private(folder: Path) -> None:
    """Code is run from here, so nobody else may own the folder or write into it."""
    if os.name != "posix":
        return
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError(1, "it belongs to another user")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _checksum(digest: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(digest + value, digest_size=_DIGEST_BYTES).digest()


def _read(path: Path, digest: bytes) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    value = content[_HEADER_BYTES:]
    if content[:_HEADER_BYTES] == _MAGIC + _checksum(digest, value):
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of its last use, which eviction goes by
        return value
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def _write(folder: Path, digest: bytes, value: bytes) -> None:
    handle, part = tempfile.mkstemp(suffix=_PARTIAL, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _checksum(digest, value) + value)
        os.replace(part, folder / digest.hex())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _sweep(folder: Path, limit: int) -> int:
    """Removes what killed writers left behind, then the longest unused entries beyond `limit`.

    Returns how many entries it has looked at.
    """
    entries = []
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            with contextlib.suppress(OSError):  # another process may have removed it by now
                status = entry.stat(follow_symlinks=False)
                if not entry.name.endswith(_PARTIAL):
                    entries.append((status.st_mtime, status.st_size, entry.path))
                elif now - status.st_mtime > _ABANDONED_SECONDS:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
    return len(entries)


@functools.cache
def digest_of_sources() -> str:
    """A digest of treadle's own source files: their names, sizes and times of change.

    It is part of every key, so that code made by another version of treadle is never used.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rows = sorted(_source_rows(root))
    return hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest()


def _source_rows(root: str) -> list[tuple[str, int, int]]:
    rows = []
    pending = [root]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as found:
            for entry in found:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    name = os.path.relpath(entry.path, root)
                    rows.append((name, status.st_size, status.st_mtime_ns))
                elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("_"):
                    pending.append(entry.path)
    return rows
