r"""Bytes: where they come from, and what tells them apart.

    Tensor.from_url("https://...")                    -> uint8, the file's bytes
    Tensor(b"abc").keccak("sha3_256")                 -> the 32 bytes that hashlib.sha3_256 gives
    x.hash()                                          -> 16 bytes for a tensor of any size

The sponge works on all messages of a batch at once; only the blocks of one message, each of which
depends on the one before, follow each other.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, Self, TypeVar, Unpack

from ...dtype import dtypes
from ...errors import DTypeError, ShapeError
from ...helpers import read_url
from ..basis import Basis
from ..types import Made, Placement

__all__ = ["Bytes"]

_STATE = 200  # bytes of Keccak-f[1600]
_SPONGES = {"sha3_224": (144, 0x06), "sha3_256": (136, 0x06), "shake_128": (168, 0x1F)}
_LEAF, _CHUNK = 1 << 12, 1 << 20  # bytes of one leaf of `hash`, and of what becomes 16 bytes

T = TypeVar("T", bound=Basis)


class Bytes(Basis):
    """Files and hashes."""

    __slots__ = ()

    @classmethod
    def from_url(cls, url: str, gunzip: bool = False, **kwargs: Unpack[Made]) -> Self:
        """The bytes behind an http, https or file URL, as a uint8 vector; fetched at once.

        `gunzip` unpacks them, to at most UNPACK_LIMIT MiB. Raises UserError if there are none to be
        had.
        """
        return cls(read_url("from_url", url, gunzip), **kwargs)

    def keccak(self, cfg: str | tuple[int, int] = "sha3_256") -> Self:
        """The hash of each line of bytes along the last axis: uint8 (.., n) to (.., length).

        `cfg`: "sha3_224" (28 bytes), "sha3_256" (32), "shake_128" (the first 16), or a rate in
        bytes and a domain byte (FIPS 202); the length is half the capacity. Raises DTypeError,
        ShapeError.
        """
        if isinstance(cfg, str) and cfg not in _SPONGES:
            raise DTypeError(f"[keccak] {cfg!r} is not one of {', '.join(_SPONGES)}")
        rate, domain = _SPONGES[cfg] if isinstance(cfg, str) else cfg
        if self.dtype is not dtypes.uint8:
            raise DTypeError(f"[keccak] hashes bytes, not {self.dtype.name}; bitcast to uint8")
        if not self.ndim or not 0 < rate < _STATE or rate % 8:
            raise ShapeError(
                f"[keccak] needs lines of bytes and a rate of whole words below {_STATE}, not "
                f"shape {self.shape} and rate {rate}"
            )
        lead, size = self.shape[:-1], self.shape[-1]
        rows = math.prod(lead)
        blocks = size // rate + 1
        padded = self.reshape((rows, size))._padded([(0, 0), (0, blocks * rate - size)])
        place = padded._places(1)
        padded = padded.bitwise_xor(place.eq(size).where(domain, 0).cast(dtypes.uint8))
        last = place.eq(blocks * rate - 1).where(0x80, 0).cast(dtypes.uint8)
        words = padded.bitwise_xor(last).reshape((rows, blocks, rate)).bitcast(dtypes.uint64)
        words = words._padded([(0, 0), (0, 0), (0, (_STATE - rate) // 8)]).contiguous()
        state = words._filled(0).expand((rows, 25)).contiguous().realize()
        words, tables = words.realize(), _tables(type(self), self.device)
        for block in range(blocks):
            # read at a place in memory, so that all blocks are one program
            place = type(self)([block], device=self.device, dtype=dtypes.int32)
            state = state.bitwise_xor(words._pick(1, place).reshape((rows, 25)))
            state = state._permuted_state(tables).realize()
        length = (_STATE - rate) // 2
        return state.bitcast(dtypes.uint8)._slice(1, 0, length).reshape((*lead, length))

    def _permuted_state(self, tables: _Tables) -> Self:
        """Keccak-f[1600] of (rows, 25) words: 24 rounds, each computed into memory."""
        state = self
        for i in range(24):
            parity = state._column_parity()
            before, after = (parity._pick(1, lanes) for lanes in (tables.before, tables.after))
            mixed = state.bitwise_xor(before.bitwise_xor(_rotated(after, 1)))
            moved = _rotated(mixed, tables.turns)._pick(1, tables.origin).contiguous()
            ahead = moved._pick(1, tables.next).bitwise_not()
            state = moved.bitwise_xor(ahead.bitwise_and(moved._pick(1, tables.second)))
            state = state.bitwise_xor(tables.constants._slice(0, i, i + 1)).contiguous()
        return state

    def _column_parity(self) -> Self:
        total = self._slice(1, 0, 5)
        for begin in range(5, 25, 5):
            total = total.bitwise_xor(self._slice(1, begin, begin + 5))
        return total

    def hash(self) -> Self:
        """16 bytes that tell this tensor's bytes from others', as uint8 (16,); computed now.

        A tree of `keccak("shake_128")`: each 4 KiB become 16 bytes, the 256 of these of a MiB
        become 16 bytes again, and so on until one MiB holds all of them; zeros fill the last one.
        Raises DTypeError for complex numbers.
        """
        data = self.flatten().bitcast(dtypes.uint8)
        while True:
            chunks = max(-(-data.shape[0] // _CHUNK), 1)
            data = data.pad_to((chunks * _CHUNK,))
            leaves = data.reshape((-1, _LEAF)).keccak("shake_128")
            data = leaves.reshape((chunks, _LEAF)).keccak("shake_128").flatten()
            if chunks == 1:
                return data


class _Tables(NamedTuple, Generic[T]):
    """What a round looks up for each lane, number 5 y + x."""

    before: T  # the column to the left, and to the right (theta)
    after: T
    turns: T  # how far a lane turns (rho), and which lane comes to its place (pi)
    origin: T
    next: T  # the next lane of its row, and the one after that (chi)
    second: T
    constants: T  # (24, 25): what each round adds (iota)


def _tables(kind: type[T], device: Placement) -> _Tables[T]:
    import numpy as np

    lanes = [(y, x) for y in range(5) for x in range(5)]
    turns, x, y = [0] * 25, 1, 0
    for t in range(24):  # triangular numbers along a walk through the lanes
        turns[5 * y + x] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    places = [
        [(x - 1) % 5 for _, x in lanes],
        [(x + 1) % 5 for _, x in lanes],
        [5 * x + (x + 3 * y) % 5 for y, x in lanes],
        [5 * y + (x + 1) % 5 for y, x in lanes],
        [5 * y + (x + 2) % 5 for y, x in lanes],
    ]
    before, after, origin, following, second = (
        kind(row, device=device, dtype=dtypes.int32) for row in places
    )
    constants = [[constant, *[0] * 24] for constant in _round_constants()]
    far, added = (kind(np.array(data, np.uint64), device=device) for data in (turns, constants))
    return _Tables(before, after, far, origin, following, second, added)


def _rotated(words: T, by: T | int) -> T:
    """uint64 rotated to the left; a shift by 64 gives 0, so that 0 stays 0."""
    rest = 64 - by if isinstance(by, int) else by.neg().add(64)
    return words.lshift(by).bitwise_or(words.rshift(rest))


def _round_constants() -> list[int]:
    """Bit 2^j - 1 of round i is step j + 7i of a linear feedback shift register (FIPS 202)."""
    register, constants = 1, []
    for _ in range(24):
        word = 0
        for j in range(7):
            word |= (register & 1) << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(word)
    return constants
