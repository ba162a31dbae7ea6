"""In-place changes: a write gives a storage new values, and those who see it another node.

    x.assign(v)      ->  x.node = AFTER(buffer, ASSIGN(buffer, v)), or v where x has no memory
    x[1:3] = v       ->  x.node = AFTER(buffer, ASSIGN(buffer[1:3], v))

Every effect makes a new version of the buffer, and a version is overwritten by one effect only, so
graphs built earlier keep reading the values they were built on. A storage without memory of its
own gets some where a part is written, lazily: a fresh buffer, assigned what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from ..engine.collectives import with_calls
from ..engine.memory import allocate, is_read_only
from ..engine.realized import resolve
from ..engine.run import lock
from ..engine.storages import (
    Moves,
    Storage,
    Stored,
    base_of,
    bases_to_write,
    capturing,
    claimed,
    first_call,
    on_the_way,
    overwritten,
    shown,
    storage_of,
    written,
)
from ..errors import DeviceError, DTypeError, ShapeError, UserError
from ..ir.args import ConstantName, Mesh, Placeholder
from ..ir.node import Node
from ..ir.op import MOVEMENT, Op
from ..ir.origin import mark
from ..ir.shape import size_product
from ..ir.versions import stored_below
from ..ir.views import operand
from ..schedule.shard import sharded_as, spread_of
from ..transforms.updates import as_value
from .modes import no_grad
from .shapes import reshape

if TYPE_CHECKING:
    from .basis.state import State

__all__ = [
    "AS_IT_IS", "check_leaf", "check_writable", "is_exposed", "leads_to_leaf", "moves_between",
    "over_memory", "own_memory", "unwritable", "write",
]  # fmt: skip

T = TypeVar("T", bound="State")


# -- views ------------------------------------------------------------------------------------


def moves_between(node: Node, base: Node) -> Moves:
    """The movements that lead from `base` to `node`."""
    found: list[tuple[Op, object]] = []
    while node is not base:
        if node.op is not Op.DETACH:
            found.append((node.op, node.arg))
        node = operand(node)
    found.reverse()
    return tuple(found)


def over_memory(tensor: T) -> T:
    """`tensor`, whose node is memory or movements of it: writes to it go there."""
    node = base = tensor.node
    while base.op in MOVEMENT:
        base = operand(base)
    if base_of(node) is base:
        storage = storage_of(tensor)
    else:
        storage = Storage(type(tensor)._in_memory(base, tensor.device), base)
        tensor._storage, tensor._moves = storage, moves_between(node, base)
    bases_to_write(storage)
    return tensor


# -- what is refused --------------------------------------------------------------------------


def check_leaf(name: str, tensor: State) -> None:
    """Raises UserError where an operation in place would have to pass a leaf's gradient on."""
    if no_grad or tensor._requires_grad is not True:
        return
    storage = tensor._storage
    owner = tensor if storage is None or tensor._moves is None else storage.tensor()
    if owner is not None and owner.is_leaf:
        what = "a leaf" if owner is tensor else "a view of a leaf"
        raise UserError(
            f"[{name}] {what} of shape {owner.shape} that requires gradients is changed in place, "
            "and its gradient would be that of the new value alone: do it under Tensor.no_grad()"
        )


def check_writable(name: str, tensor: State) -> None:
    """Raises UserError for what shows an element twice, or none of the storage's."""
    if any(map(_is_read_only, bases_to_write(storage_of(tensor)) or ())):
        raise DeviceError(
            f"[{name}] the tensor's memory is somebody else's and read-only: assign to a copy, "
            "such as .clone()"
        )
    if (why := unwritable(tensor._moves or ())) is not None:
        raise UserError(
            f"[{name}] a tensor of shape {tensor.shape} is {why}, and no place to write to: "
            "write to what it is a view of, or to a copy, such as .clone()"
        )


def is_exposed(base: Node) -> bool:
    """Whether others know the memory of `base` by its address."""
    return stored_below(base).arg.token.memory.is_exposed


# What computes nothing: the result lies where its source does.
AS_IT_IS = frozenset((Op.BUFFER, Op.AFTER, Op.RESHAPE, Op.DETACH))


def shows_exposed(node: Node) -> bool:
    """Whether `node` is memory, as it is, that others know by its address."""
    while node.op in (Op.RESHAPE, Op.DETACH):
        node = resolve(operand(node))
    if node.op not in (Op.BUFFER, Op.AFTER):
        return False
    return not isinstance(stored_below(node).arg.token, Placeholder) and is_exposed(node)


def _is_read_only(base: Node) -> bool:
    return is_read_only(stored_below(base).arg.token)


def unwritable(moves: Moves) -> str | None:
    """What a view by `moves` is that cannot be written to, or None."""
    for op, arg in reversed(moves):
        if op is Op.EXPAND:
            return "an expanded view, which shows one element several times"
        if op is Op.PAD:
            return "a view through padding, which shows elements that are in no memory"
        if op is Op.WINDOW and arg.size > 1 and (arg.size - 1) * arg.dilation >= arg.stride:
            return "a view of windows that overlap, which shows one element several times"
    return None


