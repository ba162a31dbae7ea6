"""An integer is an address: a cl_mem given as one is refused, for buffers and for images."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Device, Tensor, dtypes
from treadle.errors import DeviceError


@pytest.fixture
def cl():
    pyopencl = pytest.importorskip("pyopencl")
    try:
        Device["CL"]
    except DeviceError as error:
        pytest.skip(str(error))
    if not Device["CL"].runtime.shares_memory:
        pytest.skip("this OpenCL device does not take addresses")
    return pyopencl


def test_1_09_a_cl_mem_as_an_integer_is_no_address_of_memory(cl):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    values = np.arange(8, dtype=np.float32)
    buffer = cl.Buffer(Device["CL"].runtime.context, flags, hostbuf=values)
    with pytest.raises(DeviceError, match=r"cl_mem .* not the address of memory"):
        Tensor.from_blob(buffer.int_ptr, (8,), device="CL", owner=buffer)
    given = cl.Buffer.from_int_ptr(buffer.int_ptr)
    assert Tensor.from_blob(given, (8,), device="CL", owner=buffer).tolist() == values.tolist()
    # An address of memory is one, on CL as on CPU.
    for device in ("CPU", "CL"):
        x = Tensor.from_blob(values.ctypes.data, (8,), device=device, owner=values)
        assert (x * 2).tolist() == (values * 2).tolist()


def test_1_09_an_image_as_an_integer_is_refused(cl):
    kind = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    context = Device["CL"].runtime.context
    image = cl.create_image(context, cl.mem_flags.READ_WRITE, kind, shape=(4, 3))
    with pytest.raises(DeviceError, match=r"an integer, and so an address.*Image\.from_int_ptr"):
        Tensor.from_blob(
            image.int_ptr, (48,), dtype=dtypes.imagef((3, 4)), device="CL", owner=image
        )
