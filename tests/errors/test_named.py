"""The operation that the user called is named, not a part of it; and what is no tensor."""

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.errors import DeviceError, DTypeError, IndexOutOfRange, ShapeError, UserError

X = Tensor(np.zeros((2, 3), np.float32))
Y = Tensor(np.zeros((4, 5), np.float32))
SQUARE = Tensor(np.eye(3, dtype=np.float32))
VECTOR = Tensor(np.zeros(7, np.float32))

# How the shapes (2, 3) and (4, 5) are shown that do not broadcast.
UNEQUAL = "    2  3\n    4  5\n    ^\nsizes must be equal or 1"

MESSAGES = {
    "solve": (lambda: SQUARE.solve(Y), """\
[solve] matrix (3, 3) and right side (4, 5) do not fit: expected 3 rows, got 4
    3  3
    4  5
    ^
expected a right side (..., m, k) for a matrix (..., m, n)"""),
    "solve, from the right": (lambda: SQUARE.solve(Y, left=False), """\
[solve] matrix (3, 3) and right side (4, 5) do not fit: expected 3 columns, got 5
    3  3
    4  5
       ^
expected a right side (..., k, n) for a matrix (..., n, n)"""),
    "solve, batches": (lambda: Tensor.zeros(2, 3, 3).solve(Tensor.zeros(4, 3, 1)), """\
[solve] shapes (2, 3, 3) and (4, 3, 1) do not broadcast at axis -3:
    2  3  3
    4  3  1
    ^
sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"""),
    "solve, not square": (lambda: X.solve(Y), """\
[solve] takes square matrices, shape (2, 3) has 2 rows and 3 columns
    2  3
    ^  ^"""),
    "lstsq": (lambda: X.lstsq(VECTOR), """\
[lstsq] matrix (2, 3) and right side (7,) do not fit: expected 2 elements, got 7
    2  3
       7
       ^
expected a right side (m,) for a matrix (..., m, n)"""),
    "tensordot": (lambda: X.tensordot(Y, ([0], [0, 1])), """\
[tensordot] axes (0,) of shape (2, 3) do not pair with axes (0, 1) of shape (4, 5)
    2  3
    ^
    4  5
    ^  ^
expected as many on both sides, each once, of equal sizes"""),
    "einsum, result": (lambda: Tensor.einsum("ij->ik", X), (
        "[einsum] 'ij->ik': the result names 'k', which must stand in an operand, and once in the "
        "result; operands have the axes i, j")),
    "einsum, result twice": (lambda: Tensor.einsum("ij->ii", X), (
        "[einsum] 'ij->ii': the result names 'i', which must stand in an operand, and once in the "
        "result; operands have the axes i, j")),
    "split": (lambda: X.split((1, 3), dim=1), """\
[split] sizes (1, 3) add up to 4, axis 1 of shape (2, 3) has 3
    2  3
       ^"""),
    "batchnorm": (lambda: X.batchnorm(None, None, VECTOR, VECTOR), """\
[batchnorm] mean (7,) does not fit input (2, 3): expected 3 elements, one for each place of axis 1
    2  3
       ^
    7"""),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4)(Y), """\
[LSTMCell] input (4, 5) has 5 features in its last axis, the layer takes 3
    4  5
       ^
expected (..., 3), which gives (..., 4)"""),
    "GRUCell, state": (lambda: nn.GRUCell(3, 4)(X, Y), """\
[GRUCell, state] input (4, 5) has 5 features in its last axis, the layer takes 4
    4  5
       ^
expected (..., 4), which gives (..., 4)"""),
    "GRUCell, batch": (lambda: nn.GRUCell(3, 4)(X, Tensor.zeros(5, 4)), """\
[GRUCell] shapes (2, 3) and (5, 4) do not broadcast at axis -2:
    2  3
    5  4
    ^
sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"""),
    "load_state_dict": (
        lambda: nn.state.load_state_dict(nn.Linear(3, 4), {"weight": Y, "scale": X}), """\
[load_state_dict] shapes do not match, nor do names (missing: bias (4,); not in the model: scale \
(2, 3)):
weight: model (4, 3), given (4, 5)
    4  3
    4  5
       ^
build the model with these sizes, or leave these names out and give strict=False"""),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_the_whole_message(name):
    mistake, text = MESSAGES[name]
    with pytest.raises(ShapeError) as caught:
        mistake()
    assert str(caught.value) == text


