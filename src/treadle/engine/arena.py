"""Memory planning: intermediate results whose lives do not overlap share the same bytes.

    plan([Life(0, 2, 100), Life(1, 3, 50), Life(2, 4, 100)])  ->  offsets and the arena's size
    plan_blocks(the same)  ->  a block for each, and the blocks' sizes

Memory with addresses is one arena; elsewhere whole blocks are shared.

Greedy by size: the largest buffer is placed first, each at the lowest offset where it meets no
buffer that is alive at the same time (Pisarchyk and Lee, 2020, "Efficient memory management for
deep neural net inference").
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import ImageDType
from ..ir.shape import size_max, size_product
from ..ir.versions import memory_key
from ..schedule.kernel import Kernel
from ..schedule.textures import image_of
from .program import Place, Program

__all__ = ["ALIGNMENT", "Life", "place_the_rest", "plan", "plan_blocks"]

ALIGNMENT = 64


@dataclass(frozen=True)
class Life:
    """A buffer of `nbytes`, written by step `first` and read for the last time by step `last`."""

    first: int
    last: int
    nbytes: int

    def meets(self, other: Life) -> bool:
        """Whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


def place_the_rest(
    program: Program,
    steps: list[Kernel],
    places: dict[object, Place],
    has_addresses: bool,
) -> list[int | ImageDType]:
    """Give intermediate results and the kernels' scratch memory a place in shared blocks.

    Returns the blocks: one where memory has addresses, and one for each texture.
    """
    images: list[int | ImageDType] = []
    for buffer in (buffer for step in steps for buffer in step.buffers):
        image = image_of(buffer)
        if image is not None and memory_key(buffer) not in places:
            places[memory_key(buffer)] = Place("scratch", len(images))
            images.append(image)
    lives: dict[object, Life] = {}
    repeats = len(set(program.kernels)) < len(program.kernels)
    for number, step in enumerate(steps):
        kernel = program.kernels[number]
        for buffer in step.buffers:
            key = memory_key(buffer)
            if key not in places:
                nbytes = max(1, size_max(size_product(buffer.shape)) * buffer.dtype.itemsize)
                first = lives[key].first if key in lives else number
                lives[key] = Life(first, number, nbytes)
        for i, nbytes in enumerate(kernel.scratch):
            lives[kernel, i] = Life(number, number, nbytes)
        if repeats:
            for i, nbytes in enumerate(kernel.scratch):  # one kernel launched at several steps
                first = min(n for n, k in enumerate(program.kernels) if k is kernel)
                lives[kernel, i] = Life(first, number, nbytes)
    if has_addresses:
        offsets, total = plan(list(lives.values()))
        first = len(images)
        for key, offset in zip(lives, offsets, strict=True):
            places[key] = Place("scratch", first, offset)
        return [*images, total] if total else images
    numbers, sizes = plan_blocks(list(lives.values()))
    for key, number in zip(lives, numbers, strict=True):
        places[key] = Place("scratch", len(images) + number)
    return [*images, *sizes]


def plan(lives: list[Life]) -> tuple[list[int], int]:
    """An offset in bytes for each life, 64-byte aligned, and the bytes needed in all."""
    offsets = [0] * len(lives)
    placed: list[int] = []
    total = 0
    for number in sorted(range(len(lives)), key=lambda n: (-lives[n].nbytes, n)):
        life = lives[number]
        overlapping = sorted(
            (offsets[p], offsets[p] + lives[p].nbytes) for p in placed if life.meets(lives[p])
        )
        offset = 0
        for begin, finish in overlapping:
            if offset + life.nbytes <= begin:
                break
            offset = max(offset, -(-finish // ALIGNMENT) * ALIGNMENT)
        offsets[number] = offset
        placed.append(number)
        total = max(total, offset + life.nbytes)
    return offsets, total


def plan_blocks(lives: list[Life]) -> tuple[list[int], list[int]]:
    """The number of a block for each life, and the bytes of each block.

    The largest life comes first, and opens a block unless one is free for as long as it lives.
    """
    numbers = [0] * len(lives)
    sizes: list[int] = []
    tenants: list[list[Life]] = []
    for at in sorted(range(len(lives)), key=lambda n: (-lives[n].nbytes, n)):
        life = lives[at]
        free = (n for n, others in enumerate(tenants) if not any(map(life.meets, others)))
        number = next(free, len(tenants))
        if number == len(tenants):
            tenants.append([])
            sizes.append(life.nbytes)
        tenants[number].append(life)
        numbers[at] = number
    return numbers, sizes
