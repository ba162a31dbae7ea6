"""How clang is run: once for a text, with the shim read once for all of them."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile

import pytest

from treadle.emulate.air import MSLError, compile_msl, find_clang, needed_clang
from treadle.emulate.air.clang import _INCLUDE, Clang, clang_at
from treadle.errors import DeviceError

from .conftest import HEAD

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang 15 or newer")
TEXT = f"{HEAD}kernel void k(device float *a [[buffer(0)]]) {{ a[0] = exp(a[1]); }}\n"


class Kept(dict):
    """A cache of bytes, which counts what it had not."""

    def __call__(self, key, make):
        if key not in self:
            self[key] = make()
        return self[key]


@pytest.fixture
def clang():
    """A clang that has read nothing yet."""
    try:
        return Clang(needed_clang())
    except DeviceError as error:
        pytest.skip(str(error))


def test_a_text_is_compiled_once(monkeypatch):
    kept = Kept()
    made = compile_msl(TEXT, cached=kept)
    with monkeypatch.context() as patched:
        patched.setattr(Clang, "run", lambda *_: pytest.fail("clang ran again"))
        assert compile_msl(TEXT, cached=kept) == made
    assert compile_msl(TEXT + "\n", cached=kept)
    assert len(kept) == 2


@pytest.mark.parametrize("what", ["version", "shim_digest"])
def test_another_clang_or_shim_compiles_anew(monkeypatch, what):
    kept = Kept()
    compile_msl(TEXT, cached=kept)
    if what == "version":
        monkeypatch.setattr(clang_at(find_clang()), "version", "another")
    else:
        monkeypatch.setattr("treadle.emulate.air.shim.shim_digest", lambda: "another")
    compile_msl(TEXT, cached=kept)
    assert len(kept) == 2


def test_what_is_refused_is_not_kept():
    kept = Kept()
    for _ in range(2):
        with pytest.raises(MSLError, match="nowhere"):
            compile_msl(f"{HEAD}kernel void k(device int *a [[buffer(0)]]) {{ a[0] = nowhere; }}",
                        cached=kept)  # fmt: skip
    assert not kept


def test_the_shim_is_read_once_and_gives_the_same_code(clang, monkeypatch):
    again = Clang(clang.path)
    made = [again.run(text.encode()).stdout for text in (TEXT, TEXT.replace("exp", "log"))]
    monkeypatch.setattr(clang, "_shim", None)
    assert made == [clang.run(t.encode()).stdout for t in (TEXT, TEXT.replace("exp", "log"))]
    if sys.platform == "linux":
        number = again._shim
        assert number is not None
        assert os.fstat(number).st_nlink == 0  # it has no name, so nobody has to remove it


def test_headers_that_change_meanwhile_are_read_anew(clang, monkeypatch, tmp_path):
    """As where treadle is updated while a process runs."""
    shutil.copytree(_INCLUDE, tmp_path / "include")
    monkeypatch.setattr("treadle.emulate.air.clang._INCLUDE", tmp_path / "include")
    made = clang.run(TEXT.encode()).stdout
    with (tmp_path / "include" / "metal_stdlib").open("a") as file:
        file.write("#define CHANGED 1\n")
    again = clang.run(TEXT.replace("a[1]", "a[CHANGED]").encode())
    assert again.returncode == 0
    assert again.stdout == made


def test_a_disk_that_is_full_costs_time_alone(clang, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert clang._shim is None
    assert b"@k(" in clang.run(TEXT.encode()).stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_uses_what_its_parent_has_read(clang):
    made = clang.run(TEXT.encode()).stdout
    pid = os.fork()
    if pid == 0:
        os._exit(clang.run(TEXT.encode()).stdout != made)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
