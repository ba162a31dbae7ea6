"""The tile of a product: the largest that leaves groups enough, on units and on items."""

from dataclasses import replace

import pytest

from treadle.dtype import dtypes
from treadle.ir.args import ReduceArg
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import Reduce
from treadle.optimize.matmul_problem import MatmulProblem
from treadle.optimize.unit_tiles import GroupTile, choose_for_items, choose_for_unit
from treadle.target import MMA, WGMMA, parse_target

SM_80, SM_90A = parse_target("sm_80"), parse_target("sm_90a")


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
    assert choose_for_items(product(1024, 1024, 1024), group) is not None
    for shared in (16 << 10, 4 << 10):
        tile = choose_for_items(product(1024, 1024, 1024), replace(group, shared_bytes=shared))
        assert tile is None or tile.depth * (tile.rows + tile.columns) * 4 <= shared
    assert choose_for_items(product(1024, 1024, 1024), replace(group, shared_bytes=64)) is None


def test_the_levels_of_a_tile_multiply():
    tile = GroupTile((16, 8), (4, 2), (2, 4), 32)
    assert (tile.rows, tile.columns) == (128, 64)
    assert tile.halved(0).each == (2, 2)
    assert tile.groups(product(256, 100, 8)) == 4
