"""The function of a matrix instruction: a loop over the sums, in tables of where elements lie.

Sums start at C and take products in order of k: of 32 and of 64 bits in fused steps, of shorter
floats in float64, which is rounded at the end, of integers exactly. Scales are powers of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.amd.matrix_layouts import BITS, Unit
from treadle.emulate.amd.small_floats import small_float, table_of, table_of_e2m1

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__ = ["product_function"]

_XF32 = -1 << 13  # the bits of a float32 that xf32 has: the others are cut off
_WORK = {"f32": "float", "i8": "i64", "u8": "i64", "i4": "i64", "u4": "i64"}


def _table(name: str, offsets: list[int]) -> str:
    values = ", ".join(f"i32 {offset}" for offset in offsets)
    return f"@{name} = private constant [{len(offsets)} x i32] [{values}]\n"


def _offset(width: int, place: tuple[int, int], bits: int) -> int:
    """Bits from where registers of all lanes lie, one behind the other."""
    lane, number = place
    at = number * bits
    return (at // 32 * width + lane) * 32 + at % 32


def _loaded(w: Wave, kind: str, name: str) -> str:
    """Lines that make %`name` of the number `%name.o` bits behind %`name.m`."""
    text = f"""  %{name}.b = lshr i32 %{name}.o, 3
  %{name}.p = getelementptr i8, ptr %{name}.m, i32 %{name}.b
"""
    half_byte = f"""  %{name}.r = load i8, ptr %{name}.p
  %{name}.h = and i32 %{name}.o, 4
  %{name}.s = trunc i32 %{name}.h to i8
  %{name}.v = lshr i8 %{name}.r, %{name}.s
"""
    if kind in ("i4", "u4"):
        return (
            text
            + half_byte
            + f"""  %{name}.n = trunc i8 %{name}.v to i4
  %{name} = {"sext" if kind == "i4" else "zext"} i4 %{name}.n to i64"""
        )
    if kind in ("i8", "u8"):
        return (
            text
            + f"""  %{name}.r = load i8, ptr %{name}.p
  %{name} = {"sext" if kind == "i8" else "zext"} i8 %{name}.r to i64"""
        )
    if kind in ("fp8", "bf8"):
        table = table_of(w.e, small_float(w.chip, kind))
        return (
            text
            + f"""  %{name}.r = load i8, ptr %{name}.p
  %{name}.i = zext i8 %{name}.r to i32
  %{name}.t = getelementptr float, ptr {table}, i32 %{name}.i
  %{name}.f = load float, ptr %{name}.t
  %{name} = fpext float %{name}.f to double"""
        )
    if kind == "fp4":
        return (
            text
            + half_byte
            + f"""  %{name}.n = and i8 %{name}.v, 15
  %{name}.i = zext i8 %{name}.n to i32
  %{name}.t = getelementptr float, ptr {table_of_e2m1(w.e)}, i32 %{name}.i
  %{name}.f = load float, ptr %{name}.t
  %{name} = fpext float %{name}.f to double"""
        )
    if kind == "f16":
        return (
            text
            + f"""  %{name}.r = load half, ptr %{name}.p
  %{name} = fpext half %{name}.r to double"""
        )
    if kind == "bf16":
        return (
            text
            + f"""  %{name}.r = load i16, ptr %{name}.p
  %{name}.w = zext i16 %{name}.r to i32
  %{name}.s = shl i32 %{name}.w, 16
  %{name}.f = bitcast i32 %{name}.s to float
  %{name} = fpext float %{name}.f to double"""
        )
    if kind == "f64":
        return text + _two_words(w, name) + f"  %{name} = bitcast i64 %{name}.v to double"
    if kind == "xf32":
        return (
            text
            + f"""  %{name}.r = load i32, ptr %{name}.p
  %{name}.c = and i32 %{name}.r, {_XF32}
  %{name}.f = bitcast i32 %{name}.c to float
  %{name} = fpext float %{name}.f to double"""
        )
    return text + f"  %{name} = load float, ptr %{name}.p"


def _two_words(w: Wave, name: str) -> str:
    """Lines that make 64 bits of a word and the same lane's next one."""
    return f"""  %{name}.l = load i32, ptr %{name}.p
  %{name}.q = getelementptr i32, ptr %{name}.p, i32 {w.width}
  %{name}.h = load i32, ptr %{name}.q
  %{name}.x = zext i32 %{name}.l to i64
  %{name}.y = zext i32 %{name}.h to i64
  %{name}.z = shl i64 %{name}.y, 32
  %{name}.v = or i64 %{name}.x, %{name}.z
"""


