"""Nodes: interned, immutable, checked when they are made, printable and readable."""

import gc

import pytest

from treadle.dtype import dtypes
from treadle.errors import ShapeError, UserError
from treadle.ir.args import BufferRef, ReduceArg, Token
from treadle.ir.node import Node, intern_count
from treadle.ir.op import INFO, Op
from treadle.ir.text import parse, render


def buffer(*shape):
    size = 1
    for extent in shape:
        size *= extent
    flat = Node(Op.BUFFER, dtypes.float32, (), BufferRef(Token(), size, "CPU"))
    return Node(Op.RESHAPE, dtypes.float32, (flat,), shape)


def test_nodes_that_are_built_alike_are_the_same_object():
    x = buffer(3, 4)
    assert (x + 1) is (x + 1)
    assert (x + 1) is not (x + 2)
    assert Node.const(dtypes.float32, 0.0) is not Node.const(dtypes.float32, -0.0)
    nan = float("nan")
    assert Node.const(dtypes.float32, nan) is Node.const(dtypes.float32, nan)


def test_a_node_cannot_be_changed():
    with pytest.raises(AttributeError, match="immutable"):
        buffer(2).op = Op.ADD


def test_nodes_that_nobody_holds_are_forgotten():
    gc.collect()
    before = intern_count()
    x = buffer(5)
    for _ in range(1000):
        x = x + 1
    assert intern_count() >= before + 1000
    del x
    gc.collect()
    assert intern_count() <= before + 2


def test_shape_mistakes_are_found_when_a_node_is_made():
    x, y = buffer(3, 4), buffer(4, 3)
    with pytest.raises(ShapeError, match="different shapes"):
        Node(Op.ADD, dtypes.float32, (x, y))
    with pytest.raises(ShapeError, match="12 elements"):
        Node(Op.RESHAPE, dtypes.float32, (x,), (5, 2))
    with pytest.raises(ShapeError, match="only size 1 expands"):
        Node(Op.EXPAND, dtypes.float32, (x,), (3, 8))
    with pytest.raises(ShapeError, match="no order"):
        Node(Op.PERMUTE, dtypes.float32, (x,), (0, 0))
    with pytest.raises(ShapeError, match="does not lie within axis 1"):
        Node(Op.SHRINK, dtypes.float32, (x,), ((0, 3), (2, 9)))
    with pytest.raises(ShapeError, match="do not all lie"):
        Node(Op.REDUCE, dtypes.float32, (x,), ReduceArg(Op.ADD, (2,)))


def test_every_op_has_a_meaning_and_an_arity():
    assert set(INFO) == set(Op)
    assert all(info.meaning for info in INFO.values())


def test_text_comes_back_as_the_same_node():
    i, n = Node.range(8, 0), Node.variable("n", 1, 9)
    for node in (i * 3 + 1, (i + n) // 4 % 7, (i < n).where(i, 0), Node.sink([i, n])):
        assert parse(render(node)) is node


def test_a_tensor_graph_survives_printing():
    x = buffer(3, 4)
    named = Node(Op.ALIAS, dtypes.float32, (x * 2.5,), Token())
    graph = Node(Op.REDUCE, dtypes.float32, (named,), ReduceArg(Op.MAX, (1,)))
    again = parse(render(graph))
    assert render(again) == render(graph)
    assert again.shape == (3, 1)


@pytest.mark.parametrize("text", ["", "0 = nothing", "0 = add.float32 %7 %8", "0 = zzz.int32"])
def test_text_that_is_no_ir_is_refused(text):
    with pytest.raises(UserError):
        parse(text)
