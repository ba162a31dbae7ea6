"""What a captured function is given and gives back: described, exchanged, compared.

signature_of((args, kwargs), found)    what must stay the same; tensors and sizes go to `found`
at_a_glance(args, captured)            their memory, where little is enough to see that it is so
exchanged(args, {id(x): y})            the same nesting with y in place of x
check_same(old, new)                   JitError says what differs
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from ..dtype import DType, ImageDType
from ..errors import JitError
from ..ir.args import ConstantName, Placeholder, Token
from ..ir.node import Node, toposort
from ..ir.op import Op
from ..ir.shape import Shape, all_known, size_product
from ..ir.symbolic import Size, bind, unbind
from ..ir.views import operand
from ..kinds import shown
from .effects import copied
from .memory import Memory, buffers_of, memory_of
from .realized import is_backed, resolve
from .storages import Captured, claimed

__all__ = [
    "Argument", "Found", "Glance", "Signature", "at_a_glance", "check_same", "described",
    "exchanged", "is_traced", "layout_of", "like", "memories_of", "over", "refreshed",
    "same_objects", "shares_less", "signature_of", "sizes_of", "stand_in", "told_apart",
    "with_arguments", "with_sizes",
]  # fmt: skip


_RESHAPE, _BUFFER = Op.RESHAPE, Op.BUFFER  # an Enum looks its members up in Python


# Of the memory of an argument: dtype, elements, device, the first argument in it, texture.
Described: TypeAlias = tuple[DType, Size, str, int, ImageDType | None]
# What must stay the same: arguments without their tensors, how these are spread, their memory.
Signature: TypeAlias = tuple[object, tuple[str, ...], tuple[Described, ...]]


@dataclass(slots=True)
class Found:
    """What nested arguments hold: tensors, and sizes made of variables that are bound."""

    tensors: list[Captured] = field(default_factory=list)
    sizes: list[Node] = field(default_factory=list)

    def values(self) -> dict[str, int]:
        """What variables are bound to, which replays may bind to other values.

        Raises UserError for a variable with two values.
        """
        shapes = (size for tensor in self.tensors for size in tensor.node.shape)
        sizes = [*self.sizes, *(size for size in shapes if isinstance(size, Node))]
        return unbind(sizes)[1] if sizes else {}

    def stand_ins(self) -> dict[int, Node]:
        """What a captured function sees in place of each size, by id: variables without values."""
        return dict(zip(map(id, self.sizes), unbind(self.sizes)[0], strict=True))


class Glance(NamedTuple):
    """How one tensor argument was captured, by which a later one is seen to be like it at once."""

    kind: type
    shape: Shape
    dtype: DType
    device: str

    @staticmethod
    def of(args: Sequence[object], kwargs: Mapping[str, object]) -> list[Glance] | None:
        """For arguments that are tensors, each in plain memory of its own; None for all others."""
        tensors = [value for value in args if _is_tensor(value)]
        if kwargs or len(tensors) < len(args):
            return None
        nodes = [resolve(tensor.node) for tensor in tensors]
        if not all(map(is_backed, nodes)):
            return None
        memories = [m for node in nodes for m in memories_of(node)]
        if len({id(m.buffer) for m in memories}) < len(memories) or len(memories) > len(args):
            return None
        if any(memory.image is not None for memory in memories):
            return None
        return [
            Glance(type(tensor), node.shape, node.dtype, memory.device)
            for tensor, node, memory in zip(tensors, nodes, memories, strict=True)
        ]


def at_a_glance(args: Sequence[Any], captured: list[Glance]) -> list[Memory] | None:
    """The memory of `args` if they are plainly like the captured ones; None where that takes more.

    Looks at as little as possible: after a kernel has streamed through the caches, whatever the
    host touches comes from memory.
    """
    if len(args) != len(captured):
        return None
    memories: list[Memory] = []
    for tensor, (kind, shape, dtype, device) in zip(args, captured):  # noqa: B905 (as many)
        if type(tensor) is not kind:
            return None
        node = tensor._node
        if node is None:  # nobody has asked for it yet
            node = tensor.node
        while (found := node.memory) is not None:
            node = found
        base = node.src[0] if node.op is _RESHAPE else node
        if node.shape != shape or node.dtype is not dtype or base.op is not _BUFFER:
            return None
        ref = base.arg
        token = ref.token
        if base.memory is not None or type(token) is not Token:
            return None
        memory = token.memory
        if memory.version != ref.version:
            return None
        if memory.device != device or memory.image is not None:
            return None
        memories.append(memory)
    is_apart = len(memories) < 2 or len({id(m.buffer) for m in memories}) == len(memories)
    return memories if is_apart else None


def is_traced(node: Node) -> bool:
    """Whether a transform (grad, vmap, ...) looks at what is computed from a resolved node."""
    return not is_backed(node) and any(map(_is_of_transform, toposort([node])))


def _is_of_transform(node: Node) -> bool:
    if node.op is Op.ALIAS:
        return not isinstance(node.arg, ConstantName)
    return node.op is Op.BUFFER and isinstance(node.arg.token, Placeholder)


@functools.lru_cache(256)
def _holds_nodes(kind: type) -> bool:
    return hasattr(kind, "node") and hasattr(kind, "device")


class Argument(NamedTuple):
    """Stands in a captured result for a tensor argument, by its number."""

    number: int


def with_arguments(value: object, tensors: Sequence[Captured]) -> Any:
    """A captured result with this call's arguments in their places."""
    if isinstance(value, Argument):
        return tensors[value.number]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(with_arguments(item, tensors) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)([with_arguments(item, tensors) for item in value])
    if isinstance(value, dict):
        return {k: with_arguments(v, tensors) for k, v in value.items()}
    return value


