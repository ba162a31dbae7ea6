"""What a graph becomes: compiled kernels in order, with a place for each of their arguments.

program.launches(inputs, outputs, scratch, values)  ->  what a runtime runs
saved(program)  ->  bytes that name the kernels by their keys
loaded(data, device, kernel_of)  ->  the same Program in another process, nothing scheduled
"""

from __future__ import annotations

import functools
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from ..dtype import DType, ImageDType, to_dtype
from ..ir.symbolic import no_value
from ..optimize.heuristic import parsed
from ..optimize.moves import Schedule
from ..runtime.base import Buffer, Entry, Launch, Library
from .work import Work

if TYPE_CHECKING:
    from ..schedule.kernel import Kernel

__all__ = [
    "BoxesFields", "CompiledKernel", "Description", "EntryFields", "Place", "Program", "loaded",
    "packed", "saved",
]  # fmt: skip


# The fields of a Boxes and of an Entry, in order, as JSON keeps them.
BoxesFields: TypeAlias = tuple[int, str, int, Sequence[int], Sequence[int], Sequence[int]]
EntryFields: TypeAlias = tuple[
    str, int, int, Sequence[tuple[int, int, bool]], Sequence[int], int, int,
    Sequence[BoxesFields], Sequence[int],
]  # fmt: skip


class Description(TypedDict):
    """What the cache keeps of a kernel beside its code; `CompiledKernel` says what is what."""

    name: str
    entries: list[EntryFields]
    scratch: list[int]
    work: Work
    moves: list[str]
    searched: int
    choices: list[str]
    source: str
    variables: Sequence[str]


