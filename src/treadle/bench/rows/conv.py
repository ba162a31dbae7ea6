"""Convolutions of images (batch, channels, height, width), and the gradients of both operands."""

from __future__ import annotations

from dataclasses import dataclass

from ..libraries.base import Library
from ..work import AS_FAST, Array, Input, Work

__all__ = ["Conv", "rows", "rows_of"]


@dataclass(frozen=True)
class Conv:
    """`batch` square images of `size`, padded so that stride 1 keeps their size."""

    name: str
    channels: int
    out: int
    size: int
    kernel: int
    batch: int = 8
    stride: int = 1
    dilation: int = 1
    groups: int = 1

    @property
    def how(self) -> dict[str, int]:
        padding = self.dilation * (self.kernel // 2)
        return {"stride": self.stride, "padding": padding, "dilation": self.dilation,
                "groups": self.groups}  # fmt: skip

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the images, the weights and the result."""
        wide = -(-self.size // self.stride)
        return (
            (self.batch, self.channels, self.size, self.size),
            (self.out, self.channels // self.groups, self.kernel, self.kernel),
            (self.batch, self.out, wide, wide),
        )

    @property
    def flops(self) -> float:
        _, (_, channels, height, width), (batch, out, rows, columns) = self.shapes
        return 2.0 * batch * out * rows * columns * channels * height * width


CONVS = (
    Conv("1x1", 256, 64, 56, 1),
    Conv("3x3", 64, 64, 56, 3),
    Conv("5x5", 32, 64, 28, 5),
    Conv("7x7 stride 2", 3, 64, 224, 7, stride=2),
    Conv("3x3 depthwise", 128, 128, 56, 3, groups=128),
    Conv("3x3 dilated", 64, 64, 56, 3, dilation=2),
    Conv("3x3 in 4 groups", 128, 128, 28, 3, groups=4),
)
QUICK = (
    Conv("1x1", 32, 16, 8, 1, 1),
    Conv("3x3", 16, 16, 10, 3, 1),
    Conv("5x5", 8, 16, 8, 5, 1),
    Conv("7x7 stride 2", 3, 16, 16, 7, 1, stride=2),
    Conv("3x3 depthwise", 16, 16, 8, 3, 1, groups=16),
    Conv("3x3 dilated", 16, 16, 10, 3, 1, dilation=2),
    Conv("3x3 in 4 groups", 16, 16, 8, 3, 1, groups=4),
)


def rows(quick: bool) -> list[Work]:
    """The mean of all at least PyTorch's speed."""
    return [row for conv in (QUICK if quick else CONVS) for row in rows_of(conv)]


def rows_of(conv: Conv) -> list[Work]:
    """The convolution and both of its gradients."""

    def forward(lib: Library[Array], x: Array, w: Array) -> Array:
        return lib.conv2d(x, w, **conv.how)

    def to_input(lib: Library[Array], x: Array, w: Array, g: Array) -> Array:
        return lib.conv2d_input_gradient(x, w, g, **conv.how)

    def to_weight(lib: Library[Array], x: Array, w: Array, g: Array) -> Array:
        return lib.conv2d_weight_gradient(x, w, g, **conv.how)

    forms = {"": forward, ", gradient to input": to_input, ", gradient to weight": to_weight}
    given = tuple(Input(shape) for shape in conv.shapes)
    sizes = f"{conv.channels}->{conv.out} {conv.batch}x{conv.size}x{conv.size}"
    return [
        Work("conv", f"conv2d {conv.name} {sizes}{which}", "flops", conv.flops,
             given if which else given[:2], form, (AS_FAST,))
        for which, form in forms.items()
    ]  # fmt: skip