def _is_tensor(value: object) -> TypeGuard[Captured]:
    return _holds_nodes(type(value))


def signature_of(value: object, found: Found) -> object:
    """A comparable description of nested arguments; what they hold is added to `found`.

    Raises JitError for arrays of other libraries: what they hold can change unseen.
    """
    if _is_tensor(value):
        found.tensors.append(value)
        return ("tensor of shape", _unbound(value.node.shape))
    if isinstance(value, Node):
        found.sizes.append(value)
        return unbind([value])[0][0]
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(signature_of(item, found) for item in value))
    if isinstance(value, dict):
        return ("dict", tuple((k, signature_of(v, found)) for k, v in value.items()))
    if hasattr(value, "__dlpack__") and getattr(value, "shape", None):
        raise JitError(
            f"[jit] an argument is {shown(value)}, whose values would be kept from the first "
            "call: give Tensor(...) of it"
        )
    return value


def _shown_call(signature: Any) -> str:
    """The description of (args, kwargs), as a call is written."""
    (_, positional), (_, named) = signature[1]
    shown = [_shown(item) for item in positional]
    return f"({', '.join(shown + [f'{name}={_shown(item)}' for name, item in named])})"


def _shown(signature: object) -> str:
    """What `signature_of` gives of one argument, for people."""
    if not isinstance(signature, tuple):
        return repr(signature)
    kind, items = signature
    if kind == "tensor of shape":
        return f"tensor of shape {items}"
    if kind == "dict":
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in items) + "}"
    inner = ", ".join(map(_shown, items))
    return f"[{inner}]" if kind == "list" else f"({inner})"


