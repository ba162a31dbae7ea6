"""The text of a module becomes its functions, variables and metadata.

module = read_text(text)
module.functions["add"].blocks["entry"][0].opcode
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from treadle.emulate.air.lexer import Words, unquoted
from treadle.emulate.air.syntax import (
    AIRError,
    Array,
    Function,
    Global,
    Instruction,
    Local,
    Parameter,
    Pointer,
    Scalar,
    Struct,
    Type,
    Value,
    Vector,
    align_of,
    type_at,
)

__all__ = ["Text", "read_text"]

_BINARY = {
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem",
}  # fmt: skip
_CASTS = {
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp",
    "ptrtoint", "inttoptr", "bitcast", "addrspacecast",
}  # fmt: skip
_FLAGS = {
    "nuw", "nsw", "nusw", "exact", "disjoint", "nneg", "samesign", "inbounds", "inrange",
    "volatile", "fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "atomic",
}  # fmt: skip
_LABEL = re.compile(r'^("[^"]*"|[\w.$-]+):')
_STRUCT = re.compile(r'^(%"[^"]*"|%[\w.$-]+) = type (.*)$', re.MULTILINE)
_GLOBAL = re.compile(r'^(@"[^"]*"|@[\w.$-]+) = (.*)$', re.MULTILINE)
_META = re.compile(r"^(!\S+) = (?:distinct )?!\{(.*)\}$", re.MULTILINE)


class _Structs(Mapping[str, Type]):
    """Named types, read when they are asked for."""

    def __init__(self, text: str) -> None:
        self._texts = dict(_STRUCT.findall(text))
        self._found: dict[str, Type] = {}

    def __getitem__(self, name: str) -> Type:
        if name not in self._found:
            if self._texts[name] == "opaque":
                self._found[name] = Struct(())
            else:
                self._found[name] = Words(self._texts[name], self).type()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


@dataclass
class Text:
    """A module's text in pieces; functions are read when they are asked for."""

    structs: Mapping[str, Type]
    globals: dict[str, Global]
    metadata: dict[str, str]
    bodies: dict[str, tuple[str, str]] = field(repr=False)

    def function(self, name: str) -> Function:
        """A function that the module defines. Raises AIRError for what is not emulated."""
        if name not in self.bodies:
            raise AIRError(f"the module defines no function {name}")
        head, body = self.bodies[name]
        words = Words(head, self.structs)
        function = Function(name, _parameters(words))
        _Body(function, self.structs).read(body)
        return function


def read_text(text: str) -> Text:
    """The pieces of a module's text."""
    structs = _Structs(text)
    bodies = {}
    for found in re.finditer(
        r'^define [^@]*@("[^"]*"|[\w.$-]+)(\(.*)\{\n((?s:.*?))^\}', text, re.MULTILINE
    ):
        bodies[unquoted("@" + found[1])[1:]] = (found[2], found[3])
    variables = {}
    for name, rest in _GLOBAL.findall(text):
        variable = _global(unquoted(name), rest, structs)
        if variable is not None:
            variables[variable.name] = variable
    return Text(structs, variables, dict(_META.findall(text)), bodies)


def _global(name: str, rest: str, structs: Mapping[str, Type]) -> Global | None:
    if name.startswith("@llvm."):
        return None
    words = Words(rest, structs)
    space = 0
    external = False
    while words.here not in ("global", "constant"):
        if not words.here:
            return None  # an alias or another thing that is no variable
        if words.take() == "addrspace":
            words.need("(")
            space = int(words.take())
            words.need(")")
        external |= words.items[words.at - 1] == "external"
    words.take()
    kind = words.type()
    value = None if external else words.constant(kind)
    align = align_of(kind)
    while words.skip(","):
        if words.skip("align"):
            align = int(words.take())
        else:
            words.take()
            words.skip_group()
            if words.here[:1] == '"':
                words.take()
    return Global(name, space, kind, align, value)


def _parameters(words: Words) -> tuple[Parameter, ...]:
    words.need("(")
    found = []
    while not words.skip(")"):
        kind = words.type()
        words.skip_attributes()
        name = unquoted(words.take()) if words.here[:1] == "%" else f"%{len(found)}"
        found.append(Parameter(name, kind))
        words.skip(",")
    return tuple(found)


def _lines(body: str) -> Iterator[tuple[int, str]]:
    """The lines of a body with their numbers; a switch is one line."""
    held, start = "", 0
    for number, line in enumerate(body.splitlines(), 1):
        if held:
            held += " " + line.strip()
            if line.strip().startswith("]"):
                yield start, held
                held = ""
        elif line.startswith("  switch ") and not line.rstrip().endswith("]"):
            held, start = line, number
        elif line.strip() and not line.lstrip().startswith(";"):
            yield number, line


