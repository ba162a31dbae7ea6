"""Where elements of matrices lie in registers, for WMMA, MFMA and those whose A is sparse.

    unit_of("v_wmma_f32_16x16x16_f16", 12, 32).left(0, 4, 0)  ->  (16, 0): the lane, and its value

The maps are in AMD's manuals of the instruction sets and in its Matrix Instruction Calculator. Of
gfx950 they are gfx942's with twice as many neighbours in a lane. Those of its products of 8 and 4
bits (`unit_of_formats`) are in the tests of AMD's composable_kernel, and in its blog "Matrix Core
Programming on AMD CDNA3 and CDNA4".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from treadle.emulate.amd.wave import Unsupported

__all__ = ["BITS", "Sources", "Unit", "unit_of", "unit_of_formats"]

Place = tuple[int, int]  # a lane, and the number of a value there
Map = Callable[[int, int, int], Place]
BITS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i32": 32, "fp8": 8, "bf8": 8,
         "i8": 8, "u8": 8, "i4": 4, "u4": 4, "fp4": 4}  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """D = A x B + C, for several blocks: of `side` rows and columns, with `depth` products a sum.

    `left` has A by row, k and block, `right` B by column, k and block, `sums` C and D by row,
    column and block. A sparse A has two numbers of each four along k. Which they are is told by two
    bits each, at the places of the numbers. A value of C and D takes `total_bits` of a register.
    """

    side: int
    depth: int
    blocks: int
    kinds: tuple[str, str]  # of A and B
    total: str
    total_bits: int
    left: Map
    right: Map
    sums: Map
    is_sparse: bool = False
    is_scaled: bool = False  # by a byte of each lane for 32 neighbours along k of a line

    @property
    def stored(self) -> int:
        """The numbers of a row of A that are there."""
        return self.depth // 2 if self.is_sparse else self.depth

    def registers(self, which: str) -> int:
        """How many registers a matrix takes: of `left`, `right` or `sums`."""
        across, bits = {
            "left": (self.stored, BITS[self.kinds[0]]),
            "right": (self.depth, BITS[self.kinds[1]]),
            "sums": (self.side, self.total_bits),
        }[which]
        place: Map = getattr(self, which)
        most = max(
            place(i, j, block)[1]
            for i in range(self.side) for j in range(across) for block in range(self.blocks)
        )  # fmt: skip
        return -(-(most + 1) * bits // 32)


# -- where elements lie


def _cdna_lines(side: int, each: int, blocks: int) -> Map:
    """Lanes run over lines, then blocks, then runs of `each` along k."""
    return lambda i, k, block: (i + side * (block + blocks * (k // each)), k % each)


def _cdna_sums(side: int, total: str) -> Map:
    """Lanes run over columns, then groups of four rows; those of float64 over rows."""
    groups = 64 // side

    def sums(i: int, j: int, block: int) -> Place:
        if total == "f64":
            return (j + 4 * block + 16 * i, 0) if side == 4 else (j + 16 * (i % 4), i // 4)
        group = i // 4 + side // 4 * block
        return j + side * (group % groups), i % 4 + 4 * (group // groups)

    return sums


def _rdna_lines(depth: int, run: int, bits: int, width: int) -> Map:
    """Both halves of 32 lanes take turns at runs along k."""

    def place(i: int, k: int, _: int) -> Place:
        turn, at = divmod(k, run)
        return i + turn % 2 * 16, at + turn // 2 * run

    return _over_lanes(place, depth // 2, bits, width)


def _over_lanes(place: Map, count: int, bits: int, width: int) -> Map:
    """In waves of 64 the last half of what a lane of 32 has, if that fills a register at least."""
    if width == 32 or count * bits <= 32:
        return place
    half = count // 2

    def moved(i: int, j: int, block: int) -> Place:
        lane, number = place(i, j, block)
        return lane + number // half * 32, number % half

    return moved


def _wmma11(depth: int, kinds: tuple[str, str], total: str, width: int) -> Unit:
    """All parts of the wave hold A and B; neighbours among rows are in different parts."""
    parts = width // 16
    lines: Map = lambda i, k, _: (i, k)
    sums: Map = lambda i, j, _: (j + i % parts * 16, i // parts)
    return Unit(16, depth, 1, kinds, total, 32, lines, lines, sums)


def _wmma12(
    depth: int, kinds: tuple[str, str], total: str, width: int, is_sparse: bool = False
) -> Unit:
    """Runs along k have 64 bits, or all of a lane; beside a sparse A those of B have twice that."""
    bits, stored = BITS[kinds[0]], depth // 2 if is_sparse else depth
    run = min(64 // bits, stored // 2)
    left = _rdna_lines(stored, run, bits, width)
    right = _rdna_lines(depth, run * depth // stored, bits, width)
    rows: Map = lambda i, j, _: (j + i // 8 * 16, i % 8)
    sums = _over_lanes(rows, 8, BITS[total], width)
    return Unit(16, depth, 1, kinds, total, BITS[total], left, right, sums, is_sparse)


@dataclass(frozen=True)
class Sources:
    """Which block of A, and which lanes of B, MFMA takes instead: cbsz, abid and blgp."""

    cbsz: int = 0
    abid: int = 0
    blgp: int = 0

    def left(self, place: Map) -> Map:
        """One of 2 ** cbsz blocks stands for all of them."""
        if not self.cbsz:
            return place
        return lambda i, k, block: place(i, k, (block >> self.cbsz << self.cbsz) + self.abid)

    def right(self, place: Map) -> Map:
        def moved(j: int, k: int, block: int) -> Place:
            lane, number = place(j, k, block)
            return self._lane(lane), number

        return moved if self.blgp else place

    def _lane(self, lane: int) -> int:
        if self.blgp < 3:
            return lane % 32 + 32 * (self.blgp - 1)
        return (lane + 16) % 64 if self.blgp == 3 else lane % 16 + 16 * (self.blgp - 4)


def _mfma(
    side: int, depth: int, blocks: int, kinds: tuple[str, str], total: str, sources: Sources
) -> Unit:
    lines, sums = _cdna_lines(side, side * depth * blocks // 64, blocks), _cdna_sums(side, total)
    left, right = sources.left(lines), sources.right(lines)
    return Unit(side, depth, blocks, kinds, total, BITS[total], left, right, sums)


def _smfmac(side: int, depth: int, kinds: tuple[str, str], total: str) -> Unit:
    each = side * depth // 64
    left, right = (_cdna_lines(side, n, 1) for n in (each // 2, each))
    sums = _cdna_sums(side, total)
    return Unit(side, depth, 1, kinds, total, BITS[total], left, right, sums, is_sparse=True)


_FORMATS = ("fp8", "bf8", "", "", "fp4")  # by cbsz of A and blgp of B; those without a name: 6 bits


def _cdna_chunks(side: int) -> Map:
    """Lanes run over lines, then chunks of 16 along k; then each has as many again."""
    groups = 64 // side
    return lambda i, k, _: (i + side * (k // 16 % groups), k // 16 // groups * 16 + k % 16)


def unit_of_formats(name: str, left: int, right: int) -> Unit:
    """The unit of v_mfma_f32_*_f8f6f4 and of v_mfma_scale_f32_*_f8f6f4, by the numbers of formats.

    Unsupported for formats of 6 bits, and for 8 bits beside 4: no two authorities agree there.
    """
    words = name.split("_")
    side, _, depth = map(int, words[-2].split("x"))
    kinds = _FORMATS[left], _FORMATS[right]
    if not all(kinds) or BITS[kinds[0]] != BITS[kinds[1]]:
        raise Unsupported(f"{name} with cbsz:{left} and blgp:{right}")
    lines = _cdna_lines(side, 32, 1) if BITS[kinds[0]] == 4 else _cdna_chunks(side)
    sums, is_scaled = _cdna_sums(side, "f32"), words[2] == "scale"
    return Unit(side, depth, 1, kinds, "f32", 32, lines, lines, sums, is_scaled=is_scaled)


_NAME = re.compile(
    r"v_(?P<family>mfma|wmma|smfmac|swmmac)_(?P<total>[a-z]+\d+)_(?P<side>\d+)x\d+x(?P<depth>\d+)"
    r"(?:_\d+b)?_?(?P<kinds>\w+)"
)


def unit_of(
    name: str, generation: int, width: int, blocks: int = 1, signs: int = 0,
    sources: Sources = Sources(),
) -> Unit:  # fmt: skip
    """The unit of an instruction by its name, and by what the name does not say.

    `signs` are two bits: integers of A and of B have one. Unsupported for another name.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise Unsupported(name)
    words = found["kinds"].removesuffix("_1k").split("_")
    kinds = words[0], words[-1]
    if words[0].startswith("iu"):
        first, second = (f"{'i' if signs >> n & 1 else 'u'}{words[0][2:]}" for n in range(2))
        kinds = first, second
    side, depth, total = int(found["side"]), int(found["depth"]), found["total"]
    if found["family"] == "mfma":
        return _mfma(side, depth, blocks, kinds, total, sources)
    if found["family"] == "smfmac":
        return _smfmac(side, depth, kinds, total)
    if generation == 11:
        return _wmma11(depth, kinds, total, width)
    return _wmma12(depth, kinds, total, width, is_sparse=found["family"] == "swmmac")
