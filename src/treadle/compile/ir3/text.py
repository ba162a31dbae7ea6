"""The text that render/ir3 prints becomes kernels of blocks.

    kernel E_3_0 work_items=128 buffers=2 variables=0 shared=0
      memory buffer=1 texture=0 height=3 width=4 bits=32
      vector %4 2
      add.f %3, %1, 0x3f800000
      if %9
        stg.a.u32 %4, %2, %3, 0, 0, 1
      end

`memory` says which buffers are images, and their numbers among the textures, which are only read,
or among the other images. `if`, `end` and `loop`, `while` become branches on p0.x here. An operand
is a virtual register (`%3`; `%h3` is half as wide; `%4.1` is a lane of a vector, `%4:2` two lanes
from the first), a constant (`c0.x`), a machine register (`r0.x`) or the bits of a number.
"""

from __future__ import annotations

import re

from treadle.errors import InternalError
from treadle.ir3_object import ImageSlot

from .code import PREDICATE, Block, Constant, Instruction, Kernel, Literal, Operand, Register, Value

__all__ = ["parse", "read_head", "read_operand"]

_VALUE = re.compile(r"%(h?)(\d+)(?:\.(\d+))?(?::(\d+))?")
_WORD = re.compile(r"([rc])(\d+)\.([xyzw])")
_HEAD = re.compile(r"kernel (\w+) work_items=(\d+) buffers=(\d+) variables=(\d+) shared=(\d+)")
_IMAGE = re.compile(r"buffer=(\d+) (texture|image)=(\d+) height=(\d+) width=(\d+) bits=(16|32)")
_WITHOUT_RESULT = ("stg", "stl", "stp", "stib", "bar", "fence")


def parse(text: str) -> list[Kernel]:
    """The kernels of a text, in order. Raises InternalError on a line that is none."""
    kernels: list[Kernel] = []
    reader: _Reader | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 1)
        if not words:
            continue
        try:
            if words[0] == "kernel":
                reader = _Reader(line)
                kernels.append(reader.kernel)
            elif reader is None:
                raise InternalError("no kernel")
            else:
                reader.line(words[0], words[1] if len(words) > 1 else "")
        except InternalError as error:
            raise InternalError(f"line {number} of ir3 text ({line.strip()}): {error}") from error
    for kernel in kernels:
        kernel.blocks[-1].code.append(Instruction("end", [], []))
    return kernels


class _Reader:
    """One kernel on its way to blocks."""

    def __init__(self, head: str) -> None:
        self.kernel = Kernel(*read_head(head), [Block()], {}, 0)
        self.open: list[tuple[str, int]] = []  # what is open, and the block that it began at

    def line(self, word: str, rest: str) -> None:
        operands = [part.strip() for part in rest.split(",")] if rest else []
        if word == "vector":
            name, width = rest.split()
            self.kernel.widths[self._value(name).number] = int(width)
        elif word == "memory":
            self.kernel.images.append(read_image(rest))
        elif word in ("if", "end", "loop", "while"):
            getattr(self, f"_{word}")(*operands)
        else:
            self._instruction(word, operands)

    def _instruction(self, op: str, texts: list[str]) -> None:
        operands = [self._operand(text) for text in texts]
        has_result = not op.startswith(_WITHOUT_RESULT)
        dsts: list[Value | Register] = []
        if has_result:
            first, *operands = operands
            if not isinstance(first, Value):
                raise InternalError("the result is no virtual register")
            dsts.append(first)
        self._here.code.append(Instruction(op, dsts, operands))

    @property
    def _here(self) -> Block:
        return self.kernel.blocks[-1]

    def _start(self) -> int:
        """A new block, behind all others."""
        number = len(self.kernel.blocks)
        self._here.after.append(number)
        self.kernel.blocks.append(Block())
        return number

    def _branch(self, condition: str, inverted: bool) -> Instruction:
        """Branch on a condition, to a target that is not known yet."""
        test = Instruction(
            "cmps.s.ne", [Register(PREDICATE)], [self._operand(condition), Literal(0)]
        )
        branch = Instruction("br", [], [Register(PREDICATE)], inverted=inverted)
        self._here.code += [test, branch]
        return branch

    def _if(self, condition: str) -> None:
        self._branch(condition, inverted=True)
        self.open.append(("if", len(self.kernel.blocks) - 1))
        self._deeper()
        self._start()

    def _end(self) -> None:
        start = self._close("if")
        self._aim(start, self._start())

    def _loop(self) -> None:
        self.open.append(("loop", self._start()))
        self._deeper()

    def _while(self, condition: str) -> None:
        start = self._close("loop")
        self._branch(condition, inverted=False).target = start
        self._here.after.append(start)
        self.kernel.blocks[self._start()].meets = True

    def _close(self, kind: str) -> int:
        if not self.open or self.open[-1][0] != kind:
            raise InternalError(f"there is no open {kind}")
        return self.open.pop()[1]

    def _aim(self, start: int, target: int) -> None:
        """The branch at the end of block `start` goes to `target`."""
        block = self.kernel.blocks[start]
        block.code[-1].target = target
        block.after.append(target)
        self.kernel.blocks[target].meets = True

    def _deeper(self) -> None:
        self.kernel.depth = max(self.kernel.depth, len(self.open))

    def _operand(self, text: str) -> Operand:
        found = read_operand(text)
        if isinstance(found, Value):
            self.kernel.values = max(self.kernel.values, found.number + 1)
        return found

    def _value(self, text: str) -> Value:
        found = self._operand(text)
        if not isinstance(found, Value):
            raise InternalError(f"no virtual register: {text}")
        return found


def read_operand(text: str) -> Operand:
    """One operand. Raises InternalError for a text that is none."""
    neg, abs_ = "(neg)" in text, "(abs)" in text
    text = text.replace("(neg)", "").replace("(abs)", "")
    if text.startswith("%"):
        parts = _VALUE.fullmatch(text)
        if parts is None:
            raise InternalError(f"no virtual register: {text}")
        half, number, lane, count = parts.groups()
        return Value(int(number), int(lane or 0), int(count or 1), bool(half), neg, abs_)
    found = _WORD.fullmatch(text)
    if found is not None:
        index = 4 * int(found[2]) + "xyzw".index(found[3])
        return Constant(index, neg, abs_) if found[1] == "c" else Register(index)
    try:
        return Literal(int(text, 0) & 0xFFFFFFFF, neg, abs_)
    except ValueError:
        raise InternalError(f"no operand: {text}") from None


def read_head(line: str) -> tuple[str, int, int, int, int]:
    """A kernel's name, work items, buffers, launch-time integers and shared bytes."""
    found = _HEAD.fullmatch(line.strip())
    if found is None:
        raise InternalError("malformed head")
    work_items, buffers, variables, shared = map(int, found.groups()[1:])
    return found[1], work_items, buffers, variables, shared


def read_image(text: str) -> ImageSlot:
    found = _IMAGE.fullmatch(text.strip())
    if found is None:
        raise InternalError("malformed description of an image")
    kind = found[2]
    buffer, number, height, width, bits = (int(found[n]) for n in (1, 3, 4, 5, 6))
    return ImageSlot(buffer, kind == "texture", number, height, width, bits)
