"""JAX: every task is one jitted function; a training step gives its old state's memory away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ..work import Work
from .base import LEARNING_RATE, Library, Run

__all__ = ["Jax"]

IMAGES = ("NCHW", "OIHW", "NCHW")


class Jax(Library):
    """JAX on its default device."""

    np: Any
    jax: ModuleType

    def __init__(self) -> None:
        import jax

        self.jax, self.np = jax, jax.numpy

    def tensor(self, array: Any) -> Any:
        return self.np.array(array)

    # -- tasks --------------------------------------------------------------------------------

    def result(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        function = self.jax.jit(lambda ws, *xs: work.call(self, ws, xs))
        return lambda: function(weights, *inputs)

    def finish(self, result: Any) -> None:
        self.jax.block_until_ready(result)

    def gradients(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        def gradients(*xs: Any) -> Any:
            result, back = self.jax.vjp(lambda *ys: work.call(self, weights, ys), *xs[:-1])
            found = back(xs[-1])
            return [result, *(found[i] for i in work.wanted)]

        function = self.jax.jit(gradients)
        return lambda: self.jax.block_until_ready(function(*inputs))

    def training(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        def training(state: Any, *xs: Any) -> Any:
            loss, slopes = self.jax.value_and_grad(lambda ws: work.call(self, ws, xs))(state[0])
            return loss, self._adam(state, slopes)

        return self._stepping(training, self._state(weights), inputs)

    def update(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        def update(state: Any, *gradients: Any) -> Any:
            state = self._adam(state, dict(zip(weights, gradients, strict=True)))
            return [state[0][name] for name in weights], state

        return self._stepping(update, self._state(weights), inputs)

    def _stepping(self, function: Any, state: Any, inputs: Sequence[Any]) -> Run:
        """A Run that carries its state from call to call."""
        step = self.jax.jit(function, donate_argnums=0)

        def run() -> Any:
            nonlocal state
            result, state = self.jax.block_until_ready(step(state, *inputs))
            return result

        return run

    def _state(self, weights: Mapping[str, Any]) -> Any:
        """Weights, both moments, and the number of steps."""
        zeros = [{k: self.np.zeros_like(w) for k, w in weights.items()} for _ in range(2)]
        return dict(weights), *zeros, self.np.zeros(())

    def _adam(self, state: Any, slopes: Any) -> Any:
        weights, means, squares, count = state
        count = count + 1

        def blend(old: Any, new: Any, keep: float) -> Any:
            return self.jax.tree.map(lambda a, b: keep * a + (1 - keep) * b, old, new)

        means = blend(means, slopes, 0.9)
        squares = blend(squares, self.jax.tree.map(self.np.square, slopes), 0.999)

        def moved(weight: Any, mean: Any, square: Any) -> Any:
            deviation = self.np.sqrt(square / (1 - 0.999**count)) + 1e-8
            return weight - LEARNING_RATE * mean / (1 - 0.9**count) / deviation

        return self.jax.tree.map(moved, weights, means, squares), means, squares, count

    # -- words --------------------------------------------------------------------------------

    def matmul_tf32(self, a: Any, b: Any) -> Any:
        return self.np.matmul(a, b, precision="tensorfloat32")

    def conv2d(
        self, x: Any, w: Any, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
    ) -> Any:
        return self.jax.lax.conv_general_dilated(
            x, w, (stride,) * 2, ((padding, padding),) * 2, rhs_dilation=(dilation,) * 2,
            dimension_numbers=IMAGES, feature_group_count=groups,
        )  # fmt: skip

    def conv2d_input_gradient(self, x: Any, w: Any, g: Any, **how: int) -> Any:
        return self.jax.vjp(lambda y: self.conv2d(y, w, **how), x)[1](g)[0]

    def conv2d_weight_gradient(self, x: Any, w: Any, g: Any, **how: int) -> Any:
        return self.jax.vjp(lambda y: self.conv2d(x, y, **how), w)[1](g)[0]

    def linear(self, x: Any, w: Any, bias: Any) -> Any:
        return x @ w.T if bias is None else x @ w.T + bias

    def lstm(self, x: Any, w: Any, v: Any, b: Any, c: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            gates = self.np.split(row + state[0] @ v.T, 4, 1)
            enter, forget, out = (self.jax.nn.sigmoid(gates[i]) for i in (0, 1, 3))
            cell = forget * state[1] + enter * self.np.tanh(gates[2])
            hidden = out * self.np.tanh(cell)
            return (hidden, cell), hidden

        zeros = self.np.zeros((x.shape[1], v.shape[1]), x.dtype)
        return self.jax.lax.scan(step, (zeros, zeros), x @ w.T + b + c)[1]

    def embedding(self, table: Any, index: Any) -> Any:
        return table[index]

    def embedding_gradient(self, table: Any, index: Any, g: Any) -> Any:
        return self.np.zeros_like(table).at[index].add(g)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        heads_last = [x.swapaxes(1, 2) for x in (q, k, v)]
        return self.jax.nn.dot_product_attention(*heads_last, is_causal=causal).swapaxes(1, 2)

    def softmax(self, x: Any) -> Any:
        return self.jax.nn.softmax(x, -1)

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        logs = self.jax.nn.log_softmax(scores, -1)
        return -self.np.take_along_axis(logs, labels[:, None], 1).mean()

    def layer_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        spread = self.jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred * spread * scale + shift

    def rms_norm(self, x: Any, scale: Any) -> Any:
        return x * self.jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale

    def batch_norm(self, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        if mean is None:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        factor = scale * self.jax.lax.rsqrt(variance + 1e-5)
        return x * factor[:, None, None] + (shift - mean * factor)[:, None, None]

    def relu(self, x: Any) -> Any:
        return self.jax.nn.relu(x)

    def gelu(self, x: Any) -> Any:
        return self.jax.nn.gelu(x, approximate=True)

    def silu(self, x: Any) -> Any:
        return self.jax.nn.silu(x)

    def dropout(self, x: Any, p: float) -> Any:
        # A seed that the compiler cannot know: the mask is not to be made while compiling.
        key = self.jax.random.key(x.ravel()[0].astype(int))
        return self.np.where(self.jax.random.bernoulli(key, 1 - p, x.shape), x / (1 - p), 0)

    def max_pool2d(self, x: Any, size: int, stride: int, padding: int) -> Any:
        window, steps, pads = (1, 1, size, size), (1, 1, stride, stride), ((padding,) * 2,) * 2
        least, largest = -self.np.inf, self.jax.lax.max
        around = ((0, 0), (0, 0), *pads)
        return self.jax.lax.reduce_window(x, least, largest, window, steps, around)

    def copy(self, x: Any) -> Any:
        return x.copy()

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    def permute(self, x: Any, order: Sequence[int]) -> Any:
        return x.transpose(order)

    def contiguous(self, x: Any) -> Any:
        return x

    def concatenate(self, xs: Sequence[Any], axis: int) -> Any:
        return self.np.concatenate(xs, axis)

    def split(self, x: Any, count: int, axis: int) -> Any:
        return self.np.split(x, count, axis)

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes)

    def gather(self, x: Any, axis: int, index: Any) -> Any:
        return self.np.take_along_axis(x, index, axis)

    def sort(self, x: Any) -> Any:
        order = self.np.argsort(x, -1)
        return self.np.take_along_axis(x, order, -1), order

    def topk(self, x: Any, k: int) -> Any:
        return self.jax.lax.top_k(x, k)

    def scatter_add(self, x: Any, axis: int, index: Any, y: Any) -> Any:
        places = list(self.np.indices(index.shape, sparse=True))
        places[axis] = index
        return x.at[tuple(places)].add(y)
