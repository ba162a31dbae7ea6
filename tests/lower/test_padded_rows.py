"""What loops read under a gate of all their steps: the address is chosen before them."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.ir.args import ParamRef
from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.padded_rows import MOST_ZEROS, with_padded_rows
from treadle.lower.passes import lower
from treadle.target import parse_target

from ..optimize.references import kernel

TARGET = parse_target("x86-64-v3")


def param(slot, size=1 << 16):
    return Node(Op.PARAM, dtypes.float32, (), ParamRef(slot, size))


def lines(index, gate, *, other=0.0, memory=0, result=1):
    """The LINEs of a kernel that adds up what a LOAD gives."""
    zero = Node.const(dtypes.float32, other)
    load = Node(Op.LOAD, dtypes.float32, (param(memory), index, gate, zero))
    loops = tuple(n for n in load.toposort() if n.op is Op.RANGE)
    total = Node(Op.STORE, dtypes.void, (param(result), Node.index(0), load))
    root = Node.sink([Node(Op.END, dtypes.void, (total, *loops), 1)])
    return [n for n in with_padded_rows(root).toposort() if n.op is Op.LINE]


PIXEL, CHANNEL = Node.range(9, 0, "loop"), Node.range(32, 1, "loop")
PLACE = PIXEL * 32 + CHANNEL - 32
INSIDE = Node.index(0) < PIXEL


def test_the_address_of_a_line_is_chosen_for_all_steps():
    (line,) = lines(PLACE, INSIDE)
    _, begin, gate = line.src
    assert (line.arg, gate) == (32, INSIDE)
    assert CHANNEL not in begin.toposort()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"gate": CHANNEL < 7}, id="the gate asks for the step"),
        pytest.param({"index": PIXEL + CHANNEL * 9}, id="steps lie apart"),
        pytest.param({"other": -0.0}, id="other zeros"),
        pytest.param({"other": 1.0}, id="other values"),
        pytest.param({"memory": 0, "result": 0}, id="memory that is written"),
    ],
)
def test_all_other_loads_stay(options):
    index, gate = options.pop("index", PLACE), options.pop("gate", INSIDE)
    assert not lines(index, gate, **options)


def test_there_are_not_any_number_of_zeros():
    channel = Node.range(MOST_ZEROS + 1, 1, "loop")
    assert not lines(PIXEL * loop_size(channel) + channel, INSIDE)


@pytest.mark.parametrize("columns", [30, 8])
def test_whatever_reads_padded_rows_by_elements_asks_once(columns):
    """A product in tiles, and one that is a reduction like any other."""
    x, w = (Tensor(np.ones(s, np.float32)).realize() for s in ((70, 64), (64, columns)))
    _, ast, _ = kernel(x.pad(((2, 2), (0, 0)))[:20] @ w, TARGET)
    programs = [phase.program for phase in lower(ast, 3, TARGET).phases]
    assert any(n.op is Op.LINE for program in programs for n in program.src)
