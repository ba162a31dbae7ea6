"""Recurrent layers: one time step of an LSTM or a GRU, and whole sequences of them.

    LSTMCell(3, 4)(x, (h, c))          # (batch, 3) -> two of (batch, 4)
    LSTM(3, 4, num_layers=2)(x)        # (time, batch, 3) -> (time, batch, 4), (h, c)

Parameters have PyTorch's names, shapes and order of gates. A sequence is a loop in Python over its
steps, and one graph: the products with the input are one matmul for all of the steps.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ShapeError
from ..explained import explained
from ..tensor import Tensor
from ..tensor.checks import check_width
from ..tensor.shapes import broadcast_shapes
from .init import check_sizes, fan_in_uniform

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell"]


@explained
class _Cell:
    """One step: two matrices, of whose products with input and state `advance` makes a state."""

    gates: ClassVar[int]
    states: ClassVar[int]
    hidden_size: int
    weight_ih: Tensor  # (gates * hidden_size, input_size)
    weight_hh: Tensor  # (gates * hidden_size, hidden_size)
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        check_sizes(self, input_size=input_size, hidden_size=hidden_size)
        rows = self.gates * hidden_size
        self.hidden_size = hidden_size
        self.weight_ih = fan_in_uniform(rows, input_size, fan_in=hidden_size)
        self.weight_hh = fan_in_uniform(rows, hidden_size, fan_in=hidden_size)
        self.bias_ih = Tensor.zeros(rows) if bias else None
        self.bias_hh = Tensor.zeros(rows) if bias else None

    @classmethod
    def zero_state(cls, x: Tensor, hidden_size: int) -> tuple[Tensor, ...]:
        """The state before the first step on `x` (.., batch, size)."""
        zeros = Tensor.zeros(x.shape[-2], hidden_size, dtype=x.dtype, device=x.device)
        return (zeros,) * cls.states

    def _next(self, x: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        name, size = type(self).__name__, self.hidden_size
        check_width(name, x.shape, self.weight_ih.shape[-1], size)
        if state is None:
            state = self.zero_state(x, size)
        for part in state:
            check_width(f"{name}, state", part.shape, size, size)
            broadcast_shapes(name, x.shape, part.shape, apart=1)
        from_input = x.linear(self.weight_ih.T, self.bias_ih)
        return self.advance(from_input, state[0].linear(self.weight_hh.T, self.bias_hh), state)

    @staticmethod
    def advance(from_input: Tensor, from_hidden: Tensor, state: tuple[Tensor, ...]) -> Any:
        """The next state, of all gates' products."""
        raise NotImplementedError


@explained
class LSTMCell(_Cell):
    """One step of a long short-term memory: x (batch, input_size) and (h, c) to the next (h, c).

    h and c are (batch, hidden_size); without them the cell starts from zeros. Gates are stacked
    as input, forget, cell, output.
    """

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    @staticmethod
    def advance(from_input: Tensor, from_hidden: Tensor, state: tuple[Tensor, ...]) -> Any:
        """The next (h, c)."""
        enter, forget, candidate, out = (from_input + from_hidden).chunk(4, dim=1)
        cell = forget.sigmoid() * state[1] + enter.sigmoid() * candidate.tanh()
        return (out.sigmoid() * cell.tanh()).contiguous(), cell.contiguous()

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        hidden, cell = self._next(x, hc)
        return hidden, cell


@explained
class GRUCell(_Cell):
    """One step of a gated recurrent unit: x (batch, input_size) and h to the next h.

    h is (batch, hidden_size); without it the cell starts from zeros. Gates are stacked as reset,
    update, new.
    """

    gates: ClassVar[int] = 3
    states: ClassVar[int] = 1

    @staticmethod
    def advance(from_input: Tensor, from_hidden: Tensor, state: tuple[Tensor, ...]) -> Any:
        """The next (h,)."""
        reset_x, update_x, new_x = from_input.chunk(3, dim=1)
        reset_h, update_h, new_h = from_hidden.chunk(3, dim=1)
        update = (update_x + update_h).sigmoid()
        new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
        return (((1 - update) * new + update * state[0]).contiguous(),)

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        return self._next(x, None if h is None else (h,))[0]


