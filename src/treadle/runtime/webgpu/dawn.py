"""Dawn's functions with their types, waiting for futures, and error scopes.

    dawn = Dawn(find_library())
    device, told = dawn.request_device(adapter, ...)
    with dawn.checked(device, "make a pipeline"): ...

Every wait is one blocking call without the GIL: nothing polls.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.webgpu.structures import (
    MADE,
    SCOPE,
    CallbackInfo,
    Ended,
    FutureWaitInfo,
    StringView,
    api_of,
    function_of,
)
from treadle.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

    from treadle.runtime.webgpu.library import Library

__all__ = ["Dawn", "Handle", "view_of"]

_P, _U32, _U64, _SIZE, _NONE = c_void_p, c_uint32, c_uint64, c_size_t, None
_FUTURE = c_uint64
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "wgpuCreateInstance": (_P, _P),
    "wgpuInstanceRequestAdapter*": (_FUTURE, _P, _P, CallbackInfo),
    "wgpuInstanceWaitAny": (_U32, _P, _SIZE, _P, _U64),
    "wgpuAdapterGetInfo": (_U32, _P, _P),
    "wgpuAdapterGetLimits": (_U32, _P, _P),
    "wgpuAdapterGetFeatures": (_NONE, _P, _P),
    "wgpuAdapterRequestDevice*": (_FUTURE, _P, _P, CallbackInfo),
    "wgpuDeviceGetQueue": (_P, _P),
    "wgpuDevicePushErrorScope": (_NONE, _P, _U32),
    "wgpuDevicePopErrorScope*": (_FUTURE, _P, CallbackInfo),
    "wgpuDeviceCreateBuffer": (_P, _P, _P),
    "wgpuDeviceCreateShaderModule": (_P, _P, _P),
    "wgpuDeviceCreateBindGroupLayout": (_P, _P, _P),
    "wgpuDeviceCreatePipelineLayout": (_P, _P, _P),
    "wgpuDeviceCreateComputePipeline": (_P, _P, _P),
    "wgpuDeviceCreateBindGroup": (_P, _P, _P),
    "wgpuDeviceCreateCommandEncoder": (_P, _P, _P),
    "wgpuDeviceCreateQuerySet": (_P, _P, _P),
    "wgpuCommandEncoderBeginComputePass": (_P, _P, _P),
    "wgpuCommandEncoderCopyBufferToBuffer": (_NONE, _P, _P, _U64, _P, _U64, _U64),
    "wgpuCommandEncoderResolveQuerySet": (_NONE, _P, _P, _U32, _U32, _P, _U64),
    "wgpuCommandEncoderFinish": (_P, _P, _P),
    "wgpuComputePassEncoderSetPipeline": (_NONE, _P, _P),
    "wgpuComputePassEncoderSetBindGroup": (_NONE, _P, _U32, _P, _SIZE, _P),
    "wgpuComputePassEncoderDispatchWorkgroups": (_NONE, _P, _U32, _U32, _U32),
    "wgpuComputePassEncoderEnd": (_NONE, _P),
    "wgpuQueueSubmit": (_NONE, _P, _SIZE, _P),
    "wgpuQueueWriteBuffer": (_NONE, _P, _P, _U64, _P, _SIZE),
    "wgpuQueueOnSubmittedWorkDone*": (_FUTURE, _P, CallbackInfo),
    "wgpuBufferMapAsync*": (_FUTURE, _P, _U64, _SIZE, _SIZE, CallbackInfo),
    "wgpuBufferGetConstMappedRange": (_P, _P, _SIZE, _SIZE),
    "wgpuBufferUnmap": (_NONE, _P),
    **{
        f"wgpu{kind}Release": (_NONE, _P)
        for kind in (
            "Instance", "Adapter", "Device", "Queue", "Buffer", "ShaderModule", "BindGroupLayout",
            "PipelineLayout", "ComputePipeline", "BindGroup", "CommandEncoder",
            "ComputePassEncoder", "CommandBuffer", "QuerySet",
        )
    },
}  # fmt: skip

_WAIT_ONLY, _SUCCESS = 1, 1
_MAP_TO_READ = 1
_NO_ERROR, _OUT_OF_MEMORY = 1, 3
_VALIDATION_SCOPE, _MEMORY_SCOPE, _INTERNAL_SCOPE = 1, 2, 3
FOREVER = (1 << 64) - 1


def view_of(text: str, keep: list[object]) -> StringView:
    """Text for Dawn; `keep` holds its bytes."""
    raw = ctypes.create_string_buffer(text.encode())
    keep.append(raw)
    return StringView(ctypes.addressof(raw), len(raw) - 1)


class Handle:
    """An object of Dawn's, released when it is collected."""

    __slots__ = ("__weakref__", "_as_parameter_", "_release")

    def __init__(self, pointer: int, release: Callable[[c_void_p], object]) -> None:
        self._as_parameter_ = c_void_p(pointer)
        self._release = release

    @property
    def pointer(self) -> int:
        """The address that Dawn knows it by."""
        return self._as_parameter_.value or 0

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():  # at exit Dawn's own threads may be gone; the system takes it all back
            self._release(self._as_parameter_)


