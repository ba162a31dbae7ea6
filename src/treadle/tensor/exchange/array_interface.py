"""The memory of a tensor by NumPy's array interface, version 3: an address, a shape, strides.

    array_interface(tensor)  ->  {"shape": (2, 3), "typestr": "<f4", "data": (0x7f..., False), ...}

Whoever reads an address keeps the tensor alive, and nothing else. So the tensor keeps all memory
that it has lent so, also when it is given other memory. No copy is ever handed out: NumPy would
take it for the memory itself, even where `copy=False` forbids one.

https://numpy.org/doc/stable/reference/arrays.interface.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine.memory import memory_of, on_read
from ...errors import UserError
from ...ir.node import Node
from .movements import memory_below, viewed
from .shared_memory import is_shareable

if TYPE_CHECKING:
    import numpy as np

    from ..basis.core import Core

__all__ = ["array_interface"]


def array_interface(tensor: Core) -> dict[str, object]:
    """What `__array_interface__` is. Raises AttributeError where there is none.

    That is also what errors of the values become: `hasattr` is false of a tensor that has none.
    """
    if tensor._requires_grad is True:
        raise AttributeError(
            f"{_FORM} a tensor that requires gradients is not shared: use .detach()"
        )
    try:
        found = _lent(tensor) if _is_whole(tensor) and is_shareable(tensor) else None
    except UserError as error:
        raise AttributeError(f"{_FORM} {error}") from error
    if found is None:
        raise AttributeError(
            f"{_FORM} the host does not see a tensor of shape {tensor.shape} on {tensor.device} in "
            "one piece of memory: use .numpy(), or .to('CPU')"
        )
    if found.dtype.isbuiltin != _NUMPYS:  # type strings of bfloat16 and fp8 mean others
        raise AttributeError(f"{_FORM} no type string means {tensor.dtype.name}: use .numpy()")
    return found.__array_interface__


_FORM = "[array_interface]"
_NUMPYS = 1


def _is_whole(tensor: Core) -> bool:
    return all(isinstance(size, int) for size in tensor.shape)


def _lent(tensor: Core) -> np.ndarray | None:
    """The tensor's memory, which it keeps from now on. None for a texture's."""
    for refuse in on_read:
        refuse()

    def has_strides(moves: list[Node], base: Node) -> bool:
        return viewed(memory_of(base.arg).array(), moves) is not None

    moves, memory = memory_below(tensor, has_strides)
    if not memory.is_shared:
        return None
    array = memory.array()
    array.flags.writeable = not memory.read_only
    tensor._keep(memory.buffer)
    return viewed(array, moves)
