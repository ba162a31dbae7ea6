"""Captured functions whose arguments are sizes: replayed for all values of their variables."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit, Variable
from treadle.errors import ArgumentError, IndexOutOfRange, JitError, ShapeError, UserError
from treadle.func import scan

TOKENS, WIDTH = 12, 6
n = Variable("n", 1, TOKENS - 1)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Attention:
    """One head that keeps the keys and values of the tokens that it has seen."""

    def __init__(self, device):
        rows = numbers(3, WIDTH, WIDTH)
        self.weights = [Tensor(w, device=device).realize() for w in rows]
        empty = Tensor.zeros(TOKENS, WIDTH, device=device)
        self.keys, self.values = (empty.contiguous().realize() for _ in range(2))

    def __call__(self, x, start):
        query, key, value = (x @ w for w in self.weights)
        self.keys[start : start + 1].assign(key).realize()
        self.values[start : start + 1].assign(value).realize()
        scores = query @ self.keys[: start + 1].T
        return (scores.softmax(-1) @ self.values[: start + 1]).realize()


def test_a_decoder_with_a_cache_is_replayed_for_each_position(device):
    x = numbers(TOKENS, 1, WIDTH, seed=1)
    model = Attention(device)
    captured = TinyJit(model.__call__)
    queries, keys, values = (x[:, 0] @ weight.numpy() for weight in model.weights)
    keys[0] = values[0] = 0.0  # what the cache holds before the first token
    for i in range(1, TOKENS):
        weights = np.exp(queries[i] @ keys[: i + 1].T)
        expected = (weights / weights.sum()) @ values[: i + 1]
        found = captured(Tensor(x[i], device=device).realize(), n.bind(i))
        np.testing.assert_allclose(found.numpy()[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.keys.numpy(), keys, rtol=1e-5, atol=1e-6)


def test_an_eager_decoder_with_a_cache_computes_the_same_as_its_replay():
    x = numbers(TOKENS, 1, WIDTH, seed=1)
    plain, model = Attention("CPU"), Attention("CPU")
    captured = TinyJit(model.__call__)
    for i in range(1, TOKENS):
        expected = plain(Tensor(x[i], device="CPU"), i).numpy()
        found = captured(Tensor(x[i], device="CPU").realize(), n.bind(i))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_replay_runs_no_python_of_the_function():
    calls = []
    f = TinyJit(lambda x, n: (calls.append(n), x[:n].sum().realize())[1])
    x = Tensor.arange(TOKENS).realize()
    assert [f(x, n.bind(i)).item() for i in range(1, 9)] == [i * (i - 1) // 2 for i in range(1, 9)]
    assert len(calls) == 2


def test_results_are_as_large_as_the_call_says(device):
    f = TinyJit(lambda x, n: {"rows": (x[:n] * 2).realize(), "more": n + 1})
    data = numbers(TOKENS, 3)
    x = Tensor(data, device=device).realize()
    kept = []
    for i in (3, 7, 2, 11, 1, 7):
        found = f(x, n.bind(i))
        kept.append((i, found["rows"]))
        assert Tensor.zeros(found["more"]).numpy().shape == (i + 1,)
    for i, rows in kept:
        np.testing.assert_array_equal(rows.numpy(), data[:i] * 2)
        np.testing.assert_array_equal((rows + 1).numpy(), data[:i] * 2 + 1)


def test_what_is_computed_on_the_way_may_be_larger_than_in_the_captured_call(device):
    def f(x, n):
        rows = (x[:n] * 2).realize()  # memory of its own, of another size in each call
        return (rows + 1).sum(0).realize()

    data = numbers(TOKENS, 3)
    x, captured = Tensor(data, device=device).realize(), TinyJit(f)
    for i in (1, 1, 11, 5, 11):
        found = captured(x, n.bind(i)).numpy()
        np.testing.assert_allclose(found, (data[:i] * 2 + 1).sum(0), rtol=1e-5, atol=1e-5)


def test_several_variables_and_what_is_made_of_them():
    m = Variable("m", 0, 4)
    f = TinyJit(lambda x, at: (x[at["low"] : at["high"]] * 3).realize())
    x = Tensor.arange(20).realize()
    for i, j in ((1, 0), (2, 3), (5, 1), (8, 4)):
        at = {"low": m.bind(j), "high": n.bind(i) + m.bind(j)}
        assert f(x, at).tolist() == [3 * k for k in range(j, i + j)]


def test_an_argument_whose_shape_is_bound_may_be_bound_otherwise():
    f = TinyJit(lambda x, n: (x + n).sum().realize())
    x = Tensor.ones(TOKENS).contiguous().realize()
    for _ in range(4):
        assert f(x[: n.bind(3)], n.bind(3)).item() == 12
    assert f(x[: n.bind(4)], n.bind(4)).item() == 20  # by the function itself
    assert f(x[: n.bind(3)], n.bind(3)).item() == 12
    with pytest.raises(UserError, match="n is bound to"):
        f(x[: n.bind(3)], n.bind(4))


def test_two_values_of_one_variable_are_refused():
    f = TinyJit(lambda x, a, b: (x * a + b).realize())
    for _ in range(3):
        with pytest.raises(UserError, match="n is bound to 3 and to 4"):
            f(Tensor([1.0]), n.bind(3), n.bind(4))


def test_a_variable_that_the_function_binds_itself_is_refused():
    x = Tensor.arange(TOKENS).realize()
    f = TinyJit(lambda k: (x[:k].sum() + x[: n.bind(3)].sum()).realize())
    assert f(n.bind(3)).item() == 6
    with pytest.raises(JitError, match="n is bound inside of the captured function"):
        f(n.bind(3))


def test_a_slice_ends_where_its_axis_does_for_every_value():
    f = TinyJit(lambda x, k: x[3:k].sum().realize())
    x = Tensor.arange(8).realize()
    for i in (5, 5, 9, 3, 11, 1):
        assert f(x, n.bind(i)).item() == sum(range(3, min(i, 8)))


def test_a_part_must_lie_within_its_axis_for_every_value():
    f = TinyJit(lambda x, k: x.shrink(((3, k),)).sum().realize())
    x = Tensor.arange(TOKENS).realize()
    assert f(x, n.bind(5)).item() == 7
    with pytest.raises(ShapeError, match="for every value of the variables"):  # 1 is none
        f(x, n.bind(5))


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda x, k: x[:k].numpy(), (UserError, "n has no value here.* captured function")),
        (lambda x, k: x[:k].sum().item(), (JitError, "read on the host")),
        (lambda x, k: x if k > 3 else x + 1, (TypeError, "truth value")),
    ],
)
def test_numbers_that_are_read_are_refused(read, error):
    def f(x, k):
        if reading:
            read(x, k)
        return (x * 2).realize()

    captured, x, reading = TinyJit(f), Tensor.arange(TOKENS).realize(), False
    captured(x, n.bind(3))
    reading = True
    with pytest.raises(error[0], match=error[1]):
        captured(x, n.bind(3))


def test_what_the_function_keeps_has_a_fixed_size():
    kept = {}

    def f(x, k):
        kept["rows"] = (x[:k] * 2).realize()
        return x.sum().realize()

    captured, x = TinyJit(f), Tensor.arange(TOKENS).realize()
    captured(x, n.bind(3))
    with pytest.raises(JitError, match=r"keeps.* of a size that depends on a variable"):
        captured(x, n.bind(3))
    assert kept["rows"].tolist() == [0, 2, 4]


def test_what_is_left_pending_has_the_captured_value():
    kept = {}

    def f(x, k):
        kept["rows"] = x[:k] * 2
        return (x.sum() + k).realize()

    captured, x = TinyJit(f), Tensor.arange(TOKENS).realize()
    for i in (3, 4, 5):
        assert captured(x, n.bind(i)).item() == 66 + i
    assert kept["rows"].tolist() == [0, 2, 4, 6]


def test_loops_read_variables():
    x = Tensor.ones(TOKENS).contiguous().realize()

    def f(x, k):
        total, _ = scan(
            lambda carry, row: (carry + row * k, carry), Tensor([0.0]), x.reshape(-1, 1)
        )
        return total.realize()

    captured = TinyJit(f)
    for i in (1, 2, 3, 7):
        assert captured(x, n.bind(i)).item() == TOKENS * i


def test_gradients_and_modes():
    w = Tensor(numbers(TOKENS), requires_grad=True)

    @TinyJit
    def step(w, k):
        loss = (w[:k] * w[:k]).sum()
        loss.backward()
        return loss.realize()

    for i in (2, 5, 9, 3):
        w.grad = None
        loss = step(w, n.bind(i)).item()
        data = w.numpy()
        np.testing.assert_allclose(loss, (data[:i] ** 2).sum(), rtol=1e-5)
        expected = np.where(np.arange(TOKENS) < i, 2 * data, 0)
        np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-6)


def test_without_capturing_the_values_are_plain():
    f = TinyJit(lambda x, k: x[:k].sum().realize())
    x = Tensor.arange(TOKENS).realize()
    with Context(JIT=0):
        assert [f(x, n.bind(i)).item() for i in (2, 3, 4)] == [1, 3, 6]


def test_a_variable_without_a_value_is_an_error_that_says_so():
    with pytest.raises(UserError, match=r"n has no value here: give n\.bind"):
        Tensor.arange(TOKENS)[:n].sum().item()


# -- parts of axes ----------------------------------------------------------------------------


PARTS = {
    "from the end": lambda x, k: x[:k][-2:],
    "the last": lambda x, k: x[:k][-1:],
    "all but the last": lambda x, k: x[:k][:-1],
    "beyond the end": lambda x, k: x[:k][: k + 7],
    "a number beyond": lambda x, k: x[:k][:9],
    "none": lambda x, k: x[k:k],
    "backwards": lambda x, k: x[k : k - 1],
    "negative": lambda x, k: x[: -k],
    "beside each other": lambda x, k: x[:k].cat(x[k:], x[:k]),
    "stacked": lambda x, k: x[:k].stack(x[-k:]).reshape(-1, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_numpys_for_every_value(name, device):
    data = numbers(TOKENS, 2)
    x, part = Tensor(data, device=device).realize(), PARTS[name]
    captured = TinyJit(lambda k: (part(x, k) * 2).realize())
    for i in (4, 3, 1, 11, 2, 7):
        if name == "beside each other":
            expected = np.concatenate([data[:i], data[i:], data[:i]])
        elif name == "stacked":
            expected = np.concatenate([data[:i], data[-i:]])
        else:
            expected = part(data, i)
        np.testing.assert_array_equal(part(x, n.bind(i)).numpy(), expected)
        np.testing.assert_array_equal(captured(n.bind(i)).numpy(), expected * 2)


def test_an_index_lies_within_an_axis_whose_size_is_bound():
    x = Tensor.arange(TOKENS).realize()
    rows = x[: n.bind(4)]
    assert [rows[-1].item(), rows[0].item(), rows[3].item(), rows[-4].item()] == [3, 0, 3, 0]
    assert x[n.bind(4) + 1].item() == 5
    for place in (4, -5):
        with pytest.raises(IndexOutOfRange, match="for some value of the variables"):
            rows[place]
    with pytest.raises(IndexOutOfRange, match="axis 0 of size 12"):
        x[n.bind(11) + 1]


def test_a_bound_that_may_be_negative_is_refused():
    with pytest.raises(ShapeError, match="may be negative or not"):
        Tensor.arange(TOKENS)[: n - 3]


@pytest.mark.parametrize("name", ["sort", "cumsum", "roll", "split"])
def test_what_needs_known_sizes_says_so(name):
    rows = Tensor.arange(TOKENS)[: n.bind(4)]
    with pytest.raises(
        (ShapeError, ArgumentError), match=r"needs sizes that are known, not \(bind"
    ):
        getattr(rows, name)(*([1] if name in ("roll", "split") else []))
