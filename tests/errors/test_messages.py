"""What users read when they make a mistake: the operation, the values, what to do."""

import numpy as np
import pytest

from treadle import Tensor, Variable, dtypes, nn
from treadle.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    IndexOutOfRange,
    ShapeError,
    UserError,
)  # fmt: skip

X = Tensor(np.zeros((2, 3), np.float32))
INTS = Tensor([[1, 2, 3], [4, 5, 6]])
VECTOR = Tensor([1.0, 2.0])

# Short messages as a whole: what was wrong, what was expected, what to try.
WHOLE = {
    "attention of integers": (lambda: X.scaled_dot_product_attention(X, INTS), DTypeError, """\
[scaled_dot_product_attention] the value is int32, not a float; cast it"""),
    "broadcast": (lambda: X + VECTOR, ShapeError, """\
[add] shapes (2, 3) and (2,) do not broadcast at axis -1:
    2  3
       2
       ^
sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"""),
    "broadcast inside": (lambda: Tensor.zeros(10, 4, 5) * Tensor.zeros(3, 1), ShapeError, """\
[mul] shapes (10, 4, 5) and (3, 1) do not broadcast at axis -2:
    10  4  5
        3  1
        ^
sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"""),
    "where": (lambda: (X > 0).where(X, Tensor.zeros(4, 3)), ShapeError, """\
[where] shapes (2, 3), (2, 3) and (4, 3) do not broadcast at axis -2:
    2  3
    2  3
    4  3
    ^
sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"""),
    "matmul": (lambda: X @ X, ShapeError, """\
[matmul] shapes (2, 3) and (2, 3) do not fit: 3 columns on the left, 2 rows on the right
    2  3
       ^
    2  3
    ^
expected (..., m, k) @ (..., k, n); a @ b.mT would fit"""),
    "matmul, left transposed": (lambda: X @ Tensor.zeros(2, 7), ShapeError, """\
[matmul] shapes (2, 3) and (2, 7) do not fit: 3 columns on the left, 2 rows on the right
    2  3
       ^
    2  7
    ^
expected (..., m, k) @ (..., k, n); a.mT @ b would fit"""),
    "matmul, vector": (lambda: X @ Tensor.zeros(5), ShapeError, """\
[matmul] shapes (2, 3) and (5,) do not fit: 3 columns on the left, 5 rows on the right
    2  3
       5
       ^
expected (..., m, k) @ (..., k, n)"""),
    "matmul, batches": (lambda: Tensor.zeros(2, 3, 4) @ Tensor.zeros(5, 4, 3), ShapeError, """\
[matmul] shapes (2, 3, 4) and (5, 4, 3) do not broadcast at axis -3:
    2  3  4
    5  4  3
    ^
sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"""),
    "matmul, scalar": (lambda: X @ Tensor(1.0), ShapeError,
        ("[matmul] needs at least one axis on each side, got shapes (2, 3) and (); use * for "
        "scalars")),
    "cat": (lambda: X.cat(Tensor.zeros(2, 2), dim=0), ShapeError, """\
[cat] shapes (2, 3) and (2, 2) differ on another axis than 0
    2  3
    2  2
       ^
only the joined axis, dim=0, may differ; dim=1 would fit"""),
    "cat, both axes": (lambda: X.cat(Tensor.zeros(4, 2), dim=0), ShapeError, """\
[cat] shapes (2, 3) and (4, 2) differ on another axis than 0
    2  3
    4  2
       ^
only the joined axis, dim=0, may differ"""),
    "cat, ranks": (lambda: Tensor.cat(X, X, VECTOR), ShapeError, """\
[cat] tensor 2 has 1 axes, tensor 0 has 2
    2  3
    2
all need as many; use unsqueeze, or stack for a new axis"""),
    "stack": (lambda: X.stack(VECTOR), ShapeError, """\
[stack] tensor 1 has shape (2,), tensor 0 has (2, 3)
    2  3
    2
all must be the same; use cat to join along an axis that differs"""),
    "stack, one axis": (lambda: Tensor.stack(X, X, X.T), ShapeError, """\
[stack] tensor 2 has shape (3, 2), tensor 0 has (2, 3)
    2  3
    3  2
    ^  ^
all must be the same; use cat to join along an axis that differs"""),
    "expand": (lambda: X.expand(4, 3), ShapeError, """\
[expand] shape (2, 3) does not expand to (4, 3)
    2  3
    4  3
    ^
axes of size 1 can grow, and new axes come in front; use repeat to copy others"""),
    "expand, fewer axes": (lambda: X.expand(3), ShapeError, """\
[expand] shape (2, 3) does not expand to (3,)
    2  3
    ^
       3
axes of size 1 can grow, and new axes come in front; use repeat to copy others"""),
    "reshape": (lambda: X.reshape(4, 2), ShapeError,
        ("[reshape] shape (2, 3) has 6 elements, (4, 2) would have 8; (3, 2) would fit, and -1 in "
        "place of one size infers it")),
    "reshape, meant expand": (lambda: VECTOR.reshape(3, 2), ShapeError,
        ("[reshape] shape (2,) has 2 elements, (3, 2) would have 6; to repeat elements, use "
        ".expand(3, 2)")),
    "reshape, nothing near": (lambda: X.reshape(4, 4), ShapeError,
        ("[reshape] shape (2, 3) has 6 elements, (4, 4) would have 16; the product of the sizes "
        "must stay the same")),
    "reshape, -1": (lambda: X.reshape(4, -1), ShapeError,
        ("[reshape] shape (2, 3) has 6 elements, which (4, -1) cannot hold: 6 is no multiple of 4; "
        "change the sizes beside -1")),
    "reshape, two -1": (lambda: X.reshape(-1, -1), ShapeError,
        "[reshape] only one size of (-1, -1) can be -1"),
    "reshape, float": (lambda: X.reshape(1.5), ShapeError,
        "[reshape] a size is an integer, not 1.5"),
    "reshape, negative": (lambda: X.reshape(-2, 3), ShapeError,
        "[reshape] sizes must not be negative: -2"),
    "axis": (lambda: X.sum(axis=2), IndexOutOfRange,
        "[sum] axis 2 does not exist: a tensor with 2 axes takes -2 to 1"),
    "axis twice": (lambda: X.sum(axis=(0, -2)), ShapeError,
        "[sum] axes (0, -2) name the same axis twice"),
    "axis, no integer": (lambda: X.sum(axis=1.5), ShapeError,
        "[sum] an axis is an integer, not 1.5"),
    "permute": (lambda: X.permute(0, 0), ShapeError,
        ("[permute] (0, 0) is no order of the 2 axes of (2, 3): each axis stands there once")),
    "flip": (lambda: X.flip(5), IndexOutOfRange,
        "[flip] axis 5 does not exist: a tensor with 2 axes takes -2 to 1"),
    "size": (lambda: X.size(2), IndexOutOfRange,
        "[size] axis 2 does not exist: a tensor with 2 axes takes -2 to 1"),
    "size of 0-d": (lambda: Tensor(1.0).size(0), IndexOutOfRange,
        "[size] axis 0 does not exist: shape () has none"),
    "index": (lambda: X[5], IndexOutOfRange,
        "[getitem] index 5 is out of range for axis 0 of size 2: -2 to 1 are there"),
    "index list": (lambda: X[:, [0, -9]], IndexOutOfRange,
        "[getitem] index -9 is out of range for axis 1 of size 3: -3 to 2 are there"),
    "too many indices": (lambda: X[0, 0, 0], IndexOutOfRange,
        "[getitem] 3 indices for the 2 axes of (2, 3); None adds an axis"),
    "float index": (lambda: X[1.5], DTypeError,
        ("[getitem] 1.5 is no index; expected integers, slices, None, ..., or tensors, arrays and "
        "lists of integers or bools")),
    "float tensor index": (lambda: X[VECTOR], DTypeError,
        "[getitem] an index tensor is integer or bool, not float32"),
    "bool index": (lambda: X[True], DTypeError,
        "[getitem] True and False are no indices; use None or a mask tensor"),
    "two dots": (lambda: X[..., ...], ShapeError,
        "[getitem] only one ... can stand in a subscript; write : for single axes"),
    "step 0": (lambda: X[::0], ShapeError,
        "[getitem] a slice cannot have step 0; leave it out, or give 1 or more"),
    "split": (lambda: X.split([1, 1], 1), ShapeError,
        "[split] sizes (1, 1) add up to 2, axis 1 of shape (2, 3) has 3\n    2  3\n       ^"),
    "devices": (lambda: X + Tensor([1.0], device="REF"), DeviceError,
        ("[add] tensors are on different devices: float32 of shape (2, 3) on CPU and float32 of "
        "shape (1,) on REF; move one with .to('CPU')")),
    "bitwise floats": (lambda: X & X, DTypeError, "[bitwise_and] needs integers, not float32"),
    "shifted bools": (lambda: (X > 0) << 1, DTypeError, "[lshift] needs integers, not bool"),
    "bool difference": (lambda: (X > 0) - (X > 0), DTypeError,
        "[sub] bools have no difference; use ^ or logical_not()"),
    "integer does not fit": (lambda: Tensor([1], dtype=dtypes.uint8) + 300, DTypeError,
        "[add] the integer 300 does not fit uint8; cast the tensor to a wider type first"),
    "integer power": (lambda: INTS**-1, DTypeError,
        "[pow] an integer tensor to the negative power -1 is no integer; use .float() ** -1"),
    "strings": (lambda: X.add("1"), DTypeError,
        "[add] cannot compute with a str; expected a tensor, a number or a NumPy array"),
    "gradient of ints": (lambda: Tensor([1, 2], requires_grad=True), DTypeError,
        "[requires_grad] only floats have gradients, not int32"),
    "backward of ints": (lambda: INTS.sum().backward(), DTypeError,
        "[backward] only floats have gradients, not int32"),
    "backward of many": (lambda: X.backward(), ShapeError,
        ("[backward] shape (2, 3) is not one value; reduce it with .sum() or .mean(), or give "
        "gradient=")),
    "gradient's shape": (lambda: X.backward(gradient=VECTOR), ShapeError,
        "[backward] gradient has shape (2,), expected (2, 3)"),
    "unrelated gradient": (lambda: VECTOR.realize().sum().gradient(X.realize()), UserError,
        ("[gradient] targets [0] do not influence the result; give materialize_grads=True for "
        "zeros")),
    "leaf in place": (lambda: _leaf().__iadd__(1.0), UserError,
        ("[add_] a leaf of shape (2,) that requires gradients is changed in place, and its "
        "gradient would be that of the new value alone: do it under Tensor.no_grad()")),
    "item": (lambda: X.item(), ShapeError,
        "[item] shape (2, 3) holds 6 values, not one; use .tolist(), or index one element first"),
    "truth": (lambda: bool(X), ShapeError,
        ("[bool] the truth value of a tensor of shape (2, 3) is not one value; use .any() or "
        ".all(), and &, | and ~ in place of `and`, `or` and `not`")),
    "len": (lambda: len(Tensor(1.0)), ArgumentError,
        ("[len] a tensor of shape () has no axis to count or to iterate over; .item() gives its "
        "value, .reshape(1) an axis")),
    "index of floats": (lambda: [1, 2][Tensor(1.0)], DTypeError,
        "[index] a tensor of float32 is no index; convert it with .int()"),
    "in": (lambda: "a" in X, DTypeError,
        "[in] elements of a float32 tensor compare with numbers and tensors, not with a str"),
    "format": (lambda: f"{X:.2f}", ShapeError,
        "[format] '.2f' formats one number, not a tensor of shape (2, 3); use .item() or .numpy()"),
    "assign shape": (lambda: Tensor.zeros(2).assign(Tensor.zeros(3)), ShapeError,
        ("[assign] a value of shape (3,) does not fit (2,), which it would have to broadcast to; "
        "use .reshape on the value, or rebind the name: x = value")),
    "assign dtype": (lambda: Tensor([1, 2]).assign(Tensor.zeros(2)), DTypeError,
        ("[assign] a float32 value does not fit a int32 tensor without loss; cast it with "
        ".cast('int32')")),
    "in place, wider": (lambda: VECTOR.add(0).__iadd__(X.T), DTypeError,
        ("[add_] the result is float32 (3, 2), which does not fit in place of float32 (2,); write "
        "x = x ... instead")),
    "setitem, larger": (lambda: VECTOR.add(0).__setitem__(slice(0, 1), VECTOR), ShapeError,
        ("[setitem] a value of shape (2,) does not fit a part of shape (1,), which it would have "
        "to broadcast to")),
    "replace": (lambda: Tensor.zeros(2).replace(X), ShapeError,
        "[replace] shape (2, 3) does not fit (2,)"),
    "ragged list": (lambda: Tensor([[1, 2], [3]]), ShapeError,
        "[Tensor] nested lists must all have the same length"),
    "large integer": (lambda: Tensor([1 << 40]), DTypeError,
        ("[Tensor] the integer 1099511627776 does not fit int32; give a wider one, such as "
        "dtype=dtypes.int64")),
    "arange": (lambda: Tensor.arange(0, 5, 0), ShapeError,
        "[arange] a step of 0 never arrives"),
    "zeros": (lambda: Tensor.zeros(2, -1), ShapeError,
        "[zeros] sizes must not be negative: (2, -1)"),
    "seed": (lambda: Tensor.manual_seed("a"), DTypeError,
        "[manual_seed] a seed is an integer, not 'a'"),
    "rand": (lambda: Tensor.rand(2, dtype=dtypes.int32), DTypeError,
        "[rand] gives floats, not int32; see randint"),
    "gather": (lambda: X.gather(0, VECTOR), DTypeError,
        "[gather] the index is float32, not an integer"),
    "masked_fill": (lambda: X.masked_fill(INTS, 0), DTypeError,
        "[masked_fill] the mask is int32, not bool"),
    "einsum, operands": (lambda: Tensor.einsum("ij,jk->ik", X), ShapeError,
        "[einsum] 'ij,jk->ik' names 2 operands, got 1"),
    "einsum, sizes": (lambda: Tensor.einsum("ij,jk->ik", X, X), ShapeError,
        ("[einsum] 'ij,jk->ik': axis 'j' has size 3 in operand 0 and size 2 in operand 1\n"
        "    2  3\n       ^\n    2  3\n    ^\nequal letters need equal sizes, or 1")),
    "binding": (lambda: Variable("n", 1, 4).bind(9), UserError,
        "[bind] 9 lies outside 1 to 4, the bounds of n"),
    "optimiser": (lambda: nn.optim.SGD([Tensor([1], requires_grad=False)]), UserError,
        "[SGD] needs at least one tensor that requires a gradient"),
}  # fmt: skip


