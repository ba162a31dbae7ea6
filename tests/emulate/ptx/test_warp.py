"""What threads do together: shuffles, votes, barriers, and how they part and meet again."""

import math

import numpy as np
import pytest

LANES = np.arange(32, dtype="u4")


def shuffled(mode, b, c):
    """shfl.sync as the pseudocode of the specification writes it: (source lane, inside)."""
    found = []
    for lane in range(32):
        bval, cval, segment = b & 31, c & 31, c >> 8 & 31
        most = (lane & segment) | (cval & ~segment & 31)
        least = lane & segment
        if mode == "up":
            source, inside = lane - bval, lane - bval >= most
        elif mode == "down":
            source, inside = lane + bval, lane + bval <= most
        elif mode == "bfly":
            source, inside = lane ^ bval, lane ^ bval <= most
            inside = (lane ^ bval) <= most
        else:
            source = least | (bval & ~segment & 31)
            inside = source <= most
        found.append((source if inside else lane, inside))
    return found


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(run, mode, width):
    c = ((32 - width) << 8) | (0 if mode == "up" else 31)
    for b in (0, 1, 5, 16, 31):
        expected = shuffled(mode, b, c)
        code = f"shfl.sync.{mode}.b32 %t0|%p0, %a, {b}, {c}, -1;"
        code += "selp.u32 %t1, 100, 0, %p0; add.u32 %d, %t0, %t1;"
        assert run(code, LANES, out="u4").tolist() == [s + 100 * i for s, i in expected]
        code = code.replace(f"{b}, {c}, -1", "%t2, %t3, %t4")
        code = f"mov.u32 %t2, {b}; mov.u32 %t3, {c}; mov.u32 %t4, -1;" + code
        assert run(code, LANES, out="u4").tolist() == [s + 100 * i for s, i in expected]


def test_each_lane_may_ask_for_another(run):
    wanted = np.random.default_rng(1).permutation(32).astype("u4")
    found = run("shfl.sync.idx.b32 %d, %a, %b, 31, -1;", LANES * 3, wanted, out="u4")
    assert (found == wanted * 3).all()


def test_votes(run):
    code = "setp.lt.u32 %p0, %a, 5; vote.sync.ballot.b32 %d, %p0, -1;"
    assert run(code, LANES, out="u4").tolist() == [31] * 32
    for limit, expected in ((0, "000"), (5, "010"), (32, "111")):
        code = f"""setp.lt.u32 %p0, %a, {limit}; vote.sync.all.pred %p1, %p0, -1;
        vote.sync.any.pred %p2, %p0, -1; selp.u32 %t0, 4, 0, %p1; selp.u32 %t1, 2, 0, %p2;
        vote.sync.all.pred %p3, !%p0, -1; selp.u32 %t2, 0, 1, %p3; or.b32 %t0, %t0, %t1;
        or.b32 %d, %t0, %t2;"""
        wanted = {"000": 0, "010": 3, "111": 7}[expected]
        assert run(code, LANES, out="u4").tolist() == [wanted] * 32


def test_matches(run):
    values = np.array([7, 9, 7, 3] * 8, "u4")
    found = run("match.any.sync.b32 %d, %a, -1;", values, out="u4")
    assert found.tolist() == [sum(1 << j for j in range(32) if values[j] == v) for v in values]
    code = "match.all.sync.b32 %t0|%p0, %a, -1; selp.u32 %d, %t0, 5, %p0;"
    assert run(code, values, out="u4").tolist() == [5] * 32
    assert run(code, values * 0, out="u4").tolist() == [0xFFFFFFFF] * 32


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("add.u32", 496 + 32), ("max.s32", 32), ("min.u32", 1), ("xor.b32", 32), ("and.b32", 0)],
)
def test_reductions_of_a_warp(run, operation, expected):
    found = run(f"redux.sync.{operation} %d, %a, -1;", LANES + 1, out="u4")
    assert found.tolist() == [expected] * 32


