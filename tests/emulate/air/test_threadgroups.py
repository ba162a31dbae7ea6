"""What threads of a simdgroup and of a threadgroup do together, and what goes wrong in it."""

import numpy as np
import pytest
from tests.thinning import chosen

from treadle.emulate.air.matrix import place_of
from treadle.emulate.simt.execute import EmulationFault
from treadle.emulate.simt.machine import Fault

from .conftest import launch

LANES = np.arange(32)
VALUES = np.random.default_rng(1).integers(-100, 100, 32).astype(np.int32)

SIMD = {
    "simd_sum(x)": lambda x: np.full(32, x.sum()),
    "simd_max(x)": lambda x: np.full(32, x.max()),
    "simd_min(x)": lambda x: np.full(32, x.min()),
    "simd_and(x)": lambda x: np.full(32, np.bitwise_and.reduce(x)),
    "simd_or(x)": lambda x: np.full(32, np.bitwise_or.reduce(x)),
    "simd_xor(x)": lambda x: np.full(32, np.bitwise_xor.reduce(x)),
    "simd_prefix_inclusive_sum(x)": np.cumsum,
    "simd_prefix_exclusive_sum(x)": lambda x: np.cumsum(x) - x,
    "simd_shuffle(x, ushort(lane * 7 % 32))": lambda x: x[LANES * 7 % 32],
    "simd_shuffle_xor(x, 5)": lambda x: x[LANES ^ 5],
    "simd_shuffle_down(x, 3)": lambda x: np.where(LANES < 29, np.roll(x, -3), x),
    "simd_shuffle_up(x, 3)": lambda x: np.where(LANES >= 3, np.roll(x, 3), x),
    "simd_shuffle_rotate_down(x, 3)": lambda x: np.roll(x, -3),
    "simd_shuffle_rotate_up(x, 3)": lambda x: np.roll(x, 3),
    "simd_broadcast(x, 9)": lambda x: np.full(32, x[9]),
    "quad_sum(x)": lambda x: x.reshape(8, 4).sum(1).repeat(4),
    "quad_shuffle_xor(x, 2)": lambda x: x[LANES ^ 2],
    "quad_broadcast(x, 3)": lambda x: x.reshape(8, 4)[:, 3].repeat(4),
    "int(simd_any(x == 1000))": lambda x: np.zeros(32),
    "int(simd_all(x < 1000))": lambda x: np.ones(32),
    "int(popcount(ulong(simd_vote::vote_t(simd_ballot(x > 0)))))": lambda x: np.full(
        32, (x > 0).sum()
    ),
    "int2(simd_shuffle_xor(int2(x, -x), 1)).y": lambda x: -x[LANES ^ 1],
    "int(simd_shuffle_xor(half(x), 1))": lambda x: x[LANES ^ 1],
    "int(simd_sum(float(x)))": lambda x: np.full(32, x.sum()),
    "int(simd_max(half(x)))": lambda x: np.full(32, x.max()),
}
SIMD = {code: function for code, function in SIMD.items() if chosen(code, 4)}


@pytest.fixture(scope="session")
def simd(msl):
    return msl("".join(
        f"kernel void k{i}(device int *out [[buffer(0)]], device const int *in [[buffer(1)]], "
        f"uint lane [[thread_index_in_simdgroup]]) {{ int x = in[lane]; out[lane] = {code}; }}\n"
        for i, code in enumerate(SIMD)
    ))  # fmt: skip


@pytest.mark.parametrize("code", SIMD)
def test_a_simdgroup_s_function_is_numpy_s(simd, code):
    out = np.zeros(32, np.int32)
    launch(simd, f"k{list(SIMD).index(code)}", 1, 32, {0: out, 1: VALUES})
    np.testing.assert_array_equal(out, SIMD[code](VALUES).astype(np.int32))


def test_simdgroup_functions_are_about_the_lanes_that_call_them(msl):
    program = msl("""
    kernel void k(device int *out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
      if (lane % 3 == 0) out[lane] = simd_sum(int(lane));
      else out[lane] = simd_max(int(lane));
    }""")
    out = np.zeros(32, np.int32)
    launch(program, "k", 1, 32, {0: out})
    thirds = LANES[LANES % 3 == 0]
    np.testing.assert_array_equal(out, np.where(LANES % 3 == 0, thirds.sum(), 31))


