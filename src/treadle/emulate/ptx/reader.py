"""PTX text becomes a Module.

    read_module(text).functions["softmax"].body  ->  [Instruction("ld", ("param", "u64"), ...), ...]

Names of registers, labels and variables inside `{ }` belong to that block: each gets a name of its
own here (`%r1` of the second block is `%r1@2`), so that a body is one flat list. What PTX allows
but the emulator has no meaning for (textures, calls through a register) is an error with its line.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from treadle.emulate.ptx.lexer import Token, tokens
from treadle.emulate.ptx.syntax import (
    WIDTHS,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    PTXError,
    Register,
    Sink,
    Symbol,
    Variable,
    Vector,
)

__all__ = ["read_module"]

_SPACES = {".global", ".const", ".shared", ".local", ".param"}
_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_TYPES = {"." + name for name in WIDTHS}
# Of a kernel: how it may be launched. Those with numbers keep them.
_DIRECTIVES = {
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn",
    ".explicitcluster", ".reqnctapercluster", ".maxclusterrank", ".blocksareclusters",
}  # fmt: skip


def read_module(text: str) -> Module:
    """The module that `text` describes. Raises PTXError, which names the line."""
    return _Reader(tokens(text)).module()


class _Tokens:
    """A place in the tokens, and how to go on from it."""

    def __init__(self, items: list[Token]) -> None:
        self.items, self.at = items, 0

    @property
    def token(self) -> Token:
        return self.items[self.at]

    def fail(self, message: str) -> NoReturn:
        raise PTXError(self.token.line, message)

    def next(self) -> Token:
        self.at += 1
        return self.items[self.at - 1]

    def accept(self, text: str) -> bool:
        found = self.token.text == text and self.token.kind != "end"
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.token.text or 'the end'!r}")

    def word(self) -> str:
        if self.token.kind != "word":
            self.fail(f"expected a name, found {self.token.text or 'the end'!r}")
        return self.next().text

    def integer(self) -> int:
        """A constant expression of integers: sums and products, as compilers write them."""
        value = self._product()
        while self.token.text in ("+", "-", "|", "&", "<<", ">>"):
            value = _COMBINE[self.next().text](value, self._product())
        return value

    def _product(self) -> int:
        value = self._unary()
        while self.token.text == "*":
            self.next()
            value *= self._unary()
        return value

    def _unary(self) -> int:
        if self.accept("-"):
            return -self._unary()
        if self.accept("~"):
            return ~self._unary()
        if self.accept("("):
            if self.token.kind == "dot":  # a cast, (.s64) or (.u64)
                self.next()
                self.expect(")")
                return self._unary()
            value = self.integer()
            self.expect(")")
            return value
        if self.token.kind != "integer":
            self.fail(f"expected an integer, found {self.token.text or 'the end'!r}")
        return _integer(self.next().text)


_COMBINE = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "|": lambda a, b: a | b,
    "&": lambda a, b: a & b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
}  # fmt: skip


def _integer(text: str) -> int:
    text = text.rstrip("U")
    if len(text) > 1 and text[0] == "0" and text[1] in "01234567":
        return int(text, 8)
    return int(text, 0)


def _float(text: str, negative: bool) -> Immediate:
    if text[:2] in ("0f", "0F"):
        bits, width = int(text[2:], 16), 32
    elif text[:2] in ("0d", "0D"):
        bits, width = int(text[2:], 16), 64
    else:
        bits, width = int.from_bytes(struct.pack("<d", float(text)), "little"), 64
    return Immediate(bits ^ (1 << (width - 1) if negative else 0), width)


class _Scopes:
    """Names as they are written, and the names that they have in the flat body."""

    def __init__(self) -> None:
        self.open: list[dict[str, str]] = [{}]
        self.count = 0

    def enter(self) -> None:
        self.open.append({})
        self.count += 1

    def leave(self) -> None:
        self.open.pop()

    def declare(self, name: str) -> str:
        flat = name if len(self.open) == 1 else f"{name}@{self.count}"
        self.open[-1][name] = flat
        return flat

    def __getitem__(self, name: str) -> str:
        for scope in reversed(self.open):
            if name in scope:
                return scope[name]
        return name


class _Reader(_Tokens):
    def module(self) -> Module:
        module = Module((0, 0), "", 64, {}, {})
        while self.token.kind != "end":
            self._module_item(module)
        if module.version == (0, 0) or not module.target:
            raise PTXError(1, "a module begins with .version and .target")
        if module.address_size != 64:
            raise PTXError(1, "only .address_size 64 is emulated")
        return module

    def _module_item(self, module: Module) -> None:
        word = self.token.text
        if word == ".version":
            self.next()
            major, _, minor = self.next().text.partition(".")
            module.version = (int(major), int(minor or 0))
        elif word == ".target":
            self.next()
            names = [self.word()]
            while self.accept(","):
                names.append(self.word())
            module.target = next((name for name in names if name.startswith("sm_")), names[0])
        elif word == ".address_size":
            self.next()
            module.address_size = self.integer()
        elif word in (".section", ".pragma", ".alias", ".callprototype"):
            self._skip_directive(word)
        else:
            self._declaration(module)

    def _skip_directive(self, word: str) -> None:
        if word == ".alias":
            self.fail(".alias is not emulated")
        closing = "}" if word == ".section" else ";"
        while not self.accept(closing):
            if self.token.kind == "end":
                self.fail(f"{word} has no end")
            self.next()

    def _declaration(self, module: Module) -> None:
        linkage = self._linkage()
        if self.token.text in (".entry", ".func"):
            function = self._function()
            known = module.functions.get(function.name)
            if known is None or known.body is None:
                module.functions[function.name] = function
            elif function.body is not None:
                raise PTXError(function.line, f"{function.name} is defined twice")
        elif self.token.text in _SPACES:
            for variable in self._variables(linkage, lambda name: name):
                module.variables[variable.name] = variable
        else:
            self.fail(f"{self.token.text!r} begins nothing that a module has")

    def _linkage(self) -> str:
        linkage = ""
        while self.token.text in _LINKAGE:
            linkage = self.next().text
        return linkage

    # -- variables

    def _variables(self, linkage: str, declare) -> list[Variable]:  # noqa: ANN001
        """One declaration: a space, a type, and names with sizes and initialisers, to its ';'."""
        space = self.next().text[1:]
        align, lanes, kind = self._type()
        found = [self._variable(space, kind, align, lanes, linkage, declare)]
        while self.accept(","):
            found.append(self._variable(space, kind, align, lanes, linkage, declare))
        self.expect(";")
        return found

    def _type(self) -> tuple[int, int, str]:
        """(alignment or 0, elements of a vector, name of the type)"""
        align, lanes = 0, 1
        while True:
            word = self.token.text
            if word == ".align":
                self.next()
                align = self.integer()
            elif word in (".v2", ".v4", ".v8"):
                self.next()
                lanes = int(word[2:])
            elif word in (".attribute",):
                self.fail(".attribute is not emulated")
            elif word in _TYPES:
                return align, lanes, self.next().text[1:]
            elif word == ".ptr":
                self._pointer_notes()
            else:
                self.fail(f"expected a type, found {word!r}")

    def _pointer_notes(self) -> None:
        """What a kernel's parameter says of the memory it points to: `.ptr .global .align 16`."""
        self.next()
        while self.token.text in _SPACES or self.token.text == ".align":
            if self.next().text == ".align":
                self.integer()

    def _variable(
        self, space: str, kind: str, align: int, lanes: int, linkage: str, declare  # noqa: ANN001
    ) -> Variable:
        line = self.token.line
        name = declare(self.word())
        each = WIDTHS[kind] // 8 * lanes
        count = 1
        is_open = False
        while self.accept("["):
            if self.accept("]"):
                is_open = True
            else:
                count *= self.integer()
                self.expect("]")
        variable = Variable(
            space, name, 0 if is_open else each * count, align or each, line,
            is_extern=linkage == ".extern",
        )  # fmt: skip
        if self.accept("="):
            self._initialise(variable, kind, is_open)
        return variable

    def _initialise(self, variable: Variable, kind: str, is_open: bool) -> None:
        data = bytearray()
        self._initial_values(variable, kind, data)
        if is_open:
            variable.nbytes = len(data)
        elif len(data) > variable.nbytes:
            self.fail(f"{variable.name} has {variable.nbytes} bytes and {len(data)} of values")
        variable.initial = bytes(data).ljust(variable.nbytes, b"\0")

    def _initial_values(self, variable: Variable, kind: str, data: bytearray) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self._initial_values(variable, kind, data)
                self.accept(",")
            return
        nbytes = WIDTHS[kind] // 8
        if self.token.kind == "word":
            variable.pointers.append((len(data), self._initial_address()))
            data += bytes(nbytes)
            return
        negative = False
        if self.token.text == "-" and self.items[self.at + 1].kind == "float":
            negative = bool(self.next())
        if self.token.kind == "float":
            value = _float_bits(_float(self.next().text, negative), WIDTHS[kind])
        else:
            value = self.integer()
        data += (value & ((1 << (8 * nbytes)) - 1)).to_bytes(nbytes, "little")

    def _initial_address(self) -> Symbol:
        is_generic = self.accept("generic")
        if is_generic:
            self.expect("(")
        name = self.word()
        if is_generic:
            self.expect(")")
        offset = 0
        if self.token.text in ("+", "-"):
            offset = self.integer() if self.accept("+") else self.integer()
        return Symbol(name, offset)

    # -- functions

    def _function(self) -> Function:
        line = self.token.line
        is_entry = self.next().text == ".entry"
        results = self._parameters() if not is_entry and self.token.text == "(" else []
        function = Function(self.word(), is_entry, line, [], results)
        if self.token.text == "(":
            function.parameters = self._parameters()
        while self.token.text in _DIRECTIVES or self.token.text in (".pragma", ".attribute"):
            self._directive(function)
        if self.accept(";"):
            return function
        self.expect("{")
        _Body(self, function).read()
        return function

    def _directive(self, function: Function) -> None:
        name = self.next().text
        if name in (".pragma", ".attribute"):
            return self._skip_directive(name)
        numbers = []
        if self.token.kind == "integer":
            numbers = [self.integer()]
            while self.accept(","):
                numbers.append(self.integer())
        function.directives[name[1:]] = tuple(numbers)
        return None

    def _parameters(self) -> list[Variable]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            if self.token.text == ".reg":
                self.fail("parameters in registers are not emulated: PTX 2.0 and later use .param")
            self.expect(".param")
            align, lanes, kind = self._type()
            if self.token.text == ".ptr":
                self._pointer_notes()
            found.append(self._variable("param", kind, align, lanes, "", lambda name: name))
            self.accept(",")
        return found


