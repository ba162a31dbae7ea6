"""Values where the host sees them, for other libraries; and memory of theirs as nodes.

    in_place(tensor)                   ->  a NumPy array of the tensor's own memory
    exported(tensor, versioned=True)   ->  a DLPack capsule
    imported("CPU", capsule, None)     ->  a node over the memory that is in the capsule

Movements of memory (`.T`, slices, `.detach()`) are exported as strides, without a copy. What is
shared stays shared: each side sees what the other writes, in what it computes from then on.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from ...backends import BACKENDS
from ...engine.devices import Device
from ...engine.host_code import compile_for_host
from ...engine.memory import from_host, on_read
from ...engine.selection import parse_choice
from ...errors import DeviceError, ExchangeError
from ...ir.node import Node
from ...ir.op import Op
from ...runtime import dlpack
from ..shapes import expand, move_axes, reshape
from .cuda_arrays import CudaArray
from .cuda_memory import array_there, bytes_there, memory_type, order_with, stream_of
from .movements import memory_below, moved

if TYPE_CHECKING:
    import numpy as np

    from ..basis.core import Core

    Array = np.ndarray

__all__ = ["device_of", "exported", "home_of", "imported", "in_place", "is_shareable", "placed"]

_HOST = (dlpack.CPU, 0)

F = TypeVar("F", bound="dlpack.Import | CudaArray")


class _Exporter(Protocol):
    """An array of any library that shares its memory."""

    def __dlpack__(self, **asked: object) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


# -- from here to there ---------------------------------------------------------------------------


def is_shareable(tensor: Core) -> bool:
    """Whether the host sees the memory of `tensor`'s device."""
    return not isinstance(tensor.device, tuple) and Device[tensor.device].runtime.shares_memory


def in_place(tensor: Core) -> tuple[Array, bool]:
    """The values as an array, and whether they are copied: not where the host sees the memory.

    The array is read-only where the memory is. Pending work is done first.
    """
    import numpy as np

    for refuse in on_read:
        refuse()
    if isinstance(tensor.device, tuple) or not all(isinstance(n, int) for n in tensor.shape):
        return tensor.numpy(), True
    moves, memory = memory_below(tensor, lambda moves, base: not moves or is_shareable(tensor))
    array = whole = memory.array()
    if memory.read_only:
        array.flags.writeable = False
    array = moved(array, moves)
    shared = not array.size or np.may_share_memory(array, whole)
    return array, not (memory.is_shared and shared)


def device_of(tensor: Core) -> tuple[int, int]:
    """DLPack's type and number of the device that the memory is on. Raises ExchangeError."""
    if isinstance(tensor.device, tuple):
        raise ExchangeError(
            f"[dlpack] a tensor over {tensor.device} is not one piece of memory: gather it with "
            ".to(device) first"
        )
    if is_shareable(tensor):
        return _HOST
    kind = memory_type(tensor.device)
    if kind is None:
        raise ExchangeError(f"[dlpack] memory on {tensor.device} has no device type in DLPack")
    return kind, parse_choice(tensor.device).index


