"""In-place changes: a tensor's value becomes an effect on the memory that it owns.

    t.assign(v)      ->  t.node = AFTER(buffer, ASSIGN(buffer, v))
    t[1:3] = v       ->  t.node = AFTER(buffer, ASSIGN(buffer[1:3], v))

Every effect makes a new version of the buffer, and a version is overwritten by one effect only, so
graphs built earlier keep reading the values they were built on. What has no memory of its own gets
it here, lazily: a fresh buffer, assigned the value.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..engine.known import holders, resolve
from ..engine.memory import allocate, is_read_only
from ..engine.run import lock
from ..errors import DeviceError, DTypeError, ShapeError, UserError
from ..ir.args import Placeholder, Token
from ..ir.node import Node
from ..ir.op import Op
from ..ir.origin import mark
from ..ir.versions import stored_below
from ..schedule.shard import axis_of, sharded
from .modes import no_grad
from .shapes import reshape

if TYPE_CHECKING:
    from .core import Core

__all__ = ["assign_node", "base_of", "check_leaf", "leads_to_leaf", "own_memory", "write_view"]

_overwritten: weakref.WeakSet[Node] = weakref.WeakSet()
_leaf_of: weakref.WeakKeyDictionary[Token, weakref.ref[Core]] = weakref.WeakKeyDictionary()
_NO_PART = (
    "[assign] a part of a tensor over {} cannot be overwritten: assign all of it, or gather it "
    "with .to() first"
)
_WRITABLE = frozenset((Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP))


def base_of(node: Node) -> Node | None:
    """The whole buffer (BUFFER or AFTER) that `node` is a reshape of, or None."""
    node = resolve(node)
    while node.op is Op.RESHAPE:
        node = resolve(node.src[0])
    return node if node.op in (Op.BUFFER, Op.AFTER) else None


def _token(base: Node) -> Token:
    return stored_below(base).arg.token


def _effect(base: Node, view: Node, value: Node) -> Node:
    if is_read_only(_token(base)):
        raise DeviceError(
            "[assign] the tensor's memory is somebody else's and read-only: assign to a copy, "
            "such as .clone()"
        )
    _overwritten.add(base)
    write = Node(Op.ASSIGN, view.dtype, (view, value))
    mark(write)
    return Node(Op.AFTER, base.dtype, (base, write))


def _fresh(value: Node, shape: Any, device: Any) -> Node:
    """`value`, broadcast to `shape` already, in new memory."""
    if isinstance(device, tuple):
        spread = sharded(value, device, axis_of(value))
        parts = (
            _fresh(part, part.shape, home) for part, home in zip(spread.src, device, strict=True)
        )
        return Node(Op.MULTI, value.dtype, tuple(parts), spread.arg)
    size = 1
    for n in shape:
        size *= n
    if not isinstance(size, int):
        raise ShapeError(f"[assign] memory of the symbolic shape {shape} cannot be owned")
    buffer = allocate(device, value.dtype, size)
    return reshape(_effect(buffer, buffer, reshape(value, (size,))), shape)


def own_memory(tensor: Core, exclusive: bool = False) -> Node:
    """Give `tensor` a buffer of its own if it has none; returns the base to write to.

    `exclusive`: it is about to be a leaf, and no other leaf may have the same memory.
    """
    if isinstance(tensor.device, tuple):
        tensor.node = _fresh(tensor.node, tensor.shape, tensor.device)
        return tensor.node
    base = base_of(tensor.node)
    taken = base is not None and base in _overwritten
    if base is not None and exclusive:
        leaf = _leaf_of.get(_token(base))
        owner = None if leaf is None else leaf()
        taken = taken or (owner is not None and owner is not tensor)
    if base is None or taken:
        tensor.node = _fresh(tensor.node, tensor.shape, tensor.device)
        base = base_of(tensor.node)
        assert base is not None
    if exclusive:
        _leaf_of[_token(base)] = weakref.ref(tensor)
    return base


def check_leaf(name: str, tensor: Core) -> None:
    """Raises UserError where an operation in place would have to pass a leaf's gradient on."""
    if tensor.is_leaf and not no_grad:
        raise UserError(
            f"[{name}] a leaf of shape {tensor.shape} that requires gradients is changed in place, "
            "and its gradient would be that of the new value alone: do it under Tensor.no_grad(), "
            "or with .assign()"
        )


def leads_to_leaf(node: Node) -> bool:
    """Whether gradients are asked for below `node`: of a leaf, or by a transform that runs."""
    return any(n.op is Op.ALIAS or (n.op is Op.BUFFER and _is_leaf(n)) for n in node.toposort())