def _float_bits(value: Immediate, width: int) -> int:
    """A float constant as the pattern of a type of `width` bits."""
    if value.width == width:
        return value.value
    number = struct.unpack(
        "<f" if value.width == 32 else "<d", value.value.to_bytes(value.width // 8, "little")
    )[0]
    form = {16: "<e", 32: "<f", 64: "<d"}[width]
    return int.from_bytes(struct.pack(form, number), "little")


class _Body:
    """The statements of one function, up to its closing brace."""

    def __init__(self, reader: _Reader, function: Function) -> None:
        self.reader, self.function = reader, function
        self.scopes = _Scopes()
        self.statements: list[Instruction | Label] = []
        self.pending_table: str | None = None

    def read(self) -> None:
        self.function.body = self.statements
        depth = 1
        while depth:
            reader = self.reader
            if reader.accept("{"):
                depth += 1
                self.scopes.enter()
                self._declare_labels()
            elif reader.accept("}"):
                depth -= 1
                self.scopes.leave()
            elif reader.token.kind == "dot":
                self._directive()
            elif reader.token.kind == "end":
                reader.fail(f"{self.function.name} has no end")
            else:
                self._statement()

    def _declare_labels(self) -> None:
        """Labels of a block are known before they stand there: a branch may go forward."""
        items, depth = self.reader.items, 0
        for at in range(self.reader.at, len(items)):
            text = items[at].text
            depth += (text == "{") - (text == "}")
            if depth < 0:
                return
            if depth == 0 and text == ":" and items[at - 1].kind == "word":
                self.scopes.declare(items[at - 1].text)

    def _directive(self) -> None:
        reader, text = self.reader, self.reader.token.text
        if text == ".reg":
            self._registers()
        elif text in _SPACES or text in _LINKAGE:
            linkage = reader._linkage()
            self.function.variables += reader._variables(linkage, self.scopes.declare)
        elif text == ".branchtargets":
            self._table()
        elif text in (".pragma", ".callprototype", ".calltargets"):
            reader._skip_directive(text)
        else:
            reader.fail(f"{text!r} begins no statement that is emulated")

    def _registers(self) -> None:
        reader = self.reader
        reader.next()
        _, lanes, kind = reader._type()
        if lanes > 1:
            reader.fail("registers that are vectors are not emulated")
        while True:
            name = reader.word()
            if reader.accept("<"):
                count = reader.integer()
                reader.expect(">")
                names = [f"{name}{i}" for i in range(count)]
            else:
                names = [name]
            for each in names:
                self.function.registers[self.scopes.declare(each)] = kind
            if not reader.accept(","):
                break
        reader.expect(";")

    def _table(self) -> None:
        """`label: .branchtargets a, b, c;`, the targets of a brx.idx"""
        label = self.statements.pop() if self.statements else None
        if not isinstance(label, Label):
            self.reader.fail(".branchtargets has no label")
        self.reader.next()
        names = [self.scopes[self.reader.word()]]
        while self.reader.accept(","):
            names.append(self.scopes[self.reader.word()])
        self.reader.expect(";")
        self.function.tables[label.name] = tuple(names)

    def _statement(self) -> None:
        reader = self.reader
        line, guard, negated = reader.token.line, None, False
        if reader.accept("@"):
            negated = reader.accept("!")
            guard = Register(self.scopes[reader.word()])
        elif reader.token.kind == "word" and reader.items[reader.at + 1].text == ":":
            self.statements.append(Label(self.scopes[reader.word()], line))
            reader.next()
            return
        line = reader.token.line
        opcode = reader.word()
        modifiers = []
        while reader.token.kind == "dot":
            modifiers.append(reader.next().text[1:])
        operands = self._call() if opcode == "call" else self._operands()
        self.statements.append(
            Instruction(opcode, tuple(modifiers), operands, line, guard, negated)
        )

    def _operands(self) -> tuple[Operand, ...]:
        if self.reader.accept(";"):
            return ()
        found = [self._operand()]
        while self.reader.accept(","):
            found.append(self._operand())
        self.reader.expect(";")
        return tuple(found)

    def _operand(self) -> Operand:
        first = self._single()
        return Pair(first, self._single()) if self.reader.accept("|") else first

    def _single(self) -> Operand:
        reader = self.reader
        if reader.accept("{"):
            items = [self._operand()]
            while reader.accept(","):
                items.append(self._operand())
            reader.expect("}")
            return Vector(tuple(items))
        if reader.accept("["):
            return self._address()
        if reader.accept("!"):
            return Negated(Register(self.scopes[reader.word()]))
        if reader.token.kind == "word":
            return self._name()
        negative = False
        if reader.token.text == "-" and reader.items[reader.at + 1].kind == "float":
            negative = bool(reader.next())
        if reader.token.kind == "float":
            return _float(reader.next().text, negative)
        return Immediate(reader.integer())

    def _name(self) -> Operand:
        reader = self.reader
        written = reader.word()
        if written == "_":
            return Sink()
        name = self.scopes[written]
        while reader.token.kind == "dot":
            name += reader.next().text
        if name in self.function.registers or written.startswith("%"):
            return Register(name)
        offset = 0
        if reader.token.text in ("+", "-"):
            offset = reader.integer() if reader.accept("+") else reader.integer()
        return Symbol(name, offset)

    def _address(self) -> Operand:
        reader = self.reader
        base: Register | Symbol | Immediate
        if reader.token.kind == "word":
            name = self.scopes[reader.word()]
            base = Register(name) if name in self.function.registers else Symbol(name)
        else:
            base = Immediate(reader.integer())
        offset = 0
        if reader.accept("+") or reader.token.text == "-":
            offset = reader.integer()
        coordinates: tuple[Operand, ...] = ()
        if reader.accept(","):
            found = self._single()
            coordinates = found.items if isinstance(found, Vector) else (found,)
        reader.expect("]")
        return Address(base, offset, coordinates)

    def _call(self) -> tuple[Operand, ...]:
        """`call (results), callee, (arguments);`, each part but the callee optional."""
        reader = self.reader
        results = self._names() if reader.token.text == "(" else Vector(())
        reader.accept(",")
        callee = self._operand()
        arguments = Vector(())
        if reader.accept(",") and reader.token.text == "(":
            arguments = self._names()
        if reader.accept(","):
            self._operand()  # a prototype, or the functions that may be meant
        reader.expect(";")
        return results, callee, arguments

    def _names(self) -> Vector:
        reader = self.reader
        reader.expect("(")
        found = []
        while not reader.accept(")"):
            found.append(self._operand())
            reader.accept(",")
        return Vector(tuple(found))
