"""`Tensor.__array_interface__`: who reads an address finds the values there."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest

from treadle import Device, Tensor, TinyJit, Variable, dtypes
from treadle.dtype import _to_np_dtype
from treadle.errors import JitError, UserError
from treadle.func import grad, jvp, vmap


class Interface:
    """A tensor of which NumPy sees the array interface alone; who keeps it keeps the tensor."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__array_interface__ = tensor.__array_interface__


def values(*shape, dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def floats_at(interface, count):
    return list((ctypes.c_float * count).from_address(interface["data"][0]))


def test_the_interface_names_the_memory_of_what_is_computed_for_it(device):
    x = Tensor(values(2, 3), device=device) + 1
    if not Device[device].runtime.shares_memory:
        with pytest.raises(AttributeError, match=rf"does not see .* on {device}.*\.numpy\(\)"):
            x.__array_interface__  # noqa: B018
        assert np.asarray(x).tolist() == [[1, 2, 3], [4, 5, 6]]
        return
    found = x.__array_interface__
    assert (found["version"], found["shape"], found["typestr"]) == (3, (2, 3), "<f4")
    assert found["data"] == (np.asarray(x).ctypes.data, False)
    array = np.asarray(Interface(x))
    assert array.tolist() == [[1, 2, 3], [4, 5, 6]]
    array[0, 0] = 9
    assert x[0, 0].item() == 9


@pytest.mark.parametrize(
    ("view", "shares"),
    [
        (lambda x: x.T, True),
        (lambda x: x[:, ::-1], True),
        (lambda x: x[1:, 1], True),
        (lambda x: x[:1].expand(4, 3), True),
        (lambda x: x.T.reshape(6), False),
        (lambda x: x.pad(((1, 0), (0, 0))), False),
    ],
    ids=["transposed", "flipped", "sliced", "expanded", "reshaped", "padded"],
)
def test_views_have_strides_or_memory_of_their_own(view, shares):
    x = Tensor(values(2, 3))
    seen = view(x)
    array = np.asarray(Interface(seen))
    np.testing.assert_array_equal(array, seen.numpy())
    assert np.may_share_memory(array, np.asarray(x)) is shares


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: d.name)
def test_dtypes_have_their_type_string_or_no_interface(dtype):
    x = Tensor(values(2, 3, dtype=_to_np_dtype(dtype)))
    if dtype in (dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2):
        with pytest.raises(AttributeError, match=f"no type string means {dtype.name}"):
            x.__array_interface__  # noqa: B018
    else:
        assert np.asarray(Interface(x)).dtype == _to_np_dtype(dtype)
    assert np.asarray(x).dtype == _to_np_dtype(dtype)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_odd_shapes(shape):
    assert np.asarray(Interface(Tensor(values(*shape)))).shape == shape


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.assign(x + 1),
        lambda x: x.replace(Tensor(values(3) + 5)),
        lambda x: x.__iadd__(1),
        lambda x: x.to_("REF"),
        lambda x: x.__setitem__(0, 7),
    ],
    ids=["assign", "replace", "iadd", "to_", "setitem"],
)
def test_memory_lives_as_long_as_the_tensor_that_was_asked(change):
    x = Tensor(values(3))
    array = np.asarray(Interface(x))
    buffer = weakref.ref(x._lent[0])
    change(x)
    x.realize()
    others = [Tensor(np.full(3, -1.0, np.float32)).realize() for _ in range(8)]
    gc.collect()
    assert buffer() is not None
    assert -1 not in array  # it is nobody else's memory
    del x, array, others
    gc.collect()
    assert buffer() is None


def test_the_same_memory_is_kept_once_and_foreign_memory_as_long_as_it_is_lent():
    gone = []
    data = values(3)
    x = Tensor.from_blob(data.ctypes.data, (3,), deleter=lambda: gone.append(1), readonly=True)
    for _ in range(3):
        found = x.__array_interface__
    assert found["data"] == (data.ctypes.data, True)
    assert len(x._lent) == 1
    assert not np.asarray(Interface(x)).flags.writeable
    x.replace(Tensor(values(3)))
    gc.collect()
    assert not gone
    assert floats_at(found, 3) == [0, 1, 2]
    del x
    gc.collect()
    assert gone


def test_tensors_that_require_gradients_and_shards_have_none():
    w = Tensor(values(3), requires_grad=True)
    with pytest.raises(AttributeError, match=r"requires gradients.*\.detach\(\)"):
        w.__array_interface__  # noqa: B018
    np.asarray(w)[:] = 5
    assert w.tolist() == [0, 1, 2]
    assert np.asarray(Interface(w.detach())).tolist() == [0, 1, 2]
    both = Tensor(values(4)).shard(("CPU", "CPU:1"), axis=0)
    assert not hasattr(both, "__array_interface__")
    assert np.asarray(both).tolist() == [0, 1, 2, 3]
    n = Variable("n", 1, 3).bind(2)
    assert not hasattr(Tensor(values(3))[:n], "__array_interface__")


def test_copy_false_is_kept():
    x = Tensor(values(3))
    assert np.may_share_memory(np.asarray(x, copy=False), np.asarray(Interface(x)))
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(Tensor(values(3), requires_grad=True), copy=False)


def test_copy_false_is_refused_where_memory_is_the_devices_own(device):
    if Device[device].runtime.shares_memory:
        pytest.skip(f"{device} computes in the host's memory")
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(Tensor(values(3), device=device), copy=False)


def test_asking_whether_it_is_there_breaks_nothing_that_is_traced():
    x = Tensor(values(2, 3))
    asked = []

    def double(a):
        asked.append(hasattr(a * 2, "__array_interface__"))
        return a * 2

    assert vmap(double)(x).tolist() == (values(2, 3) * 2).tolist()
    assert jvp(double, (x,), (x,))[1].tolist() == (values(2, 3) * 2).tolist()
    assert grad(lambda a: double(a).sum())(x).tolist() == np.full((2, 3), 2.0).tolist()
    assert asked == [False, False, False]

    step = TinyJit(lambda a: double(a).realize())
    for i in range(4):
        assert step(Tensor([float(i)]).realize()).tolist() == [2.0 * i]
    assert asked[3:] == [True, False]  # the second call is captured


def test_numpy_says_why_values_of_a_trace_cannot_be_read():
    with pytest.raises(UserError, match=r"\[vmap\] the values of one example"):
        vmap(lambda a: a * float(np.sum(a)))(Tensor(values(2, 3)))
    step = TinyJit(lambda a: Tensor(np.asarray(a + 1)).realize())
    step(Tensor([1.0]).realize())
    with pytest.raises(JitError, match="read on the host while capturing"):
        step(Tensor([1.0]).realize())
