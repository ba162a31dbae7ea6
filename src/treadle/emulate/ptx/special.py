"""Moves, comparisons, selections, and the instructions that have nothing to do here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.emit import FLOATS, Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.expand import BUILTIN_CALLS
from treadle.emulate.ptx.floating import flush, half_of_pair
from treadle.emulate.ptx.syntax import WIDTHS, Pair, Symbol, Vector
from treadle.emulate.simt.machine import Fault

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction, Operand

__all__ = ["HANDLERS", "pack", "unpack"]

HANDLERS = Handlers()

# PTX's names of comparisons: of integers that are signed, unsigned, and of floats.
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge",
             "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}  # fmt: skip
_FLOAT = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
          "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
          "num": "ord", "nan": "uno"}  # fmt: skip
_COMPARISONS = {**_UNSIGNED, **_FLOAT}
_VALUES = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
_COMPARED = (*_VALUES, "f16", "bf16", "f16x2", "bf16x2")


# -- mov


@HANDLERS.of("mov")
def _move(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type()
    result, source = item.operands
    if kind == "pred":
        e.write_predicate(result, e.read_predicate(source))
    elif isinstance(result, Vector):
        unpack(e, result.items, e.read(source, WIDTHS[kind]), WIDTHS[kind])
    elif isinstance(source, Vector):
        e.write(result, pack(e, source.items, WIDTHS[kind]), WIDTHS[kind])
    else:
        e.write(result, e.read(source, WIDTHS[kind]), WIDTHS[kind])


def pack(e: Emitter, items: tuple[Operand, ...], bits: int) -> str:
    """Registers side by side, the first lowest."""
    part = bits // len(items)
    value = "zeroinitializer"
    for i, operand in enumerate(items):
        wide = e.op(f"zext {lanes(part)} {e.read(operand, part)} to {lanes(bits)}")
        if i:
            wide = e.op(f"shl {lanes(bits)} {wide}, {splat(bits, i * part)}")
        value = e.op(f"or {lanes(bits)} {value}, {wide}")
    return value


def unpack(e: Emitter, items: tuple[Operand, ...], value: str, bits: int) -> None:
    """The other way round."""
    part = bits // len(items)
    for i, operand in enumerate(items):
        moved = e.op(f"lshr {lanes(bits)} {value}, {splat(bits, i * part)}") if i else value
        e.write(operand, e.op(f"trunc {lanes(bits)} {moved} to {lanes(part)}"), part)


# -- comparisons


def _compare(e: Emitter, how: str, kind: str, a: str, b: str, m: Modifiers, ftz: bool) -> str:
    if kind in FLOATS:
        table, opcode, shape = _FLOAT, "fcmp", float_lanes(kind)
        if kind == "bf16":
            shape = float_lanes("f32")
            a, b = (_widen_bfloat(e, value) for value in (a, b))
        else:
            if ftz:
                a, b = flush(e, a, kind), flush(e, b, kind)
            a, b = e.as_float(a, kind), e.as_float(b, kind)
    else:
        table = _SIGNED if kind[0] == "s" else _UNSIGNED
        opcode, shape = "icmp", lanes(WIDTHS[kind])
    if how not in table:
        raise m.fail()
    return e.op(f"{opcode} {table[how]} {shape} {a}, {b}")


def _widen_bfloat(e: Emitter, value: str) -> str:
    wide = e.op(f"zext {lanes(16)} {value} to {lanes(32)}")
    return e.as_float(e.op(f"shl {lanes(32)} {wide}, {splat(32, 16)}"), "f32")


def _compared(e: Emitter, item: Instruction, m: Modifiers, kind: str) -> list[str]:
    """The comparison of the operands behind the first, joined with a predicate where asked."""
    how = m.one_of(_COMPARISONS)
    join = m.one_of(("and", "or", "xor"))
    ftz = m.flag("ftz")
    bits = WIDTHS[kind]
    a, b = e.read(item.operands[1], bits), e.read(item.operands[2], bits)
    if kind.endswith("x2"):
        pairs = [(half_of_pair(e, a, i), half_of_pair(e, b, i)) for i in range(2)]
        found = [_compare(e, how, kind[:-2], x, y, m, ftz) for x, y in pairs]
    else:
        found = [_compare(e, how, kind, a, b, m, ftz)]
    if join:
        third = e.read_predicate(item.operands[3])
        negated = [e.op(f"xor {lanes(1)} {value}, {splat(1, 1)}") for value in found]
        if len(found) == 1:
            found = [*found, *negated]
        found = [e.op(f"{join} {lanes(1)} {value}, {third}") for value in found]
    return found


@HANDLERS.of("setp")
def _set_predicate(e: Emitter, item: Instruction, m: Modifiers) -> None:
    found = _compared(e, item, m, m.type(_COMPARED))
    result = item.operands[0]
    if not isinstance(result, Pair):
        e.write_predicate(result, found[0])
        return
    other = found[1] if len(found) > 1 else e.op(f"xor {lanes(1)} {found[0]}, {splat(1, 1)}")
    e.write_predicate(result.first, found[0])
    e.write_predicate(result.second, other)


@HANDLERS.of("set")
def _set_value(e: Emitter, item: Instruction, m: Modifiers) -> None:
    compared = m.type(_COMPARED)
    # Halves may be compared into halves: set.lt.f16x2.f16x2 gives a pair of 1.0 and 0.0.
    kind = m.type((*_COMPARED, "u16x2"))
    found = _compared(e, item, m, compared)
    bits = WIDTHS[kind]
    if compared.endswith("x2"):
        one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(kind, 0xFFFF)
        halves = [
            e.op(f"select {lanes(1)} {value}, {lanes(32)} {splat(32, one << (16 * i))}, "
                 f"{lanes(32)} zeroinitializer") for i, value in enumerate(found)
        ]  # fmt: skip
        e.write(item.operands[0], e.op(f"or {lanes(32)} {halves[0]}, {halves[1]}"), 32)
        return
    one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}.get(kind, -1)
    shape = lanes(bits)
    value = e.op(
        f"select {lanes(1)} {found[0]}, {shape} {splat(bits, one)}, {shape} zeroinitializer"
    )
    e.write(item.operands[0], value, bits)


@HANDLERS.of("selp")
def _select(e: Emitter, item: Instruction, m: Modifiers) -> None:
    bits = WIDTHS[m.type((*_VALUES, "f16", "bf16", "f16x2", "bf16x2", "b128"))]
    result, a, b, predicate = item.operands
    x, y, p = e.read(a, bits), e.read(b, bits), e.read_predicate(predicate)
    e.write(result, e.op(f"select {lanes(1)} {p}, {lanes(bits)} {x}, {lanes(bits)} {y}"), bits)


@HANDLERS.of("slct")
def _select_by_sign(e: Emitter, item: Instruction, m: Modifiers) -> None:
    by = m.type(("s32", "f32"))
    bits = WIDTHS[m.type(_VALUES)]
    result, a, b, c = item.operands
    x, y, z = e.read(a, bits), e.read(b, bits), e.read(c, 32)
    if by == "f32":
        z = flush(e, z, "f32") if m.flag("ftz") else z
        chosen = e.op(f"fcmp oge {float_lanes('f32')} {e.as_float(z, 'f32')}, zeroinitializer")
    else:
        chosen = e.op(f"icmp sge {lanes(32)} {z}, zeroinitializer")
    e.write(result, e.op(f"select {lanes(1)} {chosen}, {lanes(bits)} {x}, {lanes(bits)} {y}"), bits)


# -- calls and hints


@HANDLERS.of("call")
def _builtin_call(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.flag("uni")
    results, callee, _ = item.operands
    if not isinstance(callee, Symbol) or callee.name not in BUILTIN_CALLS:
        raise m.fail("of this is not emulated")
    if callee.name == "__assertfail":
        e.fault(Fault.ASSERT)
    elif isinstance(results, Vector) and results.items:
        # vprintf says how many values it has printed; nothing is printed here.
        from treadle.emulate.ptx.memory import store_param

        (place,) = results.items
        if isinstance(place, Symbol):
            store_param(e, place, "zeroinitializer", 32)


@HANDLERS.of("nanosleep")
def _sleep(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("u32",))


@HANDLERS.of("prefetch", "prefetchu", "applypriority", "discard", "pmevent", "setmaxnreg", "brkpt")
def _hint(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.rest.clear()


@HANDLERS.of("createpolicy")
def _cache_policy(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """What caches are told changes no value: any policy is as good as another."""
    m.rest.clear()
    e.write(item.operands[0], "zeroinitializer", 64)


@HANDLERS.of("griddepcontrol")
def _grid_dependency(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not m.one_of(("launch_dependents", "wait")):
        raise m.fail()
