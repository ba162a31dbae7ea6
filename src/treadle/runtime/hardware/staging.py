"""Copies between the host and a GPU through two pieces of host memory, which take turns.

staging = Staging(device)
staging.write(address, memoryview(data))      # `data` is free again on return
staging.read(memoryview(into), address)       # waits
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from treadle.runtime.hardware.blocks import Block
from treadle.runtime.hardware.host_memory import view
from treadle.runtime.hardware.timeline import Moment

__all__ = ["Copying", "Staging"]

_PIECE = 4 << 20


class Copying(Protocol):
    """What staging asks of a device."""

    def start_copy(self, target: int, source: int, nbytes: int) -> Moment:
        """Copies behind all that was started before; the moment at which it will have ended."""
        ...

    def wait(self, moment: Moment) -> None:
        """Returns when a moment has passed."""
        ...


class Staging:
    """Two pieces of memory that host and GPU share, made by `alloc` when they are first used."""

    def __init__(self, alloc: Callable[[int], Block]) -> None:
        self._alloc = alloc
        self._pieces: list[tuple[Block, Moment | None]] = []
        self._turn = 0  # the piece that was used last

    def write(self, device: Copying, address: int, data: memoryview) -> None:
        """Copies host bytes to the GPU."""
        data = data.cast("B") if data.contiguous else memoryview(data.tobytes())
        for start in range(0, data.nbytes, _PIECE):
            piece = data[start : start + _PIECE]
            number, block = self._free(device)
            block.memory.platform.will_write(block.address, piece.nbytes)
            view(block.address, piece.nbytes)[:] = piece
            moment = device.start_copy(address + start, block.address, piece.nbytes)
            self._pieces[number] = block, moment

    def read(self, device: Copying, into: memoryview, address: int) -> None:
        """Copies bytes of the GPU's to the host."""
        into = into.cast("B")
        under_way: list[tuple[int, int]] = []
        for start in range(0, into.nbytes, _PIECE):
            size = min(_PIECE, into.nbytes - start)
            number, block = self._free(device)
            self._pieces[number] = block, device.start_copy(block.address, address + start, size)
            under_way.append((number, start))
            if len(under_way) > 1:
                self._fetch(device, into, *under_way.pop(0))
        for one in under_way:
            self._fetch(device, into, *one)

    def _free(self, device: Copying) -> tuple[int, Block]:
        """One of the pieces, when no copy uses it."""
        while len(self._pieces) < 2:
            self._pieces.append((self._alloc(_PIECE), None))
        self._turn = number = 1 - self._turn
        block, moment = self._pieces[number]
        if moment is not None:
            device.wait(moment)
        return number, block

    def _fetch(self, device: Copying, into: memoryview, number: int, start: int) -> None:
        """A piece that was copied to the host."""
        block, moment = self._pieces[number]
        assert moment is not None
        device.wait(moment)
        size = min(_PIECE, into.nbytes - start)
        block.memory.platform.will_read(block.address, size)
        into[start : start + size] = view(block.address, size)
