"""Parameters: the numbers by which one schedule of the heuristic differs from another.

    optimize(ast, target)                               the heuristic's own choice, Parameters()
    optimize(ast, target, Parameters(tile=(6, 2)))           register tiles of 6 rows x 2 vectors
    neighbours(Parameters(), target)                         Parameters with one number changed

A search (engine/search.py) measures what the neighbours give; most change nothing in most kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from ..target import Target, Workgroup

__all__ = ["Parameters", "neighbours", "noting"]

# What each ordered parameter can be: a neighbour is one step up or down.
LADDERS: dict[str, tuple[int, ...]] = {
    "panel_bytes": (1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21),
    "copies": (1, 2, 4, 8),
    "column_copies": (1, 2, 4, 8, 16),
    "chunk": (1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16),
}
WORK_ITEMS = (32, 64, 128, 256, 512, 1024)
DEPTHS = (4, 8, 16, 32)
WORK_ITEM_TILE = (1, 2, 4, 8)
TILE_ROWS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16)
TILE_VECTORS = (1, 2, 3, 4)
MIN_ACCUMULATORS = 6  # fewer leave the multipliers idle


@dataclass(frozen=True)
class Parameters:
    """The defaults are the heuristic's choice.

    Matmul-like nests: `tile` is (rows, vectors) of their register tiles, None for the one with the
    least estimated cost; `is_tiled` says whether they get any; `panel_bytes` of packed columns are
    kept in cache. In workgroups a tile is (rows, columns) of each work item, and `depth` the steps
    of a slice in shared memory. A workgroup has at most `work_items`, None for as many as suit.
    Every other nest: `copies` of a vector are computed side by side, `column_copies` if each of
    them holds results of a reduction. Reductions with few results are cut into parts of at least
    `chunk` steps.
    """

    tile: tuple[int, int] | None = None
    is_tiled: bool = True
    panel_bytes: int = 1 << 19
    copies: int = 4
    column_copies: int = 16
    chunk: int = 1 << 14
    work_items: int | None = None
    depth: int | None = None

    def __str__(self) -> str:
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return ", ".join(f"{f.name}={getattr(self, f.name)}" for f in changed) or "default"


def noting(parameters: Parameters) -> tuple[Parameters, set[str]]:
    """The same numbers, and the names of those that have been asked for since.

    A schedule for which a number was not asked is the same with any other.
    """
    asked: set[str] = set()

    class Noting(Parameters):
        def __getattribute__(self, name: str) -> object:
            asked.add(name)
            return super().__getattribute__(name)

    return Noting(**vars(parameters)), asked


def neighbours(parameters: Parameters, target: Target) -> Iterator[Parameters]:
    """`parameters` with one of them changed, in a fixed order."""
    if target.workgroup is not None:
        yield from _in_workgroups(parameters, target.workgroup)
        return
    for name, ladder in LADDERS.items():
        yield from _steps(parameters, name, ladder)
    yield replace(parameters, is_tiled=not parameters.is_tiled)
    if parameters.is_tiled:
        for shape in _tiles(target):
            yield replace(parameters, tile=shape)


def _in_workgroups(parameters: Parameters, workgroup: Workgroup) -> Iterator[Parameters]:
    for work_items in WORK_ITEMS:
        if work_items <= workgroup.most_work_items and work_items != (
            parameters.work_items or workgroup.work_items
        ):
            yield replace(parameters, work_items=work_items)
    if parameters.is_tiled:
        sides = [side for side in WORK_ITEM_TILE if side <= workgroup.tile]
        shapes = [(rows, columns) for rows in sides for columns in sides]
        for shape in sorted(shapes, key=_loads):
            yield replace(parameters, tile=shape)
        for depth in DEPTHS:
            yield replace(parameters, depth=depth)
    yield from _steps(parameters, "chunk", LADDERS["chunk"])
    yield replace(parameters, is_tiled=not parameters.is_tiled)


def _steps(parameters: Parameters, name: str, ladder: tuple[int, ...]) -> Iterator[Parameters]:
    """One step up and one down."""
    place = ladder.index(getattr(parameters, name))
    for value in (*ladder[place + 1 : place + 2], *ladder[max(0, place - 1) : place]):
        yield replace(parameters, **{name: value})


def _tiles(target: Target) -> list[tuple[int, int]]:
    """The register tiles that fit, those with the fewest loads for each product first."""
    shapes = [
        (rows, vectors)
        for rows in TILE_ROWS
        for vectors in TILE_VECTORS
        if rows * vectors >= MIN_ACCUMULATORS and (rows + 1) * vectors < target.vector_registers
    ]
    return sorted(shapes, key=_loads)


def _loads(shape: tuple[int, int]) -> float:
    """How many loads each product of a tile takes."""
    rows, columns = shape
    return (rows + columns) / (rows * columns)