BROADCAST = {
    "masked_fill": lambda: X.masked_fill(Y > 0, 0),
    "clamp": lambda: X.clip(Y),
    "lerp": lambda: X.lerp(Y, 0.5),
    "isclose": lambda: X.allclose(Y),
    "copysign": lambda: X.copysign(Y),
    "l1_loss": lambda: X.l1_loss(Y),
    "mse_loss": lambda: X.mse_loss(Y),
    "huber_loss": lambda: X.huber_loss(Y),
    "smooth_l1_loss": lambda: X.smooth_l1_loss(Y),
    "kl_div": lambda: X.kl_div(Y),
    "poisson_nll_loss": lambda: X.poisson_nll_loss(Y),
    "gaussian_nll_loss": lambda: X.gaussian_nll_loss(Y, X),
    "soft_margin_loss": lambda: X.soft_margin_loss(Y),
    "hinge_embedding_loss": lambda: X.hinge_embedding_loss(Y),
    "vecdot": lambda: X.vecdot(Y),
}


@pytest.mark.parametrize("name", BROADCAST)
def test_shapes_that_do_not_broadcast_name_what_was_called(name):
    with pytest.raises(ShapeError) as caught:
        BROADCAST[name]()
    assert str(caught.value).startswith(f"[{name}] shapes (2, 3) and (4, 5) do not broadcast")
    assert UNEQUAL in str(caught.value)


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "logsumexp", "var", "std", "layernorm", "cumsum", "argmax"]
)
def test_an_axis_that_is_not_there_names_what_was_called(name):
    with pytest.raises(IndexOutOfRange, match=rf"^\[{name}\] axis 4 does not exist: .* 2 axes"):
        getattr(X, name)(4)


TYPES = {
    "matmul": (lambda: X.matmul(3), ShapeError, "[matmul] of shape (2, 3) and the number 3; use *"),
    "roll": (lambda: X.roll((1, 2), 0), ShapeError, "[roll] 2 shifts (1, 2) for 1 axes (0,)"),
    "split": (lambda: X.split(2.5), ShapeError, "[split] takes a size, or a list of sizes, not"),
    "chunk": (lambda: X.chunk("a"), ShapeError, "[chunk] takes a number of at least 1, not 'a'"),
    "stack": (lambda: X.stack(3), DTypeError, "[stack] joins tensors, not a int"),
    "tril": (lambda: X.tril("a"), ShapeError, "[tril] diagonal is an integer, not 'a'"),
    "full": (lambda: Tensor.full(2, [1]), DTypeError, "[full] fill_value is one number, not [1]"),
    "to": (lambda: X.to(3), DeviceError, "named by a text such as 'CPU', not by 3"),
    "one_hot": (lambda: X.int().one_hot(-2), ShapeError, "[one_hot] num_classes is at least 0"),
    "unfold": (lambda: X.unfold(0, 5, 1), ShapeError, "[unfold] windows of 5, 1 apart, do not fit"),
    "SGD": (lambda: nn.optim.SGD([3]), UserError, "[SGD] trains tensors, not a int; nn.state.get"),
    "load_state_dict": (
        lambda: nn.state.load_state_dict(nn.Linear(3, 4), [1]), UserError,
        "[load_state_dict] takes names with tensors, not a list"),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_what_is_no_such_thing_is_refused_by_name(name):
    mistake, kind, text = TYPES[name]
    with pytest.raises(kind) as caught:
        mistake()
    assert text in str(caught.value)
