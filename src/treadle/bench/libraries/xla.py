"""JAX: every task is one jitted function; a training step gives its old state's memory away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from ..work import Work
from .base import LEARNING_RATE, Library, Run

if TYPE_CHECKING:
    import jax
    import numpy as np

__all__ = ["Jax"]

IMAGES = ("NCHW", "OIHW", "NCHW")


Arrays: TypeAlias = "dict[str, jax.Array]"
# Weights, both moments, and the number of steps.
State: TypeAlias = "tuple[Arrays, Arrays, Arrays, jax.Array]"


class Jax(Library["jax.Array"]):
    """JAX on its default device."""

    np: ModuleType
    jax: ModuleType

    def __init__(self) -> None:
        import jax

        self.jax, self.np = jax, jax.numpy

    def tensor(self, array: np.ndarray) -> jax.Array:
        return self.np.array(array)

    # -- tasks --------------------------------------------------------------------------------

    def result(
        self, work: Work, weights: Mapping[str, jax.Array], inputs: Sequence[jax.Array]
    ) -> Run:
        function = self.jax.jit(lambda ws, *xs: work.call(self, ws, xs))
        return lambda: function(weights, *inputs)

    def finish(self, result: object) -> None:
        self.jax.block_until_ready(result)

    def gradients(
        self, work: Work, weights: Mapping[str, jax.Array], inputs: Sequence[jax.Array]
    ) -> Run:
        def gradients(*xs: jax.Array) -> list[jax.Array]:
            result, back = self.jax.vjp(lambda *ys: work.call(self, weights, ys), *xs[:-1])
            found = back(xs[-1])
            return [result, *(found[i] for i in work.wanted)]

        function = self.jax.jit(gradients)
        return lambda: self.jax.block_until_ready(function(*inputs))

    def training(
        self, work: Work, weights: Mapping[str, jax.Array], inputs: Sequence[jax.Array]
    ) -> Run:
        def training(state: State, *xs: jax.Array) -> tuple[jax.Array, State]:
            loss, slopes = self.jax.value_and_grad(lambda ws: work.call(self, ws, xs))(state[0])
            return loss, self._adam(state, slopes)

        return self._stepping(training, self._state(weights), inputs)

    def update(
        self, work: Work, weights: Mapping[str, jax.Array], inputs: Sequence[jax.Array]
    ) -> Run:
        def update(state: State, *gradients: jax.Array) -> tuple[list[jax.Array], State]:
            state = self._adam(state, dict(zip(weights, gradients, strict=True)))
            return [state[0][name] for name in weights], state

        return self._stepping(update, self._state(weights), inputs)

    def _stepping(
        self, function: Callable[..., object], state: State, inputs: Sequence[jax.Array]
    ) -> Run:
        """A Run that carries its state from call to call."""
        step = self.jax.jit(function, donate_argnums=0)

        def run() -> object:
            nonlocal state
            result, state = self.jax.block_until_ready(step(state, *inputs))
            return result

        return run

    def _state(self, weights: Mapping[str, jax.Array]) -> State:
        """Weights, both moments, and the number of steps."""
        means, squares = ({k: self.np.zeros_like(w) for k, w in weights.items()} for _ in range(2))
        return dict(weights), means, squares, self.np.zeros(())

    def _adam(self, state: State, slopes: Arrays) -> State:
        weights, means, squares, count = state
        count = count + 1

        def blend(old: Arrays, new: Arrays, keep: float) -> Arrays:
            return self.jax.tree.map(lambda a, b: keep * a + (1 - keep) * b, old, new)

        means = blend(means, slopes, 0.9)
        squares = blend(squares, self.jax.tree.map(self.np.square, slopes), 0.999)

        def moved(weight: jax.Array, mean: jax.Array, square: jax.Array) -> jax.Array:
            deviation = self.np.sqrt(square / (1 - 0.999**count)) + 1e-8
            return weight - LEARNING_RATE * mean / (1 - 0.9**count) / deviation

        return self.jax.tree.map(moved, weights, means, squares), means, squares, count

    # -- words --------------------------------------------------------------------------------

    def matmul_tf32(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return self.np.matmul(a, b, precision="tensorfloat32")

    def conv2d(
        self,
        x: jax.Array,
        w: jax.Array,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> jax.Array:
        return self.jax.lax.conv_general_dilated(
            x, w, (stride,) * 2, ((padding, padding),) * 2, rhs_dilation=(dilation,) * 2,
            dimension_numbers=IMAGES, feature_group_count=groups,
        )  # fmt: skip

    def conv2d_input_gradient(
        self, x: jax.Array, w: jax.Array, g: jax.Array, **how: int
    ) -> jax.Array:
        return self.jax.vjp(lambda y: self.conv2d(y, w, **how), x)[1](g)[0]

    def conv2d_weight_gradient(
        self, x: jax.Array, w: jax.Array, g: jax.Array, **how: int
    ) -> jax.Array:
        return self.jax.vjp(lambda y: self.conv2d(x, y, **how), w)[1](g)[0]

    def linear(self, x: jax.Array, w: jax.Array, bias: jax.Array) -> jax.Array:
        return x @ w.T if bias is None else x @ w.T + bias

    def lstm(
        self, x: jax.Array, w: jax.Array, v: jax.Array, b: jax.Array, c: jax.Array
    ) -> jax.Array:
        def step(state: State, row: jax.Array) -> jax.Array:
            gates = self.np.split(row + state[0] @ v.T, 4, 1)
            enter, forget, out = (self.jax.nn.sigmoid(gates[i]) for i in (0, 1, 3))
            cell = forget * state[1] + enter * self.np.tanh(gates[2])
            hidden = out * self.np.tanh(cell)
            return (hidden, cell), hidden

        zeros = self.np.zeros((x.shape[1], v.shape[1]), x.dtype)
        return self.jax.lax.scan(step, (zeros, zeros), x @ w.T + b + c)[1]

    def embedding(self, table: jax.Array, index: jax.Array) -> jax.Array:
        return table[index]

    def embedding_gradient(self, table: jax.Array, index: jax.Array, g: jax.Array) -> jax.Array:
        return self.np.zeros_like(table).at[index].add(g)

    def attention(
        self, q: jax.Array, k: jax.Array, v: jax.Array, causal: bool = False
    ) -> jax.Array:
        heads_last = [x.swapaxes(1, 2) for x in (q, k, v)]
        return self.jax.nn.dot_product_attention(*heads_last, is_causal=causal).swapaxes(1, 2)

    def softmax(self, x: jax.Array) -> jax.Array:
        return self.jax.nn.softmax(x, -1)

    def cross_entropy(self, scores: jax.Array, labels: jax.Array) -> jax.Array:
        logs = self.jax.nn.log_softmax(scores, -1)
        return -self.np.take_along_axis(logs, labels[:, None], 1).mean()

    def layer_norm(self, x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
        centred = x - x.mean(-1, keepdims=True)
        spread = self.jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred * spread * scale + shift

    def rms_norm(self, x: jax.Array, scale: jax.Array) -> jax.Array:
        return x * self.jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale

    def batch_norm(
        self, x: jax.Array, scale: jax.Array, shift: jax.Array, mean: jax.Array, variance: jax.Array
    ) -> jax.Array:
        if mean is None:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        factor = scale * self.jax.lax.rsqrt(variance + 1e-5)
        return x * factor[:, None, None] + (shift - mean * factor)[:, None, None]

    def relu(self, x: jax.Array) -> jax.Array:
        return self.jax.nn.relu(x)

    def gelu(self, x: jax.Array) -> jax.Array:
        return self.jax.nn.gelu(x, approximate=True)

    def silu(self, x: jax.Array) -> jax.Array:
        return self.jax.nn.silu(x)

    def dropout(self, x: jax.Array, p: float) -> jax.Array:
        # A seed that the compiler cannot know: the mask is not to be made while compiling.
        key = self.jax.random.key(x.ravel()[0].astype(int))
        return self.np.where(self.jax.random.bernoulli(key, 1 - p, x.shape), x / (1 - p), 0)

    def max_pool2d(self, x: jax.Array, size: int, stride: int, padding: int) -> jax.Array:
        window, steps, pads = (1, 1, size, size), (1, 1, stride, stride), ((padding,) * 2,) * 2
        least, largest = -self.np.inf, self.jax.lax.max
        around = ((0, 0), (0, 0), *pads)
        return self.jax.lax.reduce_window(x, least, largest, window, steps, around)

    def copy(self, x: jax.Array) -> jax.Array:
        return x.copy()

    def cast(self, x: jax.Array, dtype: str) -> jax.Array:
        return x.astype(dtype)

    def permute(self, x: jax.Array, order: Sequence[int]) -> jax.Array:
        return x.transpose(order)

    def contiguous(self, x: jax.Array) -> jax.Array:
        return x

    def concatenate(self, xs: Sequence[jax.Array], axis: int) -> jax.Array:
        return self.np.concatenate(xs, axis)

    def split(self, x: jax.Array, count: int, axis: int) -> jax.Array:
        return self.np.split(x, count, axis)

    def mean(self, x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
        return x.mean(axes)

    def gather(self, x: jax.Array, axis: int, index: jax.Array) -> jax.Array:
        return self.np.take_along_axis(x, index, axis)

    def sort(self, x: jax.Array) -> jax.Array:
        order = self.np.argsort(x, -1)
        return self.np.take_along_axis(x, order, -1), order

    def topk(self, x: jax.Array, k: int) -> jax.Array:
        return self.jax.lax.top_k(x, k)

    def scatter_add(self, x: jax.Array, axis: int, index: jax.Array, y: jax.Array) -> jax.Array:
        places = list(self.np.indices(index.shape, sparse=True))
        places[axis] = index
        return x.at[tuple(places)].add(y)
