"""Kernels made by hand and run on one backend, past the scheduler and the optimiser.

    run(backend, elementwise([dtypes.int32], [dtypes.int32], lambda x: [x + 1], 40, 4), [out, a])

`elementwise` builds the AST of a map over flat arrays; `run` lowers, prints, compiles and launches
any AST; `apply` does both, and makes the room for the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from treadle.dtype import DType, dtypes
from treadle.engine.devices import Opened
from treadle.engine.translation import entry_of
from treadle.ir.args import ParamRef
from treadle.ir.elementwise import numpy_dtype
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.linearize import param_bytes
from treadle.lower.passes import Lowered, lower
from treadle.runtime.base import Allocator, Buffer, Entry, Launch, Slot

Index = Callable[[Node], Node]


def param(slot: int, dtype: DType, size: int) -> Node:
    """Kernel argument `slot`."""
    return Node(Op.PARAM, dtype, (), ParamRef(slot, size))


def load(memory: Node, index: Node, *gate: Node) -> Node:
    """One element; with a gate and another value, that value where the gate is false."""
    return Node(Op.LOAD, memory.dtype, (memory, index, *gate))


def loops(size: int, lanes: int, work_items: int = 1) -> tuple[Node, list[Node]]:
    """The position in a map of `size` elements, and its loops: workgroups, work items, lanes."""
    ranges = [Node.range(size // lanes // work_items, 0, "grid")]
    at = ranges[0]
    if work_items > 1:
        ranges.append(Node.range(work_items, 1, "local"))
        at = at * work_items + ranges[-1]
    if lanes > 1:
        ranges.append(Node.range(lanes, 2, "vector"))
        at = at * lanes + ranges[-1]
    return at, ranges


def elementwise(
    sources: Sequence[DType],
    targets: Sequence[DType],
    function: Callable[..., Sequence[Node]],
    size: int,
    lanes: int = 1,
    work_items: int = 1,
) -> Node:
    """out0[i], out1[i], ... = function(source0[i], source1[i], ...); results in the first slots."""
    at, ranges = loops(size, lanes, work_items)
    kinds = [*targets, *sources]
    params = [param(slot, dtype, size) for slot, dtype in enumerate(kinds)]
    values = function(*(load(p, at) for p in params[len(targets) :]))
    stores = [
        Node(Op.STORE, dtypes.void, (memory, at, value))
        for memory, value in zip(params, values, strict=False)
    ]
    return Node.sink([Node(Op.END, dtypes.void, (*stores, *ranges), len(stores))])


def apply(
    backend: Opened,
    function: Callable[..., Sequence[Node]],
    targets: Sequence[DType],
    arrays: Sequence[tuple[DType, np.ndarray]],
    lanes: int = 1,
) -> list[np.ndarray]:
    """What `function` makes of flat arrays of one size, in one kernel."""
    size = arrays[0][1].size
    ast = elementwise([dtype for dtype, _ in arrays], targets, function, size, lanes)
    rooms = [empty(dtype, size) for dtype in targets]
    return run(backend, ast, [*rooms, *(array for _, array in arrays)])[: len(targets)]


def lowered(backend: Opened, ast: Node) -> Lowered:
    """The linear programs of `ast` for a backend."""
    slots = [n.arg.slot for n in ast.toposort() if n.op is Op.PARAM]
    return lower(ast, max(slots) + 1, backend.target)


def source(backend: Opened, ast: Node, name: str = "k") -> str:
    """What the backend's renderer prints."""
    low = lowered(backend, ast)
    return backend.renderer.render(name, low.phases, low.variables)


def run(
    backend: Opened,
    ast: Node,
    arrays: Sequence[np.ndarray],
    variables: Sequence[int] = (),
    offset: int = 0,
) -> list[np.ndarray]:
    """All arguments after one launch with copies of `arrays`, in the order of the slots.

    Each copy begins `offset` bytes after the start of a block of memory.
    """
    return launch(backend, lowered(backend, ast), arrays, variables, offset)


def launch(
    backend: Opened,
    low: Lowered,
    arrays: Sequence[np.ndarray],
    variables: Sequence[int] = (),
    offset: int = 0,
) -> list[np.ndarray]:
    """As `run`, for linear programs."""
    code = backend.compiler.compile(backend.renderer.render("k", low.phases, low.variables))
    fields = [entry_of(f"k_{i}", phase, low.variables, 0) for i, phase in enumerate(low.phases)]
    entries = [
        Entry(symbol, grid, work_items, tuple(Slot(*s) for s in slots), tuple(used), *rest)
        for symbol, grid, work_items, slots, used, *rest in fields
    ]
    runtime = backend.runtime
    library = runtime.load(code, entries)
    buffers = [_room(runtime.allocator, array.nbytes, offset) for array in arrays]
    for buffer, array in zip(buffers, arrays, strict=True):
        runtime.write(buffer, memoryview(np.ascontiguousarray(array).view(np.uint8)))
    scratch = [runtime.allocator.alloc(param_bytes(s)) for s in low.scratch]
    arguments = [buffer.argument for buffer in (*buffers, *scratch)]
    runtime.run([Launch(library.phases, arguments, list(variables))])
    runtime.synchronize()
    results = [np.empty_like(np.ascontiguousarray(array)) for array in arrays]
    for buffer, result in zip(buffers, results, strict=True):
        runtime.read(buffer, memoryview(result.view(np.uint8)))
    return results


def _room(allocator: Allocator, nbytes: int, offset: int) -> Buffer:
    """Memory that begins `offset` bytes after the start of a block."""
    block = allocator.alloc(offset + nbytes)
    return allocator.from_pointer(block.argument + offset, nbytes, block) if offset else block


def empty(dtype: DType, size: int) -> np.ndarray:
    """Room for a result, filled with a pattern that no test expects."""
    return np.full(size * dtype.itemsize, 0xA5, np.uint8).view(numpy_dtype(dtype))
