"""Copies between the device and ordinary host memory, through pinned memory where they are large.

    staging.write(address, data)    staging.read(address, into)

The GPU copies from and to pinned memory by itself, several times as fast. Two pieces of it take
turns: while the GPU moves one, the host fills or empties the other. Each piece has a stream, so
that waiting for it waits for no more than its own copy.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.forks import fork_safe

from .driver import Event, Stream

if TYPE_CHECKING:
    from treadle.runtime.cuda.driver import Context

__all__ = ["PIECE", "SMALL", "Staging", "host_address"]

SMALL = 1 << 16  # the driver itself copies so much through memory of its own
PIECE = 4 << 20


@dataclass(frozen=True)
class _Piece:
    """Pinned memory, a stream, and an event that tells others how far the stream is."""

    address: int
    stream: Stream | None
    event: Event


class Staging:
    """Copies in the order of `stream`. One copy at a time; any thread may ask."""

    def __init__(self, context: Context, stream: Stream | None) -> None:
        self._context, self._stream = context, stream
        self._lock = fork_safe(threading.Lock())
        self._pieces: list[_Piece] = []
        self._event: Event | None = None  # made with the pieces

    def write(self, target: int, data: memoryview) -> None:
        """From the host. `data` is free again on return; the copy may go on."""
        context, host, nbytes = self._context, host_address(data), data.nbytes
        if nbytes <= SMALL:
            # The driver has read pageable memory when it returns, and `data` may be pinned.
            host = host_address(memoryview(copied := data.tobytes()))
            context.copy_in(target, host, len(copied), self._stream)
            return
        with self._lock:
            used, event = self._pieces_behind_stream()
            for number, start in enumerate(range(0, nbytes, PIECE)):
                piece, size = used[number % 2], min(PIECE, nbytes - start)
                context.wait_stream(piece.stream)  # its own last copy, not yet the device's work
                ctypes.memmove(piece.address, host + start, size)
                context.wait_event(piece.stream, event)
                context.copy_in(target + start, piece.address, size, piece.stream)
            for piece in used:
                context.record(piece.event, piece.stream)
                context.wait_event(self._stream, piece.event)

    def read(self, into: memoryview, source: int) -> None:
        """To the host, after what is on the stream."""
        context, host, nbytes = self._context, host_address(into), into.nbytes
        if nbytes <= SMALL:
            context.copy_out(host, source, nbytes, self._stream)
            context.wait_stream(self._stream)  # `into` may be pinned: then it is not there yet
            return
        with self._lock:
            used, event = self._pieces_behind_stream()
            starts = range(0, nbytes, PIECE)
            for number in range(len(starts) + 1):
                if number < len(starts):
                    size = min(PIECE, nbytes - starts[number])
                    piece = used[number % 2]
                    context.wait_event(piece.stream, event)
                    context.copy_out(piece.address, source + starts[number], size, piece.stream)
                if number > 0:
                    start, piece = starts[number - 1], used[(number - 1) % 2]
                    context.wait_stream(piece.stream)
                    ctypes.memmove(host + start, piece.address, min(PIECE, nbytes - start))

    def _pieces_behind_stream(self) -> tuple[list[_Piece], Event]:
        """Both pieces; what waits for the event comes after what is on the device's stream now."""
        context, event = self._context, self._event
        if event is None or not self._pieces:
            event = self._event = context.new_event(False)
            self._pieces = [
                _Piece(context.alloc_pinned(PIECE), context.new_stream(), context.new_event(False))
                for _ in range(2)
            ]
        context.record(event, self._stream)
        return self._pieces, event


def host_address(data: memoryview) -> int:
    """Where the bytes of `data` are."""
    import numpy as np

    return np.frombuffer(data, np.uint8).ctypes.data
