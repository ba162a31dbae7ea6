"""One case for each surprise that users of tensor libraries know: it works, or it raises."""

import copy
import pickle

import numpy as np
import pytest

from treadle import Context, Tensor
from treadle.errors import TreadleError


def test_a_view_keeps_the_values_it_had_when_it_was_taken():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    view = x[1:]
    x[1] = 20
    assert x.tolist() == [1, 20, 3]
    assert view.tolist() == [2, 3]


def test_the_truth_value_of_several_elements_is_refused():
    with pytest.raises(TreadleError, match="any"):
        bool(Tensor([1.0, 2.0]) > 0)
    assert bool(Tensor([3.0]) > 0)


def test_tensors_hash_by_identity_and_compare_by_element():
    a, b = Tensor([1.0, 2.0]), Tensor([1.0, 5.0])
    assert (a == b).tolist() == [True, False]
    assert len({a, b, a}) == 2


def test_iterating_gives_the_rows_and_a_scalar_has_none():
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises((TreadleError, TypeError)):
        list(Tensor(1.0))


def test_a_deep_copy_has_memory_of_its_own():
    x = Tensor([1.0, 2.0]).realize()
    y = copy.deepcopy(x)
    x.assign(x * 10).realize()
    assert y.tolist() == [1, 2]


def test_a_tensor_survives_pickling():
    x = Tensor([[1.5, 2.5]], requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == [[1.5, 2.5]]
    assert y.requires_grad


def test_the_training_flag_is_restored_after_an_exception():
    @Tensor.train()
    def fails():
        assert Tensor.training
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not Tensor.training


def test_dropout_does_nothing_outside_training():
    x = Tensor.ones(1000)
    assert x.dropout(0.5).sum().item() == 1000
    with Context(TRAINING=1):
        assert x.dropout(0.5).tolist().count(0.0) > 300


def test_the_same_seed_gives_the_same_numbers_and_calls_differ():
    Tensor.manual_seed(3)
    first, second = Tensor.rand(5).tolist(), Tensor.rand(5).tolist()
    Tensor.manual_seed(3)
    assert Tensor.rand(5).tolist() == first
    assert first != second


def test_an_index_must_be_an_integer():
    with pytest.raises((TreadleError, TypeError, IndexError)):
        Tensor([1.0, 2.0])[1.5]


def test_python_numbers_do_not_widen_a_tensor():
    half = Tensor(np.ones(3, np.float16))
    assert (half * 2.5).dtype.name == "float16"
    assert (Tensor([1, 2]) * 2.5).dtype.name == "float32"
    assert (Tensor([1, 2]) / 2).dtype.name == "float32"


def test_gradients_add_up_until_they_are_cleared():
    x = Tensor([2.0], requires_grad=True)
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6]


def test_printing_a_lazy_tensor_computes_nothing():
    x = Tensor([1.0]) + 1
    assert "lazy" in repr(x)
    assert not x.is_realized
