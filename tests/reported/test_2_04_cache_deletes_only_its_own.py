"""A cache folder may lie anywhere, and nothing that treadle did not write is touched there."""

from __future__ import annotations

import os
import warnings

import pytest

from treadle import Context, cli
from treadle.engine.cache import CompileCache

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and links")
NAMES = ("code", "treadle-kernels", "pocl-0")


def own_files(folder):
    """Documents and a video of the user, in a folder that others may read."""
    folder.mkdir(parents=True)
    (folder / "letter.txt").write_text("dear reader")
    (folder / ("ab" * 32)).write_text("a digest for a name, and none of ours")
    (folder / "old.part").write_text("half a download")
    os.utime(folder / "old.part", (1, 1))
    with open(folder / "video.mkv", "wb") as video:
        video.truncate(2 << 30)
    folder.chmod(0o755)


def listing(folder):
    return [
        (str(path.relative_to(folder)), path.lstat().st_mode, path.lstat().st_size)
        for path in sorted(folder.rglob("*"))
    ]


def use(folder):
    """What programs do with a cache, and what `treadle cache --clear` does with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cache = CompileCache(folder, limit=1000)
        for number in range(100):
            cache.put(f"key{number}", bytes(1000))
            cache.get(f"key{number}")
        with Context(CACHE_DIR=folder):
            cli.main(["cache", "--clear"])
            cli.main(["cache"])


@pytest.mark.parametrize("name", NAMES)
def test_2_04_a_users_folder_of_a_name_that_the_cache_uses_stays_as_it_is(name, tmp_path):
    own_files(tmp_path / name)
    before = listing(tmp_path / name)
    use(tmp_path)
    assert listing(tmp_path / name) == before
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", NAMES)
def test_2_04_a_link_to_a_users_folder_is_not_followed(name, tmp_path):
    own_files(tmp_path / "documents")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / name).symlink_to(tmp_path / "documents")
    before = listing(tmp_path)
    use(tmp_path / "cache")
    documents = [row for row in listing(tmp_path) if row[0].startswith("documents")]
    assert documents == [row for row in before if row[0].startswith("documents")]
    assert (tmp_path / "cache" / name).is_symlink()


def test_2_04_a_folder_full_of_a_users_files_may_be_the_cache_folder(tmp_path):
    own_files(tmp_path / "home")
    before = listing(tmp_path / "home")
    use(tmp_path / "home")
    assert set(before) <= set(listing(tmp_path / "home"))
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o755


def test_2_04_files_that_a_user_puts_beside_entries_are_not_swept(tmp_path, capsys):
    CompileCache(tmp_path).put("key", b"value")
    (entry,) = (path for path in tmp_path.rglob("*") if len(path.name) == 64)
    beside = {"letter.txt": "dear reader", "ab" * 32: "a digest for a name", "a.part": "half"}
    for name, text in beside.items():
        (entry.parent / name).write_text(text)
        os.utime(entry.parent / name, (1, 1))
    (entry.parent / ("cd" * 32)).symlink_to(entry.parent / "letter.txt")
    with Context(CACHE_DIR=tmp_path):
        assert cli.main(["cache", "--clear"]) == 0
    assert "removed 1 kernels" in capsys.readouterr().out
    assert not entry.exists()
    assert {name: (entry.parent / name).read_text() for name in beside} == beside
    assert (entry.parent / ("cd" * 32)).is_symlink()


def test_2_04_clearing_a_folder_that_is_not_ours_says_so(tmp_path, capsys):
    own_files(tmp_path / "treadle-kernels")
    with Context(CACHE_DIR=tmp_path):
        assert cli.main(["cache", "--clear"]) == 1
    assert "nothing was touched" in capsys.readouterr().err
    assert "treadle did not make" not in capsys.readouterr().out


def test_2_04_a_users_folder_of_machine_code_is_not_removed(tmp_path):
    pytest.importorskip("fcntl", reason="there are no file locks here")
    from treadle.runtime.cl.driver_cache import clear_folders

    own_files(tmp_path / "pocl-3")
    before = listing(tmp_path)
    clear_folders(str(tmp_path))
    assert listing(tmp_path) == before
