"""pyopencl's errors as treadle's own: `with translated("read a buffer", presence): ...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.cl.platforms import binding

if TYPE_CHECKING:
    from treadle.runtime.presence import Presence

__all__ = ["is_loss", "translated"]

# What a driver says of a queue that was good until now, or of the device behind it.
_LOSSES = ("DEVICE_NOT_AVAILABLE", "INVALID_COMMAND_QUEUE")


def is_loss(error: BaseException) -> bool:
    """Whether one of pyopencl's errors says that the device is gone."""
    codes = binding().status_code
    return error.code in [getattr(codes, name) for name in _LOSSES]  # type: ignore[attr-defined]


class translated:
    """A block whose pyopencl errors are raised as DeviceError or OutOfMemory: `what` it does.

    A device that is gone is lost from then on.
    """

    def __init__(self, what: str, presence: Presence) -> None:
        self._what, self._presence = what, presence

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, binding().Error):
            raise self._raised(error) from error

    def _raised(self, error: BaseException) -> DeviceError:
        name = self._presence.name
        if isinstance(error, binding().MemoryError):
            return OutOfMemory(
                f"{name}: no memory to {self._what} ({error}): delete tensors that are no longer "
                "needed, or use smaller batches"
            )
        if is_loss(error):
            return DeviceError(self._presence.lose(str(error)))
        return DeviceError(f"{name}: could not {self._what}: {error}")
