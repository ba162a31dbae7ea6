"""Graphs to programs: the only place that knows the order of the stages.

    program_of([node], "CPU")  ->  Program, compiled, for any buffers of the same shapes
    begin_program([node], "CPU")  ->  the same, whose kernels are compiled once it is `finished`

Scheduling is remembered in this process, by the shape of a graph, and on disk: which kernels a
graph's Program is made of. kernels.py does the same for each kernel's machine code. The same graph
over other buffers costs a walk over its nodes and nothing else; in another process, or when it has
not run for long, reading files.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..config import settings
from ..forks import fork_safe
from ..ir.args import BufferRef, Token
from ..ir.choices import choices_of
from ..ir.node import Node, following, substitute, toposort
from ..ir.op import Op
from ..ir.shape import size_product
from ..ir.symbolic import unbind
from ..ir.text import render as node_text
from ..ir.versions import memory_key, stored_below
from ..ir.views import operand
from ..schedule.kernel import Kernel
from ..schedule.order import soonest
from ..schedule.passes import schedule
from ..schedule.textures import image_of
from ..transforms.complex_to_real import in_reals
from .arena import place_the_rest
from .bindings import with_bindings
from .cache import compile_cache
from .counters import GlobalCounters
from .devices import Device
from .error_context import passes_for
from .kernels import compiling, known_kernel, workers_for
from .loading import digest
from .memory import memory_of
from .prepacked import expects_replays, lasts
from .program import Place, Program, loaded, saved
from .programs import Programs
from .provenance import places_of

__all__ = ["Begun", "begin_program", "program_of"]

_programs = Programs()
_lock = fork_safe(threading.RLock(), 3)


def program_of(
    roots: Sequence[Node], device: str
) -> tuple[Program, list[BufferRef], dict[str, int]]:
    """The Program for `roots` on `device`, the buffers and the variables' values to run it with."""
    begun = begin_program(roots, device)
    begun.finish()
    return begun.program, begun.inputs, begun.values


@dataclass(eq=False)
class Begun:
    """A Program with the buffers and the variables' values to run it with.

    Until it is finished it only says what it will give: its `outputs` and `roots`.
    """

    program: Program
    inputs: list[BufferRef]
    values: dict[str, int]
    _compile: Callable[[], None] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it can run."""
        return self._compile is None

    def finish(self) -> None:
        """Wait until it can run. What fails to compile raises, and does so again."""
        with _lock:
            if self._compile is not None:
                self._compile()
                self._compile = None


def begin_program(roots: Sequence[Node], device: str, soon: tuple[int, ...] = ()) -> Begun:
    """The Program for `roots` on `device`, whose kernels may still be compiled by processes.

    The roots of the numbers `soon` are computed first, in that order.
    """
    program, inputs, key = _known(roots, device, soon)
    if program is not None:  # and so there is no BIND in the graph
        return Begun(program, inputs, with_bindings({}))
    roots, values = unbind(roots)
    values = with_bindings(values)
    with _lock:
        program, inputs, key = _known(roots, device, soon)
        if program is not None:
            return Begun(program, inputs, values)
        name = _name_on_disk(roots, device, key)
        found = _from_disk(name, device)
        if found is not None:
            _programs.put(key, found)
            return Begun(found, inputs, values)
        program, build = _begin(roots, device, inputs, soon)

        def finish() -> None:
            build()
            _programs.put(key, program)
            if name and (data := saved(program)) is not None:
                compile_cache().put(name, data)

        return Begun(program, inputs, values, finish)


Key: TypeAlias = tuple[object, ...]  # of a graph: nested tuples without identities


def _known(
    roots: Sequence[Node], device: str, soon: tuple[int, ...]
) -> tuple[Program | None, list[BufferRef], Key]:
    """The Program for a graph if there is one, the graph's buffers in order, and its key."""
    shape, inputs = _shape_of(roots)
    key = (
        device, settings.REPRODUCIBLE, settings.ALLOW_TF32, settings.IMAGE, settings.FLOAT16,
        settings.BEAM, settings.CHECK_KERNELS, soon, shape,
    )  # fmt: skip
    return _programs.get(key), inputs, key


def _shape_of(roots: Sequence[Node]) -> tuple[Key, list[BufferRef]]:
    """The graph as nested tuples without identities, and its buffers in order."""
    numbers: dict[Node, int] = {}
    tokens: dict[Token, int] = {}
    inputs: list[BufferRef] = []
    rows: list[object] = []
    order = toposort(roots)
    expected = expects_replays()
    assigned = _assigned(order) if expected else frozenset[Token]()
    for node in order:
        numbers[node] = len(numbers)
        arg = node.arg
        if node.op is Op.CONST:
            rows.append(node)
            continue
        if node.op is Op.BUFFER:
            number = tokens.setdefault(arg.token, len(tokens))
            if number == len(inputs):
                inputs.append(arg)
            lasting = expected and arg.token not in assigned and lasts(memory_of(inputs[number]))
            arg = (number, arg.size, arg.version - inputs[number].version, arg.image, lasting)
        elif node.op is Op.ALIAS:
            arg = None
        rows.append((node.op, node.dtype, tuple([numbers[s] for s in node.src]), arg))
    rows.append(tuple([numbers[root] for root in roots]))
    return tuple(rows), inputs


