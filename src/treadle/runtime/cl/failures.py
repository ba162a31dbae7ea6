"""pyopencl's errors as treadle's own: `with translated("read a buffer"): ...`."""

from __future__ import annotations

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.cl.platforms import binding

__all__ = ["translated"]


class translated:
    """Turns pyopencl's errors into DeviceError or OutOfMemory: `with translated("do it"):`."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        cl = binding()
        if isinstance(error, cl.MemoryError):
            raise OutOfMemory(
                f"CL: no memory to {self._what} ({error}): delete tensors that are no longer "
                "needed, or use smaller batches"
            ) from error
        if isinstance(error, cl.Error):
            raise DeviceError(f"CL: could not {self._what}: {error}") from error
