"""What the cache keeps of a kernel, a description and code, becomes code that is ready to run.

load(key, description, code, reason, opened)  ->  a CompiledKernel
digest(opened, *texts)  ->  a key for what is made of these texts for a device
"""

from __future__ import annotations

import hashlib

from ..runtime.base import Boxes, Entry, Slot
from .cache import digest_of_sources
from .devices import Opened
from .program import BoxesFields, CompiledKernel, Description
from .work import Work

__all__ = ["digest", "load"]

FORMAT = "9"


def digest(opened: Opened, *texts: str) -> str:
    """A key for what is made of `texts` for a device, by this version of everything involved."""
    head = (
        FORMAT, opened.name.partition(":")[0], opened.compiler.name, opened.compiler.version,
        opened.target.code_key, digest_of_sources(),
    )  # fmt: skip
    return hashlib.blake2b("\0".join((*head, *texts)).encode(), digest_size=16).hexdigest()


def load(
    key: str, description: Description, code: bytes, reason: str, opened: Opened
) -> CompiledKernel:
    """What runs a kernel, from what the cache keeps of it. Raises what the runtime does."""
    rows = description["entries"]
    entries = tuple(
        Entry(
            symbol,
            grid,
            work_items,
            tuple(Slot(*slot) for slot in slots),
            tuple(variables),
            work,
            shared,
            tuple(map(_boxes, boxes)),
            tuple(aligned),
        )
        for symbol, grid, work_items, slots, variables, work, shared, boxes, aligned in rows
    )
    return CompiledKernel(
        key,
        description["name"],
        opened.runtime.load(code, entries),
        entries,
        tuple(description["scratch"]),
        Work(*description["work"]),
        reason,
        tuple(description["moves"]),
        description["source"],
        tuple(description["variables"]),
        opened.runtime.kernel_bytes,
        frozenset(description["choices"]),
        description["searched"],
    )


def _boxes(fields: BoxesFields) -> Boxes:
    number, element, offset, shape, strides, box = fields
    return Boxes(number, element, offset, tuple(shape), tuple(strides), tuple(box))
