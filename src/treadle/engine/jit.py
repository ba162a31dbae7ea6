"""TinyJit: a function of tensors is captured once and replayed by one native call.

    @TinyJit
    def step(x): return (x @ w).relu().realize()

    step(a)   # runs plainly
    step(b)   # runs and is captured
    step(c)   # replays: no Python per kernel

Replays read and write the same memory as the captured call, so that parameters, moments and random
counters go on from call to call; tensors returned get fresh memory each time. What cannot be
replayed faithfully raises JitError: other shapes, other plain arguments, values read in the middle,
an input that is assigned to.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ..config import settings
from ..errors import JitError
from ..ir.args import Placeholder, Token
from ..ir.node import Node, toposort
from ..ir.op import Op
from ..runtime.base import Launch
from . import memory as memory_table
from .backends import Device
from .cuts import listeners
from .known import holders, is_backed, next_number, remember, resolve, tracked_since
from .lasting import Kept, Room, expect_replays
from .memory import Memory, adopt, from_host, memory_of, new_memory, read
from .run import count_program, on_interpret, realize
from .steps import HostCall, Run, Step, Transfer

__all__ = ["TinyJit", "jit"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


@dataclass(eq=False)
class _Watched:
    """A tensor that is no argument, and whose `memories` the captured function reads."""

    holder: weakref.ref[Any]
    node: Node
    memories: list[Memory]

    @property
    def has_changed(self) -> bool:
        """Whether the tensor has been given another value since."""
        holder = self.holder()
        return holder is not None and holder.node is not self.node

    def follow(self) -> bool:
        """Compute what was assigned since; whether the tensor is where it was."""
        holder = self.holder()
        if holder is None:
            return True
        (node,) = realize([(holder.node, holder.device)])
        self.node = holder.node
        return [*map(id, _memories(node))] == [*map(id, self.memories)]


@dataclass(eq=False)
class _Capture:
    """What a captured call did, ready to be replayed."""

    signature: Any
    inputs: list[Memory]
    steps: list[Step] = field(default_factory=list)
    result: Any = None
    interpreted: bool = False
    returned: list[tuple[Node, list[Memory]]] = field(default_factory=list)
    made: list[Memory] = field(default_factory=list)  # what each replay gives new memory
    replay: list[Any] = field(default_factory=list)  # call lists, and other steps between them
    patches: dict[int, list[tuple[Any, int, int]]] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)  # packed weights
    overwritten: list[Memory] = field(default_factory=list)  # what each replay assigns to
    state: list[weakref.ref[Any]] = field(default_factory=list)
    watched: list[_Watched] = field(default_factory=list)
    tokens: frozenset[Token] = frozenset()  # of the state's memory, from the first replay on
    seen: int = 0  # holders with smaller numbers cannot read what is in that memory now

    @property
    def runs(self) -> list[Run]:
        return [step for step in self.steps if isinstance(step, Run)]


_capturing = threading.local()


def _refuse_reading() -> None:
    if getattr(_capturing, "active", None) is not None:
        raise JitError(
            "[jit] a value was read on the host while capturing (.item(), .numpy(), .tolist(), or "
            "a condition on a tensor); replays could not see it change. Return the tensor and read "
            "it outside"
        )


def _listen(step: Step) -> None:
    capture = getattr(_capturing, "active", None)
    if capture is not None:
        capture.steps.append(step)


def _listen_to_interpreter() -> None:
    capture = getattr(_capturing, "active", None)
    if capture is not None:
        capture.interpreted = True


memory_table.on_read.append(_refuse_reading)
on_interpret.append(_listen_to_interpreter)
listeners.append(_listen)


class TinyJit(Generic[P, R]):
    """Capture `function` at its second call, replay it from the third on.

    Tensors may be arguments, keyword arguments, or inside lists, tuples and dicts of them; all
    other arguments must be the same in each call. Raises JitError where a replay would differ.
    Inside of a transform (grad, vmap, ...) it is the function itself.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.reset()

    def reset(self) -> None:
        """Forget what was captured: the next call runs plainly again."""
        self.calls: int = 0
        self._capture: _Capture | None = None
        self._lock = threading.Lock()

    @overload
    def __get__(self, obj: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: TinyJit[Concatenate[Any, Q], R], obj: object, owner: type | None = None
    ) -> Callable[Q, R]: ...
    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        return self if obj is None else functools.partial(self.__call__, obj)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        checked = settings.CHECK_NAN or settings.CHECK_INDEX  # which look at values in between
        if not settings.JIT or checked or getattr(_capturing, "active", None) is not None:
            return self.function(*args, **kwargs)
        found: list[Any] = []
        plain = _signature((args, kwargs), found)
        if any(_is_traced(tensor) for tensor in found):
            return self.function(*args, **kwargs)
        with self._lock:
            self.calls += 1
            nodes = [resolve(t.node) for t in found]
            if not all(is_backed(node) for node in nodes):
                nodes = realize([(t.node, t.device) for t in found])
            memories = [m for node in nodes for m in _memories(node)]
            if self.calls == 1:
                with expect_replays(memories):
                    return self.function(*args, **kwargs)
            signature = (plain, tuple(_layout(node) for node in nodes), _describe(memories))
            if self._capture is None:
                return self._record(signature, found, nodes, args, kwargs)
            _check_same(self._capture.signature, signature)
            changed = [watched for watched in self._capture.watched if watched.has_changed]
            if not all(watched.follow() for watched in changed):  # the captured memory is stale
                return self._record(signature, found, nodes, args, kwargs)
            return self._replay(memories)

    # -- capturing ----------------------------------------------------------------------------

    def _record(
        self, signature: Any, found: list[Any], nodes: list[Node], args: Any, kwargs: Any
    ) -> R:
        capture = _Capture(signature, [m for node in nodes for m in _memories(node)])
        # Inputs under new names: nothing computed from them before can be taken for this call's.
        fresh = {id(m): adopt(m) for m in capture.inputs}
        swapped = {
            id(t): _like(t, node, [fresh[id(m)] for m in _memories(node)])
            for t, node in zip(found, nodes, strict=True)
        }
        function: Callable[..., R] = self.function
        _capturing.active = capture
        try:
            with expect_replays(capture.inputs):
                result = function(*_swap(args, swapped), **_swap(kwargs, swapped))
                outputs: list[Any] = []
                _signature(result, outputs)
                returned = realize([(t.node, t.device) for t in outputs])
        finally:
            _capturing.active = None
        self._finish(capture, result, returned)
        if not capture.interpreted:  # the REF device has nothing to replay: each call runs plainly
            self._capture = capture
            capture.state = _state_of(capture)
            capture.watched = _watched_by(capture)
        return result

    def _finish(self, capture: _Capture, result: Any, returned: list[Node]) -> None:
        capture.result = result
        inputs = {id(m) for m in capture.inputs}
        for node in returned:
            found = _memories(node)
            if any(id(m) in inputs for m in found):
                raise JitError("[jit] the function returns one of its inputs; return a copy of it")
            capture.returned.append((node, found))
        for run in capture.runs:
            for slot in run.program.written:
                if id(run.inputs[slot]) in inputs:
                    raise JitError(
                        "[jit] the function assigns to one of its arguments; make it an attribute "
                        "or a closure variable, which replays keep, or return the new value"
                    )
        made = {id(m) for step in capture.steps for m in step.made}
        owned = {id(m): m for _, of_one in capture.returned for m in of_one}
        capture.made = [memory for number, memory in owned.items() if number in made]
        _prepare(capture)
        _let_go_of_results(capture)

    # -- replaying ----------------------------------------------------------------------------

    def _replay(self, memories: list[Memory]) -> R:
        capture = self._capture
        assert capture is not None
        _step_state(capture)
        moved = {id(old): new for old, new in zip(capture.inputs, memories, strict=True)}
        renewed: dict[int, Node] = {}
        for old in capture.made:
            moved[id(old)] = new_memory(old.device, old.dtype, old.size, old.image)
            renewed[id(old)] = adopt(moved[id(old)])
        for old, new in moved.items():
            for calls, call, slot in capture.patches.get(old, ()):
                calls.set_arg(call, slot, new.buffer.argument)
        for memory in capture.overwritten:
            memory.changes += 1
        start = time.perf_counter()
        for kept in capture.kept:
            kept.refresh()
        for step in capture.replay:
            if isinstance(step, (Transfer, HostCall)):
                step.run(moved)
            else:
                step.run()
        seconds = time.perf_counter() - start
        for run in capture.runs:
            count_program(run.program, seconds / len(capture.runs))
        wanted = iter(capture.returned)
        return _renew(capture.result, wanted, renewed)


