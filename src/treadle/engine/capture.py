"""A captured call as what replays run, and the tensors around it that they carry along.

begin(capture)          what was written before is computed; what is around gets names of its own
made_before(capture, nodes)     what must be computed before, since no replay computes it
prepare(capture)        call lists for its steps, and where each memory stands in them
step_state(capture)     its assignments give the state's tensors one version more

Memory around the function has two names while that is captured: tensors that own it have a new one,
by which the function reads and writes what is there now; views and graphs from before keep the old
one, and what it stood for. So what replays compute anew and what stays is told apart by names.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..config import settings
from ..ir.args import Placeholder, Token
from ..ir.node import Node, toposort
from ..ir.op import MOVEMENT, Op
from ..ir.symbolic import Size
from ..ir.versions import stored_below
from ..ir.views import operand
from ..runtime.base import CallList, Launch
from .arguments import Signature, is_traced, memories_of, over, refreshed
from .change_counters import changes
from .devices import Device, Placement
from .effects import copied
from .memory import Memory, adopt, buffers_of, from_host, memory_of, moment, read
from .prepacked import Kept, Room
from .realized import (
    current,
    holders,
    is_backed,
    is_born_since,
    next_number,
    remember,
    resolve,
    tracked_since,
)
from .repeated_calls import RepeatedCall, Replay, is_repeated
from .run import lock, realize, whatever_interrupts
from .steps import BetweenRuns, Collective, Run, Step
from .storages import (
    Captured,
    Storage,
    Stored,
    bases_to_write,
    capturing,
    held_nodes,
    is_behind,
    next_storage,
    on_the_way,
    rename,
    shown,
    written,
)

__all__ = [
    "Capture", "State", "Watched", "bases_of", "begin", "compute_written", "graphs_around",
    "let_go_of_memory", "looked_at_by", "made_around", "made_before", "names_below",
    "note_names", "prepare", "state_of", "step_state", "watched_by",
]  # fmt: skip


@dataclass(eq=False)
class Watched:
    """A tensor that is no argument, and whose `memories` the captured function reads."""

    holder: weakref.ref[Captured]
    node: Node
    memories: list[Memory]
    storage: Storage | None

    @property
    def has_changed(self) -> bool:
        """Whether the tensor has been given another value since, or is gone."""
        holder = self.holder()
        if holder is None:
            return True
        return holder.node is not self.node and resolve(holder.node) is not resolve(self.node)

    def follow(self) -> bool:
        """Compute what was assigned since; whether the tensor is where it was."""
        holder = self.holder()
        if holder is None or holder._storage is not self.storage:
            return False
        (node,) = realize([(holder.node, holder.device)])
        holder._computed(node)
        if [*map(id, memories_of(node))] != [*map(id, self.memories)]:
            return False  # and so it stays for the next call to see
        self.node = holder.node
        return True


@dataclass(eq=False)
class State:
    """What replays leave changed: storages in memory, and other tensors that the function made.

    Of these, what they are, over the first names of their memory. `followers` are views that the
    function writes through, which show the storages.
    """

    storages: list[Storage] = field(default_factory=list)
    tensors: list[tuple[weakref.ref[Captured], Node]] = field(default_factory=list)
    followers: list[weakref.ref[Captured]] = field(default_factory=list)
    memories: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.storages or self.tensors)

    def shown(self) -> list[tuple[Captured | Storage, Node]]:
        """The storages and tensors, with what each is."""
        left = [(t, node) for ref, node in self.tensors if (t := ref()) is not None]
        return [*((storage, resolve(storage.node)) for storage in self.storages), *left]

    def lost(self) -> list[Node]:
        """The memory of tensors that are gone: replays write there, and others may have read it."""
        return [node for ref, node in self.tensors if ref() is None]


@dataclass(eq=False)
class Capture:
    """What a captured call did, ready to be replayed."""

    signature: Signature
    inputs: list[Memory]
    values: dict[str, int]  # of the variables that each call gives values
    same: frozenset[tuple[int, int]] = frozenset()  # the places at which one tensor was given
    steps: list[Step] = field(default_factory=list)
    result: Any = None
    interpreted: bool = False
    returned: list[tuple[Node, list[Memory]]] = field(default_factory=list)
    made: list[Memory] = field(default_factory=list)  # what each replay gives new memory
    sizes: list[Size] = field(default_factory=list)  # of those, elements, or sizes of variables
    # call lists, and other steps between them
    replay: list[CallList | RepeatedCall | BetweenRuns] = field(default_factory=list)
    # calls of groups that are over before a place in `replay`, or at its end
    awaited: dict[int, list[RepeatedCall | Collective]] = field(default_factory=dict)
    stretches: list[list[Run]] = field(default_factory=list)  # what each call list runs
    patches: dict[int, list[tuple[CallList | RepeatedCall, int, int]]] = field(default_factory=dict)
    variables: list[tuple[CallList, int, int, str]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)  # packed weights
    overwritten: list[Memory] = field(default_factory=list)  # what each replay assigns to
    state: State = field(default_factory=State)
    watched: list[Watched] = field(default_factory=list)
    settled: Any = None  # when a call may be replayed unseen: `Settled`, for plain arguments
    straight: Any = None  # how it is replayed: `Straight`, if that is kernels alone
    addressed: Any = None  # the same from memory at given addresses, with values of variables
    graded: list[int] = field(default_factory=list)  # the leaves among the arguments with gradients
    given: list[int] = field(default_factory=list)  # the arguments that are written to
    views: list[bool] = field(default_factory=list)  # which arguments are views
    unseen: set[int] = field(default_factory=set)  # of these, views that do not show it,
    shows_else: set[int] = field(default_factory=set)  # and those that show something else
    seen: int = 0  # holders with smaller numbers cannot read what is in the state's memory now
    is_faithful: bool = True  # whether replays would do what the function does

    # while it is captured
    began: int = 0  # holders with smaller numbers are from before
    first: int = 0  # and so are names with smaller ones,
    moment: int = 0  # and memory that was made before
    storages: int = 0  # and storages,
    last: int = 0  # apart from those of arguments
    breaks: list[tuple[int, int, int, int]] = field(default_factory=list)  # what is not recorded
    names: list[tuple[Node, Node]] = field(default_factory=list)  # old ones and new ones
    renamed: set[Token] = field(default_factory=set)
    stand_ins: set[Token] = field(default_factory=set)
    outside: dict[Node, Placement] = field(default_factory=dict)  # graphs of tensors around it
    # views from before that show that, and what they were
    looked_at: list[tuple[weakref.ref[Captured], Node]] = field(default_factory=list)
    # tensors around it that are graphs: what is computed of them may be there already
    graphs: list[tuple[weakref.ref[Captured], Node]] = field(default_factory=list)
    read: set[Node] = field(default_factory=set)  # memory, by names from before
    changing: set[Node] = field(default_factory=set)  # what views that it writes through were
    copied: set[Node] = field(default_factory=set)  # what it overwrites, and reads as it was before
    written: dict[Storage, None] = field(default_factory=dict)
    filled: set[Storage] = field(default_factory=set)  # likewise, of arguments and its own tensors
    through: list[tuple[weakref.ref[Stored], set[Node]]] = field(default_factory=list)

    def start(self, inputs: list[Memory]) -> None:
        """Everything from now on is the function's."""
        self.inputs = inputs
        self.began, self.first, self.moment = next_number(), Token().number, moment()
        self.storages = next_storage()

    # -- what the function does -----------------------------------------------------------------

    def wrote(self, storage: Storage, tensor: Stored) -> None:
        """`storage` is about to be written to through `tensor`."""
        if storage.number >= self.storages:
            if storage not in self.filled and not is_born_since(self.began, tensor):
                self.is_faithful = False  # a view that has got a storage of its own just now
            self.filled.add(storage)
            return
        self.written[storage] = None
        behind = [view for view in on_the_way(tensor) if is_behind(view)]
        if any(not is_born_since(self.began, view) for view in behind):
            self.is_faithful = False  # from now on it shows what is written, and no older version
        self.through += [(weakref.ref(v), names_below(v.node)) for v in on_the_way(tensor)]
        if not all(names for _, names in self.through):
            self.is_faithful = False  # constants, which the next call will not find there
        if storage.is_graded or bases_to_write(storage) is None:
            self.is_faithful = False  # it gets memory now, which the next call will find

    def replaced(self, tensor: Stored) -> None:
        """`tensor` becomes another one."""
        if tensor._storage is not None and tensor._storage.number < self.last:
            self.is_faithful = False

    def may_write(self, token: Token) -> bool:
        """Whether replays can write to this memory as the function does."""
        if token in self.renamed:
            return True
        return token not in self.stand_ins and self.is_made(token.memory)

    def is_inside(self, token: Token) -> bool:
        """Whether this is a name of memory that only the function has read."""
        return token in self.renamed or (
            token.number >= self.first
            and not any(first <= token.number < last for first, last, _, _ in self.breaks)
        )

    def is_made(self, memory: Memory) -> bool:
        """Whether each replay makes what is in this memory."""
        return (
            memory.made >= self.moment
            and not memory.is_given
            and not any(begin <= memory.made < end for _, _, begin, end in self.breaks)
        )

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """A block whose work is none of the function's: replays do not repeat it."""
        first, began = Token().number, moment()
        try:
            with capturing.suspended():
                yield
        finally:
            self.breaks.append((first, Token().number, began, moment()))

    def end(self) -> None:
        """From now on both names of memory are one again, where that has not been overwritten."""
        for old, new in self.names:
            if old.memory is None and _is_there(old) and _is_there(new):
                remember(old, new)
        self.names.clear()

    def forget(self) -> None:
        """What only the captured call has needed."""
        for held in (
            self.renamed,
            self.stand_ins,
            self.outside,
            self.changing,
            self.copied,
            self.written,
            self.filled,
            self.through,
        ):
            held.clear()

    # -- replays --------------------------------------------------------------------------------

    def is_apart(self, memories: Sequence[Memory]) -> bool:
        """Whether replays write to none of these `memories` of arguments."""
        return self.state.memories.isdisjoint(map(id, memories))

    def is_current(self) -> bool:
        """Whether replays read what the function would read now; assignments are computed for it.

        A tensor that is gone has been replaced by another one under its name, unless others still
        have its memory: those may be what the function reads.
        """
        if self.names_have_changed:
            return False
        if not all(map(_is_where_it_was, self.state.storages)):
            return False
        changed = [watched for watched in self.watched if watched.has_changed]
        gone = [watched for watched in changed if watched.holder() is None]
        if gone:
            self.watched = [watched for watched in self.watched if watched not in gone]
            left = {id(memory) for watched in self.watched for memory in watched.memories}
            if not all(id(memory) in left for watched in gone for memory in watched.memories):
                return False
            if not all(watched.memories for watched in gone):  # constants, which are known here
                return False
        followed = all(watched.follow() for watched in changed if watched not in gone)
        return followed and not self.names_have_changed  # by what has been computed for it

    @property
    def names_have_changed(self) -> bool:
        """Whether what views and graphs from before have read has been overwritten since."""
        return not all(map(_is_where_it_stood, self.read)) or any(
            (view := ref()) is not None and resolve(view.node) is not resolve(node)
            for ref, node in self.looked_at
        )

    def moved_since(self) -> bool:
        """Whether a call has to look closer: something that is read has got another node."""
        return (
            any(watched.has_changed for watched in self.watched)
            or any(not is_backed(storage.node) for storage in self.state.storages)
            or self.names_have_changed
        )

    @functools.cached_property
    def runs(self) -> list[Run]:
        return [step for step in self.steps if isinstance(step, Run)]

    @functools.cached_property
    def work(self) -> tuple[int, int, int]:
        """Kernels, operations and bytes of one replay."""
        works = [run.work for run in self.runs]
        kernels, ops, nbytes = (sum(work[i] for work in works) for i in range(3))
        return kernels, ops, nbytes


