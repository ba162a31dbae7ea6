"""The structures and functions of webgpu.h that treadle uses, in both generations.

Layouts are those of Dawn's headers: chromium/6940 of December 2024, and the current one. ctypes
adds the padding that C does.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import CFUNCTYPE, POINTER, Structure, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

__all__ = [
    "FEATURES", "LIMITS", "Api", "BindGroupDescriptor", "BindGroupEntry",
    "BindGroupLayoutDescriptor", "BufferDescriptor", "CallbackInfo", "Chained",
    "ComputePassDescriptor", "ComputePipelineDescriptor", "Ended", "FutureWaitInfo",
    "PipelineLayoutDescriptor", "QuerySetDescriptor", "ShaderModuleDescriptor", "ShaderSource",
    "StringView", "Toggles", "api_of", "function_of",
]  # fmt: skip

_CHAIN = ("next", c_void_p)


class StringView(Structure):
    """Text with a length; -1 stands for "up to the zero byte"."""

    _fields_ = [("data", c_void_p), ("length", c_size_t)]

    def text(self) -> str:
        """The text."""
        if not self.data:
            return ""
        size = -1 if self.length == ctypes.c_size_t(-1).value else self.length
        return ctypes.string_at(self.data, size).decode("utf-8", "replace")


_LABEL = ("label", StringView)


class Chained(Structure):
    """The head of an extension structure."""

    _fields_ = [_CHAIN, ("kind", c_uint32)]


class ShaderSource(Structure):
    """WGSL text."""

    KIND = 2
    _fields_ = [("chain", Chained), ("code", StringView)]


class Toggles(Structure):
    """Dawn's own switches, by name."""

    KIND = 0x5000A
    _fields_ = [
        ("chain", Chained), ("enabled_count", c_size_t), ("enabled", c_void_p),
        ("disabled_count", c_size_t), ("disabled", c_void_p),
    ]  # fmt: skip


class CallbackInfo(Structure):
    """Whom to call when something that takes time is done."""

    _fields_ = [
        _CHAIN, ("mode", c_uint32), ("callback", c_void_p), ("user1", c_void_p),
        ("user2", c_void_p),
    ]  # fmt: skip


class _ErrorCallbackInfo(Structure):
    _fields_ = [_CHAIN, ("callback", c_void_p), ("user1", c_void_p), ("user2", c_void_p)]


class FutureWaitInfo(Structure):
    """A future to wait for."""

    _fields_ = [("future", c_uint64), ("completed", c_uint32)]


class ShaderModuleDescriptor(Structure):
    """A module; its source is chained to it."""

    _fields_ = [_CHAIN, _LABEL]


class _BufferLayout(Structure):
    _fields_ = [
        _CHAIN, ("type", c_uint32), ("dynamic", c_uint32), ("least", c_uint64),
    ]  # fmt: skip


class _Opaque16(Structure):
    _fields_ = [("words", c_uint64 * 2)]


class _Opaque24(Structure):
    _fields_ = [("words", c_uint64 * 3)]


_OTHER_LAYOUTS = [("sampler", _Opaque16), ("texture", _Opaque24), ("storage", _Opaque24)]


class _OldLayoutEntry(Structure):
    _fields_ = [
        _CHAIN, ("binding", c_uint32), ("visibility", c_uint64), ("buffer", _BufferLayout),
        *_OTHER_LAYOUTS,
    ]  # fmt: skip


class _LayoutEntry(Structure):
    _fields_ = [
        _CHAIN, ("binding", c_uint32), ("visibility", c_uint64), ("array_size", c_uint32),
        ("buffer", _BufferLayout), *_OTHER_LAYOUTS,
    ]  # fmt: skip


class BindGroupLayoutDescriptor(Structure):
    """What kinds of buffers a pipeline takes."""

    _fields_ = [_CHAIN, _LABEL, ("count", c_size_t), ("entries", c_void_p)]


class PipelineLayoutDescriptor(Structure):
    """The bind group layouts of a pipeline."""

    _fields_ = [_CHAIN, _LABEL, ("count", c_size_t), ("layouts", c_void_p), ("more", c_uint32)]


class _ComputeState(Structure):
    _fields_ = [
        _CHAIN, ("module", c_void_p), ("entry_point", StringView), ("count", c_size_t),
        ("constants", c_void_p),
    ]  # fmt: skip


