"""Matrices of 8 by 8 that a simdgroup holds together: `air.simdgroup_matrix_8x8_*`.

A lane has two neighbours of a row: `place_of(lane)` says which. Products are exact and their sums
are made in float64 and rounded once: order and rounding of the hardware are not documented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air.emit import Emitter, float_kind
from treadle.emulate.air.handlers import Handlers
from treadle.emulate.air.machine import ELEMENTS, LANES, MACHINE, SIDE, splat
from treadle.emulate.air.syntax import AIRError, Pointer, size_of, type_at
from treadle.emulate.simt import accesses
from treadle.emulate.simt.code import Code

if TYPE_CHECKING:
    from treadle.emulate.air.syntax import Instruction, Type, Value

__all__ = ["HANDLERS", "MULTIPLY", "matrix_functions", "place_of"]

HANDLERS = Handlers()
MULTIPLY = "treadle_air_multiply"
_DOUBLES = LANES * 8  # bytes of one element of all lanes


def place_of(lane: int) -> tuple[int, int]:
    """The row, and the column of the first element, that a lane has."""
    quarter = lane // 4
    row = (quarter & 4) + (lane // 2) % 4
    column = (quarter & 2) * 2 + (lane % 2) * 2
    return row, column


def matrix_functions() -> list[str]:
    """D = A B + C of the warp's `matrices`, as IR."""
    code = Code(MACHINE, "void", MULTIPLY, "ptr %warp", "noinline")
    base = code.field("warp", "matrices")
    spread = [code.variable(f"[{SIDE * SIDE} x double]", "zeroinitializer") for _ in range(2)]
    places = [
        (lane, element, place_of(lane)) for lane in range(LANES) for element in range(ELEMENTS)
    ]

    def at(matrix: int, lane: int, element: int) -> str:
        offset = matrix * ELEMENTS * _DOUBLES + element * _DOUBLES + 8 * lane
        return code.at(base, offset)

    # Both factors by rows; the other places are known here.
    for matrix in range(2):
        for lane, element, (row, column) in places:
            value = code.op(f"load double, ptr {at(matrix, lane, element)}")
            place = code.at(spread[matrix], SIDE * row + column + element, 8)
            code.do(f"store double {value}, ptr {place}")
    for lane, element, (row, column) in places:
        total = code.op(f"load double, ptr {at(2, lane, element)}")
        for k in range(SIDE):
            a = code.op(f"load double, ptr {code.at(spread[0], SIDE * row + k, 8)}")
            place = code.at(spread[1], SIDE * k + column + element, 8)
            b = code.op(f"load double, ptr {place}")
            total = code.op(f"fadd double {total}, {code.op(f'fmul double {a}, {b}')}")
        code.do(f"store double {total}, ptr {at(3, lane, element)}")
    code.do("ret void")
    return [code.text]


def _place(e: Emitter, matrix: int, element: int) -> str:
    return e.warp_field("matrices", (matrix * ELEMENTS + element) * _DOUBLES)


@HANDLERS.of("simdgroup_matrix_8x8_multiply_accumulate", "simdgroup_matrix_8x8_multiply")
def _multiply(e: Emitter, item: Instruction) -> None:
    double = e.lanes("double")
    for matrix in range(3):
        if matrix == len(item.operands):
            values = ["zeroinitializer"] * ELEMENTS
        else:
            operand = item.operands[matrix]
            kind = float_kind(operand.type)
            values = [e.widen(value, kind, "double") for value in e.read(operand)]
        for element, value in enumerate(values):
            e.do(f"store {double} {value}, ptr {_place(e, matrix, element)}, align 64")
    e.intrinsic(MULTIPLY, "void", "ptr %warp")
    results = []
    for element in range(ELEMENTS):
        value = e.op(f"load {double}, ptr {_place(e, 3, element)}, align 64")
        results.append(e.narrow(value, "double", float_kind(item.type)))
    e.write(item, results)


@HANDLERS.of("simdgroup_matrix_8x8_init_filled")
def _fill(e: Emitter, item: Instruction) -> None:
    e.write(item, [e.one(item.operands[0])] * ELEMENTS)


@HANDLERS.of("simdgroup_matrix_8x8_init_diag")
def _diagonal(e: Emitter, item: Instruction) -> None:
    value = e.one(item.operands[0])
    bits = 8 * size_of(type_at(item.type, 0))
    values = []
    for element in range(ELEMENTS):
        flags = []
        for lane in range(LANES):
            row, column = place_of(lane)
            flags.append(int(row == column + element))
        here = MACHINE.constants("i1", flags)
        values.append(e.select(here, value, "zeroinitializer", bits))
    e.write(item, values)


def _addresses(e: Emitter, operands: tuple[Value, ...], nbytes: int) -> list[str]:
    """Where a lane's elements lie, by a pointer, elements of a row, an origin, and a transpose."""
    pointer, stride, origin, transpose = operands
    shape = e.lanes("i64")
    rows = MACHINE.constants("i64", [place_of(lane)[0] for lane in range(LANES)])
    first_column, first_row = e.read(origin)
    flags, step, base = e.one(transpose), e.one(stride), e.one(pointer)
    found = []
    for element in range(ELEMENTS):
        columns = MACHINE.constants("i64", [place_of(lane)[1] + element for lane in range(LANES)])
        row = e.select(flags, columns, rows, 64)
        column = e.select(flags, rows, columns, 64)
        row = e.op(f"add {shape} {row}, {first_row}")
        column = e.op(f"add {shape} {column}, {first_column}")
        index = e.op(f"add {shape} {e.op(f'mul {shape} {row}, {step}')}, {column}")
        offset = e.op(f"mul {shape} {index}, {splat(64, nbytes)}")
        found.append(e.op(f"add {shape} {base}, {offset}"))
    return found


def _element(matrix: Type) -> int:
    """The bytes of an element."""
    return size_of(type_at(matrix, 0))


def _pointer(value: Value) -> Value:
    if not isinstance(value.type, Pointer):
        raise AIRError("a simdgroup's matrix lies at a pointer")
    return value


@HANDLERS.of("simdgroup_matrix_8x8_load")
def _load(e: Emitter, item: Instruction) -> None:
    nbytes, space = _element(item.type), e.space_of(_pointer(item.operands[0]))
    e.write(item, [
        accesses.load(e, space, address, 8 * nbytes)[0]
        for address in _addresses(e, item.operands, nbytes)
    ])  # fmt: skip


@HANDLERS.of("simdgroup_matrix_8x8_store")
def _store(e: Emitter, item: Instruction) -> None:
    matrix, *others = item.operands
    nbytes, space = _element(matrix.type), e.space_of(_pointer(others[0]))
    addresses = _addresses(e, tuple(others), nbytes)
    for value, address in zip(e.read(matrix), addresses, strict=True):
        accesses.store(e, space, address, 8 * nbytes, [value])