def _is_there(name: Node) -> bool:
    """Whether memory is as it was when it got this name."""
    return name.arg.token.memory.version == name.arg.version


def _is_where_it_stood(name: Node) -> bool:
    """Whether what has this name is in the memory that it was in."""
    now = resolve(name)
    return now.arg.token.memory is name.arg.token.memory and _is_there(now)


def _is_where_it_was(storage: Storage) -> bool:
    """Compute what was written to `storage` since; whether that is in the memory it had.

    What gradients have come to flow through is not: its values are a graph, which replays would
    write to without its knowing.
    """
    if storage.is_graded:
        return False
    if is_backed(storage.node):
        return True
    memories = {id(stored_below(base).arg.token.memory) for base in bases_to_write(storage) or ()}
    _compute([storage])
    return memories == {id(memory) for memory in memories_of(storage.node)}


# -- before the function runs ------------------------------------------------------------------


def begin(capture: Capture) -> None:
    """Compute what was written before, and tell what is there from what the function makes."""
    with lock:
        compute_written()
        for holder in holders():
            capture.names += _renamed(holder)
        capture.renamed = {new.arg.token for _, new in capture.names}
        capture.outside = graphs_around()
        for holder in holders():
            if not is_backed(holder.node):
                capture.graphs.append((weakref.ref(holder), holder.node))


