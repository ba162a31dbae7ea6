"""Launches as a CUDA graph: one call to the driver starts all of them.

    calls = device.call_list(launches)
    calls.set_arg(0, 1, other.argument)   # changes the nodes of launch 0 before the next run
    calls.run()

The graph is made at the first run that is not timed. A node waits for those before it that use the
same memory (`order`); the others may run beside it. Where arguments come to share memory that did
not share it before, the graph is made anew. A run that is under way keeps the arguments that it was
started with.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

from treadle.runtime.cuda.order import Cell, Order, Use
from treadle.runtime.cuda.tensor_maps import has_to_be_aligned, is_aligned, tensor_map

from .driver import Executable, Graph, GraphNode, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from treadle.runtime.base import Entry, Launch
    from treadle.runtime.cuda.driver import Argument, Context, DeviceFacts, Dim, Kernel

__all__ = ["CUDACallList", "Phase"]


class Phase(NamedTuple):
    """One kernel function and what a launch of it takes."""

    kernel: Kernel
    entry: Entry

    @property
    def sizes(self) -> tuple[Dim, Dim]:
        """Blocks of the grid, threads of a block."""
        return (self.entry.grid, 1, 1), (self.entry.work_items, 1, 1)

    def describe(self, facts: DeviceFacts) -> str:
        """What the compiled code needs, and how many of its blocks run side by side."""
        needs, threads = self.kernel.facts, self.entry.work_items
        blocks = self.kernel.blocks_per_multiprocessor(threads, self.entry.shared)
        shared = needs.shared + self.entry.shared
        spilled = f", {needs.local} bytes of local memory" if needs.local else ""
        return (
            f"{self.entry.symbol}: {self.entry.grid} blocks of {threads} threads, "
            f"{needs.registers} registers, {shared} bytes shared{spilled}; {blocks} blocks "
            f"for each of {facts.multiprocessors} multiprocessors at a time"
        )

    def arguments(
        self, context: Context, args: Sequence[int], variables: Sequence[int]
    ) -> list[Argument]:
        """What this function has of a launch, in its order: addresses, integers, tensor maps."""
        found: list[Argument] = [("address", args[slot.number]) for slot in self.entry.slots]
        found += [("int32", variables[place]) for place in self.entry.variables]
        for boxes in self.entry.boxes:
            found.append(("tensor_map", tensor_map(context, boxes, args[boxes.number])))
        return found


class _Device(Protocol):
    """What a list of launches asks of its device, a CUDADevice."""

    @property
    def context(self) -> Context: ...

    @property
    def stream(self) -> Stream: ...

    def working(self, what: str, names: Sequence[str] = ()) -> AbstractContextManager[None]: ...
    def start(self, phase: Phase, args: Sequence[int], variables: Sequence[int]) -> None: ...
    def synchronize(self) -> None: ...
    def discard(self, graph: Graph, executable: Executable | None) -> None: ...


class _Graph:
    """A graph and the executable that was made of it; both go when this is collected.

    `kept` is the code that it runs, which goes after it.
    """

    def __init__(self, device: _Device, handle: Graph, kept: object) -> None:
        self._device, self.handle, self._kept = device, handle, kept
        self.executable: Executable | None = None

    @property
    def ready(self) -> Executable:
        assert self.executable is not None  # whoever has made the graph has instantiated it
        return self.executable

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            self._device.discard(self.handle, self.executable)


class CUDACallList:
    """Launches that can be replayed."""

    def __init__(self, device: _Device, launches: Sequence[Launch], keep: object) -> None:
        self._device, self._keep = device, keep
        self._phases: list[list[Phase]] = [list(launch.phases) for launch in launches]
        self._args = [list(launch.args) for launch in launches]
        self._vars = [list(launch.vars) for launch in launches]
        self._choosy = [  # what may need other memory
            (call, phase.entry)
            for call, phases in enumerate(self._phases)
            for phase in phases
            if has_to_be_aligned(phase.entry)
        ]
        symbols = (phase.entry.symbol for phases in self._phases for phase in phases)
        self._names = list(dict.fromkeys(symbols))
        self._changed: set[int] = set()
        self._moved: dict[Cell, int] = {}  # since the graph was made
        self._graph: _Graph | None = None
        self._order: Order | None = None
        self._nodes: list[list[GraphNode]] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._phases)

    def set_arg(self, call: int, slot: int, argument: int) -> None:
        """Replaces the memory in argument `slot` of launch `call`."""
        if self._args[call][slot] != argument:
            self._args[call][slot] = argument
            self._changed.add(call)
            self._moved[call, slot] = argument

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Replaces the integer in variable `slot` of launch `call`."""
        if self._vars[call][slot] != value:
            self._vars[call][slot] = value
            self._changed.add(call)

    def run(self) -> None:
        """Starts every launch; the device goes on by itself."""
        if not self._names:
            return
        device = self._device
        with device.working("launch a graph", self._names), self._lock:
            if not self._is_aligned():
                self._run_each()
                return
            if self._graph is None:
                self._graph = self._instantiated()
            elif self._changed:
                self._graph = self._brought_up_to_date(self._graph)
            self._changed.clear()
            device.context.launch_graph(self._graph.ready, device.stream)

    def _is_aligned(self) -> bool:
        """Whether a graph can hold the launches: none needs other memory than it is given."""
        return all(is_aligned(entry, self._args[call]) for call, entry in self._choosy)

    def _run_each(self) -> None:
        for phases, args, variables in zip(self._phases, self._args, self._vars, strict=True):
            for phase in phases:
                self._device.start(phase, args, variables)

    def run_timed(self) -> list[tuple[int, int]]:
        """Runs every launch by itself; the start and end of each, in ns of the device's clock."""
        device, context = self._device, self._device.context
        device.synchronize()
        count = len(self)
        with device.working("time kernels", self._names), self._lock:
            events = [context.new_event(True) for _ in range(2 * count)]
            try:
                for call in range(count):
                    context.record(events[2 * call], device.stream)
                    for phase in self._phases[call]:
                        device.start(phase, self._args[call], self._vars[call])
                    context.record(events[2 * call + 1], device.stream)
                context.wait_stream(device.stream)
                times = []
                for start, end in zip(events[::2], events[1::2], strict=True):
                    began = int(context.elapsed(events[0], start))
                    times.append((began, began + int(context.elapsed(start, end))))
            finally:
                for event in events:
                    context.delete_event(event)
        return times

    # -- the graph --------------------------------------------------------------------------------

    def _instantiated(self) -> _Graph:
        context, order = self._device.context, self._ordered()
        graph, nodes, rows = _Graph(self._device, context.new_graph(), self._phases), [], []
        for call, phases in enumerate(self._phases):
            row = []
            for phase in phases:
                given = phase.arguments(context, self._args[call], self._vars[call])
                grid, block = phase.sizes
                after = [nodes[number] for number in order.before[len(nodes)]]
                shared = phase.entry.shared
                node = context.add_kernel(
                    graph.handle, after, phase.kernel, grid, block, shared, given
                )
                row.append(node)
                nodes.append(node)
            rows.append(row)
        graph.executable = context.instantiate(graph.handle)
        self._nodes, self._order = rows, order
        self._moved.clear()
        return graph

    def _ordered(self) -> Order:
        """The order of all phases over the memory that the arguments are now."""
        addresses = {
            (call, number): address
            for call, args in enumerate(self._args)
            for number, address in enumerate(args)
        }
        functions = [
            [Use((call, slot.number), slot.nbytes, slot.is_written) for slot in phase.entry.slots]
            for call, phases in enumerate(self._phases)
            for phase in phases
        ]
        return Order(addresses, functions)

    def _brought_up_to_date(self, graph: _Graph) -> _Graph:
        """The graph with the arguments that were set, or a new one where its order is another."""
        if self._order is None or not self._order.holds(self._moved):
            return self._instantiated()
        context = self._device.context
        for call in self._changed:
            for phase, node in zip(self._phases[call], self._nodes[call], strict=True):
                given = phase.arguments(context, self._args[call], self._vars[call])
                context.update_kernel(graph.ready, node, given)
        return graph
