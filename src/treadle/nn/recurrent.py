"""Recurrent layers: one time step of an RNN, an LSTM or a GRU, and whole sequences of them.

    LSTMCell(3, 4)(x, (h, c))          # (batch, 3) -> two of (batch, 4)
    LSTM(3, 4, num_layers=2)(x)        # (time, batch, 3) -> (time, batch, 4), (h, c)

Parameters have PyTorch's names, shapes and order of gates. A sequence is a loop (`func.scan`): one
step is scheduled and compiled, however many there are, and products with the input are one matmul
for all of them. Padding behind short sequences, which PyTorch packs away, is named by `lengths`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from ..errors import ShapeError, UserError
from ..func import scan
from ..tensor import Tensor
from ..tensor.checks import check_width
from ..tensor.shapes import broadcast_shapes
from .init import check_sizes, fan_in_uniform
from .layer import Layer

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

Nonlinearity = Literal["tanh", "relu"]
State = tuple[Tensor, ...]
Lengths = Tensor | Sequence[int]

_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class _Gates(Layer):
    """How a state follows from the products of input and state with the matrices of all gates."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    hidden_size: int

    def advance(self, from_input: Tensor, from_hidden: Tensor, state: State) -> State:
        """The next state."""
        raise NotImplementedError

    def _new_parameters(self, input_size: int, bias: bool) -> list[Tensor | None]:
        size, rows = self.hidden_size, self.gates * self.hidden_size
        widths = ((input_size,), (size,), (), ())
        wanted = (True, True, bias, bias)
        return [
            fan_in_uniform(rows, *width, fan_in=size) if is_there else None
            for width, is_there in zip(widths, wanted, strict=True)
        ]

    def _step(self, x: Tensor, state: State, parameters: Sequence[Any]) -> State:
        """The next state, for x (batch, input_size)."""
        weight_ih, weight_hh, bias_ih, bias_hh = parameters
        from_hidden = state[0].linear(weight_hh.T, bias_hh)
        return self.advance(x.linear(weight_ih.T, bias_ih), from_hidden, state)

    def _zeros(self, x: Tensor) -> State:
        """The state before the first step on `x` (.., batch, size)."""
        zeros = Tensor.zeros(x.shape[-2], self.hidden_size, dtype=x.dtype, device=x.device)
        return (zeros,) * self.states


class _Elman(_Gates):
    gates: ClassVar[int] = 1
    nonlinearity: Nonlinearity

    def _set_nonlinearity(self, value: Nonlinearity) -> None:
        if value not in ("tanh", "relu"):
            name = type(self).__name__
            raise UserError(f'[{name}] nonlinearity is "tanh" or "relu", not {value!r}')
        self.nonlinearity = value

    def advance(self, from_input: Tensor, from_hidden: Tensor, state: State) -> State:
        """The next (h,), (batch, hidden_size), from the sums of one step; dtypes promote."""
        total = from_input + from_hidden
        return (total.tanh() if self.nonlinearity == "tanh" else total.relu(),)


class _LongShortTerm(_Gates):
    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    def advance(self, from_input: Tensor, from_hidden: Tensor, state: State) -> State:
        """The next (h, c), both (batch, hidden_size), from the sums of one step; dtypes promote."""
        enter, forget, candidate, out = (from_input + from_hidden).chunk(4, dim=1)
        cell = forget.sigmoid() * state[1] + enter.sigmoid() * candidate.tanh()
        return out.sigmoid() * cell.tanh(), cell


class _Gated(_Gates):
    gates: ClassVar[int] = 3

    def advance(self, from_input: Tensor, from_hidden: Tensor, state: State) -> State:
        """The next (h,), (batch, hidden_size), from the sums of one step; dtypes promote."""
        reset_x, update_x, new_x = from_input.chunk(3, dim=1)
        reset_h, update_h, new_h = from_hidden.chunk(3, dim=1)
        update = (update_x + update_h).sigmoid()
        new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
        return ((1 - update) * new + update * state[0],)


