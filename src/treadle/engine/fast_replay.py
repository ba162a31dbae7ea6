"""The fast path of a replay: only what may have changed since the last one is looked at.

    settled = Settled(glances)
    straight = straight_of(capture, span)     None where a replay is more than that
    if settled.still(capture) and (memories := at_a_glance(args, settled.glances)) is not None:
        result = straight.run(capture, memories)

After a kernel that streamed through the caches, whatever the host touches comes from memory, and so
do the lines of the interpreter that touch it. So a call looks at its arguments, and at the numbers
of `change_counters` in place of all that the captured function reads; results are made before the
kernels run, while the interpreter's lines are still there, and have no node before somebody asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..config import scope, settings
from ..ir.node import Node
from ..ir.op import Op
from ..runtime.base import Buffer
from .arguments import Found, Glance, exchanged, signature_of
from .capture import Capture, step_state
from .change_counters import changes
from .counters import count
from .devices import Device
from .memory import Memory, Promise, moment
from .steps import BetweenRuns
from .storages import Captured

__all__ = ["Settled", "Straight", "straight_of"]


class Watching(Protocol):
    """What reads more than its arguments: a capture."""

    def moved_since(self) -> bool:
        """Whether something that is read has got another node."""
        ...


class Settled:
    """Under which circumstances a capture may be replayed for arguments that are like `glances`."""

    __slots__ = ("_meaning", "_scope", "_training", "glances")

    def __init__(self, glances: list[Glance]) -> None:
        self.glances, self._meaning = glances, 0
        self._scope: Mapping[str, object] = scope()
        self._training = settings.TRAINING

    def still(self, capture: Watching) -> bool:
        """Whether nothing can have changed but the arguments."""
        here = scope()
        if here is not self._scope and here != self._scope:
            return False
        return changes.meaning == self._meaning or self._again(capture)

    def _again(self, capture: Watching) -> bool:
        now = changes.meaning
        if changes.captures or not settings.JIT:
            return False
        if settings.CHECK_NAN or settings.CHECK_INDEX > 1:
            return False
        if settings.CHECK_KERNELS or settings.DEBUG >= 2:
            return False
        if settings.TRAINING != self._training:
            return False
        if capture.moved_since():
            return False
        self._meaning = now
        return True


class _Output(NamedTuple):
    """What is made for one result in each replay."""

    alloc: Callable[[int], Buffer]
    nbytes: int
    promise: Promise
    template: Captured  # the captured tensor


class Straight:
    """A capture of kernels and calls of groups, whose arguments and results have plain memory.

    `span` gets the moments when a replay began and ended to assign to memory.
    """

    __slots__ = (
        "_has_state", "_is_one", "_kept", "_known", "_outputs", "_places", "_remembers", "_runs",
        "_span", "_stays", "_values",
    )  # fmt: skip

    def __init__(
        self,
        capture: Capture,
        outputs: dict[int, _Output],
        stays: dict[int, Captured],
        span: list[int],
    ) -> None:
        self._outputs, self._stays, self._span = [*outputs.values()], stays, span
        self._is_one = any(output.template is capture.result[0] for output in self._outputs)
        self._has_state = bool(capture.state)
        self._kept = [kept for kept in capture.kept if kept.nbytes]
        self._runs = [*_in_order(capture)]
        self._places = [capture.patches.get(n, ()) for n in (*map(id, capture.inputs), *outputs)]
        # An address that is where it was is not written again; a handle would be kept alive.
        devices = {run.program.device for run in capture.runs}  # calls of groups take addresses
        self._remembers = all(Device[device].runtime.has_addresses for device in devices)
        self._known: list[object] = [None] * len(self._places)
        self._values: Mapping[str, int] = {}  # that the launches have now
        if not capture.overwritten:
            span[:] = 0, 0

    def run(self, capture: Capture, memories: Sequence[Memory]) -> Any:
        """The result for arguments in these `memories`, which are like the captured ones.

        Two threads must not run it at once.
        """
        known, place = self._known, 0
        if self._has_state:
            step_state(capture)
        for memory in memories:
            argument = memory.buffer.argument
            if argument != known[place]:
                self._move(place, argument)
            place += 1
        made: list[Captured] = []
        for alloc, nbytes, promise, template in self._outputs:
            buffer = alloc(nbytes)
            if buffer.argument != known[place]:
                self._move(place, buffer.argument)
            place += 1
            made.append(template._to_be(buffer, promise))
        self._launch(capture)
        return made[0] if self._is_one else self._result(capture, made)

    @property
    def places(self) -> int | None:
        """How many addresses `run_at` takes; None where results are more than new memory."""
        return None if self._stays or not self._remembers else len(self._places)

    def run_at(self, capture: Capture, addresses: Sequence[int], values: Mapping[str, int]) -> None:
        """The same, from memory at these addresses into memory there: arguments, then results.

        `values` are those of variables. Whoever asks has their memory, and knows that the arguments
        are like the captured ones. Two threads must not run it at once.
        """
        if self._has_state:
            step_state(capture)
        known = self._known
        for place, address in enumerate(addresses):
            if address != known[place]:
                self._move(place, address)
        if values != self._values:
            for calls, call, slot, name in capture.variables:
                calls.set_var(call, slot, values[name])
            self._values = values
        self._launch(capture)

    def _launch(self, capture: Capture) -> None:
        if capture.overwritten:
            self._write(capture)
        start = time.perf_counter()
        for kept in self._kept:
            kept.refresh()
        for run in self._runs:
            run()
        count(capture.work, time.perf_counter() - start)

    def forget(self) -> None:
        """Others have replayed the capture: its launches have their arguments and results."""
        self._known = [None] * len(self._known)
        self._values = {}

    def _move(self, place: int, argument: object) -> None:
        self._known[place] = None  # until it stands everywhere
        for calls, call, slot in self._places[place]:
            calls.set_arg(call, slot, argument)
        if self._remembers:
            self._known[place] = argument

    def _write(self, capture: Capture) -> None:
        begin = moment()
        for memory in capture.overwritten:
            memory.changed = begin
        changes.of_memory()
        self._span[:] = begin, moment()

    def _result(self, capture: Capture, made: list[Captured]) -> Any:
        new = {id(o.template): tensor for o, tensor in zip(self._outputs, made, strict=True)}
        return exchanged(capture.result[0], self._stays | new)


def _in_order(capture: Capture) -> Iterator[Callable[[], None]]:
    """What a replay calls."""
    for place, step in enumerate([*capture.replay, None]):
        for call in capture.awaited.get(place, ()):
            yield call.finish
        if step is not None:
            yield step.run


def straight_of(capture: Capture, span: list[int]) -> Straight | None:
    """How `capture`, whose arguments have plain memory of their own, is replayed, if straight."""
    if any(isinstance(step, BetweenRuns) for step in capture.replay):
        return None
    if not capture.replay or capture.given:
        return None
    found, stays = Found(), {}
    signature_of(capture.result[0], found)
    owned = set(map(id, capture.made))
    outputs: dict[int, _Output] = {}
    for tensor, (node, memories) in zip(found.tensors, capture.returned, strict=True):
        if owned.isdisjoint(map(id, memories)):
            stays[id(tensor)] = tensor
        elif len(memories) > 1 or id(memories[0]) in outputs or not _is_plain(node, memories[0]):
            return None
        else:
            [memory] = memories
            nbytes = memory.size * memory.dtype.itemsize or 1
            promise = Promise(memory.dtype, memory.size, memory.device, node.shape)
            alloc = Device[memory.device].allocator.alloc
            outputs[id(memory)] = _Output(alloc, nbytes, promise, tensor)
    if found.sizes or outputs.keys() != owned:
        return None
    return Straight(capture, outputs, stays, span)


def _is_plain(node: Node, memory: Memory) -> bool:
    base = node.src[0] if node.op is Op.RESHAPE else node
    return base.op is Op.BUFFER and memory.image is None
