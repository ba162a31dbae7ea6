"""CUDA C for units of warpgroups: their products, and the producer that feeds them.

A producer's program stands before that of the work items, in an `if` that one work item of one more
warpgroup enters and that the whole warpgroup returns from.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import After, Box, Store
from ..lower.linearize import Phase
from .clike_workgroups import WorkgroupFunction
from .cuda_text import product_text
from .mbarrier import READY, mbarriers_of
from .wgmma import DONE, halves, is_left, keep, moved_registers, product_name, sources

__all__ = ["WithWarpgroups"]


class WithWarpgroups(WorkgroupFunction):
    """A phase that may have WGMMAs, and a producer."""

    helpers: set[str]

    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.boxes = phase.boxes
        self.products: dict[str, str] = {}  # functions, by name

    def text(self) -> str:
        """The whole function."""
        self.begin()
        return super().text()

    def begin(self) -> None:
        """Set up what a producer and the work items meet at, and print its program."""
        producer, work_items = self.phase.producer, self.phase.work_items
        if producer is None:
            return
        self.helpers |= {"init_mbarrier", "shared_address", "tensor_map"}
        self.open("if (threadIdx.x == 0)")
        for barriers in mbarriers_of(self.phase.code):
            for number, arrivals in enumerate(barriers.arg.arrivals):
                self.line(f"init_mbarrier({self.memory(barriers)} + {number}, {arrivals});")
        self.line(f'asm volatile("{READY}" ::: "memory");')
        self.close()
        self.line("__syncthreads();")
        moved = moved_registers(self.phase)
        self.open(f"if (threadIdx.x >= {work_items})")
        if moved is not None:
            self.line(f'asm volatile("{keep(moved[0], "dec")}");')
        self.open(f"if (threadIdx.x == {work_items})")
        for node in producer.src:
            self.node(node)
        self.close()
        self.line("return;")
        self.close()
        if moved is not None:
            self.line(f'asm volatile("{keep(moved[1], "inc")}");')
        # What was named in there is not known outside.
        self.names = {n: name for n, name in self.names.items() if n.op in (Op.PARAM, Op.LOCAL)}

    def _await(self, node: Node) -> None:
        *mbarrier, parity = node.src
        self._on_mbarrier("await_phase", mbarrier, self.value(parity))

    def _expect(self, node: Node) -> None:
        self._on_mbarrier("expect_bytes", node.src, str(node.arg))

    def _on_mbarrier(self, function: str, mbarrier: Sequence[Node], *arguments: str) -> None:
        self.helpers |= {function, "shared_address"}
        barriers, slot = mbarrier
        at = f"{self.value(barriers)} + {self.value(slot)}"
        self.line(f"{function}({', '.join((at, *arguments))});")

    def _box(self, node: Node) -> None:
        """Printed where it is stored."""

    def _copy_box(self, store: Store) -> None:
        box = Box.of(store.value)
        barriers, slot = box.mbarrier
        name = f"copy_box_{len(box.place)}d"
        self.helpers |= {name, "shared_address"}
        number = self.boxes.index((behind_after(box.memory), box.arg))
        arguments = [
            f"{self.memory(store.memory)} + {self.value(store.index)}", f"&map{number}",
            f"{self.value(barriers)} + {self.value(slot)}", *map(self.value, box.place),
        ]  # fmt: skip
        self.line(f"{name}({', '.join(arguments)});")

    def _wgmma(self, node: Node) -> str:
        self.counter += 1
        name, zero = f"p{self.counter}", self.literal(node.dtype.scalar, 0)
        self.line(f"{self.type(node.dtype)} {name} = {self.splat(node.dtype, zero)};")
        self._add_product(node, name)
        return name

    def _add_product(self, node: Node, sums: str) -> None:
        """A product of units of warpgroups, added to sums that are there already."""
        name = product_name(node)
        self.products[name] = product_text(node)
        of_x, of_y, arrival = sources(node)
        (x, *places), (y, at_y) = map(self.value, of_x), map(self.value, of_y)
        if node.arg.words:
            self.line(f"{name}({', '.join((sums, x, *places))}, {y} + {at_y});")
            return
        if node.arg.x is not None:
            self.line(f"{name}({sums}, {x} + {places[0]}, {y} + {at_y});")
            self._arrive(arrival)
            return
        memory = of_x[0]
        pair = self.type(memory.dtype.scalar.vec(2))
        for half, turn in halves(node):
            words = (f"*(const {pair} *)({x} + {self.value(place)})" for place in half)
            deep = turn * node.arg.y.advance // memory.dtype.itemsize
            self.line(f"{name}({sums}, {', '.join(words)}, {y} + {at_y} + {deep});")
            if turn == 0:
                self._arrive(arrival)

    def _arrive(self, arrival: Sequence[Node]) -> None:
        if arrival:
            *place, is_read = arrival
            self._on_mbarrier("arrive", place, self.value(is_read))

    def _after(self, node: Node) -> str:
        register = After.of(node).value
        if register.op is Op.REGISTER and is_left(node):
            sign = "f" if node.dtype.is_float else "r"
            name = self.names[register]
            sums = ", ".join(f'"+{sign}"({name}.s{n})' for n in range(node.dtype.count))
            self.line(f'asm volatile("{DONE}" ::: "memory");')
            self.line(f'asm volatile("" : {sums} : : "memory");')
        return super()._after(node)
