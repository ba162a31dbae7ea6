"""Graphs to programs: the only place that knows the order of the stages.

    program_of([(node, "CPU")])  ->  Program, compiled, for any buffers of the same shapes

Scheduling and compiling are remembered in this process, by the shape of a graph, and on disk: each
kernel's machine code, and which kernels a graph's Program is made of. The same graph over other
buffers costs a walk over its nodes and nothing else; in another process, reading those files.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Sequence
from typing import Any

from ..config import settings
from ..dtype import ImageDType, dtypes
from ..errors import DeviceError, DTypeError, StaleCodeError, TreadleError
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
from ..runtime.base import Entry, Slot
from ..schedule.images import image_of
from ..schedule.kernel import Kernel
from ..schedule.memory import Life, plan, plan_blocks
from ..schedule.schedule import schedule
from .backends import Device, Opened, compile_cache, digest_of_sources
from .blame import blamed
from .counters import GlobalCounters
from .program import CompiledKernel, Place, Program, loaded, saved
from .report import report_compilation
from .search import best_schedule

__all__ = ["program_of"]

FORMAT = "4"


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
            program = _programs[key] = _saved_or_built(roots, device, inputs, key)
    return program, inputs, values


def _known(roots: Sequence[Node], device: str) -> tuple[Program | None, list[BufferRef], Any]:
    """The Program for a graph if there is one, the graph's buffers in order, and its key."""
    shape, inputs = _shape_of(roots)
    key = (device, settings.REPRODUCIBLE, settings.IMAGE, settings.FLOAT16, settings.BEAM, shape)
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
        elif node.op is Op.ALIAS:
            arg = None
        rows.append((node.op, node.dtype, tuple([numbers[s] for s in node.src]), arg))
    rows.append(tuple([numbers[root] for root in roots]))
    return tuple(rows), inputs


def _saved_or_built(
    roots: Sequence[Node], device: str, inputs: list[BufferRef], key: Any
) -> Program:
    """The Program from the disk if it and all of its kernels are there, else a new one."""
    opened = Device[device]
    if any(_is_symbolic(node) for node in toposort(roots)):
        return _build(roots, device, inputs)
    name = "program:" + _digest(opened, str(opened.target.max_image), _text(key[1:]))
    entry = compile_cache().get(name)
    found = entry and loaded(entry, device, lambda key, reason: _known_kernel(key, reason, opened))
    if found:
        return found
    program = _build(roots, device, inputs)
    if (data := saved(program)) is not None:
        compile_cache().put(name, data)
    return program


def _is_symbolic(node: Node) -> bool:
    return any(not isinstance(size, int) for size in node.shape)


def _text(key: Any) -> str:
    """The key of a graph without symbolic sizes as text: different for different graphs."""
    if isinstance(key, tuple):
        return f"({','.join(map(_text, key))})"
    if isinstance(key, Node):  # a constant, or a position
        return node_text(key)
    return repr(key)


def _build(roots: Sequence[Node], device: str, inputs: list[BufferRef]) -> Program:
    opened = Device[device]
    steps, nodes = schedule(roots, device, opened.target)
    program = Program(device)
    places: dict[object, Place] = {ref.token: Place("input", i) for i, ref in enumerate(inputs)}
    stored = {root for step in steps for root in step.roots if root.op is not Op.ASSIGN}
    for node in nodes:
        if node in stored and node not in places:
            places[node] = Place("output", len(program.outputs))
            program.outputs.append((node.dtype, size_product(node.shape), image_of(node)))
        found = places.get(node)
        program.roots.append(found.number if found and found.kind == "output" else None)
    steps = [step for step in steps if _has_work(step.roots[0])]
    for step in steps:
        try:
            program.kernels.append(_compiled(step, opened))
        except TreadleError as error:
            raise blamed(error, step.roots, step.buffers) from error.__cause__
    program.scratch = _place_the_rest(program, steps, places, opened.runtime.has_addresses)
    for kernel, step in zip(program.kernels, steps, strict=True):
        scratch = [places[kernel, i] for i in range(len(kernel.scratch))]
        program.arguments.append([places[_key(b)] for b in step.buffers] + scratch)
    targets = [places[_key(step.buffers[slot])] for step in steps for slot in step.writes]
    program.written = frozenset(p.number for p in targets if p.kind == "input")
    return program


def _has_work(root: Node) -> bool:
    return 0 not in (root.src[0].shape if root.op is Op.ASSIGN else root.shape)


def _key(buffer: Node) -> object:
    return buffer.arg.token if buffer.op is Op.BUFFER else buffer