def compute_written() -> None:
    """Compute what was written to tensors before, for they lie in memory from then on."""
    with lock:
        seen = {holder._storage for holder in holders()}
        _compute([s for s in [*written] if s in seen and not is_traced(resolve(s.node))])
        written.clear()


def graphs_around() -> dict[Node, Placement]:
    """The graphs of all tensors that are in no memory, with their devices."""
    return {h.node: h.device for h in holders() if not is_backed(resolve(h.node))}


def _compute(storages: list[Storage]) -> None:
    """Bring the storages into memory that writes can go to: each into its own."""
    nodes = realize([(storage.node, storage.device) for storage in storages])
    for storage, node in zip(storages, nodes, strict=True):
        if storage.is_graded:
            continue
        storage._show(node)
        if bases_to_write(storage) is None:  # it is another one's, whose values are the same
            names = [copied(memory_of(base.arg), is_told=False) for base in buffers_of(node)]
            storage._show(over(node, names))


def _renamed(holder: Captured) -> list[tuple[Node, Node]]:
    """The old and new names of what a tensor owns, which has the new ones from now on."""
    if holder._moves is not None:
        return []
    if holder._storage is None:
        holder._storage = Storage(holder, holder.node)
    storage, node = holder._storage, resolve(holder.node)
    if storage.is_graded or not is_backed(node):
        return []
    storage.node = node
    bases = bases_to_write(storage)
    if bases is None:
        return []
    names = [adopt(memory_of(base.arg)) for base in bases]
    rename(storage, names)
    storage._show(over(node, names))
    return [*zip(bases, names, strict=True)]


