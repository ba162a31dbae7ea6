"""Cells and sequences of them give PyTorch's values and gradients for the same parameters."""

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.errors import ShapeError, UserError

from .oracle import copy_parameters, seeded

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this module")

CELLS = ["LSTMCell", "GRUCell"]
SEQUENCES = [
    ("LSTM", {}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("GRU", {"num_layers": 2, "bias": False}),
    ("GRU", {"bidirectional": True}),
]


def twins(name, *sizes, **options):
    ours, oracle = getattr(nn, name)(*sizes, **options), getattr(torch.nn, name)(*sizes, **options)
    with torch.no_grad():
        copy_parameters(ours, oracle)
    return ours, oracle


def flat(state):
    return [part for item in state for part in flat(item)] if isinstance(state, tuple) else [state]


def assert_close(ours, expected, atol=1e-5):
    for mine, theirs in zip(flat(ours), flat(expected), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), atol=atol, rtol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_steps_as_in_pytorch(name, bias):
    ours, oracle = twins(name, 3, 4, bias=bias)
    data, state, expected = seeded(2, 3), None, None
    for _ in range(3):
        state, expected = ours(Tensor(data), state), oracle(torch.tensor(data), expected)
    assert_close(state, expected)


@pytest.mark.parametrize(("name", "options"), SEQUENCES, ids=[f"{n} {o}" for n, o in SEQUENCES])
def test_a_sequence_and_its_gradients_agree_with_pytorch(name, options):
    ours, oracle = twins(name, 3, 2, **options)
    x = Tensor(seeded(4, 2, 3) * 0.3, requires_grad=True)
    tx = torch.tensor(seeded(4, 2, 3) * 0.3, requires_grad=True)
    out, expected = ours(x), oracle(tx)
    assert_close(out, expected)
    out[0].square().sum().backward()
    expected[0].square().sum().backward()
    assert_close((x.grad, ours.weight_hh_l0.grad), (tx.grad, oracle.weight_hh_l0.grad), 1e-4)


def test_a_sequence_goes_on_from_a_given_state():
    ours, oracle = twins("LSTM", 3, 2)
    state = [seeded(1, 2, 2), seeded(1, 2, 2) * 0.5]
    out = ours(Tensor(seeded(3, 2, 3)), tuple(map(Tensor, state)))
    assert_close(out, oracle(torch.tensor(seeded(3, 2, 3)), tuple(map(torch.tensor, state))))


def test_a_sequence_of_another_size_is_refused():
    message = r"\[GRU\] expected an input \(time, batch, 3\), or .*, got shape \(2, 5\)"
    with pytest.raises(ShapeError, match=message):
        nn.GRU(3, 4)(Tensor.zeros(2, 5))


@pytest.mark.parametrize(("name", "options"), [("LSTM", {}), ("RNN", {"nonlinearity": "relu"})])
def test_lengths_are_what_pytorch_packs_away(name, options):
    options = {"bidirectional": True, "batch_first": True, "num_layers": 2, **options}
    ours, oracle = twins(name, 3, 2, **options)
    lengths, x = [2, 4, 1], seeded(3, 4, 3)
    pack = torch.nn.utils.rnn.pack_padded_sequence
    packed = pack(torch.tensor(x), lengths, batch_first=True, enforce_sorted=False)
    out, ends = oracle(packed)
    out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    found = ours(Tensor(x), lengths=lengths)
    assert_close(found, (out, ends))
    assert_close(ours(Tensor(x), lengths=Tensor(lengths)), (out, ends))


@pytest.mark.parametrize("name", ["LSTM", "RNN"])
def test_a_sequence_may_be_without_a_batch(name):
    ours, oracle = twins(name, 3, 2)
    assert_close(ours(Tensor(seeded(4, 3))), oracle(torch.tensor(seeded(4, 3))))
    cell, expected = twins(f"{name}Cell", 3, 2)
    assert_close(cell(Tensor(seeded(3))), expected(torch.tensor(seeded(3))))


def test_what_does_not_fit_a_sequence_is_named():
    layer, x = nn.GRU(3, 4), Tensor.zeros(5, 2, 3)
    with pytest.raises(ShapeError, match=r"lengths are 2 integers.*not int32 of shape \(3,\)"):
        layer(x, lengths=[1, 2, 3])
    with pytest.raises(ShapeError, match=r"a state has shape \(2, 2, 4\), expected \(1, 2, 4\)"):
        layer(x, Tensor.zeros(2, 2, 4))
    with pytest.raises(UserError, match='"tanh" or "relu"'):
        nn.RNN(3, 4, nonlinearity="gelu")
