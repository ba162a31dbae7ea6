"""Kernels that store several results: which are merged, and that the values stay the same."""

from dataclasses import replace

import numpy as np
import pytest

from treadle import Context, GlobalCounters, Tensor, TinyJit, dtypes, nn
from treadle.engine import kernels, pipeline
from treadle.engine.cache import CompileCache
from treadle.engine.programs import Programs
from treadle.errors import InternalError
from treadle.ir.op import Op
from treadle.schedule import passes as scheduling
from treadle.schedule.kernel import check


def filled(*shape, device="CPU", seed=0, dtype=np.float32):
    data = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return Tensor(data, device=device).realize()


def stored(*tensors):
    """How many results each kernel stores that computing `tensors` would run."""
    kernels = tensors[0].schedule(*tensors[1:])
    for kernel in kernels:
        assert len(set(kernel.writes)) == len(kernel.roots) == kernel.ast.src[-1].arg
    return [len(kernel.roots) for kernel in kernels]


def counted(*tensors):
    """How many kernels computing `tensors` runs."""
    GlobalCounters.reset()
    Tensor.realize(*tensors)
    return GlobalCounters.kernel_count


# -- which kernels are merged ---------------------------------------------------------------------


def test_two_results_of_one_read_are_one_kernel():
    x = filled(64, 128)
    assert stored(x + 1, x * 2) == [2]


def test_a_result_that_another_one_uses_is_stored_and_not_read_again():
    x = filled(64, 128)
    y = x.exp()
    (kernel,) = y.schedule(y * 2 + x)
    assert len(kernel.roots) == 2
    assert len({n for n in kernel.ast.toposort() if n.op is Op.LOAD}) == 1


def test_the_reason_says_that_there_are_more():
    x = filled(64, 128)
    assert "over the same loops" in (x + 1).schedule(x * 2)[0].reason


def test_what_only_the_merged_kernel_reads_is_not_stored():
    x = filled(64, 128)
    costly = x.exp().sin().tanh()  # two kernels need it: by itself it would be stored
    (kernel,) = (costly + 1).schedule(costly * x)
    assert len(kernel.roots) == 2
    assert len(kernel.buffers) == 3


def test_mean_and_variance_of_rows_are_one_kernel():
    assert stored(*filled(64, 128).var_mean(axis=1)) == [2]


def test_sums_of_the_same_columns_are_one_kernel():
    g, x = filled(64, 128), filled(64, 128, seed=1)
    assert stored(g.sum(0), (g * x).sum(0)) == [2]


@pytest.mark.parametrize(
    "two",
    [
        lambda x: (x.sum(0), x.sum(1)),
        lambda x: (x + 1, x.T * 2),
        lambda x: (x + 1, x[:32] * 2),
        lambda x: (x + 1, filled(64, 64, seed=1) * 2),
        lambda x: (x @ x, x + 1),
        lambda x: (x.cumsum(0), x.cumsum(1)),
    ],
    ids=["rows and columns", "transposed", "other loops", "nothing shared", "matmul", "scans"],
)
def test_what_walks_differently_stays_apart(two):
    assert set(stored(*two(filled(64, 64)))) == {1}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("made", "results"),
    [
        (lambda x, axis: x.cummax(axis), 2),
        (lambda x, axis: (x.half().cumsum(axis),), 1),
        (lambda x, axis: (x.cumsum(axis) * 2 + x,), 1),
        (lambda x, axis: (x.cumsum(axis), x.cummin(axis)[0], x - 1), 3),
        (lambda x, axis: (x.cumsum(axis).cumsum(axis),), 1),
    ],
)
def test_scans_of_one_loop_and_what_is_made_of_them_are_one_kernel(made, results, axis):
    assert stored(*made(filled(64, 128), axis)) == [results]


@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ((4, 100_000), lambda x: (x.cumsum(1), x - 1)),  # four rows, and work for more
        ((256, 128), lambda x: (x.cumsum(1).exp(),)),
        ((1000, 1000), lambda x: x.cummax(1)),  # caches give x again sooner
        # One loop is inside of the other, so that each row would have all columns' means anew.
        ((64, 128), lambda x: ((x - x.mean(0, keepdim=True)).cumsum(1),)),
        ((64, 128), lambda x: ((x - x.mean(1, keepdim=True)).cumsum(0),)),
        ((64, 128), lambda x: (x - x.mean(0, keepdim=True), x.cumsum(1))),
    ],
)
def test_a_scan_holds_nothing_up(shape, made):
    assert len(stored(*made(filled(*shape)))) == 2


