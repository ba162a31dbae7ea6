"""Targets of (4, 1) for predictions of (4, 10) are a slip, and refused as PyTorch refuses them."""

import pytest

from treadle import Tensor
from treadle.errors import ShapeError


@pytest.mark.parametrize(
    "loss",
    ["cross_entropy", "binary_crossentropy", "binary_crossentropy_logits",
     "multilabel_soft_margin_loss"],
)  # fmt: skip
def test_3_03_targets_of_another_shape_are_refused(loss, device):
    predictions = Tensor.full((4, 10), 0.5, device=device)
    targets = Tensor([[1.0], [0.0], [1.0], [0.0]], device=device)
    with pytest.raises(ShapeError, match=r"targets of shape \(4, 1\) do not fit .* \(4, 10\)"):
        getattr(predictions, loss)(targets)
    assert getattr(predictions, loss)(targets.expand(4, 10)).item() > 0
