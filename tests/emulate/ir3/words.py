"""Words of machine code for tests, by the names that Mesa's description gives to fields.

    word("add.u", DST=r(8), FULL=1, SRC1=c(0), SRC2=r(4), NOP=3)

The package's table says where fields lie. Registers are counted by components, as there.
"""

from treadle.emulate.ir3.decode import GPU
from treadle.emulate.ir3.table import INSTRUCTION, table

__all__ = ["A0", "P0", "TYPES", "c", "h", "immed", "mov", "move", "r", "word"]

A0, P0 = 61 * 4, 62 * 4
_NAMES = ("f16", "f32", "u16", "u32", "s16", "s32", "u8", "u8_32")
TYPES = {name: i for i, name in enumerate(_NAMES)}


def word(name, **fields):
    """A word of the form `name`. NOP counts cycles behind cat2 and cat3."""
    nops = fields.pop("NOP", 0)
    if nops:
        fields |= {"SRC1_R": nops & 1, "SRC2_R": nops >> 1}
    forms = [
        f for f in table().forms[INSTRUCTION] if f.name == name and f.least_gpu <= GPU <= f.most_gpu
    ]
    (form,) = forms
    value = form.ones
    for field, number in fields.items():
        places = [case.fields[field] for case in form.cases if field in case.fields]
        place = next(p for p in places if p.derived is None)
        value |= (number & (1 << place.width) - 1) << place.low
    return value


def r(number):
    """A register as a source of cat2, cat3 and cat4, or a field that is one."""
    return number


h = r  # a half register, where the instruction says so


def c(number, cat3=False):
    """A constant as a source."""
    return number | (1 << 12 if cat3 else 2 << 11)


def immed(number):
    """A whole number as a source of cat2."""
    return number & 0x7FF | 4 << 11


def mov(target, source, types="u32u32", form="mov-gpr", **fields):
    """A move or conversion of cat1."""
    for old, code in TYPES.items():
        if types.startswith(old) and types[len(old) :] in TYPES:
            new = TYPES[types[len(old) :]]
            return word(form, DST=target, SRC=source, SRC_TYPE=code, DST_TYPE=new, **fields)
    raise ValueError(types)


def move(target, number, types="u32u32", **fields):
    """A number into a register."""
    return mov(target, number, types, "mov-immed", **fields)
