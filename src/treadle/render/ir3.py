"""Linear programs to the assembly language of Adreno 6xx, with virtual registers.

    kernel E_3_0 work_items=128 buffers=2 variables=0 shared=0
      mov.u32u32 %1, r48.x
      ...
      stg.a.u32 %9:2, %12, %7, 0, 0, 1

Each phase is a kernel. Instructions are chosen here; compile/ir3 gives them registers and lets them
wait. Vectors are lanes that are computed one by one. A loop stands between `loop` and `while`, what
is behind a gate between `if` and `end`. What a kernel finds when it starts is on the page
docs/design/qcom.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.loops import closed_ranges, has_fixed_size, loop_size
from ..ir.node import Node, behind_after
from ..ir.op import ALU, COMPARE, Op
from ..ir.views import After, Register, Update, bound_of, operand, operands
from ..lower.linearize import Phase
from ..lower.overflow_analysis import bounds_and_exact
from ..target import Target
from . import ir3_int64 as int64
from .ir3_division import divide, divide_by_constant
from .ir3_images import Images
from .ir3_values import CONDITIONS, Lane, is_pair, word
from .workgroups import Fused, fused, only_updated

__all__ = ["IR3Renderer"]

_FUNCTIONS = frozenset((Op.SQRT, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND, Op.FMA))
_OF_BOOLS = {
    Op.AND: "and.b", Op.MUL: "and.b", Op.MIN: "and.b", Op.OR: "or.b", Op.ADD: "or.b",
    Op.MAX: "or.b", Op.XOR: "xor.b",
}  # fmt: skip
_PRODUCT = 1 << 23  # factors of a product of 24 bits lie below


class IR3Renderer:
    """Prints programs for one Adreno; `contract` lets multiply and add fuse."""

    name = "ADRENO"

    def __init__(self, target: Target, contract: bool = True) -> None:
        self.target, self.contract = target, contract

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """A text with one kernel a phase, called `name_0`, `name_1`, ..."""
        return "\n".join(
            _IR3Function(f"{name}_{number}", phase, self.contract).text()
            for number, phase in enumerate(phases)
        )


class _IR3Function(Images):
    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        self.params = [param for param, _ in phase.params]
        self.written = {param for param, is_written in phase.params if is_written}
        super().__init__(name, self.params, self.written)
        self.name, self.phase, self.contract = name, phase, contract
        self.names: dict[Node, list[Lane]] = {}
        self.bounds, _ = bounds_and_exact(phase.code)
        self.products = self._products()
        self.unprinted = only_updated(phase.code) | {m for m, _ in self.products.values()}
        self.flat = self.new()
        self.work_item = self.new()

    def text(self) -> str:
        """The whole kernel."""
        for node in self.phase.program.src:
            if node not in self.unprinted:
                self._node(node)
        head = (
            f"kernel {self.name} work_items={self.phase.work_items} buffers={len(self.params)} "
            f"variables={len(self.phase.variables)} shared={self.shared}"
        )
        inputs = [f"  mov.u32u32 {self.work_item}, r0.x", f"  mov.u32u32 {self.flat}, r48.x"]
        images = self.descriptions(self.params)
        return "\n".join([head, *images, *inputs, *self.entry, *self.lines, ""])

    def _products(self) -> dict[Node, tuple[Node, Node]]:
        """For each integer sum with a small product in it: the product and the other term."""
        program = self.phase.code
        uses = Counter(s for n in program.src for s in n.src)
        found: dict[Node, tuple[Node, Node]] = {}
        for node in program.src:
            if node.op is not Op.ADD or node.dtype.scalar not in (dtypes.int32, dtypes.uint32):
                continue
            left, right = operands(node)
            for product, other in ((left, right), (right, left)):
                if product.op is Op.MUL and uses[product] == 1 and self._is_small(product):
                    found[node] = product, other
                    break
        return found

    def _is_small(self, product: Node) -> bool:
        ranges = [self.bounds.get(factor) for factor in product.src]
        return all(r is not None and -_PRODUCT <= r[0] and r[1] < _PRODUCT for r in ranges)

    # -- values -----------------------------------------------------------------------------------

    def lanes(self, node: Node) -> list[Lane]:
        """The lanes of a value that was printed before, or of a constant."""
        count = node.dtype.count
        if node.op is Op.CONST:
            return [self.literal(node.dtype.scalar, node.arg)] * count
        if node.op is Op.LANES:
            return [self.literal(node.dtype.scalar, n) for n in range(count)]
        if node.op is Op.BROADCAST:
            return self.lanes(operand(node)) * count
        return self.names[node]

    def scalar(self, node: Node) -> str:
        """The one lane of a value of up to 32 bits."""
        (lane,) = self.lanes(node)
        assert isinstance(lane, str)
        return lane

    def is_index(self, node: Node) -> bool:
        bounds = self.bounds.get(node)
        return node not in self.unprinted and bounds is not None and bounds[0] >= 0

    def is_written(self, memory: Node) -> bool:
        return memory.op is Op.LOCAL or memory in self.written

    def parameter(self, memory: Node) -> tuple[str, str]:
        number = 2 * self.params.index(memory)
        return _constant(number), _constant(number + 1)

    def _node(self, node: Node) -> None:
        if node.op in (Op.CONST, Op.LANES, Op.PARAM, Op.LOCAL, Op.BROADCAST):
            return
        if node.op in ALU:
            self.names[node] = self._alu(node)
            return
        method = getattr(self, f"_{node.op.name.lower()}", None)
        if method is None:
            raise InternalError(f"Adreno's renderer has no {node.op.name}")
        lanes = method(node)
        if lanes is not None:
            self.names[node] = lanes

    # -- the grid and loops -----------------------------------------------------------------------

    def _range(self, node: Node) -> list[Lane]:
        if node.arg.kind == "grid":
            return [self._grid(node)]
        dtype, (size,) = node.dtype, self.lanes(bound_of(node))
        index = self.fresh(dtype)
        self.copy(index, self.literal(dtype, 0))
        if not has_fixed_size(node):
            some = self._compare(Op.CMPLT, dtype, self.literal(dtype, 0), size)
            self.open(f"if {some}")
        self.open("loop")
        # In each step it stays what it is.
        self.changing.difference_update(index if isinstance(index, tuple) else (index,))
        return [index]

    def _end(self, node: Node) -> None:
        (loop,) = closed_ranges(node)
        (index,), (size,) = self.names[loop], self.lanes(bound_of(loop))
        self.known[-1].clear()  # what was computed with the index
        self.copy(index, self.sum_of(loop.dtype, index, self.literal(loop.dtype, 1)))
        self.close(f"while {self._compare(Op.CMPLT, loop.dtype, index, size)}")
        if not has_fixed_size(loop):
            self.close()

    def _grid(self, node: Node) -> Lane:
        """A digit of the flat position in the grid."""
        grid = self.phase.grid
        place = grid.index(node)
        digit, most = self.flat, min(loop_size(*grid), 1 << 32) - 1
        for inner in reversed(grid[place + 1 :]):
            digit, _ = self._divided(digit, inner, most)
            if has_fixed_size(inner):
                most //= bound_of(inner).arg
        if place:
            _, digit = self._divided(digit, node, most)
        return (digit, "0x0") if is_pair(node.dtype) else digit

    def _divided(self, value: str, loop: Node, most: int) -> tuple[str, str]:
        """A position divided by the size of a loop."""
        if has_fixed_size(loop):
            short = divide_by_constant(self, value, bound_of(loop).arg, most)
            if short is not None:
                return short
        (size,) = self.lanes(bound_of(loop))
        return divide(self, value, size[0] if isinstance(size, tuple) else size, signed=False)

    def _variable(self, node: Node) -> list[Lane]:
        number = 2 * len(self.params) + self.phase.variables.index(node.arg.name)
        value = self.emit("mov.u32u32", _constant(number))
        return [(value, self.emit("ashr.b", value, word(31)))] if is_pair(node.dtype) else [value]

    def _work_item(self, node: Node) -> list[Lane]:
        if node.arg.name != "work_item":
            raise InternalError(f"Adreno's renderer has no {node.arg.name} of a subgroup")
        return [(self.work_item, "0x0") if is_pair(node.dtype) else self.work_item]

    def _barrier(self, node: Node) -> None:
        self.line("fence.r.w")
        self.line("bar.g")

    # -- registers --------------------------------------------------------------------------------

    def _register(self, node: Node) -> list[Lane]:
        lanes = [self.fresh(node.dtype.scalar) for _ in range(node.dtype.count)]
        for lane, start in zip(lanes, self.lanes(Register.of(node).start), strict=True):
            self.copy(lane, start)
        return lanes

    def _update(self, node: Node) -> None:
        update = Update.of(node)
        register = behind_after(update.register)
        lanes, dtype = self.names[register], register.dtype
        sum_ = fused(node) if self.contract else None
        if sum_ is not None:
            new = self._fused(dtype, sum_, lanes)
        else:
            new = self.lanes(update.value)
            if update.op is not None:
                new = [self._binary(update.op, dtype.scalar, a, b)
                       for a, b in zip(lanes, new, strict=True)]  # fmt: skip
        for lane, value in zip(lanes, new, strict=True):
            self.copy(lane, value)

    def _after(self, node: Node) -> list[Lane] | None:
        held = After.of(node).value
        if held.op is not Op.REGISTER:
            return None
        lanes = [self.fresh(node.dtype.scalar) for _ in self.names[held]]
        for lane, value in zip(lanes, self.names[held], strict=True):
            self.copy(lane, value)
        return lanes

    # -- vectors ----------------------------------------------------------------------------------

    def _stack(self, node: Node) -> list[Lane]:
        return [self.lanes(source)[0] for source in node.src]

    def _shuffle(self, node: Node) -> list[Lane]:
        a, b = node.src
        both = [*self.lanes(a), *self.lanes(b)]
        return [both[number] for number in node.arg]

    def _extract(self, node: Node) -> list[Lane]:
        return [self.lanes(operand(node))[node.arg]]

    def _hreduce(self, node: Node) -> list[Lane]:
        """All lanes, halves combined again and again, in the same order as in render/llvm.py."""
        lanes = self.lanes(operand(node))
        while len(lanes) > 1:
            half = len(lanes) // 2
            pairs = zip(lanes[:half], lanes[half:], strict=True)
            lanes = [self._binary(node.arg, node.dtype, a, b) for a, b in pairs]
        return lanes

    # -- arithmetic -------------------------------------------------------------------------------

    def _alu(self, node: Node) -> list[Lane]:
        sum_ = fused(node) if self.contract else None
        if sum_ is not None:
            return self._fused(node.dtype, sum_)
        if node in self.products:
            product, other = self.products[node]
            factors = (self.scalar(factor) for factor in product.src)
            return [self.emit("mad.s24", *factors, self.scalar(other))]
        sources = [self.lanes(source) for source in node.src]
        return [self._one(node, *lanes) for lanes in zip(*sources, strict=True)]

    def _fused(self, dtype: DType, sum_: Fused, held: list[Lane] | None = None) -> list[Lane]:
        added = held if sum_.z is None else self.lanes(sum_.z)
        assert added is not None
        x_sign, z_sign = "(neg)" * sum_.is_negative, "(neg)" * sum_.is_less
        return [
            self.emit("mad.f32", f"{x_sign}{x}", f"{y}", f"{z_sign}{z}")
            for x, y, z in zip(self.lanes(sum_.x), self.lanes(sum_.y), added, strict=True)
        ]

    def _one(self, node: Node, *lanes: Lane) -> Lane:
        """One lane of an operation."""
        op, dtype, source = node.op, node.dtype.scalar, operand(node).dtype.scalar
        if op is Op.WHERE:
            gate, yes, no = lanes
            assert isinstance(gate, str)
            return self.choose(gate, yes, no)
        if op in COMPARE:
            return self._compare(op, source, *lanes)
        if op is Op.CAST:
            (value,) = lanes
            if isinstance(value, tuple) or is_pair(dtype):
                return int64.convert(self, source, dtype, value)
            return self.converted(source, dtype, value)
        if op is Op.BITCAST:
            (value,) = lanes
            return value if isinstance(value, tuple) else self.same_bits(source, dtype, value)
        if op is Op.NEG:
            return self._negative(dtype, lanes[0])
        if op in _FUNCTIONS:
            return self.function(op, [lane for lane in lanes if isinstance(lane, str)])
        if op in (Op.IDIV, Op.MOD, Op.MUL) and dtype.is_int and not is_pair(dtype):
            return self._product_or_quotient(node, *(x for x in lanes if isinstance(x, str)))
        return self._binary(op, dtype, *lanes)

    def _compare(self, op: Op, dtype: DType, a: Lane, b: Lane) -> str:
        if isinstance(a, tuple) and isinstance(b, tuple):
            return int64.compare(self, op, dtype, a, b)
        assert isinstance(a, str)
        assert isinstance(b, str)
        kind = "f" if dtype.is_float else "u" if dtype.is_unsigned or dtype.is_bool else "s"
        return self.emit(f"cmps.{kind}.{CONDITIONS[op]}", a, b)

    def _negative(self, dtype: DType, value: Lane) -> Lane:
        if isinstance(value, tuple):
            return int64.arithmetic(self, Op.SUB, dtype, int64.ZERO, value)
        if dtype.is_float:
            return self.emit("absneg.f", f"(neg){value}")
        return self.wrapped(dtype, self.emit("sub.u", "0x0", value))

    def _product_or_quotient(self, node: Node, a: str, b: str) -> str:
        left, right = node.src
        ranges = self.bounds.get(left), self.bounds.get(right)
        known = None if ranges[0] is None or ranges[1] is None else (ranges[0], ranges[1])
        if node.op is Op.MUL:
            return self.wrapped(node.dtype.scalar, self.multiply(a, b, known))
        if known is not None and known[0][0] >= 0 and known[1][0] == known[1][1] > 0:
            short = divide_by_constant(self, a, known[1][0], known[0][1])
            if short is not None:
                return short[node.op is Op.MOD]
        may_be_negative = not node.dtype.is_unsigned
        if known is not None and known[0][0] >= 0 and known[1][0] > 0:
            may_be_negative = False
        return divide(self, a, b, may_be_negative)[node.op is Op.MOD]

    def _binary(self, op: Op, dtype: DType, a: Lane, b: Lane) -> Lane:
        if isinstance(a, tuple) and isinstance(b, tuple):
            return int64.arithmetic(self, op, dtype, a, b)
        assert isinstance(a, str)
        assert isinstance(b, str)
        if dtype.is_bool:
            return self.emit(_OF_BOOLS[op], a, b)
        if dtype.is_float:
            return self.floating(op, a, b)
        if op is Op.MUL:  # of a register's lanes: nothing is known of them
            return self.wrapped(dtype, self.multiply(a, b))
        return self.integer(op, dtype, a, b)


def _constant(number: int) -> str:
    return f"c{number // 4}.{'xyzw'[number % 4]}"
