"""What every driver of the CUDA runtime does: `check(driver)` calls all of its protocol.

It runs on the emulated GPU, on NVIDIA's bindings over a libcuda of our own, and on a real GPU.
"""

import ctypes

import numpy as np
import pytest

from treadle.runtime.cuda.driver import DeviceFacts, DriverError, KernelFacts, TensorTiles

SCALE = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 out, .param .u64 x, .param .u32 factor, .param .u64 plus) {
.reg .b64 %x<5>; .reg .b32 %r<7>;
ld.param.u64 %x1, [out]; ld.param.u64 %x2, [x]; ld.param.u32 %r1, [factor];
ld.param.u64 %x3, [plus]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
mad.lo.s32 %r2, %r2, %r3, %r4;
mad.wide.u32 %x2, %r2, 4, %x2; mad.wide.u32 %x1, %r2, 4, %x1; shr.s64 %x3, %x3, 32;
cvt.u32.u64 %r5, %x3; ld.global.u32 %r6, [%x2]; mad.lo.s32 %r6, %r6, %r1, %r5;
st.global.u32 [%x1], %r6; ret; }
"""
COUNT, BYTES = 16, 64
GRID, BLOCK = (4, 1, 1), (4, 1, 1)


class On:
    """A context with two arrays of 16 integers, and the kernel `out = x * factor + plus`."""

    def __init__(self, driver, index=0):
        self.context = driver.open(index)
        self.stream = self.context.new_stream()
        self.values = np.arange(COUNT, dtype=np.int32)
        self.x, self.out = (self.context.alloc(BYTES, self.stream) for _ in range(2))
        self.context.copy_in(self.x, self.values.ctypes.data, BYTES, self.stream)
        self.kernel = self.context.load(SCALE).function("scale")

    def args(self, factor, plus):
        given = ("address", self.out), ("address", self.x), ("int32", factor), ("int64", plus << 32)
        return list(given)

    def launch(self, factor, plus, stream):
        args = self.args(factor, plus)
        self.context.launch(self.kernel, GRID, BLOCK, 0, stream, args)

    def read(self, address):
        found = np.zeros(COUNT, np.int32)
        self.context.copy_out(found.ctypes.data, address, BYTES, self.stream)
        self.context.wait_stream(self.stream)
        return found

    def shows(self, factor, plus):
        assert (self.read(self.out) == self.values * factor + plus).all()


def fails(code, call, *arguments):
    with pytest.raises(DriverError) as caught:
        call(*arguments)
    assert caught.value.code == code


def devices(driver):
    facts = driver.devices()[0]
    assert isinstance(facts, DeviceFacts)
    assert facts.is_emulated == driver.is_emulated
    assert facts.name
    assert facts.multiprocessors >= 1
    assert facts.shared_optin >= facts.shared
    assert len(driver.version) == 2
    context = driver.open(0)
    assert context is driver.open(0)
    assert context.facts == facts
    assert context.handle
    with context.current():
        context.synchronize()


def memory(driver):
    on = On(driver)
    context, stream = on.context, on.stream
    assert context.owner_of(on.x + 3) == (0, on.x, BYTES)
    assert context.owner_of(on.values.ctypes.data) is None
    context.copy(on.out, on.x, BYTES, stream)
    assert (on.read(on.out) == on.values).all()
    free, total = context.memory_info()
    assert 0 <= free <= total
    context.free(on.x, stream)
    context.trim(0)
    pinned = context.alloc_pinned(BYTES)
    ctypes.memset(pinned, 1, BYTES)
    context.copy_in(on.out, pinned, BYTES, stream)
    assert (on.read(on.out) == 0x01010101).all()


def kernels(driver):
    on = On(driver)
    fails("CUDA_ERROR_INVALID_PTX", on.context.load, b"broken")
    fails("CUDA_ERROR_NOT_FOUND", on.context.load(SCALE).function, "missing")
    for stream, factor, plus in ((on.stream, 3, 5), (None, -3, -5)):
        on.launch(factor, plus, stream)
        on.shows(factor, plus)
    facts = on.kernel.facts
    assert isinstance(facts, KernelFacts)
    assert facts.registers > 0
    assert on.kernel.blocks_per_multiprocessor(64, 0) >= 1
    on.kernel.allow_shared(1 << 15)
    wrong = TensorTiles("u8", on.x, (64, 8), (64,), (0, 4))
    if driver.devices()[0].capability >= (9, 0):
        fails("CUDA_ERROR_INVALID_VALUE", on.context.encode_tensor_map, wrong)
        assert on.context.encode_tensor_map(TensorTiles("u8", on.x, (16, 4), (16,), (16, 4)))
    else:
        fails("CUDA_ERROR_NOT_SUPPORTED", on.context.encode_tensor_map, wrong)


def order(driver):
    on = On(driver)
    context, other = on.context, on.context.new_stream()
    assert len({int(on.stream), int(other)} - {0, 1, 2}) == 2
    assert not context.is_capturing(other)
    start, end, plain = (context.new_event(timed) for timed in (True, True, False))
    context.record(start, on.stream)
    on.launch(2, 1, on.stream)
    context.record(end, on.stream)
    context.wait_event(other, end)
    context.record(plain, other)
    context.finish_event(plain)
    assert context.has_happened(plain)
    assert context.elapsed(start, end) >= 0
    for event in (start, end, plain):
        context.delete_event(event)
    context.delete_stream(other)
    on.shows(2, 1)


def graphs(driver):
    on = On(driver)
    context, graph = on.context, on.context.new_graph()
    shapes = on.kernel, GRID, BLOCK, 0
    first = context.add_kernel(graph, [], *shapes, on.args(2, 1))
    second = context.add_kernel(graph, [first], *shapes, on.args(7, 1))
    executable = context.instantiate(graph)
    context.launch_graph(executable, on.stream)
    on.shows(7, 1)
    context.update_kernel(executable, second, on.args(-9, 2))
    context.launch_graph(executable, on.stream)
    on.shows(-9, 2)
    context.delete_graph(graph, executable)


def peers(driver):
    one = On(driver)
    assert one.context.reach_peer(one.context)
    if len(driver.devices()) < 2:
        return
    two = On(driver, 1)
    assert two.context.owner_of(one.x) == (0, one.x, BYTES)
    two.launch(5, 1, two.stream)
    two.context.synchronize()
    one.context.reach_peer(two.context)
    one.context.copy_peer(one.x, two.out, two.context, BYTES, one.stream)
    assert (one.read(one.x) == one.values * 5 + 1).all()


CHECKS = {check.__name__: check for check in (devices, memory, kernels, order, graphs, peers)}
