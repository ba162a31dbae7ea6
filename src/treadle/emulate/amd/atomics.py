"""Atomics of lanes: in global memory, by flat addresses, in buffers and in LDS.

    global_atomic_add_u32 v1, v[2:3], v4, off glc    what was there goes to v1

Where a second operand is compared with, buffers and flat memory have it behind the first one. LDS
has it as an operand of its own, which before gfx11 stands first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.memory import Memory, memory_of, shared_at, stored, two_places, where
from treadle.emulate.simt.accesses import read_modify_write
from treadle.emulate.simt.atomics import atomic_function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.amd.operands import Operand
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []

_INTEGERS = ("add", "sub", "inc", "dec")
_BITS = {"and": "and", "or": "or", "xor": "xor", "swap": "exch", "cmpswap": "cas"}
# Names behind `atomic_`: the core's operation and kind.
_EVERYWHERE = {
    **{f"{name}_u{bits}": (name, f"u{bits}") for name in _INTEGERS for bits in (32, 64)},
    **{f"{name}_b{bits}": (of, f"b{bits}") for name, of in _BITS.items() for bits in (32, 64)},
    **{
        f"{name}_{letter}{bits}": (name, f"{'s' if letter == 'i' else 'u'}{bits}")
        for name in ("min", "max") for letter in "iu" for bits in (32, 64)
    },
    **{f"{name}_f{bits}": (f"f{name}", f"f{bits}") for name in ("min", "max") for bits in (32, 64)},
    **{f"add_f{bits}": ("add", f"f{bits}") for bits in (32, 64)},
    **{f"cmpswap_f{bits}": ("fcas", f"f{bits}") for bits in (32, 64)},
    "pk_add_f16": ("add", "f16x2"), "pk_add_bf16": ("add", "bf16x2"),
    "csub_u32": ("sub_clamp", "u32"), "sub_clamp_u32": ("sub_clamp", "u32"),
    "cond_sub_u32": ("cond_sub", "u32"),
}  # fmt: skip
_OF_LDS = {
    **{f"rsub_u{bits}": ("rsub", f"u{bits}") for bits in (32, 64)},
    **{f"mskor_b{bits}": ("mskor", f"b{bits}") for bits in (32, 64)},
    "wrap_b32": ("wrap", "u32"),
}
_COMPARING = ("cas", "fcas")
_WITH_TWO = (*_COMPARING, "mskor", "wrap")


def _bits(kind: str) -> int:
    return 64 if "64" in kind else 32


def _value(w: Wave, of: Operand, bits: int, first: int = 0) -> str:
    """A value of 32 or 64 bits from an operand's register `first` on."""
    parts = [w.lanes_of(of, first + i) for i in range(bits // 32)]
    return parts[0] if bits == 32 else w.x.pair(*parts)


def _update(w: Wave, memory: Memory, operation: str, kind: str, operands: Sequence[str]) -> str:
    """Changes memory; gives what was there."""
    function = atomic_function(w.e, operation, kind)
    if function is None:
        raise ValueError(f"no atomic {operation} of {kind}")
    bits = _bits(kind)
    address, mask = memory.at(0, bits // 8)
    found = read_modify_write(w.e, function, memory.space, address, bits, *operands, mask=mask)
    return where(w, mask, bits, found)


def _atomic(space: str, name: str, operation: str, kind: str) -> None:
    @MEANINGS.of(f"{space}_atomic_{name}")
    def meaning(w: Wave) -> None:
        bits, of = _bits(kind), stored(w, space)
        operands = [_value(w, of, bits)]
        if operation in _COMPARING:
            operands.insert(0, _value(w, of, bits, bits // 32))
        found = _update(w, memory_of(w, space), operation, kind, operands)
        if "vdst" in w.item.operands:
            w.set_bits(bits, found)
        elif space == "buffer" and w.item.modifiers.get("cpol", 0) & 1:
            w.set_bits(bits, found, "vdata")


def _atomic_of_lds(name: str, operation: str, kind: str) -> None:
    plain, number = name.rsplit("_", 1)

    @MEANINGS.of(f"ds_{name}", f"ds_{plain}_rtn_{number}")
    def meaning(w: Wave) -> None:
        bits = _bits(kind)
        names = ["data0", "data1"] if operation in _WITH_TWO else ["data0"]
        if operation in _COMPARING and w.chip.generation >= 11:
            names.reverse()
        operands = [_value(w, w.item.operands[name], bits) for name in names]
        found = _update(w, memory_of(w, "ds"), operation, kind, operands)
        if "vdst" in w.item.operands:
            w.set_bits(bits, found)


for _name, (_operation, _kind) in _EVERYWHERE.items():
    for _space in ("global", "flat", "buffer"):
        _atomic(_space, _name, _operation, _kind)
    _short = _name.replace("cmpswap", "cmpstore").replace("swap", "storexchg")
    if not _name.startswith("csub"):
        _atomic_of_lds(_short, _operation, _kind)
for _name, (_operation, _kind) in _OF_LDS.items():
    _atomic_of_lds(_name, _operation, _kind)


def _exchange_two(bits: int, stride: int) -> None:
    @MEANINGS.of(f"ds_storexchg_2addr_{'stride64_' if stride > 1 else ''}rtn_b{bits}")
    def meaning(w: Wave) -> None:
        """What was at both places goes to registers behind each other."""
        words, to, found = bits // 32, w.item.operands["vdst"], []
        for memory, name in zip(two_places(w, words, stride), ("data0", "data1"), strict=True):
            value = _value(w, w.item.operands[name], bits)
            before = _update(w, memory, "exch", f"b{bits}", [value])
            found += [before] if words == 1 else w.x.halves(before)
        for part, value in enumerate(found):
            w.set_vector(to, value, part)


for _width in (32, 64):
    for _stride in (1, 64):
        _exchange_two(_width, _stride)


def _count_lanes(name: str, operation: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        """Adds or takes away as many as lanes act, at one place; each lane gets what was there."""
        e, mask = w.e, w.e.machine.mask
        lanes = e.intrinsic(f"llvm.ctpop.{mask}", mask, f"{mask} {e.mask_bits}")
        count = w.s.resize(w.mask_kind, "u32", lanes)
        at = w.s.op("u32", "add", w.scalar(w.chip.m0), str(w.item.modifiers.get("offset", 0)))
        memory = shared_at(w, w.spread("u32", at))
        first = e.op(f"and {mask} {e.mask_bits}, {e.op(f'sub {mask} 0, {e.mask_bits}')}")
        function = atomic_function(e, operation, "u32")
        address, _ = memory.at(0, 4)
        found = read_modify_write(
            e, function or "", memory.space, address, 32, w.spread("u32", count), mask=first
        )
        lane = e.first_lane(e.mask_bits)
        safe = e.op(f"urem i32 {lane}, {w.width}")
        before = e.op(f"extractelement {e.lanes('i32')} {found}, i32 {safe}")
        w.set_bits(32, w.spread("u32", before))


_count_lanes("ds_append", "add")
_count_lanes("ds_consume", "sub")
