"""CHECK_NAN: which line first made the NaN that a result holds.

    with Context(CHECK_NAN=1):
        (x.log() * 2).sum().item()
    NonFiniteError: [log] 1 of 3 values is NaN, the first at (1,): float32 of shape (3,)
      train.py:12: y = x.log()

Kernels are fused, so what an operation gave is nowhere to be looked at. Checked graphs are computed
operation by operation instead, sources first, each result kept as if the user had realized it.
A NaN that reaches no output and no assignment is none of the user's concern (`where` masks it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..config import Context, settings
from ..errors import NonFiniteError
from ..ir.node import Node, toposort
from ..ir.op import MOVEMENT, Op
from ..ir.origin import origin_of
from ..ir.shape import size_product
from ..ir.views import Assign, behind_reshape
from .memory import read
from .realized import is_backed, resolve

if TYPE_CHECKING:
    import numpy as np

    from .devices import Placement

__all__ = ["check_values"]

Realize = Callable[[Sequence[tuple[Node, str | tuple[str, ...]]]], list[Node]]
_PASSING = MOVEMENT | {Op.CONTIGUOUS, Op.DETACH, Op.ALIAS, Op.COPY, Op.AFTER, Op.MULTI}


@dataclass(frozen=True)
class _Found:
    """How many values of a result are not finite, of how many, and where the first one is.

    `stored`: they were in memory before anything was checked.
    """

    kind: str
    count: int
    total: int
    place: tuple[int, ...]
    stored: bool


def check_values(outputs: Sequence[tuple[Node, str | tuple[str, ...]]], realize: Realize) -> None:
    """Compute what is below `outputs` one by one. Raises NonFiniteError before assigning a NaN."""
    infinities = settings.CHECK_NAN > 1
    homes = dict(outputs)
    with Context(CHECK_NAN=0):
        order = toposort(homes, lambda n: resolve(n) is n)
        results = {*homes, *(Assign.of(node).value for node in order if node.op is Op.ASSIGN)}
        checked: dict[Node, _Found | None] = {}
        for node in order:
            if node.op is Op.ASSIGN:
                _refuse(Assign.of(node).value, checked)
            elif node.dtype.is_inexact and (node in results or _computes(node)):
                stored = is_backed(resolve(node))
                home = homes.get(node) or _home(node, outputs[0][1])
                values = _values(realize([(node, home)])[0])
                checked[node] = _not_finite(node, values, infinities, stored)
    for node in homes:
        _refuse(node, checked)


def _computes(node: Node) -> bool:
    """Whether a NaN can first appear in `node`, an operation of the user's or a stored value."""
    if is_backed(resolve(node)):
        return True
    return node.origin is not None and node.op not in _PASSING and node.op is not Op.CONST


def _home(node: Node, default: Placement) -> Placement:
    """The device, or several, that `node` is computed on."""
    for item in reversed(toposort([node], lambda n: n.op not in (Op.COPY, Op.MULTI))):
        if item.op is Op.COPY:
            return item.arg
        if item.op is Op.MULTI:
            return item.arg.devices
        if item.op is Op.BUFFER:
            return item.arg.device
    return default


def _values(node: Node) -> np.ndarray:
    import numpy as np

    node = behind_reshape(node)
    if node.op is Op.MULTI:
        return np.concatenate([_values(part) for part in node.src])
    return read(node.arg)


def _not_finite(node: Node, values: np.ndarray, infinities: bool, stored: bool) -> _Found | None:
    import numpy as np

    if values.dtype.kind != "c":
        values = values.astype(np.float64)
    wrong, kind = np.isnan(values), "NaN"
    if infinities and not wrong.any():
        wrong, kind = np.isinf(values), "infinite"
    places = np.flatnonzero(wrong)
    if not places.size:
        return None
    # pieces of several devices, and memory of symbolic sizes, are counted as they lie
    known = all(isinstance(n, int) for n in node.shape) and size_product(node.shape) == values.size
    first = np.unravel_index(places[0], node.shape) if known else places[:1]
    return _Found(kind, places.size, values.size, tuple(int(i) for i in first), stored)


def _refuse(root: Node, checked: dict[Node, _Found | None]) -> None:
    """Raises NonFiniteError if the value of `root` is not finite, naming where that began."""
    if checked.get(root) is None:
        return

    def leads_on(node: Node) -> bool:
        found = checked.get(node)
        return node not in checked or (found is not None and not found.stored)

    culprit = next(node for node in toposort([root], leads_on) if checked.get(node))
    found, origin = checked[culprit], origin_of(culprit)
    assert found is not None
    name = origin.operation if origin else culprit.op.name.lower()
    verb = "is" if found.count == 1 else "are"
    what = (
        f"[{name}] {found.count} of {found.total} values {verb} {found.kind}, the first at "
        f"{found.place}: {culprit.dtype.name} of shape {culprit.shape}"
    )
    where = [origin.where] if origin else []
    raise NonFiniteError("\n  ".join([what, *where, _STORED if found.stored else _COMPUTED]))


_STORED = "they were in memory before: given so, or computed outside of CHECK_NAN"
_COMPUTED = (
    "what it is computed from holds none: look for a division by 0, the log or root of a number "
    "below 0, or an overflow"
)