@pytest.mark.parametrize("values", ["numbers", "zeros", "some NaN", "all NaN"])
@pytest.mark.parametrize("form", ["max", "min", "max.abs", "min.abs", "max.NaN", "min.abs.NaN"])
def test_extremes_of_floats_of_a_warp(run, form, values):
    """Of the lanes that are named: not of the last two, which have the largest numbers."""
    x = np.random.default_rng(7).standard_normal(32).astype("f4")
    if values == "zeros":
        x = np.where(np.arange(32) % 3 == 0, np.float32(-0.0), np.float32(0.0))
    elif values == "some NaN":
        x[[3, 9]] = np.nan
    elif values == "all NaN":
        x[:30] = np.nan
    x[30:] = (1e30, -1e30)
    seen = np.abs(x[:30]) if "abs" in form else x[:30]
    numbers = seen[~np.isnan(seen)]
    if not numbers.size or ("NaN" in form and np.isnan(seen).any()):
        expected = 0x7FFFFFFF
    else:
        pick = max if "max" in form else min
        least = pick(numbers.tolist(), key=lambda v: (v, math.copysign(1, v)))
        expected = int(np.float32(least).view("u4"))
    found = run(f"redux.sync.{form}.f32 %d, %a, 0x3fffffff;", x.view("u4"), out="u4")
    assert found[:30].tolist() == [expected] * 30


def test_one_lane_is_elected(run):
    code = "elect.sync %t0|%p0, 0xfff0; selp.u32 %d, 1, 0, %p0;"
    assert run(code, LANES, out="u4").tolist() == [int(i == 4) for i in range(32)]


def test_diverged_lanes_meet_at_a_shuffle(run):
    """Halves of a warp come to one shfl.sync by ways of different length."""
    code = """setp.lt.u32 %p0, %a, 16; mov.u32 %t0, 0; @%p0 bra SHORT;
    mov.u32 %t1, 0;
    LOOP: add.u32 %t0, %t0, %a; add.u32 %t1, %t1, 1; setp.lt.u32 %p1, %t1, 10; @%p1 bra LOOP;
    bra MEET;
    SHORT: add.u32 %t0, %a, 1000;
    MEET: shfl.sync.bfly.b32 %d, %t0, 16, 31, -1;"""
    expected = [int(i ^ 16) * 10 if (i ^ 16) >= 16 else (i ^ 16) + 1000 for i in range(32)]
    assert run(code, LANES, out="u4").tolist() == expected


def test_only_the_named_lanes_wait_for_each_other(run):
    code = """setp.lt.u32 %p0, %a, 16; mov.u32 %d, 7; @!%p0 bra AWAY;
    shfl.sync.bfly.b32 %d, %a, 1, 31, 0xffff;
    AWAY: activemask.b32 %t0;"""
    assert run(code, LANES, out="u4").tolist() == [i ^ 1 if i < 16 else 7 for i in range(32)]


def test_loops_of_each_lane_end_on_their_own(run):
    code = """mov.u32 %d, 0; mov.u32 %t0, %a;
    NEXT: setp.eq.u32 %p0, %t0, 1; @%p0 bra OUT; and.b32 %t1, %t0, 1; setp.eq.u32 %p1, %t1, 1;
    @%p1 mad.lo.u32 %t0, %t0, 3, 1; @!%p1 shr.u32 %t0, %t0, 1; add.u32 %d, %d, 1; bra NEXT;
    OUT:"""

    def steps(n):
        count = 0
        while n != 1:
            n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
        return count

    start = np.arange(1, 101, dtype="u4")
    assert run(code, start, out="u4").tolist() == [steps(int(n)) for n in start]


def test_a_table_of_targets(run):
    code = """T: .branchtargets ZERO, ONE, TWO; rem.u32 %t0, %a, 3; brx.idx %t0, T;
    ZERO: mov.u32 %d, 100; bra END; ONE: mov.u32 %d, 200; bra END; TWO: mov.u32 %d, 300; END:"""
    found = run(code, LANES, out="u4").tolist()
    assert found == [(100, 200, 300)[i % 3] for i in range(32)]