def _is_leaf(buffer: Node) -> bool:
    token = buffer.arg.token
    leaf = _leaf_of.get(token)
    owner = None if leaf is None else leaf()
    return isinstance(token, Placeholder) or (owner is not None and owner.is_leaf)


def check_value(tensor: Core, shape: Any, value: Core) -> None:
    """Raises ShapeError or DTypeError where `value` cannot be assigned."""
    if value.shape != shape:
        raise ShapeError(
            f"[assign] a value of shape {value.shape} does not fit {shape}; use .expand or "
            ".reshape on the value, or rebind the name: x = value"
        )
    if value.dtype is not tensor.dtype:
        raise DTypeError(
            f"[assign] a {value.dtype.name} value does not fit a {tensor.dtype.name} tensor; "
            f"cast it with .cast({tensor.dtype.name!r})"
        )


def assign_node(tensor: Core, value: Node) -> None:
    """Overwrite all of `tensor`: its whole buffer, or, for a view of one, the part it shows."""
    with lock:
        _assign_node(tensor, value)


def _assign_node(tensor: Core, value: Node) -> None:
    if isinstance(tensor.device, tuple):
        tensor.node = _assigned_parts(resolve(tensor.node), value, tensor.device)
        return
    base = base_of(tensor.node)
    view = None if base is not None else _view_of_buffer(tensor.node)
    if view is not None and view[-1] not in _overwritten:
        _write_through(tensor, view, value)
    elif base is None or base in _overwritten:
        tensor.node = _fresh(value, tensor.shape, tensor.device)
    else:
        flat = reshape(value, base.shape)
        tensor.node = reshape(_effect(base, base, flat), tensor.shape)


def _assigned_parts(old: Node, value: Node, devices: tuple[str, ...]) -> Node:
    """The parts of `old` overwritten with those of `value`; new memory where they have none."""
    bases = [base_of(part) for part in old.src] if old.op is Op.MULTI else [None]
    if any(base is None or base in _overwritten for base in bases):
        if old.op in _WRITABLE and old.op is not Op.RESHAPE and _parts_below(old):
            raise DeviceError(_NO_PART.format(devices))
        return _fresh(value, old.shape, devices)
    spread = sharded(value, devices, old.arg.axis)
    parts = []
    for base, part in zip(bases, spread.src, strict=True):
        assert base is not None
        parts.append(reshape(_effect(base, base, reshape(part, base.shape)), part.shape))
    return Node(Op.MULTI, value.dtype, tuple(parts), old.arg)


def _parts_below(view: Node) -> bool:
    """Whether movements lead from `view` to memory on several devices."""
    while view.op in _WRITABLE:
        view = resolve(view.src[0])
    return view.op is Op.MULTI and all(base_of(part) is not None for part in view.src)


def _view_of_buffer(node: Node) -> list[Node] | None:
    """The chain of movements from `node` down to the buffer it is a writable view of."""
    chain = [node]
    while chain[-1].op in _WRITABLE:
        chain.append(resolve(chain[-1].src[0]))
    return chain if chain[-1].op in (Op.BUFFER, Op.AFTER) else None


def _rebuild(chain: list[Node], base: Node) -> Node:
    for node in reversed(chain[:-1]):
        base = Node(node.op, node.dtype, (base,), node.arg)
    return base


def _check_plain(base: Node) -> None:
    while base.op is not Op.BUFFER:
        base = base.src[0]
    if base.arg.image is not None:
        raise DTypeError(
            f"[assign] a part of a texture ({base.arg.image!r}) cannot be overwritten, since "
            "kernels write whole texels of it: assign all of it"
        )


def _write_through(tensor: Core, chain: list[Node], value: Node) -> None:
    base = chain[-1]
    _check_plain(base)
    owners = [t for t in holders() if t.device == tensor.device and base_of(t.node) is base]
    after = _effect(base, _rebuild(chain, base), value)
    for owner in owners:
        owner.node = reshape(after, owner.shape)
    tensor.node = _rebuild(chain, after)


def write_view(tensor: Core, movements: Any, value: Node) -> None:
    """Overwrite the part of `tensor` that `movements` (Node to Node) shows."""
    if isinstance(tensor.device, tuple):
        raise DeviceError(_NO_PART.format(tensor.device))
    with lock:
        base = own_memory(tensor)
        _check_plain(base)
        view = movements(reshape(base, tensor.shape))
        tensor.node = reshape(_effect(base, view, value), tensor.shape)
