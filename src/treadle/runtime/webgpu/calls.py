"""Launches on WebGPU: bind groups made once, recorded and submitted as one command buffer.

    calls = device.call_list(launches)
    calls.set_arg(0, 1, other_buffer)   # remakes the bind groups of launch 0 at the next run
    calls.run()

One surprise: WebGPU's command buffers serve once, so a replay records its commands again.
"""

from __future__ import annotations

import ctypes
import time
from array import array
from typing import TYPE_CHECKING, NamedTuple, Protocol

from treadle.runtime.webgpu.memory import (
    COPY_SOURCE,
    COPY_TARGET,
    MAP_READ,
    QUERY_RESOLVE,
    UNIFORM,
    WebGPUBuffer,
    make_buffer,
)
from treadle.runtime.webgpu.structures import (
    BindGroupDescriptor,
    BindGroupEntry,
    ComputePassDescriptor,
    QuerySetDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from treadle.runtime.base import Entry, Launch
    from treadle.runtime.presence import Presence
    from treadle.runtime.webgpu.adapter import Facts
    from treadle.runtime.webgpu.dawn import Dawn, Handle
    from treadle.target import Target

__all__ = ["Phase", "WebGPUCallList"]

_TIMESTAMPS = 2


class Phase(NamedTuple):
    """One pipeline. `parts` are (slot number, offset) of its bindings, in their order."""

    pipeline: Handle
    layout: Handle
    entry: Entry
    parts: list[tuple[int, int]]
    workgroups: tuple[int, int]


class _Device(Protocol):
    """What a list of launches asks of its device, a WebGPUDevice."""

    dawn: Dawn
    facts: Facts
    target: Target
    handle: Handle
    queue: Handle

    @property
    def presence(self) -> Presence: ...
    @property
    def lock(self) -> AbstractContextManager[object]: ...
    def encoder(self) -> Handle: ...
    def submit(self, encoder: Handle) -> None: ...
    def synchronize(self) -> None: ...


class WebGPUCallList:
    """Launches that can be replayed."""

    def __init__(self, device: _Device, launches: Sequence[Launch], keep: object) -> None:
        self._device, self._keep = device, keep
        self._phases: list[list[Phase]] = [list(launch.phases) for launch in launches]
        self._args = [list(launch.args) for launch in launches]
        self._vars = [list(launch.vars) for launch in launches]
        self._uniforms: dict[tuple[int, int], Handle] = {}
        self._groups: list[list[Handle] | None] = [None] * len(launches)
        self._lock = device.lock

    def __len__(self) -> int:
        return len(self._phases)

    def set_arg(self, call: int, slot: int, argument: WebGPUBuffer) -> None:
        """Replaces the memory in argument `slot` of launch `call`."""
        self._args[call][slot] = argument
        self._groups[call] = None

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Replaces the integer in variable `slot` of launch `call`."""
        self._vars[call][slot] = value
        with self._lock:
            self._refill(call)

    def _refill(self, call: int) -> None:
        for number, phase in enumerate(self._phases[call]):
            uniform = self._uniforms.get((call, number))
            if uniform is not None:
                self._fill(uniform, phase, call)

    def run(self) -> None:
        """Submits every launch; the device starts at once and goes on by itself."""
        device = self._device
        device.presence.check()
        if not self._phases:
            return
        dawn = device.dawn
        with self._lock:
            encoder = device.encoder()
            work = dawn.make(
                "ComputePassEncoder", "wgpuCommandEncoderBeginComputePass", encoder, None
            )
            for call in range(len(self._phases)):
                self._record(work, call)
            dawn.call("wgpuComputePassEncoderEnd", work)
            device.submit(encoder)

    def _record(self, work: Handle, call: int) -> None:
        dispatch = self._device.dawn.call
        for phase, group in zip(self._phases[call], self._bound(call), strict=True):
            dispatch("wgpuComputePassEncoderSetPipeline", work, phase.pipeline)
            dispatch("wgpuComputePassEncoderSetBindGroup", work, 0, group, 0, None)
            dispatch("wgpuComputePassEncoderDispatchWorkgroups", work, *phase.workgroups, 1)

    def run_timed(self) -> list[tuple[int, int]]:
        """Runs every launch; start and end of each in ns, by the device's clock if it has one."""
        device = self._device
        device.presence.check()
        with self._lock:
            if "timestamp-query" in device.facts.features and self._phases:
                return self._timestamped()
            times = []
            for call in range(len(self._phases)):
                device.synchronize()
                start = time.monotonic_ns()
                encoder = device.encoder()
                self._pass(encoder, call, None)
                device.submit(encoder)
                device.synchronize()
                times.append((start, time.monotonic_ns()))
            return times

    # -- bind groups ------------------------------------------------------------------------------

    def _bound(self, call: int) -> list[Handle]:
        """The bind groups of a launch's phases."""
        found = self._groups[call]
        if found is None:
            phases = enumerate(self._phases[call])
            found = [self._bind(call, number, phase) for number, phase in phases]
            self._device.presence.check()  # it is told at once of what cannot be bound
            self._groups[call] = found
        return found

    def _bind(self, call: int, number: int, phase: Phase) -> Handle:
        largest = self._device.target.max_binding or 0
        entries = (BindGroupEntry * (len(phase.parts) + 1))()
        count = 0
        for slot, offset in phase.parts:
            buffer = self._args[call][slot]
            entry = entries[count]
            entry.binding, entry.buffer, entry.offset = count, buffer.handle.pointer, offset
            entry.size = min(largest, buffer.size - offset)
            count += 1
        if phase.entry.variables:
            uniform = self._uniform(call, number, phase)
            entry = entries[count]
            entry.binding, entry.buffer = count, uniform.pointer
            entry.size = _uniform_bytes(phase)
            count += 1
        descriptor = BindGroupDescriptor(
            layout=phase.layout.pointer, count=count, entries=ctypes.addressof(entries)
        )
        device = self._device
        return device.dawn.make(
            "BindGroup", "wgpuDeviceCreateBindGroup", device.handle, ctypes.byref(descriptor)
        )

    def _uniform(self, call: int, number: int, phase: Phase) -> Handle:
        found = self._uniforms.get((call, number))
        if found is None:
            device = self._device
            found = make_buffer(
                device.dawn, device.handle, _uniform_bytes(phase), UNIFORM | COPY_TARGET
            )
            self._uniforms[call, number] = found
            self._fill(found, phase, call)
        return found

    def _fill(self, uniform: Handle, phase: Phase, call: int) -> None:
        values = array("i", (self._vars[call][place] for place in phase.entry.variables))
        address, count = values.buffer_info()
        device = self._device
        device.dawn.call("wgpuQueueWriteBuffer", device.queue, uniform, 0, address, 4 * count)

    # -- times ------------------------------------------------------------------------------------

    def _pass(self, encoder: Handle, call: int, writes: ctypes.Structure | None) -> None:
        """Record one launch as a pass of its own."""
        dawn = self._device.dawn
        address = None if writes is None else ctypes.addressof(writes)
        descriptor = ComputePassDescriptor(timestamps=address)
        work = dawn.make(
            "ComputePassEncoder", "wgpuCommandEncoderBeginComputePass", encoder,
            ctypes.byref(descriptor),
        )  # fmt: skip
        self._record(work, call)
        dawn.call("wgpuComputePassEncoderEnd", work)

    def _timestamped(self) -> list[tuple[int, int]]:
        device, count = self._device, 2 * len(self._phases)
        dawn = device.dawn
        queries = dawn.make(
            "QuerySet", "wgpuDeviceCreateQuerySet", device.handle,
            ctypes.byref(QuerySetDescriptor(type=_TIMESTAMPS, count=count)),
        )  # fmt: skip
        nbytes = 8 * count
        resolved = make_buffer(dawn, device.handle, nbytes, QUERY_RESOLVE | COPY_SOURCE)
        seen = make_buffer(dawn, device.handle, nbytes, MAP_READ | COPY_TARGET)
        encoder = device.encoder()
        for call in range(len(self._phases)):
            writes = dawn.api.timestamps(queries=queries.pointer, begin=2 * call, end=2 * call + 1)
            self._pass(encoder, call, writes)
        dawn.call("wgpuCommandEncoderResolveQuerySet", encoder, queries, 0, count, resolved, 0)
        dawn.call("wgpuCommandEncoderCopyBufferToBuffer", encoder, resolved, 0, seen, 0, nbytes)
        device.submit(encoder)
        device.synchronize()
        address = dawn.map(seen, nbytes)
        times = list((ctypes.c_uint64 * count).from_address(address))
        dawn.call("wgpuBufferUnmap", seen)
        return list(zip(times[::2], times[1::2], strict=True))


def _uniform_bytes(phase: Phase) -> int:
    """Bytes of a phase's integers, in whole vectors of four."""
    return -(-len(phase.entry.variables) // 4) * 16
