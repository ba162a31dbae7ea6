"""Datasets as tensors: nothing is downloaded, what is here comes with an installed package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..explained import explained
from ..tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

__all__ = ["digits"]


@explained
def digits(
    device: str | None = None, test_fraction: float = 0.2, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """1,797 handwritten digits: (train images, train labels, test images, test labels).

    Images are float32 (n, 1, 8, 8) in 0 to 1, labels int32 (n,). The split is a shuffle by `seed`.
    From scikit-learn's bundled `load_digits` (the test half of UCI's "Optical Recognition of
    Handwritten Digits"). Raises UserError where scikit-learn is not installed.
    """
    import numpy as np

    images, labels = _load()
    order = np.random.default_rng(seed).permutation(len(labels))
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)[order]
    labels = labels.astype(np.int32)[order]
    held_back = round(len(labels) * test_fraction)
    parts = (images[held_back:], labels[held_back:], images[:held_back], labels[:held_back])
    train_x, train_y, test_x, test_y = (Tensor(part, device=device) for part in parts)
    return train_x, train_y, test_x, test_y


def _load() -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UserError(
            "the digits come with scikit-learn, which is not installed; "
            'run: pip install "treadle[demo]"'
        ) from None
    images_and_labels: Any = load_digits(return_X_y=True)
    return images_and_labels
