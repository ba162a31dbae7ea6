"""Graphs to programs: the only place that knows the order of the stages.

    program_of([(node, "CPU")])  ->  Program, compiled, for any buffers of the same shapes

Scheduling and compiling are remembered twice: a Program for each shape of graph in this process,
and the machine code of each kernel on disk. The same graph over other buffers costs a walk over
its nodes and nothing else.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..config import settings
from ..dtype import ImageDType, dtypes
from ..errors import DeviceError, DTypeError, StaleCodeError
from ..ir.args import BufferRef
from ..ir.loops import closed_ranges, free_ranges
from ..ir.node import Node, toposort
from ..ir.op import ALU, Op
from ..ir.rules.index import remembered
from ..ir.shape import size_max, size_product
from ..ir.symbolic import unbind
from ..ir.text import render as node_text
from ..lower.linearize import Phase as LinearPhase
from ..lower.passes import lower
from ..lower.steps import most_steps
from ..optimize.heuristic import optimize
from ..runtime.base import Entry, Launch, Slot
from ..schedule.images import image_of
from ..schedule.kernel import Kernel
from ..schedule.memory import Life, plan, plan_blocks
from ..schedule.schedule import schedule
from .backends import Device, Opened, compile_cache, digest_of_sources
from .counters import GlobalCounters
from .report import report_compilation

__all__ = ["CompiledKernel", "Program", "program_of"]

FORMAT = "3"


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """Loaded code of one kernel and what a launch of it needs.

    `scratch` holds (bytes) of the memory that it needs beside its buffers; `ops` and `bytes` are
    what one launch does.
    """

    name: str
    library: Any
    entries: tuple[Entry, ...]
    scratch: tuple[int, ...]
    ops: int
    bytes: int
    reason: str
    moves: tuple[str, ...]
    source: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where an argument lives: "input" or "output" number, or in "scratch" block number.

    `offset` is 0 but in scratch memory that has addresses.
    """

    kind: str
    number: int
    offset: int = 0


@dataclass(eq=False)
class Program:
    """Kernels in order, with their arguments as Places. Buffers come with each run.

    `outputs` holds (dtype, elements, image) of the memory made for each output; `roots` says for
    each output of the graph which of `outputs` it is (None: it is an assignment into an input).
    `scratch` are the blocks that intermediate results live in, each so many bytes or a texture,
    `written` the inputs that are assigned to.
    """

    device: str
    kernels: list[CompiledKernel] = field(default_factory=list)
    arguments: list[list[Place]] = field(default_factory=list)
    outputs: list[tuple[Any, int, ImageDType | None]] = field(default_factory=list)
    roots: list[int | None] = field(default_factory=list)
    scratch: list[int | ImageDType] = field(default_factory=list)
    written: frozenset[int] = frozenset()

    @functools.cached_property
    def ops(self) -> int:
        """Operations of one run."""
        return sum(kernel.ops for kernel in self.kernels)

    @functools.cached_property
    def bytes(self) -> int:
        """Bytes of all buffers of all kernels."""
        return sum(kernel.bytes for kernel in self.kernels)

    def launches(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        scratch: Sequence[Any],
        values: dict[str, int],
    ) -> list[Launch]:
        """The launches for these buffers, and these values of the variables."""
        where = {"input": inputs, "output": outputs, "scratch": scratch}

        def argument(place: Place) -> Any:
            found = where[place.kind][place.number].argument
            return found + place.offset if place.offset else found

        return [
            Launch(
                kernel.library.phases,
                [argument(place) for place in places],
                [values[name] for name in kernel.variables],
            )
            for kernel, places in zip(self.kernels, self.arguments, strict=True)
        ]


_programs: dict[Any, Program] = {}
# By device too: code belongs to the one that loaded it.
_kernels: dict[tuple[str, str], CompiledKernel] = {}
_lock = threading.RLock()


def program_of(
    roots: Sequence[Node], device: str
) -> tuple[Program, list[BufferRef], dict[str, int]]:
    """The Program for `roots` on `device`, the buffers and the variables' values to run it with."""
    program, inputs, key = _known(roots, device)
    if program is not None:  # and so there is no BIND in the graph
        return program, inputs, {}
    roots, values = unbind(roots)
    with _lock:
        program, inputs, key = _known(roots, device)
        if program is None:
            program = _programs[key] = _build(roots, device, inputs)
    return program, inputs, values


def _known(roots: Sequence[Node], device: str) -> tuple[Program | None, list[BufferRef], Any]:
    """The Program for a graph if there is one, the graph's buffers in order, and its key."""
    shape, inputs = _shape_of(roots)
    key = (device, settings.REPRODUCIBLE, settings.IMAGE, settings.FLOAT16, shape)
    return _programs.get(key), inputs, key


