"""Instructions with machine registers become words of 64 bits.

encode(Instruction("add.f", [Register(2)], [Register(1), Constant(5)]), 0)  ->  0x4010000210050001

Each field is put where tables has it; a value that does not fit there is an InternalError.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from treadle.errors import InternalError

from .code import PREDICATE, Constant, Instruction, Kernel, Literal, Operand, Register, Value
from .tables import CONDITIONS, FLOATS, FORMS, TYPES, split_name

__all__ = ["encode", "encode_kernel"]

_CONVERSION = re.compile(r"([fus]\d+)([fus]\d+)(\.even)?")
_EVEN = 1
Given = dict[str, int]


def encode_kernel(kernel: Kernel) -> list[int]:
    """The words of a kernel, whose branches get the distances that they jump."""
    starts, position = [], 0
    for block in kernel.blocks:
        starts.append(position)
        position += len(block.code)
    words: list[int] = []
    for one in kernel:
        distance = 0 if one.target is None else starts[one.target] - len(words)
        words.append(encode(one, distance))
    return words


def encode(one: Instruction, distance: int = 0) -> int:
    """The word of one instruction; `distance` is how far a branch jumps."""
    name, rest = split_name(one.op)
    if name in ("mov", "cov"):
        key, given = _move(one, rest)
    elif name == "br":
        key, given = name, {"IMMED": distance & 0xFFFFFFFF, "INV1": int(one.inverted)}
    else:
        key, given = name, _FIELDS[FORMS[name].category](one, name, rest)
    form = FORMS[key]
    given |= {"JP": int(one.jp), "SY": int(one.sy)}
    if one.ss or "SS" in form.fields:
        given["SS"] = int(one.ss)
    if one.nop:
        given |= {"SRC1_R": one.nop & 1, "SRC2_R": one.nop >> 1}
    word = form.fixed
    for field, value in given.items():
        if field not in form.fields:
            raise InternalError(f"{one.op} has no field {field}")
        low, width = form.fields[field]
        if not 0 <= value < 1 << width:
            raise InternalError(f"{one.op}: {value} does not fit {field}, which has {width} bits")
        word |= value << low
    return word


def _is_half(operand: Operand) -> bool:
    return isinstance(operand, Register | Value) and operand.half


def _number(operand: Operand) -> int:
    """The eight bits of a register."""
    if not isinstance(operand, Register):
        raise InternalError(f"no register: {operand}")
    return operand.number


def _small(operand: Operand) -> int:
    """A number that an instruction of memory holds: a size or an offset."""
    if not isinstance(operand, Literal):
        raise InternalError(f"no number: {operand}")
    return operand.signed


def _converts(one: Instruction) -> int:
    """Whether the result is of the other width than the sources."""
    (dst,), source = one.dsts, one.srcs[0]
    if isinstance(dst, Register) and dst.number == PREDICATE:
        return 0
    return int(dst.half != _is_half(source))


def _move(one: Instruction, types: str) -> tuple[str, Given]:
    found = _CONVERSION.fullmatch(types)
    if found is None:
        raise InternalError(f"no types of a move: {one.op}")
    (dst,), (source,) = one.dsts, one.srcs
    given = {
        "SRC_TYPE": TYPES[found[1]],
        "DST_TYPE": TYPES[found[2]],
        "ROUND": _EVEN if found[3] else 0,
        "DST": _number(dst),
    }
    if isinstance(source, Literal):
        return "mov-immed", {**given, "SRC": source.bits}
    if isinstance(source, Constant):
        return "mov-const", {**given, "SRC": source.index}
    return "mov-gpr", {**given, "SRC": _number(source)}


def _modifiers(operand: Operand) -> int:
    return operand.neg << 14 | operand.abs << 15


def _any_source(operand: Operand, is_float: bool) -> int:
    """The sixteen bits of a source in categories 2 and 4."""
    bits = _modifiers(operand)
    if isinstance(operand, Constant):
        return bits | 1 << 12 | operand.index
    if isinstance(operand, Literal):
        if is_float:
            return bits | 5 << 11 | FLOATS[operand.bits]
        return bits | 4 << 11 | operand.signed & 0x7FF
    return bits | _number(operand)


def _arithmetic(one: Instruction, name: str, rest: str) -> Given:
    given = {
        "DST": _number(one.dsts[0]),
        "DST_CONV": _converts(one),
        "FULL": int(not _is_half(one.srcs[0])),
    }
    for number, source in enumerate(one.srcs, 1):
        given[f"SRC{number}"] = _any_source(source, name.endswith(".f"))
    if rest:
        given["COND"] = CONDITIONS[rest]
    return given


def _three_sources(one: Instruction, name: str, rest: str) -> Given:
    first, second, third = one.srcs
    given = {
        "DST": _number(one.dsts[0]),
        "SRC1": _short_source(first),
        "SRC2": _number(second),
        "SRC3": _short_source(third),
        "DST_CONV": _converts(one),
    }
    for number, source in enumerate(one.srcs, 1):
        given[f"SRC{number}_NEG"] = int(source.neg)
    return given


def _short_source(operand: Operand) -> int:
    """The thirteen bits of a first or third source."""
    if isinstance(operand, Constant):
        return 1 << 12 | operand.index
    return _number(operand)


def _special(one: Instruction, name: str, rest: str) -> Given:
    (source,) = one.srcs
    return {
        "DST": _number(one.dsts[0]),
        "SRC": _any_source(source, is_float=True),
        "DST_CONV": _converts(one),
        "FULL": int(not _is_half(source)),
    }


def _texture(one: Instruction, name: str, rest: str) -> Given:
    (dst,), (place, number) = one.dsts, one.srcs
    return {
        "DST": _number(dst),
        "WRMASK": (1 << _count(dst)) - 1,
        "TYPE": TYPES[rest],
        "SRC1": _number(place),
        "FULL": 1,
        "TEX": _small(number),
    }


def _image(one: Instruction, rest: str) -> Given:
    value, place, number = (*one.dsts, *one.srcs)
    return {
        "TYPE": TYPES[rest],
        "TYPED": 1,
        "D_MINUS_ONE": 1,
        "TYPE_SIZE_MINUS_ONE": _count(value) - 1,
        "SRC1": _number(value),
        "SRC2": _number(place),
        "SSBO": _small(number),
    }


def _count(operand: Operand) -> int:
    """How many registers an operand is."""
    if not isinstance(operand, Register):
        raise InternalError(f"no register: {operand}")
    return operand.count


def _memory(one: Instruction, name: str, rest: str) -> Given:
    if name in ("ldib.b", "stib.b"):
        return _image(one, rest)
    given = {"TYPE": TYPES[rest]}
    if one.dsts:
        base, *others = one.srcs
        given["DST"] = _number(one.dsts[0])
    else:
        base, value, *others = one.srcs
        given["SRC3" if name.startswith("stg") else "SRC"] = _number(value)
    *others, size = others
    given["SIZE"] = _small(size)
    if name.endswith(".a"):
        place, shift, offset = others
        given |= {"SRC1": _number(base), "SRC2": _number(place)}
        given |= {"SRC2_ADD_DWORD_SHIFT": _small(shift), "OFF": _small(offset)}
    else:
        (offset,) = (_small(other) for other in others)
        given |= _offset(name, offset)
        given[_BASES[name]] = _number(base)
    if name.startswith("stg"):
        given["DST_OFF"] = 1
    return given


_BASES = {"ldg": "SRC1", "stg": "SRC1", "ldl": "SRC", "ldp": "SRC", "stl": "DST", "stp": "DST"}


def _offset(name: str, offset: int) -> Given:
    if not -4096 <= offset < 4096:
        raise InternalError(f"{name}: the offset {offset} has more than 13 bits")
    bits = offset & 0x1FFF
    if name.startswith("ld"):
        return {"OFF": bits}
    return {"OFF_LO": bits & 0xFF, "OFF_HI": bits >> 8}


def _barrier(one: Instruction, name: str, rest: str) -> Given:
    return {letter.upper(): 1 for letter in rest.replace(".", "")}


def _plain(one: Instruction, name: str, rest: str) -> Given:
    return {"REPEAT": one.repeat}


_FIELDS: dict[int, Callable[[Instruction, str, str], Given]] = {
    0: _plain, 2: _arithmetic, 3: _three_sources, 4: _special, 5: _texture, 6: _memory,
    7: _barrier,
}  # fmt: skip
