"""What a dispatch is bound to, what Metal asks of it, and how it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from treadle.emulate.metal.code import MOST_THREADS, Pipeline
from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.memory import Buffer

__all__ = ["BINDINGS", "Bound", "Dispatch", "Size", "bound", "checked_index", "checked_sizes"]

Size = tuple[int, int, int]
BINDINGS = 31


class Bound(NamedTuple):
    """A buffer from a byte on."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True)
class Dispatch:
    """A kernel over some threadgroups. Bytes that are bound are the dispatch's own."""

    pipeline: Pipeline
    bindings: Mapping[int, Bound | bytes]
    groups: Size
    threads: Size

    def check(self) -> None:
        """Raises Misuse unless every buffer that the kernel takes is bound."""
        kernel = self.pipeline.kernel
        missing = [
            argument.index
            for argument in kernel.arguments
            if argument.kind == "buffer" and argument.index not in self.bindings
        ]
        if missing:
            raise Misuse(f"{kernel.name} takes buffers {missing}, which are not bound")

    @property
    def buffers(self) -> list[Buffer]:
        """The memory that is bound."""
        return [one.buffer for one in self.bindings.values() if isinstance(one, Bound)]

    def run(self, reachable: Sequence[Buffer]) -> None:
        """Runs the kernel, which reaches no other buffers. Raises EmulationFault."""
        if 0 in self.groups:
            return
        regions = {buffer.address: buffer.region for buffer in reachable}
        self.pipeline.program.launch(
            self.pipeline.kernel.name,
            self.groups,
            self.threads,
            {
                index: one.buffer.address + one.offset if isinstance(one, Bound) else one
                for index, one in self.bindings.items()
            },
            [regions[start] for start in sorted(regions)],
        )


def bound(buffer: Buffer, offset: int) -> Bound:
    """A buffer from a byte on, which has to be one of its own."""
    if offset >= buffer.nbytes:
        raise Misuse(f"offset {offset} in a buffer of {buffer.nbytes} bytes")
    return Bound(buffer, offset)


def checked_index(index: int) -> int:
    """The number of a buffer of a kernel."""
    if index >= BINDINGS:
        raise Misuse(f"buffer {index}: a kernel has {BINDINGS}")
    return index


def checked_sizes(pipeline: Pipeline | None, threads: Size) -> Pipeline:
    """The pipeline, if threadgroups of this size run on it."""
    if pipeline is None:
        raise Misuse("a dispatch without a pipeline")
    count = threads[0] * threads[1] * threads[2]
    if not 0 < count <= min(pipeline.most_threads, MOST_THREADS):
        raise Misuse(f"threadgroups of {threads}: the pipeline allows {pipeline.most_threads}")
    return pipeline
