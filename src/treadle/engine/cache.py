"""The disk cache of compiled code: a key becomes bytes, for as long as nothing is wrong with them.

    cache = CompileCache(Path("~/.cache/treadle").expanduser())
    cache.put(key, code)
    cache.get(key)  ->  code, or None

An entry is one file, written aside and renamed, so other processes see all of it or none; it
opens with a checksum of key and value, so a damaged one is a miss. The files lie in a folder that
treadle made for itself (see runtime/private_folder.py), and only those are removed whose name and
first bytes are an entry's. One surprise: nothing here ever raises on account of the disk. Where
the folder cannot be used, the cache goes on in memory and warns once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..config import settings
from ..runtime.private_folder import Files, PrivateFolder

__all__ = ["CompileCache", "cached", "compile_cache", "digest_of_sources"]

T = TypeVar("T")

_MAGIC = b"treadle1"
_DIGEST_BYTES = 32
_HEADER_BYTES = len(_MAGIC) + _DIGEST_BYTES
_DEFAULT_LIMIT = 1 << 30
_ENTRY = re.compile(r"[0-9a-f]{64}")
_ABANDONED = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{16}\.part")  # by a writer that was killed
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
        self._folder = PrivateFolder(folder) if folder else None
        self._limit = limit
        self._memory: dict[bytes, bytes] = {}  # what could not be written
        self._puts_to_sweep = 1
        self._warned = False
        self._writable = True

    def get(self, key: bytes | str) -> bytes | None:
        """The value last put under `key`, or None."""
        digest = _digest(key)
        value, folder = self._memory.get(digest), self._folder
        if value is not None or folder is None:
            return value
        try:
            with folder.opened(make=self._writable, only_reads=True) as files:
                return _read(files, digest)
        except OSError as error:
            self._refuse(error)
            return None

    def put(self, key: bytes | str, value: bytes) -> None:
        """Keeps `value` under `key`, replacing what was there."""
        digest, folder = _digest(key), self._folder
        if folder is None or not self._writable:
            self._memory[digest] = value
            return
        try:
            with folder.opened() as files:
                files.write(digest.hex(), _MAGIC + _checksum(digest, value) + value)
                self._memory.pop(digest, None)
                self._puts_to_sweep -= 1
                if self._puts_to_sweep <= 0:
                    seen, _ = _sweep(files, self._limit)
                    self._puts_to_sweep = max(_PUTS_PER_SWEEP, seen // _FILES_PER_PUT)
        except OSError as error:
            # Reading goes on: a full disk or a read-only folder may hold good entries.
            self._memory[digest] = value
            self._writable = False
            self._warn(error)

    def clear(self) -> int:
        """Forgets everything, on disk too; returns how many entries were removed there.

        Raises OSError, of which PermissionError says why, if the folder may not be touched.
        """
        self._memory.clear()
        return self._on_disk(lambda files: _sweep(files, 0)[1], 0)

    def sizes(self) -> list[int]:
        """The bytes of each entry on disk. Raises OSError as `clear` does."""
        return self._on_disk(lambda files: [size for _, size, _ in _entries(files)], [])

    def _on_disk(self, look: Callable[[Files], T], nothing: T) -> T:
        folder = self._folder
        if folder is None:
            return nothing
        try:
            with folder.opened(make=False) as files:
                return look(files)
        except FileNotFoundError:
            return nothing

    def _refuse(self, error: OSError) -> None:
        """From now on in memory, but for a folder that is only missing where nothing is written."""
        if not isinstance(error, FileNotFoundError) or self._writable:
            self._folder = None
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"the compile cache cannot be used ({error.strerror or error}), so each process "
            "compiles its kernels anew; free some space, or set CACHE_DIR to a folder that is "
            "yours alone and that you can write",
            RuntimeWarning,
            stacklevel=4,
        )


def _digest(key: bytes | str) -> bytes:
    return hashlib.blake2b(
        key.encode() if isinstance(key, str) else key, digest_size=_DIGEST_BYTES
    ).digest()


def _checksum(digest: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(digest + value, digest_size=_DIGEST_BYTES).digest()


def _read(files: Files, digest: bytes) -> bytes | None:
    name = digest.hex()
    try:
        try:
            content = files.read(name, touch=True)  # the time of its last use: eviction goes by it
        except MemoryError:  # a file of holes, longer than any memory
            content = files.read(name, len(_MAGIC))
    except OSError:
        return None
    value = content[_HEADER_BYTES:]
    if content[:_HEADER_BYTES] == _MAGIC + _checksum(digest, value):
        return value
    if content.startswith(_MAGIC):
        files.remove(name)
    return None


def _sweep(files: Files, limit: int) -> tuple[int, int]:
    """Removes what killed writers left behind, then the longest unused entries beyond `limit`.

    Returns how many entries it has looked at, and how many of them it has removed.
    """
    entries = _entries(files)
    total = sum(size for _, size, _ in entries)
    removed = 0
    for _, size, name in sorted(entries):
        if total <= limit:
            break
        removed += _is_ours(files, name) and files.remove(name)
        total -= size
    return len(entries), removed


def _entries(files: Files) -> list[tuple[float, int, str]]:
    """The last use, size and name of each entry; removes what killed writers left behind."""
    entries = []
    now = time.time()
    for name, status in files.rows():
        if not stat.S_ISREG(status.st_mode):
            continue
        if _ENTRY.fullmatch(name):
            entries.append((status.st_mtime, status.st_size, name))
        elif _ABANDONED.fullmatch(name) and now - status.st_mtime > _ABANDONED_SECONDS:
            if _is_ours(files, name):
                files.remove(name)
    return entries


def _is_ours(files: Files, name: str) -> bool:
    """Whether a file begins as an entry does; one whose writer was killed may be empty."""
    try:
        start = files.read(name, len(_MAGIC))
    except OSError:
        return False
    return start == _MAGIC or (not start and not _ENTRY.fullmatch(name))


@functools.cache
def compile_cache() -> CompileCache:
    """The disk cache of this process, as the settings say."""
    return CompileCache(settings.CACHE_DIR if settings.CACHE else None)


def cached(key: str, make: Callable[[], bytes], /) -> bytes:
    """What this version of treadle keeps under a key, or else what `make` makes, which is kept."""
    key = f"{digest_of_sources()}\0{key}"
    found = compile_cache().get(key)
    if found is None:
        found = make()
        compile_cache().put(key, found)
    return found


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