def test_lanes_meet_again_behind_a_loop_however_long_it_is(msl):
    program = msl("""
    kernel void k(device int *out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
      uint x = lane + 1, steps = 0;
      while (steps < 100 * lane) { x = x * 1664525u + 1013904223u; steps++; }
      out[lane] = simd_sum(int(steps));
      out[lane + 32] = int(x);
    }""")
    out = np.zeros(64, np.int32)
    launch(program, "k", 1, 32, {0: out})
    assert (out[:32] == 100 * LANES.sum()).all()


def test_positions_are_those_of_the_grid(msl):
    program = msl("""
    kernel void k(device uint *out [[buffer(0)]], uint3 p [[thread_position_in_grid]],
                  uint3 g [[threadgroup_position_in_grid]],
                  ushort3 l [[thread_position_in_threadgroup]],
                  uint3 n [[threads_per_grid]], uint3 t [[threads_per_threadgroup]],
                  uint3 b [[threadgroups_per_grid]], uint i [[thread_index_in_threadgroup]],
                  uint s [[simdgroup_index_in_threadgroup]],
                  ushort lane [[thread_index_in_simdgroup]],
                  uint w [[threads_per_simdgroup]], uint m [[simdgroups_per_threadgroup]]) {
      device uint *mine = out + 10 * ((p.z * n.y + p.y) * n.x + p.x);
      mine[0] = g.x + 100 * g.y + 10000 * g.z;
      mine[1] = l.x + 100 * l.y + 10000 * l.z;
      mine[2] = n.x; mine[3] = t.y; mine[4] = b.z;
      mine[5] = i; mine[6] = s; mine[7] = lane; mine[8] = w; mine[9] = m;
    }""")
    grid, block = (2, 3, 2), (4, 5, 3)
    out = np.zeros((6, 15, 8, 10), np.uint32)
    launch(program, "k", grid, block, {0: out})
    for (z, y, x), _ in np.ndenumerate(out[..., 0]):
        index = (z % 3 * 5 + y % 5) * 4 + x % 4
        wanted = [
            x // 4 + 100 * (y // 5) + 10000 * (z // 3), x % 4 + 100 * (y % 5) + 10000 * (z % 3),
            8, 5, 2, index, index // 32, index % 32, 32, 2,
        ]  # fmt: skip
        assert out[z, y, x].tolist() == wanted


REVERSE = """
kernel void reverse(device float *out [[buffer(0)]], device const float *in [[buffer(1)]],
                    uint i [[thread_position_in_threadgroup]]) {
  threadgroup float shared[128];
  shared[i] = in[i];
  %s
  out[i] = shared[127 - i];
}
"""


def test_threadgroup_memory_is_shared_behind_a_barrier(msl):
    program = msl(REVERSE % "threadgroup_barrier(mem_flags::mem_threadgroup);")
    values, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    launch(program, "reverse", 1, 128, {0: out, 1: values})
    np.testing.assert_array_equal(out, values[::-1])
    assert program.module.kernels["reverse"].static_threadgroup_bytes == 512


def test_a_missing_barrier_is_a_fault(msl):
    program = msl(REVERSE % "")
    values, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with pytest.raises(EmulationFault, match="shared memory") as caught:
        launch(program, "reverse", 1, 128, {0: out, 1: values})
    assert caught.value.kind in (Fault.RACE, Fault.UNINITIALISED)
    assert "AIR line" in str(caught.value)


DEVICE_REVERSE = """
kernel void reverse(device float *out [[buffer(0)]], device const float *in [[buffer(1)]],
                    device float *kept [[buffer(2)]], uint i [[thread_position_in_threadgroup]]) {
  kept[i] = in[i];
  %s
  out[i] = kept[SIZE - 1 - i];
}
"""


