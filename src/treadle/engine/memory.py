"""Device memory behind BUFFER nodes: a node holds a Token, and that holds the memory.

    node = from_host("CPU", dtypes.int32, np.arange(3))  ->  BUFFER int32 (3,)
    to_host(node)                                         ->  array([0, 1, 2], dtype=int32)

Memory is freed when the last node with its Token is gone. A node names one version of the
memory: reading a version that has been overwritten is an error, never a wrong value.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dtype import DType, ImageDType, _to_np_dtype
from ..errors import InternalError, UserError
from ..ir.args import BufferRef, Placeholder, ShardArg, Token
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape, all_known, simple_shape, size_product
from ..ir.views import behind_reshape
from .change_counters import changes
from .devices import Device, Placement
from .realized import remember

if TYPE_CHECKING:
    import numpy as np


__all__ = [
    "Memory",
    "Promise",
    "adopt",
    "allocate",
    "buffers_of",
    "from_host",
    "is_read_only",
    "memory_of",
    "moment",
    "new_memory",
    "on_lost",
    "on_read",
    "read",
    "to_host",
    "transfer",
]


_moments = itertools.count(1)


def moment() -> int:
    """A number above those of all that memory has seen so far, and below those of what will be."""
    return next(_moments)


@dataclass(eq=False, slots=True, weakref_slot=True)
class Memory:
    """`size` elements in a runtime's buffer, and how many assignments they have seen.

    `image` is the texture that the buffer is, if it is one; `read_only`: somebody else's, and not
    to be assigned to; `is_exposed`: others can write without our notice; `is_given`: the host gave
    what is in it. `made` and `changed` are
    the `moment`s when it was made and last assigned to, replays of captured assignments included.
    """

    buffer: Any
    dtype: DType
    size: int
    device: str
    version: int = 0
    read_only: bool = False
    image: ImageDType | None = None
    is_exposed: bool = False
    is_given: bool = False
    changed: int = 0
    made: int = field(default_factory=_moments.__next__)
    # as the host sees them in place
    _elements: np.ndarray | None = field(default=None, init=False, repr=False)
    # what gives it the buffer that it does not have at present
    _wait: Callable[[], None] | None = field(default=None, init=False, repr=False)

    # waits for what reads it while this process computes
    _read_by: Callable[[], None] | None = field(default=None, init=False, repr=False)

    def copy(self) -> Memory:
        """The same buffer, as other memory."""
        return replace(self)

    def wait_for(self, compute: Callable[[], None]) -> None:
        """It has no buffer until `compute`, which whoever asks for it first calls, gives it one."""
        self._wait, self._elements = compute, None
        del self.buffer

    def __getattr__(self, name: str) -> object:  # of what is not set: a buffer that is waited for
        if name != "buffer":
            raise AttributeError(f"'Memory' object has no attribute '{name}'")
        if (wait := self._wait) is not None:
            wait()
        try:
            return object.__getattribute__(self, name)
        except AttributeError:
            message = "[realize] memory was asked for that could not be computed"
            raise InternalError(message) from None

    def computed(self, buffer: object) -> None:
        """What it was waiting for is over."""
        self.buffer, self._wait = buffer, None

    def arrives(self, wait: Callable[[], None]) -> Callable[[], None]:
        """It has no buffer until `wait`, which whoever asks for it first calls, has returned.

        Then it has the one of now. What is returned does that. It does not keep this memory: that
        would be a circle, and what nobody asks for would stay until somebody collects garbage.
        """
        buffer, me = self.buffer, weakref.ref(self)

        def arrived() -> None:
            wait()
            if (memory := me()) is not None and memory._wait is not None:
                memory.computed(buffer)

        self.wait_for(arrived)
        return arrived

    def fail(self) -> None:
        """It could not be computed: nodes that have been in this memory are graphs again."""
        self.version, self._wait = -1, None

    def written(self) -> None:
        """Told before all elements, or some, are assigned to."""
        self.let_it_be_read()
        self.changed = moment()
        changes.of_memory()

    def read_by(self, wait: Callable[[], None]) -> None:
        """It is read until `wait`, which whoever writes to it calls first, returns."""
        self.let_it_be_read()
        self._read_by = wait

    def let_it_be_read(self) -> None:
        """Wait for what reads it."""
        if self._read_by is not None:
            self._read_by()
            self._read_by = None

    def expose(self) -> None:
        """From now on others can write, and nobody notices."""
        self.is_exposed = True
        changes.of_memory()

    @property
    def is_shared(self) -> bool:
        """Whether the host sees the elements in place."""
        return Device[self.device].runtime.shares_memory and self.image is None

    @property
    def stored(self) -> np.dtype:
        """NumPy's type of the elements as the device holds them."""
        import numpy as np

        if self.image is not None:
            return np.dtype("float16" if self.image.bits == 16 else "float32")
        return _to_np_dtype(self.dtype)

    def array(self) -> np.ndarray:
        """The elements, 1-D: themselves where the host sees the memory, else a copy."""
        import numpy as np

        runtime = Device[self.device].runtime
        runtime.synchronize()
        if runtime.shares_memory and self.image is None:
            return self._in_place().view()
        found = np.empty(self.size, self.stored)
        if self.size:
            runtime.read(self.buffer, _bytes_of(found))
        return found.astype(_to_np_dtype(self.dtype), copy=False)

    def _in_place(self) -> np.ndarray:
        """The elements as the host sees them, always the same array."""
        if self._elements is None:
            from numpy import frombuffer

            self._elements = frombuffer(self.buffer.view(), _to_np_dtype(self.dtype), self.size)
        return self._elements

    def fill(self, data: np.ndarray) -> None:
        """Overwrite all elements with those of `data`, in row-major order, converted."""
        self.written()
        self.store(data)

    def store(self, data: np.ndarray) -> None:
        """The same for memory that nobody else knows yet."""
        if not data.size:
            return
        runtime = Device[self.device].runtime
        if runtime.shares_memory and self.image is None:
            runtime.synchronize()
            elements = self._in_place()
            (elements.reshape(data.shape) if data.ndim else elements)[...] = data
        else:
            import numpy as np

            runtime.write(self.buffer, _bytes_of(np.ascontiguousarray(data, self.stored)))


