"""The kernels of a module and what they take, from the metadata `!air.kernel`.

    module = Module(bitcode)
    module.kernels["add"].arguments[0]       # Argument("buffer", index=0, space=1, "a")
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Argument", "Kernel", "Module"]


@dataclass(frozen=True)
class Argument:
    """A parameter of a kernel.

    `kind` is "buffer" (bound at `index`; `space` is 1 for device, 2 for constant memory,
    3 for threadgroup memory whose bytes a launch says) or the name of a position, such as
    "thread_position_in_threadgroup". `nbytes` is the size of what a buffer points at.
    """

    kind: str
    name: str
    index: int = 0
    space: int = 0
    nbytes: int = 0
    writes: bool = False


@dataclass(frozen=True)
class Kernel:
    """`static_threadgroup_bytes` are those that the kernel declares itself."""

    name: str
    arguments: tuple[Argument, ...]
    static_threadgroup_bytes: int
    max_threads: int = 1024


class Module:
    """A module: bitcode or text. Raises AIRError for what is no module."""

    kernels: dict[str, Kernel]

    def __init__(self, ir: bytes) -> None: ...