class _Cell(_Gates):
    """One step, by two matrices and two biases."""

    weight_ih: Tensor  # (gates * hidden_size, input_size)
    weight_hh: Tensor  # (gates * hidden_size, hidden_size)
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        check_sizes(self, input_size=input_size, hidden_size=hidden_size)
        self.hidden_size = hidden_size
        for name, value in zip(_PARAMETERS, self._new_parameters(input_size, bias), strict=True):
            setattr(self, name, value)

    def _next(self, x: Tensor, state: State | None) -> State:
        name, size = type(self).__name__, self.hidden_size
        check_width(name, x.shape, self.weight_ih.shape[-1], size)
        if x.ndim == 1:
            alone = None if state is None else tuple(part.unsqueeze(0) for part in state)
            return tuple(part.squeeze(0) for part in self._next(x.unsqueeze(0), alone))
        if state is None:
            state = self._zeros(x)
        for part in state:
            check_width(f"{name}, state", part.shape, size, size)
            broadcast_shapes(name, x.shape, part.shape, apart=1)
        parameters = [getattr(self, name) for name in _PARAMETERS]
        return tuple(part.contiguous() for part in self._step(x, state, parameters))


class RNNCell(_Elman, _Cell):
    """One step of an Elman network: x (batch, input_size) and h to the next h.

    h is (batch, hidden_size); without it the cell starts from zeros. `nonlinearity` is "tanh" or
    "relu". Both may be without the batch's axis. Parameters are float32; dtypes promote. Raises
    ShapeError, UserError.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True,
        nonlinearity: Nonlinearity = "tanh",
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias)
        self._set_nonlinearity(nonlinearity)

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        return self._next(x, None if h is None else (h,))[0]


class LSTMCell(_LongShortTerm, _Cell):
    """One step of a long short-term memory: x (batch, input_size) and (h, c) to the next (h, c).

    h and c are (batch, hidden_size); without them the cell starts from zeros. Gates are stacked as
    input, forget, cell, output. All may be without the batch's axis. Parameters are float32; dtypes
    promote. Raises ShapeError.
    """

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        hidden, cell = self._next(x, hc)
        return hidden, cell


class GRUCell(_Gated, _Cell):
    """One step of a gated recurrent unit: x (batch, input_size) and h to the next h.

    h is (batch, hidden_size); without it the cell starts from zeros. Gates are stacked as reset,
    update, new. Both may be without the batch's axis. Parameters are float32; dtypes promote.
    Raises ShapeError.
    """

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        return self._next(x, None if h is None else (h,))[0]


class _Recurrent(_Gates):
    """Layers of steps over a sequence, each one or, `bidirectional`, one for each direction."""

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
        for layer in range(num_layers):
            size = (1 + bidirectional) * hidden_size if layer else input_size
            for suffix in self._suffixes(layer):
                made = self._new_parameters(size, bias)
                for name, value in zip(_PARAMETERS, made, strict=True):
                    setattr(self, name + suffix, value)

    def _suffixes(self, layer: int) -> list[str]:
        """The names of a layer's directions."""
        return [f"_l{layer}", f"_l{layer}_reverse"][: 1 + self.bidirectional]

    def _run(
        self, x: Tensor, initial: State | None, lengths: Lengths | None
    ) -> tuple[Tensor, State]:
        """The last layer's states (time, batch, ways * hidden), and every last state."""
        self._check_input(x)
        if x.ndim == 2:
            if lengths is not None:
                raise ShapeError(f"[{type(self).__name__}] lengths are of a batch; got {x.shape}")
            many = None if initial is None else tuple(part.unsqueeze(1) for part in initial)
            axis = 0 if self.batch_first else 1
            result, state = self._run(x.unsqueeze(axis), many, None)
            return result.squeeze(axis), tuple(part.squeeze(1) for part in state)
        sequence = x.transpose(0, 1) if self.batch_first else x
        rows = (self.num_layers * (1 + self.bidirectional), sequence.shape[1], self.hidden_size)
        for part in initial or ():
            if part.shape != rows:
                raise ShapeError(
                    f"[{type(self).__name__}] a state has shape {part.shape}, expected {rows}: "
                    "(layers * directions, batch, hidden size)"
                )
        inside = None if lengths is None else self._inside(sequence, lengths)
        ends: list[State] = []
        for layer in range(self.num_layers):
            if layer:
                sequence = sequence.dropout(self.dropout)
            outputs: list[Tensor] = []
            for suffix in self._suffixes(layer):
                state = None if initial is None else tuple(part[len(ends)] for part in initial)
                steps, end = self._pass(sequence, suffix, state, inside)
                outputs.append(steps)
                ends.append(end)
            sequence = outputs[0].cat(*outputs[1:], dim=-1)
        result = sequence.transpose(0, 1) if self.batch_first else sequence
        return result, tuple(first.stack(*rest) for first, *rest in zip(*ends, strict=True))

    def _check_input(self, x: Tensor) -> None:
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            order = "batch, time" if self.batch_first else "time, batch"
            raise ShapeError(
                f"[{type(self).__name__}] expected an input ({order}, {self.input_size}), or "
                f"(time, {self.input_size}) without a batch, got shape {x.shape}"
            )

    def _inside(self, sequence: Tensor, lengths: Lengths) -> Tensor:
        """Which steps (time, batch, 1) are before the ends of their sequences."""
        ends = lengths if isinstance(lengths, Tensor) else Tensor(list(lengths))
        if ends.shape != sequence.shape[1:2] or not ends.dtype.is_int:
            raise ShapeError(
                f"[{type(self).__name__}] lengths are {sequence.shape[1]} integers, one for each "
                f"sequence of the batch, not {ends.dtype.name} of shape {ends.shape}"
            )
        times = Tensor.arange(sequence.shape[0], device=sequence.device).unsqueeze(1)
        return (times < ends.to(sequence.device)).unsqueeze(-1)

    def _pass(
        self, sequence: Tensor, suffix: str, state: State | None, inside: Tensor | None
    ) -> tuple[Tensor, State]:
        """One direction of one layer over (time, batch, size)."""
        parameters = [getattr(self, name + suffix) for name in _PARAMETERS]

        def step(state: State, seen: tuple[Tensor, ...]) -> tuple[State, Tensor]:
            new = self._step(seen[0], state, parameters)
            if inside is not None:  # behind its end, a sequence's state stays as it is
                pairs = zip(new, state, strict=True)
                new = tuple(seen[1].where(one, old) for one, old in pairs)
            return new, new[0]

        seen = (sequence,) if inside is None else (sequence, inside)
        first = self._zeros(sequence) if state is None else state
        end, hidden = scan(step, first, seen, reverse=suffix.endswith("_reverse"))
        return hidden if inside is None else inside.where(hidden, 0), end


