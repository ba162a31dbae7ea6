"""What is computed when: where kernels end, and what would run.

x.kernelize()               -> later operations do not fuse with what computes x
x.schedule_with_vars()      -> (kernels, {variable: value})
y = x.contiguous_backward() -> y is x; the gradient that comes back is stored once
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ...ir.node import Node
from ...ir.op import Op
from ...ir.symbolic import unbind
from ..basis import Basis

if TYPE_CHECKING:
    from ...schedule.kernel import Kernel

__all__ = ["Scheduling"]


class Scheduling(Basis):
    """Hints for the scheduler, and its plans."""

    __slots__ = ()

    def schedule_with_vars(self, *lst: Self) -> tuple[list[Kernel], dict[str, int]]:
        """The kernels that `schedule` gives, and the value that each variable is bound to.

        Variables are integers, sizes of axes.
        """
        nodes = [t.node for t in (self, *lst)]
        return self.schedule(*lst), unbind(nodes)[1]

    def kernelize(self, *lst: Self) -> Self:
        """End the kernels of this tensor, and of `lst`, here: later operations read what they
        store.

        Computes nothing. Returns self, in its shape and dtype.
        """
        for tensor in (self, *lst):
            if not tensor.is_realized:
                tensor.node = Node(Op.CONTIGUOUS, tensor.dtype, (tensor.node,))
        return self

    def fuse(self) -> Self:
        """The same tensor, shape and dtype: which operations share a kernel is the scheduler's
        choice.

        For programs that ask for it; `schedule` shows what became of it.
        """
        return self

    def contiguous_backward(self) -> Self:
        """The same values, shape and dtype; their gradient is computed once into memory
        of its own.
        """
        return self._result(Node(Op.CONTIGUOUS_BACKWARD, self.dtype, (self.node,)))
