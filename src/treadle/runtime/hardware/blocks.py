"""Blocks of memory that devices reach: who holds one last lets it go, at whatever moment.

    block = memory.alloc(1 << 20, Where.VRAM)       # `memory` is a BlockMemory
    block.address                                   # the same for the GPU and the host

A block may be collected at any moment, also while this thread is inside of the driver. So it only
leaves its pages to its memory, which frees them when it is asked for more, or to `collect`.
"""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from treadle.runtime.hardware.failures import DriverError
from treadle.runtime.hardware.host_memory import PAGE, round_up
from treadle.runtime.hardware.platform import Platform

__all__ = ["Block", "BlockMemory", "Pages"]


@dataclass(eq=False)
class Pages:
    """What the driver and the host gave for a block, as far as it was made."""

    start: int
    nbytes: int
    handle: int = 0
    reach: list[int] = field(default_factory=list)  # the GPUs that it is mapped to


@dataclass(eq=False)
class Block:
    """`nbytes` of memory at `address`. Whoever holds it last knows that no work uses it."""

    memory: BlockMemory
    address: int
    nbytes: int
    pages: Pages

    @property
    def handle(self) -> int:
        """The driver's name of it."""
        return self.pages.handle

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        self.memory.returned.append(self.pages)
        if self.memory.is_dead and not exiting():
            self.memory.platform.at_rest(self.memory.collect)  # both are of one cycle


class BlockMemory(ABC):
    """Makes blocks on one device, and frees the pages that they leave."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.returned: deque[Pages] = deque()
        self.is_dead = False

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        self.is_dead = True
        if not exiting():
            self.platform.at_rest(self.collect)

    def collect(self) -> None:
        """Frees what blocks have left."""
        with contextlib.suppress(IndexError):  # another thread may take the last
            while self.returned:
                self.free(self.returned.popleft())

    @abstractmethod
    def alloc_own(self, nbytes: int) -> Block:
        """Memory of the device's own with undefined contents."""

    @abstractmethod
    def alloc_shared(self, nbytes: int) -> Block:
        """Memory of the host's that both see, cached nowhere."""

    def import_host(self, pointer: int, nbytes: int) -> Block:
        """Memory of this process; it has to stay mapped as long as the block lives."""
        start = pointer & -PAGE
        size = round_up(pointer + nbytes - start, PAGE)
        address = self.platform.reserve(size, PAGE)
        block = Block(self, address + pointer - start, nbytes, Pages(address, size))
        self.collect()
        self.adopt(block, start)
        return block

    @abstractmethod
    def adopt(self, block: Block, start: int) -> None:
        """Gives the device the pages of this process that begin at an address, as the block's."""

    def free(self, pages: Pages) -> None:
        """Gives pages back to the driver and the host."""
        try:
            with contextlib.suppress(DriverError):  # of a GPU that is lost, everything is
                self.let_go(pages)
        finally:
            self.platform.unmap(pages.start, pages.nbytes)

    @abstractmethod
    def let_go(self, pages: Pages) -> None:
        """Gives pages back to the driver, as far as it gave any."""