def _shape_of(roots: Sequence[Node]) -> tuple[Any, list[BufferRef]]:
    """The graph as nested tuples without identities, and its buffers in order."""
    numbers: dict[Node, int] = {}
    tokens: dict[Any, int] = {}
    inputs: list[BufferRef] = []
    rows: list[Any] = []
    for node in toposort(roots):
        numbers[node] = len(numbers)
        arg = node.arg
        if node.op is Op.CONST:
            rows.append(node)
            continue
        if node.op is Op.BUFFER:
            number = tokens.setdefault(arg.token, len(tokens))
            if number == len(inputs):
                inputs.append(arg)
            arg = (number, arg.size, arg.version - inputs[number].version, arg.image)
        rows.append((node.op, node.dtype, tuple([numbers[s] for s in node.src]), arg))
    rows.append(tuple([numbers[root] for root in roots]))
    return tuple(rows), inputs


def _build(roots: Sequence[Node], device: str, inputs: list[BufferRef]) -> Program:
    opened = Device[device]
    with remembered():
        steps, nodes = schedule(roots, device, opened.target)
    program = Program(device)
    places: dict[object, Place] = {ref.token: Place("input", i) for i, ref in enumerate(inputs)}
    stored = {root for root, _ in steps if root.op is not Op.ASSIGN}
    for node in nodes:
        if node in stored and node not in places:
            places[node] = Place("output", len(program.outputs))
            program.outputs.append((node.dtype, size_product(node.shape), image_of(node)))
        found = places.get(node)
        program.roots.append(found.number if found and found.kind == "output" else None)
    steps = [(root, kernel) for root, kernel in steps if _has_work(root)]
    program.kernels = [_compiled(kernel, opened) for _, kernel in steps]
    program.scratch = _place_the_rest(program, steps, places, opened.runtime.has_addresses)
    for kernel, (_, step) in zip(program.kernels, steps, strict=True):
        scratch = [places[kernel, i] for i in range(len(kernel.scratch))]
        program.arguments.append([places[_key(b)] for b in step.buffers] + scratch)
    targets = [places[_key(step.buffers[slot])] for _, step in steps for slot in step.writes]
    program.written = frozenset(p.number for p in targets if p.kind == "input")
    return program


def _has_work(root: Node) -> bool:
    return 0 not in (root.src[0].shape if root.op is Op.ASSIGN else root.shape)


def _key(buffer: Node) -> object:
    return buffer.arg.token if buffer.op is Op.BUFFER else buffer


def _place_the_rest(
    program: Program,
    steps: list[tuple[Node, Kernel]],
    places: dict[object, Place],
    has_addresses: bool,
) -> list[int | ImageDType]:
    """Give intermediate results and the kernels' scratch memory a place in shared blocks.

    Returns the blocks: one where memory has addresses, and one for each texture.
    """
    images: list[int | ImageDType] = []
    for buffer in (buffer for _, step in steps for buffer in step.buffers):
        image = image_of(buffer)
        if image is not None and _key(buffer) not in places:
            places[_key(buffer)] = Place("scratch", len(images))
            images.append(image)
    lives: dict[object, Life] = {}
    for number, (_, step) in enumerate(steps):
        kernel = program.kernels[number]
        for buffer in step.buffers:
            key = _key(buffer)
            if key not in places:
                nbytes = max(1, size_max(size_product(buffer.shape)) * buffer.dtype.itemsize)
                first = lives[key].first if key in lives else number
                lives[key] = Life(first, number, nbytes)
        for i, nbytes in enumerate(kernel.scratch):
            lives[kernel, i] = Life(number, number, nbytes)
        if len({id(k) for k in program.kernels}) < len(program.kernels):
            for i, nbytes in enumerate(kernel.scratch):  # one kernel launched at several steps
                first = min(n for n, k in enumerate(program.kernels) if k is kernel)
                lives[kernel, i] = Life(first, number, nbytes)
    if has_addresses:
        offsets, total = plan(list(lives.values()))
        first = len(images)
        for key, offset in zip(lives, offsets, strict=True):
            places[key] = Place("scratch", first, offset)
        return [*images, total] if total else images
    numbers, sizes = plan_blocks(list(lives.values()))
    for key, number in zip(lives, numbers, strict=True):
        places[key] = Place("scratch", len(images) + number)
    return [*images, *sizes]


# -- one kernel ---------------------------------------------------------------------------------


def _compiled(kernel: Kernel, opened: Opened) -> CompiledKernel:
    text = "\0".join(
        (
            FORMAT, opened.name.partition(":")[0], opened.compiler.name, opened.compiler.version,
            opened.target.code_key, digest_of_sources(), str(settings.REPRODUCIBLE),
            node_text(kernel.ast),
        )
    )  # fmt: skip
    key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    found = _kernels.get((opened.name, key))
    if found is None:
        found = _from_disk(key, kernel, opened) or _compile(key, kernel, opened)
        _kernels[opened.name, key] = found
    return found