class ComputePipelineDescriptor(Structure):
    """A compute pipeline."""

    _fields_ = [_CHAIN, _LABEL, ("layout", c_void_p), ("compute", _ComputeState)]


class BindGroupEntry(Structure):
    """A part of a buffer, bound."""

    _fields_ = [
        _CHAIN, ("binding", c_uint32), ("buffer", c_void_p), ("offset", c_uint64),
        ("size", c_uint64), ("sampler", c_void_p), ("view", c_void_p),
    ]  # fmt: skip


class BindGroupDescriptor(Structure):
    """Buffers for all bindings of a layout."""

    _fields_ = [
        _CHAIN, _LABEL, ("layout", c_void_p), ("count", c_size_t), ("entries", c_void_p),
    ]  # fmt: skip


class BufferDescriptor(Structure):
    """A buffer."""

    _fields_ = [
        _CHAIN, _LABEL, ("usage", c_uint64), ("size", c_uint64), ("mapped", c_uint32),
    ]  # fmt: skip


class QuerySetDescriptor(Structure):
    """Places for timestamps."""

    _fields_ = [_CHAIN, _LABEL, ("type", c_uint32), ("count", c_uint32)]


class ComputePassDescriptor(Structure):
    """A compute pass; `timestamps` may be null."""

    _fields_ = [_CHAIN, _LABEL, ("timestamps", c_void_p)]


class _OldTimestamps(Structure):
    _fields_ = [("queries", c_void_p), ("begin", c_uint32), ("end", c_uint32)]


class _Timestamps(Structure):
    _fields_ = [_CHAIN, *_OldTimestamps._fields_]


class _OldInstanceDescriptor(Structure):
    # what stands inside is itself a structure: chain, whether timed waits work, how many
    _fields_ = [
        _CHAIN, ("features", c_void_p), ("timed_wait", c_uint32), ("most", c_size_t),
    ]  # fmt: skip


class _InstanceDescriptor(Structure):
    _fields_ = [
        _CHAIN, ("count", c_size_t), ("features", c_void_p), ("limits", c_void_p),
    ]  # fmt: skip


class _OldAdapterOptions(Structure):
    _fields_ = [
        _CHAIN, ("surface", c_void_p), ("level", c_uint32), ("power", c_uint32),
        ("backend", c_uint32), ("fallback", c_uint32), ("compatibility", c_uint32),
    ]  # fmt: skip


class _AdapterOptions(Structure):
    _fields_ = [
        _CHAIN, ("level", c_uint32), ("power", c_uint32), ("fallback", c_uint32),
        ("backend", c_uint32), ("surface", c_void_p),
    ]  # fmt: skip


_SUBGROUP_SIZES = [("subgroup_least", c_uint32), ("subgroup_most", c_uint32)]


class _AdapterInfo(Structure):
    _fields_ = [
        _CHAIN, ("vendor", StringView), ("architecture", StringView), ("device", StringView),
        ("description", StringView), ("backend", c_uint32), ("type", c_uint32),
        ("vendor_id", c_uint32), ("device_id", c_uint32), *_SUBGROUP_SIZES,
    ]  # fmt: skip


class _SubgroupSizes(Structure):
    """What is chained to the old AdapterInfo; the current one has it inside."""

    KIND = 10
    _fields_ = [("chain", Chained), *_SUBGROUP_SIZES]


class _Features(Structure):
    _fields_ = [("count", c_size_t), ("features", POINTER(c_uint32))]


class _DeviceDescriptor(Structure):
    _fields_ = [
        _CHAIN, _LABEL, ("feature_count", c_size_t), ("features", c_void_p),
        ("limits", c_void_p), ("queue", c_void_p), ("queue_label", StringView),
        ("lost", CallbackInfo), ("errors", _ErrorCallbackInfo),
    ]  # fmt: skip


_SHARED_LIMITS = (
    "texture_1d", "texture_2d", "texture_3d", "layers", "groups", "groups_and_vertex_buffers",
    "bindings", "dynamic_uniform", "dynamic_storage", "sampled", "samplers", "storage_buffers",
    "storage_textures", "uniform_buffers",
)  # fmt: skip
_COMPUTE_LIMITS = (
    "shared_bytes",
    "work_items",
    "work_items_x",
    "work_items_y",
    "work_items_z",
    "workgroups_each",
)
LIMITS = ("storage_buffers", "storage_bytes", "buffer_bytes", *_COMPUTE_LIMITS)