# -- while it runs -----------------------------------------------------------------------------


def made_around(
    outside: Mapping[Node, Placement], nodes: Sequence[Node]
) -> list[tuple[Node, Placement]]:
    """The graphs of tensors around a function that `nodes` read: they are computed once."""
    below = toposort(nodes, lambda n: resolve(n) is n)
    found = (n for n in below if n in outside and resolve(n) is n)
    return [(n, outside[n]) for n in found if not _is_view(n) and _memory_below(n)]


def made_before(capture: Capture, nodes: Sequence[Node]) -> list[tuple[Node, Placement]]:
    """The graphs of tensors around the function that no replay must compute anew.

    Those that `nodes` read: they have their values. And those that read memory which is about to be
    overwritten, for they keep theirs.
    """
    below = [n for n in toposort(nodes, lambda n: resolve(n) is n) if resolve(n) is n]
    found = [node for node, _ in made_around(capture.outside, nodes)]
    lost = {stored_below(n).arg.token.memory for n in below if n.op is Op.AFTER}
    if lost:
        pending = [node for node in capture.outside if resolve(node) is node]
        found += [n for n in pending if not lost.isdisjoint(_memory_below(n)) and not _is_traced(n)]
        for name in names_below_all(nodes):
            token = name.arg.token
            if token.memory in lost and not capture.is_inside(token):
                with capture.suspended():
                    copy = Node(Op.CONTIGUOUS, name.dtype, (name,))
                    remember(name, realize([(copy, name.arg.device)])[0])
                capture.copied.add(name)
    return [(node, capture.outside[node]) for node in dict.fromkeys(found)]


def note_names(capture: Capture, nodes: Sequence[Node]) -> None:
    """What `nodes` read by names from before the function."""
    for node in current(nodes)[1]:
        if node.op is Op.BUFFER and not isinstance(node.arg.token, Placeholder):
            token = node.arg.token
            if token in capture.stand_ins:
                continue
            if any(token.memory is memory for memory in capture.inputs):
                capture.is_faithful = False  # an argument that is found by another name, too
            if not capture.is_inside(token):
                capture.read.add(node)
    capture.read |= {
        name
        for name in _names_behind(nodes)
        if name.arg.token not in capture.stand_ins
        and not capture.is_inside(name.arg.token)
        and _is_where_it_stood(name)
    }


