"""Masked accesses: what all lanes ask for alike is a branch or an address, never only a mask."""

from __future__ import annotations

import re

import numpy as np
import pytest

from treadle import Context, Device, Tensor
from treadle.errors import TreadleError

DEVICE = "CPU:LLVM:x86-64-v3"
STORE = re.compile(r"call void @llvm\.masked\.store\.\S+\(<8 x float> \S+, .*<8 x i1> (%\w+)\)")


@pytest.mark.parametrize("shape", [(20, 3, 13), (43, 2, 21), (13, 5, 44)])
def test_rows_beyond_the_end_are_not_touched(shape, capsys):
    """The last block of a transpose has rows that are not there: far behind the memory."""
    try:
        Device[DEVICE]
    except TreadleError as error:
        pytest.skip(f"{DEVICE} does not open: {error}")
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = Tensor(array, device=DEVICE).realize()
    with Context(DEBUG=4):
        turned = x.permute(2, 1, 0).contiguous().realize()
    np.testing.assert_array_equal(turned.numpy(), array.transpose(2, 1, 0))
    lines = capsys.readouterr().err.splitlines()
    names = lambda line: re.findall(r"%\w+", line)
    alike = {names(line)[0] for line in lines if "shufflevector <8 x i1>" in line}
    ands = [names(line) for line in lines if " = and <8 x i1>" in line]
    both = {name for name, *sides in ands if alike.intersection(sides)}
    masked = [n for n, line in enumerate(lines) if (m := STORE.search(line)) and m[1] in both]
    assert masked
    assert all(lines[n - 1].startswith("if") for n in masked)
