"""A decoded frame on the device: its planes, its conversion, and when its surface goes back.

with decoder.acquire_frame() as frame:
    frame.luma_plane.pointer, frame.pitch
    rgb = frame.to_rgb_tensor(dtype=dtypes.uint8, normalize=False)    # owns its memory
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

from ..engine.devices import Device
from ..tensor import Tensor
from ..tensor.types import DTypeLike
from .colour import ColorSpace, Conversion, Output, to_rgb
from .frames import NV12Plane, Picture
from .session import Shown, Surface

__all__ = ["DecodedFrame", "check_device", "nv12_frames_to_tensors"]


class DecodedFrame:
    """A picture in the order of display, mapped until `release`.

    `device_pointer` is the address of its luma plane, `pitch` the bytes from row to row, `width`
    and `height` what is shown of it.
    """

    picture_index: int
    device_pointer: int
    pitch: int
    width: int
    height: int
    progressive_frame: bool
    top_field_first: bool
    repeat_first_field: int
    timestamp: int
    bit_depth: int
    surface_size_bytes: int

    def __init__(self, shown: Shown, surface: Surface, lock: threading.RLock) -> None:
        self._surface: Surface | None = surface
        self._shown, self._lock = shown, lock
        info = shown.info
        self.picture_index = info.picture_index
        self.device_pointer, self.pitch = surface.pointer, surface.pitch
        self.width, self.height = shown.session.width, shown.session.height
        self.progressive_frame = bool(info.progressive_frame)
        self.top_field_first = bool(info.top_field_first)
        self.repeat_first_field = info.repeat_first_field
        self.timestamp = info.timestamp
        self.bit_depth = shown.session.bit_depth
        self.surface_size_bytes = surface.nbytes

    @classmethod
    def of(cls, shown: Shown, lock: threading.RLock) -> Self:
        """A queued picture's frame, mapped."""
        return cls(shown, shown.surface(), lock)

    @property
    def is_mapped(self) -> bool:
        """Whether the surface is still this frame's."""
        return self._surface is not None

    @property
    def luma_plane(self) -> NV12Plane:
        """Brightness, a sample for each pixel. Raises RuntimeError after `release`."""
        return self._mapped().luma

    @property
    def chroma_plane(self) -> NV12Plane:
        """Colour, pairs U, V for each 2 x 2 pixels. Raises RuntimeError after `release`."""
        return self._mapped().chroma

    def _mapped(self) -> Surface:
        if self._surface is None:
            raise RuntimeError("frame unmapped: its planes are there until release()")
        return self._surface

    def release(self) -> None:
        """Gives the surface back, once what reads it has finished. May be called again."""
        with self._lock:
            surface, self._surface = self._surface, None
            if surface is not None:
                surface.release()

    def to_rgb_tensor(
        self,
        *,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        normalize: bool = True,
        color_space: ColorSpace = "bt709",
        color_range: str = "auto",
    ) -> Tensor:
        """The frame as a tensor of (height, width, 3) with memory of its own.

        `dtype` is float32 (None), float16 or uint8; `normalize` scales to 0..1, else values are
        0..255. `color_space` is a name ("auto": what the stream says) or the coefficients (R from
        V, G from U, G from V, B from U), which are for full range unless `color_range` says
        "limited". Raises RuntimeError after `release`, ValueError for another `device` than the
        frame's.
        """
        output, conversion = Output.of(dtype, normalize), Conversion.of(color_space, color_range)
        if isinstance(conversion.color_space, tuple) and color_range == "auto":
            conversion = conversion._replace(color_range="full")
        check_device(device, self._shown.session.memory.device)
        return self.converted(output, conversion)

    def converted(self, output: Output, conversion: Conversion) -> Tensor:
        """As `to_rgb_tensor`, by options that are checked: (height, width, 3), in the dtype of
        `output`.

        Raises RuntimeError after `release`.
        """
        surface = self._mapped()
        picture = Picture(
            surface.luma,
            surface.chroma,
            self.bit_depth,
            self._shown.session.memory.device,
            owner=surface,
            matrix=self._shown.matrix,
            full_range=self._shown.full_range,
        )
        try:
            return to_rgb(picture, conversion, output)
        finally:
            surface.is_read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_surface", None) is not None and not exiting():
            with contextlib.suppress(RuntimeError):  # a decoder that is broken
                self.release()


def check_device(device: str | None, own: str) -> None:
    """Raises ValueError for another device than that of the frames."""
    if device is not None and Device.canonicalize(device) != own:
        raise ValueError(f"the frame is on {own}, not on {device}: convert, then .to(device)")


def nv12_frames_to_tensors(
    frames: Iterable[DecodedFrame],
    *,
    device: str | None = None,
    dtype: DTypeLike | None = None,
    normalize: bool = True,
    include_timestamps: bool = True,
    color_space: ColorSpace = "bt709",
    color_range: str = "auto",
) -> list[Any]:
    """A list of (timestamp, tensor), or of tensors alone; each frame is released as it is made.

    Where one fails, those that were given in a list are all released.
    """
    options = {"device": device, "dtype": dtype, "normalize": normalize}
    colours = {"color_space": color_space, "color_range": color_range}
    made: list[Tensor | tuple[int, Tensor]] = []
    try:
        for frame in frames:
            with frame:
                tensor = frame.to_rgb_tensor(**options, **colours)
            made.append((frame.timestamp, tensor) if include_timestamps else tensor)
    finally:
        for frame in frames if isinstance(frames, list | tuple) else ():
            frame.release()
    return made
