"""Data races in global memory: which accesses nothing orders, and which something may."""

import ctypes

import numpy as np
import pytest

from treadle.emulate.ptx.execute import Program
from treadle.emulate.simt.launch_shadow import LaunchShadow
from treadle.emulate.simt.machine import Region
from treadle.runtime.cuda.driver import DriverError


def kernel(body):
    """%r0 is the thread, %r1 the block, %r2 the thread in the grid; %x0 the array, %x1 its word."""
    return f""".version 8.6\n.target sm_90\n.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .b64 %x<6>; .reg .b32 %r<12>; .reg .b16 %h<6>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r3, %ntid.x;
mad.lo.u32 %r2, %r1, %r3, %r0; ld.param.u64 %x0, [p]; mad.wide.u32 %x1, %r2, 4, %x0;
{body}
ret; }}"""


def only(condition, code):
    """The code, for threads of which the condition holds alone."""
    return f"{{ setp.{condition}; @!%p0 bra L; {code} L: }}"


LATER = "setp.ge.u32 %p0, %r0, 64;"
NEIGHBOUR = "xor.b32 %r4, %r2, 64; mad.wide.u32 %x2, %r4, 4, %x0;"  # in another warp
# What races, as the fault tells it: (code, blocks, message); blocks have 128 threads.
RACES = {
    "written, then read": (
        f"st.global.u32 [%x1], %r2; {NEIGHBOUR} {LATER} @%p0 ld.global.u32 %r5, [%x2];",
        1,
        (r"block \(0, 0, 0\), thread \(64, 0, 0\): a data race with thread \(0, 0, 0\) of block "
        r"\(0, 0, 0\), which writes it on 4 bytes at 0x\w+, 0 bytes into the allocation of 2048 "
        r"at 0x\w+: nothing orders them \(PTX line 8\)"),
    ),
    "read, then written": (
        f"ld.global.u32 %r5, [%x1]; {NEIGHBOUR} {LATER} @%p0 st.global.u32 [%x2], %r0;",
        1,
        r"thread \(64, 0, 0\): a data race with thread \(0, 0, 0\) of .*, which reads it",
    ),
    "written twice": (
        "st.global.u32 [%x0+16], %r0;",
        1,
        r"thread \(32, 0, 0\): a data race with thread \(31, 0, 0\) of .*, which writes it",
    ),
    "read by many": (
        "ld.global.u32 %r5, [%x0]; " + only("eq.u32 %p0, %r0, 127", "st.global.u32 [%x0], %r0;"),
        1,
        r"thread \(127, 0, 0\): a data race with threads of several warps of block \(0, 0, 0\)",
    ),
    "lanes without a .sync": (
        ("st.global.u32 [%x1], %r2; xor.b32 %r4, %r2, 1; mad.wide.u32 %x2, %r4, 4, %x0;"
        "ld.global.u32 %r5, [%x2];"),
        1,
        r"thread \(0, 0, 0\): a data race with thread \(1, 0, 0\)",
    ),
    "generic": (
        f"st.u32 [%x1], %r2; {NEIGHBOUR} ld.u32 %r5, [%x2];",
        1,
        r"thread \(64, 0, 0\): a data race with thread \(0, 0, 0\)",
    ),
    "vectors": (
        ("mad.wide.u32 %x2, %r0, 16, %x0; st.global.v4.u32 [%x2], {%r2, %r2, %r2, %r2};"
        "ld.global.u32 %r5, [%x1+512];"),
        1,
        r"thread \(32, 0, 0\): a data race with thread \(0, 0, 0\) of .* reads it on 16 bytes",
    ),
    "bytes": (
        ("cvt.u64.u32 %x2, %r2; add.u64 %x2, %x2, %x0; cvt.u16.u32 %h0, %r0;"
        "st.global.u8 [%x2], %h0; ld.global.u8 %h1, [%x2+32];"),
        1,
        r"thread \(32, 0, 0\): a data race with threads of warp 0 of .* which read it on 1 byte",
    ),
    "blocks, in spite of barriers": (
        "bar.sync 0; st.global.u32 [%x0], %r1; bar.sync 0;",
        2,
        (r"block \(1, 0, 0\), thread \(96, 0, 0\): a data race with thread \(95, 0, 0\) of block "
        r"\(0, 0, 0\), which writes it"),
    ),
    "one block reads what another wrote": (
        "st.global.u32 [%x1], %r2; bar.sync 0; mov.u32 %r4, 5; ld.global.u32 %r5, [%x0];",
        2,
        r"block \(1, 0, 0\), .* thread \(0, 0, 0\) of block \(0, 0, 0\), which writes it",
    ),
    "blocks read and one writes": (
        "ld.global.u32 %r5, [%x0]; " + only("eq.u32 %p0, %r2, 400", "st.global.u32 [%x0], %r2;"),
        4,
        (r"block \(3, 0, 0\), thread \(16, 0, 0\): a data race with threads of several blocks, "
        "which read it"),
    ),
    "atomic after a store": (
        only("eq.u32 %p0, %r2, 0", "st.global.u32 [%x0], 5;")
        + "bar.sync 0; red.global.add.u32 [%x0], 1;",
        2,
        r"block \(1, 0, 0\), .* race with thread \(0, 0, 0\) of block \(0, 0, 0\), which writes",
    ),
    "store after something atomic": (
        only("lt.u32 %p0, %r1, 1", "red.global.add.u32 [%x0+4], 1;")
        + only("eq.u32 %p0, %r2, 128", "st.global.u32 [%x0+4], 5;"),
        2,
        r"block \(1, 0, 0\), thread \(0, 0, 0\): .* of block \(0, 0, 0\), which update it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_a_race_names_both_threads_and_the_place(gpu, name):
    code, blocks, message = RACES[name]
    data = np.full(512, 0xAAAAAAAA, "u4")
    with pytest.raises(DriverError, match=message) as caught:
        gpu.launch(kernel(code), "k", blocks, 128, data)
    assert caught.value.code == "CUDA_ERROR_LAUNCH_FAILED"
    assert "kernel k, block" in str(caught.value)


ORDERED = {
    "each its own": "st.global.u32 [%x1], %r2; ld.global.u32 %r5, [%x1]; st.global.u32 [%x1], 1;",
    "one value": "st.global.u32 [%x0], 7;",
    "one value in vectors": "st.global.v4.u32 [%x0], {7, 8, 9, 10};",
    "a barrier": f"st.global.u32 [%x1], %r2; bar.sync 0; {NEIGHBOUR} ld.global.u32 %r5, [%x2];"
    "bar.sync 0; st.global.u32 [%x2], %r5;",
    "lanes with a .sync": "st.global.u32 [%x1], %r2; bar.warp.sync -1; xor.b32 %r4, %r2, 1;"
    "mad.wide.u32 %x2, %r4, 4, %x0; ld.global.u32 %r5, [%x2];",
    "lanes of one store": "and.b32 %r4, %r2, -32; mad.wide.u32 %x2, %r4, 4, %x0;"
    "st.global.u32 [%x2], %r2;",
    "only reads": "ld.global.u32 %r5, [%x0]; ld.global.u32 %r6, [%x1];",
    "only atomic": "red.global.add.u32 [%x0], 1; atom.global.cas.b32 %r5, [%x0], 0, 3;",
    "volatile": "st.volatile.global.u32 [%x0], %r2; ld.volatile.global.u32 %r5, [%x0];",
    "relaxed": "st.relaxed.gpu.global.u32 [%x0], %r2; ld.relaxed.gpu.global.u32 %r5, [%x0];",
    "a fence in each block": "st.global.u32 [%x1], %r2; membar.gl; ld.global.u32 %r5, [%x0];",
    "neighbouring bytes": "cvt.u64.u32 %x2, %r2; add.u64 %x2, %x2, %x0; cvt.u16.u32 %h0, %r0;"
    "ld.global.u8 %h1, [%x2]; st.global.u8 [%x2], %h0; ld.global.u8 %h1, [%x2];",
    "neighbouring bytes of two blocks": "mad.lo.u32 %r4, %r1, 126, %r0; cvt.u64.u32 %x2, %r4;"
    "add.u64 %x2, %x2, %x0; cvt.u16.u32 %h0, %r4; setp.lt.u32 %p0, %r0, 126;"
    "@%p0 ld.global.u8 %h1, [%x2]; @%p0 st.global.u8 [%x2], %h0;",
    "the last block reads all": """st.global.u32 [%x1], %r2; membar.gl; bar.sync 0;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra OUT;
    atom.global.add.u32 %r4, [%x0+2044], 1; setp.ne.u32 %p1, %r4, 2; @%p1 bra OUT; membar.gl;
    ld.global.u32 %r5, [%x0]; ld.global.u32 %r6, [%x0+512]; add.u32 %r5, %r5, %r6;
    st.global.u32 [%x0+512], %r5; st.global.u32 [%x0+2044], 0; OUT:""",
}


UNORDERED = {"volatile", "relaxed"}  # the first element is that of any thread


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ORDERED)
def test_what_is_ordered_or_harmless_is_no_race(gpus, name, threads):
    data, code = np.zeros(512, "u4"), kernel(ORDERED[name])
    unchecked = gpus("sm_90", threads=threads, checks_races=False)
    expected = unchecked.launch(code, "k", 3, 128, data)
    for _ in range(3):
        found = gpus("sm_90", threads=threads).launch(code, "k", 3, 128, data)
        if name in UNORDERED:
            assert found[0][0] < 3 * 128
            found[0][0] = expected[0][0]
        np.testing.assert_array_equal(found, expected)


def test_a_store_of_what_was_read_is_no_race(gpu):
    last = only("eq.u32 %p0, %r2, 383", "st.global.u32 [%x0], %r5;")
    code = kernel("ld.global.u32 %r5, [%x0];" + last)
    data = np.full(512, 0xAAAAAAAA, "u4")
    np.testing.assert_array_equal(gpu.launch(code, "k", 3, 128, data), [data])


def test_launches_are_ordered_for_as_many_as_there_are(compile_ir):
    """Also where the epochs of the tables begin again."""
    program = Program(
        kernel("st.global.u32 [%x0], %r1; ld.global.u32 %r5, [%x0];"), compile_ir, checks_races=True
    )
    data = np.zeros(32, "u4")
    params = bytes(ctypes.c_uint64(data.ctypes.data))
    region = [Region(data.ctypes.data, data.nbytes)]
    shadow = LaunchShadow.take()
    for start in (1, (1 << 19) - 1, (1 << 19) + 1):
        shadow._next = start
        shadow.give()
        for _ in range(3):
            program.launch("k", (1, 1, 1), (1, 1, 1), params, region)
        assert LaunchShadow.take() is shadow
        assert shadow._next < start + 100
    shadow.give()


def test_epochs_that_run_out_hide_races_and_invent_none(compile_ir):
    body = "mov.u32 %r4, 0; A: st.global.u32 [%x1], %r4; bar.sync 0; ld.global.u32 %r5, [%x0];"
    body += "bar.sync 0; add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 40; @%p0 bra A;"
    program = Program(kernel(body), compile_ir, checks_races=True)
    data = np.zeros(64, "u4")
    params = bytes(ctypes.c_uint64(data.ctypes.data))
    shadow = LaunchShadow.take()
    shadow.give()
    start = shadow.start

    def late(workers):
        start(workers)
        shadow._base = (1 << 20) - 40

    shadow.start = late
    try:
        program.launch("k", (1, 1, 1), (64, 1, 1), params, [Region(data.ctypes.data, data.nbytes)])
    finally:
        del shadow.start
    assert (data == 39).all()


def test_nothing_is_checked_unless_asked_for(compile_ir):
    program = Program(kernel("st.global.u32 [%x0], %r2;"), compile_ir)
    data = np.zeros(64, "u4")
    params = bytes(ctypes.c_uint64(data.ctypes.data))
    program.launch("k", (2, 1, 1), (64, 1, 1), params, [Region(data.ctypes.data, data.nbytes)])
    assert data[0] < 128
