"""TinyJit and `assign` as the specification's programs use them."""

import pickle

import pytest

from treadle import Tensor, TinyJit, Variable
from treadle.errors import DTypeError, ShapeError


def test_3_06_keywords_may_come_in_any_order():
    sub = TinyJit(lambda *, a, b: (a - b).realize())
    for n in range(4):
        a, b = Tensor([float(n)]).realize(), Tensor([1.0]).realize()
        assert (sub(a=a, b=b) if n % 2 else sub(b=b, a=a)).item() == n - 1


def test_3_06_tinyjit_takes_prune():
    double = TinyJit(lambda x: (x * 2).realize(), prune=True)
    assert [double(Tensor([float(n)])).item() for n in range(4)] == [0, 2, 4, 6]


def test_3_06_tensors_with_variable_shapes_are_arguments():
    n, x = Variable("n", 1, 8), Tensor.arange(8).realize()
    total = TinyJit(lambda x: x.sum().realize())
    for i in (3, 3, 3, 5, 1, 3):
        assert total(x[: n.bind(i)]).item() == sum(range(i))


def test_3_06_arguments_are_written_to_through_views():
    owner = Tensor([1.0, 2.0, 3.0]).realize()
    add = TinyJit(lambda x: x.assign(x + 10))
    for n in range(4):
        assert add(owner[1:]).tolist() == [2 + 10 * (n + 1), 3 + 10 * (n + 1)]
    assert owner.tolist() == [1, 42, 43]


def test_3_06_assign_broadcasts_and_widens():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.assign(Tensor([5, 6])).tolist() == [[5, 6], [5, 6]]
    assert x.assign(7).tolist() == [[7, 7], [7, 7]]
    with pytest.raises(DTypeError, match="float32 value does not fit a int32"):
        Tensor([1, 2]).assign(Tensor([1.5, 2.5]))
    with pytest.raises(ShapeError, match="does not fit"):
        x.assign(Tensor([1.0, 2.0, 3.0]))


def test_3_06_a_captured_function_is_pickled():
    weight = Tensor([2.0, 3.0]).realize()
    scaled = TinyJit(lambda x: (x * weight).sum().realize())
    for n in range(3):
        scaled(Tensor([1.0, float(n)]).realize())
    loaded = pickle.loads(pickle.dumps(scaled))
    assert [loaded(Tensor([1.0, float(n)])).item() for n in range(4)] == [2, 5, 8, 11]
    assert pickle.loads(pickle.dumps(_decorated)) is _decorated


@TinyJit
def _decorated(x):
    return x + 1
