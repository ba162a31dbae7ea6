"""The kernels of a module and what they take, from the metadata `!air.kernel`.

module = Module(bitcode)
module.kernels["add"].arguments[0]       # Argument("buffer", "a", index=0, space=1, ...)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.air.lexer import unquoted
from treadle.emulate.air.prepare import text_of
from treadle.emulate.air.reader import read_text
from treadle.emulate.air.syntax import (
    THREADGROUP,
    AIRError,
    Symbol,
    bits_of,
    parts,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from treadle.emulate.air.syntax import Function, Global

__all__ = ["Argument", "Kernel", "Module", "bytes_of", "place_all"]

_WORD = re.compile(
    r'!"([^"]*)"|(?:i\d+ (-?\d+))|(![\w]+)|ptr(?: addrspace\(\d+\))? (@"[^"]*"|@[\w.$-]+)|null'
)
_PLACES = re.compile(r'@"[^"]*"|@[\w.$-]+')


@dataclass(frozen=True)
class Argument:
    """A parameter of a kernel.

    `kind` is "buffer" (bound at `index`; `space` is 1 for device memory, 2 for constant memory,
    3 for threadgroup memory, whose bytes a launch says) or the name of a position, such as
    "thread_position_in_threadgroup". `nbytes` is the size of what a buffer points at.
    """

    kind: str
    name: str
    index: int = 0
    space: int = 0
    nbytes: int = 0
    writes: bool = False
    is_optional: bool = False  # a function constant says whether it is there


@dataclass(frozen=True)
class Kernel:
    """`static_threadgroup_bytes` are those that the kernel declares itself."""

    name: str
    arguments: tuple[Argument, ...]
    static_threadgroup_bytes: int
    max_threads: int = 1024


class Module:
    """A module: bitcode or text, with values of function constants by their index.

    `flushes` says whether it was made for subnormal numbers of float32 that are zeros, as Apple's
    compiler makes all modules, with safe math, too.
    Raises AIRError for what is no module, or has no kernels.
    """

    def __init__(self, ir: bytes, constants: Mapping[int, int] | None = None) -> None:
        self._text = read_text(text_of(ir, constants))
        self.kernels = {kernel.name: kernel for kernel in self._kernels()}
        options = [self._words(str(node)) for node in self._words("!air.compile_options")]
        self.flushes = ["air.compile.denorms_disable"] in options
        if not self.kernels:
            raise AIRError("the module has no kernel")

    def function(self, name: str) -> Function:
        """The code of a kernel. Raises AIRError for what is not emulated."""
        if name not in self.kernels:
            raise AIRError(f"the module has no kernel {name}")
        return self._text.function(name)

    def variables(self, name: str, space: int) -> list[Global]:
        """The variables in an address space that a kernel mentions, in the module's order."""
        mentioned = {unquoted(word) for word in _PLACES.findall(self._text.bodies[name][1])}
        return [
            variable
            for variable in self._text.globals.values()
            if variable.space == space and variable.name in mentioned
        ]

    def places(self, name: str) -> Callable[[int], str]:
        """What words the place of a fault in a kernel: a line and its instruction."""
        lines = self._text.bodies[name][1].splitlines()

        def word(number: int) -> str:
            text = lines[number - 1].strip().split(", !")[0]
            return f"AIR line {number}: {text[:100]}"

        return word

    def members(self, node: str) -> list[tuple[int, int]]:
        """What a node of `!tbaa.struct` says: each member's first byte and its bytes."""
        numbers = [word for word in self._words(node) if isinstance(word, int)]
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    # -- metadata

    def _kernels(self) -> Iterator[Kernel]:
        for node in self._words("!air.kernel"):
            words = self._words(str(node))
            # What else is there is about the kernel as a whole.
            limits = [self._words(str(word)) for word in words[3:]]
            most = next((int(w[1]) for w in limits if w[:1] == ["air.max_work_group_size"]), 1024)
            name = str(words[0])[1:]
            arguments = tuple(self._argument(node) for node in self._words(str(words[2])))
            yield Kernel(name, arguments, self._threadgroup_bytes(name), most)

    def _words(self, node: str) -> list[str | int]:
        """A node's strings, numbers, other nodes (!5) and variables (@f)."""
        found: list[str | int] = []
        for text, number, other, place in _WORD.findall(self._text.metadata.get(node, "")):
            found.append(int(number) if number else unquoted(place) if place else other or text)
        return found

    def _argument(self, node: str | int) -> Argument:
        words = self._words(str(node))[1:]
        optional = words[:1] == ["air.function_constant"]
        if optional:
            words = words[2:]
        kind = str(words[0]).removeprefix("air.")

        def after(word: str, steps: int = 1) -> int:
            return int(words[words.index(word) + steps]) if word in words else 0

        name = str(words[words.index("air.arg_name") + 1]) if "air.arg_name" in words else ""
        if kind != "buffer":
            return Argument(kind, name)
        writes = "air.read_write" in words or "air.write" in words
        return Argument(
            kind, name, after("air.location_index"), after("air.address_space"),
            after("air.arg_type_size"), writes, optional,
        )  # fmt: skip

    def _threadgroup_bytes(self, name: str) -> int:
        return place_all(self.variables(name, THREADGROUP))[1]


def place_all(variables: list[Global]) -> tuple[dict[str, int], int]:
    """Where variables lie behind each other, and the bytes of all."""
    places, at = {}, 0
    for variable in variables:
        at = -(-at // variable.align) * variable.align
        places[variable.name] = at
        at += size_of(variable.type)
    return places, at


def bytes_of(variable: Global, resolve: Mapping[str, int]) -> bytes:
    """The bytes of a constant variable; `resolve` are addresses of other variables."""
    data = bytearray(size_of(variable.type))
    values = variable.value.parts if variable.value else ()
    for (at, kind), value in zip(parts(variable.type), values, strict=False):
        if isinstance(value, Symbol):
            value = resolve[value.name] + value.offset
        nbytes = -(-bits_of(kind) // 8)
        data[at : at + nbytes] = (value or 0).to_bytes(nbytes, "little")
    return bytes(data)
