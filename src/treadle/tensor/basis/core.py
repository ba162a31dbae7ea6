"""The core of a tensor: a lazy node on a device, and whether gradients reach it.

    t.node       the graph that computes it, or the buffer that holds it
    t.realize()  computes it; t.numpy(), t.item(), t.tolist() do so first

Every operation builds a node and computes nothing. Values never change under a tensor: an
in-place operation gives its own tensor the new value, and views taken earlier keep the old one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from ...config import settings
from ...dtype import DType
from ...engine.devices import Device
from ...engine.memory import to_host
from ...engine.realized import resolve
from ...engine.run import lock, realize, scheduled
from ...engine.storages import (
    bases_to_write,
    capturing,
    is_last,
    storage_of,
)
from ...errors import ArgumentError, DeviceError, DTypeError, ShapeError, UserError
from ...ir.complexes import check_complex
from ...ir.node import Node
from ...ir.op import Op
from ...ir.shape import size_product
from ...ir.symbolic import bound_size
from ...ir.views import operand
from ...schedule.shard import sharded
from ..files import disk_path, of_disk
from ..inplace import (
    AS_IT_IS,
    is_exposed,
    moves_between,
    own_memory,
    shows_exposed,
    unwritable,
    write,
)
from ..modes import no_grad
from ..printing import printed
from ..shapes import Size
from ..types import DeviceLike
from .state import State

if TYPE_CHECKING:
    import numpy as np

    from ...schedule.kernel import Kernel

__all__ = ["Core"]


class Core(State):
    """What every tensor is, before any operation is defined on it."""

    __slots__ = ()

    def _result(self, node: Node, *others: Core) -> Self:
        """The tensor of a node computed from this tensor and `others`.

        What others can write to unseen is copied, even where all computing leaves it as it is.
        """
        if node.op in AS_IT_IS and shows_exposed(node):
            node = Node(Op.CONTIGUOUS, node.dtype, (node,))
        return self._made(node, *others)

    def _made(self, node: Node, *others: Core) -> Self:
        """The same, which may be a view."""
        needs = self._requires_grad is True or any(o._requires_grad is True for o in others)
        needs = needs and node.dtype.is_inexact
        if needs and no_grad:
            node, needs = Node(Op.DETACH, node.dtype, (node,)), False
        return type(self)._of(node, self.device, True if needs else None)

    def _view(self, node: Node) -> Self:
        """The tensor of `node`, movements of this one: what is written to it is written here."""
        if self._moves is not None and resolve(self.node) is not self.node:
            self._let_go(self.node)
        result = self._made(node)
        result._storage = storage_of(self)
        result._moves = (self._moves or ()) + moves_between(node, self.node)
        if self._moves is not None:
            result._above = (weakref.ref(self), *(ref for ref in self._above if ref() is not None))
        return result

    def _again(self) -> Self:
        """Another tensor of the same values, which is no view of this one."""
        return self._result(self.node)

    def _take(self, other: Core) -> None:
        """This very object takes the value of `other`, on its device; nothing is written."""
        if capturing.active is not None:
            capturing.active.replaced(self)
        if self._storage is not None and self._moves is None:
            self._storage.owner = None
        self._storage, self._moves, self._above = None, None, ()
        self.node, self.device = other.node, other.device

    def _show(self, node: Node) -> None:
        """A captured function has left this tensor with the values of `node`."""
        self.node = node
        if self._storage is not None and self._moves is None:
            self._storage.node = node

    def _given(self, node: Node, own: Node | None) -> None:
        """A captured function has written `node`, memory that nobody else has, to this tensor.

        A view does not show it where `own`, what it shows instead, is another one.
        """
        storage = storage_of(self)
        old = bases_to_write(storage) or ()
        if self._moves is not None or any(map(is_exposed, old)):
            write(self, node)
        else:
            storage._show(node)
        if own is not None:
            self.node = own

    def _computed(self, node: Node) -> None:
        """The values are in memory at `node`.

        A tensor inside a gradient's path keeps its graph: the engine knows its memory.
        """
        if self._requires_grad is True and not self.is_leaf:
            return
        before, self.node = self.node, node
        if self._storage is None:
            return
        if self._moves is None:
            self._storage.node = node
        else:
            self._let_go(before)

    def _let_go(self, node: Node) -> None:
        """A view that shows, as `node`, all that is left of its storage needs none of the rest."""
        if is_last(self, node) and unwritable(self._moves or ()) is None:
            self._storage, self._moves, self._above = None, None, ()

    def _keep(self, buffer: object) -> None:
        """Others know this memory by its address: it lives as long as the tensor."""
        lent = getattr(self, "_lent", ())
        if not any(each is buffer for each in lent):
            self._lent = (*lent, buffer)

    # -- looking at it ------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """How many axes the tensor has."""
        return len(self.node.shape)

    def dim(self) -> int:
        """How many axes the tensor has: `ndim`."""
        return self.ndim

    def numel(self) -> int:
        """How many elements there are, an integer: the product of the sizes."""
        return size_product(self.shape)

    def element_size(self) -> int:
        """How many bytes one element takes."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """How many bytes all elements take together."""
        return self.numel() * self.element_size()

    def is_floating_point(self) -> bool:
        """Whether the elements are floats of any width."""
        return self.dtype.is_float

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self.dtype.is_complex

    @property
    def size(self) -> Any:
        """The number of elements; `x.size()` is the shape, `x.size(dim)` the size of one axis:
        integers.
        """
        return Size.of(self.shape)

    def __len__(self) -> int:
        if not self.ndim:
            raise ArgumentError(
                "[len] a tensor of shape () has no axis to count or to iterate over; .item() gives "
                "its value, .reshape(1) an axis"
            )
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"[bool] the truth value of a tensor of shape {self.shape} is not one value; use "
                ".any() or .all(), and &, | and ~ in place of `and`, `or` and `not`"
            )
        return bool(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __float__(self) -> float:
        return float(self._real_item("float"))

    def __int__(self) -> int:
        return int(self._real_item("int"))

    def _real_item(self, name: str) -> float:
        if self.dtype.is_complex:
            raise DTypeError(
                f"[{name}] a {self.dtype.name} tensor holds no real number; use .real, .imag or "
                "complex(...)"
            )
        return self.item()

    def __index__(self) -> int:
        if not self.dtype.is_int:
            raise DTypeError(
                f"[index] a tensor of {self.dtype.name} is no index; convert it with .int()"
            )
        return int(self.item())

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.ndim:
            raise ShapeError(
                f"[format] {spec!r} formats one number, not a tensor of shape {self.shape}; use "
                ".item() or .numpy()"
            )
        return format(self.item(), spec)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by value, on the same device; pending work is done first."""
        return (_restored, (type(self), self.numpy(), self.device, self._requires_grad))

    def __copy__(self) -> Self:
        """Another tensor of the same values; assigning to one leaves the other as it is."""
        if not self.is_leaf:
            copy = self._again()
            copy._requires_grad = self._requires_grad
            return copy
        return self.detach()._again().requires_grad_()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """A copy with memory of its own, and of the gradient. Raises UserError inside a graph."""
        if self._requires_grad is True and not self.is_leaf:
            raise UserError(
                f"[deepcopy] a result of shape {self.shape} that leads to gradients cannot be "
                "copied with its graph: copy .detach(), or use .clone() to stay in the graph"
            )
        result = self.detach().clone().realize()
        result._requires_grad = None
        if self._requires_grad is not None:
            result.requires_grad_(self._requires_grad)
        if self.grad is not None:
            result.grad = self.grad.detach().clone().realize()
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:
        return printed(self)

    def _check_real(self, name: str) -> None:
        """Raises DTypeError for complex numbers, for which `name` would mean something else."""
        if self.dtype.is_complex:
            raise DTypeError(f"[{name}] takes real numbers, not {self.dtype.name}")

    def _check_op(self, op: Op) -> None:
        """Raises DTypeError for complex numbers where `op` has no meaning for them."""
        if self.dtype.is_complex:
            check_complex(op, self.dtype, (self.node,), None)

    # -- gradients ----------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool | None:
        """True: `backward` fills `.grad`; None: not asked for, an optimiser may; False: never."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool | None) -> None:
        self.requires_grad_(value)

    @property
    def is_param(self) -> bool:
        """The same as `requires_grad`, in its newer spelling."""
        return self._requires_grad is True

    @is_param.setter
    def is_param(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool | None = True) -> Self:
        """Ask for gradients of this tensor (a leaf then, with memory of its own); shape and dtype
        stay.

        Raises DTypeError if it holds no floats.
        """
        if requires_grad is not True:
            self._requires_grad = requires_grad
            self.is_leaf = False
        elif self._requires_grad is not True:
            if not self.dtype.is_inexact:
                raise DTypeError(
                    f"[requires_grad] only floats have gradients, not {self.dtype.name}"
                )
            own_memory(self)
            self._requires_grad, self.is_leaf = True, True
        return self

    def detach(self) -> Self:
        """The same values, shape and dtype, through which no gradient flows."""
        view = self._view(Node(Op.DETACH, self.dtype, (self.node,)))
        view._requires_grad = False
        return view

    # -- computing it -------------------------------------------------------------------------

    def realize(self, *lst: Core, do_update_stats: bool = True) -> Self:
        """Compute this tensor, and `lst` with it. Returns self, in its shape and dtype.

        Raises DTypeError.
        """
        if not lst and self._node is None and not settings.CHECK_NAN:
            return self  # a result in memory, which nobody has looked at yet
        tensors = [self, *lst]
        if lst and not all(isinstance(t, Core) for t in lst):
            kinds = ", ".join(type(t).__name__ for t in lst)
            raise DTypeError(f"[realize] computes tensors one by one, not {kinds}")
        with lock:  # else another thread could assign to one of them in between
            nodes = realize([(t.node, t.device) for t in tensors])
            for tensor, node in zip(tensors, nodes, strict=True):
                tensor._computed(node)
        return self

    def schedule(self, *lst: Core) -> list[Kernel]:
        """The kernels that realising this tensor, and `lst` with it, would run; runs nothing."""
        return scheduled([(t.node, t.device) for t in (self, *lst)])

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array of its own, in this shape and dtype.

        bfloat16 and fp8 are ml_dtypes' types.
        """
        if isinstance(self.device, tuple):
            return self.realize().to(self.device[0]).numpy()
        shape = tuple(bound_size(size) for size in self.shape)
        with lock:  # until it is copied
            node = realize([(self.node, self.device)])[0]
            self._computed(node)
            while node.op is Op.RESHAPE:
                node = operand(node)
            return to_host(node).reshape(shape)

    def data(self) -> memoryview:
        """The values as a memoryview of this shape and dtype.

        Raises ArgumentError for a dtype that it has no letter for, such as bfloat16.
        """
        return self.numpy().data

    def item(self) -> Any:
        """The one value of any shape, as a Python bool, integer, float or complex number.

        Raises ShapeError if there is not exactly one.
        """
        if self.numel() != 1:
            raise ShapeError(
                f"[item] shape {self.shape} holds {self.numel()} values, not one; use .tolist(), "
                "or index one element first"
            )
        return _python_values(self.numpy().reshape(()), self.dtype)

    def tolist(self) -> Any:
        """The values as nested lists of Python bools, integers, floats or complex numbers, by axis.

        A scalar for shape ().
        """
        return _python_values(self.numpy(), self.dtype)

    # -- devices and memory -------------------------------------------------------------------

    def to(self, device: DeviceLike) -> Self:
        """The same values on another device, in shape and dtype; None is the default device.

        A tuple of devices gets equal copies; from several devices, the pieces are put together;
        "disk:path" is a file, written now. Raises DeviceError for a device that there is not.
        """
        path = disk_path(device)
        if path is not None:
            return of_disk(type(self), path, self.shape, self.dtype, self.numpy())
        name = Device.ready(device)
        if name == self.device:
            return self
        if isinstance(name, tuple):
            result = self._result(sharded(self.node, name, None))
            result.device = name
            return result
        result = self._result(Node(Op.COPY, self.dtype, (self.node,), name))
        result.device = name
        return result

    def cpu(self) -> Self:
        """The same values on the device "CPU", in shape and dtype: `to("CPU")`."""
        return self.to("CPU")

    def to_device(self, device: DeviceLike, /, *, stream: object = None) -> Self:
        """`to` by the Array API standard; shape and dtype stay.

        Raises DeviceError for a stream: there are none.
        """
        if stream is not None:
            raise DeviceError(f"[to_device] {self.device} has no streams: stream must be None")
        return self.to(device)

    def to_(self, device: str | None) -> Self:
        """Move this tensor, in place, gradient included; shape and dtype stay.

        Raises DeviceError.
        """
        return self._moved_by(lambda tensor: tensor.to(device))

    def _moved_by(self, move: Callable[[Self], Self]) -> Self:
        """This tensor, and its gradient, become what `move` gives of them; a leaf stays one."""
        leaf = self.is_leaf
        self._take(move(self))
        if leaf:
            own_memory(self)
        if self.grad is not None:
            self.grad = move(self.grad)
        return self

    def contiguous(self, *args: object, **kwargs: object) -> Self:
        """The same values, computed once into memory of their own; shape and dtype stay."""
        return self._result(Node(Op.CONTIGUOUS, self.dtype, (self.node,)))

    def clone(self) -> Self:
        """A copy with memory of its own, in this shape and dtype."""
        return self.contiguous()


def _restored(
    kind: Callable[..., Core], data: np.ndarray, device: str, requires_grad: bool | None
) -> Core:
    return kind(data, device=device, requires_grad=requires_grad)


def _python_values(array: np.ndarray, dtype: DType) -> object:
    # the narrow floats of ml_dtypes do not become Python floats by themselves
    return array.astype("float64").tolist() if dtype.is_float else array.tolist()
