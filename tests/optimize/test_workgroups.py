"""Schedules for work-groups: structure within the target's limits, values right."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from treadle import Device, Tensor
from treadle.engine.run import scheduled
from treadle.errors import DeviceError
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.lower.steps import most_steps
from treadle.optimize.heuristic import optimize
from treadle.schedule.limits import fits
from treadle.schedule.schedule import schedule
from treadle.target import Workgroup, host_target

GROUP = Workgroup(128, 256, 32, 16 << 10)
TARGET = dataclasses.replace(
    host_target(), name="a GPU", vector_bytes=16, max_lanes=4, workgroup=GROUP, max_buffers=8,
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
    return [n.src[0].arg for n in ast.toposort() if n.op is Op.RANGE and n.arg.kind == kind]


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
        assert nbytes <= GROUP.shared_bytes
        assert all(size <= TARGET.max_lanes for size in sizes(ast, "vector"))
        for phase in lower(ast, len(kernel.buffers), TARGET).phases:
            assert phase.items <= GROUP.most_items
            assert most_steps(phase) <= TARGET.max_steps
            assert len(phase.params) <= TARGET.max_buffers


def logs(tensor):
    return [line for _, _, log in asts(tensor) for line in log]


def test_neighbouring_elements_go_to_neighbouring_items_in_vectors():
    assert logs(filled(64, 64) * 2)[-1] == "groups of 128 items, 4 results each"
    assert logs(filled(65, 63) * 2)[-1] == "groups of 128 items, 1 results each"
    assert logs(filled(5) * 2)[-1].startswith("groups of 8 items")


def test_a_softmax_has_a_group_for_each_row_which_shares_both_reductions():
    ((_, ast, log),) = asts(filled(300, 5000).softmax())
    assert sizes(ast, "grid") == [300]
    assert sum("share" in line for line in log) == 2
    assert any("a group of 128 items" in line for line in log)
    assert stages(ast)


def test_columns_are_summed_by_an_item_each_and_long_ones_in_chunks():
    assert not any("group r" in line for line in logs(filled(5000, 640).sum(axis=0)))
    ((_, ast, log),) = asts(filled(70_000, 640).sum(axis=0))
    assert any("into" in line and "chunks" in line for line in log)
    assert len(stages(ast, "grid")) == 1


def test_both_operands_of_a_matmul_are_in_shared_memory():
    ((_, ast, log),) = asts(filled(256, 256) @ filled(256, 256))
    assert "both operands in shared tiles" in log
    assert len(stages(ast)) == 2
    assert sorted(sizes(ast, "grid")) == [8, 4] or math.prod(sizes(ast, "grid")) > 1


def test_a_tile_shrinks_until_shared_memory_holds_it():
    small = dataclasses.replace(TARGET, workgroup=dataclasses.replace(GROUP, shared_bytes=2048))
    ((_, ast, log),) = asts(filled(256, 256) @ filled(256, 256), small)
    assert "both operands in shared tiles" in log
    held = {n.src[: 2 + len(n.arg.sizes)]: n for n in stages(ast)}.values()
    assert sum(math.prod(n.arg.sizes) * n.dtype.itemsize for n in held) <= 2048


def test_both_passes_of_an_argmax_are_cut_into_chunks():
    log = logs(filled(1_000_000).argmax())
    assert sum("chunks" in line for line in log) == 2


def test_long_scans_become_two_short_ones():
    x = filled(70_000)
    steps, _ = schedule([x.cumsum(0).node], "CPU", TARGET)
    assert len(steps) > 1
    longest = max(size for _, k in steps for size in sizes(k.ast, "loop") if k.ast.op is Op.SINK)
    assert longest <= 70_000
    for _, kernel in steps:
        ast, _ = optimize(kernel.ast, TARGET)
        phases = lower(ast, len(kernel.buffers), TARGET).phases
        assert max(map(most_steps, phases)) < 2000
    assert len(schedule([x.cumsum(0).node], "CPU", host_target())[0]) == 1


# -- values ---------------------------------------------------------------------------------------


@pytest.fixture(params=["CL:0:OPENCL:gpu", "WEBGPU"])
def grouped(request):
    """A device whose kernels run in groups."""
    name = request.param
    try:
        opened = Device[name.partition(":")[0]] if name == "WEBGPU" else Device[name]
    except DeviceError as error:
        pytest.skip(str(error))
    return opened.name
