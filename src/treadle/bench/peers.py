"""Who is measured: a library and a Work become a function that does the work once, and waits.

    run = PEERS["torch"].prepare(work, work.inputs())
    run()

Nothing is imported before `prepare`; `installed` looks a package up without loading it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .work import Work

__all__ = ["PEERS", "Peer", "Run", "installed"]

Run = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """One way to run a Work; `prepare` gives None where the library has no form of it."""

    package: str
    prepare: Callable[[Work, Sequence[Any]], Run | None]
    default: bool = True


def installed(peer: Peer) -> bool:
    """Whether the package of a peer can be imported here."""
    return importlib.util.find_spec(peer.package) is not None


def _treadle_jit(work: Work, arrays: Sequence[Any]) -> Run:
    from ..engine.jit import TinyJit

    tensors, wait = _treadle_inputs(arrays)
    step = TinyJit(lambda *xs: work.forms.tensor(None, *xs).realize())

    def run() -> None:
        step(*tensors)
        wait()

    return run


def _treadle_lazy(work: Work, arrays: Sequence[Any]) -> Run:
    tensors, wait = _treadle_inputs(arrays)

    def run() -> None:
        work.forms.tensor(None, *tensors).realize()
        wait()

    return run


def _treadle_inputs(arrays: Sequence[Any]) -> tuple[list[Any], Callable[[], Any]]:
    from ..engine.backends import Device
    from ..tensor import Tensor

    return [Tensor(a).realize() for a in arrays], Device[Device.DEFAULT].synchronize


def _torch(work: Work, arrays: Sequence[Any]) -> Run:
    import torch

    tensors = [torch.from_numpy(a) for a in arrays]
    return torch.inference_mode()(lambda: work.forms.torch(torch, *tensors))


def _torch_out(work: Work, arrays: Sequence[Any]) -> Run | None:
    import torch

    form = work.forms.torch_out
    if form is None:
        return None
    tensors = [torch.from_numpy(a) for a in arrays]
    out = torch.empty_like(work.forms.torch(torch, *tensors))
    return torch.inference_mode()(lambda: form(torch, out, *tensors))


def _torch_compile(work: Work, arrays: Sequence[Any]) -> Run:
    import torch

    tensors = [torch.from_numpy(a) for a in arrays]
    compiled = torch.compile(lambda *xs: work.forms.torch(torch, *xs))
    return torch.inference_mode()(lambda: compiled(*tensors))


def _numpy(work: Work, arrays: Sequence[Any]) -> Run | None:
    import numpy as np

    form = work.forms.numpy
    return None if form is None else lambda: form(np, *arrays)


def _jax(work: Work, arrays: Sequence[Any]) -> Run | None:
    import jax

    form = work.forms.jax
    if form is None:
        return None
    compiled, tensors = jax.jit(lambda *xs: form(jax, *xs)), [jax.numpy.asarray(a) for a in arrays]
    return lambda: compiled(*tensors).block_until_ready()


def _tinygrad(work: Work, arrays: Sequence[Any]) -> Run:
    from tinygrad import Device, Tensor, TinyJit

    tensors, device = [Tensor(a).realize() for a in arrays], Device[Device.DEFAULT]
    step = TinyJit(lambda *xs: work.forms.tensor(None, *xs).realize())

    def run() -> None:
        step(*tensors)
        device.synchronize()

    return run


# In the order of the table's columns; the first is what all others are compared with.
PEERS: dict[str, Peer] = {
    "treadle": Peer("treadle", _treadle_jit),
    "treadle lazy": Peer("treadle", _treadle_lazy),
    "torch": Peer("torch", _torch),
    "torch out=": Peer("torch", _torch_out),
    "torch.compile": Peer("torch", _torch_compile, default=False),
    "numpy": Peer("numpy", _numpy),
    "jax": Peer("jax", _jax),
    "tinygrad": Peer("tinygrad", _tinygrad),
}
