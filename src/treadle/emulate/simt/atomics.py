"""Read-modify-write of one place by lane after lane, atomic towards other threads of the host.

    read_modify_write(e, atomic_function(e, "add", "u32"), "global", addresses, 32, values)

A kind is a letter and bits: `b` bits, `u` and `s` integers without and with a sign, `f` and `bf`
floats. `f16x2` is a pair of halves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treadle.emulate.simt.code import sized

if TYPE_CHECKING:
    from treadle.emulate.simt.emit import Emitter

__all__ = ["atomic_function"]

_PLAIN = {"and": "and", "or": "or", "xor": "xor", "exch": "xchg", "inc": "uinc_wrap",
          "dec": "udec_wrap"}  # fmt: skip
_HALVES = {"f16": "half", "bf16": "bfloat"}
_FLOATS = {"f32": "float", "f64": "double"}
_NUMBERS = {
    "fmin": "minimumnum",
    "fmax": "maximumnum",
}  # a zero with a sign is less than one without
_BOUNDED = {"sub_clamp": "usub_sat", "cond_sub": "usub_cond"}


def atomic_function(e: Emitter, operation: str, kind: str) -> str | None:
    """The function (ptr %warp, mask) of an operation; None if there is none of that kind.

    Operations are and, or, xor, exch, add, sub, inc, dec, min, max and cas. These are another
    instruction set's: rsub (the operand less what is there), sub_clamp (0 instead of less),
    cond_sub (nothing instead), wrap (a second operand more instead), mskor (bits of the first
    operand are those of the second), fmin, fmax and fcas of floats, which compare as numbers.

    Host addresses and first operands are the Warp's; what was there before replaces the operands.
    """
    body = _body(operation, kind)
    if body is None:
        return None
    if operation in _NUMBERS:
        number = _FLOATS[kind]
        name = f"llvm.{_NUMBERS[operation]}.{kind}"
        e.need(name, f"declare {number} @{name}({number}, {number})")
    e.need(f"llvm.cttz.{e.machine.mask}", sized(e.machine, _FIRST))
    bits, warp = _bits(kind), e.machine.warp
    name = f"atomic_{operation}_{kind}"
    text = f"""define internal void @{name}(ptr %warp, MASK %mask) noinline {{
entry:
  %some = icmp ne MASK %mask, 0
  br i1 %some, label %loop, label %done
loop:
  %left = phi MASK [%mask, %entry], [%rest, %next]
  %first = call MASK @llvm.cttz.MASK(MASK %left, i1 false)
  %small = trunc MASK %first to i8
  %lane = zext i8 %small to i64
  %less = add MASK %left, -1
  %rest = and MASK %left, %less
  %hosts = getelementptr i8, ptr %warp, i64 {warp["hosts"]}
  %place = getelementptr i64, ptr %hosts, i64 %lane
  %p = load ptr, ptr %place
  %data = getelementptr i8, ptr %warp, i64 {warp["data"]}
  %mine = getelementptr i{bits}, ptr %data, i64 %lane
  %x = load i{bits}, ptr %mine
  %more = getelementptr i8, ptr %warp, i64 {warp["more"]}
  %its = getelementptr i{bits}, ptr %more, i64 %lane
{body}
  store i{bits} %old, ptr %mine
  br label %next
next:
  %again = icmp ne MASK %rest, 0
  br i1 %again, label %loop, label %done
done:
  ret void
}}
"""
    return e.need(name, sized(e.machine, text))


_FIRST = "declare MASK @llvm.cttz.MASK(MASK, i1)"


def _bits(kind: str) -> int:
    """The bits of a value of a kind."""
    found = re.fullmatch(r"[a-z]+(\d+)(x2)?", kind)
    if found is None:
        raise ValueError(f"{kind} is no kind of a number")
    return int(found[1]) * (2 if found[2] else 1)


def _body(operation: str, kind: str) -> str | None:
    """Lines that set %old, the bits that were at %p, and combine them with %x."""
    bits, letter = _bits(kind), kind[0]
    if operation == "cas" and letter in "bus" and bits <= 64:
        return f"""  %y = load i{bits}, ptr %its
  %pair = cmpxchg ptr %p, i{bits} %x, i{bits} %y seq_cst seq_cst
  %old = extractvalue {{i{bits}, i1}} %pair, 0"""
    if operation in _PLAIN and letter in "bus" and bits <= 64:
        return f"  %old = atomicrmw {_PLAIN[operation]} ptr %p, i{bits} %x seq_cst"
    if operation in ("min", "max") and letter in "us":
        sign = "u" if letter == "u" else ""
        return f"  %old = atomicrmw {sign}{operation} ptr %p, i{bits} %x seq_cst"
    if operation in ("add", "sub") and letter in "us":
        return f"  %old = atomicrmw {operation} ptr %p, i{bits} %x seq_cst"
    if operation in _BOUNDED and kind == "u32":
        return f"  %old = atomicrmw {_BOUNDED[operation]} ptr %p, i32 %x seq_cst"
    if operation == "add" and kind in _FLOATS:
        number = _FLOATS[kind]
        return f"""  %xf = bitcast i{bits} %x to {number}
  %was = atomicrmw fadd ptr %p, {number} %xf seq_cst
  %old = bitcast {number} %was to i{bits}"""
    if kind.removesuffix("x2") in _HALVES and operation == "add":
        return _half_sum(kind)
    lines = _changed(operation, kind)
    return None if lines is None else _loop(bits, lines)


def _changed(operation: str, kind: str) -> list[str] | None:
    """Lines that set %new, for operations that the host does not have at once."""
    bits = _bits(kind)
    second = f"  %y = load i{bits}, ptr %its"
    if operation == "rsub":
        return [f"  %new = sub i{bits} %x, %old"]
    if operation == "mskor":
        return [second, f"  %others = xor i{bits} %x, -1", f"  %kept = and i{bits} %old, %others",
                f"  %new = or i{bits} %kept, %y"]  # fmt: skip
    if operation == "wrap":
        return [second, f"  %down = sub i{bits} %old, %x", f"  %up = add i{bits} %old, %y",
                f"  %fits = icmp uge i{bits} %old, %x",
                f"  %new = select i1 %fits, i{bits} %down, i{bits} %up"]  # fmt: skip
    if kind not in _FLOATS:
        return None
    number = _FLOATS[kind]
    floats = [f"  %{name}f = bitcast i{bits} %{name} to {number}" for name in ("old", "x")]
    if operation == "fcas":
        return [second, *floats, f"  %same = fcmp oeq {number} %oldf, %xf",
                f"  %new = select i1 %same, i{bits} %y, i{bits} %old"]  # fmt: skip
    if operation in _NUMBERS:
        call = f"call {number} @llvm.{_NUMBERS[operation]}.{kind}({number} %oldf, {number} %xf)"
        return [*floats, f"  %newf = {call}", f"  %new = bitcast {number} %newf to i{bits}"]
    return None


def _loop(bits: int, lines: list[str]) -> str:
    """What `lines` make of %old, %new, is stored if nobody has changed %old; else again."""
    return "\n".join((
        f"  %seen0 = load i{bits}, ptr %p", "  br label %try", "try:",
        f"  %old = phi i{bits} [%seen0, %loop], [%seen, %try]", *lines,
        f"  %pair = cmpxchg ptr %p, i{bits} %old, i{bits} %new seq_cst seq_cst",
        f"  %seen = extractvalue {{i{bits}, i1}} %pair, 0",
        f"  %won = extractvalue {{i{bits}, i1}} %pair, 1",
        "  br i1 %won, label %stored, label %try", "stored:",
    ))  # fmt: skip


def _half_sum(kind: str) -> str:
    """Halves are added in float and rounded to nearest, one or two of them at a time."""
    single = kind.removesuffix("x2")
    bits, count = _bits(kind), _bits(kind) // 16
    lines: list[str] = []
    parts = []
    for i in range(count):
        for name in ("old", "x"):
            lines += [f"  %{name}m{i} = lshr i{bits} %{name}, {16 * i}",
                      f"  %{name}v{i} = zext i{bits} %{name}m{i} to i64",
                      f"  %{name}h{i} = trunc i64 %{name}v{i} to i16"]  # fmt: skip
            if single == "f16":
                lines += [f"  %{name}n{i} = bitcast i16 %{name}h{i} to half",
                          f"  %{name}f{i} = fpext half %{name}n{i} to float"]  # fmt: skip
            else:
                lines += [f"  %{name}w{i} = zext i16 %{name}h{i} to i32",
                          f"  %{name}s{i} = shl i32 %{name}w{i}, 16",
                          f"  %{name}f{i} = bitcast i32 %{name}s{i} to float"]  # fmt: skip
        lines.append(f"  %sum{i} = fadd float %oldf{i}, %xf{i}")
        if single == "f16":
            lines += [f"  %near{i} = fptrunc float %sum{i} to half",
                      f"  %bits{i} = bitcast half %near{i} to i16"]  # fmt: skip
        else:
            lines += [f"  %raw{i} = bitcast float %sum{i} to i32",
                      f"  %tail{i} = lshr i32 %raw{i}, 16", f"  %odd{i} = and i32 %tail{i}, 1",
                      f"  %step{i} = add i32 %odd{i}, 32767",
                      f"  %up{i} = add i32 %raw{i}, %step{i}", f"  %top{i} = lshr i32 %up{i}, 16",
                      f"  %cut{i} = trunc i32 %top{i} to i16",
                      f"  %wrong{i} = fcmp uno float %sum{i}, %sum{i}",
                      f"  %bits{i} = select i1 %wrong{i}, i16 32767, i16 %cut{i}"]  # fmt: skip
        lines += [f"  %wide{i} = zext i16 %bits{i} to i64",
                  f"  %moved{i} = shl i64 %wide{i}, {16 * i}",
                  f"  %put{i} = trunc i64 %moved{i} to i{bits}"]  # fmt: skip
        parts.append(f"%put{i}")
    lines.append(f"  %new = or i{bits} {parts[0]}, {parts[1] if count == 2 else 0}")
    return _loop(bits, lines)
