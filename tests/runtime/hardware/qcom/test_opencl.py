"""Memory of Qualcomm's OpenCL as tensors of QCOM, in place: by pointers of buffers and images."""

import ctypes

import numpy as np
import pytest
from tests.runtime.hardware.qcom.opencl import PITCHES, QualcommOpenCL

from treadle import Tensor, TinyJit, dtypes
from treadle.engine.devices import Device
from treadle.errors import DeviceError, DTypeError, ShapeError
from treadle.helpers import to_mv
from treadle.runtime.autogen import opencl as cl

pytestmark = pytest.mark.filterwarnings("ignore::treadle.errors.UnsafeBlobWarning")


@pytest.fixture(scope="module")
def runtime():
    try:
        return Device["QCOM"].runtime
    except DeviceError as error:
        pytest.skip(f"QCOM: {error}")


@pytest.fixture
def library(runtime):
    if not runtime.is_software:
        pytest.skip("the GPU has an OpenCL library of its own")
    with QualcommOpenCL(runtime.kgsl.platform) as found:
        yield found


def buffer_of(library, data):
    """A cl_mem with the bytes of an array, and the GPU's address of them."""
    status = ctypes.c_int32(1)
    buffer = cl.clCreateBuffer(library.context, cl.CL_MEM_READ_WRITE, data.nbytes, None, status)
    assert status.value == 0
    library.bytes_of(buffer)[: data.nbytes] = data.tobytes()
    return buffer, address_of(buffer)


def address_of(memory):
    return to_mv(to_mv(ctypes.addressof(memory), 8).cast("Q")[0], 0x100).cast("Q")[20]


def image_of(library, sizes, kind=cl.CL_FLOAT):
    """A cl_mem of an image, the GPU's address of it, and its texels."""
    height, width = sizes
    status, form = ctypes.c_int32(1), cl.cl_image_format(cl.CL_RGBA, kind)
    image = cl.clCreateImage2D(
        library.context, cl.CL_MEM_READ_WRITE, form, width, height, 0, None, status
    )
    assert status.value == 0
    dtype = np.dtype(np.float32 if kind == cl.CL_FLOAT else np.float16)
    pitch = PITCHES[height, width, 8 * dtype.itemsize]
    lines = np.frombuffer(library.bytes_of(image), np.uint8)[: height * pitch]
    texels = lines.reshape(height, pitch)[:, : 4 * width * dtype.itemsize].view(dtype)
    texels[:] = np.random.default_rng(1).standard_normal(texels.shape)
    return image, address_of(image), texels


# The specification's two programs, whose names are those of a program that uses it.

BUFFER = """
cl_buf = cl.clCreateBuffer(cl_context, cl.CL_MEM_READ_WRITE, 0x100, None, status := ctypes.c_int32())

cl_buf_desc_ptr = to_mv(ctypes.addressof(cl_buf), 8).cast('Q')[0]
rawbuf_ptr = to_mv(cl_buf_desc_ptr, 0x100).cast('Q')[20]

tiny = Tensor.from_blob(rawbuf_ptr, (8, 8), dtype=dtypes.int, device='QCOM')
"""  # noqa: E501 (as it is printed)
IMAGE = """
cl_img = cl.clCreateImage2D(cl_context, cl.CL_MEM_READ_WRITE, cl.cl_image_format(cl.CL_RGBA, cl.CL_FLOAT), w, h, 0, None, status := ctypes.c_int32())

cl_buf_desc_ptr = to_mv(ctypes.addressof(cl_img), 8).cast('Q')[0]
rawbuf_ptr = to_mv(cl_buf_desc_ptr, 0x100).cast('Q')[20]

tiny = Tensor.from_blob(rawbuf_ptr, (h*w*4,), dtype=dtypes.imagef((h,w)), device='QCOM')
"""  # noqa: E501 (as it is printed)


def names_of_a_program(library, **more):
    found = {"cl_context": library.context, **more}
    exec(
        "import ctypes\nfrom treadle import Tensor, dtypes\nfrom treadle.helpers import to_mv\n"
        "from treadle.runtime.autogen import opencl as cl\n",
        found,
    )
    return found


