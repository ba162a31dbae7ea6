"""Barriers in shared memory, and the bulk copies that report to them."""

import numpy as np
import pytest

from treadle.runtime.cuda.driver import DriverError

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .b64 %x<8>; .reg .b32 %r<12>; .reg .pred %p<4>;
.shared .align 8 .b8 bar[16]; .shared .align 16 .b8 tile[4096];
mov.u32 %r0, %tid.x; ld.param.u64 %x0, [in]; ld.param.u64 %x1, [out];
mov.u32 %r1, bar; mov.u32 %r2, tile; setp.eq.u32 %p0, %r0, 0;
"""


def test_warps_hand_values_over_behind_a_barrier(gpu):
    """Warp 0 makes, warp 1 takes, in phases of alternating parity; neither uses bar.sync."""
    text = (
        HEAD
        + """@%p0 mbarrier.init.shared.b64 [%r1], 32; @%p0 mbarrier.init.shared.b64 [%r1+8], 32;
    bar.sync 0; setp.ge.u32 %p1, %r0, 32; and.b32 %r3, %r0, 31; shl.b32 %r4, %r3, 2;
    add.u32 %r4, %r4, %r2; mov.u32 %r5, 0; @%p1 bra TAKE;
    MAKE: setp.eq.u32 %p2, %r5, 0; @%p2 bra FREE; add.u32 %r6, %r5, 1; and.b32 %r6, %r6, 1;
    W0: mbarrier.try_wait.parity.shared.b64 %p3, [%r1+8], %r6; @!%p3 bra W0;
    FREE: mad.lo.u32 %r7, %r5, 100, %r3; st.shared.u32 [%r4], %r7;
    mbarrier.arrive.shared.b64 %x3, [%r1]; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5;
    @%p2 bra MAKE; ret;
    TAKE: and.b32 %r6, %r5, 1;
    W1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], %r6; @!%p3 bra W1;
    xor.b32 %r8, %r4, 4; ld.shared.u32 %r7, [%r8]; mad.lo.u32 %r9, %r5, 32, %r3;
    mad.wide.u32 %x4, %r9, 4, %x1; st.global.u32 [%x4], %r7;
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1+8]; add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 5; @%p2 bra TAKE; ret; }"""
    )
    *_, found = gpu.launch(text, "k", 1, 64, np.zeros(1, "u4"), np.zeros((5, 32), "u4"))
    expected = np.arange(5)[:, None] * 100 + (np.arange(32) ^ 1)[None]
    assert (found == expected).all()


BULK = (
    HEAD
    + """@%p0 mbarrier.init.shared::cta.b64 [%r1], 1; bar.sync 0; @!%p0 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], EXPECTED;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%x0], 512, [%r1];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra WAIT;
shl.b32 %r3, %r0, 2; add.u32 %r4, %r3, %r2; ld.shared.u32 %r5, [%r4]; add.u32 %r5, %r5, 1;
st.shared.u32 [%r4], %r5; fence.proxy.async.shared::cta; bar.sync 0; @!%p0 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%x1], [%r2], 512; cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0; END: ret; }"""
)


def test_rows_are_copied_in_and_out(gpu):
    data = np.arange(128, dtype="u4")
    text = BULK.replace("EXPECTED", "512")
    *_, found = gpu.launch(text, "k", 1, 128, data, np.zeros(128, "u4"))
    assert (found == data + 1).all()


def test_a_row_on_its_way_out_is_not_written_before_the_wait(gpu):
    text = BULK.replace("EXPECTED", "512")
    wait = "cp.async.bulk.wait_group.read 0;"
    data, result = np.arange(128, dtype="u4"), np.zeros(128, "u4")
    gpu.launch(text.replace(wait, wait + "st.shared.u32 [%r2], 7;"), "k", 1, 128, data, result)
    with pytest.raises(DriverError, match=r"a wgmma or bulk copy of warp . may still read"):
        gpu.launch(text.replace(wait, "st.shared.u32 [%r2], 7;" + wait), "k", 1, 128, data, result)


def test_bytes_that_never_come_are_waited_for(gpu, monkeypatch):
    monkeypatch.setattr("treadle.emulate.simt.execute.TURNS", 50)
    text = BULK.replace("EXPECTED", "528")
    with pytest.raises(DriverError, match="does not end"):
        gpu.launch(text, "k", 1, 128, np.zeros(128, "u4"), np.zeros(128, "u4"))


def test_a_row_stays_inside_its_allocation(gpu):
    text = BULK.replace("EXPECTED", "512")
    with pytest.raises(DriverError, match=r"16 bytes at .* right behind the allocation of 496"):
        gpu.launch(text, "k", 1, 128, np.zeros(124, "u4"), np.zeros(128, "u4"))


def test_the_state_of_a_phase_is_waited_for(gpu):
    text = (
        HEAD
        + """@%p0 mbarrier.init.shared.b64 [%r1], 64; bar.sync 0;
    mbarrier.arrive.shared.b64 %x3, [%r1]; mbarrier.pending_count.b64 %r3, %x3;
    A: mbarrier.test_wait.shared.b64 %p1, [%r1], %x3; @!%p1 bra A;
    mad.wide.u32 %x4, %r0, 4, %x1; st.global.u32 [%x4], %r3; ret; }"""
    )
    *_, found = gpu.launch(text, "k", 1, 64, np.zeros(1, "u4"), np.zeros(64, "u4"))
    assert sorted(found.tolist()) == list(range(1, 65))
