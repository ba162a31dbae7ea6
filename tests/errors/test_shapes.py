"""Shapes that do not fit an operation: shown below each other, with the axes at fault marked."""

import numpy as np
import pytest

from treadle import Tensor, Variable, dtypes, nn
from treadle.errors import DTypeError, ShapeError

X = Tensor(np.zeros((2, 3), np.float32))
IMAGES = Tensor.zeros(1, 3, 8, 8)
HEADS = Tensor.zeros(2, 4, 6, 8)

MESSAGES = {
    "conv2d, channels": (lambda: IMAGES.conv2d(Tensor.zeros(4, 2, 3, 3)), """\
[conv2d] input (1, 3, 8, 8) and weight (4, 2, 3, 3) do not fit with groups=1: the input has 3 \
channels, the weight takes 2
    1  3  8  8
    4  2  3  3
       ^
expected (N, C, *spatial) and (O, C / groups, *kernel)"""),
    "conv2d, channels last": (
        lambda: Tensor.zeros(1, 8, 8, 3).conv2d(Tensor.zeros(4, 3, 3, 3)), """\
[conv2d] input (1, 8, 8, 3) and weight (4, 3, 3, 3) do not fit with groups=1: the input has 8 \
channels, the weight takes 3
    1  8  8  3
    4  3  3  3
       ^
expected (N, C, *spatial) and (O, C / groups, *kernel); input.permute(0, 3, 1, 2) would fit"""),
    "conv2d, depthwise": (lambda: IMAGES.conv2d(Tensor.zeros(3, 1, 3, 3)), """\
[conv2d] input (1, 3, 8, 8) and weight (3, 1, 3, 3) do not fit with groups=1: the input has 3 \
channels, the weight takes 1
    1  3  8  8
    3  1  3  3
       ^
expected (N, C, *spatial) and (O, C / groups, *kernel); groups=3 would fit"""),
    "conv2d, no batch": (lambda: Tensor.zeros(3, 8, 8).conv2d(Tensor.zeros(4, 3, 3, 3)), """\
[conv2d] input (3, 8, 8) and weight (4, 3, 3, 3) do not fit with groups=1: they have 3 and 4 axes
       3  8  8
    4  3  3  3
expected (N, C, *spatial) and (O, C / groups, *kernel); input.unsqueeze(0) would fit"""),
    "conv2d, groups": (lambda: IMAGES.conv2d(Tensor.zeros(4, 1, 3, 3), groups=3), """\
[conv2d] input (1, 3, 8, 8) and weight (4, 1, 3, 3) do not fit with groups=3: 4 channels do not \
divide by it
    1  3  8  8
    4  1  3  3
    ^
expected (N, C, *spatial) and (O, C / groups, *kernel)"""),
    "conv2d, bias": (lambda: IMAGES.conv2d(Tensor.zeros(4, 3, 3, 3), Tensor.zeros(3)), (
        "[conv2d] bias (3,) does not fit the 4 channels that weight (4, 3, 3, 3) gives: expected "
        "(4,)")),
    "conv_transpose2d": (lambda: IMAGES.conv_transpose2d(Tensor.zeros(2, 4, 3, 3)), """\
[conv_transpose2d] input (1, 3, 8, 8) and weight (2, 4, 3, 3) do not fit with groups=1: the input \
has 3 channels, the weight takes 2
    1  3  8  8
       ^
    2  4  3  3
    ^
expected (N, C, *spatial) and (C, O / groups, *kernel)"""),
    "a layer": (lambda: nn.Conv1d(3, 4, 3)(Tensor.zeros(1, 2, 8)), """\
[conv2d] input (1, 2, 8) and weight (4, 3, 3) do not fit with groups=1: the input has 2 channels, \
the weight takes 3
    1  2  8
    4  3  3
       ^
expected (N, C, *spatial) and (O, C / groups, *kernel)"""),
    "stride": (lambda: IMAGES.conv2d(Tensor.zeros(4, 3, 3, 3), stride=0), (
        "[conv2d] stride=0 does not fit 2 spatial axes: expected one integer of at least 1, or one "
        "for each axis")),
    "pool": (lambda: IMAGES.max_pool2d(2, dilation=(1, 2, 3)), (
        "[max_pool2d] dilation=(1, 2, 3) does not fit 2 spatial axes: expected one integer of at "
        "least 1, or one for each axis")),
    "Linear": (lambda: nn.Linear(4, 5)(X), """\
[Linear] input (2, 3) has 3 features in its last axis, the layer takes 4
    2  3
       ^
expected (..., 4), which gives (..., 5)"""),
    "BatchNorm": (lambda: nn.BatchNorm(4)(IMAGES), """\
[BatchNorm] expected 4 channels on axis 1, got shape (1, 3, 8, 8)
    1  3  8  8
       ^"""),
    "LayerNorm": (lambda: nn.LayerNorm(4)(X), """\
[LayerNorm] the last axes must be (4,), got shape (2, 3)
    2  3
       4"""),
    "RMSNorm": (lambda: nn.RMSNorm(4)(X), """\
[RMSNorm] input (2, 3) has 3 features in its last axis, the layer takes 4
    2  3
       ^
expected (..., 4), which gives (..., 4)"""),
    "attention, widths": (
        lambda: HEADS.scaled_dot_product_attention(Tensor.zeros(2, 4, 6, 7), HEADS), """\
[scaled_dot_product_attention] query (2, 4, 6, 8), key (2, 4, 6, 7) and value (2, 4, 6, 8) do not \
fit: query and key have other widths
    2  4  6  8
    2  4  6  7
             ^
    2  4  6  8
expected (..., L, E), (..., S, E) and (..., S, Ev)"""),
    "attention, lengths": (
        lambda: HEADS.scaled_dot_product_attention(HEADS, Tensor.zeros(2, 4, 5, 8)), """\
[scaled_dot_product_attention] query (2, 4, 6, 8), key (2, 4, 6, 8) and value (2, 4, 5, 8) do not \
fit: key and value have other lengths
    2  4  6  8
    2  4  6  8
    2  4  5  8
          ^
expected (..., L, E), (..., S, E) and (..., S, Ev)"""),
    "attention, groups": (
        lambda: HEADS.scaled_dot_product_attention(*[HEADS[:, :3]] * 2, enable_gqa=True), """\
[scaled_dot_product_attention] query (2, 4, 6, 8), key (2, 3, 6, 8) and value (2, 3, 6, 8) do not \
fit: the heads of key and value must divide those of query
    2  4  6  8
    2  3  6  8
    2  3  6  8
       ^
expected (..., L, E), (..., S, E) and (..., S, Ev)"""),
    "attention, mask": (
        lambda: HEADS.scaled_dot_product_attention(HEADS, HEADS, Tensor.zeros(6, 5)), """\
[scaled_dot_product_attention] shapes (2, 4, 6, 6) and (6, 5) do not broadcast at axis -1:
    2  4  6  6
          6  5
             ^
sizes must be equal or 1, aligned from the right; use reshape or unsqueeze to line them up"""),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2)(Tensor.zeros(2, 5, 6)), """\
[MultiheadAttention] query (2, 5, 6), key (2, 5, 6), value (2, 5, 6) do not fit
    2  5  6
    2  5  6
    2  5  6
          ^
expected last axes (8, 8, 8), two or three axes each, one batch size (axis 1), and key and value \
of the same length"""),
    "cross_entropy": (lambda: X.cross_entropy(Tensor([1, 2, 0])), """\
[cross_entropy] labels of shape (3,) do not fit logits of (2, 3): expected (2,), which is without \
the classes in axis 1
    2  3
       ^
    3"""),
    "cross_entropy, probabilities": (lambda: X.cross_entropy(Tensor.zeros(2, 4)), """\
[cross_entropy] targets of shape (2, 4) do not fit predictions of (2, 3)
    2  3
    2  4
       ^
expected (2, 3), one for each"""),
    "sparse_categorical_crossentropy": (
        lambda: X.sparse_categorical_crossentropy(Tensor([[1], [2]])), """\
[sparse_categorical_crossentropy] labels of shape (2, 1) do not fit logits of (2, 3): expected \
(2,), which is without the classes in axis 1
    2  3
       ^
    2  1"""),
    "nll_loss": (lambda: X.nll_loss(Tensor([1])), """\
[nll_loss] labels of shape (1,) do not fit logits of (2, 3): expected (2,), which is without the \
classes in axis 1
    2  3
       ^
    1"""),
    "gather, axes": (lambda: X.gather(0, Tensor([1])), """\
[gather] the index has shape (1,), the tensor (2, 3): it needs as many axes, none longer apart \
from axis 0
    2  3
    1"""),
    "gather, longer": (lambda: X.gather(1, Tensor([[0]] * 4)), """\
[gather] the index has shape (4, 1), the tensor (2, 3): it needs as many axes, none longer apart \
from axis 1
    2  3
    4  1
    ^"""),
    "scatter": (lambda: X.scatter_reduce(1, Tensor([[0]] * 4), 1.0, "sum"), """\
[scatter_reduce] the index has shape (4, 1), the tensor (2, 3): it needs as many axes, none longer \
apart from axis 1
    2  3
    4  1
    ^"""),
    "scatter, source": (lambda: X.scatter(1, Tensor([[0, 1]] * 2), Tensor.zeros(2, 1)), """\
[scatter] a source of shape (2, 1) is too small for an index of (2, 2)
    2  2
    2  1
it needs as many axes, none shorter; a number will do, too"""),
    "a scalar among shapes": (lambda: Tensor.cat(X, Tensor(1.0)), """\
[cat] tensor 1 has 0 axes, tensor 0 has 2
     2  3
    ()
all need as many; use unsqueeze, or stack for a new axis"""),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_the_whole_message(name):
    mistake, text = MESSAGES[name]
    with pytest.raises(ShapeError) as caught:
        mistake()
    assert str(caught.value) == text