def leads_to_leaf(node: Node) -> bool:
    """Whether gradients are asked for below `node`: of a leaf, or by a transform that runs."""
    return any(
        (n.op is Op.ALIAS and type(n.arg) is not ConstantName)
        or (n.op is Op.BUFFER and _is_leaf(n))
        for n in node.toposort()
    )


def _is_leaf(buffer: Node) -> bool:
    token = buffer.arg.token
    if isinstance(token, Placeholder):
        return True
    storage = claimed(token)
    owner = None if storage is None else storage.tensor()
    return owner is not None and owner.is_leaf


# -- writing ----------------------------------------------------------------------------------


def write(tensor: State, value: Node, part: Moves = ()) -> None:
    """Overwrite what `part` shows of `tensor` with `value`, of that shape, in the storage."""
    with lock:
        storage = storage_of(tensor)
        if capturing.active is not None:
            capturing.active.wrote(storage, tensor)
        if (first := first_call.value) is not None:
            first.writes.add(storage)
        moves = (tensor._moves or ()) + part
        new = _with_part(storage, moves, value) if moves else _with_all(storage, value)
        storage._show(new)
        for view in on_the_way(tensor):
            view.node = _shown_by(view, storage)
        written.add(storage)


def _shown_by(view: Stored, storage: Storage) -> Node:
    node, owner = shown(view._moves or (), storage.node), storage.tensor()
    is_graded = storage.is_graded or (owner is not None and owner.is_leaf)
    if is_graded and view._requires_grad is not True:
        return Node(Op.DETACH, node.dtype, (node,))
    return node


def _with_all(storage: Storage, value: Node) -> Node:
    """The values once all are overwritten: in memory where there is some, else `value` itself."""
    bases = bases_to_write(storage)
    if bases is None:
        return value
    if not isinstance(storage.device, tuple):
        return reshape(_effect(bases[0], bases[0], reshape(value, bases[0].shape)), value.shape)
    old = storage.node if storage.is_graded else resolve(storage.node)
    spread = sharded_as(value, old.arg)
    if isinstance(storage.device, Mesh):
        [spread] = with_calls([spread], storage.device)
    parts = []
    for base, part in zip(bases, spread.src, strict=True):
        parts.append(reshape(_effect(base, base, reshape(part, base.shape)), part.shape))
    return Node(Op.MULTI, value.dtype, tuple(parts), old.arg)


def _with_part(storage: Storage, moves: Moves, value: Node) -> Node:
    """The values once those that `moves` show are overwritten."""
    old = storage.node
    if isinstance(storage.device, tuple):
        # A part may lie on several devices: each writes all of its piece.
        write = Node(Op.ASSIGN, value.dtype, (shown(moves, old), value))
        return _with_all(storage, as_value(Node(Op.AFTER, old.dtype, (old, write))))
    bases = bases_to_write(storage)
    base = _fresh(old, storage) if bases is None else bases[0]
    _check_plain(base)
    # A node that no value has: what is known of a value is a copy, and no place to write to.
    place = Node(Op.RESHAPE, base.dtype, (base,), base.shape)
    view = shown(moves, reshape(place, old.shape))
    return reshape(_effect(base, view, value), old.shape)


def _fresh(value: Node, storage: Storage) -> Node:
    """Memory of its own for `storage` that will hold `value`."""
    size = size_product(value.shape)
    if not isinstance(size, int):
        raise ShapeError(f"[assign] memory of the symbolic shape {value.shape} cannot be owned")
    buffer = allocate(cast("str", storage.device), value.dtype, size)
    return _effect(buffer, buffer, reshape(value, (size,)))


def _effect(base: Node, view: Node, value: Node) -> Node:
    overwritten.add(base)
    write = Node(Op.ASSIGN, view.dtype, (view, value))
    mark(write)
    return Node(Op.AFTER, base.dtype, (base, write))


def _check_plain(base: Node) -> None:
    buffer = stored_below(base)
    if buffer.arg.image is not None:
        raise DTypeError(
            f"[assign] a part of a texture ({buffer.arg.image!r}) cannot be overwritten, since "
            "kernels write whole texels of it: assign all of it"
        )


# -- memory -----------------------------------------------------------------------------------


def own_memory(tensor: State) -> None:
    """Make `tensor` the owner of a storage in memory, which nobody else writes to."""
    with lock:
        storage = storage_of(tensor)
        if tensor._moves is not None:
            storage = tensor._storage = Storage(tensor, tensor.node)
            tensor._moves = None
        if bases_to_write(storage) is None:
            storage._show(_copied(storage))
            claimed_now = bases_to_write(storage)
            assert claimed_now is not None


def _copied(storage: Storage) -> Node:
    """The storage's values in fresh memory, on each of its devices."""
    node, device = storage.node, storage.device
    if not isinstance(device, tuple):
        return reshape(_fresh(node, storage), node.shape)
    spread = sharded_as(node, spread_of(node, device))
    parts = []
    for part, home in zip(spread.src, device, strict=True):
        buffer = allocate(home, part.dtype, size_product(part.shape))
        effect = _effect(buffer, buffer, reshape(part, buffer.shape))
        parts.append(reshape(effect, part.shape))
    return Node(Op.MULTI, node.dtype, tuple(parts), spread.arg)
