"""Broken graphs and programs are refused with the node and the rule."""

from __future__ import annotations

import pytest

from treadle.dtype import dtypes
from treadle.errors import InternalError
from treadle.ir.args import BufferRef, GatherArg, ParamRef, ReduceArg, RegisterRef, Token
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel, verify_linear, verify_loops, verify_tensor

from ..complaints import complaint

F32, I32, VOID = dtypes.float32, dtypes.int32, dtypes.void
R = Node.range(8, 0)
MEMORY = Node(Op.PARAM, F32, (), ParamRef(0, 8))
LOAD = Node(Op.LOAD, F32, (MEMORY, R))
SUM = LOAD + 1.0
STORE = Node(Op.STORE, VOID, (MEMORY, R, SUM))
END = Node(Op.END, VOID, (STORE, R), 1)
REGISTER = Node(Op.REGISTER, F32, (Node.const(F32, 0.0),), RegisterRef(0))


def buffer(dtype=F32) -> Node:
    return Node(Op.BUFFER, dtype, (), BufferRef(Token(), 4, "CPU"))


def test_good_graphs_pass():
    x = buffer()
    total = Node(Op.REDUCE, F32, (x * 2.0,), ReduceArg(Op.ADD, (0,)))
    program = Node(Op.LINEAR, VOID, (MEMORY, R, LOAD, SUM, STORE, END))
    assert complaint(verify_tensor, total) == ""
    assert complaint(verify_kernel, Node.sink([END])) == ""
    assert complaint(verify_linear, program) == ""


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Node(Op.ADD, F32, (LOAD, Node.const(I32, 1))), "sources have different dtypes"),
        (Node(Op.ADD, I32, (LOAD, LOAD)), "the dtype is not the sources'"),
        (Node(Op.ADD, F32, (LOAD,)), "has 1 sources, not 2"),
        (Node(Op.CMPLT, F32, (LOAD, SUM)), "a comparison is bool"),
        (Node(Op.WHERE, F32, (LOAD, LOAD, SUM)), "the condition is not bool"),
        (Node(Op.XOR, F32, (LOAD, SUM)), "needs integers"),
        (Node(Op.SQRT, dtypes.index, (R,)), "needs floats"),
        (Node(Op.BITCAST, dtypes.int64, (LOAD,)), "a bitcast keeps the width"),
        (Node(Op.LOAD, F32, (MEMORY, LOAD)), "the index is no integer"),
        (Node(Op.LOAD, I32, (MEMORY, R)), "the dtype is not the memory's"),
        (Node(Op.LOAD, F32, (SUM, R)), "the first source is no memory"),
        (Node(Op.LOAD, F32, (MEMORY, R, R < 3)), "wrong number of sources"),
        (Node(Op.LOAD, F32, (MEMORY, R, R, SUM)), "the gate is not bool"),
        (Node(Op.STORE, VOID, (MEMORY, R, Node.const(I32, 1))), "the dtype is not the memory's"),
        (Node(Op.UPDATE, VOID, (LOAD, LOAD)), "is no register"),
        (Node(Op.UPDATE, VOID, (REGISTER, R)), "the dtype is not the register's"),
        (Node(Op.REDUCE, F32, (LOAD, LOAD), ReduceArg(Op.ADD)), "are RANGEs"),
        (Node(Op.REDUCE, F32, (LOAD, R), ReduceArg(Op.SUB)), "no associative op"),
        (Node(Op.EXTRACT, F32, (Node.const(F32.vec(4), 1.0),), 4), "there is no such lane"),
        (Node(Op.SUBGROUP, F32, (LOAD,), Op.SUB), "no associative op"),
        (Node(Op.SUBGROUP, I32, (LOAD,), Op.ADD), "the dtype is not the source's"),
        (Node(Op.SUBGROUP, F32, (LOAD,), Op.MUL), "not every subgroup multiplies"),
        (Node(Op.SUBGROUP, F32.vec(4), (Node.const(F32.vec(4), 1.0),), Op.ADD), "scalars"),
        (Node(Op.STACK, F32.vec(2), (LOAD,)), "one source for each lane"),
        (Node(Op.END, VOID, (STORE, LOAD), 1), "ends what is no RANGE"),
        (buffer(), "is not legal in a kernel"),
    ],
)
def test_a_broken_kernel_names_its_rule(broken, rule):
    with pytest.raises(InternalError, match=rule):
        verify_kernel(Node.sink([broken]))


@pytest.mark.parametrize("kind", ["loop", "grid", "unroll", "vector", "vector of an unroll"])
@pytest.mark.parametrize("is_around", [False, True])
def test_one_worker_makes_the_steps_of_a_scan(kind, is_around):
    inner = Node.range(8, 1, "unroll" if kind.endswith("unroll") else kind)
    lanes = Node.range(4, 2, "vector") if kind.startswith("vector of") else Node.index(0)
    outer = (inner,) if is_around else ()
    register = Node(Op.REGISTER, F32, (REGISTER.src[0], *outer), RegisterRef(0))
    place = R * 32 + inner * 4 + lanes
    step = Node(Op.UPDATE, VOID, (register, LOAD, place), Op.ADD)
    rule = complaint(verify_loops, Node.sink([step]))
    is_right = is_around or kind in ("loop", "unroll", "vector")
    assert is_right == (not rule)
    assert is_right or "has steps in loops that are" in rule


def test_a_tensor_graph_holds_no_kernel_ops():
    with pytest.raises(InternalError, match=r"RANGE.*is not legal in a tensor graph"):
        verify_tensor(R + 1)


def test_indices_of_a_gather_are_integers():
    with pytest.raises(InternalError, match="the places are no integers"):
        verify_tensor(Node(Op.GATHER, F32, (buffer(), buffer()), GatherArg(0)))


def nested(*body: Node) -> tuple[Node, ...]:
    inner = Node.range(4, 9)
    return (MEMORY, R, LOAD, SUM, inner, *body, Node(Op.END, VOID, (inner,), 0))


def test_blocks_may_nest():
    program = Node(Op.LINEAR, VOID, (*nested(STORE), END))
    assert complaint(verify_linear, program) == ""


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        ((MEMORY, R, SUM, LOAD, STORE, END), "stands before its source"),
        ((MEMORY, R, LOAD, SUM, STORE), "is never closed"),
        ((MEMORY, R, LOAD, LOAD, SUM, STORE, END), "stands twice"),
        ((MEMORY, R, LOAD, SUM, STORE, END, LOAD * 2.0), "outside its block"),
        ((*nested(STORE)[:-1], END), "closes blocks not innermost"),
        (nested(LOAD * 3.0), "is never closed"),
    ],
)
def test_a_broken_program_names_its_rule(program, rule):
    with pytest.raises(InternalError, match=rule):
        verify_linear(Node(Op.LINEAR, VOID, program))


def test_grid_ranges_stay_open():
    worker = Node.range(8, 0, "grid")
    load = Node(Op.LOAD, F32, (MEMORY, worker))
    store = Node(Op.STORE, VOID, (MEMORY, worker, load))
    program = Node(Op.LINEAR, VOID, (MEMORY, worker, load, store))
    assert complaint(verify_linear, program) == ""