def _names_behind(nodes: Sequence[Node]) -> set[Node]:
    """The BUFFERs that the graphs are made of, those of what has been computed included.

    The function may have made such a graph anew, of a view from before, and not found its value.
    """
    is_stored = lambda n: n.op is Op.AFTER and n.memory is not None
    found: set[Node] = set()
    for node in toposort(nodes, lambda n: not is_stored(n)):
        node = resolve(node) if is_stored(node) else node
        if node.op is Op.BUFFER and not isinstance(node.arg.token, Placeholder):
            found.add(node)
        elif is_backed(node):
            found.update(buffers_of(node))
    return found


def looked_at_by(capture: Capture) -> list[tuple[weakref.ref[Captured], Node]]:
    """The views whose memory the function has read: written through, they show something else."""
    views = [holder for holder in holders() if holder._moves is not None]
    return [
        (weakref.ref(view), view.node)
        for view in (views if capture.read else ())
        if not capture.read.isdisjoint(names_below(view.node))
    ]


def names_below(node: Node) -> set[Node]:
    """The BUFFERs that computing a graph reads."""
    return names_below_all([node])


def names_below_all(nodes: Sequence[Node]) -> set[Node]:
    """The same of several."""
    order = (resolve(n) for n in toposort(nodes, lambda n: resolve(n) is n))
    return {base for n in order if is_backed(n) for base in buffers_of(n)}


def _memory_below(node: Node) -> set[Memory]:
    return {base.arg.token.memory for base in names_below(node)}


def _is_view(node: Node) -> bool:
    """Whether a graph is movements of memory."""
    while node.op in MOVEMENT or node.op is Op.DETACH:
        node = resolve(operand(node))
    return is_backed(node)


def _is_traced(node: Node) -> bool:
    return is_traced(resolve(node))


def prepare(capture: Capture) -> None:
    """A call list for each stretch of steps on one device, and where each memory stands in them.

    Each other step stands between the lists, as it stood between the runs.
    """
    stretch: list[Run] = []
    room = Room()
    capture.overwritten = [memory for run in capture.runs for memory in run.overwritten]
    changing = [*capture.inputs, *capture.overwritten, *(m for s in capture.steps for m in s.made)]
    numbers = {id(memory) for memory in changing}
    is_constant = lambda memory: not memory.is_exposed and id(memory) not in numbers
    for step in [*capture.steps, None]:
        if stretch and not (isinstance(step, Run) and _device(step) == _device(stretch[0])):
            kept = Kept()
            launches = kept.split(stretch, is_constant, room)
            capture.replay.append(_call_list(stretch, launches, kept, capture))
            capture.kept.append(kept)
            capture.stretches.append(stretch)
            stretch = []
        if isinstance(step, Run):
            stretch.append(step)
        elif step is not None:
            capture.replay.append(step)
    _repeat_calls(capture)
    _await_calls(capture)


def _repeat_calls(capture: Capture) -> None:
    """Calls of groups take addresses where they can; and what processes compare.

    They compare all calls of a replay, at the first call of the first one.
    """
    calls = [step for step in capture.replay if isinstance(step, Collective)]
    every = [(c.arg.kind, str(c.arg.op), c.arg.peer, c.arg.shape) for c in calls]
    whole = f"a replay of {every}"
    if settings.DISTRIBUTED_CHECK:
        for call in calls:
            call.check = ""
    elif all(map(is_repeated, calls)):
        replay = Replay(whole)
        for place, step in enumerate(capture.replay):
            if isinstance(step, Collective):
                capture.replay[place] = call = RepeatedCall(step, replay)
                for slot, memory in enumerate((*step.operands, *step.made)):
                    capture.patches.setdefault(id(memory), []).append((call, 0, slot))
    else:
        for number, call in enumerate(calls):
            call.check = whole if number == 0 else None


def _await_calls(capture: Capture) -> None:
    """Before which place of a replay each call of a group has to be over.

    A step waits for calls whose result it reads, and for those that read what it overwrites.
    """
    runs = iter(capture.stretches)
    begun: dict[RepeatedCall | Collective, int] = {}
    for place, step in enumerate(capture.replay):
        touched, written = _memory_of(step, runs)
        over = [
            call
            for call in begun
            if any(id(m) in touched for m in call.made)
            or any(id(m) in written for m in call.operands)
        ]
        _finish_before(capture, place, over, begun)
        if isinstance(step, Collective) or (isinstance(step, RepeatedCall) and not step.is_small):
            begun[step] = place
    repeated = [call for call in begun if isinstance(call, RepeatedCall)]
    _finish_before(capture, len(capture.replay), repeated, begun)


