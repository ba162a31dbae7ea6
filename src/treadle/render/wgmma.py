"""What both renderers for NVIDIA GPUs write for a WGMMA: descriptors, and one text of PTX.

    instructions(node, "%", 32)  ->  ["wgmma.fence.sync.aligned;", "wgmma.mma_async....", ...]

Operands are numbered as inline assembly has them: first the sums, which are added to. A descriptor
is a word of 64 bits:

    bits 0-13 address, 16-29 leading and 32-45 stride offset, each in 16 bytes; 62-63 swizzle

All of a slice is one text, from the fence to the wait. That is for this product, or for the one
before it where units are to go on with this one meanwhile: then nobody but the next text may touch
the sums until DONE. Behind that stands a text that does nothing with all of them: what reads them
comes after it, and compilers keep both in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.args import MatrixLayout
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Update, words_and_others
from ..lower.linearize import Phase
from ..target import WGMMA, WGMMA_ROWS

__all__ = [
    "ADDRESS_BITS", "DONE", "FENCE", "UNIT", "descriptor_fields", "halves", "instructions",
    "is_left", "keep", "moved_registers", "product_name", "reads_shared", "sources", "words_of_x",
]  # fmt: skip

# Orders what work items have stored to shared memory with what units of warpgroups read from there.
FENCE = "fence.proxy.async.shared::cta;"
DONE = "wgmma.wait_group.sync.aligned 0;"
UNIT = 16  # bytes in which descriptors count
ADDRESS_BITS = 0x3FFF
_SWIZZLE = 1 << 62  # of 128 bytes
MANY_SUMS, MOVED = 128, (40, 232)


def words_of_x(node: Node) -> int:
    """How many a work item holds for each instruction, if they are not in shared memory."""
    unit = WGMMA[node.arg.kind]
    assert unit.x is not None
    return unit.x.words(unit.dtype.itemsize).count


def reads_shared(program: Node) -> bool:
    """Whether units of warpgroups read shared memory in a program."""
    return any(node.op is Op.WGMMA for node in program.src)


def is_left(after: Node) -> bool:
    """Whether a register that is read behind a loop has products in it that nobody waited for."""
    register, *ends = after.src
    updates = (Update.of(effect) for end in ends for effect in end.src if effect.op is Op.UPDATE)
    values = (update.value for update in updates if behind_after(update.register) is register)
    return any(value.op is Op.WGMMA and value.arg.is_left for value in values)


def descriptor_fields(layout: MatrixLayout) -> int:
    """A descriptor but for its address."""
    return _SWIZZLE | layout.stride // UNIT << 32 | layout.leading // UNIT << 16


def moved_registers(phase: Phase) -> tuple[int, int] | None:
    """The registers that each work item of a producer keeps, and that each other one has then.

    None where all have enough. A multiprocessor has 64 Ki registers, so a launch of two warpgroups
    and a producer gives each work item 168: 128 sums leave too few for what else is in flight.
    """
    sums = max((n.dtype.count for n in phase.program.src if n.op is Op.WGMMA), default=0)
    return MOVED if phase.producer is not None and sums >= MANY_SUMS else None


def keep(count: int, way: str) -> str:
    """Work items of a warpgroup have so many registers from now on: more, or fewer than before."""
    return f"setmaxnreg.{way}.sync.aligned.u32 {count};"


def sources(node: Node) -> tuple[tuple[Node, ...], tuple[Node, ...], tuple[Node, ...]]:
    """Memory and places of x, or words; memory and place of y; where warps arrive, if they do."""
    arg = node.arg
    places = 1 if arg.x is not None else words_of_x(node) // 2 * arg.turns
    words, others = words_and_others(node)
    count = 0 if words else 1 + places
    memory_of_y, place_of_y, *arrival = others[count:]
    return words or others[:count], (memory_of_y, place_of_y), tuple(arrival)


def halves(node: Node) -> list[tuple[Sequence[Node], int]]:
    """The places of the words for either half of the turns, and the first turn of it.

    While units work on one half, work items read the words of the other: units do not copy them.
    """
    (_, *places), turns = sources(node)[0], node.arg.turns
    each = len(places) // 2
    return [(places[:each], 0), (places[each:], turns // 2)]


def product_name(node: Node) -> str:
    """A name that tells apart those with another text."""
    arg, kind = node.arg, WGMMA[node.arg.kind].dtype.name
    missing = "r" if arg.words else "w"
    layouts = "".join(
        missing if layout is None else "t" if layout.is_transposed else "n"
        for layout in (arg.x, arg.y)
    )
    left = "_left" if arg.is_left else ""
    return f"wgmma_{kind}_{arg.columns}x{arg.turns}_{layouts}{left}"


def instructions(node: Node, sign: str, first: int) -> list[str]:
    """The product of one slice, or of half a slice if words of x are read, added to its sums.

    `sign` stands before an operand's number. From `first` on they are x, its descriptor or its
    words in the order of the turns, and the descriptor of y.
    """
    arg, sums = node.arg, node.dtype.count
    unit, each = WGMMA[arg.kind], words_of_x(node)
    name = unit.instruction.format(columns=arg.columns)
    registers = ", ".join(f"{sign}{number}" for number in range(sums))
    options = "" if unit.sums.is_int else ", 1, 1"
    if unit.dtype.itemsize == WGMMA_ROWS.turned:
        layouts = [layout for layout in (arg.x, arg.y) if layout is not None]
        options += "".join(f", {int(layout.is_transposed)}" for layout in layouts)
    turns = arg.turns if arg.words or arg.x is not None else arg.turns // 2
    words = 1 if arg.x is not None else each * turns
    lines = [
        "{ .reg .pred on; .reg .b64 x, y;",
        "setp.eq.u32 on, 0, 0;",
        *([f"mov.b64 x, {sign}{first};"] if arg.x is not None else []),
        f"mov.b64 y, {sign}{first + words};",
        "wgmma.fence.sync.aligned;",
    ]
    for turn in range(turns):
        if turn:
            lines += [
                f"add.s64 {name}, {name}, {layout.advance // UNIT};"
                for name, layout in (("x", arg.x), ("y", arg.y))
                if layout is not None
            ]
        held = (f"{sign}{first + each * turn + n}" for n in range(each))
        x = "x" if arg.x is not None else f"{{{', '.join(held)}}}"
        lines.append(f"{name} {{{registers}}}, {x}, y, on{options};")
    wait = f"wgmma.wait_group.sync.aligned {int(arg.is_left)};"
    return [*lines, "wgmma.commit_group.sync.aligned;", f"{wait} }}"]
