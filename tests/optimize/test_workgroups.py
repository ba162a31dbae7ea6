"""Schedules for workgroups: structure within the target's limits, values right."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from treadle import Device, Tensor
from treadle.engine.run import scheduled
from treadle.errors import DeviceError
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.lower.overflow_analysis import most_iterations
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.optimize.reduction_moves import ShareReduction, SplitReduction
from treadle.optimize.shared_tiles import ShareTiles
from treadle.schedule.limits import fits
from treadle.schedule.passes import schedule
from treadle.target import Workgroup, host_target

WORKGROUP = Workgroup(128, 256, 16 << 10)
TARGET = dataclasses.replace(
    host_target(), name="a GPU", vector_bytes=16, max_lanes=4, workgroup=WORKGROUP, max_buffers=8,
    max_steps=65535, index_bits=32, short_indices=True,
)  # fmt: skip
RANDOM = np.random.default_rng(11)


def filled(*shape):
    return Tensor(np.ones(shape, np.float32)).realize()


def asts(tensor, target=TARGET):
    """What the kernels of `tensor` become, and the moves that led there; nothing runs."""
    kernels = scheduled([(tensor.node, tensor.device)])
    return [(kernel, *optimize(kernel.ast, target)) for kernel in kernels]


def stages(ast, scope="shared"):
    return [n for n in ast.toposort() if n.op is Op.STAGE and n.arg.scope == scope]


def sizes(ast, kind):
    return [loop_size(n) for n in ast.toposort() if n.op is Op.RANGE and n.arg.kind == kind]


CASES = {
    "nothing": lambda: filled(1) + 1,
    "few": lambda: filled(3) * 2,
    "odd": lambda: filled(999) * 2,
    "whole vectors": lambda: filled(4096) * 2,
    "transposed": lambda: filled(65, 63).T + 1,
    "all": lambda: filled(1000, 999).sum(),
    "rows": lambda: filled(63, 5000).sum(axis=1),
    "columns": lambda: filled(5000, 64).sum(axis=0),
    "long columns": lambda: filled(70_000, 64).sum(axis=0),
    "middle": lambda: filled(65, 300, 3).max(axis=1),
    "softmax": lambda: filled(65, 5000).softmax(),
    "softmax over columns": lambda: filled(500, 65).softmax(axis=0),
    "layer norm": lambda: filled(64, 63).layernorm(),
    "argmax": lambda: filled(70_000, 3).argmax(axis=0),
    "argmax of all": lambda: filled(300, 301).argmax(),
    "scan": lambda: filled(3, 1000).cumsum(axis=1),
    "matmul": lambda: filled(100, 99) @ filled(99, 101),
    "matmul of a long axis": lambda: filled(33, 70_000) @ filled(70_000, 35),
    "matmul of thin operands": lambda: filled(3, 1000) @ filled(1000, 5),
    "matmul of columns": lambda: filled(64, 65).T @ filled(64, 63),
    "batched": lambda: filled(3, 40, 41) @ filled(3, 41, 42),
    "convolution": lambda: filled(2, 3, 17, 19).conv2d(filled(8, 3, 3, 3), padding=1),
    "doubles": lambda: (filled(70, 80).cast("float64") @ filled(80, 90).cast("float64")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_schedule_stays_within_the_targets_limits(name):
    for kernel, ast, log in asts(CASES[name]()):
        assert fits(kernel, TARGET)
        assert log or not any(n.op is Op.RANGE for n in ast.toposort())
        held = {n.src[: 2 + len(n.arg.sizes)]: n for n in stages(ast)}.values()
        nbytes = sum(math.prod(n.arg.sizes) * n.dtype.itemsize for n in held)
        assert nbytes <= WORKGROUP.shared_bytes
        assert all(size <= TARGET.max_lanes for size in sizes(ast, "vector"))
        for phase in lower(ast, len(kernel.buffers), TARGET).phases:
            assert phase.work_items <= WORKGROUP.most_work_items
            assert most_iterations(phase) <= TARGET.max_steps
            assert len(phase.params) <= TARGET.max_buffers


def logs(tensor):
    return [move for _, _, log in asts(tensor) for move in log]


def work_items_and_results(tensor):
    """Work items of a workgroup, and results of a work item, in the last kernel of `tensor`."""
    extents = [extent for part in logs(tensor)[-1].parts for extent in part.extents]
    count = lambda kind: math.prod(e.size for e in extents if e.kind == kind)
    return count("local"), count("vector")


def test_neighbouring_elements_go_to_neighbouring_work_items_in_vectors():
    assert work_items_and_results(filled(64, 64) * 2) == (128, 4)
    assert work_items_and_results(filled(65, 63) * 2) == (128, 1)
    assert work_items_and_results(filled(5) * 2)[0] == 8


def test_a_softmax_has_a_workgroup_for_each_row_which_shares_both_reductions():
    ((_, ast, log),) = asts(filled(300, 5000).softmax())
    assert sizes(ast, "grid") == [300]
    assert [move.work_items for move in log.of_kind(ShareReduction)] == [128, 128]
    assert stages(ast)


def test_columns_are_summed_by_a_work_item_each_and_long_ones_in_chunks():
    cuts = [m for m in logs(filled(5000, 640).sum(axis=0)) if isinstance(m, SplitReduction)]
    assert not cuts
    ((_, ast, log),) = asts(filled(70_000, 640).sum(axis=0))
    assert len(log.of_kind(SplitReduction)) == 1
    assert len(stages(ast, "grid")) == 1


def test_a_work_item_computes_more_of_a_matmul_where_that_leaves_workgroups_enough():
    wide = dataclasses.replace(TARGET, workgroup=dataclasses.replace(WORKGROUP, tile=8, together=4))
    busy = dataclasses.replace(wide, workgroup=dataclasses.replace(wide.workgroup, busy=32))
    ((_, small, _),) = asts(filled(256, 256) @ filled(256, 256))
    ((_, large, _),) = asts(filled(256, 256) @ filled(256, 256), wide)
    ((_, many, _),) = asts(filled(256, 256) @ filled(256, 256), busy)
    assert [math.prod(sizes(ast, "grid")) for ast in (small, large, many)] == [32, 8, 32]
    assert stages(large)[0].arg.sizes in ((16, 64 + 4), (16, 128))


def test_both_operands_of_a_matmul_are_in_shared_memory():
    ((_, ast, log),) = asts(filled(256, 256) @ filled(256, 256))
    assert len(log.of_kind(ShareTiles)) == 1
    assert len(stages(ast)) == 2
    assert sorted(sizes(ast, "grid")) == [8, 4] or math.prod(sizes(ast, "grid")) > 1


def test_a_tile_shrinks_until_shared_memory_holds_it():
    small = dataclasses.replace(TARGET, workgroup=dataclasses.replace(WORKGROUP, shared_bytes=2048))
    ((_, ast, log),) = asts(filled(256, 256) @ filled(256, 256), small)
    assert len(log.of_kind(ShareTiles)) == 1
    held = {n.src[: 2 + len(n.arg.sizes)]: n for n in stages(ast)}.values()
    assert sum(math.prod(n.arg.sizes) * n.dtype.itemsize for n in held) <= 2048


def test_the_one_pass_of_an_argmax_is_cut_into_chunks():
    log = logs(filled(1_000_000).argmax())
    assert sum(isinstance(move, SplitReduction) for move in log) == 1


def test_long_scans_become_two_short_ones():
    x = filled(70_000)
    kernels, _ = schedule([x.cumsum(0).node], "CPU", TARGET)
    assert len(kernels) > 1
    longest = max(size for k in kernels for size in sizes(k.ast, "loop") if k.ast.op is Op.SINK)
    assert longest <= 70_000
    for kernel in kernels:
        ast, _ = optimize(kernel.ast, TARGET)
        phases = lower(ast, len(kernel.buffers), TARGET).phases
        assert max(map(most_iterations, phases)) < 2000
    assert len(schedule([x.cumsum(0).node], "CPU", host_target())[0]) == 1


# -- values ---------------------------------------------------------------------------------------


def opened(name):
    try:
        return Device[name]
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def with_workgroups():
    """A device whose kernels run in workgroups."""
    return opened("WEBGPU").name


def test_a_loop_that_the_driver_would_cut_short_is_refused():
    if opened("WEBGPU").target.max_steps is None:
        pytest.skip("this driver lets loops run")
    x = Tensor(np.zeros(2, np.float32), device="WEBGPU")
    places = Tensor(np.zeros(70_000, np.int32), device="WEBGPU")
    ones = Tensor(np.ones(70_000, np.float32), device="WEBGPU")
    with pytest.raises(DeviceError, match=r"loop steps, but the driver of .* ends loops after"):
        x.scatter_reduce(0, places, ones, "sum").realize()


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def close(found, expected, tolerance=2e-4):
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (3, 1000, 5), (63, 64, 65), (65, 63, 1), (1, 65, 64), (127, 300, 129)],
)
def test_matmuls_of_awkward_sizes(with_workgroups, m, k, n):
    a, b = numbers(m, k), numbers(k, n)
    close(Tensor(a, device=with_workgroups) @ Tensor(b, device=with_workgroups), a @ b)
    turned = (
        Tensor(a.T.copy(), device=with_workgroups).T @ Tensor(b.T.copy(), device=with_workgroups).T
    )
    close(turned + 1, a @ b + 1)


def test_a_processor_may_be_scheduled_like_a_gpu():
    name = opened("CL:OPENCL:gpu").name
    a, b = numbers(63, 64), numbers(64, 65)
    product = a @ b
    power = np.exp(product - product.max(1, keepdims=True))
    expected = power / power.sum(1, keepdims=True)
    close((Tensor(a, device=name) @ Tensor(b, device=name)).realize().softmax(), expected)


def test_batched_matmuls(with_workgroups):
    a, b = numbers(3, 33, 40), numbers(3, 40, 35)
    close(Tensor(a, device=with_workgroups) @ Tensor(b, device=with_workgroups), a @ b)
    close(Tensor(a, device=with_workgroups) @ Tensor(b[0], device=with_workgroups), a @ b[0])


@pytest.mark.parametrize("shape", [(1,), (3,), (63,), (65, 3), (3, 5000), (70_000,), (35_000, 3)])
def test_reductions_over_every_axis(with_workgroups, shape):
    data = RANDOM.integers(-9, 9, shape).astype(np.int32)
    x = Tensor(data, device=with_workgroups).realize()
    for axis in (None, *range(len(shape))):
        np.testing.assert_array_equal(x.sum(axis=axis).numpy(), data.sum(axis=axis))
        np.testing.assert_array_equal(x.max(axis=axis).numpy(), data.max(axis=axis))
        np.testing.assert_array_equal(x.argmax(axis=axis).numpy(), data.argmax(axis=axis))


@pytest.mark.parametrize("shape", [(4, 63, 3), (2, 65, 64)])
def test_reductions_over_the_middle(with_workgroups, shape):
    data = numbers(*shape)
    close(Tensor(data, device=with_workgroups).sum(axis=1), data.sum(axis=1))
    close(Tensor(data, device=with_workgroups).sum(axis=(0, 2)), data.sum(axis=(0, 2)))


@pytest.mark.parametrize("size", [1, 63, 64, 65, 5000])
def test_rows_of_statistics(with_workgroups, size):
    data = numbers(5, size)
    x = Tensor(data, device=with_workgroups)
    power = np.exp(data - data.max(1, keepdims=True))
    close(x.softmax(), power / power.sum(1, keepdims=True))
    centred = data - data.mean(1, keepdims=True)
    scale = np.sqrt(data.var(1, keepdims=True) + 1e-5)
    close(x.layernorm(), centred / scale, 1e-3)


@pytest.mark.parametrize(("shape", "axis"), [((70_000,), 0), ((3, 1025, 2), 1), ((63, 3), 0)])
def test_scans(with_workgroups, shape, axis):
    data = RANDOM.integers(-9, 9, shape).astype(np.int32)
    x = Tensor(data, device=with_workgroups)
    np.testing.assert_array_equal(x.cumsum(axis).numpy(), data.cumsum(axis))
    np.testing.assert_array_equal(x.cummax(axis)[0].numpy(), np.maximum.accumulate(data, axis))


def test_sums_of_more_steps_than_a_driver_takes(with_workgroups):
    data = RANDOM.integers(0, 5, (70_000, 40)).astype(np.int8)
    x = Tensor(data, device=with_workgroups).cast("int32").realize()
    np.testing.assert_array_equal(x.sum(axis=0).numpy(), data.sum(axis=0, dtype=np.int32))
    np.testing.assert_array_equal(x.argmax(axis=0).numpy(), data.argmax(axis=0))
    product = x.T @ x[:, :33]
    np.testing.assert_array_equal(product.numpy(), data.T.astype(np.int64) @ data[:, :33])


def test_the_results_of_few_rows_are_shared_by_as_many_workgroups_as_that_pays_for():
    ((_, ast, log),) = asts(filled(1000, 1000) + filled(2000).sum())
    (workgroups,) = sizes(ast, "grid")
    assert 200 <= workgroups <= 256
    assert len(log.of_kind(ShareReduction)) == 1
    ((_, ast, _),) = asts(filled(1000, 1000) + filled(30_000).sum())
    (workgroups,) = sizes(ast, "grid")
    assert workgroups * 30_000 <= 1000 * 1000  # the sum again for each, and no more than that
    ((_, ast, _),) = asts(filled(3, 300, 500) * filled(3, 20, 30).sum((1, 2), keepdim=True))
    assert math.prod(sizes(ast, "grid")) == 3 * 84


@pytest.mark.parametrize("shape", [(3, 20_001), (2, 300, 700)])
def test_rows_of_many_results(with_workgroups, shape):
    data, small = numbers(*shape), numbers(shape[0], 257)
    factor = small.sum(1).reshape(-1, *(1,) * (len(shape) - 1))
    x, y = (Tensor(each, device=with_workgroups) for each in (data, small))
    close(x * y.sum(1).reshape(factor.shape), data * factor, 1e-3)