def packed(source: str) -> str:
    """The text of a kernel, which is seldom looked at, in a tenth of the room."""
    return b64encode(zlib.compress(source.encode(), 1)).decode()


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """Loaded code of one kernel and what a launch of it needs.

    `key` names it in the disk cache; `scratch` holds (bytes) of the memory that it needs beside
    its buffers; `work` is what one launch does; `room` are the bytes that it takes while it is
    loaded, as far as its runtime knows. `choices` are those of optimising and lowering
    it (see ir/choices.py). `moves` are the texts of its schedule's moves; that was the best of so
    many as were `searched`, if any were.
    """

    key: str
    name: str
    library: Library
    entries: tuple[Entry, ...]
    scratch: tuple[int, ...]
    work: Work
    reason: str
    moves: tuple[str, ...]
    packed_source: str
    variables: tuple[str, ...] = ()
    room: int = 0
    choices: frozenset[str] = frozenset()
    searched: int = 0

    @property
    def schedule(self) -> Schedule:
        """The moves that its loops were changed by."""
        return parsed("\n".join(self.moves))

    @property
    def source(self) -> str:
        """What the renderer printed."""
        return zlib.decompress(b64decode(self.packed_source)).decode()


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
    `written` the inputs that are assigned to. `used` is larger for what was used later.
    `choices` has for each kernel all choices that led to it, `places` where nodes that it computes
    stand in the graph (see provenance.py).
    `schedule` has what the kernels were made of, where CHECK_KERNELS asked for it.
    """

    device: str
    kernels: list[CompiledKernel] = field(default_factory=list)
    arguments: list[list[Place]] = field(default_factory=list)
    outputs: list[tuple[DType, int, ImageDType | None]] = field(default_factory=list)
    roots: list[int | None] = field(default_factory=list)
    scratch: list[int | ImageDType] = field(default_factory=list)
    written: frozenset[int] = frozenset()
    used: int = 0
    choices: list[frozenset[str]] = field(default_factory=list)
    places: list[tuple[int, ...]] = field(default_factory=list)
    schedule: list[Kernel] | None = None

    @functools.cached_property
    def ops(self) -> int:
        """Operations of one run."""
        return sum(kernel.work.ops for kernel in self.kernels)

    @functools.cached_property
    def bytes(self) -> int:
        """Bytes that all kernels read and write."""
        return sum(kernel.work.moved for kernel in self.kernels)

    def part(self, begin: int, end: int) -> tuple[Program, list[int], list[int]]:
        """The kernels from `begin` to `end`, with the numbers of the inputs and outputs of those.

        Parts share their scratch memory.
        """
        arguments = self.arguments[begin:end]
        used = {place for places in arguments for place in places}
        inputs = sorted({place.number for place in used if place.kind == "input"})
        outputs = sorted({place.number for place in used if place.kind == "output"})
        numbers = {"input": inputs, "output": outputs}
        moved = {p: replace(p, number=numbers[p.kind].index(p.number))
                 for p in used if p.kind in numbers}  # fmt: skip
        part = replace(
            self,
            kernels=self.kernels[begin:end],
            arguments=[[moved.get(place, place) for place in places] for places in arguments],
            outputs=[self.outputs[number] for number in outputs],
            roots=[],
            written=frozenset(at for at, number in enumerate(inputs) if number in self.written),
            choices=self.choices[begin:end],
            places=self.places[begin:end],
        )
        return part, inputs, outputs

    def written_at(self, output: int) -> int:
        """How many kernels have run when an output is there: nothing later has to do with it."""
        place = Place("output", output)
        return max((n for n, places in enumerate(self.arguments, 1) if place in places), default=0)

    def launches(
        self,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        scratch: Sequence[Buffer],
        values: dict[str, int],
    ) -> list[Launch]:
        """The launches for these buffers, and these values of the variables."""
        where = {"input": inputs, "output": outputs, "scratch": scratch}

        def argument(place: Place) -> object:
            found = where[place.kind][place.number].argument
            return found + place.offset if place.offset else found

        return [
            Launch(
                kernel.library.phases,
                [argument(place) for place in places],
                [_value(name, values) for name in kernel.variables],
            )
            for kernel, places in zip(self.kernels, self.arguments, strict=True)
        ]


def _value(name: str, values: dict[str, int]) -> int:
    if name not in values:
        raise no_value(name)
    return values[name]


def saved(program: Program) -> bytes | None:
    """Everything of a program but its kernels: it holds their keys, reasons and scratch sizes.

    None where sizes are symbolic or memory is a texture.
    """
    outputs = [(dtype.name, size, image) for dtype, size, image in program.outputs]
    if not all(isinstance(size, int) and image is None for _, size, image in outputs):
        return None
    if not all(isinstance(block, int) for block in program.scratch):
        return None
    numbers = {id(kernel): n for n, kernel in enumerate(dict.fromkeys(program.kernels))}
    return json.dumps(
        {
            "kernels": [(k.key, k.reason, k.scratch) for k in dict.fromkeys(program.kernels)],
            "order": [numbers[id(kernel)] for kernel in program.kernels],
            "arguments": [[astuple(place) for place in places] for places in program.arguments],
            "outputs": [(name, size) for name, size, _ in outputs],
            "roots": program.roots,
            "scratch": program.scratch,
            "written": sorted(program.written),
            "choices": [sorted(names) for names in program.choices],
            "places": program.places,
        }
    ).encode()


def loaded(
    data: bytes, device: str, kernel_of: Callable[[str, str], CompiledKernel | None]
) -> Program | None:
    """The program that `saved` wrote, with kernels from `kernel_of(key, reason)`.

    None if one of them is not to be had, or needs other scratch memory than it had a place for:
    another machine with the same instructions, but other caches, may have compiled it since.
    """
    found = json.loads(data)
    kernels: list[CompiledKernel] = []
    for key, reason, scratch in found["kernels"]:
        kernel = kernel_of(key, reason)
        if kernel is None or kernel.scratch != tuple(scratch):
            return None
        kernels.append(kernel)
    return Program(
        device,
        [kernels[number] for number in found["order"]],
        [[Place(*place) for place in places] for places in found["arguments"]],
        [(to_dtype(name), size, None) for name, size in found["outputs"]],
        found["roots"],
        found["scratch"],
        frozenset(found["written"]),
        choices=[*map(frozenset, found["choices"])],
        places=[*map(tuple, found["places"])],
    )