def _memory_of(
    step: CallList | RepeatedCall | BetweenRuns, runs: Iterator[list[Run]]
) -> tuple[set[int], set[int]]:
    """What a step reads or writes, and what it writes; a call list is the next of `runs`."""
    if isinstance(step, RepeatedCall | BetweenRuns):
        written = {id(m) for m in step.made}
        return {id(m) for m in step.operands} | written, written
    stretch = next(runs)
    touched = {id(m) for run in stretch for m in (*run.inputs, *run.outputs)}
    return touched, {id(m) for run in stretch for m in (*run.made, *run.overwritten)}


def _finish_before(
    capture: Capture,
    place: int,
    over: Sequence[RepeatedCall | Collective],
    begun: dict[RepeatedCall | Collective, int],
) -> None:
    """These calls, `begun` at some places, are over before what is at `place` runs."""
    if over:
        capture.awaited[place] = [*over]
    for call in over:
        between = capture.replay[begun.pop(call) + 1 : place]
        if isinstance(call, RepeatedCall):
            call.is_alone = all(isinstance(step, RepeatedCall) for step in between)


def let_go_of_memory(capture: Capture) -> None:
    """Arguments and results belong to the caller: replays need no more than what theirs is like.

    Not where a step that takes no addresses has them, or where they are assigned to.
    """
    if any(isinstance(step, BetweenRuns) for step in capture.replay):
        return
    written = {id(memory) for memory in capture.overwritten}
    hollow = {
        id(old): Memory(None, old.dtype, old.size, old.device, image=old.image)
        for old in (*capture.inputs, *capture.made)
        if id(old) not in written and id(old) not in capture.state.memories
    }
    nodes = {number: adopt(memory) for number, memory in hollow.items()}
    capture.result = refreshed(capture.result, iter(capture.returned), nodes)

    def like(memories: list[Memory]) -> list[Memory]:
        return [hollow.get(id(memory), memory) for memory in memories]

    capture.returned = [
        (node, memories)
        if not memories
        else (
            over(node, [nodes.get(id(memory_of(b.arg)), b) for b in buffers_of(node)]),
            like(memories),
        )
        for node, memories in capture.returned
    ]
    capture.inputs, capture.made = like(capture.inputs), like(capture.made)
    for run in capture.runs:
        run.inputs, run.outputs, run.filled = map(like, (run.inputs, run.outputs, [*run.filled]))
    for step in capture.steps:
        if isinstance(step, Collective):
            step.operands, step.made = like([*step.operands]), like([*step.made])
    for number, memory in hollow.items():
        capture.patches[id(memory)] = capture.patches.pop(number, [])


def _device(run: Run) -> str:
    return run.program.device


def _call_list(
    runs: list[Run],
    launches: list[Launch],
    kept: Kept,
    capture: Capture,
) -> CallList:
    """The launches that are left of `runs` for replay, beside what is `kept` of them."""
    calls = Device[_device(runs[0])].runtime.call_list(launches, (runs, kept))
    call = 0
    for run in runs:
        program, rounds = run.program, len(run.rounds)
        for kernel, arguments in zip(
            program.kernels * rounds, program.arguments * rounds, strict=True
        ):
            for slot, place in enumerate(arguments):
                if place.kind != "scratch":
                    owners = run.inputs if place.kind == "input" else run.outputs
                    memory = owners[place.number]
                    capture.patches.setdefault(id(memory), []).append((calls, call, slot))
            for slot, name in enumerate(kernel.variables):
                if name in capture.values:
                    capture.variables.append((calls, call, slot, name))
            call += 1
    return calls


def bases_of(holder: Captured) -> list[Node]:
    """The BUFFERs that a holder is (a view of all of): one on each of its devices."""
    node = resolve(holder.node)
    return buffers_of(node) if is_backed(node) else []