def exported(
    tensor: Core, *, stream: int | None, versioned: bool, dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:  # fmt: skip
    """A capsule of the tensor's memory, or of a copy. Raises ExchangeError."""
    if tensor._requires_grad is True:
        raise ExchangeError(
            "[dlpack] the tensor requires gradients, which nobody could follow there: export "
            ".detach()"
        )
    home = device_of(tensor)
    if stream is not None and home[0] not in (dlpack.CUDA, dlpack.EMULATED):
        raise ExchangeError(f"[dlpack] {tensor.device} has no streams: stream must be None")
    wanted = home if dl_device is None else tuple(map(int, dl_device))
    if wanted == home and home[0] == dlpack.CUDA:
        array, copied = array_there(tensor)
        capsule = _capsule(tensor, array, copied, home, versioned, copy)
        order_with(cast("str", tensor.device), stream)
        return capsule
    if wanted != _HOST:
        raise ExchangeError(
            f"[dlpack] memory on {tensor.device} can be exported to the host alone"
            f"{f' or as {home}' if home[0] == dlpack.CUDA else ''}, not to {wanted}: ask for "
            f"dl_device={_HOST}, or move it with .to('CPU')"
        )
    if copy is False and home != _HOST:
        raise ExchangeError(
            f"[dlpack] the host does not see memory on {tensor.device}: allow a copy"
        )
    return _capsule(tensor, *in_place(tensor), _HOST, versioned, copy)


def _capsule(
    tensor: Core, array: Array, copied: bool, home: tuple[int, int], versioned: bool,
    copy: bool | None,
) -> object:  # fmt: skip
    """A capsule of `array`, or of a copy where one is asked for or needed."""
    if copied and copy is False:
        raise ExchangeError(
            "[dlpack] this view has no strides: allow a copy, or take .contiguous()"
        )
    reason = None if copied else _unfit(array, versioned)
    if reason is not None and copy is False:
        raise ExchangeError(f"[dlpack] {reason}: allow a copy, or take .contiguous()")
    if not copied and (copy or reason is not None):
        array = array.copy() if home == _HOST else array_there(tensor, copy=True)[0]
        copied = True
    flags = dlpack.IS_COPIED * copied + dlpack.READ_ONLY * (not array.flags.writeable)
    return _exporter().capsule(array, tensor.dtype, home, versioned=versioned, flags=flags)


@functools.cache
def _exporter() -> dlpack.Exporter:
    return dlpack.Exporter(compile_for_host)


def _unfit(array: Array, versioned: bool) -> str | None:
    """Why the memory itself cannot be exported."""
    for size, stride in zip(array.shape, array.strides, strict=True):
        if size > 1 and stride <= 0 and array.size:
            return "flipped and expanded views are not shared, since many libraries refuse them"
    if not array.flags.writeable and not versioned:
        return "read-only memory needs max_version=(1, 0) or newer, which can say so"
    return None


# -- from there to here ---------------------------------------------------------------------------


def imported(
    adopt_dense: Callable[[dlpack.Import, int, int], Node],
    device: str,
    source: object,
    copy: bool | None,
) -> Node:
    """A node over the memory of `source`, an array with __dlpack__ or a capsule; or over a copy.

    `adopt_dense(import, address, count)` takes dense memory as a node.
    """
    given = source if dlpack.is_capsule(source) else _capsule_of(_plain(source, copy), copy, device)
    found = dlpack.Import(given)
    is_there = _is_cuda_of(device, found.device)
    if not _is_of_host(found.device[0]) and not is_there:
        raise ExchangeError(
            f"[from_dlpack] the memory is on a device of DLPack's type {found.device[0]}, which "
            "treadle does not share: move it to the host first"
        )
    return placed(adopt_dense, device, found, is_there, copy)


def placed(
    adopt_dense: Callable[[F, int, int], Node],
    device: str,
    found: F,
    is_there: bool,
    copy: bool | None,
) -> Node:
    """A node over memory of somebody else's, or over a copy; `is_there`: on the CUDA `device`."""
    order = _dense_order(found.sizes, found.strides)
    reason = None
    if order is None:
        reason = f"strides {found.strides} of shape {found.sizes} leave gaps"
    elif found.address % found.dtype.itemsize:
        reason = f"address {found.address:#x} is no multiple of {found.dtype.itemsize} bytes"
    elif not is_there and not Device[device].runtime.takes_host_memory:
        reason = f"{device} does not share the host's memory"
    if reason is not None and copy is False:
        raise ExchangeError(f"[{_CALLS[type(found)]}] {reason}: allow a copy")
    if copy or reason is not None or order is None:
        release = found.take()
        try:
            seen = functools.partial(bytes_there, device) if is_there else _bytes_at
            node = from_host(device, found.dtype, _array_of(found, seen))
        finally:
            release()
        return reshape(node, found.sizes)
    count, lowest = 1, 0
    for axis in order:
        count *= found.sizes[axis]
        lowest += min(found.strides[axis], 0) * (found.sizes[axis] - 1)
    if 0 in found.sizes:
        count = 0
    address = found.address + lowest * found.dtype.itemsize
    return _arranged(adopt_dense(found, address, count), order, found)


_CALLS = {dlpack.Import: "from_dlpack", CudaArray: "from_cuda_array"}


def home_of(source: object) -> str | None:
    """The CUDA device whose memory `source`, an array or a capsule, is; None for all others."""
    if dlpack.is_capsule(source):
        kind, number = dlpack.Import(source).device
    elif hasattr(source, "__dlpack_device__"):
        kind, number = map(int, cast("_Exporter", source).__dlpack_device__())
    else:
        return None
    if kind != dlpack.CUDA:
        return None
    name = f"CUDA:{number}"
    try:
        return name if memory_type(name) == kind else None
    except DeviceError:  # it cannot be used from here, but the host can have a copy
        return None


def _is_of_host(kind: int) -> bool:
    """Whether the host sees memory of that type of DLPack's: its own, or a device's pinned one."""
    return any(backend.dlpack_host == kind for backend in BACKENDS)


def _is_cuda_of(device: str, home: tuple[int, int]) -> bool:
    """Whether DLPack's `home` is the memory of the CUDA device `device`."""
    choice = parse_choice(device)
    if choice.runtime != "CUDA" or home != (dlpack.CUDA, choice.index):
        return False
    return memory_type(device) == dlpack.CUDA


def _capsule_of(source: object, copy: bool | None, device: str) -> object:
    """What `source.__dlpack__` gives: versioned where the producer knows how.

    A producer on `device` is told the stream that is to see its work, one on a device of its own
    is asked for a copy on the host.
    """
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise ExchangeError(
            f"[from_dlpack] a {type(source).__name__} has no __dlpack__: pass an array of a "
            "library that exports DLPack, or use Tensor(...) for a copy"
        )
    asked: dict[str, object] = {"max_version": dlpack.VERSION}
    exporter = cast("_Exporter", source)
    kind, number = map(int, exporter.__dlpack_device__())
    if _is_cuda_of(device, (kind, number)):
        asked["stream"] = stream_of(device)
    elif not _is_of_host(kind):
        if copy is False:
            raise ExchangeError(
                f"[from_dlpack] memory on a device of DLPack's type {kind} is not shared: allow a "
                "copy"
            )
        asked["dl_device"] = _HOST
    try:
        return exporter.__dlpack__(**asked)
    except TypeError:  # a producer from before DLPack 1.0
        asked.pop("max_version")
        asked.pop("dl_device", None)
        return exporter.__dlpack__(**asked)


def _plain(source: object, copy: bool | None) -> object:
    """`source`, or a copy where PyTorch holds negative or conjugate values beside a flag.

    Its capsules of the former show the values without their sign, and it refuses the latter.
    """
    if type(source).__module__.partition(".")[0] != "torch":
        return source
    for flag, resolved in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
        if not getattr(source, flag)():
            continue
        if copy is False:
            raise ExchangeError(
                f"[from_dlpack] {flag}() says that the memory holds other values: allow a copy, or "
                f"give .{resolved}()"
            )
        source = getattr(source, resolved)()
    return source


def _dense_order(sizes: Sequence[int], strides: Sequence[int]) -> list[int] | None:
    """The axes from the outermost in memory to the innermost; None where gaps are between.

    Axes that do not move (of one element, or with stride 0) are left out.
    """
    if 0 in sizes:
        return []
    moving = [axis for axis, size in enumerate(sizes) if size > 1 and strides[axis]]
    moving.sort(key=lambda axis: -abs(strides[axis]))
    step = 1
    for axis in reversed(moving):
        if abs(strides[axis]) != step:
            return None
        step *= sizes[axis]
    return moving


def _arranged(base: Node, order: list[int], found: dlpack.Import | CudaArray) -> Node:
    """Dense memory in the order of its axes, as the tensor that its strides describe."""
    sizes, strides = found.sizes, found.strides
    if 0 in sizes:
        return reshape(base, sizes)
    node = move_axes(reshape(base, tuple(sizes[axis] for axis in order)), _ranks(order))
    node = reshape(node, tuple(n if axis in order else 1 for axis, n in enumerate(sizes)))
    flips = tuple(axis for axis in sorted(order) if strides[axis] < 0)
    if flips:
        node = Node(Op.FLIP, node.dtype, (node,), flips)
    return expand(node, sizes)


def _ranks(order: list[int]) -> list[int]:
    """Where each axis, from the first on, stands in `order`."""
    return [order.index(axis) for axis in sorted(order)]


def _bytes_at(address: int, nbytes: int) -> memoryview:
    return memoryview((ctypes.c_uint8 * nbytes).from_address(address))


def _array_of(
    found: dlpack.Import | CudaArray, bytes_at: Callable[[int, int], memoryview]
) -> Array:
    """The memory as an array, whatever its strides; `bytes_at(address, n)` shows it."""
    import numpy as np

    from ...dtype import _to_np_dtype

    dtype = _to_np_dtype(found.dtype)
    if 0 in found.sizes:
        return np.empty(found.sizes, dtype)
    reach = [(n - 1) * s for n, s in zip(found.sizes, found.strides, strict=True)]
    lowest = sum(r for r in reach if r < 0) * dtype.itemsize
    nbytes = sum(r for r in reach if r > 0) * dtype.itemsize - lowest + dtype.itemsize
    memory = bytes_at(found.address + lowest, nbytes)
    strides = [stride * dtype.itemsize for stride in found.strides]
    return np.ndarray(found.sizes, dtype, memory, -lowest, strides)
