"""Calls of groups on memory of CUDA devices, which NCCL exchanges without the host's.

    connected = nccl_for(group, call, memory)                   None: through the host's memory
    arrived = by_nccl(connected, call, shape, operands, targets)    what to wait with, if anything

A call of more than SMALL bytes runs while this process computes, as those on the host's memory do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..config import settings
from ..runtime.communicator import Call, Communicator
from .background_calls import call_in_order, in_one_step, run_in_order
from .devices import Device
from .memory import Memory

if TYPE_CHECKING:
    from ..runtime.nccl import NCCLCommunicator, Part

__all__ = ["SMALL", "by_nccl", "nccl_for"]

SMALL = 1 << 16  # bytes that are exchanged at once


def nccl_for(group: Communicator, call: Call, memory: Memory) -> NCCLCommunicator | None:
    """What connects the GPUs of the group, if `memory` is a GPU's, and NCCL there and able.

    The first call for a group opens it. Raises DistributedError.
    """
    runtime = Device[memory.device].runtime
    if runtime.shares_memory or not settings.NCCL or group.size == 1 or memory.image is not None:
        return None
    from ..runtime.cuda.device import CUDADevice
    from ..runtime.nccl import connection, is_installed, serves

    is_gpu = isinstance(runtime, CUDADevice) and not runtime.is_software
    if not (is_gpu and is_installed() and serves(call, memory.dtype.name)):
        return None
    found: list[NCCLCommunicator | None] = []
    run_in_order(in_one_step(lambda: found.append(connection(group, runtime, call.where))))
    return found[0]


def by_nccl(
    nccl: NCCLCommunicator,
    call: Call,
    shape: tuple[int, ...],
    operands: Sequence[Memory],
    targets: Sequence[Memory],
) -> Callable[[], object] | None:
    """Make a call with what is given, `operands` in `shape`, and memory for its results.

    What is returned waits for a call that goes on. Raises DistributedError.
    """
    given = [_part(memory) for memory in operands]
    for target in targets:
        target.written()
    results = [_part(target) for target in targets]
    what = f"{operands[0].dtype.name} {shape}"
    begun = nccl.begin(call, results)
    take_part = functools.partial(nccl.take_part, call, what, given, results, begun)
    if max(sum(part.nbytes for part in parts) for parts in (given, results)) <= SMALL:
        run_in_order(in_one_step(take_part))
        return None
    job = call_in_order(in_one_step(take_part))  # it keeps the buffers as long
    waits = [target.arrives(job.wait) for target in targets]
    for memory in operands:
        memory.read_by(job.wait)
    return lambda: [wait() for wait in waits]


def _part(memory: Memory) -> Part:
    from ..runtime.nccl import Part

    return Part(memory.buffer, memory.dtype.name, memory.size, memory.dtype.itemsize)