class Dawn:
    """One loaded Dawn and an instance of it."""

    library: Library
    instance: Handle

    def __init__(self, library: Library) -> None:
        self.library, self.api = library, api_of(library.is_current)
        self._functions: dict[str, CFuncPtr] = {}
        keep: list[object] = []
        descriptor = self.api.instance_descriptor(keep)
        self.instance = self.make("Instance", "wgpuCreateInstance", ctypes.byref(descriptor))

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function; "*" at the end of its name stands for the generation's suffix."""
        function = self._functions.get(name) or self._bind(name)
        return function(*arguments)

    def _bind(self, name: str) -> CFuncPtr:
        restype, *argtypes = _FUNCTIONS[name]
        real = name.replace("*", self.api.suffix)
        address = self.library.address(real)
        if address is None:
            raise DeviceError(f"WEBGPU: {self.library.path} has no {real}: use another Dawn")
        function = ctypes.CFUNCTYPE(restype, *argtypes)(address)
        self._functions[name] = function
        return function

    def make(self, kind: str, name: str, *arguments: object) -> Handle:
        """An object that a function makes. Raises DeviceError if it makes none."""
        pointer = self.call(name, *arguments)
        if not pointer:
            raise DeviceError(f"WEBGPU: Dawn could not make a {kind}")
        release = f"wgpu{kind}Release"
        return Handle(pointer, self._functions.get(release) or self._bind(release))

    # -- waiting --------------------------------------------------------------------------------

    def wait(
        self, start: str, prototype: type[CFuncPtr], answer: Callable[..., None], *arguments: object
    ) -> None:
        """Start something, wait until it is done, and give its results to `answer`."""
        callback = prototype(answer)
        future = self._started(start, callback, *arguments)
        uninterrupted(lambda: self._wait(future))  # it is there that `answer` is called

    def ended(self, start: str, answer: type[ctypes.Structure], *arguments: object) -> int:
        """Start something, wait until it is done, and give its status.

        What is called back is C's, and fills an `answer`: no step of Python's in which a signal
        could be handled. So this needs no other thread, which would take longer than most waits.
        But texts are gone on return.
        """
        told = answer()
        callback = function_of(answer)(told.__init__)
        self._wait(self._started(start, callback, *arguments))
        return told.status

    def _started(self, start: str, callback: CFuncPtr, *arguments: object) -> FutureWaitInfo:
        info = CallbackInfo(mode=_WAIT_ONLY, callback=ctypes.cast(callback, c_void_p).value)
        return FutureWaitInfo(future=self.call(start, *arguments, info))

    def _wait(self, future: FutureWaitInfo) -> None:
        status = self.call("wgpuInstanceWaitAny", self.instance, 1, ctypes.byref(future), FOREVER)
        if status != _SUCCESS:
            raise DeviceError(f"WEBGPU: waiting for Dawn failed with status {status}")

    def request(self, kind: str, start: str, *arguments: object) -> Handle:
        """An adapter or a device. Raises DeviceError with Dawn's reason."""
        found: list[tuple[int, int | None, str]] = []
        self.wait(
            start, MADE, lambda status, made, why, *_: found.append((status, made, why.text())),
            *arguments,
        )  # fmt: skip
        [(status, pointer, why)] = found
        if status != _SUCCESS or not pointer:
            raise DeviceError(f"WEBGPU: no {kind.lower()}: {why or 'Dawn gives no reason'}")
        return Handle(pointer, self._bind(f"wgpu{kind}Release"))

    def finish(self, queue: Handle) -> None:
        """Wait until everything that was submitted has finished."""
        self.ended("wgpuQueueOnSubmittedWorkDone*", self.api.work_done, queue)

    def map(self, buffer: Handle, nbytes: int) -> int:
        """The host's address of a buffer that can be read. Raises DeviceError."""
        status = self.ended("wgpuBufferMapAsync*", Ended, buffer, _MAP_TO_READ, 0, nbytes)
        if status != _SUCCESS:
            raise DeviceError(f"WEBGPU: could not read a buffer: Dawn gives status {status}")
        return self.call("wgpuBufferGetConstMappedRange", buffer, 0, nbytes)

    # -- errors ---------------------------------------------------------------------------------

    @contextmanager
    def checked(self, device: Handle, what: str) -> Iterator[None]:
        """Raises DeviceError, OutOfMemory for lack of it, if Dawn refuses what is done inside."""
        scopes = (_INTERNAL_SCOPE, _MEMORY_SCOPE, _VALIDATION_SCOPE)
        for scope in scopes:
            self.call("wgpuDevicePushErrorScope", device, scope)
        errors: list[tuple[int, str]] = []
        try:
            yield
        finally:
            uninterrupted(lambda: [self._pop(device, errors) for _ in scopes])
        for kind, why in errors:
            if kind == _OUT_OF_MEMORY:
                raise OutOfMemory(f"WEBGPU: no memory to {what}: {why}")
            if kind > _NO_ERROR:
                raise DeviceError(f"WEBGPU: could not {what}: {why}")

    def _pop(self, device: Handle, errors: list[tuple[int, str]]) -> None:
        """Ends the innermost error scope, and adds what it has seen to `errors`."""
        self.wait(
            "wgpuDevicePopErrorScope*", SCOPE,
            lambda status, kind, why, *_: errors.append((kind, why.text())),
            device,
        )  # fmt: skip