# -- numbers that do not fit --


@pytest.mark.parametrize("values", [[2**63, 1], [[2**63 + 1], [2**64 - 1]], [2**64 - 1, True]])
def test_large_integers_are_exact_where_uint64_is_asked_for(values):
    assert Tensor(values, dtype=dtypes.uint64).tolist() == np.array(values, object).tolist()


def test_large_integers_of_both_signs_are_exact_or_refused():
    assert Tensor([-(2**63), 2**63 - 1], dtype=dtypes.int64).tolist() == [-(2**63), 2**63 - 1]
    assert Tensor([2**64 - 1, -1], dtype=dtypes.int64).tolist() == [-1, -1]
    assert Tensor([2**80, -1], dtype=dtypes.float64).tolist() == [2.0**80, -1]
    assert Tensor([2.0**70, 1]).tolist() == [2.0**70, 1]


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: Tensor([2**63, 1]), "808 does not fit int32; give a wider one, such as dtype=dty"),
        (lambda: Tensor([2**63, 1]), "such as dtype=dtypes.uint64"),
        (lambda: Tensor([2**63, -1], dtype=dtypes.int8), "9223372036854775808 does not fit int8"),
        (lambda: Tensor([[1], [-(2**70)]], dtype=dtypes.int64), "no integer type holds it"),
        (lambda: Tensor([2**64], dtype=dtypes.uint64), "no integer type holds it"),
        (lambda: Tensor(3_000_000_000), "such as dtype=dtypes.int64"),
        (lambda: Tensor.full((2,), 3_000_000_000), "such as dtype=dtypes.int64"),
        (lambda: Tensor([10**400], dtype=dtypes.float64), "too large for float64"),
    ],
)  # fmt: skip
def test_integers_that_do_not_fit_are_refused(make, hint):
    with pytest.raises(DTypeError) as caught:
        make()
    assert hint in str(caught.value)


# -- symbolic sizes --


def test_a_tensor_of_a_symbolic_size_prints():
    x, n = Tensor([1.0, 2.0, 3.0, 4.0]).realize(), Variable("n", 0, 4).bind(2)
    part = x[:n]
    assert "lazy" in repr(part)
    assert repr(part.realize()).startswith("<Tensor [1., 2.] shape=(")
    assert repr((part * 2).realize()).startswith("<Tensor [2., 4.] shape=(")
