"""The compile cache keeps what it is given and survives everything that a disk can do to it."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings

import pytest

from treadle.engine import cache as cache_module
from treadle.engine.cache import CompileCache, digest_of_sources
from treadle.runtime.private_folder import NAME, Files, PrivateFolder

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and signals")


def entries(folder):
    return sorted(path for path in (folder / NAME).iterdir() if len(path.name) == 64)


def test_a_value_comes_back_in_this_and_in_another_cache(tmp_path):
    cache = CompileCache(tmp_path)
    assert cache.get("key") is None
    cache.put("key", b"value")
    cache.put(b"other", b"")
    assert CompileCache(tmp_path).get("key") == b"value"
    assert CompileCache(str(tmp_path)).get(b"other") == b""
    assert CompileCache(tmp_path).get("another") is None


def test_a_later_value_replaces_an_earlier_one(tmp_path):
    cache = CompileCache(tmp_path)
    cache.put("key", b"one")
    cache.put("key", b"two")
    assert CompileCache(tmp_path).get("key") == b"two"
    assert len(entries(tmp_path)) == 1


@pytest.mark.parametrize("folder", [None, ""])
def test_without_a_folder_values_stay_in_memory(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = CompileCache(folder)
    cache.put("key", b"value")
    assert cache.get("key") == b"value"
    assert list(tmp_path.iterdir()) == []


@posix
def test_the_folder_is_private(tmp_path):
    before = stat.S_IMODE(tmp_path.stat().st_mode)
    CompileCache(tmp_path / "new" / "cache").put("key", b"value")
    made = [tmp_path / "new", tmp_path / "new/cache", tmp_path / "new/cache" / NAME]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700] * 3
    assert stat.S_IMODE(tmp_path.stat().st_mode) == before
    assert stat.S_IMODE(entries(tmp_path / "new/cache")[0].stat().st_mode) == 0o600


DAMAGES = {
    "a flipped bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a flipped bit in the checksum": lambda data: data[:10] + bytes([data[10] ^ 1]) + data[11:],
    "a cut end": lambda data: data[:-5],
    "nothing left": lambda data: b"",
    "only a header": lambda data: data[:40],
    "an appended byte": lambda data: data + b"x",
    "text": lambda data: b"hello",
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_a_miss_and_made_anew(tmp_path, damage):
    CompileCache(tmp_path).put("key", b"value" * 100)
    (path,) = entries(tmp_path)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    cache = CompileCache(tmp_path)
    ours = path.read_bytes().startswith(cache_module._MAGIC)
    assert cache.get("key") is None
    assert path.exists() != ours  # what does not begin as an entry may be somebody's
    cache.put("key", b"again")
    assert CompileCache(tmp_path).get("key") == b"again"


def test_an_entry_longer_than_any_memory_is_a_miss_and_made_anew(tmp_path):
    CompileCache(tmp_path).put(b"key", b"value")
    (entry,) = entries(tmp_path)
    try:
        os.truncate(entry, 1 << 43)
    except OSError:
        pytest.skip("this disk has no files of holes, or only short ones")
    cache = CompileCache(tmp_path)
    assert cache.get(b"key") is None
    assert not entry.exists()
    cache.put(b"key", b"value")
    assert CompileCache(tmp_path).get(b"key") == b"value"


def test_an_entry_under_a_wrong_name_is_a_miss(tmp_path):
    cache = CompileCache(tmp_path)
    cache.put("one", b"1")
    (one,) = entries(tmp_path)
    cache.put("two", b"2")
    two = next(path for path in entries(tmp_path) if path != one)
    two.write_bytes(one.read_bytes())
    assert CompileCache(tmp_path).get("two") is None


def test_a_folder_in_place_of_an_entry_is_a_miss(tmp_path):
    cache = CompileCache(tmp_path)
    cache.put("key", b"value")
    (path,) = entries(tmp_path)
    path.unlink()
    path.mkdir()
    assert CompileCache(tmp_path).get("key") is None


def test_a_place_that_cannot_be_a_folder_means_memory_and_one_warning(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    cache = CompileCache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match=r"cannot be used .*set CACHE_DIR"):
        assert cache.get("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("key", b"value")
    assert cache.get("key") == b"value"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_takes_no_more_is_still_read(tmp_path, monkeypatch, error):
    CompileCache(tmp_path).put("old", b"old value")

    def refuse(*args, **kwargs):
        raise OSError(error, os.strerror(error))

    cache = CompileCache(tmp_path)
    monkeypatch.setattr(Files, "create", refuse)
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        cache.put("new", b"new value")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("newer", b"newer value")
    assert cache.get("new") == b"new value"
    assert cache.get("old") == b"old value"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_fills_up_in_the_middle_leaves_no_half_entry(tmp_path, monkeypatch):
    CompileCache(tmp_path).put("old", b"old value")
    open_file = Files.open

    def full(files, name, flags):
        handle = open_file(files, name, flags)
        if flags & os.O_CREAT:
            os.dup2(os.open("/dev/full", os.O_WRONLY), handle)
        return handle

    cache = CompileCache(tmp_path)
    monkeypatch.setattr(Files, "open", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put("key", b"x" * 100_000)
    assert cache.get("key") == b"x" * 100_000
    assert len(entries(tmp_path)) == 1
    assert not list((tmp_path / NAME).glob("*.part"))


def test_the_longest_unused_entries_go_first(tmp_path):
    cache = CompileCache(tmp_path, limit=10_000)
    for n in range(9):
        cache.put(f"key{n}", bytes(1000))
        os.utime(entries_by_age(tmp_path)[-1], (n, n))
    assert cache.get("key0") is not None  # used just now
    with PrivateFolder(tmp_path).opened() as files:
        cache_module._sweep(files, 4 * 1040)
    kept = [n for n in range(9) if CompileCache(tmp_path).get(f"key{n}") is not None]
    assert kept == [0, 6, 7, 8]


def entries_by_age(folder):
    return sorted(entries(folder), key=lambda path: path.stat().st_mtime)


def test_many_puts_stay_near_the_limit(tmp_path):
    cache = CompileCache(tmp_path, limit=50_000)
    for n in range(200):
        cache.put(f"key{n}", bytes(1000))
    total = sum(path.stat().st_size for path in entries(tmp_path))
    assert total <= 50_000 + cache_module._PUTS_PER_SWEEP * 1040


def test_clearing_forgets_everything(tmp_path):
    cache = CompileCache(tmp_path)
    cache.put("key", b"value")
    cache.clear()
    assert cache.get("key") is None
    assert entries(tmp_path) == []


WRITER = """
import sys
from treadle.engine.cache import CompileCache
cache = CompileCache(sys.argv[1])
print("ready", flush=True)
for round_ in range(int(sys.argv[2])):
    for n in range(20):
        value = f"{n}:".encode() * 20_000
        found = cache.get(f"key{n}")
        assert found is None or found == value, f"mixed value for {n}"
        cache.put(f"key{n}", value)
