"""A kernel AST to linear programs: one list of nodes for each phase, loops as RANGE ... END.

Every node is placed in the innermost loop that it depends on, so what does not change inside a
loop is computed before it. A phase is one top-level END: all workers finish it before the next
starts. Its grid RANGEs are the outermost loops, and stay in the program as ordinary RANGEs of kind
"grid" without an END; the renderer maps them to the slice of the grid that it is called for.

LOCAL memory that a kernel may declare is declared, piece by piece. Where that is too little all
pieces are parts of one, as large as the launch says:

    local0: 40 bytes, local1: 100 bytes at a multiple of 64  ->  local0 at 0, local1 at 64
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from ..dtype import dtypes
from ..errors import InternalError
from ..ir.args import TensorBox
from ..ir.choices import take
from ..ir.loops import closed_ranges
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.shape import size_max
from ..ir.views import After, End, Load, Store, bound_of, memory_of

__all__ = [
    "Phase", "ask_for_shared", "join_phases", "linearize", "local_places", "nodes_of_phase",
    "param_bytes", "phase_ends",
]  # fmt: skip

Ranges = frozenset[Node]
# Work items of the subgroups that a producer belongs to: registers are moved from four.
PRODUCERS = 128


@dataclass(frozen=True, eq=False)
class Phase:
    """`program` is a LINEAR node; `grid` holds its grid RANGEs, outermost first.

    `work_items` is the number of work items in a workgroup; 1 where workers take slices of the
    grid. `asked` are the bytes of LOCAL memory that a launch has to ask for, since they are too
    many to declare. One work item of four more subgroups runs the program `producer`, if there is
    one (see bulk_copy_producer.py).
    """

    program: Node
    grid: tuple[Node, ...]
    work_items: int = 1
    asked: int = 0
    producer: Node | None = None

    @property
    def launched(self) -> int:
        """The work items of a workgroup, those for a producer included."""
        return self.work_items if self.producer is None else self.work_items + PRODUCERS

    @property
    def code(self) -> Node:
        """All programs as one."""
        if self.producer is None:
            return self.program
        return self.program.replace(src=self.program.src + self.producer.src)

    @property
    def boxes(self) -> list[tuple[Node, TensorBox]]:
        """The PARAMs and shapes of the tensors that bulk copies are made of, each once."""
        return list(dict.fromkeys((memory_of(n), n.arg) for n in self.code.src if n.op is Op.BOX))

    @property
    def aligned(self) -> frozenset[Node]:
        """The PARAMs whose memory has to begin at a multiple of 16 bytes: what pipelines read.

        Another way to read what does not would cost them registers.
        """
        has_pipelines = any(n.op is Op.COMMIT for n in self.code.src)
        return frozenset(param for param, written in self.params if has_pipelines and not written)

    @property
    def params(self) -> list[tuple[Node, bool]]:
        """The PARAMs that the program uses in order of their slots, and whether it writes them."""
        code = self.code.src
        written = {memory_of(n) for n in code if n.op is Op.STORE}
        used = {memory_of(n) for n in code if n.op in (Op.LOAD, Op.LINE, Op.BOX)} | written
        found = [n for n in used if n.op is Op.PARAM]
        return [(n, n in written) for n in sorted(found, key=lambda n: n.arg.slot)]

    @property
    def variables(self) -> list[str]:
        """The names of the launch-time integers that the program uses, sorted."""
        return sorted({n.arg.name for n in self.code.src if n.op is Op.VARIABLE})


def param_bytes(param: Node) -> int:
    """The size of the memory behind a PARAM."""
    return size_max(param.arg.size) * param.dtype.itemsize


def linearize(root: Node, work_items: int = 1, has_workgroups: bool = False) -> list[Phase]:
    """The phases of kernel `root` (a SINK), in order, for workgroups of `work_items`.

    `has_workgroups`: LOCAL memory belongs to a workgroup, so that barriers guard it.
    """
    return [_phase(_with_grid_outside(end), work_items, has_workgroups) for end in phase_ends(root)]


def _with_grid_outside(end: Node) -> Node:
    """A worker takes its part of the grid before it runs any loop, in whatever order they stand."""
    loops = sorted(closed_ranges(end), key=lambda r: r.arg.kind != "grid")
    return End.of(end)._replace(loops=tuple(loops)).node()


def _phase(end: Node, work_items: int, has_workgroups: bool) -> Phase:
    effects, loops = End.of(end)
    producers = tuple(effect for effect in effects if _copies_boxes(effect))
    if not producers:
        return _Phase(end, work_items, has_workgroups).result()
    rest = tuple(effect for effect in effects if effect not in producers)
    main = _Phase(End(rest, loops).node(), work_items, has_workgroups).result()
    made = _Phase(End(producers, _grid(end)).node(), 1, False).result()
    return replace(main, producer=made.program)


def _copies_boxes(effect: Node) -> bool:
    """Whether an effect is a producer's loop."""
    stores = (Store.of(s) for s in effect.src if s.op is Op.STORE)
    return effect.op is Op.END and any(store.value.op is Op.BOX for store in stores)


