"""Matrix instructions: WMMA of gfx11 and gfx12, MFMA of CDNA.

Where elements lie is in AMD's manuals of the instruction sets (RDNA3 and RDNA4: "WMMA matrix data
layout", CDNA: "matrix element storage"). A map gives an element's lane and its place among the
lane's values. Products are summed in order of k: floats of 16 bits in float64 and rounded at the
end, those of 32 in fused steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.wave import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.amd.operands import Operand
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []

Map = Callable[[int, int], tuple[int, int]]  # (row or column, k) or (row, column) -> lane, place
_SIDE = 16


@dataclass(frozen=True)
class _Unit:
    """D = A x B + C of 16 rows and columns and `depth` products a sum."""

    depth: int
    kind: str  # of A and B
    factor: Map  # of A by row and k, and of B by column and k
    total: Map


def _registers(unit: _Unit, *, of_total: bool) -> int:
    """How many registers a matrix takes."""
    places = [unit.total(i, j)[1] for i in range(_SIDE) for j in range(_SIDE)]
    if not of_total:
        places = [unit.factor(i, k)[1] for i in range(_SIDE) for k in range(unit.depth)]
    bits = 32 if of_total else _bits(unit.kind)
    return (max(places) + 1) * bits // 32


def _bits(kind: str) -> int:
    return int(kind.lstrip("ufbi"))


def _table(name: str, offsets: list[int]) -> str:
    values = ", ".join(f"i32 {offset}" for offset in offsets)
    return f"@{name} = private constant [{len(offsets)} x i32] [{values}]\n"


def _offset(width: int, lane: int, place: int, bits: int) -> int:
    """Bytes from where registers of all lanes lie, one behind the other."""
    at = place * bits // 8
    return (at // 4 * width + lane) * 4 + at % 4


_AS_DOUBLE = {
    "f16": "  %{n}h = load half, ptr %{n}p\n  %{n} = fpext half %{n}h to double",
    "bf16": "  %{n}r = load i16, ptr %{n}p\n  %{n}w = zext i16 %{n}r to i32\n"
            "  %{n}s = shl i32 %{n}w, 16\n  %{n}f = bitcast i32 %{n}s to float\n"
            "  %{n} = fpext float %{n}f to double",
    "f32": "  %{n} = load float, ptr %{n}p",
    "i8": "  %{n}r = load i8, ptr %{n}p\n  %{n} = sext i8 %{n}r to i32",
    "u8": "  %{n}r = load i8, ptr %{n}p\n  %{n} = zext i8 %{n}r to i32",
}  # fmt: skip
_STEPS = {
    "double": "  %product = fmul double %x, %y\n  %next = fadd double %sum, %product",
    "float": "  %next = call float @llvm.fma.f32(float %x, float %y, float %sum)",
    "i32": "  %product = mul i32 %x, %y\n  %next = add i32 %sum, %product",
}


def _function(w: Wave, unit: _Unit, name: str, kinds: tuple[str, str]) -> str:
    """A function (ptr %a, ptr %b, ptr %d) that adds the product to what is at %d."""
    side, width, bits = range(_SIDE), w.width, _bits(unit.kind)
    factors = [_offset(width, *unit.factor(i, k), bits) for i in side for k in range(unit.depth)]
    totals = [_offset(width, *unit.total(i, j), 32) for i in side for j in side]
    work = {"f32": "float", "i8": "i32", "u8": "i32"}.get(unit.kind, "double")
    if work == "i32":
        start, finish = "  %first = load i32, ptr %dp", "  %final = add i32 %sum, 0"
    elif work == "float":
        w.e.need("llvm.fma.f32", "declare float @llvm.fma.f32(float, float, float)")
        start = "  %first = load float, ptr %dp"
        finish = "  %final = fadd float %sum, -0.0"
    else:
        start = "  %dv = load float, ptr %dp\n  %first = fpext float %dv to double"
        finish = "  %final = fptrunc double %sum to float"
    stored = "i32" if work == "i32" else "float"
    loads = "\n".join(
        _AS_DOUBLE[kind].replace("{n}", letter) for kind, letter in zip(kinds, "xy", strict=True)
    )
    return w.e.need(
        name,
        _table(f"{name}.factors", factors)
        + _table(f"{name}.totals", totals)
        + f"""define internal void @{name}(ptr %a, ptr %b, ptr %d) noinline {{
entry:
  br label %element
element:
  %n = phi i32 [0, %entry], [%n.next, %done]
  %dt = getelementptr i32, ptr @{name}.totals, i32 %n
  %do = load i32, ptr %dt
  %dp = getelementptr i8, ptr %d, i32 %do
{start}
  %i = lshr i32 %n, 4
  %j = and i32 %n, 15
  %ib = mul i32 %i, {unit.depth}
  %jb = mul i32 %j, {unit.depth}
  br label %step
step:
  %k = phi i32 [0, %element], [%k.next, %step]
  %sum = phi {work} [%first, %element], [%next, %step]
  %ik = add i32 %ib, %k
  %jk = add i32 %jb, %k
  %xt = getelementptr i32, ptr @{name}.factors, i32 %ik
  %yt = getelementptr i32, ptr @{name}.factors, i32 %jk
  %xo = load i32, ptr %xt
  %yo = load i32, ptr %yt
  %xp = getelementptr i8, ptr %a, i32 %xo
  %yp = getelementptr i8, ptr %b, i32 %yo
{loads}
{_STEPS[work]}
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, {unit.depth}
  br i1 %more, label %step, label %done
done:
{finish.replace("%sum", "%next")}
  store {stored} %final, ptr %dp
  %n.next = add i32 %n, 1
  %rest = icmp ult i32 %n.next, {_SIDE * _SIDE}
  br i1 %rest, label %element, label %end
end:
  ret void
}}
""",
    )


def _spill(w: Wave, of: Operand, count: int, area: str, *, is_constant: bool = False) -> str:
    """Puts registers where a function finds them."""
    place = w.e.warp_field(area)
    for part in range(count):
        value = w.lanes_of(of, 0 if is_constant else part)
        at = w.e.op(f"getelementptr i8, ptr {place}, i64 {4 * w.width * part}")
        w.e.do(f"store {w.e.lanes('i32')} {value}, ptr {at}, align 4")
    return place


def _multiply(w: Wave, unit: _Unit) -> None:
    m, operands = w.item.modifiers, w.item.operands
    if m.get("clamp") or m.get("cbsz") or m.get("abid") or m.get("blgp"):
        raise Unsupported(f"{w.item.operation} with clamp, cbsz, abid or blgp")
    signs = m.get("neg_lo", 0)
    kinds = (unit.kind, unit.kind)
    if unit.kind == "i8" and w.name.endswith("iu8"):
        kinds = ("i8" if signs & 1 else "u8", "i8" if signs & 2 else "u8")
    elif signs or m.get("neg_hi"):
        raise Unsupported(f"{w.item.operation} with neg")
    factors, totals = (_registers(unit, of_total=flag) for flag in (False, True))
    third = operands.get("src2") or operands["vdst"]
    is_constant = third.kind.name in ("CONSTANT", "LITERAL")
    a = _spill(w, operands["src0"], factors, "matrix_a")
    b = _spill(w, operands["src1"], factors, "matrix_b")
    d = _spill(w, third, totals, "matrix_d", is_constant=is_constant)
    name = f"{w.name}_{w.chip.generation}_{kinds[0]}_{kinds[1]}"
    function = _function(w, unit, name, kinds)
    # EXEC does not matter.
    w.e.do(f"call void {function}(ptr {a}, ptr {b}, ptr {d})")
    to = operands["vdst"]
    letter = "a" if to.kind.name == "AGPR" else "v"
    for part in range(totals):
        at = w.e.op(f"getelementptr i8, ptr {d}, i64 {4 * w.width * part}")
        value = w.e.op(f"load {w.e.lanes('i32')}, ptr {at}, align 4")
        w.registers.write(f"{letter}{to.index + part}", value)


# -- where elements lie


def _wmma11(depth: int, kind: str) -> _Unit:
    """Both halves of the wave hold A and B; rows alternate between the halves."""
    return _Unit(depth, kind, lambda i, k: (i, k), lambda i, j: (j + i % 2 * 16, i // 2))


def _wmma12(depth: int, kind: str) -> _Unit:
    """Each half of the wave holds half of the k, and half of the rows."""
    half = depth // 2
    return _Unit(
        depth, kind,
        lambda i, k: (i + k // half * 16, k % half), lambda i, j: (j + i // 8 * 16, i % 8),
    )  # fmt: skip


def _mfma(depth: int, kind: str) -> _Unit:
    """Four groups of 16 lanes hold a quarter of the k each, and four rows each."""
    part = depth // 4
    return _Unit(
        depth, kind,
        lambda i, k: (i + k // part * 16, k % part), lambda i, j: (j + i // 4 * 16, i % 4),
    )  # fmt: skip


_WMMA = (("f32_16x16x16_f16", 16, "f16"), ("f32_16x16x16_bf16", 16, "bf16"),
         ("i32_16x16x16_iu8", 16, "i8"))  # fmt: skip
_MFMA = (
    ("f32_16x16x4_f32", 4, "f32"), ("f32_16x16x16_f16", 16, "f16"),
    ("f32_16x16x16_bf16", 16, "bf16"), ("i32_16x16x32_i8", 32, "i8"),
    # As gfx90a calls them.
    ("f32_16x16x4f32", 4, "f32"), ("f32_16x16x16f16", 16, "f16"),
    ("f32_16x16x16bf16_1k", 16, "bf16"), ("i32_16x16x16i8", 16, "i8"),
)  # fmt: skip


def _add_wmma(name: str, depth: int, kind: str) -> None:
    @MEANINGS.of(f"v_wmma_{name}")
    def meaning(w: Wave) -> None:
        if w.width != 32:
            raise Unsupported("WMMA in waves of 64 lanes")
        make = _wmma11 if w.chip.generation == 11 else _wmma12
        _multiply(w, make(depth, kind))


def _add_mfma(name: str, depth: int, kind: str) -> None:
    @MEANINGS.of(f"v_mfma_{name}")
    def meaning(w: Wave) -> None:
        _multiply(w, _mfma(depth, kind))


for _row in _WMMA:
    _add_wmma(*_row)
for _row in _MFMA:
    _add_mfma(*_row)