"""


def start_writer(folder, rounds):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(rounds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_all(folder):
    cache = CompileCache(folder)
    found = {n: cache.get(f"key{n}") for n in range(20)}
    assert all(value in (None, f"{n}:".encode() * 20_000) for n, value in found.items())
    return sum(value is not None for value in found.values())


def test_several_processes_share_a_folder(tmp_path):
    writers = [start_writer(tmp_path, 4) for _ in range(3)]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, "")
    assert check_all(tmp_path) == 20


@posix
def test_writers_killed_at_any_moment_leave_only_whole_entries(tmp_path):
    for kill in range(5):
        writer = start_writer(tmp_path, 1000)
        assert writer.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 0.003 * kill
        while time.monotonic() < deadline:
            pass
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=60)
        assert writer.returncode == -signal.SIGKILL
        check_all(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CompileCache(tmp_path).put("key0", b"0:" * 20_000)
    assert CompileCache(tmp_path).get("key0") == b"0:" * 20_000


def test_what_a_killed_writer_left_behind_is_swept_away_later(tmp_path):
    cache = CompileCache(tmp_path)
    cache.put("key", b"value")
    parts = [tmp_path / NAME / f"{name * 64}.{name * 16}.part" for name in "abcd"]
    old, empty, new, others = parts
    for path, content in zip(parts, (b"treadle1half", b"", b"treadle1", b"text"), strict=True):
        path.write_bytes(content)
    for path in (old, empty, others):
        os.utime(path, (1, 1))
    CompileCache(tmp_path).put("other", b"value")
    assert not old.exists()
    assert not empty.exists()
    assert others.exists()
    assert new.exists()  # another process may be writing it
    assert cache.get("key") == b"value"


def test_threads_share_a_cache(tmp_path):
    cache = CompileCache(tmp_path)
    failures = []

    def work(seed):
        for n in range(100):
            key = f"key{(n * seed) % 17}"
            value = key.encode() * 50
            cache.put(key, value)
            if cache.get(key) != value:
                failures.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_digest_of_the_sources_changes_with_a_source(tmp_path):
    assert digest_of_sources() == digest_of_sources()
    assert len(digest_of_sources()) == 32
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.py").write_text("x = 1")
    before = cache_module._source_rows(str(tmp_path))
    (tmp_path / "inner" / "a.py").write_text("x = 12")
    (tmp_path / "inner" / "notes.txt").write_text("no source")
    after = cache_module._source_rows(str(tmp_path))
    assert [row[0] for row in after] == [os.path.join("inner", "a.py")]
    assert before != after
