"""Random bits: the same on every device, for every number of threads, and under replay.

    random_words((2, 3), "CPU")                         two uint32 for each of 6 elements, flat
    uniform((2, 3), "CPU", dtypes.float32, True)        the node of numbers in [0, 1)

Each device has a small buffer: a key and the number of calls so far. A call moves that number on,
as an assignment in the graph, so that a captured graph draws new numbers at each replay; element i
of call c is Threefry-2x32 (Salmon et al., 2011, 20 rounds) of (i, c) under the key.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time

from ..dtype import DType, dtypes
from ..engine.memory import from_host
from ..engine.realized import current, resolve
from ..engine.storages import shown, storage_of
from ..errors import DeviceError
from ..forks import fork_safe
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape
from ..ir.views import operand
from .basis.core import Core
from .examples import Examples, running
from .inplace import write
from .shapes import expand, reshape

__all__ = ["random_words", "seed_all", "uniform", "unit"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
# random bits that a float type's fraction holds, its leading 1 counted
_PRECISION = {
    dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.fp8e4m3: 4,
    dtypes.fp8e5m2: 3,
}  # fmt: skip

_lock = fork_safe(threading.RLock(), 1)
_states: dict[str, Core] = {}
_seed = int(time.time())


def seed_all(seed: int) -> None:
    """Start every device's random numbers anew, those that captured functions draw, too."""
    global _seed
    with _lock:
        _seed = seed
        for device, state in [*_states.items()]:
            del _states[device]
            with contextlib.suppress(DeviceError):  # of a device that is lost
                write(state, _first_state(device))  # in the memory that captured functions have
                _states[device] = state.realize()


def uniform(shape: Shape, device: str, dtype: DType, in_memory: bool) -> Node:
    """Floats in [0, 1) in `shape`, computed once into memory of their own if `in_memory`."""
    low, high = random_words(shape, device)
    node = reshape(unit(low, high, dtype), shape)
    return Node(Op.CONTIGUOUS, dtype, (node,)) if in_memory else node


def _first_state(device: str) -> Node:
    """(key, key, no calls) by the seed, in memory of its own."""
    import numpy as np

    words = [_seed & 0xFFFFFFFF, _seed >> 32 & 0xFFFFFFFF, 0]
    return from_host(device, dtypes.uint32, np.array(words, np.uint32))


def _next_state(device: str) -> Node:
    """The device's (key, key, calls) after one more call."""
    with _lock:
        state = _states.get(device)
        if state is None:
            state = _states[device] = Core._in_memory(_first_state(device), device)
        node = resolve(state.node)
        if node.op is Op.AFTER and resolve(operand(node)) is not operand(node):
            # A draw that nothing has computed yet, after ones that have been: on their memory, as
            # computing it would see it. The node itself would keep all of them.
            [state.node] = current([node])[0]
            storage_of(state).node = state.node
        count = ((Op.SHRINK, ((2, 3),)),)
        write(state, shown(count, state.node) + 1, count)
        return state.node


def _word(state: Node, place: int, count: int) -> Node:
    return expand(Node(Op.SHRINK, state.dtype, (state,), ((place, place + 1),)), (count,))


def random_words(shape: Shape, device: str) -> tuple[Node, Node]:
    """Two independent uint32 for each element, flat."""
    return _drawn(math.prod(shape), device, running())


def _drawn(count: int, device: str, calls: tuple[Examples, ...]) -> tuple[Node, Node]:
    """As `_random_words`, inside of these calls of vmap."""
    if not calls:
        return _threefry(count, device)
    *outer, call = calls
    if call.randomness == "same":
        return _drawn(count, device, tuple(outer))
    low, high = (
        call.stand_in(reshape(words, (call.size, count)), device)
        for words in _drawn(call.size * count, device, tuple(outer))
    )
    return low, high


def _threefry(count: int, device: str) -> tuple[Node, Node]:
    """Two independent uint32 for each of `count` elements of the next call."""
    state = _next_state(device)
    keys = [_word(state, 0, count), _word(state, 1, count)]
    keys.append(keys[0] ^ keys[1] ^ _PARITY)
    left, right = Node(Op.IOTA, dtypes.uint32, (), count), _word(state, 2, count)
    left, right = left + keys[0], right + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            left = left + right
            right = ((right << rotation) | (right >> (32 - rotation))) ^ left
        left = left + keys[(group + 1) % 3]
        right = right + keys[(group + 2) % 3] + (group + 1)
    return left, right


def unit(word: Node, more: Node, dtype: DType) -> Node:
    """Random bits as a float in [0, 1), every value equally far from the next."""
    if dtype is dtypes.float64:
        high = (word >> 5).cast(dtype) * float(1 << 26)
        return (high + (more >> 6).cast(dtype)) * 2.0**-53
    bits = _PRECISION[dtype]
    wide = dtypes.float32
    return ((word >> (32 - bits)).cast(wide) * 2.0**-bits).cast(dtype)