jit = TinyJit


def _prepare(capture: _Capture) -> None:
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
            capture.replay.append(_call_list(stretch, launches, kept, capture.patches))
            capture.kept.append(kept)
            stretch = []
        if isinstance(step, Run):
            stretch.append(step)
        elif step is not None:
            capture.replay.append(step)


def _let_go_of_results(capture: _Capture) -> None:
    """Results belong to the caller: of their memory, replays need no more than what it is like.

    Not where a step other than a kernel has them, or where they are assigned to.
    """
    if len(capture.runs) < len(capture.steps):
        return
    written = {id(memory) for memory in capture.overwritten}
    hollow = {
        id(old): Memory(None, old.dtype, old.size, old.device, image=old.image)
        for old in capture.made
        if id(old) not in written
    }
    nodes = {number: adopt(memory) for number, memory in hollow.items()}
    capture.result = _renew(capture.result, iter(capture.returned), nodes)

    def like(memories: list[Memory]) -> list[Memory]:
        return [hollow.get(id(memory), memory) for memory in memories]

    capture.returned = [
        (_over(node, [nodes.get(id(memory_of(b.arg)), b) for b in _buffers(node)]), like(memories))
        for node, memories in capture.returned
    ]
    capture.made = like(capture.made)
    for run in capture.runs:
        run.inputs, run.outputs = like(run.inputs), like(run.outputs)
    for number, memory in hollow.items():
        capture.patches[id(memory)] = capture.patches.pop(number, [])


