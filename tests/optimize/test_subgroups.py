"""Reductions by subgroups: right for every size of them, and the same in every run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from treadle import Device, Tensor
from treadle.engine.run import scheduled
from treadle.errors import DeviceError, InternalError, SettingError
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.overflow_analysis import most_iterations
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.runtime.webgpu import adapter
from treadle.runtime.webgpu import device as webgpu
from treadle.target import Workgroup, host_target

RANDOM = np.random.default_rng(5)
GPU = dataclasses.replace(host_target(), vector_bytes=16, max_lanes=4, index_bits=32)
SIZES = {"fixed": (4, 4), "smaller workgroups": (64, 64), "varying": (8, 32), "any": (1, 128)}


def gpu(least, most):
    return dataclasses.replace(GPU, workgroup=Workgroup(128, 256, 16 << 10, (least, most)))


def phases(tensor, target):
    """The linear programs of a tensor's kernels; nothing runs."""
    for kernel in scheduled([(tensor.node, tensor.device)]):
        ast, _ = optimize(kernel.ast, target)
        yield from lower(ast, len(kernel.buffers), target).phases


def ops(phase, op):
    return [node for node in phase.program.src if node.op is op]


def filled(*shape):
    return Tensor(np.ones(shape, np.float32)).realize()


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_shared_reduction_takes_one_barrier_and_one_subgroup_operation(sizes):
    (phase,) = phases(filled(60, 5000).sum(axis=1), gpu(*sizes))
    assert len(ops(phase, Op.BARRIER)) == len(ops(phase, Op.SUBGROUP)) == 1
    (softmax,) = phases(filled(60, 5000).softmax(), gpu(*sizes))
    assert len(ops(softmax, Op.BARRIER)) == len(ops(softmax, Op.SUBGROUP)) == 2


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_value_and_its_place_take_one_barrier_and_an_operation_each(sizes):
    (phase,) = phases(filled(60, 5000).argmax(axis=1), gpu(*sizes))
    assert len(ops(phase, Op.BARRIER)) == 1
    assert len(ops(phase, Op.SUBGROUP)) == 2


@pytest.mark.parametrize("sizes", [None, (32, 32)], ids=["tree", "subgroups"])
def test_reductions_of_one_loop_are_shared_together(sizes):
    x = filled(60, 5000)
    target = dataclasses.replace(GPU, workgroup=Workgroup(128, 256, 16 << 10, sizes))
    (alone,) = phases(x.max(axis=1), target)
    (both,) = phases(x.max(axis=1) - x.min(axis=1), target)
    assert len(ops(both, Op.BARRIER)) == len(ops(alone, Op.BARRIER))
    assert len(ops(both, Op.LOAD)) == len(ops(alone, Op.LOAD)) + len(ops(alone, Op.BARRIER))


def test_only_a_subgroup_of_unknown_size_counts_its_work_items():
    names = lambda phase: {n.arg.name for n in ops(phase, Op.WORK_ITEM)}
    (fixed,) = phases(filled(60, 5000).sum(axis=1), gpu(32, 32))
    (varying,) = phases(filled(60, 5000).sum(axis=1), gpu(8, 32))
    assert names(fixed) == {"work_item", "lane"}
    assert names(varying) == {"work_item", "lane", "lanes"}
    assert most_iterations(varying) < 5000  # one turn for each work item at the worst


def test_workgroups_without_full_subgroups_of_a_fixed_size_are_refused():
    target = gpu(16, 16)
    (kernel,) = scheduled([(filled(60, 5000).sum(axis=1).node, "CPU")])
    ast, _ = optimize(kernel.ast, target)
    lanes = next(n for n in ast.toposort() if n.op is Op.RANGE and n.arg.kind == "subgroup")
    broken = ast.substitute({lanes: lanes.replace(src=(Node.index(48),))})
    with pytest.raises(InternalError, match="no full subgroups"):
        lower(broken, len(kernel.buffers), target)


# -- on a device ----------------------------------------------------------------------------------


