"""The rows of `torch.nn.functional`: layers, activations, losses, convolution and pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor, nn

__all__ = ["LAYERS"]

# what treadle has under the same name, with the same arguments
SAME = """
celu channel_shuffle cosine_embedding_loss cosine_similarity elu gaussian_nll_loss gelu glu
hardshrink hardsigmoid hardswish hardtanh hinge_embedding_loss huber_loss kl_div l1_loss leaky_relu
local_response_norm logsigmoid margin_ranking_loss mish mse_loss normalize pixel_shuffle
pixel_unshuffle poisson_nll_loss prelu relu relu6 selu silu smooth_l1_loss soft_margin_loss
softshrink softsign tanhshrink threshold triplet_margin_loss
"""


def function(name: str) -> Callable[..., Any]:
    def row(x: Tensor, *args: Any, inplace: bool = False, **options: Any) -> Tensor:
        return getattr(x, name)(*args, **options)

    return row


def each(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each spatial axis; one alone is for all."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


def same_padding(kernel: Any, dilation: Any) -> list[int]:
    """What keeps the sizes, as (left, right, top, bottom, ...)."""
    flat = []
    for size, gap in reversed(list(zip(kernel, each(dilation, len(kernel)), strict=True))):
        total = gap * (size - 1)
        flat += [total // 2, total - total // 2]
    return flat


def convolution(x: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
                dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    rank = weight.ndim - 2
    if isinstance(padding, str):
        padding = {"valid": 0, "same": same_padding(weight.shape[2:], dilation)}[padding]
    stride, dilation = each(stride, rank), each(dilation, rank)
    padding = padding if isinstance(padding, list) else each(padding, rank)
    batched = x if x.ndim == weight.ndim else x.unsqueeze(0)
    result = batched.conv2d(weight, bias, groups, stride, dilation, padding)
    return result if x.ndim == weight.ndim else result.squeeze(0)


def transposed(x: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
               output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Tensor:  # fmt: skip
    rank = weight.ndim - 2
    numbers = [each(n, rank) for n in (stride, dilation, padding, output_padding)]
    batched = x if x.ndim == weight.ndim else x.unsqueeze(0)
    result = batched.conv_transpose2d(weight, bias, groups, *numbers)
    return result if x.ndim == weight.ndim else result.squeeze(0)


def max_pool(rank: int) -> Callable[..., Any]:
    def row(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
            ceil_mode: bool = False, return_indices: bool = False) -> Any:  # fmt: skip
        kernel = each(kernel_size, rank)
        steps = kernel if stride in (None, [], ()) else each(stride, rank)
        return x.max_pool2d(kernel, steps, each(dilation, rank), each(padding, rank), ceil_mode,
                            return_indices)  # fmt: skip

    return row


def avg_pool(rank: int) -> Callable[..., Any]:
    def row(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
            ceil_mode: bool = False, count_include_pad: bool = True,
            divisor_override: Any = None) -> Tensor:  # fmt: skip
        kernel = each(kernel_size, rank)
        steps = kernel if stride in (None, [], ()) else each(stride, rank)
        return x.avg_pool2d(kernel, steps, 1, each(padding, rank), ceil_mode, count_include_pad,
                            divisor_override)  # fmt: skip

    return row


def max_unpool(rank: int) -> Callable[..., Any]:
    def row(x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
            output_size: Any = None) -> Tensor:  # fmt: skip
        kernel = each(kernel_size, rank)
        steps = kernel if stride in (None, [], ()) else each(stride, rank)
        return x.max_unpool2d(indices, kernel, steps, 1, each(padding, rank), output_size)

    return row


def adaptive(name: str, rank: int) -> Callable[..., Any]:
    def row(x: Tensor, output_size: Any, *args: Any, **options: Any) -> Any:
        sizes = [x.shape[i - rank] if n is None else n
                 for i, n in enumerate(each(output_size, rank))]  # fmt: skip
        return getattr(x, f"adaptive_{name}_pool2d")(tuple(sizes), *args, **options)

    return row


def interpolate(x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Any = None,
                recompute_scale_factor: Any = None) -> Tensor:  # fmt: skip
    mode = "linear" if mode in ("bilinear", "trilinear") else mode
    return x.interpolate(size, mode, bool(align_corners), scale_factor, recompute_scale_factor)


def group_norm(x: Tensor, groups: int, weight: Any = None, bias: Any = None,
               eps: float = 1e-5) -> Tensor:  # fmt: skip
    layer = nn.GroupNorm(groups, x.shape[1], eps, affine=False)
    return scaled(layer(x), weight, bias)


def instance_norm(x: Tensor, running_mean: Any = None, running_var: Any = None, weight: Any = None,
                  bias: Any = None, use_input_stats: bool = True, momentum: float = 0.1,
                  eps: float = 1e-5) -> Tensor:  # fmt: skip
    layer = nn.InstanceNorm(x.shape[1], eps, affine=False)
    return scaled(layer(x), weight, bias)


def batch_norm(x: Tensor, mean: Any, var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1,
               eps: float = 1e-5) -> Tensor:  # fmt: skip
    layer = nn.BatchNorm(x.shape[1], eps, affine=False, track_running_stats=not training)
    if not training:
        layer.running_mean, layer.running_var = mean, var
    return scaled(layer(x), weight, bias)


def scaled(x: Tensor, weight: Any, bias: Any) -> Tensor:
    """Each channel (axis 1) by its weight, plus its bias."""
    column = (1, -1, *[1] * (x.ndim - 2))
    x = x if weight is None else x * weight.reshape(column)
    return x if bias is None else x + bias.reshape(column)


def layer_norm(
    x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    x = x.layernorm(tuple(range(-len(shape), 0)), eps)
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def embedding(weight: Tensor, index: Tensor, padding_idx: Any = None) -> Tensor:
    return weight[index]


def nll_loss(x: Tensor, target: Tensor, weight: Any = None, ignore_index: int = -100,
             reduction: str = "mean") -> Tensor:  # fmt: skip
    batched = x if x.ndim > 1 else x.unsqueeze(0)
    labels = target if x.ndim > 1 else target.unsqueeze(0)
    loss = batched.nll_loss(labels, weight, ignore_index, reduction)
    return loss if x.ndim > 1 or reduction != "none" else loss.squeeze(0)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    with Tensor.train(training):
        return x.dropout(p)


def embedding_bag(weight: Tensor, index: Tensor, offsets: Any = None, max_norm: Any = None,
                  norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
                  sparse: bool = False, **options: Any) -> Tensor:  # fmt: skip
    return index.embedding_bag(weight, offsets, mode, **options)


def grid_sampler(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    """PyTorch's numbers of modes."""
    named = ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding]
    return x.grid_sample(grid, *named, align_corners)


