"""Code is run from the cache, so nobody else may have had a hand in it, and nothing there waits."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import warnings

import pytest

from treadle.engine.cache import CompileCache

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and devices")
SOMEBODY = 54321
as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root gives files to another user"
)


def one_entry(folder, key="key"):
    """The file of a new entry."""
    CompileCache(folder).put(key, b"value")
    (found,) = (path for path in folder.rglob("*") if len(path.name) == 64)
    return found


def refused(folder, reason):
    """A new cache reads nothing, goes on in memory, says why once and leaves all as it is."""
    before = [(p, p.lstat().st_mode, p.lstat().st_uid) for p in sorted(folder.rglob("*"))]
    cache = CompileCache(folder)
    with pytest.warns(RuntimeWarning, match=reason):
        assert cache.get("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("key", b"mine")
        cache.put("other", b"mine")
    assert cache.get("key") == b"mine"
    after = [(p, p.lstat().st_mode, p.lstat().st_uid) for p in sorted(folder.rglob("*"))]
    assert after == before


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o710, 0o701])
def test_2_05_a_folder_that_is_open_to_others_is_neither_read_nor_tightened(mode, tmp_path):
    folder = one_entry(tmp_path).parent
    folder.chmod(mode)
    refused(tmp_path, "is open to other users")
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_2_05_a_folder_that_treadle_did_not_make_is_not_read(tmp_path):
    entry = one_entry(tmp_path)
    content = entry.read_bytes()
    shutil.rmtree(entry.parent)
    entry.parent.mkdir(mode=0o700)
    entry.write_bytes(content)
    refused(tmp_path, "treadle did not make")


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_2_05_a_folder_above_into_which_others_may_write_is_refused(mode, tmp_path):
    one_entry(tmp_path / "above" / "cache")
    (tmp_path / "above").chmod(mode)
    refused(tmp_path / "above" / "cache", "other users may write into")


def test_2_05_a_shared_folder_above_with_the_sticky_bit_is_used(tmp_path):
    tmp_path.chmod(0o1777)
    one_entry(tmp_path / "cache")
    assert CompileCache(tmp_path / "cache").get("key") == b"value"


@as_root
def test_2_05_a_folder_above_of_another_user_is_refused(tmp_path):
    one_entry(tmp_path / "above" / "cache")
    os.chown(tmp_path / "above", SOMEBODY, SOMEBODY)
    refused(tmp_path / "above" / "cache", "above belongs to another user")


@as_root
def test_2_05_a_link_of_another_user_above_is_refused(tmp_path):
    one_entry(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.lchown(tmp_path / "link", SOMEBODY, SOMEBODY)
    refused(tmp_path / "link", "link belongs to another user")


@as_root
def test_2_05_a_folder_of_another_user_is_refused(tmp_path):
    os.chown(one_entry(tmp_path).parent, SOMEBODY, SOMEBODY)
    refused(tmp_path, "belongs to another user")


@as_root
def test_2_05_a_marker_of_another_user_is_refused(tmp_path):
    (marker,) = (path for path in one_entry(tmp_path).parent.iterdir() if len(path.name) != 64)
    os.chown(marker, SOMEBODY, SOMEBODY)
    refused(tmp_path, "belongs to another user")


@as_root
def test_2_05_an_entry_of_another_user_is_not_read(tmp_path):
    entry = one_entry(tmp_path)
    os.chown(entry, SOMEBODY, SOMEBODY)
    assert CompileCache(tmp_path).get("key") is None
    CompileCache(tmp_path).clear()
    assert entry.exists()


def test_2_05_an_entry_into_which_others_may_write_is_not_read(tmp_path):
    entry = one_entry(tmp_path)
    entry.chmod(0o666)
    assert CompileCache(tmp_path).get("key") is None


def test_2_05_an_entry_with_another_name_elsewhere_is_not_read(tmp_path):
    entry = one_entry(tmp_path / "cache")
    os.link(entry, tmp_path / "elsewhere")
    assert CompileCache(tmp_path / "cache").get("key") is None
    assert (tmp_path / "elsewhere").exists()


def fifo(path, beside):
    os.mkfifo(path)


def full_device(path, beside):
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # an endless file of zeros


def a_socket(path, beside):
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)  # a socket's path is short
        listener.bind(path.name)


def a_link(path, beside):
    path.symlink_to(beside)


def a_link_to_a_fifo(path, beside):
    os.mkfifo(path.parent / "fifo")
    path.symlink_to("fifo")


def a_folder(path, beside):
    path.mkdir()


@pytest.mark.parametrize("plant", [fifo, full_device, a_socket, a_link, a_link_to_a_fifo, a_folder])
def test_2_05_what_is_no_file_is_a_miss_at_once(plant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = one_entry(tmp_path / "cache")
    entry.rename(tmp_path / "entry")
    plant(entry, tmp_path / "entry")
    cache, found = CompileCache(tmp_path / "cache"), []
    reader = threading.Thread(target=lambda: found.append(cache.get("key")), daemon=True)
    reader.start()
    reader.join(5)
    assert found == [None]
    mode = entry.lstat().st_mode
    clearing = threading.Thread(target=cache.clear, daemon=True)
    clearing.start()
    clearing.join(5)
    assert not clearing.is_alive()
    assert entry.lstat().st_mode == mode


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ESTALE, errno.EROFS])
def test_2_05_a_disk_that_knows_no_descriptors_of_folders_means_memory(
    number, tmp_path, monkeypatch
):
    real = os.open

    def refuse(path, flags, mode=0o777, *, dir_fd=None):
        if dir_fd is not None:
            raise OSError(number, os.strerror(number))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    cache = CompileCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        assert cache.get("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("key", b"value")
        cache.put("other", b"value")
    assert cache.get("key") == b"value"
    assert list(tmp_path.iterdir()) == []


MAKE = """
import sys, warnings
warnings.simplefilter("error")
from treadle.engine.cache import CompileCache
print("ready", flush=True)
sys.stdin.readline()
cache = CompileCache(sys.argv[1])
cache.put(sys.argv[2], b"value")
assert CompileCache(sys.argv[1]).get(sys.argv[2]) == b"value"
"""


def test_2_05_processes_that_make_the_folder_at_once_share_it(tmp_path):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", MAKE, str(tmp_path / "new" / "cache"), str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(6)
    ]  # fmt: skip
    assert [process.stdout.readline() for process in running] == ["ready\n"] * 6
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
    assert [process.returncode for process in running] == [0] * 6
    assert len(list((tmp_path / "new" / "cache").iterdir())) == 1
    assert len([p for p in tmp_path.rglob("*") if len(p.name) == 64]) == 6


def test_2_05_a_folder_that_goes_and_comes_while_a_process_runs_is_looked_at_anew(tmp_path):
    cache = CompileCache(tmp_path)
    cache.put("key", b"value")
    (folder,) = tmp_path.iterdir()
    shutil.rmtree(folder)
    cache.put("key", b"again")
    assert CompileCache(tmp_path).get("key") == b"again"
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    with pytest.warns(RuntimeWarning, match="treadle did not make"):
        cache.put("key", b"third")
    assert list(folder.iterdir()) == []
