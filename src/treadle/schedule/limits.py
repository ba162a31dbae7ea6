"""Kernels that need more buffers than a device can bind at once: where to cut them.

    sum of twelve tensors on a device with eight buffers  ->  a first kernel sums seven of them

WebGPU guarantees eight storage buffers a stage; CPUs and other GPUs have no such limit.
"""

from __future__ import annotations

from collections.abc import Container

from ..errors import DeviceError
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..target import Target
from .kernel import Kernel
from .plan import LEAVES, elements

__all__ = ["cut_to_fit", "fits"]


def fits(kernel: Kernel, target: Target) -> bool:
    """Whether `target` can bind all memory of `kernel`, one piece of scratch memory included."""
    if target.max_buffers is None:
        return True
    scratch = any(node.op is Op.REDUCE for node in kernel.ast.toposort())
    return scratch + sum(_bindings(b, target) for b in kernel.buffers) <= target.max_buffers


def _bindings(buffer: Node, target: Target) -> int:
    """How many bindings a buffer takes: more than one if it is larger than a binding can be."""
    if target.max_binding is None:
        return 1
    nbytes = elements(buffer) * buffer.dtype.itemsize
    return max(1, -(-nbytes // target.max_binding))


def cut_to_fit(root: Node, stored: Container[Node], target: Target) -> Node:
    """The node under `root` to store first, so that its kernel gets fewer buffers.

    `stored` are the nodes that have memory of their own. The choice reads as many buffers as one
    kernel can, and so saves the most.
    """
    assert target.max_buffers is not None
    inside = lambda n: n is root or (n not in stored and n.op not in LEAVES)
    reads: dict[Node, frozenset[Node]] = {}
    best: Node | None = None
    for node in root.toposort(inside):
        if not inside(node):
            reads[node] = frozenset() if node.op in (Op.CONST, Op.IOTA) else frozenset((node,))
            continue
        reads[node] = frozenset().union(*(reads[s] for s in node.src))
        count = sum(_bindings(n, target) for n in reads[node])
        is_value = node.op in ALU or node.op in (Op.REDUCE, Op.GATHER)
        if node is not root and is_value and count < target.max_buffers - 1:
            if best is None or len(reads[node]) > len(reads[best]):
                best = node
    if best is None or len(reads[best]) < 2:
        needed = sum(_bindings(n, target) for n in (root, *reads[root]))
        raise DeviceError(
            f"[realize] one kernel needs {needed} buffers (one for each {target.max_binding} "
            f"bytes of a tensor), but {target.name} binds at most {target.max_buffers}: use "
            "smaller tensors, or a narrower dtype"
        )
    return best