def _leaf():
    return Tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_message(name):
    mistake, kind, text = WHOLE[name]
    with pytest.raises(kind) as caught:
        mistake()
    message = str(caught.value)
    assert message == text
    assert message.startswith("[")


# Longer ones, and those that depend on the machine, by what must be in them.
CASES = {
    "device": (lambda: Tensor([1.0], device="TPU"), DeviceError, ["TPU", "CPU"]),
    "kernel size": (
        lambda: Tensor.zeros(1, 1, 2, 2).conv2d(Tensor.zeros(1, 1, 3, 3)),
        ShapeError,
        ["[conv2d]", "(1, 1, 2, 2)", "padding"],
    ),
    "dtype name": (lambda: X.cast("float99"), TypeError, ["float99"]),
    "object": (lambda: Tensor(object()), DTypeError, ["[Tensor]", "object"]),
    "state": (
        lambda: nn.state.load_state_dict(nn.Linear(3, 2), {"weight": X, "b": X}),
        UserError,
        ["[load_state_dict]", "missing: bias", "not in the model: b", "strict=False"],
    ),
    "state shapes": (
        lambda: nn.state.load_state_dict(nn.Linear(2, 3, bias=False), {"weight": X}),
        ShapeError,
        ["weight: model (3, 2), given (2, 3)\n    3  2\n    2  3\n    ^  ^", "leave these names"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_says_what_is_wrong(name):
    mistake, kind, words = CASES[name]
    with pytest.raises(kind) as caught:
        mistake()
    for word in words:
        assert word in str(caught.value)
