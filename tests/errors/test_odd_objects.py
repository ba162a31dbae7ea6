"""Odd arguments to what is no plain function: layers, operators, subscripts, devices, variables,
transformed functions. See test_sweep.py.
"""

import operator

import numpy as np
import pytest

from treadle import Context, Device, Tensor, TinyJit, Variable, dtypes, func, helpers, nn
from treadle.errors import JitError

from .sweep.judge import judge
from .sweep.values import ODD, RECEIVERS, float_matrix

VALUES = ODD | {f"a tensor of {name}": make for name, make in RECEIVERS.items()}
LAYERS = {
    "Linear": nn.Linear(3, 4), "Conv1d": nn.Conv1d(2, 3, 3), "Conv2d": nn.Conv2d(2, 3, 3),
    "ConvTranspose2d": nn.ConvTranspose2d(2, 3, 3), "BatchNorm": nn.BatchNorm(3),
    "LayerNorm": nn.LayerNorm(3), "LayerNorm2d": nn.LayerNorm2d(3), "RMSNorm": nn.RMSNorm(3),
    "GroupNorm": nn.GroupNorm(1, 3), "InstanceNorm": nn.InstanceNorm(3),
    "Embedding": nn.Embedding(5, 3), "RNN": nn.RNN(3, 4), "LSTM": nn.LSTM(3, 4),
    "GRU": nn.GRU(3, 4), "RNNCell": nn.RNNCell(3, 4), "LSTMCell": nn.LSTMCell(3, 4),
    "GRUCell": nn.GRUCell(3, 4), "MultiheadAttention": nn.MultiheadAttention(3, 1),
}  # fmt: skip
STATEFUL = ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "MultiheadAttention")


def squares(x):
    return (x * x).sum()


def optimizer():
    return nn.optim.SGD([Tensor([1.0], requires_grad=True)])


CALLS = {
    **LAYERS,
    **{f"{name}, second": lambda v, layer=LAYERS[name]: layer(float_matrix(), v)
       for name in STATEFUL},
    "x[v]": lambda v: float_matrix()[v],
    "x[0, v]": lambda v: float_matrix()[0, v],
    "x[v:]": lambda v: float_matrix()[v:],
    "x[::v]": lambda v: float_matrix()[::v],
    "x[v] = 1": lambda v: operator.setitem(float_matrix(), v, 1.0),
    "x[0] = v": lambda v: operator.setitem(float_matrix(), 0, v),
    "v in x": lambda v: v in float_matrix(),
    "Tensor(v)": Tensor,
    "Tensor([v])": lambda v: Tensor([1, v]),
    "Tensor(device)": lambda v: Tensor([1], device=v),
    "Tensor(dtype)": lambda v: Tensor([1], dtype=v),
    "Tensor(requires_grad)": lambda v: Tensor([1.0], requires_grad=v),
    "requires_grad": lambda v: setattr(float_matrix(), "requires_grad", v),
    "size": lambda v: float_matrix().size(v),
    "Context": lambda v: Context(CHECK_NAN=v),
    "Device": lambda v: Device[v],
    "canonicalize": Device.canonicalize,
    "Variable, name": lambda v: Variable(v, 1, 3),
    "Variable, low": lambda v: Variable("n", v, 3),
    "Variable, high": lambda v: Variable("n", 1, v),
    "bind": lambda v: Variable("n", 1, 3).bind(v),
    "imagef": dtypes.imagef,
    "from_py": dtypes.from_py,
    "is_float": dtypes.is_float,
    "TinyJit": TinyJit,
    "grad, argument": lambda v: func.grad(lambda x: x)(v),
    "grad, argnums": lambda v: func.grad(squares, argnums=v)(float_matrix()),
    "vmap, argument": lambda v: func.vmap(Tensor.relu)(v),
    "vmap, in_dims": lambda v: func.vmap(Tensor.relu, in_dims=v)(float_matrix()),
    "vmap, out_dims": lambda v: func.vmap(Tensor.relu, out_dims=v)(float_matrix()),
    "hessian": lambda v: func.hessian(lambda x: x)(v),
    "lr": lambda v: setattr(optimizer(), "lr", v),
    "colored": lambda v: helpers.colored("a", v),
}  # fmt: skip


class Asked:
    """A call of one value, as the judge makes it."""

    def __init__(self, function):
        self.function = function

    def __call__(self, v):
        self.function(v)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_odd_arguments_are_answered_by_name(name):
    call = Asked(CALLS[name])
    bad = {kind: judge(call, {"v": make()}) for kind, make in VALUES.items()}
    assert {kind: text for kind, text in bad.items() if text} == {}


OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor",
    "lshift", "rshift", "lt", "le", "gt", "ge", "iadd", "isub", "imul", "itruediv", "ifloordiv",
    "imatmul", "iand",
]  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_takes_no_such_thing_lets_python_say_so(name):
    """Not our error: the other operand is asked, too, and Python names both types."""
    with pytest.raises(TypeError, match="'Tensor' and 'NoneType'") as caught:
        getattr(operator, name)(float_matrix(), None)
    assert "operand type" in str(caught.value) or "not supported between" in str(caught.value)


@pytest.mark.parametrize("name", ["add", "matmul", "lt", "truediv", "pow"])
def test_operators_answer_other_shapes_dtypes_and_devices_by_name(name):
    call = Asked(lambda v: getattr(operator, name)(float_matrix(), v))
    tensors = {kind: make for kind, make in VALUES.items() if isinstance(make(), Tensor)}
    bad = {kind: judge(call, {"v": make()}) for kind, make in tensors.items()}
    assert len(tensors) > 10
    assert {kind: text for kind, text in bad.items() if text} == {}


def test_an_array_as_argument_of_a_captured_function_is_refused():
    """It could change in place, and a replay would not see it."""
    step = TinyJit(lambda x: Tensor(x).add(1).realize())
    with pytest.raises(JitError, match=r"\[jit\] an argument is an array .* give Tensor"):
        step(np.array([1.0, 2.0], np.float32))
    assert step(np.float32(2)).item() == 3
