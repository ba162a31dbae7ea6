"""What PTX text says, as data: modules, variables, functions, instructions and their operands.

The terms are those of NVIDIA's "Parallel Thread Execution ISA". Everything carries the line it
stands on, so that whoever finds fault with it can say where.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "WIDTHS",
    "Address",
    "Function",
    "Immediate",
    "Instruction",
    "Label",
    "Module",
    "Operand",
    "PTXError",
    "Pair",
    "Register",
    "Sink",
    "Symbol",
    "Variable",
    "Vector",
]  # fmt: skip

# Bits of each fundamental type; a predicate counts as one.
WIDTHS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 128, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "tf32": 32,
    "f64": 64, "e4m3x2": 16, "e5m2x2": 16, "u16x2": 32, "s16x2": 32, "f32x2": 64,
}  # fmt: skip


class PTXError(Exception):
    """The text breaks PTX's rules, or asks for what is not emulated. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        super().__init__(f"line {line}: {message}")


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register or a special one (`%tid.x`)."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. `bits` of a float is its pattern and `width` 32 or 64; an integer has width 0."""

    value: int
    width: int = 0

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, a label or a function, plus bytes."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.name}+{self.offset}" if self.offset else self.name


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, or with `coordinates` a tensor's `[map, {x, y}]`."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        place = f"{self.base}+{self.offset}" if self.offset else str(self.base)
        return f"[{place}, {Vector(self.coordinates)}]" if self.coordinates else f"[{place}]"


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, c, d}`."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{{{', '.join(map(str, self.items))}}}"


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`: two destinations."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`."""

    register: Register

    def __str__(self) -> str:
        return f"!{self.register}"


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""

    def __str__(self) -> str:
        return "_"


Operand = Register | Immediate | Symbol | Address | Vector | Pair | Negated | Sink


@dataclass(frozen=True, slots=True)
class Label:
    """A place to branch to."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """`@guard opcode.modifiers operands;`. Those of a call are results, callee and arguments."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int
    guard: Register | None = None
    guard_negated: bool = False

    @property
    def text(self) -> str:
        """The opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(slots=True)
class Variable:
    """A variable in a state space (`global`, `const`, `shared`, `local`, `param`).

    `nbytes` is 0 where the launch decides (`.extern .shared`). `initial` holds the bytes of its
    initialiser, `pointers` the (place, symbol, addend) that are filled in when addresses are known.
    """

    space: str
    name: str
    nbytes: int
    align: int
    line: int
    initial: bytes = b""
    pointers: list[tuple[int, Symbol]] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """A kernel (`is_entry`) or a device function. Without a `body` it is only declared."""

    name: str
    is_entry: bool
    line: int
    parameters: list[Variable]
    results: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)  # name -> type
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label] | None = None
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)  # .branchtargets
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # .maxntid and the like


@dataclass(slots=True)
class Module:
    """One text. `target` is as written (`sm_90a`), `version` PTX's."""

    version: tuple[int, int]
    target: str
    address_size: int
    variables: dict[str, Variable]
    functions: dict[str, Function]
