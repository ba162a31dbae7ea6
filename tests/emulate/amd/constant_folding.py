"""Operations of LLVM's, folded by LLVM and computed by an emulated GPU.

    folded("gfx1100", [OPERATIONS["fadd float"]])   ->  for each: the bits of each result, or None
    source([OPERATIONS["fadd float"]], False)       ->  IR of a kernel `k` that computes them

An operation has lines of IR that make %r of %a, %b and %c. Each has `COUNT` triples of arguments:
the special values of their types with one another, and random bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np

__all__ = ["COUNT", "OPERATIONS", "SCALAR", "SLOT", "Operation", "folded", "source"]

COUNT = 128
SLOT = 8  # bytes: each argument and each result has as many
BITS = {"half": 16, "float": 32, "double": 64}
_SHORT = {"half": "f16", "float": "f32", "double": "f64"}
_FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}
_NUMBERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 7.9, 31.0, 1000.7, np.inf)


def bits_of(of: str) -> int:
    """How many bits a type has: `float`, `i16`, `<2 x half>`."""
    vector = re.fullmatch(r"<(\d+) x (\w+)>", of)
    if vector:
        return int(vector[1]) * bits_of(vector[2])
    return BITS.get(of) or int(of[1:])


@dataclass(frozen=True)
class Operation:
    """`text` makes %r, of type `result`, of %a, %b and %c, whose types are `types`.

    `most` are the units in the last place by which both may differ. `needs` are declarations.
    """

    name: str
    text: str
    types: tuple[str, ...]
    result: str
    needs: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    most: int = 0

    @cached_property
    def arguments(self) -> list[tuple[int, ...]]:
        """The bits of the arguments, a tuple for each item."""
        rng = np.random.default_rng(list(self.name.encode()))
        known = [_special(of) for of in self.types]
        found = [*product(*known)]
        if len(found) > COUNT // 2:
            rng.shuffle(found)
            found = found[: COUNT // 2]
        while len(found) < COUNT:
            found.append(tuple(_random(of, rng) for of in self.types))
        return [tuple(map(int, one)) for one in found]

    def lines(self, values: list[str]) -> str:
        """The lines with arguments of their own types, and the result's bits as %bits."""
        text = "".join(
            f"  %{letter} = bitcast i{bits_of(of)} {value} to {of}\n"
            for letter, of, value in zip("abc", self.types, values, strict=False)
        )
        bits = bits_of(self.result)
        return f"{text}{self.text}\n  %bits = bitcast {self.result} %r to i{bits}\n"


def _special(of: str) -> list[int]:
    if of in _FLOATS:
        kind = _FLOATS[of]
        fact = np.finfo(kind)
        least = fact.smallest_subnormal
        numbers = [*_NUMBERS, fact.tiny, least, fact.tiny - least, fact.max]
        whole = f"u{kind().itemsize}"
        values = np.array([*numbers, *(-n for n in numbers), np.nan], kind).view(whole)
        return values.tolist()
    bits = bits_of(of)
    top = 1 << bits - 1
    return [n & 2 * top - 1 for n in (0, 1, 2, 3, 7, 8, 16, 24, 31, 32, 33, -1, -2, top, top - 1)]


