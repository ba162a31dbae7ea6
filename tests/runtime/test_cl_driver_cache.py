"""PoCL's own cache: processes that run at once never share a folder."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from treadle import Device
from treadle.errors import DeviceError
from treadle.runtime.private_folder import NAME, PrivateFolder

TAKE = """
import os, sys
from treadle.runtime.cl.driver_cache import take_folder
take_folder({folder!r})
print(os.environ.get("POCL_CACHE_DIR"), os.environ.get("POCL_KERNEL_CACHE"), flush=True)
sys.stdin.read()
"""
SUMS = """
import numpy as np
from treadle import Tensor
x = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8), device="CL")
print((x @ x + 1).softmax().sum().item())
"""


def start(code, **variables):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("POCL_")}
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**clean, **variables}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def end(process):
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out


def taken(folder, **variables):
    process = start(TAKE.format(folder=str(folder)), **variables)
    return process, process.stdout.readline().split()[0]


def test_processes_take_the_first_folder_that_is_free(tmp_path):
    first, one = taken(tmp_path)
    second, two = taken(tmp_path)
    assert (one, two) == (str(tmp_path / NAME / "pocl-0"), str(tmp_path / NAME / "pocl-1"))
    end(first)
    third, three = taken(tmp_path)
    assert three == one
    end(second), end(third)


def test_a_folder_that_the_user_chose_stays(tmp_path):
    process, folder = taken(tmp_path, POCL_CACHE_DIR="/somewhere/else")
    assert folder == "/somewhere/else"
    end(process)


def test_a_child_does_not_share_its_parents_folder(tmp_path):
    parent, folder = taken(tmp_path)
    child, other = taken(tmp_path, POCL_CACHE_DIR=folder)
    assert other == str(tmp_path / NAME / "pocl-1")
    end(parent), end(child)


@pytest.mark.parametrize("folder", ["", "/proc/nothing/can/be/made/here"])
def test_without_a_disk_nothing_is_kept(folder):
    process = start(TAKE.format(folder=folder))
    assert process.stdout.readline().split() == ["None", "0"]
    end(process)


def test_a_folder_that_has_grown_too_large_starts_anew(tmp_path, monkeypatch):
    pytest.importorskip("fcntl", reason="there are no file locks here")
    from treadle.runtime.cl import driver_cache

    monkeypatch.setattr(driver_cache, "MOST_BYTES", 1000)
    monkeypatch.setenv("POCL_CACHE_DIR", f"{NAME}/pocl-0")
    with PrivateFolder(tmp_path).opened():
        pass
    old = tmp_path / NAME / "pocl-0" / "program"
    old.mkdir(parents=True)
    (old / "code").write_bytes(b"x" * 1001)
    driver_cache.take_folder(str(tmp_path))
    os.close(driver_cache._held.pop())
    assert (tmp_path / NAME / "pocl-0").is_dir()
    assert not old.exists()


def test_folders_that_nobody_holds_are_cleared(tmp_path):
    pytest.importorskip("fcntl", reason="there are no file locks here")
    from treadle.runtime.cl.driver_cache import clear_folders

    (first, one), (second, two) = taken(tmp_path), taken(tmp_path)
    end(second)
    clear_folders(str(tmp_path))
    assert os.path.isdir(one)
    assert not os.path.isdir(two)
    end(first)


def test_processes_that_build_one_program_at_once_all_do(tmp_path):
    try:
        Device["CL"]
    except DeviceError as error:
        pytest.skip(str(error))
    running = [start(SUMS, CACHE_DIR=str(tmp_path)) for _ in range(4)]
    assert [float(end(process)) for process in running] == pytest.approx([8] * 4)