@pytest.mark.parametrize(("rows", "kernels"), [(32, 1), (4096, 3)])
def test_parts_of_little_memory_are_read_by_one_kernel_as_a_launch_takes_longer(rows, kernels):
    gates = filled(rows, 192)
    parts = [gates[:, 64 * n : 64 * n + 64] for n in range(3)]
    assert len(stored(parts[0].tanh(), parts[1].exp(), parts[2].sin())) == kernels


def test_no_kernel_runs_between_two_that_are_merged():
    """b needs the sum of a, which is a kernel of its own: a and b cannot be one."""
    x = filled(64, 64)
    a = (x + 1).contiguous()
    total = (a.sum() * 2).contiguous()
    assert counted(a, total, x + total) >= 3


def test_contiguous_is_where_the_user_wants_a_kernel_to_end():
    x = filled(64, 64)
    assert len(((x + 1).contiguous() * 2).schedule()) == 2


@pytest.mark.parametrize("count", [1, 3, 20])
def test_an_optimiser_step_is_a_kernel_for_each_parameter(count):
    params = [filled(8 + n, 16, seed=n) for n in range(count)]
    step = nn.optim.AdamW(params, lr=0.1)
    for n, p in enumerate(params):
        p.grad = filled(*p.shape, seed=100 + n)
    assert counted(*step.schedule_step()) <= count + 2  # two corrections besides


def test_no_kernel_has_more_buffers_than_the_device_binds(device):
    shape = (16, 33)
    xs = [filled(*shape, device=device, seed=n) for n in range(7)]
    total = sum(xs[1:], xs[0])
    outs = [total, *(x * 2 + total for x in xs)]
    Tensor.realize(*outs)
    data = [x.numpy() for x in xs]
    expected = sum(data[1:], data[0])
    np.testing.assert_allclose(outs[0].numpy(), expected, rtol=1e-6, atol=1e-6)
    for out, x in zip(outs[1:], data, strict=True):
        np.testing.assert_allclose(out.numpy(), x * 2 + expected, rtol=1e-5, atol=1e-5)


# -- what is overwritten --------------------------------------------------------------------------


def test_an_old_value_is_read_before_it_is_overwritten(device):
    x, y = filled(33, 5, device=device), filled(33, 5, device=device, seed=1)
    a, b = x.numpy(), y.numpy()
    old = x * 2
    x.assign(x + y)
    y.assign(y * 3 + old)
    Tensor.realize(x, y)
    np.testing.assert_array_equal(x.numpy(), a + b)
    np.testing.assert_allclose(y.numpy(), b * 3 + a * 2, rtol=1e-6)


def test_two_tensors_change_places(device):
    x, y = filled(40, device=device), filled(40, device=device, seed=1)
    a, b = x.numpy(), y.numpy()
    old = x * 1
    x.assign(y)
    y.assign(old)
    Tensor.realize(x, y)
    np.testing.assert_array_equal(x.numpy(), b)
    np.testing.assert_array_equal(y.numpy(), a)


def test_a_neighbour_is_read_before_it_is_overwritten(device):
    x, y = filled(100, device=device), filled(100, device=device, seed=1)
    a, b = x.numpy(), y.numpy()
    old = x.flip(0)
    x.assign(x + y)
    y.assign(y + old)
    late = x.flip(0) + y
    Tensor.realize(x, y, late)
    np.testing.assert_array_equal(x.numpy(), a + b)
    np.testing.assert_array_equal(y.numpy(), b + a[::-1])
    np.testing.assert_allclose(late.numpy(), (a + b)[::-1] + b + a[::-1], rtol=1e-6)


def test_a_part_is_overwritten_and_all_is_read(device):
    x, y = filled(20, device=device), filled(20, device=device, seed=1)
    a, b = x.numpy(), y.numpy()
    old = x + y
    x[5:15] = y[5:15]
    new = x * y
    Tensor.realize(old, x, new)
    np.testing.assert_array_equal(old.numpy(), a + b)
    a[5:15] = b[5:15]
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_allclose(new.numpy(), a * b, rtol=1e-6)


def test_memory_is_overwritten_twice(device):
    x, y = filled(50, device=device), filled(50, device=device, seed=1)
    a, b = x.numpy(), y.numpy()
    x.assign(x + y)
    first = x * y
    x.assign(x * x)
    Tensor.realize(x, first)
    np.testing.assert_allclose(first.numpy(), (a + b) * b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.numpy(), (a + b) ** 2, rtol=1e-5, atol=1e-6)


# -- the same values as one kernel for each -------------------------------------------------------


def apart(monkeypatch):
    """From now on nothing is merged; no program made before is found, and none is left behind."""
    cache = CompileCache(None)
    monkeypatch.setattr(scheduling, "merge", lambda draft: [kernel for kernel, _ in draft.kernels])
    monkeypatch.setattr(pipeline, "_programs", Programs())
    for module in (kernels, pipeline):
        monkeypatch.setattr(module, "compile_cache", lambda: cache)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int32])