def opened(name):
    try:
        return Device[name]
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["as it is", "varying", "counted", "off"])
def device(request):
    """A WebGPU device whose subgroups have a size that is known, or that it has to count."""
    number = ["as it is", "varying", "counted", "off"].index(request.param)
    make, name = webgpu.target_of, f"WEBGPU:{20 + number}"

    def target_of(facts, arch):
        target = make(facts, arch)
        if facts.subgroup is None:
            pytest.skip(f"{facts.name} offers no subgroups")
        least, most = facts.subgroup
        sizes = [(least, most), (max(1, least // 2), most), (1, 4 * most), None][number]
        return dataclasses.replace(
            target, workgroup=dataclasses.replace(target.workgroup, subgroup=sizes)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webgpu, "target_of", target_of)
        opened(name)
    return name


@pytest.mark.parametrize("size", [32, 63, 64, 100, 5000])
def test_reductions_are_right(device, size):
    data = RANDOM.integers(-9, 10, (7, size)).astype(np.int32)
    for kind in ("int32", "int8", "float32", "float16"):
        x = Tensor(data.astype(kind), device=device).realize()
        np.testing.assert_array_equal(x.sum(axis=1).numpy(), data.sum(axis=1))
        np.testing.assert_array_equal(x.max(axis=1).numpy(), data.max(axis=1))
        np.testing.assert_array_equal(x.min(axis=1).numpy(), data.min(axis=1))
    x = Tensor(data, device=device).realize()
    least = data.min()
    np.testing.assert_array_equal((x == least).any(axis=1).numpy(), (data == least).any(axis=1))
    np.testing.assert_array_equal((x > least).all(axis=1).numpy(), (data > least).all(axis=1))
    both = (x.argmax(axis=1) - x.argmin(axis=1)).numpy()
    np.testing.assert_array_equal(both, data.argmax(axis=1) - data.argmin(axis=1))


@pytest.mark.parametrize("size", [33, 1000])
def test_rows_of_statistics_are_right_and_the_same_in_every_run(device, size):
    data = RANDOM.standard_normal((50, size)).astype(np.float32)
    x = Tensor(data, device=device).realize()
    power = np.exp(data - data.max(1, keepdims=True))
    runs = [x.softmax().numpy() for _ in range(3)]
    np.testing.assert_allclose(runs[0], power / power.sum(1, keepdims=True), 1e-4, 1e-6)
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])


def test_a_nan_in_any_place_is_the_maximum_and_the_minimum(device):
    data = RANDOM.standard_normal((40, 256)).astype(np.float32)
    data[np.arange(40), RANDOM.permutation(256)[:40]] = np.nan
    x = Tensor(data, device=device).realize()
    assert np.isnan(x.max(axis=1).numpy()).all()
    assert np.isnan(x.min(axis=1).numpy()).all()
    np.testing.assert_array_equal(x.argmax(axis=1).numpy(), data.argmax(axis=1))
    data[:] = -np.inf
    assert not Tensor(data, device=device).argmax(axis=1).numpy().any()
    assert (Tensor(data, device=device).max(axis=1).numpy() == -np.inf).all()


def test_reductions_of_different_lengths_share_a_workgroup(device):
    data = RANDOM.integers(-9, 9, (5, 40)).astype(np.float32)
    long = RANDOM.integers(-9, 9, (5, 4000)).astype(np.float32)
    x, y = Tensor(data, device=device).realize(), Tensor(long, device=device).realize()
    both = x.sum(axis=1) + y.max(axis=1)
    np.testing.assert_array_equal(both.numpy(), data.sum(axis=1) + long.max(axis=1))


def test_subgroups_can_be_forbidden_and_demanded():
    found = opened("WEBGPU")
    facts = found.runtime.facts
    assert adapter.target_of(facts, "-subgroups").workgroup.subgroup is None
    with pytest.raises(SettingError, match="subgroups and -subgroups, not 'fast'"):
        adapter.target_of(facts, "fast")
    without = dataclasses.replace(facts, subgroup=None)
    assert adapter.target_of(without).workgroup.subgroup is None
    with pytest.raises(DeviceError, match="offers no subgroups"):
        adapter.target_of(without, "subgroups")
    if facts.subgroup is not None:
        least, most = facts.subgroup
        assert 1 <= least <= most <= 128
        keys = {adapter.target_of(facts, arch).code_key for arch in (None, "-subgroups")}
        assert len(keys) == 2