@pytest.mark.parametrize("flags", ["none", "device", "threadgroup", "both"])
@pytest.mark.parametrize("memory", ["device", "threadgroup"])
@pytest.mark.parametrize("who", ["threadgroup", "simdgroup"])
def test_a_barrier_orders_the_memory_that_it_names(msl, who, memory, flags):
    size = 128 if who == "threadgroup" else 32
    words = {"both": "mem_flags::mem_device | mem_flags::mem_threadgroup"}
    barrier = f"{who}_barrier({words.get(flags, f'mem_flags::mem_{flags}')});"
    text = DEVICE_REVERSE if memory == "device" else REVERSE
    text = text.replace("127 -", f"{size - 1} -").replace("SIZE", str(size))
    program = msl(text % barrier)
    values, out = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    buffers = {0: out, 1: values, 2: np.zeros(size, np.float32)}
    if flags not in (memory, "both"):
        with pytest.raises(EmulationFault) as caught:
            launch(program, "reverse", 1, size, buffers)
        assert caught.value.kind == (Fault.GLOBAL_RACE if memory == "device" else Fault.RACE)
    else:
        launch(program, "reverse", 1, size, buffers)
        np.testing.assert_array_equal(out, values[::-1])


def test_what_one_barrier_orders_is_not_what_the_next_one_does(msl):
    """Of two barriers in a row each has its own flags, in whatever order simdgroups come there."""
    program = msl("""
    kernel void k(device int *out [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
      threadgroup int shared[64];
      shared[i] = int(i);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      out[i] = shared[63 - i];
      threadgroup_barrier(mem_flags::mem_none);
      out[i] += out[63 - i];
    }""")
    with pytest.raises(EmulationFault) as caught:
        launch(program, "k", 1, 64, {0: np.zeros(64, np.int32)})
    assert caught.value.kind == Fault.GLOBAL_RACE


def test_threadgroup_memory_of_a_launch_lies_behind_the_kernel_s_own(msl):
    program = msl("""
    kernel void k(device int *out [[buffer(0)]], threadgroup int *a [[threadgroup(0)]],
                  threadgroup int *b [[threadgroup(1)]],
                  uint i [[thread_position_in_threadgroup]]) {
      threadgroup int own[3];
      if (i < 3) own[i] = 1;
      a[i] = int(i); b[i] = 10 * int(i);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      out[i] = a[31 - i] + b[(i + 1) % 32] + own[i % 3];
    }""")
    out = np.zeros(32, np.int32)
    launch(program, "k", 1, 32, {0: out}, {0: 128, 1: 128})
    np.testing.assert_array_equal(out, 31 - LANES + 10 * ((LANES + 1) % 32) + 1)
    with pytest.raises(ValueError, match="threadgroup memory 1"):
        launch(program, "k", 1, 32, {0: out}, {0: 128})
    with pytest.raises(EmulationFault, match="shared memory"):
        launch(program, "k", 1, 32, {0: out}, {0: 128, 1: 64})


def test_barriers_in_loops_order_all_simdgroups(msl):
    program = msl("""
    kernel void k(device int *out [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
      threadgroup int shared[256];
      shared[i] = int(i);
      for (uint step = 128; step > 0; step /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (i < step) shared[i] += shared[i + step];
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      out[i] = shared[0];
    }""")
    out = np.zeros(256, np.int32)
    launch(program, "k", 1, 256, {0: out})
    assert (out == 255 * 128).all()


def test_threads_that_leave_out_a_barrier_are_a_fault(msl):
    program = msl("""
    kernel void k(device int *out [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
      if (i < 40) threadgroup_barrier(mem_flags::mem_threadgroup);
      else while (out[0] == 0) threadgroup_barrier(mem_flags::mem_none);
      out[i] = 1;
    }""")
    with pytest.raises(EmulationFault):
        launch(program, "k", 1, 64, {0: np.zeros(64, np.int32)})


ACCESS = """
kernel void far(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i + 1] = 1;
}
kernel void odd(device char *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  *(device float *)(out + 4 * i + 2) = 1;
}
kernel void beyond(device float *out [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
  threadgroup float shared[32];
  shared[i + 1] = float(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = shared[(i + 5) % 31 + 1];
}
kernel void scatter(device int *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i / 64] = int(i);
}
kernel void bound(device int *out [[buffer(0)]], constant int &n [[buffer(4)]],
                  uint i [[thread_position_in_grid]]) {
  *(device int *)(&n + 0 * i) = 3;
}
"""


