"""Assignments: memory that is overwritten while somebody may still want what was in it.

    effects  AFTER nodes of the graph that is about to run, each a new version of its buffer

Every value that a live holder can still read survives. What this very graph computes from the old
memory is stored along with its outputs (gradients that a step has used), and so is what another
graph makes of it with little more (the loss that they are gradients of). Where that would take more
memory than the old version itself, or is more work than this graph, the old version is copied.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ..dtype import dtypes
from ..errors import UserError
from ..ir.args import BufferRef, ConstantName, Placeholder
from ..ir.node import Node, toposort
from ..ir.op import CUTS, MOVEMENT, SAME, Op
from ..ir.shape import size_max, size_product
from ..ir.versions import stored_below
from ..ir.views import Assign, behind_reshape, operand
from .memory import Memory, adopt, buffers_of, memory_of, new_memory, on_lost
from .realized import current, forget, holders, is_backed, is_known, remember, resolve
from .steps import Transfer, listeners
from .storages import capturing, claimed, held_nodes

__all__ = [
    "awaited", "commit", "copied", "is_stored", "keep_old_versions", "little_beside", "names_of",
    "readers", "readers_beside", "remember_all", "revoking", "standing_for", "still_read",
]  # fmt: skip

# A stored result is written by a kernel anyway; a copy is made beside them, and read first.
_COPY_COST = 2


def commit(effects: list[Node]) -> None:
    """Memory has been overwritten: each last effect becomes the next version of its buffer."""
    overwritten = _overwritten(effects)
    for effect in effects:
        if effect in overwritten:
            continue
        ref = stored_below(effect).arg
        new = replace(ref, version=ref.version + _depth(effect))
        if ref.token.memory.version != new.version:  # else an interrupted commit goes on
            memory_of(ref).version = new.version
        remember_all(effect, Node(Op.BUFFER, effect.dtype, (), new))


def revoking(effects: list[Node]) -> Callable[[], None]:
    """What undoes `commit(effects)`, for memory that has not been overwritten after all."""
    names = [name for effect in effects for name in _names_of(effect)]

    def revoke() -> None:
        for name in names:
            forget(name)
        for effect in effects:
            ref = stored_below(effect).arg
            ref.token.memory.version = ref.version

    return revoke


def _depth(effect: Node) -> int:
    count = 0
    while effect.op in (Op.AFTER, Op.RESHAPE):
        count += effect.op is Op.AFTER
        effect = operand(effect)
    return count


def _overwritten(effects: list[Node]) -> set[Node]:
    return {operand(effect) for effect in effects}


def is_stored(root: Node) -> bool:
    """Whether computing `root` gives it memory of its own."""
    return behind_reshape(root).op not in (Op.AFTER, Op.BUFFER, Op.MULTI)


def readers(effects: list[Node], order: list[Node], outputs: set[Node]) -> list[Node]:
    """What holders have of the graph `order` that could only be computed before its `effects`.

    `outputs` get memory in any case. Empty where copies of the old versions are smaller.
    """
    if not effects:
        return []
    stop = outputs.union(effects)
    lost = {n for n in _overwritten(effects) & _reachable(stop) if n.op is Op.BUFFER}
    held = _wanted()
    needs: set[Node] = set(lost)
    found = []
    for node in order if lost else ():
        if node not in stop and not needs.isdisjoint(node.src):
            needs.add(node)
            if node in held and is_stored(node):
                found.append(node)
    smaller = _bytes_of(found) <= _COPY_COST * _bytes_of(lost)
    return found if smaller else []


def readers_beside(effects: list[Node], order: list[Node], stored: set[Node]) -> list[Node]:
    """What holders have of other graphs that read what `effects` overwrite, not through `stored`.

    All of them, or none where one is no memory of its own, larger than the old versions, on another
    device, cut in pieces, or needs more nodes beyond those of the graph `order` than that has.
    """
    stop = stored.union(*map(_names_of, effects))
    roots = _wanted()
    needs = {node for node in _overwritten(effects) if node.op is Op.BUFFER}
    lost = set(needs)
    for node in toposort(roots, lambda n: n not in stop and not is_known(n)):
        if node not in stop and any(s in needs or resolve(s) in needs for s in node.src):
            needs.add(node)
    found = [root for root in roots if root in needs]
    if not found or not lost.isdisjoint(found) or not all(map(is_stored, found)):
        return []
    new = set(current(found)[1]).difference(order)
    here = {stored_below(effect).arg.device for effect in effects}
    is_easy = len(new) <= len(order) and all(_is_easy(node, here) for node in new)
    return found if is_easy and _bytes_of(found) <= _COPY_COST * _bytes_of(lost) else []


def little_beside(nodes: Sequence[Node], device: str) -> list[Node]:
    """What holders have that is small, and hardly more work where `nodes` are computed on `device`.

    The loss of gradients that processes exchange now, say: what it is computed from is there while
    they are computed, and would be computed again for it later.
    """
    held = [n for n in _wanted() if not is_known(n) and is_stored(n) and _bytes_of([n]) <= _LITTLE]
    images = current([*nodes, *held])[0]
    computed = set(filter(_is_work, toposort(images[: len(nodes)])))
    most = sum(map(_elements, computed)) // _LITTLE_OF
    found = []
    for node, image in zip(held, images[len(nodes) :], strict=True):
        below = toposort([image], lambda n: n not in computed)
        new = [n for n in below if n not in computed]
        is_here = len(new) < len(below) and all(_is_easy(n, {device}) for n in new)
        if is_here and sum(map(_elements, filter(_is_work, new))) <= most:
            found.append(node)
    return found


def _is_work(node: Node) -> bool:
    return bool(node.src) and node.op not in MOVEMENT and node.op not in SAME


_LITTLE, _LITTLE_OF = 4096, 8  # bytes; and the part of the elements of all nodes


def _elements(node: Node) -> int:
    return 0 if node.dtype is dtypes.void else size_max(size_product(node.shape))


def _is_easy(node: Node, here: set[str]) -> bool:
    """Whether a node is computed by kernels on the device `here`, whatever else they compute."""
    if node.op is Op.BUFFER:
        return not isinstance(node.arg.token, Placeholder) and {node.arg.device} == here
    if node.op is Op.ALIAS:
        return type(node.arg) is ConstantName
    return node.op not in (*CUTS, Op.AFTER, Op.BIND, Op.MULTI)


# What a realize is going to compute, in lists for each part of its work that comes before.
_awaited: list[Sequence[Node]] = []


@contextlib.contextmanager
def awaited(nodes: Sequence[Node]) -> Iterator[None]:
    """A block that computes some of `nodes`, or what they need first, and the others behind it.

    They read old versions as what holders have does, although nobody may hold them: parts on
    several devices, say, or what a captured function has left of a tensor that is gone.
    """
    _awaited.append(nodes)
    try:
        yield
    finally:
        _awaited.remove(nodes)


def _wanted() -> dict[Node, None]:
    """What is read after the effects: what holders have, and what is awaited."""
    held = (node for _, node in held_nodes())
    return dict.fromkeys(resolve(node) for node in itertools.chain(held, *_awaited))


def _bytes_of(nodes: Iterable[Node]) -> int:
    return sum(_elements(node) * node.dtype.itemsize for node in nodes)


def _reachable(stop: set[Node]) -> set[Node]:
    """What live holders read without going through a node of `stop`, the BUFFERs included."""
    roots = _wanted()
    inside = lambda n: n not in stop and not is_known(n)
    found = {resolve(n) for n in toposort(roots, inside)}
    return found.union(*(buffers_of(node) for node in found if is_backed(node)))


def _read_by_gradients(effects: list[Node]) -> set[Node]:
    """What gradients of live tensors would read, if `effects` overwrite anything that they may.

    Their graphs count whole, whatever has been computed. Not the values of parameters: a step that
    writes to them ends what was computed from them, and nothing is copied for that.
    """
    if all(_is_of_leaf(base) for base in _overwritten(effects)):
        return set()
    todo = [h.node for h in holders() if h._requires_grad is True and not h.is_leaf]
    seen, read = set(todo), set[Node]()
    while todo:
        node = todo.pop()
        if node.op is Op.DETACH or (node.op in (Op.AFTER, Op.BUFFER) and _is_of_leaf(node)):
            continue
        values = [Assign.of(s).value if s.op is Op.ASSIGN else s for s in node.src]
        read.update(values[node.op is Op.AFTER :])  # what is overwritten is not read for that
        todo += (new := set(values) - seen)
        seen |= new
    now = {resolve(n) for n in read}
    found = read.union(now, *(buffers_of(node) for node in now if is_backed(node)))
    return {n for n in found if n.op not in (Op.AFTER, Op.BUFFER) or not _is_of_leaf(n)}


def _is_of_leaf(base: Node) -> bool:
    """Whether this is a version of a tensor that gradients are asked for."""
    stored = stored_below(base)
    if stored.op is not Op.BUFFER or isinstance(stored.arg.token, Placeholder):
        return False
    storage = claimed(stored.arg.token)
    owner = None if storage is None else storage.tensor()
    return owner is not None and owner.is_leaf


def _refuse_former(memory: Memory, ref: BufferRef) -> None:
    """Raises UserError for the former values of a leaf, which nobody keeps for gradients."""
    storage = claimed(ref.token)
    owner = None if storage is None else storage.tensor()
    if owner is not None and owner.is_leaf and memory.version > ref.version:
        raise UserError(
            f"[backward] a gradient needs the values that a parameter of {memory.size} elements on "
            f"{ref.device} had before it was changed, by an optimiser's step for instance: call "
            "backward before that, or compute the loss again"
        )


on_lost.append(_refuse_former)


def still_read(effects: list[Node], stored: set[Node]) -> list[Node]:
    """Effects that another one overwrites, although their own value can still be read.

    Not through `stored`, which get memory of their own, but for gradients.
    """
    if not effects:
        return []
    overwritten, reachable = _overwritten(effects), _reachable(stored.union(effects))
    reachable |= _read_by_gradients(effects)
    lost = [effect for effect in effects if effect in overwritten]
    return [effect for effect in lost if not reachable.isdisjoint(_names_of(effect))]


# What stands in the graph that is computed for nodes that holders have: what was known below them
# is memory there, and on several devices each part is a graph of its own.
_originals: dict[Node, set[Node]] = {}


@contextlib.contextmanager
def standing_for(pairs: Iterable[tuple[Node, Node]]) -> Iterator[None]:
    """A block in which the first of each pair is computed in place of the second."""
    added = [(image, original) for image, original in pairs if image is not original]
    try:
        for image, original in added:
            _originals.setdefault(image, set()).add(original)
        yield
    finally:
        for image, _ in added:
            _originals.pop(image, None)


def remember_all(effect: Node, memory: Node) -> None:
    """From now on `memory` is what `effect` is, and all nodes that it stands for."""
    for node in _names_of(effect):
        if node.shape == memory.shape:
            remember(node, memory)


def _names_of(effect: Node) -> set[Node]:
    """`effect`, and all nodes that it stands for."""
    found, todo = set(), [effect]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += _originals.get(node, ())
    return found


def keep_old_versions(effects: list[Node], stored: set[Node]) -> None:
    """Copy the memory that effects will overwrite, where a holder can still read it.

    Not through `stored`, which are computed before it is overwritten, but for gradients.
    """
    if not effects:
        return
    stop = stored.union(*map(_names_of, effects))
    reachable = _reachable(stop) | _read_by_gradients(effects)
    bases = {base for base in _overwritten(effects) if base.op is Op.BUFFER}
    for memory, names in names_of(bases, reachable).items():
        for is_told, same in _told_and_others(names):
            copy = copied(memory, is_told)
            for name in same:
                remember(name, copy)


def names_of(bases: set[Node], reachable: Iterable[Node]) -> dict[Memory, list[Node]]:
    """For the memory of each of `bases`: the BUFFERs that are it now, and that are `reachable`."""
    memories = {memory_of(base.arg) for base in bases}
    found: dict[Memory, list[Node]] = {}
    for node in reachable:
        if node.op is Op.BUFFER and not isinstance(node.arg.token, Placeholder):
            memory = node.arg.token.memory
            if memory in memories and memory.version == node.arg.version:
                found.setdefault(memory, []).append(node)
    return found


def _told_and_others(names: list[Node]) -> Iterator[tuple[bool, list[Node]]]:
    """Names that a captured function reads, and those that tensors from around it have.

    The first are copied by each replay, as a step of its own; the second keep their values.
    """
    capture = capturing.active
    told = [name for name in names if capture is None or capture.is_inside(name.arg.token)]
    others = [name for name in names if name not in told]
    yield from ((is_told, same) for is_told, same in ((True, told), (False, others)) if same)


def copied(source: Memory, is_told: bool = True) -> Node:
    """A copy of memory; one that is not `told` is no part of what is being captured."""
    capture = capturing.active
    if capture is not None and not is_told:
        with capture.suspended():
            return copied(source)
    step = Transfer(source, new_memory(source.device, source.dtype, source.size))
    step.run()
    for listen in listeners:
        listen(step)
    return adopt(step.target)
