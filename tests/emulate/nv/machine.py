"""Emulated NVIDIA GPUs, and devices of the runtime on them.

machine = Machine("sm_80", seed=3)
device = machine.device()
phase = machine.kernel(device, SOURCE, "add", slots=2, variables=1)
device.run([Launch([phase], [a.argument, b.argument], [count])])
"""

import functools

import pytest
from tests.emulate import machines
from tests.emulate.machines import download, upload

from treadle.compile.nvrtc import NVRTCCompiler
from treadle.emulate.nv import EmulatedNV
from treadle.emulate.nv.compiler import RecordingCompiler
from treadle.emulate.nv.execute import Executor
from treadle.emulate.nv.programs import Programs
from treadle.engine.host_code import compile_for_host
from treadle.runtime.base import Entry, Slot
from treadle.runtime.hardware.nv import RM, NVDevice, plain_target, target_of

__all__ = ["CHIPS", "SOURCE", "Machine", "compiled", "download", "upload"]

CHIPS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
SOURCE = r"""
__constant__ int table[4] = {3, 5, 7, 9};
__device__ int counter = 40;
extern "C" __global__ void add_number(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i] + n;
}
extern "C" __global__ void add_three(const int* x, const int* y, int* out, int n) {
  out[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x] + n;
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


@functools.cache
def programs():
    """What all machines here know of code: each program is translated once."""
    return Programs(compile_for_host)


class Machine(machines.Machine):
    """A computer with emulated GPUs."""

    prefix = "NV"

    def __init__(self, *archs, timeout=5.0, **options):
        self.programs = programs()
        self.run_dispatch = Executor(self.programs)
        super().__init__(*archs, timeout=timeout, **options)

    def make_driver(self, archs, **options):
        return EmulatedNV(self.platform, archs, self.execute, **options)

    def open_driver(self):
        return RM(self.platform)

    def open_device(self, name, index):
        return NVDevice(
            name, self.opened, index, lambda own, facts: target_of(own, facts, None, True),
            timeout=self.timeout, on_load=self.programs.record,
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
