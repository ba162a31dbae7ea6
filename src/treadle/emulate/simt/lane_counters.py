"""Control flow of kernels whose lanes have program counters.

    flow = LaneCounters(e, count)
    flow.write_dispatcher()
    flow.enter(0)                 # a basic block; its code comes here
    flow.go(0, 1)                 # and this is how it ends

The kernel is a machine that steps through basic blocks: the dispatcher looks at the program
counters of the lanes that can go on, takes the least, and runs its block under the mask of the
lanes that are there; they part at a branch by getting different counters and meet again because the
least is always served first. While no other lane is at or before the target, a block goes straight
to the next one. A lane that waits at a block barrier keeps its counter and the function returns;
all state is in the Warp, so it goes on where it was when it is called again. After a turn that was
too long the greatest counter is served, so that lanes that wait for others in a loop do not keep
them from running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.simt.emit import Emitter

__all__ = ["LaneCounters"]


class LaneCounters:
    """Writes the dispatcher and the ways between the basic blocks 0 to `count` - 1.

    `mask_bits` and `mask` are the lanes of the block that is being written. Without `takes_turns`
    the least counter is always served: lanes meet again whatever a turn takes, and none may wait
    for another of its warp in a loop.
    """

    def __init__(self, e: Emitter, count: int, takes_turns: bool = True) -> None:
        self.e, self._count, self._parks = e, count, 0
        self._takes_turns = takes_turns
        self._mask, self._pcs = e.machine.mask, e.lanes("i32")
        self.mask_bits = self.mask = ""

    def write_dispatcher(self) -> None:
        """The start of the function. Basic blocks follow in any order."""
        e, mask = self.e, self._mask
        e.label("entry")
        e.do(f"%mask = alloca {mask}")
        e.do("%others = alloca i32")  # the least counter of the lanes that are elsewhere
        e.do(f"%flip = load i32, ptr {e.warp_field('flip')}")
        turns = "%flip" if self._takes_turns else "0"
        e.do(f"%backwards = icmp ne i32 {turns}, 0")
        e.do("br label %dispatch")
        e.label("dispatch")
        left = e.op(f"load i32, ptr {e.warp_field('slice')}")
        e.do(f"br i1 {e.op(f'icmp sgt i32 {left}, 0')}, label %pick, label %pause")
        e.label("pause")
        e.do(f"store i32 {e.op('xor i32 %flip, 1')}, ptr {e.warp_field('flip')}")
        e.do("ret void")
        e.label("leave")
        e.do("ret void")
        e.label("pick")
        e.do(f"store i32 {e.op(f'add i32 {left}, -1')}, ptr {e.warp_field('slice')}")
        live, waiting, held = (e.warp_mask(name) for name in ("live", "waiting", "held"))
        stuck = e.op(f"xor {mask} {e.op(f'or {mask} {waiting}, {held}')}, -1")
        ready = e.op(f"and {mask} {live}, {stuck}")
        e.do(f"br i1 {e.op(f'icmp eq {mask} {ready}, 0')}, label %leave, label %choose")
        e.label("choose")
        self._choose(ready)

    def _choose(self, ready: str) -> None:
        e, flags = self.e, self.e.lanes("i1")
        pcs = self._load()
        lanes = e.as_lanes(ready)
        least = self._extreme("umin", lanes, pcs, "splat (i32 -1)")
        most = self._extreme("umax", lanes, pcs, "zeroinitializer")
        pc = e.op(f"select i1 %backwards, i32 {most}, i32 {least}")
        here = e.op(f"icmp eq {self._pcs} {pcs}, {e.spread_scalar('i32', pc)}")
        here = e.op(f"and {flags} {here}, {lanes}")
        e.do(f"store {self._mask} {e.as_mask(here)}, ptr %mask")
        others = e.op(f"xor {flags} {here}, splat (i1 true)")
        elsewhere = e.op(f"and {flags} {lanes}, {others}")
        e.do(f"store i32 {self._extreme('umin', elsewhere, pcs, 'splat (i32 -1)')}, ptr %others")
        cases = " ".join(f"i32 {i}, label %b{i}" for i in range(self._count))
        e.do(f"switch i32 {pc}, label %leave [{cases}]")

    def _extreme(self, how: str, lanes: str, pcs: str, otherwise: str) -> str:
        e, shape = self.e, self._pcs
        chosen = e.op(f"select {e.lanes('i1')} {lanes}, {shape} {pcs}, {shape} {otherwise}")
        name = f"llvm.vector.reduce.{how}.v{e.machine.width}i32"
        return e.intrinsic(name, "i32", f"{shape} {chosen}")

    def _load(self) -> str:
        e = self.e
        return e.op(f"load {self._pcs}, ptr {e.warp_field('pc')}, align 64")

    def _store(self, pcs: str) -> None:
        e = self.e
        e.do(f"store {self._pcs} {pcs}, ptr {e.warp_field('pc')}, align 64")

    # -- basic blocks

    def begin(self, index: int) -> None:
        """The place where a basic block begins."""
        self.e.label(f"b{index}")

    def enter(self) -> None:
        """Says which lanes run the block."""
        e = self.e
        self.mask_bits = e.op(f"load {self._mask}, ptr %mask")
        self.mask = e.as_lanes(self.mask_bits)

    def gather(self, index: int, members: str) -> None:
        """Lanes wait at the beginning of the block until all live ones of `members` are there."""
        e, kind = self.e, self._mask
        mask = self.mask_bits
        wanted = e.op(f"and {kind} {members}, {e.warp_mask('live')}")
        missing = e.op(f"and {kind} {wanted}, {e.op(f'xor {kind} {mask}, -1')}")
        none = e.op(f"icmp eq {kind} {missing}, 0")
        e.do(f"br i1 {none}, label %together{index}, label %look{index}")
        e.label(f"look{index}")
        held = e.warp_mask("held")
        here = f"splat (i32 {index})" if index else "zeroinitializer"
        at = e.op(f"icmp eq {self._pcs} {self._load()}, {here}")
        joined = e.op(f"and {kind} {held}, {e.as_mask(at)}")
        everyone = e.op(f"or {kind} {joined}, {mask}")
        absent = e.op(f"and {kind} {wanted}, {e.op(f'xor {kind} {everyone}, -1')}")
        none = e.op(f"icmp eq {kind} {absent}, 0")
        e.do(f"br i1 {none}, label %join{index}, label %hold{index}")
        e.label(f"hold{index}")
        e.save_warp_mask("held", e.op(f"or {kind} {held}, {mask}"))
        self.park(index)
        self.dispatch()
        e.label(f"join{index}")
        e.save_warp_mask("held", e.op(f"xor {kind} {held}, {joined}"))
        e.do(f"store {kind} {everyone}, ptr %mask")
        e.do(f"br label %together{index}")
        e.label(f"together{index}")

    # -- where lanes go

    def dispatch(self) -> None:
        """Who goes on is looked for."""
        self.e.do("br label %dispatch")

    def park(self, target: int, lanes: str = "") -> None:
        """Sets the program counter of the block's lanes, or of those of a vector of i1."""
        e, shape = self.e, self._pcs
        where = f"splat (i32 {target})" if target else "zeroinitializer"
        flags = e.lanes("i1")
        pcs = self._load()
        self._store(e.op(f"select {flags} {lanes or self.mask}, {shape} {where}, {shape} {pcs}"))

    def go(self, index: int, target: int) -> None:
        """All lanes of the block go to one place."""
        e = self.e
        if target >= self._count:
            e.do("br label %leave")
            return
        others = e.op("load i32, ptr %others")
        direct = e.op(f"icmp ugt i32 {others}, {target}")
        direct = e.op(f"select i1 %backwards, i1 false, i1 {direct}")
        if target <= index:
            place = e.warp_field("slice")
            left = e.op(f"add i32 {e.op(f'load i32, ptr {place}')}, -1")
            e.do(f"store i32 {left}, ptr {place}")
            direct = e.op(f"and i1 {direct}, {e.op(f'icmp sgt i32 {left}, 0')}")
        self._parks += 1
        park = f"park{self._parks}"
        e.do(f"br i1 {direct}, label %b{target}, label %{park}")
        e.label(park)
        self.park(target)
        self.dispatch()

    def branch(self, index: int, taken: str, lanes: str, target: int, otherwise: int) -> None:
        """The lanes of `taken`, which is `lanes` as a mask, go to the target, the others on."""
        e, kind = self.e, self._mask
        all_taken = e.op(f"icmp eq {kind} {taken}, {self.mask_bits}")
        e.do(f"br i1 {all_taken}, label %taken{index}, label %some{index}")
        e.label(f"some{index}")
        none = e.op(f"icmp eq {kind} {taken}, 0")
        e.do(f"br i1 {none}, label %passed{index}, label %part{index}")
        e.label(f"taken{index}")
        self.go(index, target)
        e.label(f"passed{index}")
        self.go(index, otherwise)
        e.label(f"part{index}")
        self.park(otherwise)
        self.park(target, lanes)
        self.dispatch()

    def table_branch(self, numbers: str, lanes: str, targets: Sequence[int]) -> None:
        """Each lane of a vector of i1 takes the target of its number, others stay as they are."""
        e, shape, flags = self.e, self._pcs, self.e.lanes("i1")
        pcs = self._load()
        for n, target in enumerate(targets):
            number, where = (f"splat (i32 {i})" if i else "zeroinitializer" for i in (n, target))
            here = e.op(f"icmp eq {shape} {numbers}, {number}")
            here = e.op(f"and {flags} {here}, {lanes}")
            pcs = e.op(f"select {flags} {here}, {shape} {where}, {shape} {pcs}")
        self._store(pcs)
        self.dispatch()

    def exit(self, index: int, leaving: str, otherwise: int | None = None) -> None:
        """The lanes of a mask are done; the others of the block, if there may be any, go on."""
        e, kind = self.e, self._mask
        arguments = ("ptr %block", "ptr %warp", f"{kind} {leaving}")
        e.intrinsic("treadle_simt_exit", "void", *arguments)
        if otherwise is None:
            self.dispatch()
            return
        rest = e.op(f"xor {kind} {self.mask_bits}, {leaving}")
        e.do(f"store {kind} {rest}, ptr %mask")
        none = e.op(f"icmp eq {kind} {rest}, 0")
        e.do(f"br i1 {none}, label %dispatch, label %stay{index}")
        e.label(f"stay{index}")
        self.mask_bits, self.mask = rest, e.as_lanes(rest)
        self.go(index, otherwise)

    def barrier(
        self, index: int, lanes: str, number: str, count: str = "0", votes: str = "0", wait: int = 1
    ) -> None:
        """The lanes of a mask arrive at a barrier of the block: an i32, as is the count of threads.

        A count of 0 means all threads. `wait` is 0 for those that only arrive, 1, or 2 where a warp
        may be diverged. The next basic block follows.
        """
        e = self.e
        self.park(index + 1)
        e.intrinsic(
            "treadle_simt_arrive", "void", "ptr %block", "ptr %warp", f"{self._mask} {lanes}",
            f"i32 {e.site}", f"i32 {number}", f"i32 {count}", f"i32 {wait}",
            f"{self._mask} {votes}",
        )  # fmt: skip
        self.dispatch()
