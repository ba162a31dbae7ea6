"""A WebGPU device: pipelines made once, bind groups kept, one submission for a whole replay.

    device = WebGPUDevice("WEBGPU")
    library = device.load(b"@compute ... fn f() {...}", [Entry("f", grid=8, work_items=64,
    slots=...)]) device.run([Launch(library.phases, [buffer.argument])])

Each entry's bindings are numbered from 0: one for each slot (several for a slot that is larger than
a binding can be), then one uniform buffer with the launch's integers, if it takes any. Groups are
spread over two dimensions where there are more than one allows.

One surprise: an error inside Dawn arrives some time after its cause. The next call raises it.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, NamedTuple

from treadle.errors import DeviceError, InternalError
from treadle.forks import fork_safe
from treadle.runtime.presence import Presence, finish_first
from treadle.runtime.webgpu.adapter import limits_of, open_adapter, target_of
from treadle.runtime.webgpu.calls import Phase, WebGPUCallList
from treadle.runtime.webgpu.dawn import Handle, view_of
from treadle.runtime.webgpu.memory import (
    COPY_TARGET,
    MAP_READ,
    WebGPUAllocator,
    WebGPUBuffer,
    make_buffer,
)
from treadle.runtime.webgpu.structures import (
    TOLD,
    BindGroupLayoutDescriptor,
    CallbackInfo,
    Chained,
    ComputePipelineDescriptor,
    PipelineLayoutDescriptor,
    ShaderModuleDescriptor,
    ShaderSource,
    StringView,
    Toggles,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.runtime.base import Entry, Launch

__all__ = ["WebGPUDevice"]

_SPONTANEOUS = 3
_COMPUTE_STAGE = 4
_CHUNK = 1 << 26  # bytes that one read moves at a time


_callbacks: list[object] = []  # Dawn calls them even while a device is released


class _News(Presence):
    """What Dawn tells of one device: why it was lost, and errors that nobody has raised yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "Dawn")
        self._errors: list[str] = []

    def check(self) -> None:
        """Raises DeviceError for what went wrong since the last call, too."""
        super().check()
        if self._errors:
            told, self._errors = self._errors, []
            raise DeviceError(f"{self.name}: {told[0]}")

    def callbacks(self) -> list[int | None]:
        """The addresses of two functions for Dawn, which are never freed."""
        made = (TOLD(self._on_lost), TOLD(self._on_error))
        _callbacks.extend(made)
        return [ctypes.cast(function, ctypes.c_void_p).value for function in made]

    def _on_lost(self, device: object, reason: int, why: StringView, *_: object) -> None:
        self.lose(why.text() or f"reason {reason}")

    def _on_error(self, device: object, kind: int, why: StringView, *_: object) -> None:
        self._errors.append(why.text())


class _Library(NamedTuple):
    """Compiled code: its phases are what launches take."""

    phases: list[Phase]


