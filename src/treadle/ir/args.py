"""What a Node carries besides its sources: small frozen records, compared by value."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from .op import Op

if TYPE_CHECKING:
    from ..dtype import ImageDType

__all__ = [
    "BoundsArg", "BufferRef", "ButterflyArg", "CollectiveArg", "ConstantName", "GatherArg",
    "HostArg", "LocalRef", "MatrixLayout", "Mesh", "ParamRef", "PartArg", "Placeholder", "RangeArg",
    "RecurArg", "ReduceArg", "RegisterRef", "ScanArg", "ScatterArg", "ShardArg", "SortArg",
    "StageArg", "TensorBox", "Token", "VarArg", "WgmmaArg", "WindowArg",
]  # fmt: skip


_numbers = itertools.count()


class Token:
    """Identity of one piece of device memory, which the engine puts into `memory`.

    The same memory can have several names; those of later ones have higher numbers.
    """

    __slots__ = ("__weakref__", "memory", "number")

    memory: Any
    number: int

    def __init__(self) -> None:
        self.number = next(_numbers)


class ConstantName(Token):
    """Tells one constant that a program made from others that are equal: an ALIAS has it, so that
    gradients with respect to the one are not those of the other.
    """

    __slots__ = ()


class Placeholder(Token):
    """Stands for memory that there is not: `why` is what the user is told who asks for it."""

    __slots__ = ("why",)
    why: str

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


@dataclass(frozen=True, slots=True)
class BufferRef:
    """Memory `token` of `size` elements on `device`, as it is after `version` assignments.

    `image` is the texture that holds them, where they are no plain memory. `lasts`: what is going
    to run many times is expected to find the same values here each time.
    """

    token: Token
    size: Any  # a number, or a symbolic size
    device: str
    version: int = 0
    image: ImageDType | None = None
    lasts: bool = False

    def __hash__(self) -> int:
        return hash((self.token, self.version))


@dataclass(frozen=True)
class VarArg:
    """A named integer with inclusive bounds."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class ReduceArg:
    """`op` is ADD, MUL, MAX or MIN; `axes` are sorted, empty in kernels (RANGE sources instead).

    `is_wide`: a sum of float32 whose total is float64 on processors that have it. `is_place`, in
    tensor graphs: of MAX and MIN over one axis where the extreme is, instead of itself.
    """

    op: Op
    axes: tuple[int, ...] = ()
    is_wide: bool = False
    is_place: bool = False


@dataclass(frozen=True)
class ScanArg:
    """`op` is ADD, MUL, MAX or MIN; ADD where a total is multiplied by a factor first."""

    op: Op
    axis: int


@dataclass(frozen=True)
class GatherArg:
    """Places are on `axis`: one list for all, or `along` it, a list of its own for each line."""

    axis: int
    along: bool = False


@dataclass(frozen=True)
class ScatterArg:
    """As GatherArg; `op` combines old and new: ADD, MUL, MAX, MIN; None: the last write stays."""

    axis: int
    op: Op | None
    along: bool = False


@dataclass(frozen=True)
class BoundsArg:
    """Indices of `axis` lie in lowest..size-1, or are `ignored`."""

    axis: int
    size: int
    lowest: int = 0
    ignored: int | None = None


@dataclass(frozen=True)
class SortArg:
    """The first `count` of `axis` in order."""

    axis: int
    count: int


@dataclass(frozen=True)
class WindowArg:
    """Windows of `size` on `axis`; `extent` is the size of that axis on the unwindowed side."""

    axis: int
    size: int
    stride: int
    dilation: int
    extent: Any


class Mesh(tuple[str, ...]):
    """One device in each process of a group, of which this process sees its own: `mesh[0]`.

    `group` is what connects them, `rank` the number of this process of `size`.
    """

    group: object
    rank: int
    size: int

    def __new__(cls, device: str, group: object, rank: int, size: int) -> Self:
        """The mesh of `group` on `device` of this process."""
        self = super().__new__(cls, (device,))
        self.group, self.rank, self.size = group, rank, size
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and (self[0], self.group) == (other[0], other.group)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self[0], id(self.group)))

    def __repr__(self) -> str:
        return f"<Mesh of {self.size} processes: process {self.rank} on {self[0]}>"


@dataclass(frozen=True)
class ShardArg:
    """Where the parts of a tensor are: one on each of `devices`, pieces of `axis` or copies.

    Of a Mesh, this process has one part; `sizes` are those of all processes' pieces. Of devices of
    one process, whose pieces of an axis became copies, the gradient goes back to those of `back`.
    """

    devices: tuple[str, ...]
    axis: int | None
    sizes: tuple[int, ...] | None = None
    back: int | None = None


@dataclass(frozen=True)
class PartArg:
    """This process's part of a tensor that lies as `to` says.

    The gradient goes `back` to where the tensor is: over a mesh, or on a device.
    """

    to: ShardArg
    back: ShardArg | str