def _compile(key: str, kernel: Kernel, opened: Opened) -> CompiledKernel:
    start = time.perf_counter()
    _check_dtypes(kernel, opened)
    with remembered():
        ast, moves = optimize(kernel.ast, opened.target)
        lowered = lower(ast, len(kernel.buffers), opened.target)
    _check_steps(lowered.phases, opened)
    name = f"{_describe(kernel.ast)}_{key[:6]}"
    report_compilation(name, ast, lowered)
    source = opened.renderer.render(name, lowered.phases, lowered.variables)
    code = opened.compiler.compile(source)
    ops, nbytes = _work(kernel)
    header = {
        "name": name,
        "entries": [
            _entry(f"{name}_{number}", phase, lowered.variables, ops + nbytes // 4)
            for number, phase in enumerate(lowered.phases)
        ],
        "scratch": [_param_bytes(s) for s in lowered.scratch],
        "ops": ops,
        "bytes": nbytes,
        "moves": moves,
        "source": source,
        "variables": lowered.variables,
    }
    GlobalCounters.compile_count += 1
    GlobalCounters.compile_time_s += time.perf_counter() - start
    line = json.dumps(header).encode()
    compile_cache().put("kernel:" + key, line + b"\n" + code)
    return _load(json.loads(line), code, kernel.reason, opened)


def _check_dtypes(kernel: Kernel, opened: Opened) -> None:
    """Raises DTypeError if the device has no float64 and the kernel needs it."""
    if dtypes.float64 in opened.target.dtypes:
        return
    if any(node.dtype.scalar is dtypes.float64 for node in kernel.ast.toposort()):
        raise DTypeError(
            f"[realize] {opened.name} has no float64: cast to float32, or compute on a device that "
            "has it, such as the CPU"
        )


def _check_steps(phases: Sequence[LinearPhase], opened: Opened) -> None:
    """Raises DeviceError if a loop is so long that the device's driver would end it early."""
    limit = opened.target.max_steps
    steps = max(map(most_steps, phases), default=0)
    if limit is not None and steps > limit:
        raise DeviceError(
            f"[realize] {opened.name}: one work item would take {steps} loop steps, but the driver "
            f"of {opened.target.name} ends loops after {limit}: compute on another device, such as "
            "the CPU"
        )


def _from_disk(key: str, kernel: Kernel, opened: Opened) -> CompiledKernel | None:
    entry = compile_cache().get("kernel:" + key)
    if entry is None:
        return None
    line, _, code = entry.partition(b"\n")
    try:
        found = _load(json.loads(line), code, kernel.reason, opened)
    except StaleCodeError:  # a driver refuses what it built before: build it anew
        return None
    GlobalCounters.cache_hits += 1
    return found


def _load(header: dict[str, Any], code: bytes, reason: str, opened: Opened) -> CompiledKernel:
    entries = tuple(
        Entry(symbol, grid, items, tuple(Slot(*slot) for slot in slots), tuple(variables), work)
        for symbol, grid, items, slots, variables, work in header["entries"]
    )
    return CompiledKernel(
        header["name"],
        opened.runtime.load(code, entries),
        entries,
        tuple(header["scratch"]),
        header["ops"],
        header["bytes"],
        reason,
        tuple(header["moves"]),
        header["source"],
        tuple(header["variables"]),
    )


def _entry(symbol: str, phase: LinearPhase, variables: Sequence[str], work: int) -> tuple[Any, ...]:
    """The fields of the Entry that describes `phase`, as JSON keeps them."""
    grid = math.prod(r.src[0].arg for r in phase.grid)
    slots = [(p.arg.slot, _param_bytes(p), written) for p, written in phase.params]
    places = [variables.index(name) for name in phase.variables]
    return (symbol, grid, phase.items, slots, places, work)


def _param_bytes(param: Node) -> int:
    return size_max(param.arg.size) * param.dtype.itemsize


def _describe(ast: Node) -> str:
    """A readable name: what the kernel reduces, and the sizes of its loops."""
    kinds = {n.arg.op.name.lower() for n in ast.toposort() if n.op is Op.REDUCE}
    loops = closed_ranges(ast.src[-1])
    sizes = "_".join(str(r.src[0].arg) for r in loops if r.src[0].op is Op.CONST)
    return "_".join(["reduce" if kinds else "map", *sorted(kinds), sizes or "1"])


def _work(kernel: Kernel) -> tuple[int, int]:
    """Operations of one launch, and the bytes of its buffers."""
    free = free_ranges(kernel.ast)

    def times(ranges: frozenset[Node]) -> int:
        return math.prod(r.src[0].arg for r in ranges if r.src[0].op is Op.CONST)

    ops = 0
    for node in kernel.ast.toposort():
        if node.op in ALU and node.dtype.kind in ("float", "int", "uint"):
            ops += times(free[node])
        elif node.op is Op.REDUCE:
            ops += times(free[node] | frozenset(node.src[1:]))
    nbytes = sum(b.dtype.itemsize * size_max(size_product(b.shape)) for b in kernel.buffers)
    return ops, nbytes
