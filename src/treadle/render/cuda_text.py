"""What CUDA C programs bring along, and how it spells types and constants.

helper_texts({"to_bfloat16"})         ->  a function of one instruction of inline PTX
literal(dtypes.float32, 0.5)          ->  "0x1.0000000000000p-1f"
struct_text(dtypes.float32.vec(4))    ->  "struct __align__(16) float32x4 { ... };"
"""

from __future__ import annotations

import math
import struct

from ..dtype import DType, dtypes
from ..ir.node import Node
from ..target import MMA
from . import mbarrier
from .nvidia import COPIED_AT_ONCE, TO_TF32, mma_text
from .wgmma import (
    ADDRESS_BITS,
    UNIT,
    descriptor_fields,
    instructions,
    product_name,
    sources,
    words_of_x,
)
from .workgroups import WIDEST

__all__ = [
    "HALVES", "SCALARS", "helper_texts", "literal", "places", "product_text", "struct_name",
    "struct_text",
]  # fmt: skip

SCALARS = {
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long", "float16": "unsigned short", "bfloat16": "unsigned short",
    "float32": "float", "float64": "double",
}  # fmt: skip
HALVES = {"float16": "f16", "bfloat16": "bf16"}
_SHARED_WORD = '"r"(shared_address({}))'


def _on_mbarrier(name: str, code: str, *words: str) -> str:
    """A function of one instruction on an mbarrier, and of unsigned `words`."""
    arguments = "".join(f", unsigned {word}" for word in words)
    operands = ", ".join([_SHARED_WORD.format("at"), *(f'"r"({word})' for word in words)])
    return f"""\
__device__ __forceinline__ void {name}(const unsigned long long *at{arguments}) {{
  asm volatile("{code}" : : {operands} : "memory");
}}"""


def _copy_box(rank: int) -> str:
    axes = [f"c{axis}" for axis in range(rank)]
    arguments = "".join(f", int {axis}" for axis in axes)
    operands = ", ".join(f'"r"({axis})' for axis in axes)
    shared = [_SHARED_WORD.format(name) for name in ("to", "at")]
    return f"""\
__device__ __forceinline__ void copy_box_{rank}d(
  const void *to, const tensor_map *map, const unsigned long long *at{arguments}
) {{
  asm volatile("{mbarrier.copy_box("%", rank)}"
      : : {shared[0]}, "l"(map), {shared[1]}, {operands} : "memory");
}}"""


def _mma_text(name: str) -> str:
    unit = MMA[name]
    x, y, out = unit.held
    sums, letter = f"{unit.sums.name}x{out.count}", "r" if unit.sums.is_int else "f"
    words = [f"{which}{n}" for which, each in (("x", x), ("y", y)) for n in range(each.count)]
    rounded = "".join(f'  asm("{TO_TF32} %0, %0;" : "+r"({word}));\n' for word in words)
    code, operands = mma_text(name, "%").split(" ", 1)
    return f"""\
__device__ __forceinline__ {sums} mma_{name}(
  {", ".join(f"unsigned {word}" for word in words)}, {sums} sums
) {{
{rounded if name == "tf32" else ""}\
  asm("{code} "
      "{operands}"
      : {", ".join(f'"+{letter}"(sums.s{n})' for n in range(out.count))}
      : {", ".join(f'"r"({word})' for word in words)});
  return sums;
}}"""


_HELPERS = {
    **{
        f"{name}_nan": f"""\
__device__ __forceinline__ float {name}_nan(float x, float y) {{
  asm("{name}.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  return x;
}}"""
        for name in ("max", "min")
    },
    "quick_exp2": """\
__device__ __forceinline__ float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}""",
    "tensor_map": "struct __align__(64) tensor_map { unsigned char opaque[128]; };",
    "shared_address": """\
__device__ __forceinline__ unsigned shared_address(const void *at) {
  return (unsigned)__cvta_generic_to_shared(at);
}""",
    "init_mbarrier": _on_mbarrier("init_mbarrier", mbarrier.init("%"), "arrivals"),
    "await_phase": _on_mbarrier("await_phase", mbarrier.await_phase("%"), "parity"),
    "expect_bytes": _on_mbarrier("expect_bytes", mbarrier.expect("%"), "nbytes"),
    "arrive": _on_mbarrier("arrive", mbarrier.arrive("%", "%%"), "is_read"),
    **{f"copy_box_{rank}d": _copy_box(rank) for rank in range(2, 6)},
    "bits_to": """\
template <class To, class From> __device__ __forceinline__ To bits_to(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}""",
    "from_float16": """\
__device__ __forceinline__ float from_float16(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}""",
    "from_bfloat16": """\
__device__ __forceinline__ float from_bfloat16(unsigned short x) {
  return __uint_as_float((unsigned)x << 16);
}""",
    **{
        f"to_{name}": f"""\
__device__ __forceinline__ unsigned short to_{name}(float x) {{
  unsigned short y;
  asm("cvt.rn.{spelled}.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}}"""
        for name, spelled in HALVES.items()
    },
    **{
        f"to_{name}_pair": f"""\
__device__ __forceinline__ unsigned to_{name}_pair(float low, float high) {{
  unsigned both;
  asm("cvt.rn.{spelled}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}}"""
        for name, spelled in HALVES.items()
    },
    **{
        f"copy_{size}": f"""\
__device__ __forceinline__ void copy_{size}(void *to, const void *from, bool is_held) {{
  asm volatile("cp.async.{"cg" if size == 16 else "ca"}.shared.global [%0], [%1], {size}, %2;"
      :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)),
         "r"(is_held ? {size} : 0) : "memory");
}}"""
        for size in COPIED_AT_ONCE
    },
    **{
        f"load_{count}_{which}": f"""\
__device__ __forceinline__ uint32x{count} load_{count}_{which}(const void *line) {{
  uint32x{count} words;
  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{how}.shared.b16 "
      "{{{", ".join(f"%{n}" for n in range(count))}}}, [%{count}];"
      : {", ".join(f'"=r"(words.s{n})' for n in range(count))}
      : "r"((unsigned)__cvta_generic_to_shared(line)) : "memory");
  return words;
}}"""
        for count in (2, 4)
        for which, how in (("lines", ""), ("columns", ".trans"))
    },
    **{f"mma_{name}": _mma_text(name) for name in MMA},
}


