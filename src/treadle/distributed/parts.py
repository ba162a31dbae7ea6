"""A tensor over a mesh, and the part of it that this process has.

joined(part, ShardArg(mesh, 0, (3, 2)))    the parts of all processes as one tensor
part_of(x)                                 this process's part, as a tensor of its own
"""

from __future__ import annotations

from ..errors import DeviceError
from ..ir.args import Mesh, PartArg, ShardArg
from ..ir.node import Node
from ..ir.op import Op
from ..schedule.shard import spread_of
from ..tensor import Tensor

__all__ = ["joined", "part_of"]


def joined(part: Tensor, lies: ShardArg) -> Tensor:
    """The tensor that lies so, and of which `part` is this process's part."""
    node = Node(Op.DETACH, part.dtype, (part.contiguous().node,))
    return Tensor._of(Node(Op.MULTI, part.dtype, (node,), lies), lies.devices)


def part_of(x: Tensor) -> Tensor:
    """What this process has of `x`, without a gradient. Raises DeviceError if it is not spread."""
    if not isinstance(x.device, Mesh):
        raise DeviceError(f"[part_of] the tensor is on {x.device}, not over a mesh of processes")
    lies = spread_of(x.node, x.device)
    part = Node(Op.PART, x.dtype, (x.node,), PartArg(lies, lies))
    return Tensor._of(Node(Op.DETACH, x.dtype, (part,)), x.device[0])