@pytest.mark.parametrize(
    ("name", "kind"),
    [("far", Fault.GLOBAL), ("odd", Fault.MISALIGNED), ("beyond", Fault.SHARED),
     ("scatter", Fault.GLOBAL_RACE)],
)  # fmt: skip
def test_a_wrong_access_is_a_fault(msl, name, kind):
    program = msl(ACCESS.split("kernel void bound")[0])
    out = np.zeros(32, np.float32)
    with pytest.raises(EmulationFault) as caught:
        launch(program, name, 2, 32, {0: out[:32] if name != "scatter" else out})
    assert caught.value.kind == kind
    assert name in str(caught.value)


def test_bytes_of_a_launch_are_read_and_never_written(msl):
    program = msl("""
    struct Sizes { int rows; int columns; float scale; };
    kernel void k(device float *out [[buffer(0)]], constant Sizes &sizes [[buffer(1)]],
                  constant float *table [[buffer(2)]], uint i [[thread_position_in_grid]]) {
      out[i] = table[i % 4] * sizes.scale + sizes.rows * sizes.columns;
    }""")
    out = np.zeros(32, np.float32)
    table = np.array([1, 2, 3, 4], np.float32)
    sizes = np.array([3, 5], np.int32).tobytes() + np.float32(0.5).tobytes()
    launch(program, "k", 1, 32, {0: out, 1: sizes, 2: table.tobytes()})
    np.testing.assert_array_equal(out, table[LANES % 4] * 0.5 + 15)
    with pytest.raises(ValueError, match="buffer 2, table"):
        launch(program, "k", 1, 32, {0: out, 1: sizes})
    with pytest.raises(EmulationFault, match="access to"):
        launch(program, "k", 1, 32, {0: out, 1: sizes, 2: table[:3].tobytes()})


def test_bytes_of_a_launch_are_aligned_for_every_type(msl):
    program = msl("""
    kernel void k(device float4 *out [[buffer(0)]], constant float4 &a [[buffer(1)]],
                  constant float4 &b [[buffer(2)]], constant float4 &c [[buffer(3)]],
                  uint i [[thread_position_in_grid]]) { out[i] = a + b * c; }""")
    out = np.zeros((32, 4), np.float32)
    four = np.arange(4, dtype=np.float32)
    launch(program, "k", 1, 32, {0: out, **dict.fromkeys((1, 2, 3), four.tobytes())})
    assert (out == four + four * four).all()


def test_constants_of_the_program_and_memory_of_a_thread(msl):
    program = msl("""
    constant int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    kernel void k(device int *out [[buffer(0)]], device const int *in [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
      int mine[8];
      for (int j = 0; j < 8; j++) mine[(j + in[i]) & 7] = table[j] * int(i);
      out[i] = mine[in[i + 1] & 7];
    }""")
    choices = np.random.default_rng(2).integers(0, 8, 33).astype(np.int32)
    out = np.zeros(32, np.int32)
    launch(program, "k", 1, 32, {0: out, 1: choices})
    table = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    np.testing.assert_array_equal(out, table[(choices[1:] - choices[:-1]) % 8] * LANES)


def test_structs_and_packed_vectors_are_copied_between_memories(msl):
    program = msl("""
    struct halfx8 { half4 part0; half4 part1; };
    kernel void k(device half *out [[buffer(0)]], device const half *in [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
      halfx8 both = *(device const halfx8 *)(in + 8 * i);
      *(device halfx8 *)(out + 8 * i) = halfx8{both.part1, both.part0};
      const half2 pair = half2(*(device const packed_half2 *)(in + 2 * i + 1));
      *(device packed_half2 *)(out + 256 + 2 * i) = packed_half2(pair.y, pair.x);
    }""")
    values = np.arange(256).astype(np.float16)
    out = np.zeros(320, np.float16)
    launch(program, "k", 1, 32, {0: out, 1: values})
    np.testing.assert_array_equal(out[:256].reshape(32, 2, 4), values.reshape(32, 2, 4)[:, ::-1])
    np.testing.assert_array_equal(out[256:].reshape(32, 2), values[1:65].reshape(32, 2)[:, ::-1])


PADDED = """
struct P { bool first; float3 v; char last; };
kernel void k(device P *out [[buffer(0)]], device const P *in [[buffer(1)]],
              uint i [[thread_position_in_threadgroup]]) {
  threadgroup P shared[32];
  %s
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = shared[31 - i];
}
"""
ROW = np.dtype([("first", "u1"), ("a", "V15"), ("v", "3f4"), ("b", "V4"), ("last", "i1"),
                ("c", "V15")])  # fmt: skip


