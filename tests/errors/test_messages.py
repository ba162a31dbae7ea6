"""What users read when they make a mistake: the operation, the values, what to do."""

import numpy as np
import pytest

from treadle import Tensor, Variable
from treadle.errors import (
    DeviceError,
    DTypeError,
    IndexOutOfRange,
    ShapeError,
    UserError,
)  # fmt: skip

X = Tensor(np.zeros((2, 3), np.float32))

CASES = {
    "add shapes": (lambda: X + Tensor([1.0, 2.0]), ShapeError, ["(2, 3)", "(2,)"]),
    "matmul shapes": (lambda: X @ X, ShapeError, ["[matmul]", "(2, 3)"]),
    "reshape": (lambda: X.reshape(4, 2), ShapeError, ["[reshape]", "6", "8"]),
    "permute": (lambda: X.permute(0, 0), ShapeError, ["[permute]"]),
    "axis": (lambda: X.sum(axis=2), (ShapeError, IndexOutOfRange), ["2"]),
    "index": (lambda: X[5], IndexOutOfRange, ["5", "2"]),
    "index list": (lambda: X[[0, 9]], IndexOutOfRange, ["9"]),
    "cat": (lambda: X.cat(Tensor.zeros(2, 2), dim=0), ShapeError, ["[cat]"]),
    "conv channels": (
        lambda: Tensor.zeros(1, 3, 8, 8).conv2d(Tensor.zeros(4, 2, 3, 3)),
        ShapeError,
        ["[conv2d]"],
    ),
    "devices": (lambda: X + Tensor([1.0], device="REF"), UserError, ["CPU", "REF"]),
    "device": (lambda: Tensor([1.0], device="TPU"), DeviceError, ["TPU", "CPU"]),
    "bitwise floats": (lambda: X & X, DTypeError, ["float32"]),
    "gradient of ints": (
        lambda: Tensor([1, 2], requires_grad=True),
        DTypeError,
        ["int32"],
    ),
    "item": (lambda: X.item(), ShapeError, ["(2, 3)"]),
    "ragged list": (lambda: Tensor([[1, 2], [3]]), (ShapeError, UserError), []),
    "binding": (lambda: Variable("n", 1, 4).bind(9), UserError, ["9", "1 to 4"]),
    "assign shape": (lambda: Tensor.zeros(2).assign(Tensor.zeros(3)), ShapeError, ["[assign]"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_says_what_is_wrong(name):
    mistake, kind, words = CASES[name]
    with pytest.raises(kind) as caught:
        mistake()
    assert len(str(caught.value)) > 20
    for word in words:
        assert word in str(caught.value)
