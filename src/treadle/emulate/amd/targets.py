"""Addresses that code computes of its own place: where calls and jumps by registers may lead.

    s_getpc_b64 s[18:19]; s_add_u32 s18, s18, 0x40; s_addc_u32 s19, s19, 0
    constants.pair(s[18:19])  ->  the address

Only what straight code leaves known is. It tells which code is to be translated: a wave goes where
its registers say, and where nothing was translated that is a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.amd.operands import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.amd.decode import Instruction
    from treadle.emulate.amd.operands import Operand

__all__ = ["Constants"]

_WORD = 0xFFFFFFFF
_ADDS = ("s_add_u32", "s_addc_u32", "s_add_nc_u64", "s_add_u64")


class Constants:
    """Scalar registers whose values are known. `read(address)` gives 64 bits of memory,
    or None where none may be read.

    `seen` are all addresses that were computed from the program counter.
    """

    def __init__(self, read: Callable[[int], int | None]) -> None:
        self._read = read
        self._known: dict[int, int] = {}
        self._carry = 0
        self.seen: set[int] = set()

    def copy(self) -> Constants:
        """The same for another way; both add to what was seen."""
        made = Constants(self._read)
        made._known, made._carry, made.seen = dict(self._known), self._carry, self.seen
        return made

    def pair(self, of: Operand) -> set[int]:
        """The address that two registers hold, if that is known."""
        value = self._value(of, 64)
        return set() if value is None else {value}

    def see(self, name: str, address: int, item: Instruction) -> None:
        """What an instruction makes of what is known."""
        # v_readfirstlane and the like write a scalar as `vdst`.
        to = item.operands.get("sdst") or item.operands.get("vdst")
        if to is None or to.kind is not Kind.SGPR:
            return
        value = self._result(name, address, item)
        for part in range(to.count):
            self._known.pop(to.index + part, None)
            if value is not None:
                self._known[to.index + part] = value >> 32 * part & _WORD
        if value is not None and (name in _ADDS or name.startswith("s_load")):
            self._note(to.index)

    def _note(self, index: int) -> None:
        first = index & -2
        if {first, first + 1} <= self._known.keys():
            self.seen.add(self._known[first] | self._known[first + 1] << 32)

    def _value(self, of: Operand, bits: int = 32) -> int | None:
        if of.kind in (Kind.CONSTANT, Kind.LITERAL):
            return of.value & (1 << bits) - 1
        registers = range(of.index, of.index + bits // 32)
        if of.kind is not Kind.SGPR or not all(n in self._known for n in registers):
            return None
        return sum(self._known[n] << 32 * part for part, n in enumerate(registers))

    def _result(self, name: str, address: int, item: Instruction) -> int | None:
        if name == "s_getpc_b64":
            return address + item.size
        bits = 64 if name.endswith("64") else 32
        if name == "s_load_b64":
            return self._loaded(item)
        sources = [self._value(of, bits) for key, of in item.operands.items() if "src" in key]
        values = [value for value in sources if value is not None]
        if not values or len(values) < len(sources):
            return None
        if name in ("s_mov_b32", "s_mov_b64"):
            return values[0]
        if name == "s_sext_i32_i16":
            return ((values[0] & 0xFFFF ^ 0x8000) - 0x8000) & _WORD
        if name not in _ADDS:
            return None
        total = sum(values) + (self._carry if name == "s_addc_u32" else 0)
        self._carry = total >> bits
        return total & (1 << bits) - 1

    def _loaded(self, item: Instruction) -> int | None:
        """An address in a table, as linkers make them."""
        base = self._value(item.operands["sbase"], 64)
        more = item.operands.get("soffset")
        if base is None or (more is not None and more.kind is Kind.SGPR):
            return None
        return self._read(base + item.modifiers.get("offset", 0))