def _limits(between: int, after: int) -> type[Structure]:
    """The limits structure with so many numbers that only one generation has."""

    class Limits(Structure):
        _fields_ = [
            _CHAIN, *((name, c_uint32) for name in _SHARED_LIMITS), ("uniform_bytes", c_uint64),
            ("storage_bytes", c_uint64), ("uniform_alignment", c_uint32),
            ("storage_alignment", c_uint32), ("vertex_buffers", c_uint32),
            ("buffer_bytes", c_uint64), ("vertex_attributes", c_uint32),
            ("vertex_stride", c_uint32), ("between", c_uint32 * between),
            ("color_attachments", c_uint32), ("color_bytes", c_uint32),
            *((name, c_uint32) for name in _COMPUTE_LIMITS), ("after", c_uint32 * after),
        ]  # fmt: skip

    return Limits


class Ended(Structure):
    """What a callback is told of something that has ended, its status first.

    `function_of(Ended)(ended.__init__)` is such a callback, and fills this.
    """

    _fields_ = [
        ("status", c_uint32), ("why", StringView), ("user1", c_void_p), ("user2", c_void_p),
    ]  # fmt: skip


class _OldEnded(Structure):
    _fields_ = [("status", c_uint32), ("user1", c_void_p), ("user2", c_void_p)]


@functools.cache
def function_of(told: type[Structure]) -> type[CFuncPtr]:
    """The type of a callback whose arguments are the fields of a structure."""
    return CFUNCTYPE(None, *(field[1] for field in told._fields_))


# Callbacks, all with two words of the user's at the end.
MADE = CFUNCTYPE(None, c_uint32, c_void_p, StringView, c_void_p, c_void_p)
SCOPE = CFUNCTYPE(None, c_uint32, c_uint32, StringView, c_void_p, c_void_p)
TOLD = CFUNCTYPE(None, c_void_p, c_uint32, StringView, c_void_p, c_void_p)

FEATURES = ("shader-f16", "timestamp-query", "subgroups")


@dataclass(frozen=True)
class Api:
    """What differs between the generations.

    `suffix` ends the names of functions that take a CallbackInfo; `features` and `bindings` are
    numbers of enumerations, `work_done` is what one is told once a queue has finished.
    """

    suffix: str
    layout_entry: type[Structure]
    timestamps: type[Structure]
    adapter_options: type[Structure]
    limits: type[Structure]
    work_done: type[Structure]
    features: dict[str, int]
    bindings: dict[str, int]

    adapter_info = _AdapterInfo
    feature_list = _Features
    device_descriptor = _DeviceDescriptor

    def subgroup_sizes(self, info: Structure) -> Structure:
        """Where the sizes of subgroups are, once `info` is filled: for adapters that offer them."""
        if not self.suffix:
            return info
        sizes = _SubgroupSizes(chain=Chained(kind=_SubgroupSizes.KIND))
        info.next = ctypes.addressof(sizes)
        return sizes

    def instance_descriptor(self, keep: list[object]) -> Structure:
        """A descriptor of an instance whose futures can be waited for with a timeout."""
        if self.suffix:
            return _OldInstanceDescriptor(timed_wait=1)
        timed_wait = c_uint32(1)
        keep.append(timed_wait)
        return _InstanceDescriptor(count=1, features=ctypes.addressof(timed_wait))


_OLD = Api(
    suffix="2",
    layout_entry=_OldLayoutEntry,
    timestamps=_OldTimestamps,
    adapter_options=_OldAdapterOptions,
    limits=_limits(2, 4),
    work_done=_OldEnded,
    features={"timestamp-query": 3, "shader-f16": 8, "subgroups": 13},
    bindings={"uniform": 1, "write": 2, "read": 3},
)
_CURRENT = Api(
    suffix="",
    layout_entry=_LayoutEntry,
    timestamps=_Timestamps,
    adapter_options=_AdapterOptions,
    limits=_limits(1, 1),
    work_done=Ended,
    features={"timestamp-query": 9, "shader-f16": 11, "subgroups": 18},
    bindings={"uniform": 2, "write": 3, "read": 4},
)


def api_of(is_current: bool) -> Api:
    """The structures of one generation."""
    return _CURRENT if is_current else _OLD
