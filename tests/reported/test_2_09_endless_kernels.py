"""A kernel that never ends is stopped on an emulated GPU after seconds, by a named error."""

from __future__ import annotations

import time

import pytest

from treadle.emulate.cuda import EmulatedDriver
from treadle.emulate.simt.execute import TURNS
from treadle.emulate.simt.machine import SLICE
from treadle.runtime.cuda.driver import DriverError

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .u64 %x0;
  .reg .u32 %r0;
  mov.u32 %r0, 0;
A: add.u32 %r0, %r0, 1;
  bra A;
}
"""


@pytest.mark.parametrize("threads", [1, 256])
def test_2_09_an_endless_kernel_is_stopped_after_seconds(threads, monkeypatch):
    context = EmulatedDriver("sm_90").open(0)
    kernel = context.load(PTX.encode()).function("k")
    address = context.alloc(64, None)

    def launch(turns):
        monkeypatch.setattr("treadle.emulate.simt.execute.TURNS", turns)
        with pytest.raises(DriverError, match="it does not end") as caught:
            context.launch(kernel, (1, 1, 1), (threads, 1, 1), 0, None, [("address", address)])
        return caught

    launch(5)  # compiles; a fault breaks its context
    context = EmulatedDriver("sm_90").open(0)
    kernel = context.load(PTX.encode()).function("k")
    address = context.alloc(64, None)
    share = 20  # of the turns that a kernel has: the test takes a part of the time
    start = time.process_time()
    caught = launch(TURNS // share)
    assert caught.value.code == "CUDA_ERROR_LAUNCH_TIMEOUT"
    assert (time.process_time() - start) * share < 60
    assert TURNS * SLICE == 200_000_000  # as the message says