def helper_texts(names: set[str]) -> list[str]:
    """The definitions of what programs name, each before those that use it."""
    return [text for name, text in _HELPERS.items() if name in names]


def product_text(node: Node) -> str:
    """A function that adds a WGMMA to its sums, from the addresses of both matrices.

    Or from words of x and the address of y; or half of it, from pairs of words of x.
    """
    register = "f" if node.dtype.is_float else "r"
    sums = ", ".join(f'"+{register}"(sums.s{number})' for number in range(node.dtype.count))
    code = "\n".join(f'      "{line} "' for line in instructions(node, "%", node.dtype.count))
    _, (memory_of_y, _), _ = sources(node)
    kind = SCALARS[memory_of_y.dtype.name]
    matrices = [("at_x", "x", node.arg.x), ("at_y", "y", node.arg.y)]
    descriptors = "\n".join(
        f"  const unsigned long long {name} = {descriptor_fields(layout):#x}ull | "
        f"((__cvta_generic_to_shared({memory}) / {UNIT}) & {ADDRESS_BITS:#x});"
        for name, memory, layout in matrices
        if layout is not None
    )
    given, factor = f"const {kind} *x", '"l"(at_x)'
    if node.arg.words:
        given = ", ".join(f"unsigned x{n}" for n in range(node.arg.words))
        factor = ", ".join(f'"r"(x{n})' for n in range(node.arg.words))
    elif node.arg.x is None:
        pairs = range(words_of_x(node) // 2 * node.arg.turns // 2)
        given = ", ".join(f"{struct_name(dtypes.float32.vec(2))} x{n}" for n in pairs)
        factor = ", ".join(f'"r"(__float_as_uint(x{n}.s{lane}))' for n in pairs for lane in (0, 1))
    return f"""\
__device__ __forceinline__ void {product_name(node)}(
  {struct_name(node.dtype)} &sums, {given}, const {kind} *y
) {{
{descriptors}
  asm volatile(
{code}
      : {sums}
      : {factor}, "l"(at_y) : "memory");
}}"""


def struct_name(dtype: DType) -> str:
    """What the type of a vector is called."""
    return f"{dtype.scalar.name}x{dtype.count}"


def struct_text(dtype: DType) -> str:
    """The type of a vector, aligned as memory has it where one access takes it all."""
    lanes = ", ".join(f"s{number}" for number in range(dtype.count))
    size = dtype.scalar.itemsize * dtype.count
    aligned = f"__align__({size}) " if size <= WIDEST else ""
    return f"struct {aligned}{struct_name(dtype)} {{ {SCALARS[dtype.scalar.name]} {lanes}; }};"


def literal(dtype: DType, value: float) -> str:
    """A scalar constant."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_int:
        return _integer(dtype, int(value))
    if dtype.bits == 16:
        return f"((unsigned short)0x{_half_bits(dtype, value):04x})"
    if math.isfinite(value):
        return f"{float(value).hex()}{'f' if dtype.bits == 32 else ''}"
    if dtype.bits == 32:
        return f"__uint_as_float(0x{struct.pack('>f', value).hex()}u)"
    return f"__longlong_as_double(0x{struct.pack('>d', value).hex()}ll)"


def _half_bits(dtype: DType, value: float) -> int:
    """The bits of a float16, or of a bfloat16: the upper half of a float32."""
    if dtype is dtypes.float16:
        return int.from_bytes(struct.pack(">e", value))
    return int.from_bytes(struct.pack(">f", value)[:2])


def _integer(dtype: DType, value: int) -> str:
    if value == -(1 << 63):
        return "(-0x7fffffffffffffffll - 1)"
    if value == -(1 << 31) and dtype.bits == 32:
        return "(-0x7fffffff - 1)"
    suffix = {"int64": "ll", "uint64": "ull", "uint32": "u"}.get(dtype.name, "")
    code = f"{value}{suffix}"
    if dtype.bits < 32:
        return f"(({SCALARS[dtype.name]}){code})"
    return f"({code})" if value < 0 else code


def places(base: str, place: str, count: int) -> list[str]:
    """Neighbouring elements of memory."""
    if count == 1:
        return [f"{base}[{place}]"]
    return [f"{base}[{place} + {number}]" for number in range(count)]
