"""What this machine has, read from a made-up tree of system files."""

import os
import sys

import pytest

from treadle.target import third_level_caches

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the files are Linux's")


def files(root, shared):
    """A tree in which each processor's third-level cache is shared by those in `shared`."""
    for cpu, others in shared.items():
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
        folder.mkdir(parents=True)
        (folder / "shared_cpu_list").write_text(others + "\n")
    return root


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


def test_cores_that_share_a_cache_have_one(tmp_path, four):
    assert third_level_caches(files(tmp_path, dict.fromkeys(range(4), "0-3"))) == 1


def test_each_group_of_cores_has_a_cache(tmp_path, four):
    assert third_level_caches(files(tmp_path, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"})) == 2


def test_a_silent_system_has_one(tmp_path, four):
    assert third_level_caches(tmp_path) == 1
