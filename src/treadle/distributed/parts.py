"""A tensor over a mesh, and the part of it that this process has.

joined(part, ShardArg(mesh, 0, (3, 2)))    the parts of all processes as one tensor
joined_as(x, part)                         the same, where x lies
part_of(x)                                 this process's part, as a tensor of its own
"""

from __future__ import annotations

from ..errors import DeviceError
from ..ir.args import Mesh, PartArg, ShardArg
from ..ir.node import Node
from ..ir.op import Op
from ..schedule.shard import spread_of
from ..tensor import Tensor

__all__ = ["joined", "joined_as", "part_of"]


def joined(part: Tensor, lies: ShardArg) -> Tensor:
    """The tensor that lies so, and of which `part` is this process's part."""
    node = Node(Op.DETACH, part.dtype, (part.node,))
    return Tensor._of(Node(Op.MULTI, part.dtype, (node,), lies), lies.devices)


def joined_as(x: Tensor, part: Tensor) -> Tensor:
    """The tensor that lies as `x` does, and of which `part` is this process's part."""
    return joined(part, spread_of(x.node, _mesh_of(x)))


def part_of(x: Tensor) -> Tensor:
    """What this process has of `x`, without a gradient. Raises DeviceError if it is not spread."""
    mesh = _mesh_of(x)
    lies = spread_of(x.node, mesh)
    part = Node(Op.PART, x.dtype, (x.node,), PartArg(lies, lies))
    return Tensor._of(Node(Op.DETACH, x.dtype, (part,)), mesh[0])


def _mesh_of(x: Tensor) -> Mesh:
    if not isinstance(x.device, Mesh):
        raise DeviceError(f"[part_of] the tensor is on {x.device}, not over a mesh of processes")
    return x.device