def _device(run: Run) -> str:
    return run.program.device


def _call_list(
    runs: list[Run],
    launches: list[Launch],
    kept: Kept,
    patches: dict[int, list[tuple[Any, int, int]]],
) -> Any:
    """The launches that are left of `runs` for replay, beside what is `kept` of them."""
    calls = Device[_device(runs[0])].runtime.call_list(launches, (runs, kept))
    call = 0
    for run in runs:
        for arguments in run.program.arguments:
            for slot, place in enumerate(arguments):
                if place.kind != "scratch":
                    owners = run.inputs if place.kind == "input" else run.outputs
                    memory = owners[place.number]
                    patches.setdefault(id(memory), []).append((calls, call, slot))
            call += 1
    return calls


def _bases(holder: Any) -> list[Node]:
    """The BUFFERs that a holder is (a view of all of): one on each of its devices."""
    node = resolve(holder.node)
    return _buffers(node) if is_backed(node) else []


def _state_of(capture: _Capture) -> list[weakref.ref[Any]]:
    """The tensors whose memory the captured function assigns to: replays carry them along."""
    written = {id(run.inputs[slot]) for run in capture.runs for slot in run.program.written}
    found = []
    for holder in holders() if written else ():
        if any(id(memory_of(base.arg)) in written for base in _bases(holder)):
            found.append(weakref.ref(holder))
    return found


def _watched_by(capture: _Capture) -> list[_Watched]:
    """The tensors that have what the captured function reads and neither is given nor makes."""
    read = {id(m): m for run in capture.runs for m in run.inputs}
    read |= {id(s.source): s.source for s in capture.steps if isinstance(s, Transfer)}
    read |= {id(m): m for s in capture.steps if isinstance(s, HostCall) for m in s.operands}
    own = {id(m) for m in (*capture.inputs, *(m for step in capture.steps for m in step.made))}
    found = []
    for holder in holders() if read.keys() - own else ():
        memories = [memory_of(base.arg) for base in _bases(holder)]
        if any(id(m) in read and id(m) not in own for m in memories):
            found.append(_Watched(weakref.ref(holder), holder.node, memories))
    return found


def _step_state(capture: _Capture) -> None:
    """Make the state's memory one version newer, as the assignments of this replay do.

    The state tensors go along; whatever else can still read the old version gets a copy of it.
    """
    if not capture.state or (capture.tokens and not _can_be_read(capture)):
        return
    state = [holder for ref in capture.state if (holder := ref()) is not None]
    bases = {holder: found for holder in state if (found := _bases(holder))}
    old = {base for found in bases.values() for base in found}
    followers = {id(holder) for holder in bases}
    others = [h.node for h in holders() if id(h) not in followers]
    if others and old:
        below = toposort(dict.fromkeys(others), lambda n: resolve(n) is n)
        for base in old.intersection(below):
            remember(base, from_host(base.arg.device, base.dtype, read(base.arg)))
    newer = {}
    for base in old:
        memory_of(base.arg).version += 1
        newer[base] = base.replace(arg=replace(base.arg, version=base.arg.version + 1))
    for holder, found in bases.items():
        holder.node = _over(resolve(holder.node), [newer[base] for base in found])
    for watched in capture.watched:
        holder = watched.holder()
        if holder is not None and holder in bases:
            watched.node = holder.node
    capture.tokens, capture.seen = frozenset(base.arg.token for base in old), next_number()


def _can_be_read(capture: _Capture) -> bool:
    """Whether anything new reads the state's memory: if not, it needs no other version."""
    seen, capture.seen = capture.seen, next_number()
    nodes = {holder.node for holder in tracked_since(seen)}
    below = toposort(nodes)
    return any(node.op is Op.BUFFER and node.arg.token in capture.tokens for node in below)


# -- arguments and results ----------------------------------------------------------------------


def _is_traced(tensor: Any) -> bool:
    """Whether a transform (grad, vmap, ...) looks at what is computed from `tensor`."""
    node = resolve(tensor.node)
    return not is_backed(node) and any(
        n.op is Op.ALIAS or (n.op is Op.BUFFER and isinstance(n.arg.token, Placeholder))
        for n in toposort([node])
    )


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "node") and hasattr(value, "device")


