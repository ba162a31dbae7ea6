"""treadle as a backend of `torch.compile`.

    compiled = torch.compile(model, backend="treadle")
    compiled(x).sum().backward()

PyTorch traces the model, and its gradients, into graphs of ATen operators. Each stretch of such a
graph that the table in interop/aten.py knows is a captured function of treadle's, on the CPU and on
memory that both share; the rest runs in PyTorch as before: other devices, random numbers, and
operators that the table lacks.

Where sizes of a graph are symbolic, PyTorch's symbols become variables of treadle's, and what is
made of them a symbolic size (interop/symbolic_sizes.py). One capture serves all sizes up to the
next power of two: kernels take the sizes of each call when they are launched, and nothing is
compiled for a size that is new. A range of sizes runs in PyTorch when it comes for the first time.
A stretch with an operator that needs sizes as numbers, such as a sort, is captured once for each
of the sizes that come again; `treadle.interop.report()` names the operator.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import sympy
import torch
from functorch.compile import make_boxed_func
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ..dtype import _from_torch_dtype
from ..engine.bindings import binding
from ..engine.index_checks import look
from ..engine.jit import TinyJit
from ..errors import TreadleError
from ..ir.node import Node
from ..ir.symbolic import Size, bind, unbind
from ..tensor import Tensor
from . import aten_indexing, aten_windows
from .aten import MEANINGS
from .handover import Direct, Layout, handed_over, in_order, lies_alike, taken, taken_of_size
from .left_to_pytorch import note
from .openmp import borrow_threads
from .symbolic_sizes import Sizes, Unsupported, evaluated, expression

__all__ = ["compile_graph"]

aten = torch.ops.aten

# PyTorch's views, which cost nothing there: results that are moved last are moved in PyTorch.
_VIEWS = frozenset((
    aten.alias.default, aten.detach.default, aten.expand.default, aten.permute.default,
    aten.select.int, aten.slice.Tensor, aten.squeeze.dim, aten.squeeze.dims, aten.t.default,
    aten.transpose.int, aten.unsqueeze.default, aten.view.default,
))  # fmt: skip


# What an operator's arguments have to be like, where not all are known.
ONLY_IF: dict[object, Callable[[torch.fx.Node], bool]] = {
    **aten_indexing.ONLY_IF,
    **aten_windows.ONLY_IF,
}

# So many sizes does a stretch have captures for that has none for a range of them: as often as
# PyTorch traces a function anew.
_SIZES = 8

# So many sizes of a range are known in full: a call of one of them looks at each tensor only once.
_DIRECT = 256

_Values: TypeAlias = dict[torch.fx.Node, Any]  # tensors, numbers, or several of them


class _Known(OperatorSupportBase):
    """The nodes of a graph that treadle computes."""

    def is_node_supported(self, submodules: object, node: torch.fx.Node) -> bool:
        return node.op == "call_function" and _why_not(node) is None


def _why_not(node: torch.fx.Node) -> str | None:
    """Why PyTorch computes a call; None where treadle does."""
    for given in (node, *node.all_input_nodes):
        why = None if _is_size(given) and given is not node else _why_not_plain(given)
        if why is not None:
            return why if given is node else f"an argument: {why}"
    if node.target is operator.getitem:
        return _why_not(node.all_input_nodes[0])
    if node.target not in MEANINGS:
        return "not in the table of operators"
    is_fit = ONLY_IF.get(node.target, _always)
    return None if is_fit(node) else "not with these arguments"


def _always(node: torch.fx.Node) -> bool:
    return True


def _why_not_plain(node: torch.fx.Node) -> str | None:
    """Why a node is not dense memory of the host, of a known real dtype; None where it is."""
    value = node.meta.get("val")
    if value is None:
        return "no tensor"
    listed = value if isinstance(value, (tuple, list)) else [value]
    reasons = (_why_not_plain_tensor(item) for item in listed if item is not None)
    return next((reason for reason in reasons if reason is not None), None)


def _why_not_plain_tensor(value: object) -> str | None:
    if not isinstance(value, torch.Tensor):
        return "no tensor"
    if value.layout is not torch.strided:
        return f"of layout {value.layout}"
    if value.is_complex():  # PyTorch's own may be conjugated in name alone
        return "complex"
    try:
        _from_torch_dtype(value.dtype)
    except TypeError:
        return f"of dtype {value.dtype}"
    if value.device.type != "cpu":
        return f"on device {value.device}"
    return "of a size that depends on values" if free_unbacked_symbols(value) else None


def _is_size(node: torch.fx.Node) -> bool:
    """Whether a node is a whole number, which PyTorch computes."""
    return isinstance(node.meta.get("val"), torch.SymInt)


class _Part(torch.nn.Module):
    """A stretch of a graph: tensors of PyTorch in and out, captured for its sizes and replayed."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__()
        self._as_traced = module.forward
        *nodes, last = module.graph.nodes
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._calls = [node for node in nodes if node.op == "call_function"]
        self._is_tuple = isinstance(last.args[0], (tuple, list))
        self._results: Any = last.args[0] if self._is_tuple else last.args
        bases = dict.fromkeys(map(_base_of, self._results))
        self._computed = [node for node in bases if node.op != "placeholder"]
        self._views = {node: _View.of(node) for node in self._results}
        self._is_symbolic = any(_is_symbolic(node.meta["val"]) for node in self._inputs)
        self._sizes = self._sizes_of_inputs() if self._is_symbolic else None
        self._calls_of: Counter[tuple[object, ...]] = Counter()
        self._captures: dict[tuple[object, ...], TinyJit[..., list[Tensor]]] = {}
        self._ranges: list[_Range] = []
        self._direct: dict[tuple[int, ...], Direct] = {}  # by the values of the symbols

    def _sizes_of_inputs(self) -> Sizes | None:
        try:
            return Sizes.of([node.meta["val"] for node in self._inputs])
        except Unsupported as error:
            note("symbolic sizes", f"captured for each size: {error}")
            return None

    def forward(self, *inputs: object) -> object:
        """What the graph returns: computed by treadle, and moved by PyTorch."""
        tensors = [given for given in inputs if isinstance(given, torch.Tensor)]
        numbers = () if self._sizes is None else self._sizes.numbers(inputs)
        direct = self._direct.get(numbers)
        results = None if direct is None else direct(tensors)
        if results is None and self._sizes is not None:
            results = self._of_range(self._sizes, numbers, tensors)
        if results is None and self._sizes is None:
            results = self._of_sizes(tuple(map(_known, inputs)), tensors)
        if results is None:
            return self._as_traced(*inputs)
        values = dict(zip(self._inputs, inputs, strict=True))
        values |= zip(self._computed, results, strict=True)
        look()  # PyTorch reads these without asking
        shown = tuple(self._shown(node, values) for node in self._results)
        return shown if self._is_tuple else shown[0]

    def _shown(self, node: torch.fx.Node, values: _Values) -> Any:
        """A result: one of `values`, or a view of one."""
        if node in values:
            return values[node]
        view = self._views[node]
        shown = None if view is None else view.shown(values[view.base])
        return _moved(node, values) if shown is None else shown

    # -- a capture for the sizes of a call ------------------------------------------------------

    def _of_sizes(
        self, known: tuple[Layout | int, ...], tensors: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """What the captured function makes of `tensors`; the next calls are direct, if they can.

        None where these sizes have no capture, and may never come again.
        """
        captured = self._capture(known)
        if captured is None:
            return None
        wanted: list[torch.Tensor] = [node.meta["val"] for node in self._computed]
        layouts = [layout for layout in known if isinstance(layout, Layout)]
        given = [*map(taken, tensors, layouts)]
        if not self._is_symbolic and not self._direct:
            self._direct[()] = Direct(captured, tensors, given, wanted)
        return _handed_over(captured(*given), wanted)

    def _capture(self, known: tuple[Layout | int, ...]) -> TinyJit[..., list[Tensor]] | None:
        """The capture for inputs of which so much is known; None where it may never come again."""
        found = self._captures.get(known)
        if found is not None or (self._is_symbolic and len(self._captures) == _SIZES):
            return found
        self._calls_of[known] += 1
        if self._is_symbolic and self._calls_of[known] == 1:
            return None
        inputs = dict(zip(self._inputs, known, strict=True))
        self._captures[known] = found = TinyJit(functools.partial(self._run, inputs))
        return found

    def _run(self, known: dict[torch.fx.Node, Layout | int], *inputs: Tensor) -> list[Tensor]:
        """The graph on tensors of treadle's, whose shapes are known."""
        given = iter(inputs)
        values: _Values = {
            node: layout if isinstance(layout, int) else layout.view(next(given))
            for node, layout in known.items()
        }
        return _realized(self._lazy(values, None))

    # -- a capture for a range of sizes ---------------------------------------------------------

    def _of_range(
        self, sizes: Sizes, numbers: tuple[int, ...], tensors: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """The same of a capture for all sizes up to some; None where there is none as yet."""
        if not all(tensor.numel() for tensor in tensors):
            return None
        layouts = [*map(Layout.of, tensors)]
        orders = tuple((layout.order, layout.repeated) for layout in layouts)
        found = next((one for one in self._ranges if one.serves(orders, numbers)), None)
        if found is None:
            caps = sizes.caps(numbers)
            self._calls_of[orders, caps] += 1
            if self._calls_of[orders, caps] == 1:
                return None
            found = _Range(orders, caps, TinyJit(functools.partial(self._run_range, orders)))
        _, _, captured = found
        bound = sizes.bound(numbers, found.caps)
        wanted = self._wanted(dict(zip(sizes.symbols, numbers, strict=True)))
        given = self._given(bound, tensors, layouts)
        if found not in self._ranges:
            if wanted is None or not self._fits(found, sizes, tensors, layouts):
                self._sizes = None
                return None
            self._ranges.append(found)
        assert wanted is not None  # what the sizes are does not change the order of axes
        direct = Direct(captured, tensors, given, wanted, sizes.named(numbers))
        if len(self._direct) >= _DIRECT:
            self._direct.clear()
        self._direct[numbers] = direct
        results = direct(tensors)
        if results is None:
            results = _handed_over(captured(*given, *bound.values()), wanted)
        return results

    def _given(
        self, bound: Mapping[sympy.Symbol, Size], tensors: Sequence[torch.Tensor],
        layouts: Sequence[Layout],
    ) -> list[Tensor]:  # fmt: skip
        """The tensors with as many elements as their symbolic shapes say."""
        examples = (node.meta["val"] for node in self._inputs if not _is_size(node))
        shapes = [_shape(example, bound) for example in examples]
        return [
            taken_of_size(tensor, layout, layout.elements(shape))
            for tensor, layout, shape in zip(tensors, layouts, shapes, strict=True)
        ]

    def _wanted(self, numbers: Mapping[sympy.Symbol, int]) -> list[torch.Tensor] | None:
        """Tensors without memory like the results in a call of these sizes.

        None where their axes lie in another order than in the traced call.
        """
        found = []
        for node in self._computed:
            like: torch.Tensor = node.meta["val"]
            steps = [evaluated(expression(stride), numbers) for stride in like.stride()]
            strides = cast("Sequence[int]", steps)
            shape = cast("Sequence[int]", _shape(like, numbers))
            made = torch.empty_strided(shape, strides, dtype=like.dtype, device="meta")
            if not lies_alike(made, like):
                return None
            found.append(made)
        return found

    def _fits(
        self, found: _Range, sizes: Sizes, tensors: Sequence[torch.Tensor],
        layouts: Sequence[Layout],
    ) -> bool:  # fmt: skip
        """Whether the graph can be made with symbolic sizes; if not, the report says why."""
        free = sizes.free(found.caps)
        try:
            given = self._given(free, tensors, layouts)
            self._lazy_range(found.orders, given, [*free.values()])
        except _Gap as gap:
            note(str(gap.operator), f"captured for each size: {gap.__cause__}")
            return False
        return True

    def _run_range(self, orders: _Orders, *inputs: Tensor | Node) -> list[Tensor]:
        """The graph on tensors of treadle's, and the values of its symbols behind them.

        The first call makes the graph of those that are captured, in which sizes have no values.
        """
        free, values = unbind([size for size in inputs if isinstance(size, Node)])
        tensors = [tensor for tensor in inputs if isinstance(tensor, Tensor)]
        if values:
            nodes = unbind([tensor.node for tensor in tensors])[0]
            tensors = [Tensor._of(node, "CPU") for node in nodes]
        with binding(values):
            found = _realized(self._lazy_range(orders, tensors, free))
        for tensor in found if values else ():
            [tensor.node] = bind([tensor.node], values)
        return found

    def _lazy_range(
        self, orders: _Orders, tensors: Sequence[Tensor], sizes: Sequence[Node]
    ) -> list[Tensor]:
        assert self._sizes is not None
        given, lies = iter(tensors), iter(orders)
        symbols = dict(zip(self._sizes.symbols, sizes, strict=True))
        values: _Values = {}
        for node in self._inputs:
            example = node.meta["val"]
            if _is_size(node):
                values[node] = evaluated(expression(example), symbols)
            else:
                values[node] = Layout(_shape(example, symbols), *next(lies)).view(next(given))
        return self._lazy(values, symbols)

    # -- what the graph means -------------------------------------------------------------------

    def _lazy(self, values: _Values, symbols: Mapping[sympy.Symbol, Size] | None) -> list[Tensor]:
        """The graph of what is computed. `symbols` are sizes; None where all are numbers."""
        for node in self._calls:
            args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
            meaning: Any = MEANINGS.get(node.target, node.target)
            like = node.meta["val"]
            if symbols is None:
                values[node] = _like(meaning(*args, **kwargs), like, None)
                continue
            try:
                values[node] = _like(meaning(*args, **kwargs), like, symbols)
            except (TreadleError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
                raise _Gap(node.target) from error
        return [in_order(values[node], node.meta["val"]) for node in self._computed]


class _Gap(Exception):
    """An operator that has no meaning with symbolic sizes."""

    def __init__(self, operator: object) -> None:
        super().__init__(operator)
        self.operator = operator


_Orders: TypeAlias = "tuple[tuple[tuple[int, ...] | None, tuple[int, ...]], ...]"


class _Range(NamedTuple):
    """A capture for inputs whose axes lie in these orders, of sizes up to `caps`."""

    orders: _Orders
    caps: tuple[int, ...]
    captured: TinyJit[..., list[Tensor]]

    def serves(self, orders: _Orders, numbers: Sequence[int]) -> bool:
        return self.orders == orders and all(
            number <= cap for number, cap in zip(numbers, self.caps, strict=True)
        )


def _realized(found: Sequence[Tensor]) -> list[Tensor]:
    """The results of a captured function, in memory."""
    # A copy may be no more than the input itself, which is PyTorch's memory.
    results = [t.clone() if t.is_realized else t for t in found]
    Tensor.realize(*results)  # as one graph: what several are made of is computed once
    return results


def _handed_over(found: Sequence[Tensor], wanted: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    seen = set[int]()
    return [handed_over(result, like, seen) for result, like in zip(found, wanted, strict=True)]


def _shape(like: torch.Tensor, symbols: Mapping[sympy.Symbol, Size]) -> tuple[Size, ...]:
    """The shape of a traced tensor where its symbols are these."""
    return tuple(evaluated(expression(size), symbols) for size in like.shape)


def _base_of(node: torch.fx.Node) -> torch.fx.Node:
    """What a chain of views shows."""
    while node.target in _VIEWS:
        node = node.all_input_nodes[0]
    return node


class _View(NamedTuple):
    """A chain of views of `base` as one: where its elements are, for a base of these `strides`.

    PyTorch takes a few microseconds for each of its views, and a fifth of that for this.
    """

    base: torch.fx.Node
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, node: torch.fx.Node) -> _View | None:
        """That of a result; None where a size depends on the call, or it is no tensor."""
        base = _base_of(node)
        seen, like = base.meta["val"], node.meta["val"]
        if not all(isinstance(value, torch.Tensor) for value in (seen, like)):
            return None
        offset = like.storage_offset() - seen.storage_offset()
        view = cls(base, seen.stride(), tuple(like.shape), like.stride(), offset)
        numbers = (*view.strides, *view.shape, *view.steps, offset)
        return view if all(isinstance(number, int) for number in numbers) else None

    def shown(self, base: torch.Tensor) -> torch.Tensor | None:
        """The view; None of a base that lies otherwise."""
        if base.stride() != self.strides:
            return None
        return base.as_strided(self.shape, self.steps, base.storage_offset() + self.offset)


def _moved(node: torch.fx.Node, values: _Values) -> Any:
    """A chain of views, down to one of `values`, in PyTorch."""
    if node in values:
        return values[node]
    args, kwargs = map_arg((node.args, node.kwargs), lambda source: _moved(source, values))
    return cast("Callable[..., object]", node.target)(*args, **kwargs)


def _like(value: Any, wanted: Any, symbols: Mapping[sympy.Symbol, Size] | None) -> Any:
    """`value`, or each of several, in the dtype that PyTorch gives it.

    With `symbols`, its sizes are written as PyTorch's are, so that equal ones are the same.
    """
    if isinstance(value, (tuple, list)):
        return tuple(_like(item, one, symbols) for item, one in zip(value, wanted, strict=False))
    if value is None:
        return None
    found = value.cast(_from_torch_dtype(wanted.dtype))
    return found if symbols is None else found.reshape(_shape(wanted, symbols))


def _is_symbolic(value: object) -> bool:
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    return not all(isinstance(size, int) for size in sizes)


def _known(given: object) -> Layout | int:
    """The layout of a tensor; a number is what it is."""
    if isinstance(given, torch.Tensor):
        return Layout.of(given)
    assert isinstance(given, int)
    return given


def _compiled(graph: torch.fx.GraphModule, example_inputs: object) -> object:
    """A traced graph with each stretch that the table knows as a part of treadle's."""
    for node in graph.graph.nodes:
        is_operator = node.op == "call_function" and node.target is not operator.getitem
        if is_operator and not _is_size(node) and (why := _why_not(node)) is not None:
            note(str(node.target), why)
    partitioner = CapabilityBasedPartitioner(graph, _Known(), allows_single_node_partition=True)
    fused = partitioner.partition_and_fuse()
    for name, part in list(fused.named_children()):
        if not name.startswith("fused_") or not isinstance(part, torch.fx.GraphModule):
            continue
        called = [node.target for node in part.graph.nodes if node.op == "call_function"]
        reads = any(node.op == "placeholder" for node in part.graph.nodes)
        if reads and not _VIEWS.issuperset(called):
            setattr(fused, name, _Part(part))
    return make_boxed_func(fused.forward)


_DECOMPOSED = {
    **core_aten_decompositions(),
    **get_decompositions(
        [
            aten.native_layer_norm,
            aten.native_layer_norm_backward,
            aten.native_group_norm,
            aten.native_group_norm_backward,
            aten._native_batch_norm_legit,
            aten._native_batch_norm_legit.no_stats,
            aten._native_batch_norm_legit_functional,
            aten.native_batch_norm_backward,
        ]
    ),
}
# Its second result is not the one that its gradient, which has no decomposition, reads.
del _DECOMPOSED[aten._scaled_dot_product_flash_attention_for_cpu.default]

borrow_threads()
compile_graph = aot_autograd(fw_compiler=_compiled, decompositions=_DECOMPOSED)
