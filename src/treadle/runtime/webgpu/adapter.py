"""Which adapter Dawn offers, what it can do, and the Target that says so.

    open_adapter()   ->  (Dawn, its adapter, Facts(name="llvmpipe ...", is_software=True, ...))

The backend is Dawn's choice, unless WEBGPU_BACKEND names one: Vulkan, Metal, D3D12, ...
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from treadle.dtype import dtypes
from treadle.errors import DeviceError, SettingError
from treadle.runtime.webgpu.dawn import Dawn, Handle
from treadle.runtime.webgpu.library import find_library
from treadle.runtime.webgpu.structures import LIMITS
from treadle.target import Target, Workgroup

__all__ = ["Facts", "backend_type", "dawn", "describe", "open_adapter", "target_of"]

_BACKENDS = {3: "D3D11", 4: "D3D12", 5: "Metal", 6: "Vulkan", 7: "OpenGL", 8: "OpenGLES"}
_KINDS = {1: "discrete GPU", 2: "integrated GPU", 3: "software"}
_HIGH_PERFORMANCE, _CORE = 2, 2
# The backends that a system can have, and what brings a driver of one.
_OF_SYSTEM = {
    "linux": ("Vulkan", "OpenGL", "OpenGLES"), "darwin": ("Metal",),
    "win32": ("D3D12", "D3D11", "Vulkan", "OpenGL"),
}  # fmt: skip
_DEBIAN = "`apt-get install --no-install-recommends libvulkan1 mesa-vulkan-drivers` brings a driver"
_LINUX = "install a Vulkan driver of your system, such as Mesa's, and Vulkan's loader"
MAX_LANES = 4  # WGSL's widest vector
# Mesa's llvmpipe ends all loops of a work item after so many steps (LP_MAX_TGSI_LOOP_ITERATIONS).
LLVMPIPE_STEPS = 65535


@dataclass(frozen=True)
class Facts:
    """One adapter. `limits` has the names of structures.LIMITS, sizes in bytes.

    `subgroup` holds the least and the most work items of a subgroup, None where there are none.
    """

    name: str
    vendor: str
    kind: str
    backend: str
    library: str
    features: frozenset[str]
    limits: dict[str, int]
    subgroup: tuple[int, int] | None

    @property
    def is_software(self) -> bool:
        """A processor that plays the GPU."""
        return self.kind == "software"


def backend_type(text: str) -> int:
    """The number of a backend, "Vulkan" or "WGPUBackendType_Vulkan". Raises SettingError."""
    name = text.removeprefix("WGPUBackendType_").upper()
    if not name:
        return 0
    numbers = {known.upper(): number for number, known in _BACKENDS.items()}
    if name not in numbers:
        known = ", ".join(_BACKENDS.values())
        raise SettingError(f"WEBGPU_BACKEND={text} is not allowed: it is one of {known}")
    return numbers[name]


@cache
def dawn() -> Dawn:
    """The process's Dawn. Raises DeviceError if there is none."""
    return Dawn(find_library())


def open_adapter() -> tuple[Dawn, Handle, Facts]:
    """Ask Dawn for an adapter. Raises DeviceError, which says what is missing."""
    wished = backend_type(os.environ.get("WEBGPU_BACKEND", ""))
    with _runtime_folder():
        return _open(dawn(), wished)


@contextmanager
def _runtime_folder() -> Iterator[None]:
    """Mesa's drivers complain on stderr where XDG_RUNTIME_DIR is missing; they write nothing."""
    name = "XDG_RUNTIME_DIR"
    missing = sys.platform.startswith("linux") and name not in os.environ
    if missing:
        os.environ[name] = tempfile.gettempdir()
    try:
        yield
    finally:
        if missing:
            del os.environ[name]


def _open(found: Dawn, wished: int) -> tuple[Dawn, Handle, Facts]:
    options = found.api.adapter_options(level=_CORE, power=_HIGH_PERFORMANCE, backend=wished)
    try:
        adapter = found.request(
            "Adapter", "wgpuInstanceRequestAdapter*", found.instance, ctypes.byref(options)
        )
        facts = _facts(found, adapter)
        if facts.backend not in _BACKENDS.values():  # Dawn's own stand-in, which computes nothing
            raise DeviceError("WEBGPU: no adapter: no driver that Dawn accepts was found")
    except DeviceError as error:
        raise DeviceError(f"{error} (Dawn from {found.library.origin}){_advice(wished)}") from None
    return found, adapter, facts


