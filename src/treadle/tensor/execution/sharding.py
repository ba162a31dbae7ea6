"""Tensors over several devices, of one process or of many.

    x = Tensor.rand(8, 4).shard(("CPU", "CPU:1"), axis=0)     # four rows on each
    w = Tensor.rand(4, 2).shard(("CPU", "CPU:1"))             # a copy on each
    x @ w                                                     # two products, no communication
    (x @ w).sum()                                             # two sums, then an all-reduce

Operations know nothing of it: schedule/shard.py takes the graph apart when it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ...engine.devices import Device
from ...errors import DeviceError, ShapeError
from ...ir.args import Mesh
from ...ir.shape import Shape
from ...schedule.shard import sharded
from ..basis import Basis

__all__ = ["Sharding"]


class Sharding(Basis):
    """Spreading tensors."""

    __slots__ = ()

    def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """The same values over `devices`: pieces of `axis`, or a copy on each for None; the dtype
        stays.

        `devices` may be a Mesh, one in each of several processes, which all call this. Of a tensor
        that is not spread over it yet, each of them keeps its part.

        Pieces differ by at most one; the first ones are the larger. Raises DeviceError for no
        devices or one named twice, ShapeError for an axis that there is not or that is too short.
        """
        names = _checked(devices)
        if axis is not None:
            axis = _axis(axis, self.shape, names.size if isinstance(names, Mesh) else len(names))
        result = self._result(sharded(self.node, names, axis))
        result.device = names
        return result

    def shard_(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """Spread this very tensor, pieces of `axis` or copies; a leaf stays one, shape and dtype
        stay.

        Raises DeviceError and ShapeError, as `shard` does.
        """
        return self._moved_by(lambda tensor: tensor.shard(devices, axis))


def _checked(devices: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(devices, (tuple, list)):
        raise DeviceError(
            f"[shard] give a tuple of devices, such as ('CPU', 'CPU:1'), not {devices!r}"
        )
    if isinstance(devices, Mesh):
        return devices
    names = tuple(Device.canonicalize(name) for name in devices)
    if not names:
        raise DeviceError("[shard] at least one device is needed")
    if len(set(names)) < len(names):
        raise DeviceError(f"[shard] a device is named twice: {names}")
    return names


def _axis(axis: int, shape: Shape, count: int) -> int:
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        raise ShapeError(f"[shard] shape {shape} has no axis {axis!r}")
    axis %= len(shape)
    if not isinstance(shape[axis], int) or shape[axis] < count:
        raise ShapeError(
            f"[shard] axis {axis} of shape {shape} is too short for {count} devices: each needs a "
            "piece of it; give another axis, fewer devices, or axis=None for copies"
        )
    return axis