# Called before values are read on the host; a capturing jit refuses here.
on_read: list[Callable[[], None]] = []

# Called where a version is asked for that has been overwritten, and may say why in other words.
on_lost: list[Callable[[Memory, BufferRef], None]] = []


def adopt(memory: Memory, shape: Shape | None = None) -> Node:
    """A BUFFER with a Token of its own for `memory`, in `shape` if that is not one axis.

    Where sizes of `shape` are symbolic, so is the BUFFER's: graphs over it are compiled for all.
    """
    token = Token()
    token.memory = memory
    size = memory.size
    if shape is not None and not all_known(shape):
        shape = simple_shape(shape)
        size = size_product(shape)
    ref = BufferRef(token, size, memory.device, memory.version, memory.image)
    node = Node.fresh(Op.BUFFER, memory.dtype, (), ref, (size,))
    if shape is None or shape == node.shape:
        return node
    return Node.fresh(Op.RESHAPE, memory.dtype, (node,), shape, shape)


class Promise(NamedTuple):
    """What the node over a buffer will be like that nobody has asked for yet."""

    dtype: DType
    size: int
    device: str
    shape: tuple[int, ...]

    def node(self, buffer: object) -> Node:
        """A BUFFER, or a RESHAPE of one, with a Token of its own."""
        return adopt(Memory(buffer, self.dtype, self.size, self.device), self.shape)


def new_memory(device: str, dtype: DType, size: int, image: ImageDType | None = None) -> Memory:
    """Memory, or a texture, with undefined contents. Raises OutOfMemory."""
    allocator = Device[device].allocator
    if image is not None:
        return Memory(allocator.alloc_image(image), dtype, size, device, image=image)
    return Memory(allocator.alloc(size * dtype.itemsize or 1), dtype, size, device)