@pytest.mark.parametrize(
    "fill",
    ["shared[i] = in[i];", "shared[i] = P{in[i].first, in[i].v, in[i].last};",
     "shared[i].first = in[i].first; shared[i].v = in[i].v; shared[i].last = in[i].last;"],
)  # fmt: skip
def test_structs_are_shared_whatever_lies_between_their_members(msl, fill):
    given, out = (np.zeros(32, ROW) for _ in range(2))
    given["first"], given["last"] = LANES % 2, LANES
    given["v"] = LANES[:, None] * [1, 2, 3]
    launch(msl(PADDED % fill), "k", 1, 32, {0: out, 1: given})
    for name in ("first", "v", "last"):
        np.testing.assert_array_equal(out[name], given[name][::-1])


def test_a_member_that_nobody_wrote_is_a_fault_all_the_same(msl):
    fill = "shared[i].first = in[i].first; shared[i].v = in[i].v;"
    with pytest.raises(EmulationFault) as caught:
        launch(msl(PADDED % fill), "k", 1, 32, {0: np.zeros(32, ROW), 1: np.zeros(32, ROW)})
    assert caught.value.kind == Fault.UNINITIALISED


def test_constants_may_be_tables_of_structs_and_vectors(msl):
    program = msl("""
    struct S { char a; float b; short c[3]; };
    constant S structs[2] = {{1, 2, {3, 4, 5}}, {6, 7, {8, 9, 10}}};
    constant float rows[2][3] = {{1, 2, 3}, {4, 5, 6}};
    constant float4 fours[2] = {float4(1, 2, 3, 4), float4(5)};
    constant float3 threes[2] = {{1, 2, 3}, {4, 5, 6}};
    kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
      const float own[4] = {4, 3, 2, 1};
      out[i] = structs[i % 2].c[i % 3] + 100 * structs[i % 2].b + 1000 * rows[i % 2][i % 3];
      out[32 + i] = fours[i % 2][i % 4] + 10 * threes[i % 2][i % 3] + 100 * own[i % 4];
    }""")
    out = np.zeros(64, np.float32)
    launch(program, "k", 1, 32, {0: out})
    two, three, four = LANES % 2, LANES % 3, LANES % 4
    rows = np.arange(1, 7).reshape(2, 3)[two, three]
    first = np.array([[3, 4, 5], [8, 9, 10]])[two, three] + 100 * np.array([2, 7])[two]
    np.testing.assert_array_equal(out[:32], first + 1000 * rows)
    fours = np.array([[1, 2, 3, 4], [5, 5, 5, 5]])[two, four]
    np.testing.assert_array_equal(out[32:], fours + 10 * rows + 100 * (4 - four))


def test_packed_vectors_of_three_take_the_room_of_three(msl):
    program = msl("""
    struct Both { char before; packed_half3 v; };
    kernel void k(device packed_float3 *out [[buffer(0)]],
                  device const packed_float3 *in [[buffer(1)]], device Both *both [[buffer(2)]],
                  threadgroup packed_int3 *kept [[threadgroup(0)]],
                  uint i [[thread_position_in_threadgroup]]) {
      const float3 v = in[i];
      packed_float3 p = v.zyx + 1;
      p.y = p[0] + v.x;
      p[2] *= 2;
      p += float3(1, 2, 3);
      kept[i] = packed_int3(int3(v));
      threadgroup_barrier(mem_flags::mem_threadgroup);
      out[i] = packed_float3(float3(p) * float3(int3(kept[31 - i])));
      both[i].v = packed_half3(half3(v));
      both[i].before = sizeof(packed_float3) + sizeof(packed_uchar3) + sizeof(Both);
    }""")
    given = np.arange(96, dtype=np.float32).reshape(32, 3)
    out = np.zeros((32, 3), np.float32)
    both = np.zeros(32, [("before", "i1"), ("a", "V1"), ("v", "3f2")])
    launch(program, "k", 1, 32, {0: out, 1: given, 2: both}, {0: 32 * 12})
    x, _, z = given.T
    made = np.stack([z + 2, z + 1 + x + 2, (x + 1) * 2 + 3], 1)
    np.testing.assert_array_equal(out, made * given[::-1])
    np.testing.assert_array_equal(both["v"], given.astype(np.float16))
    assert (both["before"] == 12 + 3 + 8).all()