@pytest.mark.parametrize("size", [1, 7, 64, 1001])
def test_merged_updates_are_the_same_bit_for_bit(monkeypatch, device, dtype, size):
    if device == "REF":
        pytest.skip("has no kernels")

    def updated():
        m, v, p, g = (
            (filled(size, device=device, seed=n) * 8).cast(dtype).realize() for n in range(4)
        )
        m.assign((m * 0.9 + g * 0.1).cast(dtype))
        v.assign((v * 0.99 + g * g * 0.01).cast(dtype))
        p.assign((p - m * 0.1 / ((v * v).sqrt() + 1)).cast(dtype))
        assert counted(m, v, p) == expected
        return [t.float().numpy() for t in (m, v, p)]

    # Which products of a C statement fuse with additions is clang's to choose, kernel by kernel.
    with Context(REPRODUCIBLE=int("CLANG" in device)):
        expected = 1
        merged = updated()
        apart(monkeypatch)
        expected = 3
        for ours, other in zip(merged, updated(), strict=True):
            np.testing.assert_array_equal(ours, other)


def test_elements_of_different_widths_in_one_kernel(device):
    x = filled(37, 3, device=device)
    outs = [x > 0, (x * 10).cast(dtypes.int8), x.half(), (x * 2).cast(dtypes.int64)]
    Tensor.realize(*outs)
    a = x.numpy()
    np.testing.assert_array_equal(outs[0].numpy(), a > 0)
    np.testing.assert_array_equal(outs[1].numpy(), (a * 10).astype(np.int8))
    np.testing.assert_array_equal(outs[2].numpy(), a.astype(np.float16))
    np.testing.assert_array_equal(outs[3].numpy(), (a * 2).astype(np.int64))


def test_statistics_in_one_kernel_agree_with_numpy(device):
    x = filled(65, 300, device=device)
    a = x.numpy().astype(np.float64)
    for axis in (0, 1):
        outs = [*x.var_mean(axis), x.max(axis), (x * x).sum(axis), x.sum(axis) * 2]
        Tensor.realize(*outs)
        expected = [a.var(axis, ddof=1), a.mean(axis), a.max(axis), (a * a).sum(axis)]
        for out, value in zip(outs, [*expected, a.sum(axis) * 2], strict=True):
            np.testing.assert_allclose(out.numpy(), value, rtol=1e-4, atol=1e-4)


def test_training_with_merged_steps_follows_pytorch():
    torch = pytest.importorskip("torch")
    w, x = filled(20, 8), filled(5, 20, seed=1)
    theirs = torch.tensor(w.numpy(), requires_grad=True)
    w.requires_grad_()
    ours_step, their_step = nn.optim.Adam([w], lr=0.01), torch.optim.Adam([theirs], lr=0.01)

    @TinyJit
    def step():
        ours_step.zero_grad()
        (x @ w).square().sum().backward()
        ours_step.step()

    for _ in range(6):
        step()
        their_step.zero_grad()
        (torch.tensor(x.numpy()) @ theirs).square().sum().backward()
        their_step.step()
    np.testing.assert_allclose(w.numpy(), theirs.detach().numpy(), atol=1e-4)


def test_an_old_value_that_only_its_own_kernel_reads_is_kept(device):
    a, b, c = (filled(4, device=device, seed=seed) for seed in range(3))
    first, second, third = a.numpy(), b.numpy(), c.numpy()

    def swap(one, other):
        old = one * 1
        one.assign(other)
        other.assign(old)

    swap(c, a)
    c[:1] = a[-1:]
    place = c.argmax()
    swap(c, b)
    total = b.sum()
    Tensor.realize(a, b, c, place, total)
    mixed = np.concatenate([third[-1:], first[1:]])
    for tensor, expected in ((a, third), (b, mixed), (c, second), (place, mixed.argmax())):
        np.testing.assert_array_equal(tensor.numpy(), expected)
    np.testing.assert_allclose(total.item(), mixed.sum(), rtol=1e-5)


def test_a_kernel_that_reads_what_it_stores_is_refused():
    x = Tensor.ones(32, 16, device="CPU").contiguous().realize()
    (kernel,) = (x.exp() + x).schedule()
    check(kernel)
    (read,) = {n for n in kernel.ast.toposort() if n.op is Op.LOAD}
    (written,) = kernel.writes
    memory = read.src[0].replace(arg=replace(read.src[0].arg, slot=written))
    wrong = read.replace(src=(memory, *read.src[1:]))
    with pytest.raises(InternalError, match="reads what it stores"):
        check(replace(kernel, ast=kernel.ast.substitute({read: wrong})))
