"""The tile of a product: the largest that leaves groups enough, on units and on items."""

from dataclasses import replace

import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.ir.args import ReduceArg
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import Reduce
from treadle.optimize.matmul_problem import MatmulProblem
from treadle.optimize.matrix_units import TileForUnits
from treadle.optimize.moves import Moves
from treadle.optimize.parameters import Parameters
from treadle.optimize.replay import parsed
from treadle.optimize.shared_tiles import ShareTiles
from treadle.optimize.unit_tiles import GroupTile, choose_for_items, choose_for_unit, tiles_near
from treadle.optimize.warpgroup_units import TileForWarpgroups
from treadle.target import MMA, WGMMA, parse_target

from .references import kernel

SM_80, SM_90A = parse_target("sm_80"), parse_target("sm_90a")
OF_SUBGROUPS = GroupTile((16, 8), (4, 2), (2, 4), 32)
OF_WARPGROUPS = GroupTile((64, 128), (1, 1), (2, 1), 64)
OF_ITEMS = GroupTile((1, 1), (4, 4), (16, 16), 16)


def product(rows, columns, steps):
    row, column, step = (Node.range(n, at) for at, n in enumerate((rows, columns, steps)))
    one = Node.const(dtypes.float32, 1)
    reduce = Reduce(one, (step,), ReduceArg(Op.ADD)).node()
    return MatmulProblem(reduce, one, one, (), (row,), (column,))


@pytest.mark.parametrize(
    ("sizes", "each"),
    [((4096, 4096, 64), (4, 4)), ((512, 512, 64), (1, 2)), ((64, 1 << 16, 64), (2, 4))],
)
def test_subgroups_have_as_much_as_leaves_groups_enough(sizes, each):
    tile = choose_for_unit(product(*sizes), MMA["bfloat16"], SM_80)
    assert tile is not None
    assert tile.each == each
    assert SM_80.workgroup is not None
    assert tile.groups(product(*sizes)) >= SM_80.workgroup.busy


def test_few_rows_are_for_no_unit_or_only_for_that_of_a_subgroup():
    few, some = product(8, 4096, 4096), product(32, 4096, 4096)
    assert choose_for_unit(few, MMA["float16"], SM_90A) is None
    assert choose_for_unit(some, MMA["float16"], SM_90A) is not None
    assert choose_for_unit(some, WGMMA["float16"], SM_90A) is None


def test_warpgroups_have_narrower_tiles_where_wide_ones_are_too_few():
    many = choose_for_unit(product(4096, 4096, 4096), WGMMA["float16"], SM_90A)
    few = choose_for_unit(product(256, 1024, 4096), WGMMA["float16"], SM_90A)
    assert many == GroupTile((64, 256), (1, 1), (2, 1), 64, 4)
    assert many is not None
    assert few is not None
    assert few.rows * few.columns < many.rows * many.columns


def test_slices_fit_in_the_memory_that_a_group_shares():
    group = SM_80.workgroup
    assert group is not None
    large = product(1024, 1024, 1024)
    assert choose_for_items(large, group, Parameters()) is not None
    for shared in (16 << 10, 4 << 10):
        tile = choose_for_items(large, replace(group, shared_bytes=shared), Parameters())
        assert tile is None or tile.depth * (tile.rows + tile.columns) * 4 <= shared
    assert choose_for_items(large, replace(group, shared_bytes=64), Parameters()) is None


def test_items_have_as_much_as_parameters_say():
    group = SM_80.workgroup
    assert group is not None
    tile = choose_for_items(product(64, 64, 64), group, Parameters(tile=(2, 8), depth=4))
    assert tile is not None
    assert (tile.each, tile.depth) == ((2, 8), 4)


def test_the_levels_of_a_tile_multiply():
    assert (OF_SUBGROUPS.rows, OF_SUBGROUPS.columns) == (128, 64)
    assert OF_SUBGROUPS.halved(0).each == (2, 2)
    assert OF_SUBGROUPS.groups(product(256, 100, 8)) == 4


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


def test_a_tile_is_its_text():
    tile = GroupTile((16, 8), (4, 2), (2, 4), 32, 3)
    text = "matrix_units(nest=0, tile=group_tile((16, 8), (4, 2), (2, 4), depth=32, buffers=3))"
    assert str(TileForUnits(0, tile)) == text
    (move,) = parsed(text)
    assert move == TileForUnits(0, tile)


@pytest.mark.parametrize("move", [TileForUnits, TileForWarpgroups, ShareTiles])
@pytest.mark.parametrize("tile", [OF_SUBGROUPS, OF_WARPGROUPS, OF_ITEMS])
def test_a_move_tiles_by_its_own_kind_of_tile_alone(move, tile):
    x = Tensor.zeros(128, 128, dtype=dtypes.float16).realize()
    found, *_ = kernel(x @ x, SM_90A)
    moves = Moves(found.ast, SM_90A)
    own = {TileForUnits: OF_SUBGROUPS, TileForWarpgroups: OF_WARPGROUPS, ShareTiles: OF_ITEMS}
    if tile is own[move]:
        moves.make(move(0, tile))
        assert moves.schedule().of_kind(move)[0].tile is tile
    else:
        with pytest.raises(ValueError, match="compute in such tiles"):
            moves.make(move(0, tile))