def phase_ends(root: Node) -> list[Node]:
    """The ENDs that fill memory for all workers: those of SINK, and those that they wait for."""
    order = root.toposort()
    wanted = {*root.src}.union(*(After.of(n).effects for n in order if _waits_for_phase(n)))
    return [node for node in order if node in wanted]


class _Phase:
    def __init__(self, end: Node, work_items: int, has_workgroups: bool) -> None:
        self.end = end
        self.work_items = work_items
        self.barriers = 0 if has_workgroups and work_items > 1 else None
        self.filling: set[Node | None] = set()  # the loops around what fills shared memory
        self.order = nodes_of_phase(end)
        reads = (n for n in self.order if n.op is Op.AFTER and behind_after(n).op is Op.LOCAL)
        self.awaited = {e for n in reads for e in After.of(n).effects}  # read behind them
        self.deps = self._dependencies()
        self.rank = self._ranks()
        self.blocks: dict[Node | None, list[Node]] = {None: []}

    def _dependencies(self) -> dict[Node, Ranges]:
        """The loops each node must stand in; effects stand in all loops of their END."""
        forced = self._forced()
        deps = self._found(forced)
        for store, loops in self._filled_anew(deps).items():
            forced[store] = forced.get(store, frozenset()) | loops
        return self._found(forced)

    def _found(self, forced: dict[Node, Ranges]) -> dict[Node, Ranges]:
        deps: dict[Node, Ranges] = {}
        for node in self.order:
            if node.op is Op.RANGE:
                deps[node] = deps[bound_of(node)] | {node}
                continue
            mine = forced.get(node, frozenset())
            if not _waits_for_phase(node):
                mine = mine.union(*(deps[s] for s in node.src))
            deps[node] = mine - frozenset(closed_ranges(node))
        return deps

    def _forced(self) -> dict[Node, Ranges]:
        """Stores, and loads of what they change, belong to each step of the loops around them."""
        forced: dict[Node, Ranges] = {}
        read = [(n, Load.of(n).memory) for n in self.order if n.op is Op.LOAD]
        for node in self.order:
            if node.op is not Op.END:
                continue
            end = End.of(node)
            loops = frozenset(end.loops)
            written = {Store.of(e).memory for e in end.effects if e.op is Op.STORE}
            loads = (load for load, memory in read if memory in written)
            for inside in itertools.chain(end.effects, loads):
                forced[inside] = forced.get(inside, frozenset()) | loops
        return forced

    def _filled_anew(self, deps: dict[Node, Ranges]) -> dict[Node, Ranges]:
        """STOREs to memory that every step of the grid fills again, and the loops of those steps.

        The first one may be of a constant, which the next step still needs there: others have
        overwritten it.
        """
        stores: dict[Node, list[Node]] = {}
        for node in self.order:
            if node.op is Op.STORE and memory_of(node).op is Op.LOCAL:
                stores.setdefault(memory_of(node), []).append(node)
        found: dict[Node, Ranges] = {}
        for group in stores.values():
            grid = frozenset(r for s in group for r in deps[s] if r.arg.kind == "grid")
            found |= {store: grid for store in group if not grid <= deps[store]}
        return found

    def _ranks(self) -> dict[Node, int]:
        """Nesting order of the loops: an END's loops are further out than those inside it."""
        rank: dict[Node, int] = {}
        for node in reversed(self.order):
            for r in closed_ranges(node) if node.op is Op.END else ():
                rank.setdefault(r, len(rank))
        return rank

    def _home(self, node: Node) -> Node | None:
        return max(self.deps[node], key=self.rank.__getitem__, default=None)

    def result(self) -> Phase:
        grid = _grid(self.end)
        for node in self.order:
            if node.op in (Op.RANGE, Op.SINK):
                continue
            if node.op is Op.END:
                self._close(node, grid)
                self._guard(node)
            elif node.op is Op.WAIT:
                self._meet(node)
            else:
                self.blocks.setdefault(self._home(node), []).append(node)
        if len(self.blocks) > 1:
            raise InternalError(f"[linearize] loops stand in no order: {[*self.blocks][1:]}")
        program = Node(Op.LINEAR, dtypes.void, tuple(self.blocks[None]))
        return Phase(program, grid, self.work_items)

    def _guard(self, end: Node) -> None:
        """A BARRIER after what fills shared memory, before anybody reads it."""
        if self.barriers is None or end not in self.awaited:
            return
        home = self._home(end)
        self.blocks.setdefault(home, []).append(self._barrier())
        self._refill(self.deps[end])

    def _meet(self, wait: Node) -> None:
        """A WAIT, which holds for all work items once they have met."""
        loop, *_ = wait.src
        self.blocks.setdefault(self._home(wait), []).extend((wait, self._barrier()))
        self._refill(self.deps[wait] - {loop})

    def _refill(self, around: Ranges) -> None:
        """Each step of the loops around fills the same shared memory."""
        self.filling.update(r for r in around if r.arg.kind == "loop")

    def _barrier(self) -> Node:
        assert self.barriers is not None  # there are workgroups
        self.barriers += 1
        return Node(Op.BARRIER, dtypes.void, (), self.barriers)

    def _close(self, end: Node, grid: tuple[Node, ...]) -> None:
        """Wrap the blocks of the END's loops into the block around them."""
        loops = closed_ranges(end)
        if not loops:
            return
        around = self._home(end)
        parents = (around, *loops[:-1])
        for r, parent in reversed(list(zip(loops, parents, strict=True))):
            body = self.blocks.pop(r, [])
            if r in self.filling:  # before the next step fills it again, all have read it
                body.append(self._barrier())
            closing = [] if r in grid else [End((), (r,)).node()]
            self.blocks.setdefault(parent, []).extend([r, *body, *closing])


