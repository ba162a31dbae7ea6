"""PTX text becomes a Module.

    read_module(text).functions["softmax"].body  ->  [Instruction("ld", ("param", "u64"), ...), ...]

What PTX allows but the emulator has no meaning for (textures, calls through a register) is an error
that names its line.
"""

from __future__ import annotations

from treadle.emulate.ptx.body import Body
from treadle.emulate.ptx.declarations import SPACES, Declarations
from treadle.emulate.ptx.lexer import tokens
from treadle.emulate.ptx.syntax import Function, Module, PTXError, Variable

__all__ = ["read_module"]

# Of a kernel: how it may be launched. Those with numbers keep them.
_DIRECTIVES = {
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn",
    ".explicitcluster", ".reqnctapercluster", ".maxclusterrank", ".blocksareclusters",
}  # fmt: skip


def read_module(text: str) -> Module:
    """The module that `text` describes. Raises PTXError, which names the line."""
    return _Reader(tokens(text)).module()


class _Reader(Declarations):
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
            self.skip_directive(word)
        else:
            self._declaration(module)

    def _declaration(self, module: Module) -> None:
        self.skip_linkage()
        if self.token.text in (".entry", ".func"):
            function = self._function()
            known = module.functions.get(function.name)
            if known is None or known.body is None:
                module.functions[function.name] = function
            elif function.body is not None:
                raise PTXError(function.line, f"{function.name} is defined twice")
        elif self.token.text in SPACES:
            for variable in self.variables(lambda name: name):
                module.variables[variable.name] = variable
        else:
            self.fail(f"{self.token.text!r} begins nothing that a module has")

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
        Body(self, function).read()
        return function

    def _directive(self, function: Function) -> None:
        name = self.next().text
        if name in (".pragma", ".attribute"):
            return self.skip_directive(name)
        numbers = []
        if self.token.kind == "integer":
            numbers = [self.integer()]
            while self.accept(","):
                numbers.append(self.integer())
        if name == ".reqnctapercluster" and numbers != [1] * len(numbers):
            self.fail("clusters of several blocks are not emulated")
        function.directives[name[1:]] = tuple(numbers)
        return None

    def _parameters(self) -> list[Variable]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            if self.token.text == ".reg":
                self.fail("parameters in registers are not emulated: PTX 2.0 and later use .param")
            self.expect(".param")
            align, lanes, kind = self.type()
            if self.token.text == ".ptr":
                self.pointer_notes()
            found.append(self.variable("param", kind, align, lanes, lambda name: name))
            self.accept(",")
        return found
