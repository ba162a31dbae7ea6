"""STAGEs of BOXes: a producer copies slices into several buffers, work items read them.

    for i in S:  sums += WGMMA(STAGE(BOX(x, .., i)), STAGE(BOX(y, .., i)))      in B buffers
      ->
    producer: for i in S:
      AWAIT "empty" i % B of turn i // B - 1; EXPECT the bytes of both at "full" i % B
      copy both BOXes into buffer i % B, which reports to "full" i % B
    all others: for i in S:
      AWAIT "full" i % B of turn i // B; sums += WGMMA(buffer i % B), which is not waited for;
      that of step i - 1 is done now: arrive at "empty" (i - 1) % B

So units always have the next product when they are done with one. "full" and "empty" are
mbarriers, B of either: a phase of the one is over when the producer has said what to expect and
that has arrived, of the other when all warps have read. Both start in a phase of parity 0, and the
producer's first wait is for parity 1, which counts as over.

The producer is an END among the effects of the phase's END that its product is in; linearize makes
a program of its own of it, which one work item of four more subgroups runs.
"""

from __future__ import annotations

from dataclasses import replace

from ..dtype import dtypes
from ..errors import InternalError
from ..ir.args import LocalRef
from ..ir.choices import take
from ..ir.loops import closed_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.shape import size_product
from ..ir.views import Box, End, Stage, Store, bound_of
from .linearize import nodes_of_phase, phase_ends
from .multi_buffering import buffers_of, place_in, slice_place

__all__ = ["lower_bulk_copies"]

SUBGROUP = 32
PAIRS_APART = 4  # steps between the pairs of words that a work item holds


def lower_bulk_copies(root: Node) -> Node:
    """`root` with every WGMMA of STAGEs of BOXes fed by a producer."""
    is_box = lambda source: source.op is Op.STAGE and source.arg.fill == "boxes"
    products = [n for n in root.toposort() if n.op is Op.WGMMA and all(map(is_box, n.src))]
    for product in products:
        take("bulk_copy_producer")
        root = _lower(root, product, sum(n.op is Op.LOCAL for n in root.toposort()))
    return root


def _lower(root: Node, product: Node, first: int) -> Node:
    end = next(n for n in phase_ends(root) if product in nodes_of_phase(n))
    stages = product.src
    loop, buffers = _loop_of(product), stages[0].arg.buffers
    local = lambda end: (r for r in closed_ranges(end) if r.arg.kind == "local")
    work_items = max(loop_size(*local(end)) for end in phase_ends(root))  # as many in all phases
    arrivals = (1,) * buffers + (work_items // SUBGROUP,) * buffers
    barriers = Node(Op.LOCAL, dtypes.uint64, (), LocalRef(first, 2 * buffers, 16, arrivals))
    memories = [buffers_of(stage, first + 1 + n) for n, stage in enumerate(stages)]
    # -- the work items
    slot, turn = loop % buffers, loop // buffers
    full = Node(Op.AWAIT, dtypes.void, (barriers, slot, turn % 2))
    places = []
    for stage, memory in zip(stages, memories, strict=True):
        places.append(Node(Op.AFTER, memory.dtype, (memory, full)))
        is_held = product.arg.x is None and stage is stages[0]
        pairs = range(0, stage.arg.sizes[-2], PAIRS_APART) if is_held else range(1)
        *outer, row, inner = Stage.of(stage).read
        reads = [(*outer, simplify(row + deep), inner) for deep in pairs]
        places += [place_in(stage, read, slice_place(stage, loop)) for read in reads]
    before = simplify((loop + buffers - 1) % buffers + buffers)
    left = replace(product.arg, is_left=True)
    fed = product.replace(src=(*places, barriers, before, simplify(loop > 0)), arg=left)
    # -- the producer
    number = 1 + max(n.arg.number for n in root.toposort() if n.op is Op.RANGE)
    step = Node.range(bound_of(loop), number)
    slot, turn = step % buffers, step // buffers
    empty = Node(Op.AWAIT, dtypes.void, (barriers, simplify(slot + buffers), (turn + 1) % 2))
    ready = Node(Op.AFTER, barriers.dtype, (barriers, empty))
    nbytes = sum(size_product(s.arg.sizes) * s.dtype.itemsize for s in stages)
    expected = Node(Op.EXPECT, dtypes.void, (ready, slot), nbytes)
    stores, loops = [], []
    for stage, memory in zip(stages, memories, strict=True):
        slice_ = Stage.of(stage)
        box = Box.of(slice_.value.substitute({loop: step}))
        place = tuple(simplify(axis) for axis in box.place)
        box = Box(simplify(box.memory), place, (barriers, slot), box.arg, box.dtype)
        target = Node(Op.AFTER, memory.dtype, (memory, expected))
        index = place_in(stage, slice_.filled, slice_place(stage, step))
        stores.append(Store(target, index, box.node()).node())
        loops += slice_.loops
    producer = End(tuple(stores), (*loops, step)).node()
    made = End.of(end.substitute({product: fed}))
    made = made._replace(effects=(*made.effects, producer)).node()
    return root.substitute({end: made})


def _loop_of(product: Node) -> Node:
    """The loop over slices: the only one that is no more than a loop."""
    found = [r for r in ranges_of(product) if r.arg.kind == "loop"]
    if len(found) != 1:
        raise InternalError(f"a producer feeds one loop, not {len(found)}")
    return found[0]
