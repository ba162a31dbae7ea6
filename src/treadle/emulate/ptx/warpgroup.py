"""wgmma: products of matrices in shared memory, 64 rows by four warps.

Each warp has 16 rows of A and of D and can make them alone, so no warp waits for another; a product
is made at once, and fences have nothing to do. Until its group is waited for, writing to what it
reads is a fault (`pending_reads`). Per 8 columns it is an mma.sync
whose fragments come through descriptors:

    bits 0-13 start, 16-29 leading and 32-45 stride byte offset, each in 16 bytes; 62-63 swizzle:
    0 none, 1 of 128 bytes, 2 of 64, 3 of 32

In a swizzled matrix bits 4.. of an address are combined by xor with bits 7.. of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.ptx.emit import Emitter, Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.floating import (
    half_of_pair,
    join_pair,
    narrow,
    to_double,
    to_odd,
    widen,
)
from treadle.emulate.ptx.machine import LANES, MATRICES
from treadle.emulate.ptx.matrix import ELEMENTS, Shape, element_of_word, product, registers_of
from treadle.emulate.ptx.memory import check_proxy
from treadle.emulate.ptx.syntax import Immediate, Operand, Vector
from treadle.emulate.simt.accesses import flight_commit, flight_start, flight_wait, load
from treadle.target import Fragment, mma_fragments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treadle.emulate.ptx.emit import Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
_DOUBLES, _FLOATS = float_lanes("f64"), float_lanes("f32")
_FACTORS = {
    "f32": ("f16", "bf16", "tf32", "e4m3", "e5m2"), "f16": ("f16", "e4m3", "e5m2"),
    "s32": ("s8", "u8"),
}  # fmt: skip
_SUMS_AT = 8 * 1024  # of the Warp's tiles: behind the fragments of one product
# What lanes of a warp hold of its 16 rows of A, and of 8 columns of B, in words of 32 bits.
_WORDS_OF_A, _WORDS_OF_B, _ = mma_fragments(16, 8, 32)


class _Matrix(NamedTuple):
    """What a descriptor says, in lanes of 64 bits, and whether k is the outer dimension."""

    start: str
    leading: str
    stride: str
    width: str
    shift_mask: str
    is_plain: str
    is_transposed: bool


@HANDLERS.of("wgmma")
def _wgmma(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not m.flag("sync") or not m.flag("aligned"):
        raise m.fail()
    if m.flag("fence"):
        return
    if m.flag("commit_group"):
        flight_commit(e, MATRICES)
        return
    if m.flag("wait_group"):
        flight_wait(e, MATRICES, e.first(item.operands[0], 32))
        return
    if not m.flag("mma_async"):
        raise m.fail()
    b_kind, a_kind = m.type(ELEMENTS), m.type(ELEMENTS)
    sums = m.type(("f16", "f32", "s32"))
    m.flag("satfinite")
    if a_kind not in _FACTORS[sums] or b_kind not in _FACTORS[sums]:
        raise m.fail()
    size = re.fullmatch(r"m64n(\d+)k(\d+)", m.rest[0] if m.rest else "")
    bits = ELEMENTS[a_kind][0]
    if size is None or bits > 32 or ELEMENTS[b_kind][0] != bits or int(size[2]) * bits != 256:
        raise m.fail()
    m.rest.pop(0)
    d, a, b, scale, *signs = item.operands
    if isinstance(a, Vector):  # nothing says how it lies in memory
        signs[2:2] = [Immediate(0)]
    numbers = [_constant(sign) for sign in signs] + [1, 1, 0, 0][len(signs) :]
    columns, depth = int(size[1]), int(size[2])
    registers = registers_of(d)
    step = 16 if sums == "s32" and columns > 32 else 8
    each_sum = 2 if sums == "f16" else 1
    if columns % step or columns > 256 or each_sum * len(registers) != columns // 2:
        raise m.fail("has results of another size")
    _read_later(e, e.first(b, 64), columns, depth, bits, bool(numbers[3]))
    if not isinstance(a, Vector):
        _read_later(e, e.first(a, 64), 64, depth, bits, bool(numbers[2]))
    keep = e.read_predicate(scale)
    _put_sums(e, registers, keep, sums)
    shape, each = Shape(16, 8, depth), 32 // bits
    if isinstance(a, Vector):
        words = [e.read(register, 32) for register in registers_of(a)]
        parts = [element_of_word(e, word, j, a_kind) for word in words for j in range(each)]
    else:
        parts = _rows_of_a(e, _matrix(e, e.first(a, 64), bool(numbers[2])), bits, a_kind)
    if numbers[0] * numbers[1] < 0:
        parts = [e.op(f"fneg {_DOUBLES} {part}") for part in parts]
    for i, part in enumerate(parts):
        e.do(f"store {_DOUBLES} {part}, ptr {e.warp_field('tiles', 8 * LANES * i)}, align 64")
    function = _columns(e, shape, columns, b_kind, sums, bool(numbers[3]))
    e.do(
        f"call void {function}(ptr %block, ptr %warp, i32 {e.mask_bits}, i32 {e.site}, "
        f"i64 {e.first(b, 64)})"
    )
    _take_sums(e, registers, sums)


def _constant(operand: Operand) -> int:
    return operand.value if isinstance(operand, Immediate) else 1


def _sum_place(e: Emitter, number: str) -> str:
    base = e.warp_field("tiles", _SUMS_AT)
    return e.op(f"getelementptr <32 x i32>, ptr {base}, i64 {number}")


def _put_sums(e: Emitter, registers: tuple[Operand, ...], keep: str, sums: str) -> None:
    """Sums of 32 bits; of halves, which lie two in a register, the float32 that they are."""
    values = []
    for register in registers:
        value = e.op(
            f"select {lanes(1)} {keep}, {lanes(32)} {e.read(register, 32)}, "
            f"{lanes(32)} zeroinitializer"
        )
        halves = [widen(e, half_of_pair(e, value, i), "f16")[0] for i in range(2)]
        values += [e.as_bits(half, "f32") for half in halves] if sums == "f16" else [value]
    for i, value in enumerate(values):
        e.do(f"store {lanes(32)} {value}, ptr {_sum_place(e, str(i))}, align 64")


def _take_sums(e: Emitter, registers: tuple[Operand, ...], sums: str) -> None:
    each = 2 if sums == "f16" else 1
    for i, register in enumerate(registers):
        values = [
            e.op(f"load {lanes(32)}, ptr {_sum_place(e, str(each * i + j))}, align 64")
            for j in range(each)
        ]
        if sums == "f16":
            halves = [narrow(e, e.as_float(value, "f32"), "f16") for value in values]
            values = [join_pair(e, *halves)]
        e.write(register, values[0], 32)


def _read_later(
    e: Emitter, descriptor: str, rows: int, depth: int, bits: int, is_transposed: bool
) -> None:
    """The bytes between the first and the last of a matrix may be read until the wait."""
    leading, stride, width, is_plain = _layout(e, descriptor)
    along, across = leading, stride
    if is_transposed:
        along = e.op(f"select i1 {is_plain}, i64 {stride}, i64 {leading}")
        across = e.op(f"select i1 {is_plain}, i64 {leading}, i64 {stride}")
    outer, inner = (depth, rows) if is_transposed else (rows, depth)
    rounded = e.op(f"add i64 {width}, {inner * bits // 8 - 1}")
    pieces = e.op(f"add i64 {e.op(f'udiv i64 {rounded}, {width}')}, -1")
    last = e.op(f"mul i64 {across}, {outer // 8 - 1}")
    last = e.op(f"add i64 {last}, {e.op(f'mul i64 {along}, {pieces}')}")
    last = e.op(f"add i64 {last}, {e.op(f'shl i64 {width}, 3')}")
    start = e.op(f"shl i64 {e.op(f'and i64 {descriptor}, 16383')}, 4")
    # A slice of wide rows begins inside of the first.
    low = e.op(f"and i64 {start}, {e.op(f'sub i64 0, {width}')}")
    flight_start(e, MATRICES, low, e.op(f"add i64 {low}, {last}"))


# -- matrices behind descriptors


def _layout(e: Emitter, descriptor: str) -> tuple[str, str, str, str]:
    """Leading and stride byte offset, bytes of a row, and whether there is no swizzle."""
    fields = []
    for place in (16, 32):
        moved = e.op(f"lshr i64 {descriptor}, {place}")
        fields.append(e.op(f"shl i64 {e.op(f'and i64 {moved}, 16383')}, 4"))
    swizzle = e.op(f"lshr i64 {descriptor}, 62")
    plain = e.op(f"icmp eq i64 {swizzle}, 0")
    # 1, 2, 3 mean 128, 64 and 32 bytes; no swizzle has pieces of 16.
    width = e.op(f"lshr i64 256, {swizzle}")
    return fields[0], fields[1], e.op(f"select i1 {plain}, i64 16, i64 {width}"), plain


def _matrix(e: Emitter, descriptor: str, is_transposed: bool) -> _Matrix:
    leading, stride, width, plain = _layout(e, descriptor)
    start = e.op(f"shl i64 {e.op(f'and i64 {descriptor}, 16383')}, 4")
    shift_mask = e.op(f"add i64 {e.op(f'lshr i64 {width}, 4')}, -1")
    return _Matrix(
        e.spread(start, 64), e.spread(leading, 64), e.spread(stride, 64), e.spread(width, 64),
        e.spread(shift_mask, 64), e.spread(plain, 1), is_transposed,
    )  # fmt: skip


def _address(e: Emitter, matrix: _Matrix, row: str, column: str) -> str:
    """Where the byte at (outer, byte along the contiguous dimension) lies, in lanes."""
    shape = lanes(64)

    def op(name: str, a: str, b: str) -> str:
        return e.op(f"{name} {shape} {a}, {b}")

    def choose(a: str, b: str) -> str:
        return e.op(f"select {lanes(1)} {matrix.is_plain}, {shape} {a}, {shape} {b}")

    eights, inside = op("lshr", row, splat(64, 3)), op("and", row, splat(64, 7))
    rest = op("and", column, op("sub", matrix.width, splat(64, 1)))
    pieces = op("udiv", column, matrix.width)
    along, across = matrix.leading, matrix.stride
    if matrix.is_transposed:
        along, across = choose(matrix.stride, matrix.leading), choose(matrix.leading, matrix.stride)
    address = op("add", matrix.start, op("mul", eights, across))
    address = op("add", address, op("mul", pieces, along))
    address = op("add", address, op("mul", inside, matrix.width))
    address = op("add", address, rest)
    bits = op("and", op("lshr", address, splat(64, 7)), matrix.shift_mask)
    bits = choose("zeroinitializer", bits)
    return op("xor", address, op("shl", bits, splat(64, 4)))


def _words(e: Emitter, matrix: _Matrix, mn: str, byte: str, bits: int) -> str:
    """Lanes of 32 bits: the elements at row `mn` from `byte` along k on."""
    if not matrix.is_transposed:
        return _fetch(e, _address(e, matrix, mn, byte), 32)
    halves = []
    column = e.op(f"shl {lanes(64)} {mn}, {splat(64, 1)}")
    for j in range(32 // bits):
        k = e.op(f"add {lanes(64)} {e.op(f'lshr {lanes(64)} {byte}, {splat(64, 1)}')}, "
                 f"{splat(64, j)}")  # fmt: skip
        half = _fetch(e, _address(e, matrix, k, column), 16)
        halves.append(e.op(f"zext {lanes(16)} {half} to {lanes(32)}"))
    high = e.op(f"shl {lanes(32)} {halves[1]}, {splat(32, 16)}")
    return e.op(f"or {lanes(32)} {high}, {halves[0]}")


def _fetch(e: Emitter, addresses: str, bits: int) -> str:
    check_proxy(e, addresses)
    (value,) = load(e, "shared", addresses, bits)
    return value


def _held(words: Fragment, register: int) -> tuple[str, str]:
    """The line of a register's word, and its byte along k, in lanes."""
    places = [words.place(lane, register) for lane in range(LANES)]
    lines, bytes_of_k = (line for line, _ in places), (4 * word for _, word in places)
    return _constants(lines), _constants(bytes_of_k)


