"""The lines of DEBUG=2: where, how long, and how near to the ceilings, of a made-up machine."""

import math
import re

import numpy as np
import pytest

from treadle import Context, Tensor, Variable
from treadle.engine import report
from treadle.engine.cache import CompileCache
from treadle.engine.ceilings import Ceilings, Level, Measured
from treadle.runtime.probe import Rates


def with_ceilings(monkeypatch, flops, rate):
    """Let the machine do so many operations and move so many bytes a second."""
    found = Ceilings(flops, (Level("memory", math.inf, Rates(rate, rate, rate)),))
    monkeypatch.setattr(report, "measured", Measured(lambda target, names: found))
    cache = CompileCache(None)
    monkeypatch.setattr("treadle.engine.ceilings.compile_cache", lambda: cache)


def shown(capfd, tensor, **settings):
    capfd.readouterr()
    with Context(DEBUG=2, **settings):
        tensor.realize()
    return capfd.readouterr().err.splitlines()


def ones(*shape, device="CPU"):
    return Tensor(np.ones(shape, np.float32), device=device).realize()


def test_a_kernel_shows_line_time_rates_share_and_name(capfd, monkeypatch):
    with_ceilings(monkeypatch, 1e15, 1e15)
    [line] = shown(capfd, ones(100, 3) * 5)
    assert re.fullmatch(
        r"\*\*\* CPU    test_report\.py:\d+ mul +[\d.]+ us +[\d.]+ GFLOP/s +[\d.]+ GB/s "
        r"+0% of the roofline \(memory\)  map_\w+",
        line.replace("tests/engine/", ""),
    )


def test_a_share_above_100_percent_is_neither_hidden_nor_cut(capfd, monkeypatch):
    with_ceilings(monkeypatch, 1.0, 1e15)
    [line] = shown(capfd, ones(100, 4) * 5)
    share = int(re.search(r"(\d+)% of the roofline \(compute, ceiling too low\)", line)[1])
    assert share > 1000


def test_several_kernels_have_a_total(capfd, monkeypatch):
    with_ceilings(monkeypatch, 1e15, 1e15)
    *kernels, total = shown(capfd, (ones(64, 64) @ ones(64, 64)).softmax().sum(0))
    assert len(kernels) > 1
    assert f"total of {len(kernels)} kernels" in total
    assert "0% of the roofline" in total


def test_debug_3_shows_the_text_of_all_lines(capfd):
    x = ones(100, 5) * 5
    y = x.sum(1)  # the line that asks
    capfd.readouterr()
    with Context(DEBUG=3):
        y.realize()
    text = capfd.readouterr().err
    assert f"    for {__file__}:" in text
    assert "# the line that asks" in text
    assert "x = ones(100, 5) * 5" in text


def test_sizes_known_at_launch_have_a_time_alone(capfd):
    n = Variable("n", 1, 100).bind(7)
    [line] = shown(capfd, ones(100, 6).shrink(((0, n), (0, 6))) * 2)
    assert " us" in line
    assert "GFLOP/s" not in line
    assert "roofline" not in line


def test_no_share_is_shown_where_no_ceiling_is_known(capfd):
    pytest.importorskip("pyopencl")
    [line] = shown(capfd, ones(100, 7, device="CL") * 5)
    assert "*** CL " in line
    assert "GB/s" in line
    assert "roofline" not in line