def test_a_lane_may_wait_for_what_another_stores(gpu):
    """Threads of one warp go on independently: a spinning lane does not starve the others."""
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %x; .reg .b32 %i, %t; .reg .pred %p;
.shared .align 4 .b32 flag; mov.u32 %i, %tid.x; ld.param.u64 %x, [p];
setp.eq.u32 %p, %i, 0; @%p st.shared.u32 [flag], 0; bar.sync 0;
setp.eq.u32 %p, %i, 31; @%p bra SET;
SPIN: ld.acquire.cta.shared.u32 %t, [flag]; setp.eq.u32 %p, %t, 0; @%p bra SPIN; bra END;
SET: st.release.cta.shared.u32 [flag], 5;
END: ld.acquire.cta.shared.u32 %t, [flag]; mad.wide.u32 %x, %i, 4, %x;
st.global.u32 [%x], %t; ret; }"""
    (found,) = gpu.launch(text, "k", 1, 32, np.zeros(32, "u4"))
    assert found.tolist() == [5] * 32


BARRIERS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %x; .reg .b32 %i, %t, %s; .reg .pred %p, %q;
.shared .align 4 .b8 tile[1024]; mov.u32 %i, %tid.x; ld.param.u64 %x, [p];
mad.wide.u32 %x, %i, 4, %x; CODE st.global.u32 [%x], %t; ret; }"""


@pytest.mark.parametrize(("how", "kind", "expected"), [
    ("popc", "u32", lambda n: n // 3 + (n % 3 > 0)), ("and", "pred", lambda n: 0),
    ("or", "pred", lambda n: 1),
])  # fmt: skip
def test_barriers_reduce_predicates(gpu, how, kind, expected):
    code = "rem.u32 %t, %i, 3; setp.eq.u32 %p, %t, 0; "
    result = "%t" if kind == "u32" else "%q"
    code += f"barrier.cta.red.{how}.aligned.{kind} {result}, 0, %p; "
    code += "selp.u32 %t, 1, 0, %q;" if kind == "pred" else ""
    (found,) = gpu.launch(BARRIERS.replace("CODE", code), "k", 1, 100, np.zeros(100, "u4"))
    assert found.tolist() == [expected(100)] * 100


def test_named_barriers_of_some_warps(gpu):
    """Warps 0 and 1 hand values over behind barrier 3; the others never come to it."""
    code = """shl.b32 %s, %i, 2; mov.u32 %t, tile; add.u32 %s, %s, %t; mov.u32 %t, 9;
    setp.ge.u32 %p, %i, 64; @%p bra END; st.shared.u32 [%s], %i; bar.sync 3, 64;
    xor.b32 %s, %s, 128; ld.shared.u32 %t, [%s]; END:"""
    (found,) = gpu.launch(BARRIERS.replace("CODE", code), "k", 1, 128, np.zeros(128, "u4"))
    assert found.tolist() == [i ^ 32 if i < 64 else 9 for i in range(128)]


def test_threads_that_have_exited_are_not_waited_for(gpu):
    code = "setp.ge.u32 %p, %i, 40; @%p exit; bar.sync 0; mov.u32 %t, 1;"
    (found,) = gpu.launch(BARRIERS.replace("CODE", code), "k", 1, 64, np.zeros(64, "u4"))
    assert found.tolist() == [1] * 40 + [0] * 24


def test_special_registers(gpu):
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %x; .reg .b32 %n, %t, %u, %v; ld.param.u64 %x, [p];
mov.u32 %n, %ctaid.z; mov.u32 %t, %nctaid.y; mov.u32 %u, %ctaid.y; mad.lo.u32 %n, %n, %t, %u;
mov.u32 %t, %nctaid.x; mov.u32 %u, %ctaid.x; mad.lo.u32 %n, %n, %t, %u;
mov.u32 %t, %ntid.z; mov.u32 %u, %tid.z; mad.lo.u32 %n, %n, %t, %u;
mov.u32 %t, %ntid.y; mov.u32 %u, %tid.y; mad.lo.u32 %n, %n, %t, %u;
mov.u32 %t, %ntid.x; mov.u32 %u, %tid.x; mad.lo.u32 %n, %n, %t, %u;
mad.wide.u32 %x, %n, 8, %x; mov.u32 %t, %laneid; mov.u32 %u, %warpid; mad.lo.u32 %t, %u, 32, %t;
mov.u32 %v, %lanemask_lt; st.global.v2.u32 [%x], {%t, %v}; ret; }"""
    count = 2 * 3 * 2 * 5 * 4 * 3
    (found,) = gpu.launch(text, "k", (2, 3, 2), (5, 4, 3), np.zeros((count, 2), "u4"))
    threads = np.tile(np.arange(60), 12)
    assert found[:, 0].tolist() == threads.tolist()
    assert found[:, 1].tolist() == [(1 << t % 32) - 1 for t in threads]
