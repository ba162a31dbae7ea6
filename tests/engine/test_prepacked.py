"""Packed weights that a captured function keeps: left alone only as long as nobody writes."""

import gc

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit
from treadle.dtype import dtypes
from treadle.engine.devices import Device
from treadle.engine.memory import memory_of, moment, new_memory
from treadle.engine.prepacked import Kept, Room, expect_replays, lasts
from treadle.func import scan
from treadle.nn.state import load_state_dict
from treadle.optimize.tile_reduction import TileReduction

ROWS, WIDTH = 24, 96


@pytest.fixture(autouse=True)
def on_the_cpu():
    with Context(KEEP_PACKED=48):
        yield


def matrix(seed, *shape):
    values = np.random.default_rng(seed).standard_normal(shape or (WIDTH, WIDTH))
    return values.astype(np.float32)


def tensor(values):
    return Tensor(values, device="CPU").realize()


def captured(weight, expected=True):
    """A replayed x @ w.T, and a check of it."""
    multiply = TinyJit(lambda x: (x @ weight.T).realize())
    x = matrix(1, ROWS, WIDTH)
    for _ in range(3):
        multiply(tensor(x))
    assert bool(kept_bytes(multiply)) is expected

    def check(values, seed=2):
        x = matrix(seed, ROWS, WIDTH)
        found = multiply(tensor(x)).numpy()
        np.testing.assert_allclose(found, x @ values.T, rtol=1e-4, atol=1e-4)

    check.jit = multiply
    return check


def kept_bytes(jit):
    return sum(kept.nbytes for kept in jit._capture.kept)


def packings(jit):
    """A list that grows each time that weights are packed."""
    [kept] = jit._capture.kept
    seen, run = [], kept._calls.run
    kept._calls.run = lambda: (seen.append(1), run())
    return seen


def test_weights_are_packed_once():
    values = matrix(0)
    check = captured(tensor(values))
    packed = packings(check.jit)
    for seed in range(5):
        check(values, seed)
    assert packed == []


def test_an_assignment_is_seen():
    weight = tensor(matrix(0))
    check = captured(weight)
    packed = packings(check.jit)
    for seed in (3, 4):
        weight.assign(Tensor(matrix(seed), device="CPU")).realize()
        check(matrix(seed))
        check(matrix(seed))
    assert len(packed) == 2


def test_replays_of_another_function_that_assigns_are_seen():
    """Its later replays make no new version of the memory, as nobody else could read the old."""
    weight = tensor(matrix(0))
    check = captured(weight)
    step = TinyJit(lambda by: weight.assign(weight + by).realize())
    values = matrix(0)
    for number in range(6):
        by = np.full((WIDTH, WIDTH), number, np.float32)
        step(tensor(by))
        values = values + by
        check(values)


def test_a_function_that_assigns_to_its_weights_keeps_none():
    weight = tensor(matrix(0))

    def step(x):
        loss = (x @ weight.T).relu().realize()
        weight.assign(weight * 0.5).realize()
        return loss

    step = TinyJit(step)
    values, x = matrix(0), matrix(1, ROWS, WIDTH)
    for _ in range(5):
        found = step(tensor(x)).numpy()
        np.testing.assert_allclose(found, np.maximum(x @ values.T, 0), rtol=1e-4, atol=1e-4)
        values = values * np.float32(0.5)
    assert not kept_bytes(step)
    ran = [kernel for run in step._capture.runs for kernel in run.program.kernels]
    tiled = [move for kernel in ran for move in kernel.schedule.of_kind(TileReduction)]
    # The first call has shown that it will not last.
    assert {move.columns for move in tiled} == {"each worker"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_memory_that_others_can_write_is_packed_each_time(when):
    values = matrix(0)
    weight = tensor(values)
    if when == "before":
        outside = np.from_dlpack(weight)
        check = captured(weight, expected=False)
    else:
        check = captured(weight)
        outside = np.from_dlpack(weight)
    outside = np.lib.stride_tricks.as_strided(outside, writeable=True)
    for number in (2, 3):
        outside[:] = values * number
        check(values * number)


def test_memory_of_others_is_packed_each_time():
    values = np.ascontiguousarray(matrix(0))
    weight = Tensor.from_blob(values.ctypes.data, values.shape, dtypes.float32, "CPU", owner=values)
    check = captured(weight, expected=False)
    values *= 3
    check(values)


def test_a_loaded_state_is_seen():
    class Layer:
        def __init__(self):
            self.weight = tensor(matrix(0))

        def __call__(self, x):
            return (x @ self.weight.T).realize()

    layer = Layer()
    multiply = TinyJit(layer.__call__)
    x = matrix(1, ROWS, WIDTH)
    for _ in range(3):
        multiply(tensor(x))
    assert kept_bytes(multiply)
    load_state_dict(layer, {"weight": Tensor(matrix(7), device="CPU")})
    found = multiply(tensor(x)).numpy()
    np.testing.assert_allclose(found, x @ matrix(7).T, rtol=1e-4, atol=1e-4)


def test_arguments_are_never_kept():
    multiply = TinyJit(lambda x, w: (x @ w.T).realize())
    for seed in range(5):
        x, w = matrix(seed, ROWS, WIDTH), matrix(seed + 10)
        found = multiply(tensor(x), tensor(w)).numpy()
        np.testing.assert_allclose(found, x @ w.T, rtol=1e-4, atol=1e-4)
    assert not kept_bytes(multiply)


@pytest.mark.parametrize("room", [0, 1])
def test_no_more_is_kept_than_there_is_room_for(room):
    first, second = matrix(0, 512, 384), matrix(1, 384, 512)  # 768 KiB each
    with Context(KEEP_PACKED=room):
        w, v = tensor(first), tensor(second)
        net = TinyJit(lambda x: ((x @ w.T).relu() @ v.T).realize())
        x = matrix(2, ROWS, 384)
        before = Device["CPU"].allocator.stats.live
        for _ in range(3):
            found = net(tensor(x)).numpy()
        wanted = np.maximum(x @ first.T, 0) @ second.T
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-2)
        assert kept_bytes(net) <= room << 20
        assert sum(len(kept.blocks) for kept in net._capture.kept) == room
        del net, found
        gc.collect()
        assert Device["CPU"].allocator.stats.live <= before


