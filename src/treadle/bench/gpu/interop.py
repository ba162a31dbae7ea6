"""Memory that PyTorch and treadle share on one GPU: no copies, streams in order, owners alive."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .findings import Findings, Skipped

if TYPE_CHECKING:
    import torch

    from ...tensor import Tensor

__all__ = ["run"]

_CYCLES = 200_000_000  # a tenth of a second in which a stream is busy
_DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip


def run(findings: Findings) -> None:
    """With PyTorch's CUDA tensors; what is treadle's own half also on an emulated GPU."""
    findings.check("a blob of memory of our own", _own_blob)
    findings.check("an array of our own memory", _own_array)
    with contextlib.suppress(Skipped):
        _torch()  # to import it for the first time takes long, which is no check's fault
    for name, function in _WITH_PYTORCH.items():
        findings.check(name, lambda f=function: f(_torch()))


def _torch() -> ModuleType:
    if importlib.util.find_spec("torch") is None:
        raise Skipped("PyTorch is not installed")
    try:
        import torch
    except Exception as error:  # it is PyTorch's own trouble
        raise Skipped(f"PyTorch cannot be imported: {error}") from error
    if not torch.cuda.is_available():
        raise Skipped("PyTorch sees no CUDA device")
    return torch


def _address(x: Tensor) -> int:
    from ...engine.memory import memory_of
    from ...tensor.exchange.movements import memory_below

    _, memory = memory_below(x, lambda moves, base: memory_of(base.arg) is not None)
    return memory.buffer.argument


def _same(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{found}, not {expected}")


class _Owner:
    """Memory of treadle's as somebody else's."""

    def __init__(self) -> None:
        from ... import Tensor

        self.tensor = Tensor([1.0, 2.0, 3.0, 4.0], device="CUDA").realize()
        self.__cuda_array_interface__ = {
            "shape": (2, 2), "typestr": "<f4", "version": 3, "strides": None, "stream": 1,
            "data": (_address(self.tensor), False),
        }  # fmt: skip


def _own_blob() -> None:
    from ... import Tensor, dtypes

    owner = _Owner()
    watch, address = weakref.ref(owner), _address(owner.tensor)
    x = Tensor.from_blob(address, (2, 2), dtypes.float32, "CUDA", owner=owner)
    del owner
    gc.collect()
    _same(watch() is not None, True)
    _same((x * 2).tolist(), [[2, 4], [6, 8]])
    _same(_address(x), address)
    del x
    gc.collect()
    _same(watch(), None)


def _own_array() -> None:
    from ... import Tensor

    owner = _Owner()
    x = Tensor.from_cuda_array(owner)
    _same((x + 1).tolist(), [[2, 3], [4, 5]])
    _same(_address(x), _address(owner.tensor))


# -- PyTorch ----------------------------------------------------------------------------------


def _blob(torch: ModuleType, t: torch.Tensor, **how: Any) -> Tensor:
    from ... import Tensor
    from ...dtype import _from_torch_dtype

    dtype = _from_torch_dtype(t.dtype)
    return Tensor.from_blob(t.data_ptr(), tuple(t.shape), dtype, "CUDA", owner=t, **how)


def _from_blob(torch: ModuleType) -> None:
    t = torch.arange(6.0, device="cuda").reshape(2, 3)
    x = _blob(torch, t)
    _same(_address(x), t.data_ptr())
    t.add_(1)
    _same((x * 2).tolist(), (t * 2).tolist())
    x.assign(x + 10).realize()
    _same(t.tolist(), x.tolist())


def _all_dtypes(torch: ModuleType) -> None:
    from ... import Tensor

    for name in _DTYPES:
        t = torch.tensor([0, 1, 2, 3], device="cuda").to(getattr(torch, name))
        x = _blob(torch, t)
        _same(torch.from_dlpack(x.cast("float32") if "float8" in name else x).tolist(), t.tolist())
        if "float8" not in name:  # of which DLPack is young
            _same(_address(Tensor.from_dlpack(t)), t.data_ptr())


def _owner_lives(torch: ModuleType) -> None:
    t = torch.ones(1 << 20, device="cuda")
    watch, x = weakref.ref(t), _blob(torch, t)
    del t
    gc.collect()
    torch.cuda.empty_cache()
    other = torch.zeros(1 << 20, device="cuda")
    _same(float(x.sum().item()), float(1 << 20))
    del x, other
    gc.collect()
    _same(watch(), None)


def _default_stream(torch: ModuleType) -> None:
    t = torch.zeros(1 << 16, device="cuda")
    x = _blob(torch, t)
    torch.cuda._sleep(_CYCLES)
    t.fill_(3)
    y = (x * 2).realize()  # after PyTorch's work
    t.fill_(5)  # after ours
    _same(set(y.tolist()), {6.0})
    _same(set(t.tolist()), {5.0})


def _given_stream(torch: ModuleType) -> None:
    stream = torch.cuda.Stream()
    t = torch.zeros(1 << 16, device="cuda")
    torch.cuda.synchronize()
    _side_stream(torch, t, _blob(torch, t, stream=stream.cuda_stream), stream)


def _current_stream(torch: ModuleType) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        t = torch.zeros(1 << 16, device="cuda")
        _side_stream(torch, t, _blob(torch, t), stream)


def _side_stream(torch: ModuleType, t: torch.Tensor, x: Tensor, stream: torch.cuda.Stream) -> None:
    with torch.cuda.stream(stream):
        torch.cuda._sleep(_CYCLES)
        t.fill_(3)
        y = (x * 2).realize()
        t.fill_(5)
    _same(set(y.tolist()), {6.0})
    stream.synchronize()
    _same(set(t.tolist()), {5.0})


def _capture(torch: ModuleType) -> None:
    """What dies while PyTorch captures a graph does not break it, and what is used is refused."""
    from ... import Tensor
    from ...errors import DeviceError

    t, graph = torch.zeros(16, device="cuda"), torch.cuda.CUDAGraph()
    x = Tensor([1.0, 2.0], device="CUDA").realize()
    lent, step = torch.from_dlpack(x), (x * 3).exp().realize()
    refused = ""
    with torch.cuda.graph(graph):
        t.add_(1)
        del x, lent, step
        gc.collect()
        try:
            _blob(torch, t).tolist()
        except DeviceError as error:
            refused = str(error)
    if "captures a CUDA graph" not in refused:
        raise AssertionError(refused or "nothing was refused")
    for _ in range(3):
        graph.replay()
    _same(set(t.tolist()), {3.0})
    _same((Tensor([1.0, 2.0], device="CUDA") + 1).tolist(), [2.0, 3.0])


def _dlpack_out(torch: ModuleType) -> None:
    from ... import Tensor

    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="CUDA").realize()
    t = torch.from_dlpack(x)
    _same((str(t.device), t.data_ptr()), ("cuda:0", _address(x)))
    big = (Tensor.ones(2048, 2048, device="CUDA").contiguous() @ Tensor.ones(2048, 2048)).T
    _same(float(torch.from_dlpack(big).sum()), 2048.0**3)  # what is pending is waited for
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        _same(float(torch.from_dlpack(x * 2).sum()), 20.0)
    del x
    gc.collect()
    _same(t.tolist(), [[1, 2], [3, 4]])


def _dlpack_in(torch: ModuleType) -> None:
    from ... import Tensor

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        t = torch.zeros(1 << 16, device="cuda")
        torch.cuda._sleep(_CYCLES)
        t.fill_(7)
        x = Tensor.from_dlpack(t)
        _same(_address(x), t.data_ptr())
        _same(float((x * 1).sum().item()), 7.0 * (1 << 16))


def _arrays(torch: ModuleType) -> None:
    from ... import Tensor

    t = torch.arange(12.0, device="cuda").reshape(3, 4)
    x = Tensor.from_cuda_array(t.T)
    _same((_address(x), x.tolist()), (t.data_ptr(), t.T.tolist()))
    y = Tensor([1.0, 2.0, 3.0], device="CUDA").realize()
    back = torch.as_tensor(y, device="cuda")
    _same((back.data_ptr(), back.tolist()), (_address(y), [1, 2, 3]))


_WITH_PYTORCH = {
    "from_blob is the same memory": _from_blob,
    "every dtype": _all_dtypes,
    "the owner lives as long as the tensor": _owner_lives,
    "work is ordered with the default stream": _default_stream,
    "work is ordered with a stream of PyTorch's": _given_stream,
    "work is ordered with PyTorch's current stream": _current_stream,
    "a graph that PyTorch captures is left alone": _capture,
    "DLPack to PyTorch": _dlpack_out,
    "DLPack from PyTorch, on a stream": _dlpack_in,
    "__cuda_array_interface__ both ways": _arrays,
}
