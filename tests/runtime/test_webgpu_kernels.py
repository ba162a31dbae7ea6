"""WebGPU: bindings, integers, replay, large grids, times and copies, by handwritten kernels."""

from __future__ import annotations

import dataclasses
import gc

import numpy as np
import pytest

from treadle.errors import DeviceError
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.webgpu import WebGPUDevice

VADD = """
@group(0) @binding(0) var<storage, read> a: array<i32>;
@group(0) @binding(1) var<storage, read> b: array<i32>;
@group(0) @binding(2) var<storage, read_write> sum: array<i32>;
@compute @workgroup_size(64)
fn vadd(@builtin(global_invocation_id) id: vec3<u32>) { sum[id.x] = a[id.x] + 2 * b[id.x]; }
"""
SCALE = """
@group(0) @binding(0) var<storage, read_write> x: array<i32>;
@group(0) @binding(1) var<uniform> vars: array<vec4<i32>, 1>;
@compute @workgroup_size(8)
fn scale(@builtin(local_invocation_index) i: u32) { x[i] = x[i] * vars[0][0] + vars[0][1]; }
"""
SIX = """
@group(0) @binding(0) var<storage, read_write> x: array<i32>;
@group(0) @binding(1) var<uniform> vars: array<vec4<i32>, 2>;
@compute @workgroup_size(6)
fn six(@builtin(local_invocation_index) i: u32) { x[i] = vars[i / 4][i % 4]; }
"""
COUNT = """
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1)
fn count(@builtin(workgroup_id) at: vec3<u32>, @builtin(num_workgroups) size: vec3<u32>) {
    let step = at.y * size.x + at.x;
    if (step < GRID) { x[step] = step + 1; }
}
"""
SPIN = """
@group(0) @binding(0) var<storage, read_write> x: array<i32>;
@group(0) @binding(1) var<uniform> vars: array<vec4<i32>, 1>;
@compute @workgroup_size(1)
fn spin(@builtin(workgroup_id) at: vec3<u32>) {
    var v = x[at.x];
    for (var i = 0; i < vars[0][0]; i++) { v = v * 1664525 + 1013904223; }
    x[at.x] = v;
}
"""
GATHER = """
@group(0) @binding(0) var<storage, read> first: array<i32>;
@group(0) @binding(1) var<storage, read> second: array<i32>;
@group(0) @binding(2) var<storage, read> third: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<i32>;
@group(0) @binding(4) var<uniform> vars: array<vec4<i32>, 1>;
@compute @workgroup_size(64)
fn gather(@builtin(local_invocation_index) i: u32) {
    out[i] = first[i] + 1000 * second[i] + vars[0][0];
    if (i < 10) { out[i] += 1000000 * third[i]; }
}
"""


@pytest.fixture(scope="module")
def webgpu():
    try:
        return WebGPUDevice("WEBGPU")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def filled(webgpu):
    """Makes a buffer that holds an array."""

    def make(array):
        buffer = webgpu.allocator.alloc(array.nbytes)
        webgpu.write(buffer, memoryview(array))
        return buffer

    return make


def values(webgpu, buffer, dtype, count):
    out = np.empty(count, dtype)
    webgpu.read(buffer, memoryview(out))
    return out


def kernel(webgpu, source, *entries):
    return webgpu.load(source.encode(), entries)


def slots(*numbers):
    """Slots that one binding holds; the last one is written."""
    return tuple(Slot(n, 4, n == numbers[-1]) for n in numbers)


@pytest.fixture(scope="module")
def scale(webgpu):
    return kernel(webgpu, SCALE, Entry("scale", 1, 8, slots(0), (0, 1)))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_bindings_go_to_slots_by_their_numbers(webgpu, filled, order):
    library = kernel(webgpu, VADD, Entry("vadd", 1, 64, slots(*order)))
    a, b = np.arange(64, dtype=np.int32), np.full(64, 1000, np.int32)
    given = {order[0]: filled(a), order[1]: filled(b), order[2]: webgpu.allocator.alloc(a.nbytes)}
    webgpu.run([Launch(library.phases, [given[number].argument for number in range(3)])])
    np.testing.assert_array_equal(values(webgpu, given[order[2]], np.int32, 64), a + 2 * b)