def _advice(wished: int) -> str:
    """What mends a missing adapter on this system."""
    there = _OF_SYSTEM.get(sys.platform, ())
    name = _BACKENDS.get(wished)
    if name is not None and there and name not in there:
        return f"; WEBGPU_BACKEND={name} is of other systems: here are {', '.join(there)}; unset it"
    if not sys.platform.startswith("linux"):
        return "; install the newest driver of your GPU"
    return f"; {_DEBIAN if shutil.which('apt-get') else _LINUX}"


def limits_of(found: Dawn, adapter: Handle) -> ctypes.Structure:
    """All that the adapter allows, as the structure in which a device asks for it."""
    limits = found.api.limits()
    found.call("wgpuAdapterGetLimits", adapter, ctypes.byref(limits))
    return limits


def _facts(found: Dawn, adapter: Handle) -> Facts:
    info, listed = found.api.adapter_info(), found.api.feature_list()
    found.call("wgpuAdapterGetFeatures", adapter, ctypes.byref(listed))
    offered = {listed.features[i] for i in range(listed.count)}
    features = frozenset(n for n, number in found.api.features.items() if number in offered)
    sizes = found.api.subgroup_sizes(info) if "subgroups" in features else None
    found.call("wgpuAdapterGetInfo", adapter, ctypes.byref(info))
    limits = limits_of(found, adapter)
    return Facts(
        name=info.device.text() or info.description.text(),
        vendor=info.vendor.text(),
        kind=_KINDS.get(info.type, "unknown kind"),
        backend=_BACKENDS.get(info.backend, "unknown"),
        library=found.library.origin,
        features=features,
        limits={name: getattr(limits, name) for name in LIMITS},
        subgroup=None if sizes is None else (sizes.subgroup_least, sizes.subgroup_most),
    )


def describe() -> str:
    """The adapter in one line, for `treadle doctor`. Raises DeviceError if there is none."""
    _, _, facts = open_adapter()
    offered = [name for name in ("shader-f16", "subgroups") if name in facts.features]
    extras = f" with {' and '.join(offered)}" if offered else ""
    return f"{facts.name} ({facts.kind}, {facts.backend}){extras}, Dawn from {facts.library}"


def target_of(facts: Facts, arch: str | None = None) -> Target:
    """The Target of an adapter. float64 is missing: WGSL has no such type.

    With `arch` "-subgroups" kernels use none, with "subgroups" they must. Raises SettingError for
    any other arch, DeviceError if the adapter offers none.
    """
    if arch not in (None, "subgroups", "-subgroups"):
        raise SettingError(f"WEBGPU knows the architectures subgroups and -subgroups, not {arch!r}")
    if arch == "subgroups" and facts.subgroup is None:
        raise DeviceError(f"WEBGPU: {facts.name} offers no subgroups: leave `:subgroups` out")
    kinds = [
        dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
        dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float32,
    ]  # fmt: skip
    has_half = "shader-f16" in facts.features
    limits = facts.limits
    most = min(limits["work_items"], limits["work_items_x"])
    subgroup = None if arch == "-subgroups" else facts.subgroup
    return Target(
        name=f"{facts.name} (WebGPU)",
        arch="wgsl",
        triple="wgsl",
        cpu=f"{facts.name} {facts.backend}",
        features=f"{facts.library}, {', '.join(sorted(facts.features))}",
        dtypes=(*kinds, *((dtypes.float16,) if has_half else ())),
        vector_bytes=16,
        vector_registers=32,
        has_half_convert=has_half,
        has_masked_memory=False,
        workgroup=Workgroup(min(128, most), most, limits["shared_bytes"], subgroup),
        max_buffers=limits["storage_buffers"],
        # Whole elements of every type in each part, and few enough bytes for 32-bit indices.
        max_binding=min(limits["storage_bytes"], 1 << 30) // 256 * 256,
        index_bits=32,
        max_lanes=MAX_LANES,
        max_steps=LLVMPIPE_STEPS if "llvmpipe" in facts.name else None,
        strict_floats=False,
    )
