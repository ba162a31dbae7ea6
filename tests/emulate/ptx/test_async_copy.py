"""cp.async lands when its thread waits for its group, and is seen by others behind a barrier."""

import numpy as np
import pytest

from treadle.runtime.cuda.driver import DriverError

COPY = "cp.async.ca.shared.global [%s], [%g], 4;"


def kernel(code):
    """%s and %g are the thread's word of shared memory and of the input, %n its neighbour's."""
    return f""".version 8.6
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .b64 %g, %o, %x; .reg .b32 %i, %s, %n, %v, %w, %c; .reg .pred %p;
.shared .align 16 .b8 tile[12800]; .shared .align 8 .b8 bar[8];
ld.param.u64 %g, [in]; ld.param.u64 %o, [out]; mov.u32 %i, %tid.x;
mad.wide.u32 %g, %i, 4, %g; mad.wide.u32 %o, %i, 4, %o;
mov.u32 %s, tile; mad.lo.u32 %s, %i, 4, %s; xor.b32 %n, %s, 252;
{code} st.global.u32 [%o], %v; ret; }}"""


@pytest.fixture
def copied(gpus):
    def copied(code, threads=64, words=64):
        data = np.arange(100, 100 + words, dtype="u4")
        *_, found = gpus("sm_80").launch(kernel(code), "k", 1, threads, data, data[:threads] * 0)
        return (found - 100).tolist()

    return copied


WAITS = ["cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"]


@pytest.mark.parametrize("wait", WAITS)
def test_a_copy_is_there_for_all_behind_wait_and_barrier(copied, wait):
    expected = [thread ^ 63 for thread in range(64)]
    assert copied(COPY + wait + "bar.sync 0; ld.shared.u32 %v, [%n];") == expected


# Whichever thread comes first.
EITHER = r"data race with|waited to be copied"


@pytest.mark.parametrize(
    ("code", "message"),
    [(COPY + "cp.async.commit_group; bar.sync 0; ld.shared.u32 %v, [%s];", "waited to be copied"),
     (COPY + "cp.async.wait_group 0; ld.shared.u32 %v, [%s];", "waited to be copied"),
     (COPY + "cp.async.wait_all; ld.shared.u32 %v, [%n];", EITHER),
     ("st.shared.u32 [%s], %i; bar.sync 0; ld.shared.u32 %v, [%n];" + COPY, EITHER)],
    ids=["no wait", "no group", "no barrier", "still read"],
)  # fmt: skip
def test_what_hardware_may_get_wrong_is_an_error(copied, code, message):
    with pytest.raises(DriverError, match=message):
        copied(code)


PIPELINE = """mov.u32 %c, 0;
START: mov.u32 %w, %s; mad.lo.u32 %w, %c, 256, %w; mad.wide.u32 %x, %c, 256, %g;
cp.async.ca.shared.global [%w], [%x], 4; cp.async.commit_group;
add.u32 %c, %c, 1; setp.lt.u32 %p, %c, 4; @%p bra START;
cp.async.wait_group 1; ld.shared.u32 %v, [%s+SLICE]; cp.async.wait_all;"""


def test_older_groups_are_waited_for(copied):
    for slice_ in range(3):
        found = copied(PIPELINE.replace("SLICE", str(256 * slice_)), words=256)
        assert found == list(range(64 * slice_, 64 * slice_ + 64))
    with pytest.raises(DriverError, match="waited to be copied"):
        copied(PIPELINE.replace("SLICE", "768"), words=256)


def test_each_thread_has_groups_of_its_own(copied):
    """Even threads commit twice, so that their copy is older than the newest group."""
    code = (
        COPY
        + """cp.async.commit_group; and.b32 %c, %i, 1; setp.eq.u32 %p, %c, 0;
    @%p cp.async.commit_group; mov.u32 %v, 100; cp.async.wait_group 1;"""
    )
    read = "@%p ld.shared.u32 %v, [%s];"
    found = copied(code + read)
    assert found == [0 if thread % 2 else thread for thread in range(64)]
    with pytest.raises(DriverError, match=r"thread .1, 0, 0.: reads 4 bytes"):
        copied(code + read.replace("@", "@!"))


def test_any_number_of_copies_is_on_its_way(copied):
    code = """mov.u32 %c, 0; LOOP: mad.lo.u32 %w, %c, 128, %s; mad.wide.u32 %x, %c, 128, %g;
    cp.async.ca.shared.global [%w], [%x], 4; add.u32 %c, %c, 1; setp.lt.u32 %p, %c, 100;
    @%p bra LOOP; mov.u32 %c, 0; cp.async.wait_all; mov.u32 %v, 100;
    SUM: mad.lo.u32 %w, %c, 128, %s; ld.shared.u32 %w, [%w]; sub.u32 %w, %w, 100;
    add.u32 %v, %v, %w; add.u32 %c, %c, 1; setp.lt.u32 %p, %c, 100; @%p bra SUM;"""
    found = copied(code, threads=32, words=3200)
    assert found == [100 * thread + 32 * 4950 for thread in range(32)]


@pytest.mark.parametrize(("form", "arrivals"), [(".noinc", 64), ("", 128)])
def test_a_barrier_counts_copies(copied, form, arrivals):
    """Without .noinc the barrier's own arrivals, made here by hand, are still to come."""
    by_hand = "" if form else "mbarrier.arrive.shared.b64 %x, [bar];" * 2
    code = f"""setp.eq.u32 %p, %i, 0; @%p mbarrier.init.shared.b64 [bar], {arrivals}; bar.sync 0;
    {COPY} cp.async.mbarrier.arrive{form}.shared.b64 [bar]; {by_hand}
    W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra W; ld.shared.u32 %v, [%n];"""
    assert copied(code) == [thread ^ 63 for thread in range(64)]
