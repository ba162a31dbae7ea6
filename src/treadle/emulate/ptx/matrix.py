"""The instructions on matrices that a warp holds together.

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, {a...}, {b...}, {c...};

With g = lane / 4 and t = lane % 4 a thread holds, two elements a register,

    a     rows g, g + 8, columns 2t and 2t + 1, then the same rows, columns 2t + 8 and 2t + 9
    b     rows 2t, 2t + 1 of column g, then rows 2t + 8, 2t + 9
    c, d  row g, columns 2t and 2t + 1, then row g + 8, a register each

Products are exact, and added one after the other in float32: hardware leaves the order open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.emit import Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.machine import LANES
from treadle.emulate.ptx.syntax import Operand, Vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
_SHAPES = {"a": 4, "b": 2, "c": 4, "d": 4}  # how many registers each has
_STEPS = 16
_PIECE = 8  # neighbours in k that registers of one number hold


@HANDLERS.of("mma")
def _multiply(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kinds = [m.type(("f32",)), m.type(("f16", "bf16")), m.type(("f16", "bf16")), m.type(("f32",))]
    words = ("sync", "aligned", "m16n8k16", "row", "col")
    if kinds[1] != kinds[2] or not all(m.flag(word) for word in words):
        raise m.fail()
    d, a, b, c = (
        _registers(m, operand, _SHAPES[name])
        for name, operand in zip("dabc", item.operands, strict=True)
    )
    function = e.need(f"mma_m16n8k16_{kinds[1]}", _product(f"mma_m16n8k16_{kinds[1]}", kinds[1]))
    given = [f"{lanes(32)} {e.read(register, 32)}" for register in (*a, *b, *c)]
    fields = f"{{ {', '.join([lanes(32)] * 4)} }}"
    found = e.op(f"call {fields} {function}({', '.join(given)})")
    for number, register in enumerate(d):
        e.write(register, e.op(f"extractvalue {fields} {found}, {number}"), 32)


def _registers(m: Modifiers, operand: Operand, count: int) -> tuple[Operand, ...]:
    if not isinstance(operand, Vector) or len(operand.items) != count:
        raise m.fail(f"needs {count} registers in each of its operands here")
    return operand.items


def _product(name: str, kind: str) -> str:
    """The function of one shape and type: once in a module, since it is long."""
    given = [f"{x}{n}" for x in "abc" for n in range(_SHAPES[x])]
    fields = f"{{ {', '.join([lanes(32)] * 4)} }}"
    parameters = ", ".join(f"{lanes(32)} %{x}" for x in given)
    code = [f"define internal {fields} @{name}({parameters}) noinline {{"]

    def op(text: str) -> str:
        code.append(f"  %v{len(code)} = {text}")
        return f"%v{len(code) - 1}"

    single = float_lanes("f32")
    known: dict[tuple[str, tuple[int, ...], int], str] = {}

    def element(register: str, sources: tuple[int, ...], upper: int) -> str:
        """One of two elements of the register in other lanes, as float32."""
        key = register, sources, upper
        if key not in known:
            mask = f"<{LANES} x i32> <{', '.join(f'i32 {lane}' for lane in sources)}>"
            moved = op(f"shufflevector {lanes(32)} %{register}, {lanes(32)} poison, {mask}")
            known[key] = _widened(op, moved, kind, upper)
        return known[key]

    sums = []
    for number in range(4):
        down, right = divmod(number, 2)
        total = op(f"bitcast {lanes(32)} %c{number} to {single}")
        for k in range(_STEPS):
            piece, place = divmod(k, _PIECE)
            of_a = tuple(lane // 4 * 4 + place // 2 for lane in range(LANES))
            of_b = tuple((lane % 4 * 2 + right) * 4 + place // 2 for lane in range(LANES))
            x = element(f"a{down + 2 * piece}", of_a, place % 2)
            y = element(f"b{piece}", of_b, place % 2)
            total = op(f"fadd {single} {total}, {op(f'fmul {single} {x}, {y}')}")
        sums.append(op(f"bitcast {single} {total} to {lanes(32)}"))
    result = "poison"
    for number, total in enumerate(sums):
        result = op(f"insertvalue {fields} {result}, {lanes(32)} {total}, {number}")
    return "\n".join([*code, f"  ret {fields} {result}", "}", ""])


def _widened(op: Callable[[str], str], pair: str, kind: str, upper: int) -> str:
    """The lower or upper element of a pair as float32."""
    single = float_lanes("f32")
    if kind == "bf16":  # the upper half of a float32
        if upper:
            bits = op(f"and {lanes(32)} {pair}, {splat(32, 0xFFFF0000)}")
        else:
            bits = op(f"shl {lanes(32)} {pair}, {splat(32, 16)}")
        return op(f"bitcast {lanes(32)} {bits} to {single}")
    if upper:
        pair = op(f"lshr {lanes(32)} {pair}, {splat(32, 16)}")
    half = op(f"trunc {lanes(32)} {pair} to {lanes(16)}")
    half = op(f"bitcast {lanes(16)} {half} to {float_lanes('f16')}")
    return op(f"fpext {float_lanes('f16')} {half} to {single}")
