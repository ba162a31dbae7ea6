"""Losses as layers: `nn.CrossEntropyLoss()(logits, labels)` means `logits.cross_entropy(labels)`.

They take PyTorch's arguments; `reduction` is "mean", "sum" or "none".
"""

from __future__ import annotations

from typing import ClassVar

from ..tensor import Tensor
from .layer import Layer

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss",
    "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
]  # fmt: skip


class _Loss(Layer):
    """A loss of tensors of any shapes and dtypes: a method of the first of them."""

    method: ClassVar[str] = ""

    def __init__(self, **arguments: object) -> None:
        weights = {key: value for key, value in arguments.items() if isinstance(value, Tensor)}
        for key, value in weights.items():  # where a state dictionary finds them
            setattr(self, key, value)
        self._weights = tuple(weights)
        self._arguments = {key: arguments[key] for key in arguments if key not in weights}

    def __call__(self, input: Tensor, *target: object) -> Tensor:
        weights = {key: getattr(self, key) for key in self._weights}
        return getattr(input, self.method)(*target, **self._arguments, **weights)


class L1Loss(_Loss):
    """|x - y|, of equal shapes; dtypes promote."""

    method = "l1_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class MSELoss(_Loss):
    """(x - y)², of equal shapes; dtypes promote."""

    method = "mse_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class HuberLoss(_Loss):
    """(x - y)² / 2 up to a distance, straight beyond, of equal shapes; dtypes promote."""

    method = "huber_loss"

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction, delta=delta)


class SmoothL1Loss(_Loss):
    """(x - y)² / 2 beta up to a distance, straight beyond, of equal shapes; dtypes promote."""

    method = "smooth_l1_loss"

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction, beta=beta)


class CrossEntropyLoss(_Loss):
    """Cross entropy of logits (N, classes, ...) with labels (N, ...) or float probabilities."""

    method = "cross_entropy"

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )


class NLLLoss(_Loss):
    """-x[label] of float log-probabilities (N, classes, ...) and labels (N, ...)."""

    method = "nll_loss"

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities and targets of one shape; dtypes promote."""

    method = "binary_crossentropy"

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits and targets of one shape; dtypes promote."""

    method = "binary_crossentropy_logits"

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """y (log(y) - x), x log-probabilities, of equal shapes; dtypes promote."""

    method = "kl_div"

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction, log_target=log_target)


class PoissonNLLLoss(_Loss):
    """exp(x) - y x, of equal shapes; dtypes promote."""

    method = "poisson_nll_loss"

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(log_input=log_input, full=full, eps=eps, reduction=reduction)


class GaussianNLLLoss(_Loss):
    """Called with means, targets and variances of one shape; dtypes promote."""

    method = "gaussian_nll_loss"

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(full=full, eps=eps, reduction=reduction)


class HingeEmbeddingLoss(_Loss):
    """x where y is 1, max(0, margin - x) where it is -1, of equal shapes; dtypes promote."""

    method = "hinge_embedding_loss"

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)), y 1 or -1, of equal shapes; dtypes promote."""

    method = "soft_margin_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class MarginRankingLoss(_Loss):
    """Called with two inputs and a target of 1 or -1, of equal shapes; dtypes promote."""

    method = "margin_ranking_loss"

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class CosineEmbeddingLoss(_Loss):
    """Called with two inputs (N, d) and a target (N,) of 1 or -1; dtypes promote."""

    method = "cosine_embedding_loss"

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class MultiMarginLoss(_Loss):
    """Margins of scores (N, classes) over those of integer labels (N,)."""

    method = "multi_margin_loss"

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(p=p, margin=margin, weight=weight, reduction=reduction)


class MultiLabelMarginLoss(_Loss):
    """Margins of scores (N, classes) over those of several integer labels (N, classes)."""

    method = "multilabel_margin_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """Binary cross entropy over the classes of logits (N, classes); dtypes promote."""

    method = "multilabel_soft_margin_loss"

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class TripletMarginLoss(_Loss):
    """Called with anchors, positives and negatives (N, d); dtypes promote."""

    method = "triplet_margin_loss"

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin=margin, p=p, eps=eps, swap=swap, reduction=reduction)


class CTCLoss(_Loss):
    """Called with float log-probabilities (T, N, classes), labels (N, S) and both lengths (N,)."""

    method = "ctc_loss"

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(blank=blank, reduction=reduction, zero_infinity=zero_infinity)
