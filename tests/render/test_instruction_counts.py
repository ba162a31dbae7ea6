"""Kernels of treadle's have no more instructions than what is written by hand for HIP."""

import pytest
from tests.emulate.amd.newest_clang import NewestClang

from treadle.target import amd_target

from .instruction_counts import rows


def test_softmax_layer_norm_and_matmul_are_no_longer_than_by_hand():
    missing = NewestClang(amd_target("gfx1100")).available()
    if missing is not None:
        pytest.skip(missing)
    found = {name: counts for _, name, *counts in rows("gfx1100")}
    for name in ("softmax", "layer_norm"):
        ours, _, by_hand = map(int, found[name])
        assert 50 < ours < by_hand, name
    loops = [float(count.partition("(")[2].rstrip(")")) for count in found["matmul"]]
    assert loops[0] < 1.1 * loops[2], "instructions for each multiply-add"