@explained
class _Recurrent:
    """Layers of cells over a sequence, each one or, `bidirectional`, one for each direction."""

    cell: ClassVar[type[_Cell]]
    input_size: int
    hidden_size: int
    num_layers: int
    batch_first: bool
    dropout: float
    bidirectional: bool

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        check_sizes(self, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        self._suffixes = [
            f"_l{layer}{way}"
            for layer in range(num_layers)
            for way in (("", "_reverse") if bidirectional else ("",))
        ]
        ways = 1 + bidirectional
        for index, suffix in enumerate(self._suffixes):
            size = input_size if index < ways else ways * hidden_size
            cell = self.cell(size, hidden_size, bias)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                setattr(self, name + suffix, getattr(cell, name))

    def _run(
        self, x: Tensor, initial: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The last layer's states (time, batch, ways * hidden), and every last state."""
        if x.ndim != 3 or x.shape[-1] != self.input_size:
            order = "(batch, time" if self.batch_first else "(time, batch"
            raise ShapeError(
                f"[{type(self).__name__}] expected an input {order}, {self.input_size}), "
                f"got shape {x.shape}"
            )
        sequence = x.transpose(0, 1) if self.batch_first else x
        ways, ends = 1 + self.bidirectional, []
        for layer in range(self.num_layers):
            if layer:
                sequence = sequence.dropout(self.dropout)
            outputs = []
            for index in range(layer * ways, (layer + 1) * ways):
                state = None if initial is None else tuple(part[index] for part in initial)
                steps, end = self._pass(sequence, index, state)
                outputs.append(steps)
                ends.append(end)
            sequence = outputs[0].cat(*outputs[1:], dim=-1)
        result = sequence.transpose(0, 1) if self.batch_first else sequence
        return result, tuple(first.stack(*rest) for first, *rest in zip(*ends, strict=True))

    def _pass(
        self, sequence: Tensor, index: int, state: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One direction of one layer over (time, batch, size)."""
        suffix = self._suffixes[index]
        weight_ih, weight_hh, bias_ih, bias_hh = (
            getattr(self, name + suffix)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        now = self.cell.zero_state(sequence, self.hidden_size) if state is None else state
        time = sequence.shape[0]
        projected = sequence.linear(weight_ih.T, bias_ih).contiguous()
        order = range(time - 1, -1, -1) if suffix.endswith("_reverse") else range(time)
        hidden: dict[int, Tensor] = {}
        for step in order:
            now = self.cell.advance(projected[step], now[0].linear(weight_hh.T, bias_hh), now)
            hidden[step] = now[0]
        first, *rest = (hidden[step] for step in range(time))
        return first.stack(*rest), now


@explained
class LSTM(_Recurrent):
    """Long short-term memories over a sequence (time, batch, input_size), or `batch_first`.

    Gives (outputs, (h, c)): outputs (time, batch, ways * hidden_size) of the last layer, h and c
    (num_layers * ways, batch, hidden_size) after the last step, where ways is 2 if `bidirectional`.
    `dropout` is between layers, while training. Raises ShapeError.
    """

    cell: ClassVar[type[_Cell]] = LSTMCell

    def __call__(
        self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, (hidden, cell) = self._run(x, hc)
        return outputs, (hidden, cell)


@explained
class GRU(_Recurrent):
    """Gated recurrent units over a sequence: as `LSTM`, but the state is h alone."""

    cell: ClassVar[type[_Cell]] = GRUCell

    def __call__(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (hidden,) = self._run(x, None if h is None else (h,))
        return outputs, hidden
