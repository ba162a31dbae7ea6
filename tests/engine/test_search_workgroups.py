"""BEAM on targets with workgroups: the space is listed, replayed, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest
from tests.choices.scenarios import opens

from treadle import Context, Tensor
from treadle.engine import kernels, pipeline, search
from treadle.engine.cache import CompileCache
from treadle.engine.devices import Device
from treadle.engine.loading import load
from treadle.engine.programs import Programs
from treadle.engine.run import scheduled
from treadle.engine.translation import Job, Translator
from treadle.engine.trial import Trial
from treadle.engine.work import work_of
from treadle.ir.text import render
from treadle.optimize.heuristic import parsed, replay
from treadle.optimize.matrix_units import TileForUnits
from treadle.optimize.reduction_moves import ShareReduction
from treadle.optimize.shared_tiles import ShareTiles
from treadle.optimize.space import Space
from treadle.target import nvidia_target

RANDOM = np.random.default_rng(12)
PROGRAMS = {
    "product": lambda x: x @ x.T,
    "product of halves": lambda x: x.half() @ x.T.half(),
    "batch of products": lambda x: x.reshape(2, -1, 32) @ x.reshape(2, -1, 32).transpose(1, 2),
    "convolution": lambda x: x.reshape(1, 4, -1, 24).conv2d(x[:3, :36].reshape(3, 4, 3, 3)),
    "attention of halves": lambda x: x.half().scaled_dot_product_attention(x.half(), x.half()),
    "softmax": lambda x: x.softmax(1),
    "layer norm": lambda x: x.layernorm(),
    "sum": lambda x: x.sum(),
    "sums of columns": lambda x: x.sum(0),
    "argmax": lambda x: x.argmax(1),
    "transpose": lambda x: x.T.contiguous(),
    "elementwise": lambda x: (x * 2 + 1).exp(),
}
MOST = 3  # schedules that are run of a kernel
POCL = "CL:0:OPENCL:gpu"
DEVICES = (
    POCL, "CUDA:PTX:sm_80", "NV:PTX:sm_90a", "AMD:LLVM:gfx1100", "AMD:LLVM:gfx942", "METAL", "QCOM",
    "WEBGPU",
)  # fmt: skip


def numbers(device, *shape):
    return Tensor(RANDOM.standard_normal(shape).astype(np.float32), device=device).realize()


def scheduled_alone(tensor):
    return scheduled([(tensor.node, tensor.device)])


def kernel_of(tensor):
    *_, kernel = scheduled_alone(tensor)
    return kernel


def skipped_unless_open(device):
    if (why := opens(device)) is not None:
        pytest.skip(f"{device}: {why}")


def trial_of(kernel, opened):
    """A Trial of `kernel` in this process."""
    translator = Translator.of(opened)
    job = Job("tried", render(kernel.ast), len(kernel.buffers), work_of(kernel.ast, kernel.buffers))
    build = lambda *schedule: load("tried", *translator.finished(job, *schedule), "", opened)
    return Trial(kernel.ast, kernel.writes, opened, build)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", DEVICES)
def test_every_schedule_of_a_space_replays_from_its_text(device, name):
    skipped_unless_open(device)
    target = Device[device].code_target
    for kernel in scheduled_alone(PROGRAMS[name](numbers("CPU", 96, 128))):
        space = Space(kernel.ast, target)
        near = list(space.near(space.own))
        made = [replay(kernel.ast, target, parsed(str(one))) for one in (space.own, *near)]
        assert made == [space.kernel_of(one) for one in (space.own, *near)]
        assert len(set(made)) == len(made)  # each is another kernel
        assert all(0 < space.estimate(one) < 1 for one in near)


def test_a_space_has_other_tiles_workgroups_and_forms():
    target = nvidia_target("sm_80")

    def moves(name, kind):
        space = Space(kernel_of(PROGRAMS[name](numbers("CPU", 96, 128))).ast, target)
        return [move for one in space.near(space.own) for move in one.of_kind(kind)]

    tiles = {move.tile for move in moves("product", ShareTiles)}
    assert len({(tile.rows, tile.columns) for tile in tiles}) > 4
    assert len({tile.depth for tile in tiles}) > 1
    assert len({move.tile for move in moves("product of halves", TileForUnits)}) > 1
    shared = moves("softmax", ShareReduction)
    assert len({move.work_items for move in shared}) > 1
    assert {move.subgroup is None for move in shared} == {True, False}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", DEVICES)
def test_schedules_near_the_heuristics_compute_the_same(device, name):
    """Not a search: some are compared with the kernel as it stands."""
    skipped_unless_open(device)
    opened = Device[device]
    assert opened.code_target.workgroup is not None
    for kernel in scheduled_alone(PROGRAMS[name](numbers(opened.name, 30, 64))):
        one, space = trial_of(kernel, opened), Space(kernel.ast, opened.code_target)
        near = list(space.near(space.own))
        for schedule in (space.own, *near[:: max(1, -(-len(near) // MOST))]):
            ast = replay(kernel.ast, opened.code_target, parsed(str(schedule)))
            _, found = one.result(one.candidate(ast, schedule))
            assert one.matches_reference(found), schedule


def test_a_search_on_a_device_with_workgroups_is_right_and_kept(monkeypatch, tmp_path):
    skipped_unless_open(POCL)
    cache, x = CompileCache(tmp_path), numbers(Device[POCL].name, 96, 97)
    for module in (kernels, pipeline):
        monkeypatch.setattr(module, "compile_cache", lambda: cache)
    monkeypatch.setattr(search, "SECONDS", 60.0)
    monkeypatch.setattr(search, "MAX_CANDIDATES", 4)
    found = []
    for _ in range(2):
        monkeypatch.setattr(pipeline, "_programs", Programs())
        monkeypatch.setattr(kernels, "_kernels", {})
        with Context(BEAM=1):
            np.testing.assert_allclose(
                (x @ x.T).numpy(), x.numpy() @ x.numpy().T, rtol=1e-4, atol=1e-4
            )
        found.append({key: kernel.schedule for key, kernel in kernels._kernels.items()})
        monkeypatch.setattr(kernels, "best_schedule", lambda *a: pytest.fail("it searched anew"))
    assert found[0] == found[1]
    assert [kernel.searched for kernel in kernels._kernels.values()] == [4]