def state_of(capture: Capture, left: Sequence[Captured], followers: Sequence[Captured]) -> State:
    """What replays change beside their results: what the function wrote to, and what it `left`.

    `followers` are views from around it that show what it wrote.
    """
    storages = [s for s in capture.written if is_backed(s.node)]
    state = State(storages, [(weakref.ref(tensor), resolve(tensor.node)) for tensor in left])
    state.followers = [*map(weakref.ref, followers)]
    state.memories = frozenset(id(m) for _, node in state.shown() for m in memories_of(node))
    return state


def watched_by(capture: Capture) -> list[Watched]:
    """The tensors that own what the captured function reads and neither is given nor makes."""
    read = {id(m): m for run in capture.runs for m in run.inputs}
    read |= {id(m): m for s in capture.steps if isinstance(s, BetweenRuns) for m in s.operands}
    read |= {id(m): m for m in (name.arg.token.memory for name in capture.read)}
    own = {id(m) for m in (*capture.inputs, *(m for step in capture.steps for m in step.made))}
    own.update(number for number, memory in read.items() if capture.is_made(memory))
    found = []
    for holder in holders() if read.keys() - own else ():
        if holder._moves is not None:
            continue
        memories = [memory_of(base.arg) for base in bases_of(holder)]
        if any(id(m) in read and id(m) not in own for m in memories):
            ref = weakref.ref(holder, changes.of_meaning)
            found.append(Watched(ref, holder.node, memories, holder._storage))
    return found


def step_state(capture: Capture) -> None:
    """Make the state's memory one version newer, as the assignments of this replay do.

    The state tensors go along; whatever else can still read the old version gets a copy of it.
    """
    state = capture.state
    if not state or (capture.seen and not _can_be_read(capture)):
        return
    roots = state.shown()
    nodes = [*(node for _, node in roots), *state.lost()]
    old = {base.arg.token.memory: base for node in nodes for base in buffers_of(node)}
    _keep(set(old), state)
    newer = {
        memory: base.replace(arg=replace(base.arg, version=memory.version + 1))
        for memory, base in old.items()
    }
    shows = [
        (root, over(node, [newer[base.arg.token.memory] for base in buffers_of(node)]))
        for root, node in roots
    ]
    whatever_interrupts(lambda: _step(capture, newer, shows))


def _step(
    capture: Capture, newer: dict[Memory, Node], shows: list[tuple[Captured | Storage, Node]]
) -> None:
    """The memory has its `newer` names, and `shows` says which tensors show it; done twice, too."""
    for memory, base in newer.items():
        memory.version = base.arg.version
    for root, node in shows:
        root._show(node)
    for ref in capture.state.followers:
        view = ref()
        if view is not None and view._moves is not None and view._storage is not None:
            view.node = shown(view._moves, view._storage.node)
    for watched in capture.watched:
        holder = watched.holder()
        if holder is not None and memory_ids(holder) <= capture.state.memories:
            watched.node = holder.node
    capture.seen = next_number()


def memory_ids(holder: Captured) -> set[int]:
    """The memory that a tensor is (a view of all of)."""
    return {id(base.arg.token.memory) for base in bases_of(holder)}


def _keep(memories: set[Memory], state: State) -> None:
    """Copy what is in the state's memory for those who read it and are no part of it."""
    own = {id(_owner(root)) for root, _ in state.shown()}
    own.update(id(view) for ref in state.followers if (view := ref()) is not None)
    others = dict.fromkeys(node for holder, node in held_nodes() if id(holder) not in own)
    for node in toposort(others, lambda n: resolve(n) is n):
        backed = resolve(node)
        for name in buffers_of(backed) if is_backed(backed) else ():
            memory = name.arg.token.memory
            if memory in memories and memory.version == name.arg.version and name.memory is None:
                ref = name.arg
                remember(name, from_host(ref.device, name.dtype, read(ref)))


def _owner(root: object) -> object:
    return root.tensor() if isinstance(root, Storage) else root


def _can_be_read(capture: Capture) -> bool:
    """Whether anything new reads the state's memory: if not, it needs no other version."""
    seen, capture.seen = capture.seen, next_number()
    nodes = {holder.node for holder in tracked_since(seen)}
    below = toposort(nodes) if nodes else ()
    memories = capture.state.memories
    return any(n.op is Op.BUFFER and _memory_id(n) in memories for n in below)


def _memory_id(buffer: Node) -> int:
    token = buffer.arg.token
    return 0 if isinstance(token, Placeholder) else id(token.memory)