def test_the_specifications_program_on_a_buffer(library):
    names = names_of_a_program(library)
    exec(BUFFER, names)
    data = np.frombuffer(library.bytes_of(names["cl_buf"]), np.int32)[:64]
    data[:] = np.arange(64) * 3
    assert (names["tiny"] + 1).tolist() == (data.reshape(8, 8) + 1).tolist()
    assert names["tiny"].tolist() == data.reshape(8, 8).tolist()


def test_the_specifications_program_on_an_image(library):
    h, w = 40, 5
    names = names_of_a_program(library, h=h, w=w)
    exec(IMAGE, names)
    lines = np.frombuffer(library.bytes_of(names["cl_img"]), np.float32)[: h * 32]
    texels = lines.reshape(h, 32)[:, : 4 * w]
    texels[:] = np.random.default_rng(0).standard_normal(texels.shape)
    np.testing.assert_array_equal((names["tiny"] + 1).numpy(), texels.reshape(-1) + 1)
    np.testing.assert_array_equal(names["tiny"].numpy(), texels.reshape(-1))


# -- in place


def test_a_buffer_is_written_in_place(library):
    data = np.arange(24, dtype=np.float32)
    buffer, pointer = buffer_of(library, data)
    x = Tensor.from_blob(pointer, (4, 6), device="QCOM", owner=buffer)
    x.assign(x * 2).realize()
    x[1:3] = 7.0
    x.realize()
    Device["QCOM"].synchronize()
    data = data.reshape(4, 6) * 2
    data[1:3] = 7
    assert library.bytes_of(buffer)[: data.nbytes] == data.tobytes()
    x.assign(Tensor(-data, device="CPU").to("QCOM")).realize()
    Device["QCOM"].synchronize()
    assert library.bytes_of(buffer)[: data.nbytes] == (-data).tobytes()


@pytest.mark.parametrize("kind", [cl.CL_FLOAT, cl.CL_HALF_FLOAT])
@pytest.mark.parametrize("sizes", [(3, 4), (40, 5)])
def test_an_image_is_read_and_written_in_place(library, sizes, kind):
    image, pointer, texels = image_of(library, sizes, kind)
    made = (dtypes.imagef if kind == cl.CL_FLOAT else dtypes.imageh)(sizes)
    x = Tensor.from_blob(pointer, (texels.size,), dtype=made, device="QCOM", owner=image)
    before = texels.astype(np.float32)
    np.testing.assert_array_equal((x + 1).numpy(), before.reshape(-1) + 1)
    y = x.reshape(before.shape)
    np.testing.assert_allclose(y.sum(0).numpy(), before.sum(0), rtol=1e-4, atol=1e-5)
    x.assign(x * 2).realize()
    Device["QCOM"].synchronize()
    np.testing.assert_array_equal(texels, (before * 2).astype(texels.dtype))


def test_what_lies_between_lines_stays(library):
    image, pointer, _ = image_of(library, (3, 4))
    memory = np.frombuffer(library.bytes_of(image), np.uint8)[:3072].reshape(3, 1024)
    memory[:, 64:] = 0xA5
    x = Tensor.from_blob(pointer, (48,), dtype=dtypes.imagef((3, 4)), device="QCOM", owner=image)
    x.assign(x + 1).realize()
    Device["QCOM"].synchronize()
    assert (memory[:, 64:] == 0xA5).all()


def test_a_program_is_replayed_with_other_images(library):
    step = TinyJit(lambda x: (x * 2).realize())
    for _ in range(5):
        image, pointer, texels = image_of(library, (3, 4))
        texels += np.float32(pointer % 7)
        x = Tensor.from_blob(
            pointer, (48,), dtype=dtypes.imagef((3, 4)), device="QCOM", owner=image
        )
        np.testing.assert_array_equal(step(x).numpy(), texels.reshape(-1) * 2)


def test_a_part_of_a_buffer(library):
    buffer, pointer = buffer_of(library, np.arange(64, dtype=np.int32))
    x = Tensor.from_blob(pointer + 64, (8,), dtype=dtypes.int, device="QCOM", owner=buffer)
    assert x.tolist() == [*range(16, 24)]
    assert (x + 1).tolist() == [*range(17, 25)]


