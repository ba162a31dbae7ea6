"""What generated programs are written with: the same names over Tensor, and NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle import Tensor, dtypes

erf = np.vectorize(math.erf, otypes=[np.float64])


class OfTensor:
    """Operations of treadle."""

    def relu(self, x: Any) -> Any:
        return x.relu()

    def sigmoid(self, x: Any) -> Any:
        return x.sigmoid()

    def tanh(self, x: Any) -> Any:
        return x.tanh()

    def exp(self, x: Any) -> Any:
        return x.exp()

    def erf(self, x: Any) -> Any:
        return x.erf()

    def sqrt(self, x: Any) -> Any:
        return x.sqrt()

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return condition.where(x, y)

    def sum(self, x: Any, axis: Any = None) -> Any:
        return x.sum(axis, keepdim=axis is not None)

    def mean(self, x: Any, axis: Any = None) -> Any:
        return x.mean(axis, keepdim=axis is not None)

    def max(self, x: Any, axis: int) -> Any:
        return x.max(axis, keepdim=True)

    def var(self, x: Any, axis: int) -> Any:
        return x.var(axis, keepdim=True)

    def softmax(self, x: Any) -> Any:
        return x.softmax(-1)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis)

    def take(self, x: Any, places: Any, axis: int) -> Any:
        return x.gather(axis, places)

    def cumsum(self, x: Any, axis: int) -> Any:
        return x.cumsum(axis)

    def cumprod(self, x: Any, axis: int) -> Any:
        return x.cumprod(axis)

    def recurrence(self, x: Any, factor: Any, axis: int) -> Any:
        return x.linear_recurrence(factor, axis)

    def logcumsumexp(self, x: Any, axis: int) -> Any:
        return x.logcumsumexp(axis)

    def cummax(self, x: Any, axis: int) -> Any:
        return x.cummax(axis)

    def transpose(self, x: Any, *order: int) -> Any:
        return x.permute(*order)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(*shape)

    def flip(self, x: Any, axis: int) -> Any:
        return x.flip(axis)

    def cat(self, parts: list[Any], axis: int) -> Any:
        return Tensor.cat(*parts, dim=axis)

    def repeat(self, x: Any, times: int) -> Any:
        return x.repeat(times, 1)

    def stack(self, parts: list[Any], axis: int) -> Any:
        return Tensor.stack(*parts, dim=axis)

    def pad(self, x: Any, before: int, after: int) -> Any:
        return x.pad(((0, 0),) * (x.ndim - 1) + ((before, after),))

    def contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def sort(self, x: Any) -> Any:
        return x.sort(-1)[0]

    def top(self, x: Any, count: int) -> Any:
        return x.topk(count, -1)[0]

    def rows(self, x: Any, places: Any) -> Any:
        return x[places]

    def add_rows(self, x: Any, places: Any, rows: Any) -> Any:
        wide = places.reshape(-1, 1).expand(*rows.shape)
        return x.scatter_reduce(0, wide, rows.cast(x.dtype), reduce="sum")

    def pick(self, x: Any, labels: Any) -> Any:
        return (x * labels.reshape(-1, 1).one_hot(x.shape[1]).reshape(x.shape)).sum(1)

    def conv(self, x: Any, w: Any, stride: int, padding: int, dilation: int = 1) -> Any:
        return x.conv2d(w, stride=stride, padding=padding, dilation=dilation)

    def pool(self, x: Any) -> Any:
        return x.max_pool2d(2)

    def attend(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def loss(self, x: Any, labels: Any) -> Any:
        return x.sparse_categorical_crossentropy(labels)

    def spread(self, x: Any, places: Any, values: Any) -> Any:
        return x.scatter_reduce(0, places, values.cast(x.dtype), reduce="sum")

    def on_diagonal(self, x: Any) -> Any:
        return Tensor.eye(*x.shape[-2:], device=x.device, dtype=dtypes.bool)

    def one_hot(self, labels: Any, size: int) -> Any:
        return labels.one_hot(size).float()

    def is_at(self, labels: Any, size: int) -> Any:
        return labels.reshape(-1, 1).eq(Tensor.arange(size, device=labels.device))

    def places_of(self, x: Any, axis: int) -> Any:
        return Tensor.arange(x.shape[axis], device=x.device)

    def half(self, x: Any) -> Any:
        return x.half()

    def single(self, x: Any) -> Any:
        return x.float()


class OfNumpy:
    """The same in float64."""

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def tanh(self, x: Any) -> Any:
        return np.tanh(x)

    def exp(self, x: Any) -> Any:
        return np.exp(x)

    def erf(self, x: Any) -> Any:
        return erf(x)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    def sum(self, x: Any, axis: Any = None) -> Any:
        return x.sum(axis, keepdims=axis is not None)

    def mean(self, x: Any, axis: Any = None) -> Any:
        return x.mean(axis, keepdims=axis is not None)

    def max(self, x: Any, axis: int) -> Any:
        return x.max(axis, keepdims=True)

    def var(self, x: Any, axis: int) -> Any:
        return x.var(axis, keepdims=True, ddof=1)

    def softmax(self, x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis)

    def take(self, x: Any, places: Any, axis: int) -> Any:
        return np.take_along_axis(x, places, axis)

    def cumsum(self, x: Any, axis: int) -> Any:
        return x.cumsum(axis)

    def cumprod(self, x: Any, axis: int) -> Any:
        return x.cumprod(axis)

    def recurrence(self, x: Any, factor: Any, axis: int) -> Any:
        lines, factors = np.moveaxis(x.copy(), axis, 0), np.moveaxis(factor, axis, 0)
        for step in range(1, len(lines)):
            lines[step] += factors[step] * lines[step - 1]
        return np.moveaxis(lines, 0, axis)

    def logcumsumexp(self, x: Any, axis: int) -> Any:
        return np.logaddexp.accumulate(x, axis)

    def cummax(self, x: Any, axis: int) -> Any:
        most = np.maximum.accumulate(x, axis)
        column = np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - 1 - axis))
        return most, np.maximum.accumulate(np.where(x == most, column, 0), axis)

    def transpose(self, x: Any, *order: int) -> Any:
        return x.transpose(*order)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(*shape)

    def flip(self, x: Any, axis: int) -> Any:
        return np.flip(x, axis)

    def cat(self, parts: list[Any], axis: int) -> Any:
        return np.concatenate(parts, axis)

    def repeat(self, x: Any, times: int) -> Any:
        return np.tile(x, (times, 1))

    def stack(self, parts: list[Any], axis: int) -> Any:
        return np.stack(parts, axis)

    def pad(self, x: Any, before: int, after: int) -> Any:
        return np.pad(x, ((0, 0),) * (x.ndim - 1) + ((before, after),))

    def contiguous(self, x: Any) -> Any:
        return x

    def sort(self, x: Any) -> Any:
        return np.sort(x, -1)

    def top(self, x: Any, count: int) -> Any:
        return -np.sort(-x, -1)[..., :count]

    def rows(self, x: Any, places: Any) -> Any:
        return x[places]

    def add_rows(self, x: Any, places: Any, rows: Any) -> Any:
        out = x.copy()
        np.add.at(out, places, rows)
        return out

    def pick(self, x: Any, labels: Any) -> Any:
        return x[np.arange(len(labels)), labels]

    def conv(self, x: Any, w: Any, stride: int, padding: int, dilation: int = 1) -> Any:
        x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        spans = tuple(dilation * (size - 1) + 1 for size in w.shape[2:])
        windows = np.lib.stride_tricks.sliding_window_view(x, spans, (2, 3))
        windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
        return np.einsum("nchwij,ocij->nohw", windows, w, optimize=True)

    def pool(self, x: Any) -> Any:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

    def attend(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
        return self.softmax(scores) @ v

    def loss(self, x: Any, labels: Any) -> Any:
        shifted = x - x.max(-1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        return -logs[np.arange(len(labels)), labels].mean()

    def spread(self, x: Any, places: Any, values: Any) -> Any:
        out = x.copy()
        np.add.at(out, (places, np.arange(x.shape[1])), values)
        return out

    def on_diagonal(self, x: Any) -> Any:
        return np.eye(*x.shape[-2:], dtype=bool)

    def one_hot(self, labels: Any, size: int) -> Any:
        return np.eye(size)[labels]

    def is_at(self, labels: Any, size: int) -> Any:
        return labels[:, None] == np.arange(size)

    def places_of(self, x: Any, axis: int) -> Any:
        return np.arange(x.shape[axis])

    def half(self, x: Any) -> Any:
        return x.astype(np.float16).astype(np.float64)

    def single(self, x: Any) -> Any:
        return x
