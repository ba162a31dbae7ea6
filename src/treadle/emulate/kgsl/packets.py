"""Words of a command buffer to packets: type 4 writes registers, type 7 has an opcode.

    for packet in packets(words):
        packet.opcode, packet.words

The first word has a bit for each of its two numbers that makes their count of ones odd.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.emulate.kgsl.faults import KernelFault

__all__ = ["Packet", "packets"]


class Packet(NamedTuple):
    """Words behind the first one. Without an opcode they are for registers from one on."""

    opcode: int | None
    register: int
    words: Sequence[int]


def packets(words: Sequence[int]) -> Iterator[Packet]:
    """The packets, one behind the other. Raises KernelFault for what is none."""
    at = 0
    while at < len(words):
        head = words[at]
        count, opcode, register = _split(head)
        found = words[at + 1 : at + 1 + count]
        if len(found) < count:
            raise KernelFault(f"the packet {head:#010x} goes on behind its buffer's end")
        yield Packet(opcode, register, found)
        at += 1 + count


def _split(head: int) -> tuple[int, int | None, int]:
    """How many words follow, an opcode or None, and a register."""
    if head >> 28 == 4:
        count, register = head & 0x7F, head >> 8 & 0x3FFFF
        _check(head, (count, head >> 7), (register, head >> 27))
        return count, None, register
    if head >> 28 == 7:
        count, opcode = head & 0x3FFF, head >> 16 & 0x7F
        _check(head, (count, head >> 15), (opcode, head >> 23))
        return count, opcode, 0
    raise KernelFault(f"there is no packet of type {head >> 28}: {head:#010x}")


def _check(head: int, *pairs: tuple[int, int]) -> None:
    for value, bit in pairs:
        if (value.bit_count() + (bit & 1)) % 2 == 0:
            raise KernelFault(f"the packet {head:#010x} has a wrong parity")
