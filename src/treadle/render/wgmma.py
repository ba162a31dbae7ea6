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

from ..dtype import to_dtype
from ..ir.args import MatrixLayout
from ..ir.node import Node, behind_after
from ..ir.op import Op

__all__ = [
    "ADDRESS_BITS", "DONE", "FENCE", "UNIT", "descriptor_fields", "instructions", "is_left",
    "product_name", "reads_shared",
]  # fmt: skip

# Orders what items have stored to shared memory with what units of warpgroups read from there.
FENCE = "fence.proxy.async.shared::cta;"
DONE = "wgmma.wait_group.sync.aligned 0;"
UNIT = 16  # bytes in which descriptors count
ADDRESS_BITS = 0x3FFF
_SWIZZLE = 1 << 62  # of 128 bytes
# What PTX calls the elements and the sums, and what it takes after the predicate: signs of both
# factors, and for some whether they are turned.
_KINDS = {
    "float16": ("f16", "f32"), "bfloat16": ("bf16", "f32"), "float32": ("tf32", "f32"),
    "fp8e4m3": ("e4m3", "f32"), "fp8e5m2": ("e5m2", "f32"), "int8": ("s8", "s32"),
    "uint8": ("u8", "s32"),
}  # fmt: skip
_TURNED = ("f16", "bf16")
_STEP_BYTES = 32  # of a row, in each instruction


def reads_shared(program: Node) -> bool:
    """Whether units of warpgroups read shared memory in a program."""
    return any(node.op is Op.WGMMA for node in program.src)


def is_left(after: Node) -> bool:
    """Whether a register that is read behind a loop has products in it that nobody waited for."""
    register, *ends = after.src
    updates = (effect for end in ends for effect in end.src if effect.op is Op.UPDATE)
    values = (n.src[1] for n in updates if behind_after(n.src[0]) is register)
    return any(value.op is Op.WGMMA and value.arg.is_left for value in values)


def descriptor_fields(layout: MatrixLayout) -> int:
    """A descriptor but for its address."""
    return _SWIZZLE | layout.stride // UNIT << 32 | layout.leading // UNIT << 16


def product_name(node: Node) -> str:
    """A name that tells apart those with another text."""
    arg, kind = node.arg, node.arg.kind
    layouts = "".join("t" if layout.is_transposed else "n" for layout in (arg.x, arg.y))
    left = "_left" if arg.is_left else ""
    return f"wgmma_{kind}_{arg.columns}x{arg.turns}_{layouts}{left}"


def instructions(node: Node, sign: str, first: int) -> list[str]:
    """The product of one slice, added to its sums.

    `sign` stands before an operand's number; the descriptors' are `first` and the next.
    """
    arg, sums = node.arg, node.dtype.count
    (kind, total), depth = _KINDS[arg.kind], _STEP_BYTES // to_dtype(arg.kind).itemsize
    shape = f"m64n{arg.columns}k{depth}"
    registers = ", ".join(f"{sign}{number}" for number in range(sums))
    options = "" if total == "s32" else ", 1, 1"
    if kind in _TURNED:
        options += "".join(f", {int(layout.is_transposed)}" for layout in (arg.x, arg.y))
    lines = [
        "{ .reg .pred on; .reg .b64 x, y;",
        "setp.eq.u32 on, 0, 0;",
        f"mov.b64 x, {sign}{first};",
        f"mov.b64 y, {sign}{first + 1};",
        "wgmma.fence.sync.aligned;",
    ]
    for turn in range(arg.turns):
        if turn:
            lines += [
                f"add.s64 {name}, {name}, {layout.advance // UNIT};"
                for name, layout in (("x", arg.x), ("y", arg.y))
            ]
        lines.append(
            f"wgmma.mma_async.sync.aligned.{shape}.{total}.{kind}.{kind} "
            f"{{{registers}}}, x, y, on{options};"
        )
    wait = f"wgmma.wait_group.sync.aligned {int(arg.is_left)};"
    return [*lines, "wgmma.commit_group.sync.aligned;", f"{wait} }}"]
