"""A captured call as what replays run, and the tensors around it that they carry along.

prepare(capture)        call lists for its steps, and where each memory stands in them
step_state(capture)     its assignments give the state's tensors one version more
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir.args import Token
from ..ir.node import Node, toposort
from ..ir.op import Op
from ..ir.versions import stored_below
from ..runtime.base import Launch
from .arguments import buffers_of, is_traced, memories_of, over, refreshed
from .backends import Device
from .changes import changes
from .known import holders, is_backed, next_number, remember, resolve, tracked_since
from .lasting import Kept, Room
from .memory import Memory, adopt, from_host, memory_of, read
from .run import realize
from .steps import HostCall, Run, Step, Transfer

__all__ = [
    "Capture", "Watched", "bases_of", "let_go_of_memory", "made_before", "prepare",
    "state_of", "step_state", "watched_by",
]  # fmt: skip


@dataclass(eq=False)
class Watched:
    """A tensor that is no argument, and whose `memories` the captured function reads."""

    holder: weakref.ref[Any]
    node: Node
    memories: list[Memory]

    @property
    def has_changed(self) -> bool:
        """Whether the tensor has been given another value since, or is gone."""
        holder = self.holder()
        return holder is None or holder.node is not self.node

    def follow(self) -> bool:
        """Compute what was assigned since; whether the tensor is where it was."""
        holder = self.holder()
        if holder is None:
            return False
        (node,) = realize([(holder.node, holder.device)])
        self.node = holder.node
        return [*map(id, memories_of(node))] == [*map(id, self.memories)]


@dataclass(eq=False)
class Capture:
    """What a captured call did, ready to be replayed."""

    signature: Any
    inputs: list[Memory]
    values: dict[str, int]  # of the variables that each call gives values
    steps: list[Step] = field(default_factory=list)
    result: Any = None
    interpreted: bool = False
    returned: list[tuple[Node, list[Memory]]] = field(default_factory=list)
    made: list[Memory] = field(default_factory=list)  # what each replay gives new memory
    sizes: list[Any] = field(default_factory=list)  # of those, elements, or sizes of variables
    replay: list[Any] = field(default_factory=list)  # call lists, and other steps between them
    patches: dict[int, list[tuple[Any, int, int]]] = field(default_factory=dict)
    variables: list[tuple[Any, int, int, str]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)  # packed weights
    overwritten: list[Memory] = field(default_factory=list)  # what each replay assigns to
    state: list[weakref.ref[Any]] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)
    settled: Any = None  # when a call may be replayed unseen: `Settled`, for plain arguments
    straight: Any = None  # how it is replayed: `Straight`, if that is kernels alone
    graded: list[int] = field(default_factory=list)  # the leaves among the arguments with gradients
    tokens: frozenset[Token] = frozenset()  # of the state's memory, from the first replay on
    began: int = field(default_factory=next_number)  # holders with smaller numbers are from before
    seen: int = 0  # holders with smaller numbers cannot read what is in that memory now

    def is_current(self) -> bool:
        """Whether replays read what the function would read now; assignments are computed for it.

        A tensor that is gone has been replaced by another one under its name, unless others still
        have its memory: those may be what the function reads.
        """
        changed = [watched for watched in self.watched if watched.has_changed]
        gone = [watched for watched in changed if watched.holder() is None]
        if gone:
            self.watched = [watched for watched in self.watched if watched not in gone]
            left = {id(memory) for watched in self.watched for memory in watched.memories}
            if not all(id(memory) in left for watched in gone for memory in watched.memories):
                return False
        return all(watched.follow() for watched in changed if watched not in gone)

    @functools.cached_property
    def runs(self) -> list[Run]:
        return [step for step in self.steps if isinstance(step, Run)]

    @functools.cached_property
    def work(self) -> tuple[int, int, int]:
        """Kernels, operations and bytes of one replay."""
        works = [run.work for run in self.runs]
        kernels, ops, nbytes = (sum(work[i] for work in works) for i in range(3))
        return kernels, ops, nbytes


def made_before(capture: Capture, nodes: Sequence[Node]) -> list[tuple[Node, str]]:
    """The graphs below `nodes` that replays must not compute anew: what was pending before.

    That is each assignment, so that it happens once; and each tensor of memory that no tensor has
    (random numbers read the generator's): replays read its value, and see when it gets another.
    """
    below = [n for n in toposort(nodes, lambda n: resolve(n) is n) if resolve(n) is n]
    computed = {node for node in below if not is_backed(node)}
    recent = {id(holder) for holder in tracked_since(capture.began)}
    known = [holder for holder in holders() if not is_traced(resolve(holder.node))]
    tokens = {base.arg.token for holder in known for base in bases_of(holder)}
    earlier = [holder for holder in known if id(holder) not in recent]
    found = [
        (holder.node, holder.device)
        for holder in earlier
        if holder.node in computed and not _tokens_below(holder.node) <= tokens
    ]
    pending = toposort((h.node for h in earlier), lambda n: resolve(n) is n)
    effects = [n for n in pending if n.op is Op.AFTER and n in computed]
    return [*dict.fromkeys([*((n, stored_below(n).arg.device) for n in effects), *found])]


def _tokens_below(node: Node) -> set[Token]:
    """The memory that computing a graph reads."""
    order = (resolve(n) for n in toposort([node], lambda n: resolve(n) is n))
    return {base.arg.token for n in order if is_backed(n) for base in buffers_of(n)}


def prepare(capture: Capture) -> None:
    """A call list for each stretch of steps on one device, and where each memory stands in them.

    A Transfer or a HostCall stands between the lists, as it stood between the runs.
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
            stretch = []
        if isinstance(step, Run):
            stretch.append(step)
        elif step is not None:
            capture.replay.append(step)


def let_go_of_memory(capture: Capture) -> None:
    """Arguments and results belong to the caller: replays need no more than what theirs is like.

    Not where a step other than a kernel has them, or where they are assigned to.
    """
    if len(capture.runs) < len(capture.steps):
        return
    written = {id(memory) for memory in capture.overwritten}
    hollow = {
        id(old): Memory(None, old.dtype, old.size, old.device, image=old.image)
        for old in (*capture.inputs, *capture.made)
        if id(old) not in written
    }
    nodes = {number: adopt(memory) for number, memory in hollow.items()}
    capture.result = refreshed(capture.result, iter(capture.returned), nodes)

    def like(memories: list[Memory]) -> list[Memory]:
        return [hollow.get(id(memory), memory) for memory in memories]

    capture.returned = [
        (over(node, [nodes.get(id(memory_of(b.arg)), b) for b in buffers_of(node)]), like(memories))
        for node, memories in capture.returned
    ]
    capture.inputs, capture.made = like(capture.inputs), like(capture.made)
    for run in capture.runs:
        run.inputs, run.outputs, run.filled = map(like, (run.inputs, run.outputs, [*run.filled]))
    for number, memory in hollow.items():
        capture.patches[id(memory)] = capture.patches.pop(number, [])


def _device(run: Run) -> str:
    return run.program.device


def _call_list(
    runs: list[Run],
    launches: list[Launch],
    kept: Kept,
    capture: Capture,
) -> Any:
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


def bases_of(holder: Any) -> list[Node]:
    """The BUFFERs that a holder is (a view of all of): one on each of its devices."""
    node = resolve(holder.node)
    return buffers_of(node) if is_backed(node) else []


def state_of(capture: Capture) -> list[weakref.ref[Any]]:
    """The tensors whose memory the captured function assigns to: replays carry them along."""
    written = {id(memory) for run in capture.runs for memory in run.overwritten}
    found = []
    for holder in holders() if written else ():
        if any(id(memory_of(base.arg)) in written for base in bases_of(holder)):
            found.append(weakref.ref(holder))
    return found


def watched_by(capture: Capture) -> list[Watched]:
    """The tensors that have what the captured function reads and neither is given nor makes."""
    read = {id(m): m for run in capture.runs for m in run.inputs}
    read |= {id(s.source): s.source for s in capture.steps if isinstance(s, Transfer)}
    read |= {id(m): m for s in capture.steps if isinstance(s, HostCall) for m in s.operands}
    own = {id(m) for m in (*capture.inputs, *(m for step in capture.steps for m in step.made))}
    found = []
    for holder in holders() if read.keys() - own else ():
        memories = [memory_of(base.arg) for base in bases_of(holder)]
        if any(id(m) in read and id(m) not in own for m in memories):
            ref = weakref.ref(holder, changes.of_meaning)
            found.append(Watched(ref, holder.node, memories))
    return found


def step_state(capture: Capture) -> None:
    """Make the state's memory one version newer, as the assignments of this replay do.

    The state tensors go along; whatever else can still read the old version gets a copy of it.
    """
    if not capture.state or (capture.tokens and not _can_be_read(capture)):
        return
    state = [holder for ref in capture.state if (holder := ref()) is not None]
    bases = {holder: found for holder in state if (found := bases_of(holder))}
    old = {base for found in bases.values() for base in found}
    followers = {id(holder) for holder in bases}
    others = [h.node for h in holders() if id(h) not in followers]
    if others and old:
        below = toposort(dict.fromkeys(others), lambda n: resolve(n) is n)
        found = (resolve(node) for node in below)
        read_now = {base for node in found if is_backed(node) for base in buffers_of(node)}
        for base in old & read_now:
            remember(base, from_host(base.arg.device, base.dtype, read(base.arg)))
    newer = {}
    for base in old:
        memory_of(base.arg).version += 1
        newer[base] = base.replace(arg=replace(base.arg, version=base.arg.version + 1))
    for holder, found in bases.items():
        holder.node = over(resolve(holder.node), [newer[base] for base in found])
    for watched in capture.watched:
        holder = watched.holder()
        if holder is not None and holder in bases:
            watched.node = holder.node
    capture.tokens, capture.seen = frozenset(base.arg.token for base in old), next_number()


def _can_be_read(capture: Capture) -> bool:
    """Whether anything new reads the state's memory: if not, it needs no other version."""
    seen, capture.seen = capture.seen, next_number()
    nodes = {holder.node for holder in tracked_since(seen)}
    below = toposort(nodes) if nodes else ()
    return any(node.op is Op.BUFFER and node.arg.token in capture.tokens for node in below)