def test_what_lasts():
    old = new_memory("CPU", dtypes.float32, 1 << 14)
    given = new_memory("CPU", dtypes.float32, 1 << 14)
    small = new_memory("CPU", dtypes.float32, 16)
    state = new_memory("CPU", dtypes.float32, 1 << 14)
    begin = moment()
    state.fill(np.zeros(1 << 14, np.float32))
    before = begin, moment()
    old.fill(np.zeros(1 << 14, np.float32))  # not by the call
    assert not lasts(old)  # nothing says that there will be replays
    with expect_replays([given], before):
        young = new_memory("CPU", dtypes.float32, 1 << 14)
        assert lasts(old)
        assert not any(map(lasts, (given, small, state, young)))
    assert not lasts(old)


def test_room_is_given_in_mebibytes():
    with Context(KEEP_PACKED=3):
        assert Room().left == 3 << 20


def test_images_are_read_from_one_copy_with_the_weights_kept():
    values, x = matrix(0, 128, 64, 3, 3), matrix(1, 1, 64, 7, 7)
    weight = tensor(values)
    convolve = TinyJit(lambda x: x.conv2d(weight, padding=1).realize())
    plain = Tensor(x, device="CPU").conv2d(Tensor(values, device="CPU"), padding=1).numpy()
    for _ in range(4):
        found = convolve(tensor(x)).numpy()
        np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-3)
    assert kept_bytes(convolve)


def test_results_of_the_captured_call_stay_with_the_caller():
    weight = tensor(matrix(0))
    multiply = TinyJit(lambda x: {"y": (x @ weight.T).realize()})
    x, other = matrix(1, ROWS, WIDTH), matrix(2, ROWS, WIDTH)
    multiply(tensor(x))
    kept = multiply(tensor(x))["y"]
    token_memory = memory_of(kept.node.src[0].arg if kept.node.src else kept.node.arg)
    multiply(tensor(other))
    np.testing.assert_allclose(kept.numpy(), x @ matrix(0).T, rtol=1e-4, atol=1e-4)
    assert all(token_memory is not m for run in multiply._capture.runs for m in run.outputs)


def test_weights_of_a_single_panel_are_kept_packed():
    values, x = matrix(0, 300, 40), matrix(1, 200, 300)
    weight = tensor(values)
    net = TinyJit(lambda x: (x @ weight).realize())
    for _ in range(4):
        found = net(tensor(x)).numpy()
        np.testing.assert_allclose(found, x @ values, rtol=1e-4, atol=1e-3)
    assert kept_bytes(net) >= values.nbytes


def test_what_no_step_of_a_loop_changes_is_packed_once_in_each_replay():
    """Weights that the captured call assigns to, behind a loop that reads them in every step."""
    steps, rate = 7, 0.01
    weight = tensor(matrix(0) * 0.1)

    def train(xs):
        def step(state, x):
            new = (x + state @ weight.T).tanh()
            return new, new

        last, _ = scan(step, Tensor.zeros(ROWS, WIDTH, device="CPU"), xs)
        weight.assign(weight * (1 - rate) + rate * last.mean(0))
        return last.realize(weight)

    jit = TinyJit(train)
    xs, w = matrix(1, steps, ROWS, WIDTH), matrix(0) * 0.1
    for _ in range(5):
        state = np.zeros((ROWS, WIDTH), np.float32)
        for x in xs:
            state = np.tanh(x + state @ w.T)
        w = w * (1 - rate) + rate * state.mean(0)
        np.testing.assert_allclose(jit(tensor(xs)).numpy(), state, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(weight.numpy(), w, rtol=1e-4, atol=1e-5)
    [loop] = [run for run in jit._capture.runs if len(run.rounds) == steps]
    loop.inputs = [  # the argument has been let go of
        m if m.buffer else new_memory(m.device, m.dtype, m.size) for m in loop.inputs
    ]
    kept = Kept()
    left = kept.split([loop], lambda memory: False, Room())
    phases = [len(launch.phases) for launch in left]
    each = len(loop.program.kernels)
    first, second = sum(phases[:each]), sum(phases[each : 2 * each])
    assert second == first - 1
    assert phases == phases[:each] + phases[each : 2 * each] * (steps - 1)
    assert len(kept.blocks) == 1
    assert not kept._launches
    none = Kept()
    launches = none.split([loop], lambda memory: False, Room(0))
    assert sum(len(launch.phases) for launch in launches) == steps * first
    assert not none.blocks