class RNN(_Elman, _Recurrent):
    """Elman networks over a sequence (time, batch, input_size), or `batch_first`.

    As `LSTM`, but the state is h alone: (outputs, h), in the same shapes; `nonlinearity` is "tanh"
    or "relu". Parameters are float32; dtypes promote. Raises ShapeError, UserError.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Nonlinearity = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        rest = (num_layers, bias, batch_first, dropout, bidirectional)
        super().__init__(input_size, hidden_size, *rest)
        self._set_nonlinearity(nonlinearity)

    def __call__(
        self, x: Tensor, h: Tensor | None = None, lengths: Lengths | None = None
    ) -> tuple[Tensor, Tensor]:
        outputs, (hidden,) = self._run(x, None if h is None else (h,), lengths)
        return outputs, hidden


class LSTM(_LongShortTerm, _Recurrent):
    """Long short-term memories over a sequence (time, batch, input_size), or `batch_first`.

    Gives (outputs, (h, c)): outputs (time, batch, ways * hidden_size) of the last layer, h and c
    (num_layers * ways, batch, hidden_size) after the last step, where ways is 2 if `bidirectional`.
    Parameters are float32; dtypes promote. `dropout` is between layers, while training. A sequence,
    and its state, may be without the batch's axis.

    `lengths`: integers, how many steps of each sequence of the batch are no padding. Outputs behind
    a sequence's end are 0, its last state is the one at its end, and what goes backward begins
    there: what PyTorch's PackedSequence is for, in any order of lengths. Raises ShapeError.
    """

    def __call__(
        self,
        x: Tensor,
        hc: tuple[Tensor, Tensor] | None = None,
        lengths: Lengths | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, (hidden, cell) = self._run(x, hc, lengths)
        return outputs, (hidden, cell)


class GRU(_Gated, _Recurrent):
    """Gated recurrent units over a sequence (time, batch, input_size), or `batch_first`.

    As `LSTM`, but the state is h alone: (outputs, h), in the same shapes. Parameters are float32;
    dtypes promote. Raises ShapeError.
    """

    def __call__(
        self, x: Tensor, h: Tensor | None = None, lengths: Lengths | None = None
    ) -> tuple[Tensor, Tensor]:
        outputs, (hidden,) = self._run(x, None if h is None else (h,), lengths)
        return outputs, hidden