def _place_the_rest(
    program: Program,
    steps: list[Kernel],
    places: dict[object, Place],
    has_addresses: bool,
) -> list[int | ImageDType]:
    """Give intermediate results and the kernels' scratch memory a place in shared blocks.

    Returns the blocks: one where memory has addresses, and one for each texture.
    """
    images: list[int | ImageDType] = []
    for buffer in (buffer for step in steps for buffer in step.buffers):
        image = image_of(buffer)
        if image is not None and _key(buffer) not in places:
            places[_key(buffer)] = Place("scratch", len(images))
            images.append(image)
    lives: dict[object, Life] = {}
    repeats = len(set(program.kernels)) < len(program.kernels)
    for number, step in enumerate(steps):
        kernel = program.kernels[number]
        for buffer in step.buffers:
            key = _key(buffer)
            if key not in places:
                nbytes = max(1, size_max(size_product(buffer.shape)) * buffer.dtype.itemsize)
                first = lives[key].first if key in lives else number
                lives[key] = Life(first, number, nbytes)
        for i, nbytes in enumerate(kernel.scratch):
            lives[kernel, i] = Life(number, number, nbytes)
        if repeats:
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
    key = _digest(opened, str(settings.REPRODUCIBLE), str(settings.BEAM), node_text(kernel.ast))
    found = _known_kernel(key, kernel.reason, opened)
    if found is None:
        found = _kernels[opened.name, key] = _compile(key, kernel, opened)
    return found


def _digest(opened: Opened, *texts: str) -> str:
    """A key for what is made of `texts` for a device, by this version of everything involved."""
    head = (
        FORMAT, opened.name.partition(":")[0], opened.compiler.name, opened.compiler.version,
        opened.target.code_key, digest_of_sources(),
    )  # fmt: skip
    return hashlib.blake2b("\0".join((*head, *texts)).encode(), digest_size=16).hexdigest()


def _known_kernel(key: str, reason: str, opened: Opened) -> CompiledKernel | None:
    """A kernel that this process has loaded already, or that is on disk."""
    found = _kernels.get((opened.name, key)) or _from_disk(key, reason, opened)
    if found is not None:
        _kernels[opened.name, key] = found
    return found


def _compile(key: str, kernel: Kernel, opened: Opened) -> CompiledKernel:
    start = time.perf_counter()
    _check_dtypes(kernel, opened)
    name = f"{_describe(kernel.ast)}_{key[:6]}"
    with remembered():
        if settings.BEAM:
            build = lambda *schedule: _load(
                key, *_built(name, kernel, opened, *schedule), kernel.reason, opened
            )
            ast, moves = best_schedule(kernel, opened, build, settings.BEAM)
        else:
            ast, moves = optimize(kernel.ast, opened.target)
        header, code = _built(name, kernel, opened, ast, moves)
    GlobalCounters.compile_count += 1
    GlobalCounters.compile_time_s += time.perf_counter() - start
    line = json.dumps(header).encode()
    compile_cache().put("kernel:" + key, line + b"\n" + code)
    return _load(key, json.loads(line), code, kernel.reason, opened)


def _built(
    name: str, kernel: Kernel, opened: Opened, ast: Node, moves: list[str]
) -> tuple[dict[str, Any], bytes]:
    """What the cache keeps of a kernel whose moves are made: a description, and machine code."""
    lowered = lower(ast, len(kernel.buffers), opened.target)
    _check_steps(lowered.phases, opened)
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
    return header, code


def _check_dtypes(kernel: Kernel, opened: Opened) -> None:
    """Raises DTypeError if the device has no float64 and the kernel needs it."""
    if opened.target.supports(dtypes.float64):
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


def _from_disk(key: str, reason: str, opened: Opened) -> CompiledKernel | None:
    entry = compile_cache().get("kernel:" + key)
    if entry is None:
        return None
    line, _, code = entry.partition(b"\n")
    try:
        found = _load(key, json.loads(line), code, reason, opened)
    except StaleCodeError:  # a driver refuses what it built before: build it anew
        return None
    GlobalCounters.cache_hits += 1
    return found


def _load(
    key: str, header: dict[str, Any], code: bytes, reason: str, opened: Opened
) -> CompiledKernel:
    entries = tuple(
        Entry(symbol, grid, items, tuple(Slot(*slot) for slot in slots), tuple(variables), work)
        for symbol, grid, items, slots, variables, work in header["entries"]
    )
    return CompiledKernel(
        key,
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
