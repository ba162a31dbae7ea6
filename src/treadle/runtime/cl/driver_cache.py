"""PoCL's own cache of machine code: a folder for each process that runs at the same time.

    take_folder("~/.cache/treadle")  ->  POCL_CACHE_DIR=~/.cache/treadle/treadle-kernels/pocl-0

Two processes that build one program into one folder at once crash PoCL 3.0. So a process takes the
first folder that no other one holds, and holds it as long as it lives; the next process finds what
it left there. A folder that has grown too large starts anew. All of them lie in the one folder that
treadle made for itself (see runtime/private_folder.py): what is elsewhere is never touched.
"""

from __future__ import annotations

import os
import shutil
import stat

from treadle.runtime.private_folder import NAME, Files, PrivateFolder

__all__ = ["clear_folders", "take_folder"]

MOST_FOLDERS = 256
MOST_BYTES = 1 << 30
_held: list[int] = []  # locks of this process, which end with it


def take_folder(cache: str) -> None:
    """Give this process a folder below `cache`; "" is no folder at all.

    A POCL_CACHE_DIR that the user chose stays, and with it the user's care for other processes.
    """
    given = os.environ.get("POCL_CACHE_DIR")
    inherited = given is not None and os.path.basename(os.path.dirname(given)) == NAME
    if given is not None and not inherited:
        return
    path = _first_free(cache) if cache else None
    if path is None:
        os.environ.pop("POCL_CACHE_DIR", None)
        os.environ.setdefault("POCL_KERNEL_CACHE", "0")  # a folder of its own, gone at the end
    else:
        os.environ["POCL_CACHE_DIR"] = path


def clear_folders(cache: str) -> None:
    """Remove every folder below `cache` that no process holds."""
    if not cache:
        return
    try:
        with PrivateFolder(cache).opened(make=False) as files:
            for number in range(MOST_FOLDERS):
                name = f"pocl-{number}"
                lock = _lock(files, name) if _is_folder(files, name) else None
                if lock is not None:
                    shutil.rmtree(os.path.join(files.path, name), ignore_errors=True)
                    os.close(lock)
    except (OSError, ImportError):  # nothing is there that may be touched
        return


def _first_free(cache: str) -> str | None:
    """The first folder that could be locked, or None where there are no locks or no disk."""
    try:
        with PrivateFolder(cache).opened() as files:
            for number in range(MOST_FOLDERS):
                name = f"pocl-{number}"
                lock = _lock(files, name)
                if lock is None:
                    continue
                path = os.path.join(files.path, name)
                if _is_folder(files, name) and _bytes_below(path) > MOST_BYTES:
                    shutil.rmtree(path, ignore_errors=True)
                os.makedirs(path, mode=0o700, exist_ok=True)
                if not _is_folder(files, name):
                    os.close(lock)
                    continue
                _held.append(lock)
                return path
    except (OSError, ImportError):  # no disk, or no POSIX system: PoCL's wheels are for Linux
        return None
    return None


def _is_folder(files: Files, name: str) -> bool:
    """Whether it is a folder of this user, and no link to one."""
    try:
        status = os.lstat(os.path.join(files.path, name))
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _lock(files: Files, name: str) -> int | None:
    """The file whose lock says that a folder is in use; None where another process has it."""
    import fcntl

    lock = files.open(name + ".lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _bytes_below(path: str) -> int:
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
        if os.path.isfile(os.path.join(folder, name))
    )