def _constants(values: Iterable[int]) -> str:
    return f"<{', '.join(f'i64 {value}' for value in values)}>"


def _rows_of_a(e: Emitter, matrix: _Matrix, bits: int, kind: str) -> list[str]:
    """The fragment of this warp's 16 rows."""
    number = e.op(f"load i32, ptr {e.warp_field('number')}")
    rank = e.op(f"and i32 {number}, 3")
    first = e.op(f"zext i32 {e.op(f'shl i32 {rank}, 4')} to i64")
    found = []
    for register in range(_WORDS_OF_A.count):
        row, byte = _held(_WORDS_OF_A, register)
        mn = e.op(f"add {lanes(64)} {e.spread(first, 64)}, {row}")
        word = _words(e, matrix, mn, byte, bits)
        found += [element_of_word(e, word, j, kind) for j in range(32 // bits)]
    return found


def _columns(
    e: Emitter, shape: Shape, columns: int, kind: str, sums: str, is_transposed: bool
) -> str:
    """A function that makes all columns, 8 a time; sums are in the Warp's tiles."""
    bits = ELEMENTS[kind][0]
    name = f"wgmma_n{columns}_{kind}_{sums}_{'mn' if is_transposed else 'k'}"
    if name in e.helpers:
        return f"@{name}"
    inner = Emitter(e.layout)
    inner.helpers, inner.mask_bits, inner.site = e.helpers, "%mask", "%site"
    inner.label("entry")
    matrix = _matrix(inner, "%descriptor", is_transposed)
    inner.do("br label %loop")
    inner.label("loop")
    inner.do("%j = phi i64 [0, %entry], [%next, %loop]")
    first = inner.spread(inner.op("shl i64 %j, 3"), 64)
    parts = []
    for register in range(_WORDS_OF_B.count):
        column, byte = _held(_WORDS_OF_B, register)
        mn = inner.op(f"add {lanes(64)} {first}, {column}")
        word = _words(inner, matrix, mn, byte, bits)
        parts += [element_of_word(inner, word, j, kind) for j in range(32 // bits)]
    base = inner.op("shl i64 %j, 2")
    places = [_sum_place(inner, inner.op(f"add i64 {base}, {i}")) for i in range(4)]
    before = []
    for place in places:
        value = inner.op(f"load {lanes(32)}, ptr {place}, align 64")
        if sums != "s32":
            before.append(to_double(inner, inner.as_float(value, "f32")))
        else:
            before.append(inner.op(f"sitofp {lanes(32)} {value} to {_DOUBLES}"))
    for place, value in zip(places, product(inner, shape, 32 // bits, None, parts, before),
                            strict=True):  # fmt: skip
        if sums == "f32":
            found = inner.as_bits(inner.op(f"fptrunc {_DOUBLES} {value} to {_FLOATS}"), "f32")
        elif sums == "f16":  # which is rounded once more, when all columns are there
            found = inner.as_bits(to_odd(inner, value), "f32")
        else:
            whole = inner.op(f"fptosi {_DOUBLES} {value} to {lanes(64)}")
            found = inner.op(f"trunc {lanes(64)} {whole} to {lanes(32)}")
        inner.do(f"store {lanes(32)} {found}, ptr {place}, align 64")
    inner.do("%next = add i64 %j, 1")
    inner.do(f"%more = icmp ult i64 %next, {columns // 8}")
    inner.do("br i1 %more, label %loop, label %done")
    inner.label("done")
    inner.do("ret void")
    body = "\n".join(inner.lines)
    return e.need(
        name,
        f"define internal void @{name}(ptr %block, ptr %warp, i32 %mask, i32 %site, "
        f"i64 %descriptor) noinline {{\n{body}\n}}\n",
    )
