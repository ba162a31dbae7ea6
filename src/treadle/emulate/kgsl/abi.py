"""The calls of KGSL by their numbers, and their arguments: as `msm_kgsl.h` has them on 64 bits."""

from __future__ import annotations

from treadle.emulate.machine.layout import Layout

__all__ = ["CALLS", "COMMAND", "DEVICE_INFO", "VERSION"]


def _layout(nbytes: int, **sizes: int) -> Layout:
    """Fields behind each other, each on a multiple of its size."""
    found: dict[str, tuple[int, int]] = {}
    at = 0
    for name, size in sizes.items():
        at = -(-at // size) * size
        found[name] = at, size
        at += size
    return Layout(nbytes, found)


DEVICE_INFO = _layout(
    40, device_id=4, chip_id=4, mmu_enabled=4, gmem_gpubaseaddr=8, gpu_id=4, gmem_sizebytes=8
)
VERSION = _layout(16, drv_major=4, drv_minor=4, dev_major=4, dev_minor=4)
COMMAND = _layout(32, offset=8, gpuaddr=8, size=8, flags=4, id=4)

# By the number of the whole request, which has the argument's size in it.
CALLS: dict[int, tuple[str, Layout]] = {
    0xC0180902: ("device_getproperty", _layout(24, type=4, value=8, sizebytes=8)),
    0x40180932: ("setproperty", _layout(24, type=4, value=8, sizebytes=8)),
    0xC0080913: ("drawctxt_create", _layout(8, flags=4, drawctxt_id=4)),
    0x40040914: ("drawctxt_destroy", _layout(4, drawctxt_id=4)),
    0x400C0907: (
        "device_waittimestamp_ctxtid", _layout(12, context_id=4, timestamp=4, timeout=4),
    ),
    0xC00C0916: (
        "cmdstream_readtimestamp_ctxtid", _layout(12, context_id=4, type=4, timestamp=4),
    ),
    0xC0300945: (
        "gpuobj_alloc",
        _layout(48, size=8, flags=8, va_len=8, mmapsize=8, id=4, metadata_len=4, metadata=8),
    ),
    0x40200946: ("gpuobj_free", _layout(32, flags=8, priv=8, id=4, type=4, len=4)),
    0xC0300947: (
        "gpuobj_info", _layout(48, gpuaddr=8, flags=8, size=8, va_len=8, va_addr=8, id=4),
    ),
    0xC0300915: (
        "map_user_mem",
        _layout(48, fd=4, gpuaddr=8, len=8, offset=8, hostptr=8, memtype=4, flags=4),
    ),
    0x40080921: ("sharedmem_free", _layout(8, gpuaddr=8)),
    0xC040094A: (
        "gpu_command",
        _layout(
            64, flags=8, cmdlist=8, cmdsize=4, numcmds=4, objlist=8, objsize=4, numobjs=4,
            synclist=8, syncsize=4, numsyncs=4, context_id=4, timestamp=4,
        ),
    ),
}  # fmt: skip
