"""NVIDIA's GPUs by their kernel driver, past libcuda: each step to a launch, and CUDA beside it.

First what the driver offers and the chain of its objects, then one semaphore, a copy, a launch by
queue meta data, a replay. Then the same machine code by both ways, which has to give the same bits,
the times of both, and the operation suite. A step that fails says why and costs no other one, but
for an Xid, the driver's word for an error of the GPU: nothing is tried behind that. Nothing is
reset, and no setting is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..report import markdown
from . import hardware, suite
from .findings import Findings, Skipped

if TYPE_CHECKING:
    from ...runtime.hardware.nv import RM
    from ...runtime.hardware.nv.objects import GPUObjects
    from .hardware import Way

__all__ = ["run"]

_CHIP = "sm_90a"  # of a dry run, as in `parts`
_STOPPED = "stopped"  # the note that says which Xid there was
_MISSING = "NV is missing"  # the one that says why
_SOURCE = r"""
extern "C" __global__ void integers(int* out, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i] * 3 + n;
}
extern "C" __global__ void functions(float* out, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = (float)x[i] / 1e8f;
  out[i] = expf(sinf(v)) / (v * v + n) + sqrtf(v) + __logf(v + 1.0f) + powf(v, 0.3f);
}
extern "C" __global__ void sums(float* out, const int* x, int n) {
  __shared__ float part[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  part[t] = (float)x[i] * 0.37f + n;
  for (int s = 32; s; s >>= 1) {
    __syncthreads();
    if (t < s) part[t] += part[t + s];
  }
  __syncthreads();
  float v = part[0];
  for (int s = 16; s; s >>= 1) v = fmaf(v, 1.1f, __shfl_xor_sync(~0u, v + t, s));
  out[i] = v;
}
extern "C" __global__ void stack(int* out, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, kept[48];
  for (int k = 0; k < 48; k++) kept[k] = k * k + n;
  for (int k = 0; k < 48; k++) kept[(x[i] >> (k & 15)) % 48] += k;
  out[i] = kept[x[i] % 48];
}
"""
_SYMBOLS = ("integers", "functions", "sums", "stack")


def run(findings: Findings) -> None:
    """All of it, on the first GPU."""
    steps = _Steps(findings)
    steps.take("NV: the kernel driver", lambda: _driver(findings))
    missing = findings.notes.get(_MISSING)
    if missing:
        findings.add("NV", "skipped", message=missing)
        return
    steps.take("NV: classes of the GPU", lambda: _classes(findings))
    steps.take("NV: the chain of RM's objects", lambda: _chain(findings))
    steps.take("NV: one semaphore", lambda: _device(findings).synchronize())
    steps.take("NV: copies", lambda: hardware.copies(_device(findings)))
    steps.take("NV: a launch by queue meta data", lambda: _with_kernel(findings, hardware.launches))
    steps.take("NV: replays", lambda: _with_kernel(findings, hardware.replays))
    for symbol in _SYMBOLS:
        steps.take(f"NV: the bits of CUDA, {symbol}", lambda s=symbol: _same_bits(findings, s))
    steps.take("NV: times", lambda: _times(findings), 60.0)
    if _STOPPED not in findings.notes:
        suite.run(findings, _name("NV", findings))


class _Steps:
    """Checks in their order, which end with the first Xid, in whichever process that was."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def take(self, name: str, function: Callable[[], object], patience: float = 30.0) -> None:
        """One check."""
        self._findings.check(name, lambda: self._guarded(function), patience)

    def _guarded(self, function: Callable[[], object]) -> None:
        from ...errors import DeviceError

        stopped = self._findings.notes.get(_STOPPED)
        if stopped:
            raise Skipped(f"not tried after: {stopped}")
        try:
            function()
        except DeviceError as error:
            if "Xid" in str(error):
                self._findings.note(_STOPPED, str(error))
            raise


def _name(backend: str, findings: Findings) -> str:
    return f"{backend}:NVRTC:{_CHIP}" if findings.emulated else backend


# -- the driver's objects ---------------------------------------------------------------------


def _rm(findings: Findings) -> RM:
    """A client of its own, whose objects go with it."""
    from ...runtime.hardware.nv import RM
    from ...runtime.hardware.platform import LinuxPlatform

    if not findings.emulated:
        return RM(LinuxPlatform())
    from ...emulate.machine.platform import EmulatedPlatform
    from ...emulate.nv import EmulatedNV

    platform = EmulatedPlatform()
    EmulatedNV(platform, [_CHIP], lambda dispatch: None)
    return RM(platform)


def _driver(findings: Findings) -> None:
    """What the driver is, or why it is none that treadle drives: that is no failure."""
    from ...errors import DeviceError
    from ...runtime.hardware.nv import describe

    try:
        findings.note("NV driver", describe(_rm(findings)))
    except DeviceError as error:
        findings.note(_MISSING, str(error))


def _objects(findings: Findings) -> GPUObjects:
    from ...runtime.hardware.nv.objects import GPUObjects

    rm = _rm(findings)
    return GPUObjects(rm, rm.card(0, "NV"), 0, "NV")


def _classes(findings: Findings) -> None:
    """The class list has what launches of this generation need."""
    objects = _objects(findings)
    try:
        offered = objects.rm.control(objects.device, "class_list")
        classes = sorted(offered["classList"][: offered["numClasses"]])
        findings.note("NV classes", [f"{number:#06x}" for number in classes])
        findings.note("NV generation", objects.generation.arch)
    finally:
        objects.close()


def _chain(findings: Findings) -> None:
    """Everything that a channel hangs on is made, and goes."""
    objects = _objects(findings)
    try:
        objects.open()
    finally:
        objects.close()


# -- right ------------------------------------------------------------------------------------


def _device(findings: Findings, backend: str = "NV") -> Way:
    from ... import Device

    return Device[_name(backend, findings)].runtime


def _kernel(device: Way, symbol: str = "integers") -> hardware.Kernel:
    """One kernel of the source on one device, by machine code for its own architecture."""
    from ...compile.nvrtc import NVRTCCompiler
    from ...emulate.nv.compiler import RecordingCompiler
    from ...runtime.hardware.nv import NVDevice, plain_target

    compiler = NVRTCCompiler(plain_target(device.target.cpu), "cubin")
    if not device.is_software:
        code = compiler.compile(_SOURCE)
    elif isinstance(device, NVDevice):
        code = RecordingCompiler(compiler).compile(_SOURCE)
    else:
        code = compiler.compile_both(_SOURCE)[1]
    return hardware.Kernel(device, code, symbol)


def _with_kernel(findings: Findings, check: Callable[[Way, hardware.Kernel], None]) -> None:
    device = _device(findings)
    check(device, _kernel(device))


def _same_bits(findings: Findings, symbol: str) -> None:
    """A kernel's results by both ways."""
    import numpy as np

    found = []
    for backend in ("NV", "CUDA"):
        device, data = _device(findings, backend), hardware.numbers()
        x, out = hardware.put(device, data), hardware.put(device, 0 * data)
        device.run([_kernel(device, symbol).launch(out, x, 7)])
        found.append(hardware.get(device, out, data))
    assert found[0].any(), "all results are zeros"
    np.testing.assert_array_equal(*found)


# -- times ------------------------------------------------------------------------------------


def _times(findings: Findings) -> None:
    """Both ways in turn, on one GPU."""
    many, nbytes = (4, 1 << 16) if findings.emulated else (256, 1 << 28)
    columns = [_of_one(_device(findings, way), many, nbytes) for way in ("NV", "CUDA")]
    findings.note("NV times", dict(zip(("NV", "CUDA"), columns, strict=True)))
    rows = [[name, *(hardware.shown(name, one[name]) for one in columns)] for name in columns[0]]
    table = markdown(["", "NV", "CUDA"], rows)
    if findings.emulated:
        table.append("A dry run: these numbers say nothing of any GPU.")
    findings.note("text", "\n".join(table))


def _of_one(device: Way, many: int, nbytes: int) -> dict[str, float]:
    """Seconds of launches, and bytes in a nanosecond of copies."""
    return hardware.latencies(device, _kernel(device), many) | hardware.rates(device, nbytes)
