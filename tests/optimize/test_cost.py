"""What schedules are ranked by: instructions and lines are counted as the loops say."""

from dataclasses import replace

import pytest

from treadle import Tensor
from treadle.engine.run import scheduled
from treadle.optimize.cost import effort, seconds
from treadle.optimize.heuristic import optimize, parsed, replay
from treadle.optimize.parameters import Parameters
from treadle.optimize.space import Space
from treadle.target import parse_target

OWN = Parameters()
AVX2 = replace(parse_target("x86-64-v3"), cores=1, l1=32 << 10, l2=512 << 10, l3=32 << 20)


def filled(*shape):
    return Tensor.ones(*shape, device="CPU").contiguous().realize()


def ast_of(tensor):
    (kernel,) = scheduled([(tensor.node, "CPU")])
    return kernel.ast


def counted(tensor, parameters=OWN):
    return effort(optimize(ast_of(tensor), AVX2, parameters)[0], AVX2)


def test_a_sum_of_two_is_a_vector_of_each():
    found = counted(filled(4096, 1024) + filled(4096, 1024))
    vectors = 4096 * 1024 / 8
    assert (found.arithmetic, found.accesses, found.apart) == (vectors, 3 * vectors, 0)
    assert found.into_l1 == found.into_l2 == found.into_l3 == 3 * vectors / 2


def test_what_fits_a_cache_comes_from_no_further():
    found = counted(filled(64, 512) + 1)  # 128 KiB are read, as many written
    assert found.into_l1 == 64 * 512 * 8 / 64
    assert found.into_l2 == found.into_l3 == 0


def test_a_product_is_one_instruction_for_each_vector_and_step():
    found = counted(filled(480, 512) @ filled(512, 480), Parameters(tile=(6, 2)))
    assert found.arithmetic == 480 * 480 * 512 / 8
    assert 1 / 2 + 1 / 6 <= found.accesses / found.arithmetic < 0.75
    assert found.waits == 0


def test_few_accumulators_wait_and_too_many_are_kept_in_memory():
    make = lambda: filled(480, 512) @ filled(512, 480)
    few, some = (counted(make(), Parameters(tile=tile)) for tile in ((2, 1), (6, 2)))
    assert few.waits > some.waits == 0
    many = counted(make(), Parameters(tile=(16, 4)))
    assert many.accesses > 1.5 * many.arithmetic


def test_elements_that_lie_apart_cost_more_than_vectors():
    ast = ast_of(filled(512, 512) * 2)
    rows, columns = (
        replay(ast, AVX2, parsed(f"loops(lane_results({loop}, loop(r2, 64), vector(r3, 8)))"))
        for loop in ("r1", "r0")
    )
    assert effort(rows, AVX2).apart == 0 < effort(columns, AVX2).apart
    assert seconds(rows, AVX2) < seconds(columns, AVX2)


@pytest.mark.parametrize(("cores", "share"), [(1, 1), (3, 3 / 2), (4, 1)])
def test_workers_wait_for_the_last_one(cores, share):
    found = effort(optimize(ast_of(filled(4, 999).sum(1)), AVX2)[0], replace(AVX2, cores=cores))
    alone = effort(optimize(ast_of(filled(4, 999).sum(1)), AVX2)[0], AVX2)
    assert found.arithmetic == share * alone.arithmetic


def test_a_number_that_no_schedule_asks_for_is_not_changed():
    space = Space(ast_of(filled(512, 512) + 1), AVX2)
    asked = space._made[space.own].asked
    assert "copies" in asked
    assert "tile" not in asked
    assert {space.kernel_of(one) for one in space.near(space.own)}
