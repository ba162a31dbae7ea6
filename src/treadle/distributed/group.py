"""A group of processes, and what they compute together.

    world.allreduce(x)                  the sum of all processes' x, on each of them
    world.allgather(x, axis=0)          all of them, one behind the other
    world.split(color=world.rank % 2)   two groups

Each call is an operation like others: it has a derivative, TinyJit captures it, vmap batches it. It
is made when it is written, in the program's order, and not when somebody looks at its result. So a
process that looks, alone, at what all have computed waits for nobody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, cast

from ..config import settings
from ..dtype import DType, dtypes, to_dtype
from ..engine.background_calls import finish_calls, run_in_order
from ..engine.collectives import issue
from ..engine.devices import Device
from ..engine.plain_calls import PlainCall
from ..errors import DeviceError, DistributedError, DTypeError, ShapeError
from ..ir.args import CollectiveArg, Mesh, ShardArg
from ..ir.node import Node
from ..ir.op import Op
from ..ir.origin import running_line
from ..ir.shape import all_known
from ..ir.views import behind_reshape
from ..runtime.communicator import Call, Communicator
from ..tensor import Tensor
from .parts import joined, joined_as, part_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Group", "Reduction"]

Pair = tuple[Tensor, Tensor]  # a parameter and its gradient
Reduction = Literal["sum", "mean", "prod", "max", "min"]
_OPS = {"sum": Op.ADD, "mean": Op.ADD, "prod": Op.MUL, "max": Op.MAX, "min": Op.MIN}


class Group:
    """Processes with numbers from 0 to `size` - 1, of which this one is `rank`.

    All of them make the same calls in the same order, with tensors of equal shapes and dtypes,
    or DistributedError says which process makes another one, and where. Gradients are those of the
    sum of what all processes differentiate: all of them call `backward`.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._known: dict[tuple[object, ...], PlainCall] = {}  # calls, by the lines that made them

    def __repr__(self) -> str:
        return f"<Group {self._communicator.name!r}: process {self.rank} of {self.size}>"

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self._communicator.rank

    @property
    def size(self) -> int:
        """How many processes there are."""
        return self._communicator.size

    @property
    def communicator(self) -> Communicator:
        """What connects the processes."""
        return self._communicator

    # -- what all compute -------------------------------------------------------------------------

    def allreduce(self, x: Tensor, op: Reduction = "sum") -> Tensor:
        """The combination of all processes' `x` on each of them, in its shape.

        Halves and smaller floats are combined in float32 and rounded once. bools add up in int32.
        For a mean each gives its part of it, so that no sum overflows, and each part is rounded.
        With REPRODUCIBLE=1 the sum is in the order of the processes. Raises DTypeError for a mean
        of integers, an extreme of complex numbers, DistributedError.
        """
        x, kind = self._checked(x, "allreduce"), _op(op)
        dtype = x.dtype
        narrow, wide = _result_dtype(dtype, op, "allreduce"), _combined_in(dtype, op)
        x = self._shared_out(x._as(wide), op)
        if settings.REPRODUCIBLE and self.size > 1:
            parts = self._call("all_gather", x, (self.size, *x.shape))
            total = parts[0]
            for number in range(1, self.size):
                total = _COMBINED[op](total, parts[number])
        else:
            total = self._call("all_reduce", x, x.shape, op=kind)
        return total if narrow is wide else total._as(narrow)

    def reduce_scatter(self, x: Tensor, axis: int = 0, op: Reduction = "sum") -> Tensor:
        """This process's piece along `axis` of what `allreduce` gives: 1 of `size` equal ones.

        Raises ShapeError where the axis has no `size` equal pieces, and as `allreduce` does.
        """
        x, kind = self._checked(x, "reduce_scatter"), _op(op)
        narrow = _result_dtype(x.dtype, op, "reduce_scatter")
        pieces = self._pieces(x, axis, "reduce_scatter")._as(_combined_in(x.dtype, op))
        pieces = self._shared_out(pieces, op)
        return self._call("reduce_scatter", pieces, pieces.shape[1:], op=kind)._as(narrow)

    def _shared_out(self, x: Tensor, op: Reduction) -> Tensor:
        """What this process adds to a combination by `op`."""
        return x / self.size if op == "mean" else x

    def average_gradients(self, parameters: Iterable[Tensor], bucket: int = 25 << 20) -> None:
        """Give each parameter the mean of all processes' `.grad`, as one step on all data has it.

        Gradients below 1 MiB go in buckets of so many bytes, of one dtype and device each, so that
        few calls are made. Larger ones go one by one: a copy to a bucket takes longer than a call.
        One is exchanged while the next ones are computed. All processes have
        gradients of the same parameters. Of those over a mesh of another group, each process has
        the mean of its parts. Raises DistributedError.
        """
        pairs = [(p, _own(p.grad)) for p in parameters if p.grad is not None]
        if self.size == 1:
            Tensor.realize(*(gradient for _, gradient in pairs))
            return
        former = [(p, p.grad) for p, _ in pairs]
        try:
            with later() as calls:
                for together in _buckets(pairs, bucket):
                    self._set_means(together)
            issue(calls)
        except BaseException:
            for p, gradient in former:
                p.grad = gradient
            raise

    def _set_means(self, together: Sequence[Pair]) -> None:
        """Each `.grad` becomes its piece of one mean, which is still to be exchanged.

        Nobody asks for the gradients of this process alone from then on, so none is stored.
        """
        first, *others = (gradient.flatten() for _, gradient in together)
        means, begin = self.allreduce(first.cat(*others) if others else first, "mean"), 0
        for p, gradient in together:
            mean = means[begin : begin + gradient.numel()].reshape(gradient.shape)
            p.grad = mean if p.grad is None or p.grad is gradient else joined_as(p.grad, mean)
            begin += gradient.numel()

    # -- what moves -------------------------------------------------------------------------------

    def allgather(self, x: Tensor, axis: int = 0) -> Tensor:
        """All processes' `x`, one behind the other along `axis`, which is `size` times as long.

        Raises ShapeError for an axis that there is not, DistributedError.
        """
        x = self._checked(x, "allgather")
        axis = _axis(axis, x, "allgather")
        stacked = self._call("all_gather", x, (self.size, *x.shape))
        order = [*range(1, axis + 1), 0, *range(axis + 1, x.ndim + 1)]
        shape = [n * self.size if at == axis else n for at, n in enumerate(x.shape)]
        return stacked.permute(order).reshape(shape)

    def broadcast(self, x: Tensor, root: int = 0) -> Tensor:
        """Process `root`'s `x` on all of them; the others give one of its shape and dtype.

        Raises DistributedError.
        """
        return self._call(
            "broadcast", self._checked(x, "broadcast"), x.shape, peer=self._peer(root)
        )

    def all_to_all(self, x: Tensor, split_axis: int = 0, concat_axis: int = 0) -> Tensor:
        """The pieces along `split_axis` that all have for this process, joined on `concat_axis`.

        Each process keeps piece `rank` of its own, and gives piece `i` to process `i`. Raises
        ShapeError where the axis has no `size` equal pieces, DistributedError.
        """
        x = self._checked(x, "all_to_all")
        pieces = self._pieces(x, split_axis, "all_to_all")
        axis = _axis(concat_axis, x, "all_to_all")
        found = self._call("all_to_all", pieces, pieces.shape)
        order = [*range(1, axis + 1), 0, *range(axis + 1, found.ndim)]
        shape = [n * self.size if at == axis else n for at, n in enumerate(found.shape[1:])]
        return found.permute(order).reshape(shape)

    def send(self, x: Tensor, to: int) -> None:
        """Give `x` to process `to`, which calls `recv`. Raises DistributedError."""
        self._call("send", self._checked(x, "send"), (0,), peer=self._peer(to, others=True))

    def recv(
        self,
        shape: Sequence[int],
        dtype: DType | str = dtypes.float32,
        *,
        source: int,
        device: str | None = None,
    ) -> Tensor:
        """What process `source` sends, of that shape and dtype, in memory of `device`.

        Raises DistributedError.
        """
        home, peer = Device.canonicalize(device), self._peer(source, others=True)
        arg = self._arg("receive", tuple(shape), peer=peer, device=home)
        return _issued(Tensor._of(Node(Op.COLLECTIVE, to_dtype(dtype), (), arg), home))

    # -- tensors over all processes ---------------------------------------------------------------

    def mesh(self, device: str | None = None) -> Mesh:
        """The devices of that name in all processes, for `Tensor.shard`. Raises DeviceError."""
        return Mesh(Device.ready(device), self._communicator, self.rank, self.size)

    def join_parts(self, x: Tensor, axis: int = 0) -> Tensor:
        """All processes' `x`, one behind the other along `axis`, as a tensor over their mesh.

        Each process keeps its own; their shapes may differ along `axis`. No gradient reaches `x`.
        Raises ShapeError for an axis that there is not, DistributedError.
        """
        x = self._checked(x, "join_parts")
        axis = _axis(axis, x, "join_parts")
        size = Tensor([x.shape[axis]], device="CPU")
        sizes = tuple(self.allgather(size).tolist())
        return joined(x, ShardArg(self.mesh(str(x.device)), axis, sizes))

    # -- the group itself -------------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait until all processes are here. Raises DistributedError."""
        run_in_order(self._communicator.steps(Call("barrier"), None, None))

    def tell(self, text: str) -> list[str]:
        """What each process tells, by their numbers: names of hosts, say. Raises DistributedError.

        All processes call it; their texts may differ, also in length.
        """
        import numpy as np

        mine = np.frombuffer(text.encode(errors="surrogateescape"), np.uint8)
        lengths = np.empty((self.size, 1), np.int64)
        self._exchange(np.array([mine.size]), lengths)
        told = np.zeros(int(lengths.max()), np.uint8)
        told[: mine.size] = mine
        every = np.empty((self.size, told.size), np.uint8)
        self._exchange(told, every)
        return [
            bytes(row[: int(n)]).decode(errors="surrogateescape")
            for row, (n,) in zip(every, lengths, strict=True)
        ]

    def _exchange(self, given: np.ndarray, result: np.ndarray) -> None:
        call = Call("all_gather", where="tell")
        run_in_order(self._communicator.steps(call, given, result))

    def split(self, color: int, key: int = 0) -> Group:
        """The group of those that give the same color, by their keys, then by their numbers.

        Raises DistributedError.
        """
        finish_calls()
        return Group(self._communicator.split(color, key))

    def abort(self, status: int = 1) -> None:
        """End the whole job, at once, with that exit code."""
        self._communicator.abort(status)

    # -- how --------------------------------------------------------------------------------------

    def _call(
        self, kind: str, x: Tensor, shape: Sequence[int], op: Op | None = None, peer: int = 0
    ) -> Tensor:
        shape = tuple(shape)
        line = None if _later else running_line()
        key = None if line is None else (id(line[0]), line[1], kind, op, peer, shape, x.dtype)
        if key is not None and (known := self._known.get(key)) is not None:
            if (made := known.made(x)) is not None:
                return cast("Tensor", made)
        is_plain = behind_reshape(x.node).op is Op.BUFFER
        arg = self._arg(kind, shape, op, peer, str(x.device))
        node = Node(Op.COLLECTIVE, x.dtype, (x.node,), arg)
        result = _issued(x._result(node))
        if key is not None and is_plain and (again := PlainCall.of(node, x, result)) is not None:
            if len(self._known) == _LINES:
                self._known.clear()
            self._known[key] = again
        return result

    def _arg(
        self,
        kind: str,
        shape: tuple[int, ...],
        op: Op | None = None,
        peer: int = 0,
        device: str = "",
    ) -> CollectiveArg:
        return CollectiveArg(
            kind, self._communicator, self.size, self.rank, shape, op, peer, device
        )

    def _checked(self, x: Tensor, name: str) -> Tensor:
        if not isinstance(x.device, str):
            raise DeviceError(
                f"[{name}] the tensor is spread over {x.device} in this process: give each process "
                "one device, or x.to(device) first"
            )
        if not all_known(x.shape):
            raise ShapeError(f"[{name}] sizes have to be numbers here, not {x.shape}")
        return x

    def _pieces(self, x: Tensor, axis: int, name: str) -> Tensor:
        """(size, *a piece of x)."""
        axis = _axis(axis, x, name)
        if x.shape[axis] % self.size:
            raise ShapeError(
                f"[{name}] axis {axis} of shape {x.shape} has no {self.size} equal pieces, one for "
                "each process: pad it"
            )
        split = x.unflatten(axis, (self.size, x.shape[axis] // self.size))
        return split.permute([axis, *range(axis), *range(axis + 1, x.ndim + 1)])

    def _peer(self, rank: int, others: bool = False) -> int:
        if not 0 <= rank < self.size or (others and rank == self.rank):
            other = "other " if others else ""
            raise DistributedError(
                f"[distributed] there is no {other}process {rank}: process {self.rank} is one of "
                f"{self.size}"
            )
        return rank


def _own(x: Tensor) -> Tensor:
    """What this process has of it."""
    return part_of(x) if isinstance(x.device, Mesh) else x


def _buckets(pairs: Sequence[Pair], size: int) -> list[list[Pair]]:
    """What goes together, of one dtype and device; the last layers first, as backward has them."""
    found: list[list[Pair]] = []
    last: dict[object, tuple[list[Pair], int]] = {}
    for parameter, gradient in reversed(pairs):
        key = (gradient.dtype, gradient.device)
        together, room = last.get(key, ([], 0))
        if gradient.nbytes() >= _ALONE:
            found.append([(parameter, gradient)])
            continue
        if gradient.nbytes() > room:
            together, room = [], size
            found.append(together)
        together.append((parameter, gradient))
        last[key] = together, room - gradient.nbytes()
    return found


_LINES = 256  # that a group knows at most
_ALONE = 1 << 20  # bytes of a gradient that is exchanged where it is


def _issued(result: Tensor) -> Tensor:
    if _later:
        _later[-1].append(result.node)
    else:
        issue([result.node])
    return result


# Calls that are to be made together, so that one goes on while the next one's operand is computed.
_later: list[list[Node]] = []


@contextlib.contextmanager
def later() -> Iterator[list[Node]]:
    """A block whose calls are given to the caller, who issues them."""
    _later.append([])
    try:
        yield _later[-1]
    finally:
        _later.pop()


def _op(name: str) -> Op:
    if name not in _OPS:
        raise ShapeError(f"[distributed] op is one of {', '.join(_OPS)}, not {name!r}")
    return _OPS[name]


_COMBINED = {
    "sum": lambda a, b: a + b, "mean": lambda a, b: a + b, "prod": lambda a, b: a * b,
    "max": lambda a, b: a.maximum(b), "min": lambda a, b: a.minimum(b),
}  # fmt: skip


def _combined_in(dtype: DType, op: Reduction) -> DType:
    """The dtype that processes combine in."""
    if dtype is dtypes.bool:
        return dtypes.int32 if op in ("sum", "prod") else dtypes.uint8
    return dtypes.float32 if dtype.is_float and dtype.itemsize < 4 else dtype


def _result_dtype(dtype: DType, op: Reduction, name: str) -> DType:
    if op == "mean" and not dtype.is_inexact:
        raise DTypeError(f"[{name}] a mean of {dtype.name} is none: cast it to a float first")
    if op in ("max", "min") and dtype.is_complex:
        raise DTypeError(f"[{name}] complex numbers have no order")
    return dtypes.int32 if dtype is dtypes.bool and op in ("sum", "prod") else dtype


def _axis(axis: int, x: Tensor, name: str) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"[{name}] shape {x.shape} has no axis {axis}")
    return axis % x.ndim
