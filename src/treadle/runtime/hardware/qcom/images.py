"""Images in memory: lines of texels at a pitch, and the words that tell the GPU of them.

    layout = ImageLayout.of(dtypes.imagef((3, 4)))     # 3 lines of 4 texels of 16 bytes
    layout.pitch                                       # 1024 bytes from line to line
    layout.descriptor(is_texture=True)                 # 16 words, whose address is still missing

The pitch is the one that Qualcomm's OpenCL gives an image, so that its images are used in place. It
is known from tinygrad, which runs on phones: it has been compared with no library here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from treadle.errors import DeviceError
from treadle.runtime.hardware.buffers import Allocator, DeviceBuffer
from treadle.runtime.hardware.host_memory import round_up, view

if TYPE_CHECKING:
    from treadle.dtype import ImageDType

__all__ = ["ADDRESS_BYTE", "DESCRIPTOR_BYTES", "SAMPLER", "ImageAllocator", "ImageBuffer",
           "ImageLayout"]  # fmt: skip

DESCRIPTOR_BYTES = 64
ADDRESS_BYTE = 16  # where in a descriptor the address is, of 64 bits
_ALIGNMENT = 64  # of an image, and the least of its lines
_FORMATS = {32: 0x82, 16: 0x62}  # FMT6_32_32_32_32_FLOAT and FMT6_16_16_16_16_FLOAT
_IN_ORDER = 0 << 4 | 1 << 7 | 2 << 10 | 3 << 13  # SWIZ_X to SWIZ_W
_TWO_DIMENSIONS = 1
_TO_EDGE = 1  # A6XX_TEX_CLAMP_TO_EDGE
# The nearest texel at coordinates that count texels, and no filter over the edges of cubes.
SAMPLER = (_TO_EDGE << 5 | _TO_EDGE << 8 | _TO_EDGE << 11, 1 << 4 | 1 << 5, 0, 0)


class ImageLayout(NamedTuple):
    """`height` lines of `width` texels, each of four floats of `bits`, `pitch` bytes apart.

    `alignment` is what the pitch is a multiple of.
    """

    height: int
    width: int
    bits: int
    pitch: int
    alignment: int

    @classmethod
    def of(cls, image: ImageDType) -> ImageLayout:
        """The layout of an image."""
        return cls.with_sizes(*image.image_shape, image.bits)

    @classmethod
    def with_sizes(cls, height: int, width: int, bits: int) -> ImageLayout:
        """Images of few lines have their lines further apart: 2048 bytes by the power of two below
        the height, 64 at least. Lines that are almost as long as a power of two, or as a multiple
        of 2 KiB, are one step further apart, so that texels above each other are in other banks.
        """
        texel = bits // 2
        alignment = _ALIGNMENT
        if height > 1:
            alignment = max(_ALIGNMENT, 2048 >> (height.bit_length() - 1))
        near = alignment // texel
        if alignment == _ALIGNMENT:
            near = max(1, near + 1 - height // 32)
        coarse = 2048 // texel
        next_round = min(1 << (width - 1).bit_length(), round_up(width, coarse))
        is_almost_round = width > coarse // 2 and next_round - width < near
        pitch = round_up(width * texel, alignment) + alignment * is_almost_round
        return cls(height, width, bits, pitch, alignment)

    @property
    def line_bytes(self) -> int:
        """The bytes of a line that are texels."""
        return self.width * self.bits // 2

    @property
    def nbytes(self) -> int:
        """From the first texel to the last."""
        return self.pitch * (self.height - 1) + self.line_bytes

    def descriptor(self, is_texture: bool) -> tuple[int, ...]:
        """The words of A6XX_TEX_CONST, with zeros for the address.

        The order of components is a texture's alone.
        """
        return (
            _FORMATS[self.bits] << 22 | (_IN_ORDER if is_texture else 0),
            self.width | self.height << 15,
            (self.alignment // _ALIGNMENT).bit_length() - 1 | self.pitch << 7
            | _TWO_DIMENSIONS << 29,
            *[0] * 13,
        )  # fmt: skip

    def write(self, address: int, data: memoryview) -> None:
        """Copies texels, without gaps, into lines that begin at an address."""
        for line, texels in self._lines(address, data):
            line[:] = texels

    def read(self, address: int, into: memoryview) -> None:
        """The other way."""
        for line, texels in self._lines(address, into):
            texels[:] = line

    def _lines(self, address: int, data: memoryview) -> Sequence[tuple[memoryview, memoryview]]:
        """Each line in memory, beside its texels without gaps."""
        size, memory = self.line_bytes, view(address, self.nbytes)
        return [
            (memory[n * self.pitch : n * self.pitch + size], data[n * size : (n + 1) * size])
            for n in range(self.height)
        ]


class ImageBuffer(DeviceBuffer):
    """An image in the memory of a buffer, which lives as long; `nbytes` are those of its texels."""

    __slots__ = ("layout",)

    def __init__(self, memory: DeviceBuffer, layout: ImageLayout) -> None:
        super().__init__(memory.block, layout.height * layout.line_bytes, None, memory)
        self.layout = layout


class ImageAllocator(Allocator):
    """Makes buffers and images."""

    def alloc_image(self, image: ImageDType) -> ImageBuffer:
        """An image with undefined contents. Raises OutOfMemory."""
        layout = ImageLayout.of(image)
        return ImageBuffer(self.alloc(layout.nbytes), layout)

    def image_from_pointer(
        self, pointer: int, image: ImageDType, pitch: int | None = None
    ) -> ImageBuffer:
        """An image of somebody else's, in place; `pitch` is how many bytes its lines are apart.

        Raises DeviceError for an address or a pitch that an image cannot have.
        """
        layout = ImageLayout.of(image)
        if pitch not in (None, layout.pitch):
            raise DeviceError(
                f"QCOM: the lines of {image!r} are {layout.pitch} bytes apart, as those of "
                f"Qualcomm's OpenCL, not {pitch}: copy it into such an image, or pass it as a "
                "buffer"
            )
        if pointer % _ALIGNMENT:
            raise DeviceError(
                f"QCOM: an image begins at a multiple of {_ALIGNMENT} bytes, not at {pointer:#x}"
            )
        return ImageBuffer(self.from_pointer(pointer, layout.nbytes), layout)