_STEPS = {
    "double": "  %product = fmul double %x, %y\n  %next = fadd double %sum, %product",
    "scaled": "  %exact = fmul double %x, %y\n  %product = fmul double %exact, %scale\n"
    "  %next = fadd double %sum, %product",
    "float": "  %next = call float @llvm.fma.f32(float %x, float %y, float %sum)",
    "f64": "  %next = call double @llvm.fma.f64(double %x, double %y, double %sum)",
    "i64": "  %product = mul i64 %x, %y\n  %next = add i64 %sum, %product",
}


def _scale(w: Wave, unit: Unit) -> str:
    """Lines that make %scale of the bytes at %picks: one register for A, and one for B.

    2 ** (byte - 127) of each, so that the exponent of both is that of a normal float64. 255 is NaN.
    """
    return f"""  %group = lshr i32 %k, 5
  %from = mul i32 %group, {unit.side}
  %sa.l = add i32 %from, %i
  %sb.m = add i32 %from, %column
  %sb.l = add i32 %sb.m, {w.width}
  %sa.p = getelementptr i32, ptr %picks, i32 %sa.l
  %sb.p = getelementptr i32, ptr %picks, i32 %sb.l
  %sa = load i32, ptr %sa.p
  %sb = load i32, ptr %sb.p
  %sa.n = icmp eq i32 %sa, 255
  %sb.n = icmp eq i32 %sb, 255
  %s.n = or i1 %sa.n, %sb.n
  %s.e = add i32 %sa, %sb
  %s.b = add i32 %s.e, {1023 - 2 * 127}
  %s.w = zext i32 %s.b to i64
  %s.i = shl i64 %s.w, 52
  %s.f = bitcast i64 %s.i to double
  %scale = select i1 %s.n, double 0x7FF8000000000000, double %s.f
"""


def _started(w: Wave, total: str, work: str) -> str:
    """Lines that make %first of what is at %c.p."""
    if total == "f64":
        return _two_words(w, "c") + "  %first = bitcast i64 %c.v to double"
    if total == "i32":
        return "  %c.v = load i32, ptr %c.p\n  %first = sext i32 %c.v to i64"
    if work == "float":
        return "  %first = load float, ptr %c.p"
    if total == "f32":
        return "  %c.v = load float, ptr %c.p\n  %first = fpext float %c.v to double"
    if total == "f16":
        return "  %c.v = load half, ptr %c.p\n  %first = fpext half %c.v to double"
    return """  %c.r = load i16, ptr %c.p
  %c.w = zext i16 %c.r to i32
  %c.s = shl i32 %c.w, 16
  %c.f = bitcast i32 %c.s to float
  %first = fpext float %c.f to double"""


def _finished(w: Wave, total: str, work: str, clamps: bool) -> str:
    """Lines that put %next at %c.p."""
    if total == "f64":
        return f"""  %d.b = bitcast double %next to i64
  %d.l = trunc i64 %d.b to i32
  %d.s = lshr i64 %d.b, 32
  %d.h = trunc i64 %d.s to i32
  %d.q = getelementptr i32, ptr %c.p, i32 {w.width}
  store i32 %d.l, ptr %c.p
  store i32 %d.h, ptr %d.q"""
    if total == "i32":
        bounded = """  %d.u = call i64 @llvm.smin.i64(i64 %next, i64 2147483647)
  %d.c = call i64 @llvm.smax.i64(i64 %d.u, i64 -2147483648)
"""
        if clamps:
            for how in ("smin", "smax"):
                w.e.need(f"llvm.{how}.i64", f"declare i64 @llvm.{how}.i64(i64, i64)")
        value = "%d.c" if clamps else "%next"
        return f"""{bounded if clamps else ""}  %d.v = trunc i64 {value} to i32
  store i32 %d.v, ptr %c.p"""
    if work == "float":
        return "  store float %next, ptr %c.p"
    single = "  %d.v = fptrunc double %next to float\n"
    if total == "f32":
        return single + "  store float %d.v, ptr %c.p"
    if total == "f16":
        return single + "  %d.h = fptrunc float %d.v to half\n  store half %d.h, ptr %c.p"
    return (
        single
        + """  %d.b = bitcast float %d.v to i32
  %d.t = lshr i32 %d.b, 16
  %d.o = and i32 %d.t, 1
  %d.r = add i32 %d.o, 32767
  %d.a = add i32 %d.b, %d.r
  %d.u = lshr i32 %d.a, 16
  %d.n = fcmp uno float %d.v, %d.v
  %d.q = select i1 %d.n, i32 32704, i32 %d.u
  %d.h = trunc i32 %d.q to i16
  store i16 %d.h, ptr %c.p"""
    )