def _waits_for_phase(node: Node) -> bool:
    """Whether it is memory that an earlier phase filled: in this phase it is just the memory."""
    return node.op is Op.AFTER and After.of(node).value.op is Op.PARAM


def nodes_of_phase(end: Node) -> list[Node]:
    """Every node of a phase, sources first: not what an earlier one had, such as shared memory."""
    return end.toposort(lambda n: not _waits_for_phase(n))


def _grid(end: Node) -> tuple[Node, ...]:
    return tuple(r for r in closed_ranges(end) if r.arg.kind == "grid")


def join_phases(root: Node) -> Node:
    """The kernel `root`, whose STAGEs are lowered, with one phase for each grid.

        END(STORE y, g, i); END(STORE parts[g] = REDUCE(.., i), g)
          ->  END(END(STORE y, i), STORE parts[g] = REDUCE(.., i), g)

    A schedule gives several nests one grid where a worker shall do all of it step by step, see
    optimize/output_reductions.py. What the loops inside have in common is for registers.py.
    """
    grids: dict[frozenset[Node], list[Node]] = {}
    for end in phase_ends(root):
        if grid := _grid(end):
            grids.setdefault(frozenset(grid), []).append(end)
    for ends in grids.values():
        if len(ends) > 1:
            grid = _grid(ends[0])
            effects = tuple(effect for end in ends for effect in _inside(end, grid))
            joined = End(effects, grid).node()
            root = root.substitute(dict.fromkeys(ends, joined))
    return root if root.op is not Op.SINK else Node.sink(dict.fromkeys(root.src))


def _inside(end: Node, grid: tuple[Node, ...]) -> tuple[Node, ...]:
    """What a phase does in each step of its grid."""
    effects, loops = End.of(end)
    inner = tuple(r for r in loops if r not in grid)
    return (End(effects, inner).node(),) if inner else effects


def ask_for_shared(phase: Phase, most_declared: int | None) -> Phase:
    """`phase` with the bytes that it has to ask for, if it may not declare what it needs."""
    total = local_places(phase.code)[1]
    if most_declared is None or total <= most_declared:
        return phase
    take("dynamic_shared")
    return replace(phase, asked=total)


def local_places(program: Node) -> tuple[dict[Node, int], int]:
    """Where each LOCAL begins behind those with smaller numbers, and the bytes of all of them."""
    places: dict[Node, int] = {}
    total = 0
    found = {n for n in nodes_of_phase(program) if n.op is Op.LOCAL}
    for node in sorted(found, key=lambda n: n.arg.number):
        step = node.arg.alignment
        places[node] = -(-total // step) * step
        total = places[node] + node.arg.size * node.dtype.itemsize
    return places, total