def test_atomic_operations_lose_nothing(msl):
    program = msl("""
    kernel void k(device atomic_uint *sums [[buffer(0)]], device atomic_float *floats [[buffer(1)]],
                  device atomic_int *extremes [[buffer(2)]], uint i [[thread_position_in_grid]]) {
      threadgroup atomic_uint local_sum;
      if (i % 64 == 0) atomic_store_explicit(&local_sum, 0u, memory_order_relaxed);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      atomic_fetch_add_explicit(&sums[i % 3], i, memory_order_relaxed);
      atomic_fetch_add_explicit(floats, 0.5f, memory_order_relaxed);
      atomic_fetch_max_explicit(extremes, int(i), memory_order_relaxed);
      atomic_fetch_min_explicit(extremes + 1, -int(i), memory_order_relaxed);
      atomic_fetch_add_explicit(&local_sum, 1u, memory_order_relaxed);
      int expected = 7;
      atomic_compare_exchange_weak_explicit(extremes + 2, &expected, 9, memory_order_relaxed,
                                            memory_order_relaxed);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (i % 64 == 0)
        atomic_fetch_add_explicit(&sums[3], atomic_load_explicit(&local_sum, memory_order_relaxed),
                                  memory_order_relaxed);
    }""")
    sums, floats = np.zeros(4, np.uint32), np.zeros(1, np.float32)
    extremes = np.array([0, 0, 7], np.int32)
    launch(program, "k", 4, 64, {0: sums, 1: floats, 2: extremes})
    numbers = np.arange(256)
    assert sums.tolist() == [numbers[k::3].sum() for k in range(3)] + [256]
    assert floats[0] == 128
    assert extremes.tolist() == [255, -255, 9]


MATRIX = """
kernel void product(device T *out [[buffer(0)]], device const A *a [[buffer(1)]],
                    device const A *b [[buffer(2)]], device const T *c [[buffer(3)]]) {
  simdgroup_matrix<A, 8, 8> x, y;
  simdgroup_matrix<T, 8, 8> z;
  simdgroup_load(x, a, 8);
  simdgroup_load(y, b, 8, ulong2(0, 0), true);
  simdgroup_load(z, c, 8);
  simdgroup_multiply_accumulate(z, x, y, z);
  simdgroup_store(z, out, 8);
}
kernel void places(device T *out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_matrix<T, 8, 8> m(T(1));
  m.thread_elements()[0] += T(2 * lane);
  m.thread_elements()[1] = m.thread_elements().y + T(2 * lane + 1);
  threadgroup T shared[16 * 10];
  simdgroup_store(m, shared + 3, 10);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  out[lane] = shared[3 + lane / 8 * 10 + lane % 8];
  out[lane + 32] = shared[3 + (lane / 8 + 4) * 10 + lane % 8];
}
"""


@pytest.mark.parametrize(("result", "factor"), [("float", "float"), ("float", "half"),
                                                ("half", "half"), ("float", "bfloat")])  # fmt: skip
def test_products_of_simdgroup_matrices_are_numpy_s(msl, result, factor):
    from ml_dtypes import bfloat16

    kinds = {"float": np.float32, "half": np.float16, "bfloat": bfloat16}
    program = msl(f"typedef {result} T;\ntypedef {factor} A;\n{MATRIX}")
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((8, 8)).astype(kinds[factor]) for _ in range(2))
    c, out = random.standard_normal((8, 8)).astype(kinds[result]), np.zeros((8, 8), kinds[result])
    launch(program, "product", 1, 32, {0: out, 1: a, 2: b, 3: c})
    wanted = a.astype(float) @ b.astype(float).T + c.astype(float)
    np.testing.assert_array_equal(out, wanted.astype(np.float32).astype(kinds[result]))


def test_a_lane_has_two_neighbours_of_a_row(msl):
    program = msl(f"typedef float T;\ntypedef float A;\n{MATRIX}")
    out = np.zeros((8, 8), np.float32)
    launch(program, "places", 1, 32, {0: out})
    wanted = np.eye(8)
    for lane in range(32):
        row, column = place_of(lane)
        wanted[row, column : column + 2] += 2 * lane, 2 * lane + 1
    np.testing.assert_array_equal(out, wanted)