def allocate(device: str, dtype: DType, size: int) -> Node:
    """A BUFFER of `size` elements whose values are not defined yet."""
    return adopt(new_memory(device, dtype, size))


def from_host(device: Placement, dtype: DType, data: np.ndarray) -> Node:
    """A BUFFER with a copy of `data`, in row-major order, converted to `dtype`.

    For a tuple of devices it is a MULTI of equal copies.
    """
    if isinstance(device, tuple):
        copies = tuple(from_host(one, dtype, data) for one in device)
        return Node(Op.MULTI, dtype, copies, ShardArg(device, None))
    memory = new_memory(device, dtype, data.size)
    memory.is_given, memory.changed = True, moment()  # which nobody has seen otherwise
    memory.store(data)
    return adopt(memory)


def transfer(source: Memory, target: Memory) -> None:
    """Copy all elements to memory of the same dtype and size, on whatever device.

    Waits for the source's device alone, if the host has a part in it: the target's may still be
    busy with other work.
    """
    if not source.size:
        return
    target.written()
    here, there = Device[source.device].runtime, Device[target.device].runtime
    nbytes = source.size * source.dtype.itemsize
    if source.image is not None or target.image is not None:
        target.fill(source.array())
    elif here.shares_memory:
        here.synchronize()
        there.write(target.buffer, source.buffer.view()[:nbytes])
    elif there.shares_memory:
        there.synchronize()
        here.read(source.buffer, target.buffer.view()[:nbytes])
    elif not _copied_directly(here, source, there, target, nbytes):
        there.write(target.buffer, _bytes_of(source.array()))


def _copied_directly(
    here: object, source: Memory, there: object, target: Memory, nbytes: int
) -> bool:
    """Whether the target's runtime could copy from the source's without the host."""
    copy = getattr(there, "copy_from", None)
    return copy is not None and copy(here, source.buffer, target.buffer, nbytes)


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view("uint8").data


def memory_of(ref: BufferRef) -> Memory:
    """The memory of a BUFFER. Raises InternalError if that version has been overwritten.

    Raises UserError for a Placeholder, for what a parameter was before, or if another thread may
    have overwritten it.
    """
    if isinstance(ref.token, Placeholder):
        raise UserError(ref.token.why)
    memory: Memory = ref.token.memory
    if memory.version != ref.version:
        for refuse in on_lost:
            refuse(memory, ref)
        _refuse_race(memory, ref)
        raise InternalError(
            f"[realize] version {ref.version} of a buffer of {ref.size} elements on {ref.device} "
            f"was read after version {memory.version} had overwritten it"
        )
    return memory


def _refuse_race(memory: Memory, ref: BufferRef) -> None:
    """Raises UserError where it may have been another thread that overwrote what is read.

    Only once: from then on, what has read the version that is gone reads the present one.
    """
    if threading.active_count() == 1:
        return
    gone, now = (
        Node(Op.BUFFER, memory.dtype, (), replace(ref, version=version))
        for version in (ref.version, memory.version)
    )
    remember(gone, now)
    raise UserError(
        f"[realize] a tensor of {ref.size} elements on {ref.device} was assigned to by one thread "
        "while another computed with it: hold a lock (threading.Lock) around both, or give each "
        "thread a tensor of its own, such as .clone()"
    )


def buffers_of(node: Node) -> list[Node]:
    """The BUFFERs of a node in memory, one for each device."""
    node = behind_reshape(node)
    return [b for part in node.src for b in buffers_of(part)] if node.op is Op.MULTI else [node]


def is_read_only(token: Token) -> bool:
    """Whether nothing may be assigned to the memory of `token`."""
    return not isinstance(token, Placeholder) and token.memory.read_only


def read(ref: BufferRef) -> np.ndarray:
    """The elements, 1-D, as `Memory.array` gives them. Raises InternalError as `memory_of` does."""
    return memory_of(ref).array()


def to_host(node: Node) -> np.ndarray:
    """A copy of a BUFFER's elements, 1-D."""
    for refuse in on_read:
        refuse()
    found = read(node.arg)
    return found if found.base is None else found.copy()
