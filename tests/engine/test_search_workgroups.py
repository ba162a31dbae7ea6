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
from treadle.optimize.matrix_units import TileForUnits
from treadle.optimize.reduction_moves import ShareReduction
from treadle.optimize.replay import parsed, replay
from treadle.optimize.shared_tiles import ShareTiles
from treadle.optimize.space import Space
from treadle.target import nvidia_target

RANDOM = np.random.default_rng(12)
PROGRAMS = {
    "product": lambda x: x @ x.T,
    "product of halves": lambda x: x.half() @ x.T.half(),
    "softmax": lambda x: x.softmax(1),
    "sum": lambda x: x.sum(),
    "elementwise": lambda x: (x * 2 + 1).exp(),
}
POCL, EMULATED = "CL:0:OPENCL:gpu", "CUDA:PTX:sm_80"


def numbers(device, *shape):
    return Tensor(RANDOM.standard_normal(shape).astype(np.float32), device=device).realize()


def kernel_of(tensor):
    *_, kernel = scheduled([(tensor.node, tensor.device)])
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
def test_every_schedule_of_a_space_replays_from_its_text(name):
    target = nvidia_target("sm_80")
    kernel = kernel_of(PROGRAMS[name](numbers("CPU", 96, 128)))
    space = Space(kernel.ast, target)
    near = list(space.near(space.own))
    assert near
    made = [replay(kernel.ast, target, parsed(str(one))) for one in (space.own, *near)]
    assert made[0] is space.kernel
    assert len(set(made)) == len(made)  # each is another kernel


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


@pytest.mark.parametrize(
    ("device", "name", "most"),
    [
        (POCL, "product", 8), (POCL, "softmax", 6), (POCL, "sum", 4),
        (EMULATED, "product of halves", 5), (EMULATED, "softmax", 4), (EMULATED, "elementwise", 3),
    ],
)  # fmt: skip
def test_schedules_near_the_heuristics_compute_the_same(device, name, most):
    """Not a search: some are compared with the kernel as it stands."""
    skipped_unless_open(device)
    opened = Device[device]
    kernel = kernel_of(PROGRAMS[name](numbers(opened.name, 33, 64)))
    one, space = trial_of(kernel, opened), Space(kernel.ast, opened.code_target)
    assert opened.code_target.workgroup is not None
    near = list(space.near(space.own))
    some = near[:: -(-len(near) // most)]
    assert some
    for schedule in (space.own, *some):
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
