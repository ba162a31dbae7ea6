"""The tile of a product on units, work items and vectors: of those in their data the cheapest."""

from dataclasses import replace

import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.optimize.choose_tile import Sizes, Tile, choose, first_fitting, tiles_near
from treadle.optimize.heuristic import parsed
from treadle.optimize.matrix_units import TileForUnits
from treadle.optimize.moves import Moves, Schedule
from treadle.optimize.row_tiles import blocks
from treadle.optimize.shared_tiles import ShareTiles
from treadle.optimize.tile_reduction import TileReduction
from treadle.optimize.warpgroup_units import TileForWarpgroups
from treadle.target import MMA, WGMMA, parse_target, vector_unit, work_item_unit
from treadle.target.nvidia_units import RESERVED

from .references import kernel

SM_80, SM_90A = parse_target("sm_80"), parse_target("sm_90a")
OF_SUBGROUPS = Tile((16, 8), (4, 2), (2, 4), 32)
OF_WARPGROUPS = Tile((64, 128), (1, 1), (2, 1), 64)
OF_WORK_ITEMS = Tile((1, 1), (4, 4), (16, 16), 16)


@pytest.mark.parametrize(
    ("sizes", "each"),
    [((4096, 4096, 64), (4, 4)), ((512, 512, 64), (1, 2)), ((64, 1 << 16, 64), (2, 4))],
)
def test_subgroups_have_as_much_as_leaves_workgroups_enough(sizes, each):
    tile = choose(Sizes(*sizes), MMA["bfloat16"], SM_80)
    assert tile is not None
    assert tile.each == each
    assert SM_80.workgroup is not None
    assert tile.count(Sizes(*sizes)) >= SM_80.workgroup.busy


def test_few_rows_are_for_no_unit_or_only_for_that_of_a_subgroup():
    few, some = Sizes(8, 4096, 4096), Sizes(32, 4096, 4096)
    assert choose(few, MMA["float16"], SM_90A) is None
    assert choose(some, MMA["float16"], SM_90A) is not None
    assert choose(some, WGMMA["float16"], SM_90A) is None


def test_warpgroups_have_narrower_tiles_where_wide_ones_are_too_few():
    many = choose(Sizes(4096, 4096, 4096), WGMMA["float16"], SM_90A)
    few = choose(Sizes(256, 1024, 4096), WGMMA["float16"], SM_90A)
    assert many == Tile((64, 256), (1, 1), (2, 1), 64, 4)
    assert many is not None
    assert few is not None
    assert few.rows * few.columns < many.rows * many.columns


def of_vectors(arch: str, columns: int) -> Tile:
    target = parse_target(arch)
    tile = choose(Sizes(4096, columns, 512), vector_unit(target, dtypes.float32), target)
    assert tile is not None
    return tile


@pytest.mark.parametrize("columns", [8, 24, 40, 80])
def test_columns_that_fill_no_whole_vectors_take_halves_where_these_are_as_quick(columns):
    tile = of_vectors("x86_64,znver4", columns)
    assert tile.unit == (1, 8)
    assert columns % tile.columns == 0
    assert of_vectors("x86_64,znver5", columns).unit == (1, 16)


@pytest.mark.parametrize("columns", [12, 16, 32, 64, 192])
def test_whole_vectors_take_fewer_instructions(columns):
    for arch in ("x86_64,znver4", "x86_64,znver5"):
        assert of_vectors(arch, columns).unit == (1, 16)


def of_work_items(workgroup, product):
    return choose(
        product, work_item_unit(workgroup, dtypes.float32), replace(SM_80, workgroup=workgroup)
    )


def test_slices_fit_in_the_memory_that_a_workgroup_shares():
    workgroup = SM_80.workgroup
    assert workgroup is not None
    large = Sizes(1024, 1024, 1024)
    assert of_work_items(workgroup, large) is not None
    for shared in (16 << 10, 4 << 10):
        tile = of_work_items(replace(workgroup, shared_bytes=shared), large)
        assert tile is None or tile.depth * (tile.rows + tile.columns) * 4 <= shared
    assert of_work_items(replace(workgroup, shared_bytes=64), large) is None


def test_work_items_have_as_much_as_is_set():
    workgroup = SM_80.workgroup
    assert workgroup is not None
    tile = of_work_items(replace(workgroup, each=(2, 8), depth=4), Sizes(64, 64, 64))
    assert tile is not None
    assert (tile.each, tile.depth) == ((2, 8), 4)