def product_function(w: Wave, unit: Unit, name: str, clamps: bool) -> str:
    """A function of places of A, B and D that adds the product to D.

    %picks and %key are where bits that pick from a sparse A lie, and the first one; or %picks is
    where scales lie.
    """
    side, blocks, width = range(unit.side), range(unit.blocks), w.width
    stored, depth = unit.stored, unit.depth
    tables = {
        "a": [_offset(width, unit.left(i, k, block), BITS[unit.kinds[0]])
              for block in blocks for i in side for k in range(stored)],
        "b": [_offset(width, unit.right(j, k, block), BITS[unit.kinds[1]])
              for block in blocks for j in side for k in range(depth)],
        "d": [_offset(width, unit.sums(i, j, block), unit.total_bits)
              for block in blocks for i in side for j in side],
    }  # fmt: skip
    work = "f64" if unit.total == "f64" else _WORK.get(unit.kinds[0], "double")
    value = "double" if work == "f64" else work
    if work in ("f64", "float"):
        kind, bits = (value, 64 if work == "f64" else 32)
        w.e.need(f"llvm.fma.f{bits}", f"declare {kind} @llvm.fma.f{bits}({kind}, {kind}, {kind})")
    pick = "  %kk = add i32 %k, 0"
    if unit.is_sparse:
        tables["k"] = [_offset(width, unit.left(i, k, 0), 2) for i in side for k in range(stored)]
        pick = f"""  %kt = getelementptr i32, ptr @{name}.k, i32 %ik
  %ko = load i32, ptr %kt
  %kw = lshr i32 %ko, 5
  %kp = getelementptr i32, ptr %picks, i32 %kw
  %kv = load i32, ptr %kp
  %kl = and i32 %ko, 31
  %kn = add i32 %kl, %key
  %ks = lshr i32 %kv, %kn
  %kc = and i32 %ks, 3
  %kg = lshr i32 %k, 1
  %kf = shl i32 %kg, 2
  %kk = or i32 %kf, %kc"""
    return w.e.need(
        name,
        "".join(_table(f"{name}.{letter}", table) for letter, table in tables.items())
        + f"""define internal void @{name}(ptr %a, ptr %b, ptr %d, ptr %picks, i32 %key) noinline {{
entry:
  br label %element
element:
  %n = phi i32 [0, %entry], [%n.next, %done]
  %c.t = getelementptr i32, ptr @{name}.d, i32 %n
  %c.o = load i32, ptr %c.t
  %c.b = lshr i32 %c.o, 3
  %c.p = getelementptr i8, ptr %d, i32 %c.b
{_started(w, unit.total, work)}
  %i = udiv i32 %n, {unit.side}
  %block = udiv i32 %n, {unit.side * unit.side}
  %before = mul i32 %block, {unit.side}
  %column = urem i32 %n, {unit.side}
  %j = add i32 %before, %column
  %ib = mul i32 %i, {stored}
  %jb = mul i32 %j, {depth}
  br label %step
step:
  %k = phi i32 [0, %element], [%k.next, %step]
  %sum = phi {value} [%first, %element], [%next, %step]
  %ik = add i32 %ib, %k
{pick}
  %jk = add i32 %jb, %kk
  %xt = getelementptr i32, ptr @{name}.a, i32 %ik
  %yt = getelementptr i32, ptr @{name}.b, i32 %jk
  %x.o = load i32, ptr %xt
  %y.o = load i32, ptr %yt
{_loaded(w, unit.kinds[0], "x").replace("%x.m", "%a")}
{_loaded(w, unit.kinds[1], "y").replace("%y.m", "%b")}
{_scale(w, unit) if unit.is_scaled else ""}{_STEPS["scaled" if unit.is_scaled else work]}
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, {stored}
  br i1 %more, label %step, label %done
done:
{_finished(w, unit.total, work, clamps)}
  %n.next = add i32 %n, 1
  %rest = icmp ult i32 %n.next, {unit.blocks * unit.side * unit.side}
  br i1 %rest, label %element, label %end
end:
  ret void
}}
""",
    )