def test_memory_that_the_host_has_at_the_same_address():
    """Such is treadle's own: the driver is not asked to map it once more."""
    a = Tensor([1.0, 2.0, 3.0], device="QCOM").realize()
    node = a.node
    while node.src:
        node = node.src[0]
    pointer = node.arg.token.memory.buffer.argument
    b = Tensor.from_blob(pointer, (3,), device="QCOM", owner=a)
    assert b.tolist() == [1.0, 2.0, 3.0]
    assert (b * 2).tolist() == [2.0, 4.0, 6.0]


def test_what_was_mapped_goes_back(library, runtime):
    buffer, pointer = buffer_of(library, np.arange(64, dtype=np.int32))
    mapped = len(runtime.kgsl.platform._mapped)
    for _ in range(4):
        x = Tensor.from_blob(pointer, (64,), dtype=dtypes.int, device="QCOM", owner=buffer)
        assert x.sum().item() == 2016
        del x
    runtime.allocator.trim()
    assert len(runtime.kgsl.platform._mapped) <= mapped


# -- what is refused


def test_memory_that_is_too_small_is_refused(library):
    buffer, pointer = buffer_of(library, np.arange(64, dtype=np.int32))
    with pytest.raises(DeviceError, match="ends after 4096 bytes, and 8192 are needed"):
        Tensor.from_blob(pointer, (2048,), device="QCOM", owner=buffer)
    with pytest.raises(DeviceError, match="ends after 4096 bytes, and 6080 are needed"):
        Tensor.from_blob(
            pointer, (1280,), dtype=dtypes.imagef((16, 20)), device="QCOM", owner=buffer
        )


def test_an_image_of_another_count_or_size_is_refused(library):
    image, pointer, _ = image_of(library, (3, 4))
    with pytest.raises(ShapeError, match=r"3 \* 4 \* 4 = 48 elements, not 40"):
        Tensor.from_blob(pointer, (40,), dtype=dtypes.imagef((3, 4)), device="QCOM", owner=image)
    with pytest.raises(DTypeError, match="up to 16384 rows of 16384 texels"):
        Tensor.from_blob(
            pointer, (16385 * 4,), dtype=dtypes.imagef((16385, 1)), device="QCOM", owner=image
        )


@pytest.mark.parametrize("beside", [4, 16, 32])
def test_an_image_begins_at_a_multiple_of_64_bytes(library, beside):
    image, pointer, _ = image_of(library, (3, 4))
    with pytest.raises(DeviceError, match="begins at a multiple of 64 bytes, not at 0x"):
        Tensor.from_blob(
            pointer + beside, (48,), dtype=dtypes.imagef((3, 4)), device="QCOM", owner=image
        )


def test_strides_may_say_how_far_lines_are_apart(library):
    image, pointer, texels = image_of(library, (3, 4))
    given = {"dtype": dtypes.imagef((3, 4)), "device": "QCOM", "owner": image}
    x = Tensor.from_blob(pointer, (3, 4, 4), strides=(256, 4, 1), **given)
    np.testing.assert_array_equal(x.numpy().reshape(3, 16), texels)
    with pytest.raises(DeviceError, match=r"are 1024 bytes apart, .* not 512: copy it"):
        Tensor.from_blob(pointer, (3, 4, 4), strides=(128, 4, 1), **given)
    with pytest.raises(ShapeError, match=r"has shape \(3, 4, 4\) and strides \(pitch, 4, 1\)"):
        Tensor.from_blob(pointer, (3, 4, 4), strides=(256, 1, 4), **given)
    with pytest.raises(ShapeError, match=r"no lines of texels"):
        Tensor.from_blob(pointer, (12, 4), strides=(16, 1), **given)


def test_a_null_pointer_is_no_image(runtime):
    with pytest.raises(DeviceError, match="the pointer is null"):
        Tensor.from_blob(0, (48,), dtype=dtypes.imagef((3, 4)), device="QCOM", owner=runtime)


def test_an_address_is_no_image_of_a_device_whose_images_have_none():
    try:
        Device["CL"]
    except DeviceError as error:
        pytest.skip(f"CL: {error}")
    with pytest.raises(DeviceError, match="an address, which images have not"):
        Tensor.from_blob(4096, (48,), dtype=dtypes.imagef((3, 4)), device="CL", owner=1)