@pytest.mark.parametrize(("arch", "lanes"), [("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_vectors_have_all_registers_but_those_of_factors(arch, lanes):
    target = parse_target(arch)
    unit = vector_unit(target, dtypes.float32)
    tile = choose(Sizes(960, 960, 960), unit, target)
    assert tile is not None
    assert (tile.unit, tile.workers, tile.depth) == ((1, lanes), (1, 1), 0)
    rows, vectors = tile.each
    assert target.vector_registers * 2 // 3 < rows * vectors
    assert rows * vectors + vectors + 1 <= target.vector_registers


def test_tiles_of_vectors_pad_little_and_have_no_more_than_there_is():
    target = parse_target("x86-64-v3")
    unit = vector_unit(target, dtypes.float32)
    for rows, columns, each in ((5, 16, (5, 2)), (3, 500, (3, 3)), (7, 8, (7, 1))):
        tile = choose(Sizes(rows, columns), unit, target)
        assert tile is not None
        assert tile.each == each
    wanted = choose(Sizes(3, 8), vector_unit(target, dtypes.float32, (14, 2)), target)
    assert wanted is not None
    assert wanted.each == (3, 1)


def test_sums_of_several_products_share_the_registers():
    target = parse_target("x86-64-v3")
    sizes = Sizes(64, 1024, 1024, beside=4, sums=4)
    tile = choose(sizes, vector_unit(target, dtypes.float32), target)
    assert tile is not None
    rows, vectors = tile.each
    assert rows * vectors * 4 + vectors * 4 + 1 <= target.vector_registers


def test_the_tiles_of_a_unit_are_its_data():
    unit = MMA["float16"]
    assert unit.tiling is not None
    (levels, *_) = unit.tiling.levels
    wide = replace(unit, tiling=replace(unit.tiling, levels=(levels._replace(workers=(1, 8)),)))
    tile = choose(Sizes(4096, 4096, 4096), wide, SM_80)
    assert tile is not None
    assert (tile.each, tile.workers) == ((4, 4), (1, 8))
    assert choose(Sizes(4096, 4096, 4096), replace(unit, tiling=None), SM_80) is None


def test_a_block_of_attention_is_the_first_of_which_two_workgroups_fit():
    workgroup = SM_80.workgroup
    assert workgroup is not None
    sizes = [(128, 64), (128, 32), (64, 64)]

    def chosen(nbytes, results):
        tiles = blocks(MMA["float16"], sizes)
        tile = first_fitting(tiles, [], results, nbytes, workgroup, RESERVED)
        assert tile.workers == (4, 1)
        return tile.rows, tile.columns

    half = workgroup.shared_bytes // 2
    assert chosen(lambda tile: 1, 1 << 20) == sizes[0]
    assert chosen(lambda tile: half if tile.columns == 64 else 1, 1 << 20) == sizes[1]
    assert chosen(lambda tile: half, 1 << 20) == sizes[0]
    assert chosen(lambda tile: 1, 128 * workgroup.busy - 1) == sizes[2]


def test_the_levels_of_a_tile_multiply():
    assert (OF_SUBGROUPS.rows, OF_SUBGROUPS.columns) == (128, 64)
    assert OF_SUBGROUPS.count(Sizes(256, 100, 8, batch=3)) == 12


def test_tiles_near_have_half_or_twice_of_one_thing():
    changed = [((2, 2), 1), ((4, 1), 1), ((4, 4), 1), ((4, 2), 2)]
    assert list(tiles_near(OF_SUBGROUPS)) == [
        replace(OF_SUBGROUPS, each=each, buffers=buffers) for each, buffers in changed
    ]


def test_a_tile_is_for_the_unit_that_it_was_chosen_for_alone():
    assert OF_SUBGROUPS.is_for(MMA["float16"])
    assert not OF_SUBGROUPS.is_for(WGMMA["float16"])
    assert OF_WARPGROUPS.is_for(WGMMA["float16"])
    assert not replace(OF_WARPGROUPS, each=(1, 2)).is_for(WGMMA["float16"])
    assert not OF_WARPGROUPS.is_for(MMA["float16"])


def test_registers_of_a_processor_are_a_tile_of_the_same_kind():
    text = "register_tile(nest=0, tile=tile((1, 8), (6, 2), (1, 1)))"
    assert str(TileReduction(0, Tile((1, 8), (6, 2), (1, 1)))) == text
    assert parsed(text) == Schedule((TileReduction(0, Tile((1, 8), (6, 2), (1, 1))),))


def test_a_tile_is_its_text():
    tile = Tile((16, 8), (4, 2), (2, 4), 32, 3)
    text = "matrix_units(nest=0, tile=tile((16, 8), (4, 2), (2, 4), depth=32, buffers=3))"
    assert str(TileForUnits(0, tile)) == text
    (move,) = parsed(text)
    assert move == TileForUnits(0, tile)


@pytest.mark.parametrize("move", [TileForUnits, TileForWarpgroups, ShareTiles])
@pytest.mark.parametrize("tile", [OF_SUBGROUPS, OF_WARPGROUPS, OF_WORK_ITEMS])
def test_a_move_tiles_by_its_own_kind_of_tile_alone(move, tile):
    x = Tensor.zeros(128, 128, dtype=dtypes.float16).realize()
    found, *_ = kernel(x @ x, SM_90A)
    moves = Moves(found.ast, SM_90A)
    own = {TileForUnits: OF_SUBGROUPS, TileForWarpgroups: OF_WARPGROUPS, ShareTiles: OF_WORK_ITEMS}
    if tile is own[move]:
        moves.make(move(0, tile))
        assert moves.schedule().of_kind(move)[0].tile is tile
    else:
        with pytest.raises(ValueError, match="compute in such tiles"):
            moves.make(move(0, tile))


def test_rows_of_turned_results_are_stored_in_one_piece():
    """Eight rows are a piece of a column, six are two: 64 channels of a 7x7 convolution."""
    target = parse_target("x86_64,znver5")
    sizes = Sizes(100_352, 64, 147)
    tiles = [
        choose(one, vector_unit(target, dtypes.float32), target)
        for one in (sizes, sizes._replace(is_turned=True))
    ]
    assert [tile and tile.each for tile in tiles] == [(6, 4), (8, 2)]
