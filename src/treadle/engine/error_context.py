"""The context of an error: what was being computed, and the user's lines for it.

OutOfMemory: CPU: no memory for 3.0 GiB ...
  while computing float32 of shape (28000, 28000), 2.9 GiB
  train.py:12: scores = q @ k.T

What fails in treadle's own passes over graphs is an InternalError with the same context.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import TypeVar

from ..errors import InternalError, TreadleError
from ..helpers import human_bytes
from ..ir.node import Node, toposort
from ..ir.origin import lines_of
from ..ir.shape import size_max, size_product

__all__ = ["blamed", "passes_for"]

E = TypeVar("E", bound=BaseException)
_MOST_RESULTS = 3


def blamed(error: E, roots: Collection[Node], reads: Collection[Node] = ()) -> E:
    """`error`, its message followed by what `roots` are and the lines that made them.

    `reads` are the nodes whose values are in memory already: their lines are not named.
    """
    inside = toposort(roots, lambda n: n not in reads or n in roots)
    own = [node for node in inside if node not in reads or node in roots]
    results = [f"while computing {_described(node)}" for node in list(roots)[:_MOST_RESULTS]]
    error.args = ("\n  ".join([str(error), *results, *lines_of(own)]), *error.args[1:])
    return error


@contextlib.contextmanager
def passes_for(roots: Collection[Node], reads: Collection[Node] = ()) -> Iterator[None]:
    """A block in which treadle makes kernels of `roots`: what its own code raises is its mistake.

    Raises InternalError for errors of Python's, with the same context as `blamed`.
    """
    try:
        yield
    except (TreadleError, MemoryError):
        raise
    except Exception as error:
        message = (
            f"treadle failed to make a kernel ({type(error).__name__}: {error}), which is a bug: "
            "please report it with these lines. contiguous() on a part of them may avoid it."
        )
        raise blamed(InternalError(message), roots, reads) from error


def _described(node: Node) -> str:
    target = node.src[0] if node.dtype.name == "void" and node.src else node
    nbytes = size_max(size_product(target.shape)) * target.dtype.itemsize
    return f"{target.dtype.name} of shape {target.shape}, {human_bytes(nbytes)}"
