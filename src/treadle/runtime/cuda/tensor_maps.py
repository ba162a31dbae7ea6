"""Tensor maps of a launch: descriptions of its memory that kernels hand to the copy engine.

The engine takes tensors that begin at a multiple of 16 bytes, and so do asynchronous copies by
work items. Memory of somebody else's need not: what is not aligned so is copied for the launch, on
its stream, to memory that is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from treadle.runtime.cuda.driver import TensorTiles

from .driver import Stream

if TYPE_CHECKING:
    from treadle.runtime.base import Boxes, Entry
    from treadle.runtime.cuda.driver import Context

__all__ = ["aligned", "has_to_be_aligned", "is_aligned", "tensor_map"]

ALIGNMENT = 16
SWIZZLE = 128
# float32 is copied for units that read it as TF32. What is not here is bytes.
_ELEMENTS = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}


@functools.lru_cache(maxsize=4096)
def tensor_map(context: Context, boxes: Boxes, address: int) -> object:
    """The map of a tensor in memory at `address`, as a launch takes it."""
    element = _ELEMENTS.get(boxes.element, "u8")
    place = address + boxes.offset
    tiles = TensorTiles(element, place, boxes.shape, boxes.strides, boxes.box, SWIZZLE)
    return context.encode_tensor_map(tiles)


def has_to_be_aligned(entry: Entry) -> frozenset[int]:
    """The numbers of the arguments that begin at a multiple of 16 bytes."""
    return frozenset(boxes.number for boxes in entry.boxes).union(entry.aligned)


def is_aligned(entry: Entry, args: Sequence[int]) -> bool:
    """Whether all arguments begin where a phase needs it."""
    return all(args[number] % ALIGNMENT == 0 for number in has_to_be_aligned(entry))


@contextmanager
def aligned(
    context: Context, stream: Stream | None, entry: Entry, args: Sequence[int]
) -> Iterator[Sequence[int]]:
    """A block in which a phase is launched with these arguments, or with copies of some."""
    if is_aligned(entry, args):
        yield args
        return
    sizes = {slot.number: slot.nbytes for slot in entry.slots}
    wrong = {number for number in has_to_be_aligned(entry) if args[number] % ALIGNMENT}
    copies = {number: context.alloc(sizes[number], stream) for number in wrong}
    try:
        for number, copy in copies.items():
            context.copy(copy, args[number], sizes[number], stream)
        yield [copies.get(number, address) for number, address in enumerate(args)]
    finally:
        for copy in copies.values():
            context.free(copy, stream)  # in the order of the stream: after the launch