def _without_memory(steps: list[Kernel]) -> list[Kernel]:
    """The same kernels over buffers of other names, so that a remembered program keeps none."""
    nodes = tuple(node for step in steps for node in (*step.roots, *step.buffers))
    names: dict[Token, Token] = {}
    renamed = {
        n: n.replace(arg=replace(n.arg, token=names.setdefault(n.arg.token, Token())))
        for n in toposort(nodes)
        if n.op is Op.BUFFER
    }
    new = iter(substitute(nodes, renamed))
    return [
        replace(
            step,
            roots=tuple(itertools.islice(new, len(step.roots))),
            buffers=tuple(itertools.islice(new, len(step.buffers))),
        )
        for step in steps
    ]


def _name_on_disk(roots: Sequence[Node], device: str, key: Key) -> str | None:
    """Where the Program of a graph is kept on disk, if it is."""
    if settings.CHECK_KERNELS or any(_is_symbolic(node) for node in toposort(roots)):
        return None
    opened = Device[device]
    return "program:" + digest(opened, str(opened.target.max_image), _text(key[1:]))


def _from_disk(name: str | None, device: str) -> Program | None:
    """The Program from the disk if it and all of its kernels are there."""
    entry = compile_cache().get(name) if name else None
    if not entry:
        return None
    opened = Device[device]
    return loaded(entry, device, lambda key, reason: known_kernel(key, reason, opened))


def _is_symbolic(node: Node) -> bool:
    return any(not isinstance(size, int) for size in node.shape)


def _text(key: object) -> str:
    """The key of a graph without symbolic sizes as text: different for different graphs."""
    if isinstance(key, tuple):
        return f"({','.join(map(_text, key))})"
    if isinstance(key, Node):  # a constant, or a position
        return node_text(key)
    return repr(key)


def _begin(
    roots: Sequence[Node], device: str, inputs: list[BufferRef], soon: tuple[int, ...]
) -> tuple[Program, Callable[[], None]]:
    """Schedule a graph and begin to compile its kernels.

    Gives the Program as far as it is known by then, and what makes it a whole one.
    """
    opened = Device[device]
    marked = _marked(roots, inputs)
    order = toposort(marked)
    with contextlib.ExitStack() as block:
        workers = block.enter_context(workers_for(len(order), opened))
        with following() as derived, passes_for(roots):
            with choices_of() as made:
                plain = in_reals(marked)
            scheduled, nodes = schedule(plain, device, opened.target)
        GlobalCounters.schedule_count += 1
        steps = [step for step in scheduled if _has_work(step.roots[0])]
        if soon:
            steps = soonest(steps, [nodes[number] for number in soon])
        compiled = compiling(steps, opened, workers)
        compilation = block.pop_all()  # the workers end with that
    program = Program(device)
    program.places = places_of(steps, order, derived, zip(marked, nodes, strict=True))
    places: dict[object, Place] = {ref.token: Place("input", i) for i, ref in enumerate(inputs)}
    stored = {root for step in scheduled for root in step.roots if root.op is not Op.ASSIGN}
    for root, node in zip(roots, nodes, strict=True):
        if node in stored and node not in places:
            places[node] = Place("output", len(program.outputs))
            program.outputs.append((root.dtype, size_product(root.shape), image_of(node)))
        found = places.get(node)
        program.roots.append(found.number if found and found.kind == "output" else None)
    targets = [places.get(memory_key(step.buffers[slot])) for step in steps for slot in step.writes]
    program.written = frozenset(p.number for p in targets if p is not None and p.kind == "input")

    def build() -> None:
        with compilation:
            program.kernels = compiled()
        pairs = zip(program.kernels, steps, strict=True)
        program.choices = [kernel.choices | step.choices | made for kernel, step in pairs]
        if settings.CHECK_KERNELS:
            program.schedule = _without_memory(steps)
        program.scratch = place_the_rest(program, steps, places, opened.runtime.has_addresses)
        for kernel, step in zip(program.kernels, steps, strict=True):
            scratch = [places[kernel, i] for i in range(len(kernel.scratch))]
            program.arguments.append([places[memory_key(b)] for b in step.buffers] + scratch)

    return program, build


def _marked(roots: Sequence[Node], inputs: list[BufferRef]) -> Sequence[Node]:
    """`roots` with the buffers marked that are expected to last, and that they do not assign to."""
    if not expects_replays():
        return roots
    order = toposort(roots)
    assigned = _assigned(order)
    lasting = {r.token for r in inputs if r.token not in assigned and lasts(memory_of(r))}
    marked = {
        node: node.replace(arg=replace(node.arg, lasts=True))
        for node in order
        if node.op is Op.BUFFER and node.arg.token in lasting
    }
    return substitute(tuple(roots), marked)


def _assigned(order: Sequence[Node]) -> frozenset[Token]:
    """The names of memory that nodes assign to."""
    return frozenset(stored_below(node).arg.token for node in order if node.op is Op.AFTER)


def _has_work(root: Node) -> bool:
    return 0 not in (operand(root).shape if root.op is Op.ASSIGN else root.shape)