class WebGPUDevice:
    """A device of the adapter that Dawn prefers. Devices of several indices share the adapter.

    `arch` says whether kernels use subgroups, as in `target_of`.
    """

    has_addresses = False
    shares_memory = False
    takes_host_memory = False
    kernel_bytes = 3 << 18  # as much as Mesa's pipelines on a processor
    is_software: bool
    handle: Handle
    queue: Handle
    allocator: WebGPUAllocator

    def __init__(self, name: str, index: int = 0, arch: str | None = None) -> None:
        self.name = name
        # Dawn's devices are for one thread at a time: whoever calls them holds this.
        self.lock = fork_safe(threading.RLock())
        self.dawn, adapter, self.facts = open_adapter()
        self.is_software = self.facts.is_software
        self.target = target_of(self.facts, arch)
        self.presence = _News(name)
        self.handle = self._open(adapter)
        self.queue = self.dawn.make("Queue", "wgpuDeviceGetQueue", self.handle)
        self.allocator = WebGPUAllocator(
            self.presence, self.dawn, self.handle, self.facts.limits["buffer_bytes"], self.lock
        )
        self._staging: Handle | None = None
        self._staging_size = 0
        finish_first(self)

    def _open(self, adapter: Handle) -> Handle:
        api, keep = self.dawn.api, []
        limits = limits_of(self.dawn, adapter)
        limits.next = None
        names = sorted(self.facts.features)
        features = (ctypes.c_uint32 * len(names))(*(api.features[name] for name in names))
        descriptor = api.device_descriptor(
            next=_exact_times(keep), feature_count=len(names),
            features=ctypes.addressof(features), limits=ctypes.addressof(limits),
        )  # fmt: skip
        lost, errors = self.presence.callbacks()
        descriptor.lost = CallbackInfo(mode=_SPONTANEOUS, callback=lost)
        descriptor.errors.callback = errors
        return self.dawn.request(
            "Device", "wgpuAdapterRequestDevice*", adapter, ctypes.byref(descriptor)
        )

    # -- code -----------------------------------------------------------------------------------

    def load(self, code: bytes, entries: Sequence[Entry]) -> _Library:
        """Pipelines for the entries of a WGSL module. Raises InternalError if Dawn rejects it."""
        self.presence.check()
        with self.lock:
            return self._load(code, entries)

    def _load(self, code: bytes, entries: Sequence[Entry]) -> _Library:
        keep: list[object] = []
        source = ShaderSource(
            chain=Chained(kind=ShaderSource.KIND), code=view_of(code.decode(), keep)
        )
        descriptor = ShaderModuleDescriptor(next=ctypes.addressof(source))
        try:
            with self.dawn.checked(self.handle, "compile WGSL"):
                module = self.dawn.make(
                    "ShaderModule", "wgpuDeviceCreateShaderModule", self.handle,
                    ctypes.byref(descriptor),
                )  # fmt: skip
        except DeviceError as error:
            raise InternalError(
                f"Dawn rejected generated code: {error}\n{code.decode()}"
            ) from error
        return _Library([self._phase(module, entry) for entry in entries])

    def _phase(self, module: Handle, entry: Entry) -> Phase:
        parts, kinds = [], []
        largest = self.target.max_binding or entry.grid
        for slot in entry.slots:
            count = max(1, -(-slot.nbytes // largest))
            parts += [(slot.number, largest * number) for number in range(count)]
            kinds += ["write" if slot.is_written else "read"] * count
        kinds += ["uniform"] if entry.variables else []
        most = self.facts.limits["workgroups_each"]
        wide = max(1, min(entry.grid, most))
        workgroups = (wide, -(-entry.grid // wide))
        if workgroups[1] > most:
            raise DeviceError(f"{self.name}: {entry.grid} workgroups are more than {most}²")
        with self.dawn.checked(self.handle, f"make the pipeline {entry.symbol}"):
            layout = self._layout(kinds)
            pipeline = self._pipeline(module, entry.symbol, layout)
        return Phase(pipeline, layout, entry, parts, workgroups)

    def _layout(self, kinds: list[str]) -> Handle:
        api = self.dawn.api
        entries = (api.layout_entry * max(1, len(kinds)))()
        for number, kind in enumerate(kinds):
            entries[number].binding = number
            entries[number].visibility = _COMPUTE_STAGE
            entries[number].buffer.type = api.bindings[kind]
        descriptor = BindGroupLayoutDescriptor(count=len(kinds), entries=ctypes.addressof(entries))
        return self.dawn.make(
            "BindGroupLayout", "wgpuDeviceCreateBindGroupLayout", self.handle,
            ctypes.byref(descriptor),
        )  # fmt: skip

    def _pipeline(self, module: Handle, name: str, layout: Handle) -> Handle:
        keep: list[object] = []
        layouts = (ctypes.c_void_p * 1)(layout.pointer)
        whole = self.dawn.make(
            "PipelineLayout", "wgpuDeviceCreatePipelineLayout", self.handle,
            ctypes.byref(PipelineLayoutDescriptor(count=1, layouts=ctypes.addressof(layouts))),
        )  # fmt: skip
        descriptor = ComputePipelineDescriptor(layout=whole.pointer)
        descriptor.compute.module = module.pointer
        descriptor.compute.entry_point = view_of(name, keep)
        return self.dawn.make(
            "ComputePipeline", "wgpuDeviceCreateComputePipeline", self.handle,
            ctypes.byref(descriptor),
        )  # fmt: skip

    # -- launches -------------------------------------------------------------------------------

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> WebGPUCallList:
        """Launches with their bind groups made, which a replay encodes and submits."""
        self.presence.check()
        return WebGPUCallList(self, launches, keep)

    def run(self, launches: Sequence[Launch]) -> None:
        """Submits launches once, in order."""
        self.call_list(launches).run()

    def submit(self, encoder: Handle) -> None:
        """Hand everything that was encoded to the device."""
        commands = self.dawn.make("CommandBuffer", "wgpuCommandEncoderFinish", encoder, None)
        one = (ctypes.c_void_p * 1)(commands.pointer)
        self.dawn.call("wgpuQueueSubmit", self.queue, 1, one)

    def encoder(self) -> Handle:
        """Something to record commands with."""
        return self.dawn.make("CommandEncoder", "wgpuDeviceCreateCommandEncoder", self.handle, None)

    def synchronize(self) -> None:
        """Returns when everything that was submitted has finished."""
        self.presence.check()
        with self.lock:
            self.dawn.finish(self.queue)
        self.presence.check()

    # -- memory ---------------------------------------------------------------------------------

    def write(self, buffer: WebGPUBuffer, data: memoryview) -> None:
        """Copies host bytes to the start of a buffer, after the work submitted before."""
        self.presence.check()
        whole = data.nbytes // 4 * 4
        if whole:
            self._write(buffer, 0, data.cast("B")[:whole])
        if whole < data.nbytes:  # only whole words are written: the rest of the last one stays
            word = bytearray(4)
            if data.nbytes < buffer.nbytes:
                self._read(buffer, whole, memoryview(word))
            word[: data.nbytes - whole] = data.cast("B")[whole:]
            self._write(buffer, whole, memoryview(word))

    def _write(self, buffer: WebGPUBuffer, offset: int, data: memoryview) -> None:
        import numpy as np

        source = np.frombuffer(data, np.uint8)
        with self.lock:
            self.dawn.call(
                "wgpuQueueWriteBuffer", self.queue, buffer.handle, offset, source.ctypes.data,
                source.nbytes,
            )  # fmt: skip

    def read(self, buffer: WebGPUBuffer, into: memoryview) -> None:
        """Copies the start of a buffer to the host, by way of a buffer that can be mapped."""
        self.presence.check()
        target = into.cast("B")
        for start in range(0, into.nbytes, _CHUNK):
            count = min(_CHUNK, into.nbytes - start)
            self._read(buffer, start, target[start : start + count])
        self.presence.check()

    def _read(self, buffer: WebGPUBuffer, offset: int, target: memoryview) -> None:
        padded = -(-target.nbytes // 4) * 4
        with self.lock:
            staging = self._staging_buffer(padded)
            encoder = self.encoder()
            self.dawn.call(
                "wgpuCommandEncoderCopyBufferToBuffer", encoder, buffer.handle, offset, staging, 0,
                padded,
            )  # fmt: skip
            self.submit(encoder)
            try:
                address = self._mapped(staging, padded)
                mapped = (ctypes.c_uint8 * target.nbytes).from_address(address)
                target[:] = memoryview(mapped).cast("B")
            finally:
                self.dawn.call("wgpuBufferUnmap", staging)

    def _mapped(self, staging: Handle, nbytes: int) -> int:
        """Where the host finds a buffer's bytes. Raises DeviceError, for a lost device as such."""
        try:
            return self.dawn.map(staging, nbytes)
        except DeviceError:
            self.presence.check()
            raise

    def _staging_buffer(self, nbytes: int) -> Handle:
        """Memory that the host can read, kept for the next time."""
        if self._staging is None or self._staging_size < nbytes:
            size = 1 << max(16, (nbytes - 1).bit_length())
            self._staging = make_buffer(self.dawn, self.handle, size, MAP_READ | COPY_TARGET)
            self._staging_size = size
        return self._staging


def _exact_times(keep: list[object]) -> int:
    """The address of switches that turn off the rounding of timestamps to 100 microseconds."""
    name = ctypes.create_string_buffer(b"timestamp_quantization")
    names = (ctypes.c_void_p * 1)(ctypes.addressof(name))
    toggles = Toggles(
        chain=Chained(kind=Toggles.KIND), disabled_count=1, disabled=ctypes.addressof(names)
    )
    keep += [name, names, toggles]
    return ctypes.addressof(toggles)