def ctc_loss(x: Tensor, targets: Tensor, lengths: Any, sizes: Any, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> Tensor:  # fmt: skip
    return x.ctc_loss(targets, lengths, sizes, blank, reduction, zero_infinity)


def triplet(x: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None,
            **options: Any) -> Tensor:  # fmt: skip
    """The distance of the samples is the default, for PyTorch's tensors."""
    return x.triplet_margin_with_distance_loss(positive, negative, **options)


def multilabel_margin_loss(x: Tensor, target: Tensor, **options: Any) -> Tensor:
    """PyTorch takes a score alone for a vector of one."""
    return x.atleast_1d().multilabel_margin_loss(target.atleast_1d(), **options)


def resized(mode: str) -> Callable[..., Any]:
    """PyTorch's older names: bilinear ones have their corners on each other."""

    def row(x: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
        return x.interpolate(size, mode, mode == "linear", scale_factor)

    return row


LAYERS: dict[str, Callable[..., Any]] = {
    **{f"nn.functional.{name}": function(name) for name in SAME.split()},
    "nn.functional.softmin": lambda x, dim, dtype=None: x.softmin(dim, dtype),
    "nn.functional.softplus": lambda x, beta=1, threshold=20: x.softplus(beta, threshold),
    "nn.functional.linear": lambda x, weight, bias=None: (
        x.linear(weight.transpose(-1, -2), bias)
        if weight.ndim > 1
        else x.dot(weight)
        if bias is None
        else x.dot(weight) + bias
    ),
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.group_norm": group_norm,
    "nn.functional.instance_norm": instance_norm,
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.embedding": embedding,
    "nn.functional.one_hot": lambda x, num_classes=-1: x.one_hot(num_classes),
    "nn.functional.scaled_dot_product_attention": lambda q, k, v, **options: (
        q.scaled_dot_product_attention(k, v, **options)
    ),
    "nn.functional.dropout": dropout,
    "nn.functional.rms_norm": lambda x, shape, weight=None, eps=None: x.rms_norm(
        shape, weight, eps
    ),
    "nn.functional.bilinear": lambda x, y, weight, bias=None: x.bilinear(y, weight, bias),
    "nn.functional.embedding_bag": embedding_bag,
    "nn.functional.unfold": lambda x, kernel_size, dilation=1, padding=0, stride=1: x.im2col(
        kernel_size, dilation, padding, stride
    ),
    "nn.functional.grid_sample": function("grid_sample"),
    "grid_sampler_2d": grid_sampler,
    "grid_sampler_3d": grid_sampler,
    "nn.functional.upsample_nearest": resized("nearest"),
    "nn.functional.upsample_bilinear": resized("linear"),
    # convolution and pooling, over any number of spatial axes
    **{f"nn.functional.conv{n}d": convolution for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": transposed for n in (1, 2, 3)},
    **{f"nn.functional.max_pool{n}d": max_pool(n) for n in (1, 2, 3)},
    **{f"nn.functional.avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
    **{f"nn.functional.max_unpool{n}d": max_unpool(n) for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_avg_pool{n}d": adaptive("avg", n) for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_max_pool{n}d": adaptive("max", n) for n in (1, 2, 3)},
    "nn.functional.interpolate": interpolate,
    # losses
    "nn.functional.nll_loss": nll_loss,
    "nn.functional.multi_margin_loss": lambda x, target, **options: (
        x.atleast_1d().multi_margin_loss(target, **options)
    ),
    "nn.functional.multilabel_margin_loss": multilabel_margin_loss,
    "nn.functional.multilabel_soft_margin_loss": function("multilabel_soft_margin_loss"),
    "nn.functional.triplet_margin_with_distance_loss": triplet,
    "nn.functional.ctc_loss": ctc_loss,
    "nn.functional.cross_entropy": lambda x, target, **options: x.cross_entropy(target, **options),
    "nn.functional.binary_cross_entropy": lambda x, target, **options: x.binary_crossentropy(
        target, **options
    ),
    "nn.functional.binary_cross_entropy_with_logits": lambda x, target, **options: (
        x.binary_crossentropy_logits(target, **options)
    ),
}
