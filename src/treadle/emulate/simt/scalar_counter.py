"""Control flow of kernels whose warps have one program counter, and a mask EXEC of lanes that act.

    flow = ScalarCounter(e, count)
    flow.write_dispatcher()
    flow.begin(0)                 # a basic block; its code comes here
    flow.branch(0, condition, 2, 1)

A basic block goes straight to the next one. Where that is backwards it counts, and gives the turn
away when the warp has taken many such ways or when a fault was found; then, and at a barrier, the
number of the basic block that is next is kept in the Warp. A conditional way depends on one i1:
which lanes act is no matter of control flow, but of the mask that the code computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.simt.machine import Fault

if TYPE_CHECKING:
    from treadle.emulate.simt.emit import Emitter

__all__ = ["ScalarCounter"]


class ScalarCounter:
    """Writes the dispatcher and the ways between the basic blocks 0 to `count` - 1."""

    def __init__(self, e: Emitter, count: int) -> None:
        self.e, self._count, self._ways = e, count, 0

    def write_dispatcher(self) -> None:
        """The start of the function. Basic blocks follow in any order."""
        e, mask = self.e, self.e.machine.mask
        e.label("entry")
        e.do("br label %dispatch")
        e.label("dispatch")
        left = e.op(f"load i32, ptr {e.warp_field('slice')}")
        live, waiting = (e.warp_mask(name) for name in ("live", "waiting"))
        ready = e.op(f"and {mask} {live}, {e.op(f'xor {mask} {waiting}, -1')}")
        some = e.op(f"icmp ne {mask} {ready}, 0")
        going = e.op(f"and i1 {some}, {e.op(f'icmp sgt i32 {left}, 0')}")
        e.do(f"br i1 {going}, label %pick, label %leave")
        e.label("leave")
        e.do("ret void")
        e.label("pick")
        self._switch(e.op(f"load i32, ptr {e.warp_field('pc')}"), "leave")

    def _switch(self, number: str, otherwise: str) -> None:
        cases = " ".join(f"i32 {i}, label %b{i}" for i in range(self._count))
        self.e.do(f"switch i32 {number}, label %{otherwise} [{cases}]")

    def begin(self, index: int) -> None:
        """The place where a basic block begins."""
        self.e.label(f"b{index}")

    # -- how basic blocks end

    def _park(self, number: str | int) -> None:
        """The basic block of this number is next when the warp goes on."""
        self.e.do(f"store i32 {number}, ptr {self.e.warp_field('pc')}")

    def go(self, index: int, target: int) -> None:
        """To another basic block."""
        e = self.e
        if target > index:
            e.do(f"br label %b{target}")
            return
        self._count_way(str(target))
        e.do(f"br label %b{target}")

    def _count_way(self, number: str) -> None:
        """Goes on here if the warp's turn does."""
        e = self.e
        place = e.warp_field("slice")
        left = e.op(f"add i32 {e.op(f'load i32, ptr {place}')}, -1")
        e.do(f"store i32 {left}, ptr {place}")
        self._ways += 1
        way = self._ways
        e.do(f"br i1 {e.op(f'icmp sgt i32 {left}, 0')}, label %way{way}, label %stop{way}")
        e.label(f"stop{way}")
        self._park(number)
        e.do("ret void")
        e.label(f"way{way}")

    def branch(self, index: int, condition: str, target: int, otherwise: int) -> None:
        """To `target` if an i1 holds, else to `otherwise`."""
        e = self.e
        e.do(f"br i1 {condition}, label %taken{index}, label %passed{index}")
        e.label(f"taken{index}")
        self.go(index, target)
        e.label(f"passed{index}")
        self.go(index, otherwise)

    def jump(self, index: int, number: str, address: str) -> None:
        """To the basic block of this number, an i32. A number of none is a fault at `address`."""
        e = self.e
        self._count_way(number)
        self._switch(number, f"nowhere{index}")
        e.label(f"nowhere{index}")
        e.report(Fault.BAD_JUMP, "0", address)
        e.do("ret void")

    def exit(self) -> None:
        """The warp is done."""
        e = self.e
        live = e.warp_mask("live")
        arguments = ("ptr %block", "ptr %warp", f"{e.machine.mask} {live}")
        e.intrinsic("treadle_simt_exit", "void", *arguments)
        e.do("ret void")

    def signal(self, number: str = "0") -> None:
        """The warp arrives at a barrier of the block and goes on; `wait` is to follow.

        All of its threads arrive, those that EXEC leaves out as well.
        """
        self._arrive(number, wait=0)

    def wait(self, index: int, number: str = "0") -> None:
        """The warp waits for all to arrive where it has. The next basic block follows."""
        e = self.e
        self._park(index + 1)
        e.intrinsic(
            "treadle_simt_barrier_wait", "void", "ptr %block", "ptr %warp",
            f"{e.machine.mask} {e.warp_mask('live')}", f"i32 {e.site}", f"i32 {number}",
        )  # fmt: skip
        e.do("br label %dispatch")

    def barrier(self, index: int, number: str = "0") -> None:
        """The warp arrives at a barrier and waits. The next basic block follows."""
        self._park(index + 1)
        self._arrive(number, wait=1)
        self.e.do("br label %dispatch")

    def _arrive(self, number: str, wait: int) -> None:
        e, mask = self.e, self.e.machine.mask
        e.intrinsic(
            "treadle_simt_arrive", "void", "ptr %block", "ptr %warp",
            f"{mask} {e.warp_mask('live')}", f"i32 {e.site}", f"i32 {number}", "i32 0",
            f"i32 {wait}", f"{mask} 0",
        )  # fmt: skip