def test_launches_of_one_run_happen_in_order(webgpu, filled, scale):
    x = filled(np.arange(8, dtype=np.int32))
    webgpu.run(
        [Launch(scale.phases, [x.argument], [2, 1]), Launch(scale.phases, [x.argument], [3, 0])]
    )
    np.testing.assert_array_equal(values(webgpu, x, np.int32, 8), (np.arange(8) * 2 + 1) * 3)


def test_variables_are_taken_by_their_positions(webgpu, filled):
    library = kernel(webgpu, SIX, Entry("six", 1, 6, slots(0), (6, 5, 4, 3, 2, 0)))
    x = filled(np.zeros(6, np.int32))
    given = [10, 999, 12, -13, (1 << 31) - 1, -(1 << 31), 16]
    webgpu.run([Launch(library.phases, [x.argument], given)])
    expected = [16, -(1 << 31), (1 << 31) - 1, -13, 12, 10]
    assert values(webgpu, x, np.int32, 6).tolist() == expected


def test_a_replay_repeats_its_launches(webgpu, filled, scale):
    x = filled(np.ones(8, np.int32))
    calls = webgpu.call_list([Launch(scale.phases, [x.argument], [2, 0])] * 3)
    assert len(calls) == 3
    for _ in range(4):
        calls.run()
    assert values(webgpu, x, np.int32, 8).tolist() == [1 << 12] * 8


def test_changing_a_replay_leaves_a_run_that_was_started_alone(webgpu, filled, scale):
    x = filled(np.zeros(8, np.int32))
    calls = webgpu.call_list([Launch(scale.phases, [x.argument], [10, 0])])
    for digit in range(1, 7):
        calls.set_var(0, 1, digit)
        calls.run()
    assert values(webgpu, x, np.int32, 8).tolist() == [123456] * 8


def test_a_replay_takes_a_new_variable_before_its_first_run(webgpu, filled, scale):
    x = filled(np.ones(8, np.int32))
    calls = webgpu.call_list([Launch(scale.phases, [x.argument], [2, 0])])
    calls.set_var(0, 0, 6)
    calls.run()
    assert values(webgpu, x, np.int32, 8).tolist() == [6] * 8


def test_an_empty_replay_does_nothing(webgpu):
    calls = webgpu.call_list([])
    calls.run()
    assert len(calls) == 0
    assert calls.run_timed() == []


def test_a_grid_of_more_workgroups_than_one_dimension_holds(webgpu):
    grid = 65535 * 3 + 17
    library = kernel(webgpu, COUNT.replace("GRID", str(grid)), Entry("count", grid, 1, slots(0)))
    x = webgpu.allocator.alloc(4 * grid)
    webgpu.run([Launch(library.phases, [x.argument])])
    np.testing.assert_array_equal(values(webgpu, x, np.uint32, grid), np.arange(1, grid + 1))


def test_a_grid_that_two_dimensions_cannot_hold_is_refused(webgpu):
    grid = webgpu.facts.limits["workgroups_each"] ** 2 + 1
    with pytest.raises(DeviceError, match=f"{grid} workgroups are more than"):
        kernel(webgpu, COUNT.replace("GRID", "1"), Entry("count", grid, 1, slots(0)))


def test_the_last_part_of_a_large_slot_ends_with_the_buffer(webgpu, filled, monkeypatch):
    small = dataclasses.replace(webgpu.target, max_binding=256)
    monkeypatch.setattr(webgpu, "target", small)
    entry = Entry("gather", 1, 64, (Slot(0, 256 * 2 + 40, False), Slot(1, 256, True)), (0,))
    library = kernel(webgpu, GATHER, entry)
    data, out = np.arange(138, dtype=np.int32), webgpu.allocator.alloc(256)
    webgpu.run([Launch(library.phases, [filled(data).argument, out.argument], [5])])
    expected = data[:64] + 1000 * data[64:128] + 5
    expected[:10] += 1000000 * data[128:]
    np.testing.assert_array_equal(values(webgpu, out, np.int32, 64), expected)


def test_times_of_a_run_follow_each_other(webgpu, filled):
    workgroups, most = 64, 60_000  # steps: llvmpipe ends loops after 65535
    library = kernel(webgpu, SPIN, Entry("spin", workgroups, 1, slots(0), (0,)))
    x = filled(np.ones(workgroups, np.int32))
    calls = webgpu.call_list([Launch(library.phases, [x.argument], [most])] * 2)
    calls.run_timed()  # drivers compile at the first run
    (begin, end), (later, last) = calls.run_timed()
    assert 0 < begin < end <= later < last
    assert 10_000 < end - begin < 60e9  # nanoseconds of so many steps, on whatever machine