def _random(of: str, rng: np.random.Generator) -> int:
    """Random bits; every other float is of usual size."""
    if of in _FLOATS and rng.random() < 0.6:
        kind = _FLOATS[of]
        return int(np.array(rng.standard_normal() * 10.0 ** rng.integers(-3, 4), kind).view(
            f"u{kind().itemsize}"))  # fmt: skip
    bits = bits_of(of)
    value = int.from_bytes(rng.bytes(bits // 8), "little")
    if of in _FLOATS:  # a signalling NaN becomes a quiet one in some operations of LLVM's, or stays
        kind = _FLOATS[of]
        number = np.array(value, f"u{kind().itemsize}").view(kind)
        return value if not np.isnan(number) else _special(of)[-1]
    return value >> int(rng.integers(0, bits)) if rng.random() < 0.5 else value


# -- which there are


OPERATIONS: dict[str, Operation] = {}


def _add(name: str, text: str, types: tuple[str, ...], result: str, **more: Any) -> None:
    OPERATIONS[name] = Operation(name, text, types, result, **more)


def _call(
    name: str,
    types: tuple[str, ...],
    result: str,
    *constants: str,
    suffix: bool = True,
    **more: Any,
) -> None:
    """An intrinsic; `constants` are arguments behind %a, %b and %c, with their types."""
    short = ".".join(_SHORT.get(of, of) for of in (types[0],))
    called = f"llvm.{name}" + (f".{short}" if suffix else "")
    given = [f"{of} %{letter}" for of, letter in zip(types, "abc", strict=False)]
    given += constants
    kinds = ", ".join(one.rsplit(" ", 1)[0] for one in given)
    text = f"  %r = call {result} @{called}({', '.join(given)})"
    key = f"{name} {short}" + "".join(f" {one}" for one in constants)
    _add(key, text, types, result, needs=(f"declare {result} @{called}({kinds})",), **more)


for _of in ("i16", "i32", "i64"):
    for _name in ("add", "sub", "mul", "and", "or", "xor"):
        _add(f"{_name} {_of}", f"  %r = {_name} {_of} %a, %b", (_of, _of), _of)
    for _name in ("shl", "lshr", "ashr"):
        _text = f"  %n = and {_of} %b, {bits_of(_of) - 1}\n  %r = {_name} {_of} %a, %n"
        _add(f"{_name} {_of}", _text, (_of, _of), _of)
    for _name in ("eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"):
        _text = f"  %f = icmp {_name} {_of} %a, %b\n  %r = zext i1 %f to i32"
        _add(f"icmp {_name} {_of}", _text, (_of, _of), "i32")
    for _name in ("umin", "umax", "smin", "smax", "uadd.sat", "sadd.sat", "usub.sat", "ssub.sat"):
        _call(_name, (_of, _of), _of)
    for _name in ("ctpop", "bitreverse", "bswap"):
        _call(_name, (_of,), _of)
    for _name in ("ctlz", "cttz"):
        _call(_name, (_of,), _of, "i1 false")
    _call("abs", (_of,), _of, "i1 false")
    for _name in ("fshl", "fshr"):
        _call(_name, (_of,) * 3, _of)
for _name in ("zext", "sext"):
    _text = f"""  %x = {_name} i32 %a to i64
  %y = {_name} i32 %b to i64
  %p = mul i64 %x, %y"""
    _high = f"{_text}\n  %h = lshr i64 %p, 32\n  %r = trunc i64 %h to i32"
    _add(f"mul high {_name}", _high, ("i32", "i32"), "i32")
    _add(f"mad wide {_name}", f"{_text}\n  %r = add i64 %p, %c", ("i32", "i32", "i64"), "i64")
_TWO = {
    "add": "add", "sub": "sub", "mul": "mul", "umin": "", "smax": "", "fadd": "fadd",
    "fsub": "fsub", "fmul": "fmul",
}  # fmt: skip
for _name, _opcode in _TWO.items():
    _of = "<2 x half>" if _name[0] == "f" else "<2 x i16>"
    if _opcode:
        _add(f"{_name} {_of}", f"  %r = {_opcode} {_of} %a, %b", (_of, _of), _of)
    else:
        _add(
            f"{_name} {_of}", f"  %r = call {_of} @llvm.{_name}.v2i16({_of} %a, {_of} %b)",
            (_of, _of), _of, needs=(f"declare {_of} @llvm.{_name}.v2i16({_of}, {_of})",),
        )  # fmt: skip

for _of in ("half", "float", "double"):
    for _name in ("fadd", "fsub", "fmul", "fdiv"):
        _add(f"{_name} {_of}", f"  %r = {_name} {_of} %a, %b", (_of, _of), _of)
    for _name in ("oeq", "one", "olt", "ole", "ogt", "oge", "ord", "uno", "ueq", "une", "ult",
                  "ule", "ugt", "uge"):  # fmt: skip
        _text = f"  %f = fcmp {_name} {_of} %a, %b\n  %r = zext i1 %f to i32"
        _add(f"fcmp {_name} {_of}", _text, (_of, _of), "i32")
    for _name in ("minnum", "maxnum", "minimum", "maximum", "minimumnum", "maximumnum", "copysign"):
        _call(_name, (_of, _of), _of)
    for _name in ("floor", "ceil", "trunc", "rint", "roundeven", "round", "fabs", "canonicalize",
                  "sqrt"):  # fmt: skip
        _call(_name, (_of,), _of)
    _call("fma", (_of,) * 3, _of)
    _add(f"fneg {_of}", f"  %r = fneg {_of} %a", (_of,), _of)
    _add(
        f"ldexp {_of}", f"  %r = call {_of} @llvm.ldexp.{_SHORT[_of]}.i32({_of} %a, i32 %b)",
        (_of, "i32"), _of, needs=(f"declare {_of} @llvm.ldexp.{_SHORT[_of]}.i32({_of}, i32)",),
    )  # fmt: skip
    for _number, _part in enumerate((_of, "i32")):
        _pair = f"{{ {_of}, i32 }}"
        _text = f"""  %p = call {_pair} @llvm.frexp.{_SHORT[_of]}.i32({_of} %a)
  %r = extractvalue {_pair} %p, {_number}"""
        _needs = (f"declare {_pair} @llvm.frexp.{_SHORT[_of]}.i32({_of})",)
        _add(f"frexp {_number} {_of}", _text, (_of,), _part, needs=_needs)
    for _test in (1, 2, 3, 0x10, 0x60, 0x90, 0x108, 0x1F8, 0x204, 0x264):
        _text = f"""  %f = call i1 @llvm.is.fpclass.{_SHORT[_of]}({_of} %a, i32 {_test})
  %r = zext i1 %f to i32"""
        _needs = (f"declare i1 @llvm.is.fpclass.{_SHORT[_of]}({_of}, i32 immarg)",)
        _add(f"is.fpclass {_test:#x} {_of}", _text, (_of,), "i32", needs=_needs)
    for _whole in ("i16", "i32", "i64"):
        for _name in ("sitofp", "uitofp"):
            _text = f"  %r = {_name} {_whole} %a to {_of}"
            _add(f"{_name} {_whole} {_of}", _text, (_whole,), _of)
        for _name in ("fptosi.sat", "fptoui.sat"):
            _called = f"@llvm.{_name}.{_whole}.{_SHORT[_of]}"
            _text = f"  %r = call {_whole} {_called}({_of} %a)"
            _needs = (f"declare {_whole} {_called}({_of})",)
            _add(f"{_name} {_whole} {_of}", _text, (_of,), _whole, needs=_needs)
for _wide, _narrow in (("float", "half"), ("double", "float"), ("double", "half")):
    _text = f"  %r = fptrunc {_wide} %a to {_narrow}"
    _add(f"fptrunc {_wide} {_narrow}", _text, (_wide,), _narrow)
    _add(f"fpext {_narrow} {_wide}", f"  %r = fpext {_narrow} %a to {_wide}", (_narrow,), _wide)

# -- AMD's own intrinsics

for _of in ("half", "float", "double"):
    for _name in ("rcp", "fract", "frexp.mant"):
        _call(f"amdgcn.{_name}", (_of,), _of)
    if _of != "double":
        for _name in ("sin", "cos"):
            _call(f"amdgcn.{_name}", (_of,), _of, most=1)
        _call("amdgcn.fmed3", (_of,) * 3, _of)
    _count = "i16" if _of == "half" else "i32"
    _called = f"@llvm.amdgcn.frexp.exp.{_count}.{_SHORT[_of]}"
    _needs = (f"declare {_count} {_called}({_of})",)
    _add(f"amdgcn.frexp.exp {_of}", f"  %r = call {_count} {_called}({_of} %a)", (_of,), _count,
         needs=_needs)  # fmt: skip
    _text = f"""  %f = call i1 @llvm.amdgcn.class.{_SHORT[_of]}({_of} %a, i32 %b)
  %r = zext i1 %f to i32"""
    _needs = (f"declare i1 @llvm.amdgcn.class.{_SHORT[_of]}({_of}, i32)",)
    _add(f"amdgcn.class {_of}", _text, (_of, "i32"), "i32", needs=_needs)
for _name in ("cubeid", "cubema", "cubesc", "cubetc"):
    _call(f"amdgcn.{_name}", ("float",) * 3, "float", suffix=False)
_call("amdgcn.fmul.legacy", ("float",) * 2, "float", suffix=False)
_call(
    "amdgcn.fma.legacy", ("float",) * 3, "float", suffix=False,
    chips=("gfx1030", "gfx1100", "gfx1201"),
)  # fmt: skip
_call("amdgcn.cvt.pkrtz", ("float",) * 2, "<2 x half>", suffix=False)
for _name in ("ubfe", "sbfe"):
    _call(f"amdgcn.{_name}", ("i32",) * 3, "i32")
_call("amdgcn.perm", ("i32",) * 3, "i32", suffix=False)
_add(
    "amdgcn.trig.preop double",
    "  %n = urem i32 %b, 3\n  %r = call double @llvm.amdgcn.trig.preop.f64(double %a, i32 %n)",
    ("double", "i32"), "double", needs=("declare double @llvm.amdgcn.trig.preop.f64(double, i32)",),
)  # fmt: skip
# Operations on scalars: only one of a wave's arguments counts.
SCALAR = set()
for _name, _types, _to in (
    ("s.wqm", ("i32",), "i32"), ("s.wqm", ("i64",), "i64"), ("s.quadmask", ("i32",), "i32"),
    ("s.quadmask", ("i64",), "i64"), ("s.bitreplicate", ("i32",), "i64"),
):  # fmt: skip
    _call(f"amdgcn.{_name}", _types, _to, suffix=_name != "s.bitreplicate")
    SCALAR.add(f"amdgcn.{_name} {_types[0]}")


# -- both ways to compute them

# Functions of which nothing is left but a number.
_RETURNED = re.compile(r"@f(\d+)\.(\d+)\(\)[^{\n]*\{\n  ret i\d+ (-?\d+)\n")
_HEAD = 'target triple = "amdgcn-amd-amdhsa"\n'


def _declared(operations: list[Operation]) -> str:
    return "\n".join(sorted({line for one in operations for line in one.needs})) + "\n"


def source(operations: list[Operation], is_uniform: bool) -> str:
    """A kernel of memory with a block of four times `COUNT` slots for each: arguments, results.

    Where it `is_uniform`, each workgroup has one item: LLVM takes scalar instructions, if it can.
    For that it has to know that nobody changes the arguments.
    """
    which, items = ("workgroup", 1) if is_uniform else ("workitem", COUNT)
    text = _HEAD + _declared(operations) + f"declare i32 @llvm.amdgcn.{which}.id.x()\n"
    text += f"""define amdgpu_kernel void @k(ptr addrspace(1) %data) #0 {{
  %i = call i32 @llvm.amdgcn.{which}.id.x()
  %at = mul i32 %i, {SLOT}
  %mine = getelementptr i8, ptr addrspace(1) %data, i32 %at
"""
    for number, one in enumerate(operations):
        values = []
        for place, of in enumerate(one.types):
            bits, at = bits_of(of), SLOT * COUNT * (4 * number + place)
            text += f"  %p{place} = getelementptr i8, ptr addrspace(1) %mine, i32 {at}\n"
            text += f"  %v{place} = load i{bits}, ptr addrspace(1) %p{place}, !invariant.load !0\n"
            values.append(f"%v{place}")
        at, bits = SLOT * COUNT * (4 * number + 3), bits_of(one.result)
        text += one.lines(values)
        text += f"""  %q = getelementptr i8, ptr addrspace(1) %mine, i32 {at}
  store i{bits} %bits, ptr addrspace(1) %q
"""
        # Names of this operation alone.
        text = re.sub(r"%(p\d|v\d|[abcrnfxyphq]|bits)(?=\W)", rf"%\1.o{number}", text)
    attribute = f'"amdgpu-flat-work-group-size"="{items},{items}"'
    return f"{text}  ret void\n}}\nattributes #0 = {{ {attribute} }}\n!0 = !{{}}\n"


def folded(chip: str, operations: list[Operation]) -> list[list[int | None]]:
    """The bits that LLVM says; None where it leaves the operation, or says that all is allowed."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = _HEAD + _declared(operations)
    for number, one in enumerate(operations):
        for item, values in enumerate(one.arguments):
            bits = bits_of(one.result)
            text += f"define i{bits} @f{number}.{item}() #0 {{\n"
            text += one.lines([str(value) for value in values]) + f"  ret i{bits} %bits\n}}\n"
    text += f'attributes #0 = {{ "target-cpu"="{chip}" }}\n'
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=chip)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.run(module, builder)
    found: list[list[int | None]] = [[None] * COUNT for _ in operations]
    for name, item, result in _RETURNED.findall(str(module)):
        bits = bits_of(operations[int(name)].result)
        found[int(name)][int(item)] = int(result) & (1 << bits) - 1
    return found
