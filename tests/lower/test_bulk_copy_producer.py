"""A producer and what it feeds: slices arrive before they are read, and stay until they are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import InternalError
from treadle.ir.choices import choices_of
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import closed_ranges, free_ranges, loop_size
from treadle.ir.node import Node, behind_after
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel
from treadle.lower.bulk_copy_producer import lower_bulk_copies
from treadle.lower.linearize import linearize
from treadle.lower.multi_buffering import lower_buffered_stages
from treadle.lower.passes import lower
from treadle.target import parse_target

from ..optimize.references import kernel

SIZE = 64  # of the slices, each way
SUBGROUPS = 4  # of the 128 work items that a product is for


def of(root: Node, op: Op) -> list[Node]:
    return [node for node in root.toposort() if node.op is op]


def before(steps: int) -> Node:
    """A product of matrices on units of warpgroups, in so many slices."""
    x, y = (Tensor(np.zeros(shape, np.float32)) for shape in ((SIZE, SIZE * steps),) * 2)
    x, y = (each.cast(dtypes.bfloat16).realize() for each in (x, y))
    _, ast, _ = kernel(x @ y.T, parse_target("sm_90a"))
    assert [s.arg.fill for s in of(ast, Op.STAGE)] == ["boxes"] * 2
    return ast


def fed(ast: Node) -> Node:
    found = lower_bulk_copies(lower_buffered_stages(ast))
    verify_kernel(found)
    return found


class Parts:
    """What is in a kernel with a producer."""

    def __init__(self, ast: Node) -> None:
        (self.product,) = of(ast, Op.WGMMA)
        (self.boxes,) = [of(ast, Op.BOX)]
        (self.expect,) = of(ast, Op.EXPECT)
        (self.full,) = (n for n in self.product.toposort() if n.op is Op.AWAIT)
        (self.empty,) = (n for n in of(ast, Op.AWAIT) if n is not self.full)
        self.stores = [n for n in of(ast, Op.STORE) if n.src[2].op is Op.BOX]
        self.loop, self.step = (self._loop(n) for n in (self.full, self.empty))
        self.barriers = self.full.src[0]
        self.buffers = len(self.barriers.arg.arrivals) // 2

    def _loop(self, node: Node) -> Node:
        (found,) = free_ranges(node)[node]
        return found


@pytest.fixture(scope="module", params=[4, 5, 8, 11])
def steps(request) -> int:
    return request.param


def number(node: Node, loop: Node, step: int) -> int:
    """An index in a step of a loop, at the beginning of all others."""
    others = dict.fromkeys(free_ranges(node)[node], 0)
    return int(evaluate(node, others | {loop: step}))


class Barrier:
    """An mbarrier: over is what has had all arrivals, and all that they said would come."""

    def __init__(self, arrivals: int) -> None:
        self.arrivals, self.missing, self.over = arrivals, arrivals, 0

    def arrive(self, count: int = 1) -> None:
        assert count <= self.missing  # else a phase is told of what happens in another one
        self.missing -= count
        if not self.missing:
            self.over, self.missing = self.over + 1, self.arrivals

    def is_over(self, parity: int) -> bool:
        return self.over % 2 != parity


@pytest.mark.parametrize("is_producer_first", [True, False])
def test_every_step_reads_its_own_slices_however_fast_either_side_is(steps, is_producer_first):
    parts = Parts(fed(before(steps)))
    assert loop_size(parts.loop) == loop_size(parts.step) == steps
    barriers = [Barrier(count) for count in parts.barriers.arg.arrivals]
    buffers: dict[tuple[int, int], int] = {}  # where slices begin -> the step that they are of
    done = Counter[str]()

    def produce() -> bool:
        step, value = done["made"], lambda node: number(node, parts.step, step)
        _, slot, parity = parts.empty.src
        if not barriers[value(slot)].is_over(value(parity)):
            return False
        for store in parts.stores:
            buffers[store.src[0].src[0].arg.number, value(store.src[1])] = step
        barriers[value(parts.expect.src[1])].arrive()
        return True

    def consume() -> bool:
        step, value = done["used"], lambda node: number(node, parts.loop, step)
        _, slot, parity = parts.full.src
        if not barriers[value(slot)].is_over(value(parity)):
            return False
        x, x_place, y, y_place, _, freed, is_later = parts.product.src
        for memory, place in ((x, x_place), (y, y_place)):
            assert buffers[memory.src[0].arg.number, value(place)] == step
        if value(is_later):
            barriers[value(freed)].arrive(SUBGROUPS)
        return True

    sides = [("made", produce), ("used", consume)]
    while done["used"] < steps:
        moved = False
        for name, move in sides if is_producer_first else reversed(sides):
            while done[name] < steps and move():
                done[name] += 1
                moved = True
        assert moved  # else each side waits for the other


def test_a_slice_is_freed_once_the_next_product_has_begun(steps):
    parts = Parts(fed(before(steps)))
    *_, freed, is_later = parts.product.src
    assert parts.product.arg.is_left
    for step in range(steps):
        assert number(is_later, parts.loop, step) == (step > 0)
        expected = (step - 1) % parts.buffers + parts.buffers
        assert number(freed, parts.loop, step) == expected


def test_the_first_wait_of_a_buffer_is_over_at_once(steps):
    parts = Parts(fed(before(steps)))
    parity = parts.empty.src[2]
    for step in range(steps):
        assert number(parity, parts.step, step) == (step // parts.buffers + 1) % 2


def test_as_many_bytes_are_expected_as_both_boxes_bring():
    parts = Parts(fed(before(4)))
    assert parts.expect.arg == 2 * SIZE * SIZE * dtypes.bfloat16.itemsize
    sizes = [np.prod(box.arg.box) * dtypes.bfloat16.itemsize for box in parts.boxes]
    assert parts.expect.arg == sum(sizes)


def test_boxes_are_those_of_the_step_and_report_to_its_barrier(steps):
    ast = before(steps)
    parts, old = Parts(fed(ast)), of(ast, Op.BOX)
    for step in range(steps):
        for box, was in zip(parts.boxes, old, strict=True):
            *place, barriers, slot = box.src[1:]
            assert barriers is parts.barriers
            assert number(slot, parts.step, step) == step % parts.buffers
            expected = [number(n, parts.loop, step) for n in was.src[1:]]
            assert [number(n, parts.step, step) for n in place] == expected


def test_barriers_wait_for_one_producer_and_all_subgroups():
    parts = Parts(fed(before(4)))
    assert parts.barriers.arg.arrivals == (1,) * parts.buffers + (SUBGROUPS,) * parts.buffers
    tiles = {behind_after(s.src[0]) for s in parts.stores}
    assert {n.arg.size for n in tiles} == {parts.buffers * SIZE * SIZE}
    assert len({n.arg.number for n in (*tiles, parts.barriers)}) == 3


def test_the_producer_is_a_program_of_its_own():
    ast = before(4)
    (end,) = ast.src
    (lowered,) = fed(ast).src
    assert lowered.arg == end.arg + 1
    assert closed_ranges(lowered) == closed_ranges(end)
    producer = lowered.src[end.arg]
    assert {s.src[2].op for s in producer.src[: producer.arg]} == {Op.BOX}
    phase = linearize(Node.sink([lowered.replace(src=(producer,), arg=1)]))
    assert phase[0].producer is not None


def test_a_kernel_without_boxes_stays_as_it_is():
    x = Tensor(np.zeros((64, 64), np.float32)).realize()
    _, ast, _ = kernel(x @ x, parse_target("sm_80"))
    with choices_of() as choices:
        assert lower_bulk_copies(ast) is ast
    assert "bulk_copy_producer" not in choices
    with choices_of() as choices:
        fed(before(4))
    assert "bulk_copy_producer" in choices


def test_a_producer_feeds_one_loop():
    ast = before(4)
    (loop,) = {r for r in of(ast, Op.RANGE) if r.arg.kind == "loop"}
    with pytest.raises(InternalError, match="feeds one loop, not 0"):
        lower_bulk_copies(ast.substitute({loop: Node.index(0)}))


def test_chunks_of_a_product_are_fed_in_their_phase_by_as_many_warps_as_run_it():
    """The phase that combines the chunks has more work items than a tile: all of them arrive."""
    target = parse_target("sm_90a")
    x, y = (Tensor(np.zeros((SIZE, 20160), np.float16)).realize() for _ in range(2))
    found, ast, _ = kernel(x @ y.T, target)
    product, combined = lower(ast, len(found.buffers), target).phases
    assert product.producer is not None
    assert combined.producer is None
    (barriers,) = {n for n in product.code.toposort() if n.op is Op.LOCAL and n.arg.arrivals}
    freed = barriers.arg.arrivals[len(barriers.arg.arrivals) // 2 :]
    assert set(freed) == {product.work_items // 32}