@dataclass(frozen=True)
class HostArg:
    """Result `number` of the host function `name`, whose results have `shapes` and `dtypes`.

    The latter are names. `options` are what it takes after its operands. Nodes that differ in
    `number` and their own type alone are results of one call.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    number: int = 0
    options: tuple[object, ...] = ()


@dataclass(frozen=True)
class CollectiveArg:
    """A call that all processes of `group` make, or two of them; the result has `shape`.

    `kind` is "all_reduce", "reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all",
    "send" or "receive" (see runtime/communicator). `op` is ADD, MUL, MAX or MIN, for what reduces.
    `peer` is the process that has the result, or the values; the other one of two. `device` is
    where the values are if no operand's memory says so: of "receive", of constants. No two calls
    are one: each has another `number`.
    """

    kind: str
    group: object
    size: int
    rank: int
    shape: tuple[int, ...]
    op: Op | None = None
    peer: int = 0
    device: str = ""
    number: int = field(default_factory=_numbers.__next__)

    def __hash__(self) -> int:
        return self.number

    def again(self, **changes: object) -> CollectiveArg:
        """The same as another call, with `changes`."""
        return replace(self, number=next(_numbers), **changes)


@dataclass(frozen=True)
class RecurArg:
    """A loop of `steps`: `body` makes the next states of the stand-ins of what one step sees.

    `sequences`: how many of the sources have a row for each step. `backward`: the last step of them
    comes first. Nodes that differ in `number` and their own type alone are states of one loop.
    """

    body: tuple[Any, ...]
    steps: int
    sequences: int
    backward: bool = False
    number: int = 0


RangeKind = Literal["loop", "grid", "local", "subgroup", "unroll", "vector"]
Scope = Literal["grid", "shared"]


@dataclass(frozen=True)
class RangeArg:
    """A loop. `number` orders nesting: a smaller number is further out.

    Steps of "grid" are slices or workgroups, steps of "local" the work items of a workgroup, steps
    of "subgroup" those work items of a workgroup that combine values without memory.
    """

    number: int
    kind: RangeKind = "loop"


@dataclass(frozen=True)
class ParamRef:
    """Kernel argument `slot`: memory of `size` elements, or the texture `image` that holds them.

    `lasts`: most launches find the same values there; `is_new`: made for what this kernel stores,
    and so aligned as its device likes it; `is_passed_on`: new, and other kernels of the graph read
    it, so that it is no result of the graph.
    """

    slot: int
    size: Any
    image: ImageDType | None = None
    lasts: bool = False
    is_new: bool = False
    is_passed_on: bool = False

    def leaves_caches(self, nbytes: int, l3: int) -> bool:
        """Whether `nbytes` that are stored here are gone from a cache of `l3` before they are read.

        Then stores go around the caches. What the next kernel reads finds room in all of a cache,
        a result beside what is computed from it in half of one.
        """
        return self.is_new and nbytes >= (l3 if self.is_passed_on else l3 // 2)


@dataclass(frozen=True)
class LocalRef:
    """Scratch memory `number` of `size` elements, at a multiple of `alignment` bytes.

    With `arrivals` it holds mbarriers: a phase of each is over after so many arrivals.
    """

    number: int
    size: int
    alignment: int = 16
    arrivals: tuple[int, ...] = ()


@dataclass(frozen=True)
class RegisterRef:
    """Mutable register `number`.

    `is_wide`: a total of float32 that is float64 on processors that have it, as of a ReduceArg.
    `part`: the op that combines what is in it, a part of a reduction, with the register of the
    whole. Such a register begins at the identity of that op (ir/verify.py): the value that the
    whole begins at counts once, there.
    """

    number: int
    part: Op | None = None
    is_wide: bool = False


@dataclass(frozen=True)
class StageArg:
    """Where a STAGE keeps its value.

    `scope`: "grid" (one copy, all workers wait for it) or "shared" (one for each worker or
    workgroup). `sizes`: extents of the memory, row-major; lines may be longer than what is in them,
    so that they are padded.

    `buffers`: so many slices are in memory at a time, those of neighbouring steps of the innermost
    loop that the value depends on. With more than one the STAGE is a pipeline: while the work items
    work on one slice, the next ones are on their way. `fill`: what brings a slice, "stores" of the
    work items or asynchronous "copies" by them (the value is what memory holds then, or 0), or
    "boxes", copied by one more work item (the value is a BOX).

    `swizzle`: 0, or the bytes of a line (32, 64 or 128), in which pieces of 16 bytes change places:
    piece n of a line that begins in row r of 128 bytes stands at place n ^ (r % pieces). So the
    same piece of neighbouring lines is in different banks.
    """

    scope: Scope
    sizes: tuple[int, ...]
    buffers: int = 1
    fill: Literal["stores", "copies", "boxes"] = "stores"
    swizzle: int = 0


@dataclass(frozen=True)
class ButterflyArg:
    """What a BUTTERFLY combines work items by, and how far those are apart: powers of two."""

    op: Op
    steps: tuple[int, ...]


@dataclass(frozen=True)
class TensorBox:
    """A tensor that begins at element `offset` of memory, and the size of a box of it.

    Axes are in the order of tensor maps, the contiguous one first. `strides` are the elements
    between neighbours of each axis but that.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(frozen=True)
class MatrixLayout:
    """How a WGMMA finds a swizzled matrix in shared memory; all in bytes.

    Eight rows of 128 bytes are a block. Rows hold steps of the sum, or `is_transposed`, lines.
    `leading` lies between blocks side by side, `stride` between blocks one below the other, and
    `advance` between the steps that one instruction multiplies and the next ones.
    """

    is_transposed: bool
    leading: int
    stride: int
    advance: int


@dataclass(frozen=True)
class WgmmaArg:
    """64 rows by `columns` of a `kind` of numbers, in `turns` instructions; both matrices' layouts.

    The kind is the `name` of a `MatrixUnit`. Without a layout of x, work items hold it in words:
    so many are the first sources or, of none, work items read them from rows of lines. `is_left`:
    units are still at work on it when the next one begins.
    """

    kind: str
    columns: int
    turns: int
    x: MatrixLayout | None
    y: MatrixLayout
    words: int = 0
    is_left: bool = False
