"""What `from_blob` takes is looked at: addresses, sizes, bytes of bools, buffers that are gone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from treadle import Device, Tensor, dtypes
from treadle.errors import DeviceError, ShapeError

VALUES = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize("given", [True, False, np.True_])
def test_2_10_a_bool_is_no_address(given):
    with pytest.raises(DeviceError, match="cannot use an object of type bool"):
        Tensor.from_blob(given, (0,), owner=VALUES)


@pytest.mark.parametrize("sizes", [(2**62, 4), (2**64,), (2**40, 2**40), (2**62,)])
def test_2_10_more_bytes_than_there_are_addresses_are_refused(sizes):
    with pytest.raises(ShapeError, match="more than there are addresses"):
        Tensor.from_blob(VALUES.ctypes.data, sizes, owner=VALUES)


@pytest.mark.parametrize("whole", [np.int64, np.int32, np.uint8, int])
def test_2_10_sizes_are_integers_of_any_library(whole):
    x = Tensor.from_blob(VALUES.ctypes.data, (whole(2), whole(4)), owner=VALUES)
    assert x.shape == (2, 4)
    assert all(type(size) is int for size in x.shape)
    assert x.tolist() == VALUES.reshape(2, 4).tolist()
    assert Tensor.from_blob(VALUES.ctypes.data, whole(8), owner=VALUES).shape == (8,)


@pytest.mark.parametrize("sizes", [(True, 8), (2.0, 4), ("2", 4), (-1,), None])
def test_2_10_other_sizes_are_refused(sizes):
    with pytest.raises(ShapeError, match="whole numbers of 0 or more"):
        Tensor.from_blob(VALUES.ctypes.data, sizes, owner=VALUES)


@pytest.mark.parametrize("count", [5, 64, 1003])
def test_2_10_every_byte_but_0_is_true(device, count):
    data = np.resize(np.array([0, 1, 2, 255, 4], np.uint8), count).view(np.bool_)
    want = data.view(np.uint8) != 0
    x = Tensor(data, device=device)
    assert x.sum().item() == want.sum()
    assert x.cast(dtypes.float32).tolist() == want.astype(np.float32).tolist()
    assert (~x).tolist() == (~want).tolist()
    assert (x ^ x.flip(0)).tolist() == (want ^ want[::-1]).tolist()
    assert x.where(Tensor(3.0, device=device), 0.0).sum().item() == 3 * want.sum()
    assert (x & x).numpy().view(np.uint8).max() == 1
    padded = x.pad((1, 2)).numpy()
    np.testing.assert_array_equal(padded, np.pad(want, (1, 2)))


def test_2_10_bools_in_memory_of_others_are_read_as_bytes():
    data = np.array([0, 1, 2, 128, 0, 254], np.uint8)
    x = Tensor.from_blob(data.ctypes.data, (6,), dtype=dtypes.bool, owner=data)
    assert x.sum().item() == 4


RELEASED = """
import numpy as np, pyopencl as cl
from treadle import Device, Tensor, dtypes
from treadle.errors import DeviceError
context = Device["CL"].runtime.context
make = lambda: cl.Buffer(context, cl.mem_flags.READ_WRITE, 32)
gone = [make(), make()]
kind = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
gone.append(cl.create_image(context, cl.mem_flags.READ_WRITE, kind, shape=(4, 3)))
for buffer in gone:
    buffer.release()
    image = isinstance(buffer, cl.Image)
    sizes, dtype = ((48,), dtypes.imagef((3, 4))) if image else ((8,), dtypes.float32)
    try:
        Tensor.from_blob(buffer, sizes, dtype=dtype, device="CL", owner=buffer)
    except DeviceError as error:
        print("was released" in str(error))
late = make()
cl.enqueue_copy(Device["CL"].runtime.queue, late, np.arange(8, dtype=np.float32))
x = Tensor.from_blob(late, (8,), device="CL", owner=late)
late.release()
print((x + 1).sum().item())
"""


def test_2_10_a_released_buffer_does_not_end_the_process():
    pytest.importorskip("pyopencl")
    try:
        Device["CL"]
    except DeviceError as error:
        pytest.skip(str(error))
    result = subprocess.run(
        [sys.executable, "-c", RELEASED], capture_output=True, text=True, timeout=200
    )
    assert (result.returncode, result.stdout) == (0, "True\nTrue\nTrue\n36.0\n"), result.stderr
