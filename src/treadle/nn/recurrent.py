"""Recurrent layers: one time step of an LSTM."""

from __future__ import annotations

from ..tensor import Tensor
from .init import fan_in_uniform

__all__ = ["LSTMCell"]


class LSTMCell:
    """One step of a long short-term memory: x (batch, input_size) and (h, c) to the next (h, c).

    h and c are (batch, hidden_size); without them the cell starts from zeros. Gates are stacked
    in PyTorch's order: input, forget, cell, output.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        gates = 4 * hidden_size
        self.weight_ih = fan_in_uniform(gates, input_size, fan_in=hidden_size)
        self.weight_hh = fan_in_uniform(gates, hidden_size, fan_in=hidden_size)
        self.bias_ih = Tensor.zeros(gates) if bias else None
        self.bias_hh = Tensor.zeros(gates) if bias else None

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hc is None:
            zeros = Tensor.zeros(x.shape[0], self.weight_hh.shape[1], dtype=x.dtype)
            hc = (zeros, zeros)
        hidden, cell = hc
        gates = x.linear(self.weight_ih.T, self.bias_ih) + hidden.linear(
            self.weight_hh.T, self.bias_hh
        )
        enter, forget, candidate, out = gates.chunk(4, dim=1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        return (out.sigmoid() * cell.tanh()).contiguous(), cell.contiguous()