def test_a_timed_run_computes_the_same(webgpu, filled, scale):
    x = filled(np.ones(8, np.int32))
    calls = webgpu.call_list([Launch(scale.phases, [x.argument], [2, 1])] * 3)
    assert len(calls.run_timed()) == 3
    assert values(webgpu, x, np.int32, 8).tolist() == [15] * 8


@pytest.mark.parametrize("count", [1, 5, 6, 7, 8])
def test_writing_a_part_of_a_buffer_leaves_the_rest(webgpu, filled, count):
    x = filled(np.full(32, 7, np.uint8))
    webgpu.write(x, memoryview(np.full(count, 9, np.uint8)))
    assert values(webgpu, x, np.uint8, 32).tolist() == [9] * count + [7] * (32 - count)


@pytest.mark.parametrize("count", [1, 5, 6, 7])
def test_reading_a_part_touches_nothing_behind_it(webgpu, filled, count):
    x = filled(np.arange(32, dtype=np.uint8))
    host = np.full(32, 99, np.uint8)
    webgpu.read(x, memoryview(host)[8 : 8 + count])
    assert host.tolist() == [99] * 8 + list(range(count)) + [99] * (24 - count)


def test_read_only_bytes_can_be_written_to_the_device(webgpu):
    x = webgpu.allocator.alloc(6)
    webgpu.write(x, memoryview(b"abcdef"))
    assert values(webgpu, x, np.uint8, 6).tobytes() == b"abcdef"


def test_no_bytes_are_copied_without_complaint(webgpu):
    x = webgpu.allocator.alloc(0)
    webgpu.write(x, memoryview(b""))
    webgpu.read(x, memoryview(bytearray()))
    assert x.nbytes == 0


def test_more_bytes_than_one_read_moves(webgpu, monkeypatch):
    from treadle.runtime.webgpu import device

    monkeypatch.setattr(device, "_CHUNK", 1 << 10)
    x = webgpu.allocator.alloc(10_001)
    data = np.random.default_rng(2).integers(0, 255, 10_001, np.uint8)
    webgpu.write(x, memoryview(data))
    np.testing.assert_array_equal(values(webgpu, x, np.uint8, 10_001), data)


def test_a_host_write_comes_after_the_launches_before_it(webgpu, filled, scale):
    x, zeros = filled(np.ones(64, np.int32)), filled(np.zeros(64, np.int32))
    add = kernel(webgpu, VADD, Entry("vadd", 1, 64, slots(0, 1, 2)))
    sums = webgpu.allocator.alloc(256)
    webgpu.run([Launch(scale.phases, [x.argument], [5, 0])])
    webgpu.run([Launch(add.phases, [x.argument, zeros.argument, sums.argument])])
    webgpu.write(x, memoryview(np.zeros(64, np.int32)))
    assert values(webgpu, sums, np.int32, 8).tolist() == [5] * 8
    assert values(webgpu, x, np.int32, 8).tolist() == [0] * 8


def test_memory_freed_while_kernels_use_it_is_reused_behind_them(webgpu, filled):
    library = kernel(webgpu, SPIN, Entry("spin", 1, 1, slots(0), (0,)))
    expected = [k * 1664525 + 1013904223 for k in range(20)]
    results = []
    for k in range(20):
        x = filled(np.full(1, k, np.int32))
        webgpu.run([Launch(library.phases, [x.argument], [1])])
        results.append(x if k % 2 else values(webgpu, x, np.int32, 1)[0])
        del x
    got = [r if k % 2 == 0 else values(webgpu, r, np.int32, 1)[0] for k, r in enumerate(results)]
    assert [int(v) for v in got] == [np.int32(e & 0xFFFFFFFF if e < 1 << 31 else e - (1 << 32))
                                     for e in expected]  # fmt: skip


def test_freed_memory_is_counted_and_used_again(webgpu):
    allocator = webgpu.allocator
    gc.collect()
    allocator.trim()
    before = allocator.stats
    x = allocator.alloc(1 << 20)
    assert allocator.stats.live == before.live + (1 << 20)
    del x
    assert allocator.stats.cached == 1 << 20
    y = allocator.alloc(1 << 20)
    assert allocator.stats.cached == 0
    del y
    assert allocator.trim() == 1 << 20
    assert allocator.stats.live == before.live
