"""New tensors from data and constants, and reading them back."""

from __future__ import annotations

import array

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError, ShapeError


def test_python_data_takes_the_default_dtypes(device):
    assert Tensor(3, device=device).dtype is dtypes.int32
    assert Tensor(3.5, device=device).item() == 3.5
    assert Tensor(True, device=device).dtype is dtypes.bool
    assert Tensor([[1, 2], [3, 4]], device=device).tolist() == [[1, 2], [3, 4]]
    assert Tensor([1, 2.5], device=device).dtype is dtypes.float32
    assert Tensor([True, False], device=device).dtype is dtypes.bool
    assert Tensor([], device=device).shape == (0,)
    assert Tensor([1, 2], dtype="half", device=device).dtype is dtypes.float16
    assert Tensor([Tensor([1, 2], device=device), Tensor([3, 4], device=device)],
                  device=device).tolist() == [[1, 2], [3, 4]]  # fmt: skip


@pytest.mark.parametrize("dtype", list(dtypes.all), ids=lambda d: d.name)
def test_every_dtype_goes_to_the_device_and_back(device, dtype):
    x = Tensor([0, 1, 1, 0], dtype=dtype, device=device)
    assert x.dtype is dtype
    assert x.tolist() == [0, 1, 1, 0]
    again = Tensor(x.numpy(), device=device)
    assert again.dtype is dtype
    assert again.tolist() == [0, 1, 1, 0]


def test_numpy_arrays_are_copied_whatever_their_layout(device):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (array.T, array[::2, ::-1], array.astype(">f4"), array[:, :0]):
        np.testing.assert_array_equal(Tensor(view, device=device).numpy(), view)
    array.setflags(write=False)
    x = Tensor(array, device=device)
    array.setflags(write=True)
    array[0, 0] = 99
    assert x[0, 0].item() == 0
    assert x.dtype is dtypes.float32
    assert Tensor(np.float32(2), device=device).shape == ()


def test_bytes_are_elements(device):
    assert Tensor(b"\x01\x02\xff", device=device).tolist() == [1, 2, 255]
    assert Tensor(b"\x00\x00\x80\x3f", dtype=dtypes.float32, device=device).tolist() == [1.0]
    with pytest.raises(ShapeError, match=r"3 bytes are no multiple of 4"):
        Tensor(b"abc", dtype=dtypes.float32)


def test_memory_of_python_says_its_type_itself():
    numbers = array.array("f", [1.5, 2.0])
    for source in (numbers, memoryview(numbers)):
        assert Tensor(source).tolist() == [1.5, 2.0]
        assert Tensor(source).dtype is dtypes.float32
    assert Tensor(memoryview(np.ones((2, 3), np.int16))).shape == (2, 3)
    assert Tensor(memoryview(b"\x00\x00\x80\x3f"), dtype=dtypes.float32).tolist() == [1.0]
    assert Tensor(memoryview(b"\x01\x02")).dtype is dtypes.uint8


def test_what_is_no_data_is_refused():
    with pytest.raises(ShapeError, match=r"\[Tensor\] nested lists"):
        Tensor([[1, 2], [3]])
    with pytest.raises(
        DTypeError, match=r"\[Tensor\] the integer 1099511627776 does not fit int32"
    ):
        Tensor([1 << 40])
    with pytest.raises(DTypeError, match=r"\[Tensor\] no element type"):
        Tensor(object())
    with pytest.raises(DTypeError, match=r"\[dtype\] unknown dtype 'float33'"):
        Tensor([1], dtype="float33")
    assert Tensor([1 << 40], dtype=dtypes.int64).item() == 1 << 40


def test_constants_have_the_values_of_numpy(device):
    on = {"device": device}
    np.testing.assert_array_equal(Tensor.zeros(2, 3, **on).numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(Tensor.ones((3,), dtype=dtypes.int8, **on).numpy(), np.ones(3))
    np.testing.assert_array_equal(Tensor.full((2, 2), 7, **on).numpy(), np.full((2, 2), 7))
    np.testing.assert_array_equal(Tensor.eye(3, 4, **on).numpy(), np.eye(3, 4))
    np.testing.assert_array_equal(Tensor.arange(5, **on).numpy(), np.arange(5))
    np.testing.assert_array_equal(Tensor.arange(7, 1, -2, **on).numpy(), np.arange(7, 1, -2))
    np.testing.assert_allclose(
        Tensor.arange(0, 1, 0.1, **on).numpy(), np.arange(0, 1, 0.1), rtol=1e-6
    )
    np.testing.assert_allclose(
        Tensor.linspace(0, 1, 7, **on).numpy(), np.linspace(0, 1, 7), rtol=1e-6
    )
    assert Tensor.linspace(5, 9, 1, **on).tolist() == [5.0]
    assert Tensor.arange(3, **on).dtype is dtypes.int32
    assert Tensor.empty(2, 0, **on).shape == (2, 0)
    x = Tensor([[1, 2]], dtype=dtypes.int16, **on)
    assert x.zeros_like().tolist() == [[0, 0]]
    assert x.ones_like().dtype is dtypes.int16
    assert x.full_like(4, dtype=dtypes.float32).tolist() == [[4.0, 4.0]]
    with pytest.raises(ShapeError, match=r"\[arange\]"):
        Tensor.arange(0, 5, 0)


def test_values_are_read_back_in_every_form(device):
    x = Tensor([[1.5, 2.0]], device=device)
    assert x.data().tolist() == [[1.5, 2.0]]
    np.testing.assert_array_equal(np.asarray(x), [[1.5, 2.0]])
    assert np.array(x, dtype=np.float64).dtype == np.float64
    assert len(x) == 1
    assert x.nbytes() == 8
    assert x.numel() == 2
    assert x.size() == (1, 2)
    assert x.size(1) == 2
    assert float(x[0, 0]) == 1.5
    assert bool(x[0, 0] > 1)
    with pytest.raises(ShapeError, match=r"\[item\] shape \(1, 2\) holds 2 values"):
        x.item()
    with pytest.raises(ShapeError, match=r"\[bool\] the truth value"):
        bool(x)
    with pytest.raises(TypeError, match=r"\[len\]"):
        len(Tensor(1.0))


def test_repr_names_what_it_is_and_computes_nothing(device):
    x = Tensor([1.0, 2.0], device=device)
    lazy = x + 1
    assert repr(lazy) == f"<Tensor lazy shape=(2,), dtype=float32, device={device}>"
    assert not lazy.is_realized
    lazy.realize()
    assert repr(lazy) == f"<Tensor [2., 3.] shape=(2,), dtype=float32, device={device}>"
    shown = repr(Tensor.arange(5000, device=device).realize())
    assert "1, ..., 4998, 4999]" in shown