class _Body:
    """Reads the instructions of a function into its basic blocks."""

    def __init__(self, function: Function, structs: Mapping[str, Type]) -> None:
        self.function, self._structs = function, structs

    def read(self, body: str) -> None:
        block: list[Instruction] | None = None
        first: list[Instruction] = []
        for number, line in _lines(body):
            label = _LABEL.match(line)
            if label:
                block = self.function.blocks[unquoted("%" + label[1])] = []
                continue
            if block is None:
                block = first
            item = self._instruction(Words(line, self._structs))
            if item is not None:
                item.number = number
                block.append(item)
        if first:
            self._name_first(first)

    def _name_first(self, first: list[Instruction]) -> None:
        """The first block's name is not written where it is a number: phis say it."""
        names = {
            word
            for items in self.function.blocks.values()
            for item in items
            if item.opcode == "phi"
            for word in item.words
        }
        unknown = sorted(names - set(self.function.blocks))
        name = unknown[0] if unknown else "%"
        self.function.blocks = {name: first, **self.function.blocks}

    def _instruction(self, words: Words) -> Instruction | None:
        result = ""
        if words.here[:1] == "%":
            result = unquoted(words.take())
            words.need("=")
        opcode = words.take()
        if opcode in ("tail", "musttail", "notail"):
            opcode = words.take()
        while words.here in _FLAGS:
            words.take()
        read = _READERS.get(opcode)
        if opcode in _BINARY:
            read = _binary
        elif opcode in _CASTS:
            read = _cast
        if read is None:
            raise AIRError(f"{opcode} is not emulated")
        return read(words, opcode, result)


_VOID = Scalar("void")


def _label(words: Words) -> str:
    words.need("label")
    return unquoted(words.take())


def _binary(words: Words, opcode: str, result: str) -> Instruction:
    kind = words.type()
    a = words.value(kind)
    words.need(",")
    return Instruction(opcode, result, kind, (a, words.value(kind)))


def _cast(words: Words, opcode: str, result: str) -> Instruction:
    value = words.typed_value()
    words.need("to")
    return Instruction(opcode, result, words.type(), (value,))


def _unary(words: Words, opcode: str, result: str) -> Instruction:
    value = words.typed_value()
    return Instruction(opcode, result, value.type, (value,))


def _compare(words: Words, opcode: str, result: str) -> Instruction:
    how = words.take()
    a = words.typed_value()
    words.need(",")
    b = words.value(a.type)
    kind: Type = Scalar("i1")
    if isinstance(a.type, Vector):
        kind = Vector(a.type.count, kind)
    return Instruction(opcode, result, kind, (a, b), (how,))


def _several(words: Words) -> list[Value]:
    """Values with types, between commas."""
    found = [words.typed_value()]
    while words.here == "," and words.items[words.at + 1][:1] != "!":
        words.take()
        found.append(words.typed_value())
    return found


def _select(words: Words, opcode: str, result: str) -> Instruction:
    values = _several(words)
    return Instruction(opcode, result, values[1].type, tuple(values))


def _shuffle(words: Words, opcode: str, result: str) -> Instruction:
    a, b, mask = _several(words)
    if not (isinstance(mask.type, Vector) and isinstance(a.type, Vector)):
        raise AIRError("shufflevector takes vectors")
    kind = Vector(mask.type.count, a.type.element)
    return Instruction(opcode, result, kind, (a, b, mask))


def _extract_element(words: Words, opcode: str, result: str) -> Instruction:
    vector, index = _several(words)
    return Instruction(opcode, result, type_at(vector.type, 0), (vector, index))


def _insert_element(words: Words, opcode: str, result: str) -> Instruction:
    values = _several(words)
    return Instruction(opcode, result, values[0].type, tuple(values))


def _indices(words: Words) -> tuple[str, ...]:
    found = []
    while words.here == "," and words.items[words.at + 1][:1] != "!":
        words.take()
        found.append(words.take())
    return tuple(found)


def _extract_value(words: Words, opcode: str, result: str) -> Instruction:
    value = words.typed_value()
    indices = _indices(words)
    kind = value.type
    for index in indices:
        kind = type_at(kind, int(index))
    return Instruction(opcode, result, kind, (value,), indices)


def _insert_value(words: Words, opcode: str, result: str) -> Instruction:
    value = words.typed_value()
    words.need(",")
    element = words.typed_value()
    return Instruction(opcode, result, value.type, (value, element), _indices(words))


