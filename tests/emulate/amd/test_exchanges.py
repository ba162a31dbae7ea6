"""Words that lanes send to each other by way of LDS, beside NumPy."""

import struct

import numpy as np
import pytest

from .conftest import compile_for
from .test_kernels import CHIPS

KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.NAME(i32, i32)
define amdgpu_kernel void @k(ptr addrspace(1) %to, ptr addrspace(1) %given,
    ptr addrspace(1) %r) #0 {
entry:
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %pt = getelementptr i32, ptr addrspace(1) %to, i32 %i
  %pg = getelementptr i32, ptr addrspace(1) %given, i32 %i
  %pr = getelementptr i32, ptr addrspace(1) %r, i32 %i
  %lane = load i32, ptr addrspace(1) %pt
  %x = load volatile i32, ptr addrspace(1) %pg
  %address = shl i32 %lane, 2
  %acts = icmp ult i32 %i, LAST
  br i1 %acts, label %yes, label %end
yes:
  %y = call i32 @llvm.amdgcn.NAME(i32 %address, i32 %x)
  store i32 %y, ptr addrspace(1) %pr
  br label %end
end:
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="LANES,LANES" }
"""


def run(gpu, chip, name, lanes, last, to, given):
    text = KERNEL.replace("NAME", name).replace("LANES", str(lanes)).replace("LAST", str(last))
    places = [gpu.put(array.tobytes()) for array in (to, given, np.full_like(given, 7))]
    code = gpu.load(compile_for(chip, text))
    gpu.launch(code, "k", (1, 1, 1), (lanes, 1, 1), struct.pack("<3Q", *places))
    return np.frombuffer(gpu.space.read(places[2], given.nbytes), np.uint32)


@pytest.mark.parametrize("chip", CHIPS)
def test_lanes_fetch_and_send_words(machine, chip):
    """The last lanes do not act: what is fetched from them is 0, and they send nothing."""
    gpu, lanes, rng = machine(chip), 64 if chip.startswith("gfx9") else 32, np.random.default_rng(2)
    last = lanes - 5
    to = rng.integers(0, 4 * lanes, lanes).astype(np.uint32)  # around the end of the wave
    given = rng.integers(1, 1 << 32, lanes, dtype=np.uint32)
    found = run(gpu, chip, "ds.bpermute", lanes, last, to, given)
    source = to % lanes
    np.testing.assert_array_equal(found[:last], np.where(source < last, given[source], 0)[:last])
    sent = np.zeros(lanes, np.uint32)
    for lane in range(last):
        sent[source[lane]] = given[lane]
    found = run(gpu, chip, "ds.permute", lanes, last, to, given)
    np.testing.assert_array_equal(found[:last], sent[:last])
    np.testing.assert_array_equal(found[last:], 7)
    if chip == "gfx1201":
        found = run(gpu, chip, "ds.bpermute.fi.b32", lanes, last, to, given)
        np.testing.assert_array_equal(found[:last], given[source][:last])
