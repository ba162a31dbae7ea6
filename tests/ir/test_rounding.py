"""Values with bounds of their error, and kernels and graphs at single elements."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.memory import memory_of
from treadle.engine.run import scheduled
from treadle.ir.interpret import interpret
from treadle.ir.interpret_at import GraphMeaning
from treadle.ir.interpret_kernel import KernelMeaning, sampled_steps
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.rounding import Value, elementwise, epsilon, exact, total

FLOATS = (dtypes.float32, dtypes.float32)


def test_a_product_is_off_by_one_unit_in_its_last_place() -> None:
    x = exact(np.array([3.0, -5.0], np.float32))
    found = elementwise(Op.MUL, dtypes.float32, FLOATS, [x, x])
    np.testing.assert_array_equal(found.value, [9, 25])
    np.testing.assert_allclose(found.error, epsilon(dtypes.float32) * np.array([9, 25]), rtol=1e-6)


def test_choices_and_casts_of_what_is_exact_are_exact() -> None:
    x = exact(np.array([1.5, -2.0], np.float32))
    assert elementwise(Op.MAX, dtypes.float32, FLOATS, [x, x]).error is None
    assert elementwise(Op.CAST, dtypes.int32, FLOATS[:1], [x]).error is None


def test_a_comparison_is_unknown_only_where_the_error_decides() -> None:
    x = Value(np.array([1.0, 2.0]), np.array([1e-3, 1e-3]))
    one = exact(np.array([1.0005, 1.0005]))
    found = elementwise(Op.CMPLT, dtypes.bool, FLOATS, [x, one])
    np.testing.assert_array_equal(found.error, [np.inf, 0])


def test_an_error_grows_with_the_slope_of_what_it_goes_through() -> None:
    x = Value(np.array([10.0]), np.array([1e-4]))
    found = elementwise(Op.EXP, dtypes.float32, FLOATS[:1], [x])
    assert found.error is not None
    assert 1e-4 * np.exp(10) < found.error[0] < 3e-4 * np.exp(10)


def test_a_square_of_what_should_be_zero_is_off_by_the_square_of_the_error() -> None:
    x = Value(np.array([0.0, 3.0]), np.array([1e-3, 1e-3]))
    found = elementwise(Op.MUL, dtypes.float32, FLOATS, [x, x])
    assert found.error is not None
    np.testing.assert_allclose(found.error, [1e-6, 6.001e-3], rtol=1e-3)
    found = elementwise(Op.FDIV, dtypes.float32, FLOATS, [x, Value(x.value + 2, x.error)])
    assert found.error is not None
    assert found.error[0] >= 1e-3 / (2 - 1e-3)


def test_a_sum_is_off_by_the_magnitude_of_its_terms() -> None:
    terms = exact(np.array([1e4, -1e4, 1.0], np.float32))
    found = total(Op.ADD, dtypes.float32, terms)
    assert found.value == 1
    assert found.error is not None
    assert 2e4 * epsilon(dtypes.float32) < found.error < 64e4 * epsilon(dtypes.float32)


def test_what_overflows_is_infinite() -> None:
    x = exact(np.array([1e30, 2.0], np.float32))
    found = elementwise(Op.MUL, dtypes.float32, FLOATS, [x, x])
    np.testing.assert_array_equal(found.value, [np.inf, 4])


def _programs(x: Tensor, y: Tensor) -> list[Tensor]:
    places = Tensor([3, 0, 3, 19, 25])
    return [
        (x @ y).relu(),
        x.softmax(-1) @ y,
        x.cumsum(1).flip(0),
        x.pad(((1, 2), (0, 3)))[1:].transpose(0, 1).reshape(-1, 11),
        x.argmax(1),
        x.reshape(1, 1, 20, 33).conv2d(y[:9, :1].reshape(1, 1, 3, 3), stride=2, padding=1),
        x[places],
        Tensor.zeros(20).contiguous().scatter_reduce(0, places, Tensor.ones(5), reduce="sum"),
        Tensor.zeros(20).contiguous().scatter(0, places, Tensor.arange(5).float()),
        x.half().sum(0),
    ]


@pytest.mark.parametrize("number", range(10))
def test_elements_are_what_the_interpreter_gives(number: int) -> None:
    rng = np.random.default_rng(number)
    x, y = (
        Tensor(rng.standard_normal(s).astype(np.float32)).realize() for s in [(20, 33), (33, 9)]
    )
    root = _programs(x, y)[number].node

    def known(node: Node) -> np.ndarray | None:
        return memory_of(node.arg).array() if node.op is Op.BUFFER else None

    right = interpret(root, lambda ref: memory_of(ref).array())
    index = sampled_steps(list(right.shape), 40, number)
    found = GraphMeaning(known, {}).at(root, index)
    error = 0 if found.error is None else found.error
    assert np.all(np.abs(right[tuple(index)].astype(np.float64) - found.value) <= error)
    kernel = scheduled([(root, "CPU")])[-1]
    if all(buffer.op is Op.BUFFER for buffer in kernel.buffers[:-1]):
        memory = {s: known(b) for s, b in enumerate(kernel.buffers) if b.op is Op.BUFFER}
        for store in KernelMeaning(kernel.ast, memory, {}).stores(40):
            off = 0 if store.value.error is None else store.value.error
            flat = right.reshape(-1)[store.places].astype(np.float64)
            assert np.all(np.abs(flat - store.value.value) <= off)


def test_memory_that_nobody_has_filled_may_hold_signalling_nans() -> None:
    memory = np.array([0x7FA00000, 0x3F800000], np.uint32).view(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = exact(memory).value
    assert np.isnan(found[0])
    assert found[1] == 1.0


def _places_of_largest(array: np.ndarray) -> Value:
    """What the graph of argmax says where each number has been computed."""
    x = Tensor(array).realize()
    root = x.exp().argmax(1).node

    def known(node: Node) -> np.ndarray | None:
        return memory_of(node.arg).array() if node.op is Op.BUFFER else None

    return GraphMeaning(known, {}).at(root, [np.arange(len(array))])


def test_the_place_of_the_largest_number_is_known_unless_another_is_within_the_error() -> None:
    array = np.random.default_rng(0).standard_normal((3, 500)).astype(np.float32)
    array[1, 100], array[1, 300] = 5, np.nextafter(np.float32(5), np.float32(6))
    found = _places_of_largest(array)
    np.testing.assert_array_equal(found.error, [0, np.inf, 0])
    np.testing.assert_array_equal(found.value[[0, 2]], array[[0, 2]].argmax(1))


def test_bits_of_a_float_that_is_off_may_change_sign_and_are_then_not_known() -> None:
    x = Value(np.array([2.0, 1e-9, -3.0]), np.array([2.0**-22, 1e-3, 2.0**-22]))
    bits = elementwise(Op.BITCAST, dtypes.uint32, FLOATS[:1], [x])
    np.testing.assert_array_equal(bits.error, [2, np.inf, 1])
    types = (dtypes.uint32, dtypes.uint32)
    odd = elementwise(Op.AND, dtypes.uint32, types, [bits, exact(np.uint32(1))])
    assert np.isinf(odd.error).all()  # what is between even numbers may be odd
    total_of = total(Op.ADD, dtypes.uint32, bits)
    assert np.isinf(total_of.error)
