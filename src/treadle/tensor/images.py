"""Textures as memory of tensors: what can be one, and the values of one."""

from __future__ import annotations

from ..dtype import ImageDType, dtypes
from ..engine.devices import Device
from ..errors import DeviceError, DTypeError, ShapeError
from ..ir.node import Node
from ..schedule.textures import as_texels
from .types import Extent, Placement

__all__ = ["check_image", "into_image"]


def check_image(operation: str, image: ImageDType, device: Placement, count: Extent) -> None:
    """Raises where `count` elements cannot be a texture `image` on `device`.

    DTypeError if the device has no textures, or none so large, ShapeError if the count is another.
    """
    if isinstance(device, tuple):
        raise DeviceError(
            f"[{operation}] a tensor over {device} cannot be a texture: gather it with .to() first"
        )
    largest = Device[device].target.max_image
    if largest is None:
        raise DTypeError(f"[{operation}] {image!r}: {device} has no textures")
    height, width = image.image_shape
    if height > largest[0] or width > largest[1]:
        raise DTypeError(
            f"[{operation}] {image!r} is too large: {device} has textures of up to {largest[0]} "
            f"rows of {largest[1]} texels"
        )
    if count != image.channels:
        raise ShapeError(
            f"[{operation}] {image!r} holds {height} * {width} * 4 = {image.channels} elements, "
            f"not {count}"
        )


def into_image(node: Node, image: ImageDType) -> Node:
    """The values of `node` as float32, computed once into a texture."""
    return as_texels(node.cast(dtypes.float32), image)
