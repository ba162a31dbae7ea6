"""ONNX Runtime: forms run once on symbols, which write down an ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..work import Work
from .base import Library, NotOffered, Run

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime

__all__ = ["Onnx"]

OPSET = 20


class Symbol:
    """A value of the graph that is being written; has the operators that forms use."""

    graph: Onnx
    name: str

    def __init__(self, graph: Onnx, name: str) -> None:
        self.graph, self.name = graph, name

    def __matmul__(self, other: Symbol) -> Symbol:
        return self.graph.node("MatMul", self, other)

    def __add__(self, other: Symbol) -> Symbol:
        return self.graph.node("Add", self, other)

    def __mul__(self, other: Symbol) -> Symbol:
        return self.graph.node("Mul", self, other)

    def reshape(self, shape: Sequence[int]) -> Symbol:
        import numpy as np

        return self.graph.node("Reshape", self, self.graph.constant(np.array(shape, np.int64)))

    def __getattr__(self, method: str) -> Any:
        raise NotOffered(f"no ONNX form of {method}")

    def _missing(self, *_: Symbol) -> Symbol:
        raise NotOffered("no ONNX form of this operator")

    __getitem__ = __rmul__ = _missing


class Onnx(Library["np.ndarray"]):
    """A session of ONNX Runtime on the processor, with its own choice of threads."""

    onnx: ModuleType
    runtime: ModuleType

    def __init__(self) -> None:
        import onnx
        import onnxruntime

        self.onnx, self.runtime = onnx, onnxruntime
        self._clear()

    def _clear(self) -> None:
        self.nodes: list[object] = []
        self.constants: list[object] = []

    def tensor(self, array: np.ndarray) -> np.ndarray:
        return array

    def result(
        self, work: Work, weights: Mapping[str, np.ndarray], inputs: Sequence[np.ndarray]
    ) -> Run:
        self._clear()
        symbols = {name: self.constant(array) for name, array in weights.items()}
        names = [f"input{n}" for n in range(len(inputs))]
        out = work.call(self, symbols, [Symbol(self, name) for name in names])
        session = self._session(dict(zip(names, inputs, strict=True)), out.name)
        self._clear()
        feeds = dict(zip(names, inputs, strict=True))
        return lambda: session.run(None, feeds)[0]

    def _session(self, inputs: Mapping[str, np.ndarray], out: str) -> onnxruntime.InferenceSession:
        helper = self.onnx.helper
        values = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ]
        result = self.onnx.ValueInfoProto(name=out)
        graph = helper.make_graph(self.nodes, "row", values, [result], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10
        return self.runtime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )

    def constant(self, array: np.ndarray) -> Symbol:
        name = f"constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return Symbol(self, name)

    def node(self, op: str, *inputs: Symbol, results: int = 0, **attributes: object) -> Any:
        """The result of a new node; with `results`, that many as a list."""
        names = [f"value{len(self.nodes)}_{n}" for n in range(results or 1)]
        given = [symbol.name for symbol in inputs]
        self.nodes.append(self.onnx.helper.make_node(op, given, names, **attributes))
        symbols = [Symbol(self, name) for name in names]
        return symbols if results else symbols[0]

    # -- words --------------------------------------------------------------------------------

    def conv2d(
        self,
        x: Symbol,
        w: Symbol,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> Symbol:
        return self.node(
            "Conv", x, w,
            strides=[stride] * 2, pads=[padding] * 4, dilations=[dilation] * 2, group=groups,
        )  # fmt: skip

    def linear(self, x: Symbol, w: Symbol, bias: Symbol) -> Symbol:
        product = x @ self.permute(w, (1, 0))
        return product if bias is None else product + bias

    def embedding(self, table: Symbol, index: Symbol) -> Symbol:
        return self.node("Gather", table, index)

    def attention(self, q: Symbol, k: Symbol, v: Symbol, causal: bool = False) -> Symbol:
        import numpy as np

        sizes = [self.node("Gather", self.node("Shape", x), self.constant(np.array(axis)))
                 for x, axis in ((q, 3), (q, 2), (k, 2))]  # fmt: skip
        root = self.node("Sqrt", self.node("Cast", sizes[0], to=self.onnx.TensorProto.FLOAT))
        scores = self.node("Div", q @ self.permute(k, (0, 1, 3, 2)), root)
        return self.softmax(scores + self._later(*sizes[1:]) if causal else scores) @ v

    def _later(self, queries: Symbol, keys: Symbol) -> Symbol:
        """(queries, keys): minus infinity where a key comes after its query, else 0."""
        import numpy as np

        axis = self.constant(np.array([0]))
        shape = self.concatenate([self.node("Unsqueeze", n, axis) for n in (queries, keys)], 0)
        least = self.onnx.helper.make_tensor("least", self.onnx.TensorProto.FLOAT, [1], [-np.inf])
        full = self.node("ConstantOfShape", shape, value=least)
        return self.node("Trilu", full, self.constant(np.array(1)), upper=1)

    def softmax(self, x: Symbol) -> Symbol:
        return self.node("Softmax", x, axis=-1)

    def layer_norm(self, x: Symbol, scale: Symbol, shift: Symbol) -> Symbol:
        return self.node("LayerNormalization", x, scale, shift, epsilon=1e-5)

    def batch_norm(
        self, x: Symbol, scale: Symbol, shift: Symbol, mean: Symbol, variance: Symbol
    ) -> Symbol:
        return self.node("BatchNormalization", x, scale, shift, mean, variance, epsilon=1e-5)

    def relu(self, x: Symbol) -> Symbol:
        return self.node("Relu", x)

    def gelu(self, x: Symbol) -> Symbol:
        return self.node("Gelu", x, approximate="tanh")

    def max_pool2d(self, x: Symbol, size: int, stride: int, padding: int) -> Symbol:
        return self.node(
            "MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[padding] * 4
        )

    def mean(self, x: Symbol, axes: tuple[int, ...]) -> Symbol:
        import numpy as np

        places = self.constant(np.array(axes, np.int64))
        return self.node("ReduceMean", x, places, keepdims=0)

    def permute(self, x: Symbol, order: Sequence[int]) -> Symbol:
        return self.node("Transpose", x, perm=list(order))

    def contiguous(self, x: Symbol) -> Symbol:
        return x

    def concatenate(self, xs: Sequence[Symbol], axis: int) -> Symbol:
        return self.node("Concat", *xs, axis=axis)

    def split(self, x: Symbol, count: int, axis: int) -> Symbol:
        return self.node("Split", x, results=count, num_outputs=count, axis=axis)