def exchanged(value: object, swapped: Mapping[int, object]) -> Any:
    if _is_tensor(value) or isinstance(value, Node):
        return swapped.get(id(value), value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(exchanged(item, swapped) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(exchanged(item, swapped) for item in value)
    if isinstance(value, dict):
        return {k: exchanged(v, swapped) for k, v in value.items()}
    return value


def refreshed(
    value: object,
    wanted: Iterator[tuple[Node, list[Memory]]],
    renewed: dict[int, Node],
    made: dict[int, Captured] | None = None,
) -> Any:
    """The captured result with fresh tensors where its memory is fresh, one for each of its own."""
    made = {} if made is None else made
    if _is_tensor(value):
        node, memories = next(wanted)
        buffers = [renewed[id(m)] for m in memories if id(m) in renewed]
        if not buffers or len(buffers) < len(memories):
            return value
        if id(value) not in made:
            made[id(value)] = like(value, node, buffers)
        return made[id(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(refreshed(item, wanted, renewed, made) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)([refreshed(item, wanted, renewed, made) for item in value])
    if isinstance(value, dict):
        return {k: refreshed(v, wanted, renewed, made) for k, v in value.items()}
    return value


def with_sizes(value: object, values: dict[str, int]) -> Any:
    """A result whose sizes, numbers made of variables, have the values that these have."""
    found = Found()
    if not values:
        return value
    signature_of(value, found)
    swapped: dict[int, object] = {id(tensor): tensor for tensor in found.tensors}
    swapped.update(zip(map(id, found.sizes), bind(found.sizes, values), strict=True))
    return exchanged(value, swapped) if found.sizes else value


def like(tensor: Captured, node: Node, buffers: list[Node]) -> Captured:
    """A tensor like `tensor`, whose memory is `node`, over other BUFFERs."""
    made = type(tensor)._in_memory(over(node, buffers), tensor.device, tensor._requires_grad)
    made._moves = tensor._moves and ()  # a view stays one
    return made


def stand_in(tensor: Captured, node: Node, buffers: list[Node]) -> Captured:
    """What a function that is captured sees in place of its argument: a leaf in place of a leaf."""
    if not all_known(node.shape):
        [node], _ = unbind([node])
    if not tensor.is_leaf:
        return like(tensor, node, buffers)
    return type(tensor)._in_memory(over(node, buffers), tensor.device).requires_grad_()


def over(node: Node, buffers: list[Node]) -> Node:
    """A node in memory with other BUFFERs in place of its own, one for each device."""
    if node.op is Op.MULTI:
        parts = (over(part, [b]) for part, b in zip(node.src, buffers, strict=True))
        return node.replace(src=tuple(parts))
    if len(buffers) > 1:
        return node.replace(src=(over(operand(node), buffers),))
    (buffer,) = buffers
    if buffer.shape == node.shape:
        return buffer
    return Node.fresh(Op.RESHAPE, node.dtype, (buffer,), node.shape, node.shape)


def memories_of(node: Node) -> list[Memory]:
    return [memory_of(buffer.arg) for buffer in buffers_of(node)]


def layout_of(node: Node) -> str:
    """How a tensor in memory is spread over devices."""
    if node.op is not Op.MULTI:
        return "on one device"
    devices, axis = node.arg.devices, node.arg.axis
    return f"copied to {devices}" if axis is None else f"split along axis {axis} over {devices}"


def sizes_of(node: Node) -> list[Size]:
    """How many elements each of a node's memories has: variables in its shape have no values."""
    if node.op is Op.MULTI:
        return [size for part in node.src for size in sizes_of(part)]
    memories = memories_of(node)
    if len(memories) > 1:
        return sizes_of(operand(node))
    return [memory.size if all_known(node.shape) else size_product(_unbound(node.shape))
            for memory in memories]  # fmt: skip


def _unbound(shape: Shape) -> Shape:
    """A shape whose variables have no values."""
    if all_known(shape):
        return shape
    return tuple(unbind([size])[0][0] if isinstance(size, Node) else size for size in shape)


def described(nodes: Sequence[Node]) -> tuple[Described, ...]:
    """What must stay the same of the inputs' memory; the number tells which of them share it."""
    numbers: dict[int, int] = {}
    pairs = [pair for n in nodes for pair in zip(memories_of(n), sizes_of(n), strict=True)]
    return tuple(
        (m.dtype, size, m.device, numbers.setdefault(id(m.buffer), i), m.image)
        for i, (m, size) in enumerate(pairs)
    )


def shares_less(old: Signature, new: Signature) -> bool:
    """Whether a call is like the captured one, but for memory that two arguments shared there."""
    if old[:2] != new[:2] or old[2] == new[2]:
        return False
    pairs = [*zip(old[2], new[2], strict=True)]
    same = all(was[:3] == now[:3] and was[4] == now[4] for was, now in pairs)
    return same and all(now[3] == at or now[3] == was[3] for at, (was, now) in enumerate(pairs))


def told_apart(tensors: Sequence[Captured], nodes: list[Node]) -> list[Node]:
    """`nodes`, the memory of `tensors`, each in its own: equal graphs are computed only once.

    Nor is it memory that a tensor which is no argument is written to in.
    """
    found, owners = [], dict[int, object]()
    for tensor, node in zip(tensors, nodes, strict=True):
        storage = tensor if tensor._storage is None else tensor._storage
        bases = buffers_of(node)
        writers = [claimed(base.arg.token) or storage for base in bases]
        first = [owners.setdefault(id(memory_of(base.arg).buffer), storage) for base in bases]
        if any(owner is not storage for owner in (*first, *writers)):
            node = over(node, [copied(memory_of(base.arg)) for base in bases])
            tensor._computed(node)
        found.append(node)
    return found


def same_objects(tensors: Sequence[Captured]) -> frozenset[tuple[int, int]]:
    """The places at which a tensor stands once more, each with its first."""
    first: dict[int, int] = {}
    pairs = [(first.setdefault(id(tensor), at), at) for at, tensor in enumerate(tensors)]
    return frozenset((one, other) for one, other in pairs if one != other)


def _kept(image: object) -> str:
    return "plain memory" if image is None else f"the texture {image!r}"


def _held(owner: int, number: int) -> str:
    return "memory of its own" if owner == number else f"that of argument {owner}"


def check_same(old: Signature, new: Signature) -> None:
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
        if (*was[:3], was[4]) == (*now[:3], now[4]) and was != now:
            raise JitError(
                f"[jit] tensor argument {number} was captured in {_held(was[3], number)}, now it "
                f"is in {_held(now[3], number)}: what one writes the other would read. Give "
                "tensors that share memory as before, use one TinyJit for each, or .reset()"
            )
        if was != now:
            raise JitError(
                f"[jit] tensor argument {number} was captured as {was[0].name} of {was[1]} "
                f"elements on {was[2]} in {_kept(was[4])}, now it is {now[0].name} of "
                f"{now[1]} elements on {now[2]} in {_kept(now[4])}: use one TinyJit for each, or "
                ".reset()"
            )