def _phi(words: Words, opcode: str, result: str) -> Instruction:
    kind = words.type()
    values, labels = [], []
    while True:
        words.need("[")
        values.append(words.value(kind))
        words.need(",")
        labels.append(unquoted(words.take()))
        words.need("]")
        if words.here != "," or words.items[words.at + 1] != "[":
            return Instruction(opcode, result, kind, tuple(values), tuple(labels))
        words.take()


def _place(words: Words, opcode: str, result: str) -> Instruction:
    kind = words.type()
    words.need(",")
    values = _several(words)
    pointer: Type = values[0].type
    for value in values:  # one vector makes it a vector of addresses
        if isinstance(value.type, Vector) and not isinstance(pointer, Vector):
            pointer = Vector(value.type.count, pointer)
    return Instruction(opcode, result, pointer, tuple(values), source=kind)


def _alignment(words: Words, kind: Type) -> int:
    while words.skip(","):
        if words.skip("align"):
            return int(words.take())
        words.take()
    return align_of(kind)


def _load(words: Words, opcode: str, result: str) -> Instruction:
    kind = words.type()
    words.need(",")
    pointer = words.typed_value()
    return Instruction(opcode, result, kind, (pointer,), align=_alignment(words, kind))


def _store(words: Words, opcode: str, result: str) -> Instruction:
    value = words.typed_value()
    words.need(",")
    pointer = words.typed_value()
    align = _alignment(words, value.type)
    return Instruction(opcode, result, _VOID, (value, pointer), align=align)


def _alloca(words: Words, opcode: str, result: str) -> Instruction:
    kind = words.type()
    if words.here == "," and words.items[words.at + 1][:1] == "i":
        words.take()
        count = words.typed_value()
        if isinstance(count, Local) or not isinstance(count.parts[0], int):
            raise AIRError("an alloca of a variable size is not emulated")
        kind = Array(count.parts[0], kind)
    return Instruction(opcode, result, Pointer(0), (), source=kind, align=_alignment(words, kind))


def _call(words: Words, opcode: str, result: str) -> Instruction | None:
    words.skip_attributes()  # a calling convention is one
    while words.here in ("fastcc", "spir_func"):
        words.take()
    kind = words.type() if words.here != "@" else _VOID
    words.skip_group()
    callee = words.take()
    if callee[:1] != "@":
        raise AIRError("a call of a pointer is not emulated")
    name = unquoted(callee)[1:]
    if name.startswith(("llvm.lifetime", "llvm.dbg", "llvm.assume", "llvm.experimental.noalias")):
        return None
    words.need("(")
    values: list[Value] = []
    while not words.skip(")"):
        if words.here == "metadata":
            raise AIRError(f"{name} takes metadata, which is not emulated")
        values.append(words.typed_value())
        words.skip(",")
    rest = words.items[words.at :]
    # What a copy of a struct copies: not what lies between its members.
    members = rest[rest.index("!tbaa.struct") + 1 :][:1] if "!tbaa.struct" in rest else []
    return Instruction(opcode, result, kind, tuple(values), (name, *members))


def _branch(words: Words, opcode: str, result: str) -> Instruction:
    if words.here == "label":
        return Instruction(opcode, result, _VOID, (), (_label(words),))
    condition = words.typed_value()
    words.need(",")
    yes = _label(words)
    words.need(",")
    return Instruction(opcode, result, _VOID, (condition,), (yes, _label(words)))


def _switch(words: Words, opcode: str, result: str) -> Instruction:
    value = words.typed_value()
    words.need(",")
    labels, cases = [_label(words)], []
    words.need("[")
    while not words.skip("]"):
        cases.append(words.typed_value())
        words.need(",")
        labels.append(_label(words))
    return Instruction(opcode, result, _VOID, (value, *cases), tuple(labels))


def _return(words: Words, opcode: str, result: str) -> Instruction:
    if not words.skip("void"):
        raise AIRError("a kernel that returns a value is not emulated")
    return Instruction(opcode, result, _VOID, ())


def _unreachable(words: Words, opcode: str, result: str) -> Instruction:
    return Instruction(opcode, result, _VOID, ())


_READERS = {
    "icmp": _compare, "fcmp": _compare, "select": _select, "freeze": _unary, "fneg": _unary,
    "shufflevector": _shuffle, "extractelement": _extract_element,
    "insertelement": _insert_element, "extractvalue": _extract_value,
    "insertvalue": _insert_value, "phi": _phi, "getelementptr": _place, "load": _load,
    "store": _store, "alloca": _alloca, "call": _call, "br": _branch, "switch": _switch,
    "ret": _return, "unreachable": _unreachable,
}  # fmt: skip
