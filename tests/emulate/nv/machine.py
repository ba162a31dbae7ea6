"""Emulated NVIDIA GPUs, and devices of the runtime on them.

machine = Machine("sm_80", seed=3)
device = machine.device()
phase = machine.kernel(device, SOURCE, "add", slots=2, variables=1)
device.run([Launch([phase], [a.argument, b.argument], [count])])
"""

import functools

import numpy as np
import pytest

from treadle.compile.nvrtc import NVRTCCompiler
from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.emulate.nv import EmulatedNV
from treadle.emulate.nv.compiler import RecordingCompiler
from treadle.emulate.nv.execute import Executor
from treadle.emulate.nv.programs import Programs
from treadle.engine.host_code import compile_for_host
from treadle.runtime.base import Entry, Slot
from treadle.runtime.hardware.nv import RM, NVDevice, plain_target, target_of

CHIPS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
SOURCE = r"""
__constant__ int table[4] = {3, 5, 7, 9};
__device__ int counter = 40;
extern "C" __global__ void add_number(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i] + n;
}
extern "C" __global__ void spill(const int* x, int* out, int n) {
  int kept[64];
  for (int k = 0; k < 64; k++) kept[k] = k;
  for (int k = 0; k < 64; k++) kept[x[k] & 63] += n;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = kept[(x[i] + n) & 63];
}
extern "C" __global__ void share(const int* x, int* out, int n) {
  extern __shared__ int part[];
  part[threadIdx.x] = x[threadIdx.x] * n;
  __syncthreads();
  out[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void globals(const int* x, int* out, int n) {
  out[threadIdx.x] = table[x[threadIdx.x] & 3] + counter + n;
}
"""


@functools.cache
def compiled(arch, source=SOURCE):
    """The recorded cubin of some CUDA C. The test skips where NVRTC is missing."""
    compiler = RecordingCompiler(NVRTCCompiler(plain_target(arch), "cubin"))
    missing = compiler.available()
    if missing:
        pytest.skip(missing)
    return compiler.compile(source)


class Machine:
    """A computer with emulated GPUs. `execute` sees each Dispatch before it runs."""

    def __init__(self, *archs, seed=0, timeout=5.0, **options):
        self.platform, self.archs = EmulatedPlatform(seed), archs
        self.programs = Programs(compile_for_host)
        self.dispatches = []
        self._run = Executor(self.programs)
        self.driver = EmulatedNV(self.platform, archs, self._execute, **options)
        self._timeout, self._rm = timeout, None

    def _execute(self, dispatch):
        self.dispatches.append(dispatch)
        self._run(dispatch)

    @property
    def rm(self):
        if self._rm is None:
            self._rm = RM(self.platform)
        return self._rm

    def device(self, index=0):
        name = f"NV:{index}" if index else "NV"
        return NVDevice(
            name, self.rm, index, lambda own, facts: target_of(own, facts, None, True),
            timeout=self._timeout, on_load=self.programs.record,
        )  # fmt: skip

    def kernel(self, device, symbol, slots=2, variables=1, grid=1, work_items=64, shared=0):
        """A phase of one of SOURCE's kernels."""
        code = compiled(device.objects.generation.arch)
        entry = Entry(
            symbol, grid, work_items, tuple(Slot(number, 4, True) for number in range(slots)),
            tuple(range(variables)), shared=shared,
        )  # fmt: skip
        (phase,) = device.load(code, [entry]).phases
        return phase


def upload(device, values):
    """A buffer with these values."""
    values = np.asarray(values)
    buffer = device.allocator.alloc(values.nbytes)
    device.write(buffer, memoryview(values).cast("B"))
    return buffer


def download(device, buffer, dtype=np.int32):
    """What a buffer holds."""
    data = np.zeros(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    device.read(buffer, memoryview(data).cast("B"))
    return data
