"""Blocks that are given back wait for reuse, are counted, and are freed once no work uses them."""

from __future__ import annotations

import threading

import pytest

from treadle.errors import OutOfMemory
from treadle.runtime import block_cache
from treadle.runtime.block_cache import BlockCache


class Driver:
    """Makes blocks as long as `room` is left, and notes what is asked of it."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room, self.log = room, []
        self.blocks = BlockCache(self.make, int, threading.RLock(), self.settle)

    def make(self, size: int) -> Block:
        if size > self.room:
            raise OutOfMemory(f"SOME: no memory for {size} bytes")
        self.room -= size
        self.log.append(f"make {size}")
        return Block(self, size)

    def settle(self) -> None:
        self.log.append("settle")


class Block:
    def __init__(self, driver: Driver, size: int) -> None:
        self.driver, self.size = driver, size

    def __del__(self) -> None:
        self.driver.log.append(f"free {self.size}")
        self.driver.room += self.size


def test_a_block_that_was_given_back_serves_the_next_of_its_kind():
    driver = Driver()
    first = driver.blocks.take(64)
    driver.blocks.give_back(id(first))
    assert driver.blocks.take(128) is not first
    assert driver.blocks.take(64) is first
    assert driver.log == ["make 64", "make 128"]


def test_bytes_are_counted():
    blocks = Driver().blocks
    one, two = blocks.take(64), blocks.take(128)
    blocks.give_back(id(one))
    stats = blocks.stats
    assert (stats.live, stats.cached, stats.peak) == (128, 64, 192)
    blocks.give_back(id(two))
    assert blocks.trim() == 192
    stats = blocks.stats
    assert (stats.live, stats.cached, stats.peak) == (0, 0, 192)


def test_a_block_is_freed_only_once_no_work_uses_it():
    driver = Driver()
    driver.blocks.give_back(id(driver.blocks.take(64)))
    assert driver.blocks.trim() == 64
    assert driver.blocks.trim() == 0
    assert driver.log == ["make 64", "settle", "free 64"]


def test_a_full_device_is_asked_again_once_nothing_waits():
    driver = Driver(room=100)
    driver.blocks.give_back(id(driver.blocks.take(64)))
    kept = driver.blocks.take(80)
    assert driver.log == ["make 64", "settle", "free 64", "make 80"]
    with pytest.raises(OutOfMemory, match="no memory for 64 bytes; 80 bytes are live: delete"):
        driver.blocks.take(64)
    assert kept.size == 80


def test_no_more_than_a_bound_waits(monkeypatch):
    monkeypatch.setattr(block_cache, "MAX_CACHED", 100)
    driver = Driver()
    for size in (64, 65):
        driver.blocks.give_back(id(driver.blocks.take(size)))
    assert driver.blocks.stats.cached == 0
    assert driver.log == ["make 64", "make 65", "settle", "free 64", "free 65"]
