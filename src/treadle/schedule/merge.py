"""Kernels over the same loops become one that stores several results.

    m = f(m, g); v = h(v, g); p = k(p, m, v)   ->  one kernel: g is read once, m and v are not
                                                    read again, but used as they are stored

Merged is what reads the same memory in the same way, or reads what the other stores where it stores
it, as long as no third kernel has to run between. A value that nobody else reads is not stored.
Then products move into the one kernel that reads them, see fuse_producer.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..config import settings
from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import After
from ..target import Target
from .accesses import Accesses, accesses_of
from .draft import Draft
from .fuse_producer import is_of_products, reads_once
from .index import Index
from .kernel import Kernel
from .limits import fits
from .order import topological
from .plan import STORED, Plan
from .ranges import build_kernel, storage_of
from .reasons import MAX_KERNEL_OPS
from .store_order import is_safe
from .textures import image_of

__all__ = ["merge"]

Key = tuple[Index, object]  # what kernels that can be merged have in common: loops and memory

MAX_BUFFERS = 12  # streams of memory that a processor follows at once
IN_CACHE = 1 << 21  # bytes: what moves less streams from caches, where there may be more of them
LAUNCH = 1 << 16  # bytes that caches give in the time of a launch and its barrier
WORTH = 8  # a merger saves this part of a kernel's bytes, at least
MAX_TRIALS = 4


@dataclass(eq=False)
class _Part:
    """A kernel that others may join, what it `reads` and which parts run before it, as bits.

    `inside` are products that it computes where it reads them.
    """

    kernel: Kernel
    reads: frozenset[Node]
    accesses: Accesses
    above: int = 0
    inside: frozenset[Node] = frozenset()


@dataclass(eq=False)
class _Merger:
    """`before` are the roots that run before a root; kernels go by the first that they store."""

    plan: Plan
    target: Target | None
    before: dict[Node, set[Node]]
    outputs: frozenset[Node]
    parts: list[_Part] = field(default_factory=list)
    home: dict[Node, int] = field(default_factory=dict)
    users: dict[Key, list[int]] = field(default_factory=dict)  # no more than are tried

    def add(self, kernel: Kernel, reads: frozenset[Node]) -> None:
        """Put a kernel into a part that it can join, or make it one of its own."""
        root = kernel.roots[0]
        needs = {self.home[need] for need in self.before[root]}
        above = 0
        for need in needs:
            above |= 1 << need | self.parts[need].above
        part = _Part(kernel, reads, accesses_of(kernel), above)
        loops, memory = self.plan.groups[root].loops, part.accesses.memory
        keys = [(loops, one) for one in memory] if self._may_join(root, kernel) else []
        number = self._join(root, part, keys, needs)
        if number is None:
            number = len(self.parts)
            self.parts.append(part)
        self.home[root] = number
        for key in keys:
            self.users[key] = _newest({number, *self.users.get(key, ())})

    def _may_join(self, root: Node, kernel: Kernel) -> bool:
        """Whether the kernel of `root` is one of plain loops, and nobody asked for it as it is."""
        group = self.plan.groups[root]
        if root.op in (Op.SCATTER, Op.DISTRIBUTE) or group.heavy or group.kept:
            return False
        if root.op is Op.CONTIGUOUS and (settings.REPRODUCIBLE or root not in self.outputs):
            return False  # it may be a sum, whose bits others would change (separate_sums.py)
        if not all(has_fixed_size(r) and loop_size(r) for r in group.loops):
            return False
        return not any(map(image_of, kernel.buffers))

    def _join(self, root: Node, part: _Part, keys: list[Key], needs: set[int]) -> int | None:
        for number in _newest({n for key in keys for n in self.users.get(key, ())}):
            if any(self.parts[need].above >> number & 1 for need in needs):
                continue  # something else runs between
            joined = self._joined(number, root, part)
            if joined is not None:
                self._replace(number, joined, number)
                return number
        return None

    def _replace(self, number: int, joined: _Part, old: int) -> None:
        """Part `number` becomes `joined`: what runs after `old` runs after that."""
        self.parts[number] = joined
        for part in self.parts:
            if part.above >> old & 1:
                part.above |= joined.above | 1 << number

    def _joined(self, number: int, root: Node, part: _Part) -> _Part | None:
        """Part `number` and the kernel of `root` as one, if that is right and pays."""
        old = self.parts[number]
        roots = (*old.kernel.roots, root)
        if sum(self.plan.groups[r].ops for r in roots) > MAX_KERNEL_OPS:
            return None
        if not old.accesses.go_with(part.accesses):
            return None
        kernel, reads = build_kernel(self.plan, roots, old.kernel.device)
        if self.target and not fits(kernel, self.target):
            return None
        if not is_safe(kernel) or not _reads_of_others(kernel, reads):
            return None
        accesses = accesses_of(kernel)
        if len(kernel.buffers) > MAX_BUFFERS and accesses.bytes > IN_CACHE:
            return None
        saved = old.accesses.bytes + part.accesses.bytes - accesses.bytes
        if old.accesses.walks == part.accesses.walks:
            saved += LAUNCH
        if not accesses.nest or saved * WORTH < min(old.accesses.bytes, part.accesses.bytes):
            return None
        above = (old.above | part.above) & ~(1 << number)
        return _Part(kernel, reads, accesses, above)

    def absorb(self) -> None:
        """Move products into the kernels that read them."""
        for number, part in enumerate(self.parts):
            root = part.kernel.roots[0]
            if not self.plan.groups[root].heavy or not self._is_stored_for_others(part):
                continue
            readers = [n for n, other in enumerate(self.parts) if root in other.reads]
            if len(readers) != 1 or not is_of_products(part.kernel):
                continue
            joined = self._with_product(readers[0], number)
            if joined is None:
                continue
            self._replace(readers[0], joined, number)
            self.home |= {r: readers[0] for r, home in self.home.items() if home == number}

    def _is_stored_for_others(self, part: _Part) -> bool:
        """Whether a kernel stores one value, which nobody asked for."""
        roots = part.kernel.roots
        return len(roots) == 1 and roots[0].op not in STORED and roots[0] not in self.outputs

    def _with_product(self, number: int, product: int) -> _Part | None:
        """Part `number` with the result of part `product` computed where it is read."""
        old, below = self.parts[number], self.parts[product]
        root = below.kernel.roots[0]
        between = (other for other in range(len(self.parts)) if other not in (number, product))
        if any(
            old.above >> other & 1 and self.parts[other].above >> product & 1 for other in between
        ):
            return None
        if not is_of_products(old.kernel) or not reads_once(old.kernel, root):
            return None
        inside = old.inside | below.inside | {root}
        kernel, reads = build_kernel(self.plan, old.kernel.roots, old.kernel.device, inside=inside)
        if not is_of_products(kernel) or not is_safe(kernel):
            return None
        above = (old.above | below.above) & ~(1 << product)
        return _Part(kernel, reads, accesses_of(kernel), above, inside)

    def kernels(self) -> list[Kernel]:
        """The kernels in order; each stores what others or the user read."""
        wanted = self.outputs.union(*(part.reads for part in self.parts))
        before: dict[int, set[int]] = {number: set() for number in self.home.values()}
        for root, number in self.home.items():
            before[number].update(self.home[need] for need in self.before[root])
            before[number].discard(number)
        order = [self.parts[number] for number in topological(before)]
        return [self._without_unread(part, wanted) for part in order]

    def _without_unread(self, part: _Part, wanted: frozenset[Node]) -> Kernel:
        kernel = part.kernel
        stored = tuple(r for r in kernel.roots if r.op is Op.ASSIGN or r in wanted)
        if len(stored) == len(kernel.roots):
            return kernel
        unstored = tuple(r for r in kernel.roots if r not in stored)
        fewer = build_kernel(self.plan, stored, kernel.device, unstored, part.inside)[0]
        # What nobody reads may be what keeps an old value: x = y; y = old x.
        return fewer if is_safe(fewer) else kernel


def merge(draft: Draft) -> list[Kernel]:
    """Fewer kernels that store the same as those of `draft`, in order."""
    target = draft.target
    merger = _Merger(draft.plan, target, draft.before, frozenset(draft.nodes))
    for kernel, reads in draft.kernels:
        merger.add(kernel, reads)
    if target is not None and target.workgroup is None:
        merger.absorb()
    return merger.kernels()


def _newest(numbers: set[int]) -> list[int]:
    """Those that a kernel tries to join, out of `numbers` of parts."""
    return sorted(numbers, reverse=True)[:MAX_TRIALS]


def _reads_of_others(kernel: Kernel, reads: frozenset[Node]) -> bool:
    """Whether all that a kernel loads was there before it: nothing is what it stores itself."""
    written = {storage_of(root) for root in kernel.roots if root.op is not Op.ASSIGN}
    own = (version for version in reads if version.op is Op.AFTER)
    return written.isdisjoint(reads) and not any(
        effect in kernel.roots for version in own for effect in After.of(version).effects
    )