def _signature(value: Any, found: list[Any]) -> Any:
    """A comparable description of nested arguments; tensors are appended to `found`."""
    if _is_tensor(value):
        found.append(value)
        return ("tensor of shape", value.node.shape)
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(_signature(item, found) for item in value))
    if isinstance(value, dict):
        return ("dict", tuple((k, _signature(v, found)) for k, v in value.items()))
    return value


def _shown_call(signature: Any) -> str:
    """The description of (args, kwargs), as a call is written."""
    (_, positional), (_, named) = signature[1]
    shown = [_shown(item) for item in positional]
    return f"({', '.join(shown + [f'{name}={_shown(item)}' for name, item in named])})"


def _shown(signature: Any) -> str:
    """What `_signature` gives of one argument, for people."""
    if not isinstance(signature, tuple):
        return repr(signature)
    kind, items = signature
    if kind == "tensor of shape":
        return f"tensor of shape {items}"
    if kind == "dict":
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in items) + "}"
    inner = ", ".join(map(_shown, items))
    return f"[{inner}]" if kind == "list" else f"({inner})"


def _swap(value: Any, swapped: dict[int, Any]) -> Any:
    if _is_tensor(value):
        return swapped[id(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_swap(item, swapped) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_swap(item, swapped) for item in value)
    if isinstance(value, dict):
        return {k: _swap(v, swapped) for k, v in value.items()}
    return value


def _renew(value: Any, wanted: Any, renewed: dict[int, Node]) -> Any:
    """The captured result with fresh tensors where its memory is fresh."""
    if _is_tensor(value):
        node, memories = next(wanted)
        buffers = [renewed.get(id(m)) for m in memories]
        return value if None in buffers else _like(value, node, buffers)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_renew(item, wanted, renewed) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_renew(item, wanted, renewed) for item in value)
    if isinstance(value, dict):
        return {k: _renew(v, wanted, renewed) for k, v in value.items()}
    return value


def _like(tensor: Any, node: Node, buffers: list[Any]) -> Any:
    """A tensor like `tensor`, whose memory is `node`, over other BUFFERs."""
    return type(tensor)._of(_over(node, buffers), tensor.device, tensor._requires_grad)


def _over(node: Node, buffers: list[Node]) -> Node:
    """A node in memory with other BUFFERs in place of its own, one for each device."""
    if node.op is Op.MULTI:
        parts = (_over(part, [b]) for part, b in zip(node.src, buffers, strict=True))
        return node.replace(src=tuple(parts))
    if len(buffers) > 1:
        return node.replace(src=(_over(node.src[0], buffers),))
    (buffer,) = buffers
    same = buffer.shape == node.shape
    return buffer if same else Node(Op.RESHAPE, node.dtype, (buffer,), node.shape)


def _buffers(node: Node) -> list[Node]:
    """The BUFFERs of a node in memory, one for each device."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return [b for part in node.src for b in _buffers(part)] if node.op is Op.MULTI else [node]


def _memories(node: Node) -> list[Memory]:
    return [memory_of(buffer.arg) for buffer in _buffers(node)]


def _layout(node: Node) -> str:
    """How a tensor in memory is spread over devices."""
    if node.op is not Op.MULTI:
        return "on one device"
    devices, axis = node.arg.devices, node.arg.axis
    return f"copied to {devices}" if axis is None else f"split along axis {axis} over {devices}"


def _describe(memories: list[Memory]) -> Any:
    """What must stay the same of each input; the number tells which inputs share memory."""
    numbers: dict[int, int] = {}
    return tuple(
        (m.dtype, m.size, m.device, numbers.setdefault(id(m.buffer), i), m.image)
        for i, m in enumerate(memories)
    )


def _kept(image: Any) -> str:
    return "plain memory" if image is None else f"the texture {image!r}"


def _check_same(old: Any, new: Any) -> None:
    if old == new:
        return
    if old[0] != new[0]:
        raise JitError(
            f"[jit] captured with the arguments {_shown_call(old[0])}, called with "
            f"{_shown_call(new[0])}: only tensors may change between calls, and not their shape. "
            "Use one TinyJit for each, or .reset()"
        )
    for number, (was, now) in enumerate(zip(old[1], new[1], strict=True)):
        if was != now:
            raise JitError(
                f"[jit] tensor argument {number} was captured {was}, now it is {now}: shard it as "
                "before, use one TinyJit for each, or .reset()"
            )
    for number, (was, now) in enumerate(zip(old[2], new[2], strict=True)):
        if was != now:
            raise JitError(
                f"[jit] tensor argument {number} was captured as {was[0].name} of {was[1]} "
                f"elements on {was[2]} in {_kept(was[4])} (memory of argument {was[3]}), now it "
                f"is {now[0].name} of {now[1]} elements on {now[2]} in {_kept(now[4])} (memory of "
                f"argument {now[3]})"
            )
