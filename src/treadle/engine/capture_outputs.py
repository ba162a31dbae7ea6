"""The outputs of a captured call: results, written arguments, and state that it leaves.

    outcome = leave(capture, (result, gradients), stand_ins, before)
    finish(capture, outcome, tensors)       ready to be replayed, if `capture.is_faithful`

A call leaves results, which are new memory in each replay; values for arguments that it writes to,
likewise; storages around it that it writes to; and tensors that it has put somewhere, such as
gradients. The last two are state: each replay writes to their memory.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import JitError
from ..ir.node import Node
from ..ir.op import Op
from .arguments import Argument, Found, exchanged, is_traced, memories_of, signature_of
from .capture import (
    Capture,
    Watched,
    let_go_of_memory,
    looked_at_by,
    names_below,
    prepare,
    state_of,
    watched_by,
)
from .change_counters import changes
from .memory import Memory, buffers_of
from .realized import born_since, holders, is_backed, resolve
from .run import realize
from .storages import Captured, FirstCall, Storage, Stored, is_behind, shown
from .variables import renew

__all__ = [
    "Outcome", "compute_left", "finish", "interferes", "leave", "reaches", "shares_memory",
    "watch_graphs",
]  # fmt: skip


@dataclass
class Outcome:
    """What a captured call leaves."""

    result: Any  # with an `Argument` in place of each that it returns
    returned: list[tuple[Node, list[Memory]]] = field(default_factory=list)
    # for each argument written to: what was written, and what it shows if that is not it
    given: list[tuple[Node, Node | None]] = field(default_factory=list)
    left: list[Captured] = field(default_factory=list)
    followers: list[Captured] = field(default_factory=list)
    has_arguments: bool = False


def leave(
    capture: Capture,
    result: object,
    stand_ins: Sequence[Captured],
    before: Sequence[tuple[Storage, Node]],
) -> Outcome:
    """Compute all that the call leaves, and say what it is.

    `before` holds the storages of the arguments, and their nodes when the function began.
    """
    numbers = {id(tensor): number for number, tensor in enumerate(stand_ins)}
    outputs = Found()
    signature_of(result, outputs)
    mine = {id(tensor) for tensor in outputs.tensors}
    born = [t for t in born_since(capture.began) if id(t) not in numbers]
    inside = {id(tensor) for tensor in born}
    left = [t for t in born if id(t) not in mine and _can_be_computed(capture, t)]
    views = _views_around(capture, inside)
    followers = [view for view in views if not is_behind(view)]
    left += [view for view in views if is_behind(view)]
    stores = {number: before[number][0] for number in dict.fromkeys(numbers.values())}
    capture.given = [n for n, store in stores.items() if store in capture.filled]
    written = [storage for storage in capture.written if not storage.is_graded]
    new = {id(t): t for t in outputs.tensors if id(t) in inside}
    given = [stores[number] for number in capture.given]
    seen = {number: stand_ins[number].node is before[number][1] for number in capture.given}
    changed = [stand_ins[n] for n in capture.given if not seen[n] and is_behind(stand_ins[n])]
    tensors = [*left, *new.values(), *given, *changed]
    nodes = realize([(x.node, x.device) for x in (*written, *tensors)])
    for storage, node in zip(written, nodes, strict=False):
        storage._show(node)
    for view in followers:
        view.node = shown(view._moves, view._storage.node)
    found = dict(zip(map(id, tensors), nodes[len(written) :], strict=True))
    for tensor in (*left, *new.values()):
        tensor._computed(found[id(tensor)])
    kept = {id(m) for tensor in left for m in memories_of(found[id(tensor)])}
    _copy_what_stays(capture, tensors[len(left) :], found, kept)
    places = {number: Argument(at) for number, at in numbers.items()}
    outcome = Outcome(exchanged(result, places), followers=followers)
    outcome.left = [t for t in left if all(map(capture.is_made, memories_of(found[id(t)])))]
    rest = Found()
    signature_of(outcome.result, rest)
    outcome.has_arguments = len(rest.tensors) < len(outputs.tensors)
    for tensor in rest.tensors:
        node = found.get(id(tensor)) if id(tensor) in new else None
        outcome.returned.append((tensor.node, []) if node is None else (node, memories_of(node)))
    for number, storage in zip(capture.given, given, strict=True):
        tensor = stand_ins[number]
        own = found.get(id(tensor))
        if tensor._moves is not None and seen[number]:
            capture.unseen.add(number)
        outcome.given.append((found[id(storage)], own))
        nodes = [found[id(storage)]] if own is None else [found[id(storage)], own]
        outcome.returned += [(node, memories_of(node)) for node in nodes]
        if own is not None:
            capture.shows_else.add(number)
    return outcome


def compute_left(first: FirstCall, result: object) -> None:
    """Compute what a first call leaves, as one graph: so does `leave`, with the same kernels."""
    outputs = Found()
    signature_of(result, outputs)
    born = [] if outputs.values() else born_since(first.began)
    left: list[Stored | Storage] = [*first.writes, *born, *outputs.tensors]
    pending = {x.node: x.device for x in left if not is_backed(resolve(x.node))}
    realize([(n, device) for n, device in pending.items() if names_below(n) and not is_traced(n)])


def _can_be_computed(capture: Capture, tensor: Captured) -> bool:
    """Whether a tensor that is left has values that each replay can bring up to date."""
    node = resolve(tensor.node)
    return is_backed(node) or not (capture.values or is_traced(node))


def _views_around(capture: Capture, inside: Collection[int]) -> list[Any]:
    """The views from around the function that it writes through."""
    views: dict[int, Any] = {}
    for ref, names in capture.through:
        view = ref()
        if view is None or id(view) in inside or view._storage not in capture.written:
            continue
        if id(view) not in views:
            capture.changing |= names
        views[id(view)] = view
    return [*views.values()]


def _copy_what_stays(
    capture: Capture, tensors: Sequence[Captured], found: dict[int, Node], kept: Collection[int]
) -> None:
    """Results are memory of their own: a copy of what each replay does not make for them alone."""

    def is_own(node: Node) -> bool:
        return all(capture.is_made(m) and id(m) not in kept for m in memories_of(node))

    shared = [tensor for tensor in tensors if not is_own(found[id(tensor)])]
    copies = [(_copy_of(found[id(tensor)]), tensor.device) for tensor in shared]
    found.update(zip(map(id, shared), realize(copies), strict=True))


def _copy_of(node: Node) -> Node:
    return Node(Op.CONTIGUOUS, node.dtype, (node,))


def finish(capture: Capture, outcome: Outcome, tensors: Sequence[Captured]) -> None:
    """Make `capture` ready to be replayed. Raises JitError where arguments get in its way."""
    capture.result, capture.returned = outcome.result, outcome.returned
    capture.views = [tensor._moves is not None for tensor in tensors]
    capture.watched = watched_by(capture)
    lost = {id(m) for run in capture.runs for m in run.overwritten if not capture.is_made(m)}
    changing = capture.changing.union(*(buffers_of(resolve(name)) for name in capture.changing))
    if changing & (capture.read | capture.copied) or capture.names_have_changed:
        capture.is_faithful = False  # what views from before have read; by now they have copies
    capture.looked_at = looked_at_by(capture)
    if capture.is_faithful:
        capture.state = state_of(capture, outcome.left, outcome.followers)
        capture.is_faithful = lost <= capture.state.memories
    if not lost.isdisjoint(map(id, capture.inputs)) or interferes(capture, tensors, []):
        raise JitError(
            "[jit] the function writes to an argument that it also has by another name: give it "
            "a copy, such as .clone()"
        )
    capture.forget()
    if capture.is_faithful:
        renew(capture)
        prepare(capture)
        let_go_of_memory(capture)


def interferes(capture: Capture, tensors: Sequence[Captured], memories: Sequence[Memory]) -> bool:
    """Whether arguments would see what is written to each other, or to what is captured.

    Only the plain function does that right.
    """
    if not capture.is_apart(memories):
        return True
    if not capture.given:
        return False
    if capture.views != [tensor._moves is not None for tensor in tensors]:
        return True  # a view does not see what is written to it by other ways
    around = {w.storage for w in capture.watched if w.storage is not None}
    around.update(capture.state.storages)
    apart = {id(tensor): tensor._storage for tensor in tensors if tensor._storage is not None}
    storages = [*apart.values()]
    given = {tensors[number]._storage for number in capture.given}
    shared = {s for s in given if s is not None and storages.count(s) > 1}
    return bool(shared) or not around.isdisjoint(given)


def shares_memory(tensors: Collection[Captured]) -> bool:
    """Whether what one of `tensors` is (a view of) lies in memory that others have, too.

    Equal graphs are computed once: a function that writes to one tensor may read the other.
    """
    given = {id(tensor) for tensor in tensors}
    storages = {tensor._storage for tensor in tensors if tensor._storage is not None}
    nodes = [resolve(storage.node) for storage in storages]
    mine = {id(m) for node in nodes if is_backed(node) for m in memories_of(node)}
    return any(
        not mine.isdisjoint(map(id, memories_of(node)))
        for holder in (holders() if mine else ())
        if holder._moves is None and holder._storage not in storages and id(holder) not in given
        if is_backed(node := resolve(holder.node))
    )


def reaches(function: object, arguments: object, tensors: Collection[Captured]) -> bool:
    """Whether one of `tensors`, or a view of the same storage, is found from `function`.

    By its closure, the globals that it names, and what is in its other arguments.
    """
    wanted = {id(tensor) for tensor in tensors}
    storages = {id(t._storage) for t in tensors if t._storage is not None}
    return any(
        id(tensor) in wanted or id(tensor._storage) in storages
        for tensor in _tensors_around(function, arguments, wanted)
    )


def watch_graphs(
    capture: Capture, function: object, arguments: object, given: Sequence[Captured]
) -> None:
    """Watch the tensors that were graphs and that `function` can read: replays know what they were.

    One that is `given`, too, may be read by its name.
    """
    mine = {id(tensor) for tensor in given}
    left = {id(t): (t, node) for ref, node in capture.graphs if (t := ref()) is not None}
    for tensor in _tensors_around(function, arguments, mine) if left else ():
        if (found := left.pop(id(tensor), None)) is not None:
            ref = weakref.ref(tensor, changes.of_meaning)
            capture.watched.append(Watched(ref, found[1], [], tensor._storage))


def _tensors_around(function: object, arguments: object, given: Collection[int]) -> Iterator[Any]:
    """The tensors that a function can find without being given them."""
    todo = [*_around(function), *_others(arguments, given)]
    seen: set[int] = set()
    while todo and len(seen) < _MOST:
        value = todo.pop()
        if id(value) in seen or isinstance(value, _LEAVES):
            continue
        seen.add(id(value))
        if hasattr(type(value), "_storage"):
            yield value
            continue
        if isinstance(value, (types.FunctionType, types.MethodType)):
            todo += _around(value)
        elif type(value).__module__.partition(".")[0] not in _OPAQUE:
            todo += gc.get_referents(value)


_MOST = 100_000  # objects to look at
_LEAVES = (types.ModuleType, type, types.CodeType, str, bytes, int, float, complex, type(None))
_OPAQUE = frozenset(("numpy", "threading", "_thread", "weakref", "logging", "io", "_io"))


def _others(value: object, wanted: Collection[int]) -> Iterator[object]:
    """What is in nested arguments and is no tensor."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _others(item, wanted)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _others(item, wanted)
    elif id(value) not in wanted:
        yield value


def _around(function: object) -> list[object]:
    """What a function can read that is not given to it."""
    if isinstance(function, types.MethodType):
        return [function.__self__, *_around(function.__func__)]
    if not isinstance(function, types.FunctionType):
        return [function]
    found = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not there yet
            continue
    codes = [function.__code__]
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        found += [function.__globals__[n] for n in code.co_names if n in function.__globals__]
    return found
