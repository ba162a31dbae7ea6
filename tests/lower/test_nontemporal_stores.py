"""Stores around the caches: whole lines of large new memory, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.engine.run import scheduled
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.lower.streams import STREAM
from treadle.optimize.heuristic import optimize
from treadle.render.llvm import LLVMRenderer
from treadle.target import parse_target

WIDE, NARROW = (replace(parse_target(f"x86-64-v{level}"), l3=1 << 16) for level in (4, 3))
SIDE = 256  # 256 KiB of floats: more than those caches hold


def filled(*shape, dtype=dtypes.float32):
    return Tensor(np.ones(shape), dtype=dtype, device="CPU").realize()


def stores(tensor, target=WIDE):
    """(stores marked, stores in all) of the last kernel that computes `tensor`."""
    return stores_of(scheduled([(tensor.node, "CPU")])[-1], target)


def stores_of(kernel, target):
    ast, _ = optimize(kernel.ast, target)
    phases = lower(ast, len(kernel.buffers), target).phases
    found = [node for node in phases[-1].program.src if node.op is Op.STORE]
    return sum(node.arg == STREAM for node in found), len(found)


@pytest.mark.parametrize("target", [WIDE, NARROW], ids=["a line each", "two to a line"])
def test_large_results_are_streamed(target):
    marked, every = stores(filled(SIDE, SIDE) + 1, target)
    assert marked == every > 0


def test_halves_of_lines_count_where_both_are_there():
    marked, every = stores(filled(SIDE, 2 * SIDE).cast(dtypes.float16))
    assert marked == every > 0


def test_results_that_caches_hold_are_not():
    assert stores(filled(32, 32) + 1)[0] == 0
    assert stores(filled(SIDE, SIDE) + 1, replace(WIDE, l3=1 << 24))[0] == 0


def test_what_the_next_kernel_reads_stays_in_a_cache_that_holds_it():
    """A result leaves from half of that on: it lies beside what is computed from it."""
    later = filled(SIDE, SIDE).add(1).contiguous() @ filled(SIDE, SIDE)
    first = scheduled([(later.node, "CPU")])[0]
    for l3, leaves in ((1 << 17, True), (3 << 17, False)):
        target = replace(WIDE, l3=l3)
        assert (stores_of(first, target)[0] > 0) == leaves
        assert stores(filled(SIDE, SIDE) + 1, target)[0] > 0


def test_lines_that_begin_anywhere_are_not():
    assert stores(filled(SIDE, SIDE + 1)[:, :-1] + filled(SIDE, SIDE))[0] > 0  # loads may
    assert stores((filled(SIDE, SIDE) + 1).pad(((0, 0), (0, 1))))[0] == 0


def test_memory_that_users_gave_is_not():
    """It may begin anywhere, and such a store faults where it is not aligned."""
    target = filled(SIDE, SIDE)
    target.assign(filled(SIDE, SIDE) * 2)
    assert stores(target)[0] == 0


def test_memory_at_any_address_may_be_assigned_to():
    block = np.zeros(1024 * 4096 * 4 + 64, np.uint8)
    offset = (-block.ctypes.data) % 64 + 4
    address = block.ctypes.data + offset
    x = Tensor.from_blob(address, (1024, 4096), dtypes.float32, "CPU", owner=block)
    x.assign(Tensor.ones(1024, 4096) * 3).realize()
    assert block[offset : offset + 1024 * 4096 * 4].view(np.float32).sum() == 3 * 1024 * 4096


def test_what_is_streamed_is_there_when_it_is_read():
    """Other cores and later kernels read it at once."""
    values = np.random.default_rng(1).standard_normal((2048, 4096)).astype(np.float32)
    x = Tensor(values, device="CPU").realize()
    for _ in range(3):
        doubled = (x * 2).realize()
        np.testing.assert_array_equal((doubled.T + 1).numpy(), (values * 2).T + 1)


def test_streamed_stores_end_with_a_fence():
    kernel = scheduled([((filled(SIDE, SIDE) + 1).node, "CPU")])[-1]
    lowered = lower(optimize(kernel.ast, WIDE)[0], len(kernel.buffers), WIDE)

    def text(triple):
        renderer = LLVMRenderer(triple=triple, vector_bits=512)
        return renderer.render("f", lowered.phases, lowered.variables)

    for triple, expected in (("x86_64-unknown-linux-gnu", True), ("aarch64-linux-gnu", False)):
        assert ("!nontemporal" in text(triple)) is expected
        assert ("call void @llvm.x86.sse.sfence()" in text(triple)) is expected
