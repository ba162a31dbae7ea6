"""An OpenCL library like Qualcomm's, on an emulated driver: what programs find behind a cl_mem.

    with QualcommOpenCL(Device["QCOM"].runtime.kgsl.platform) as library:
        buffer = cl.clCreateBuffer(library.context, cl.CL_MEM_READ_WRITE, 64, None, None)
        library.bytes_of(buffer)            # the host's view

A cl_mem leads to 0x100 bytes, with the GPU's address of the memory at 0xA0. The memory is an object
of the kernel driver, which another file of the same process has made; the host has it elsewhere.
Lines of images are as far apart as PITCHES says.
"""

import ctypes

from treadle.runtime.autogen import opencl as cl
from treadle.runtime.hardware.host_memory import PAGE, round_up, view
from treadle.runtime.hardware.qcom.abi import CALLS

CONTEXT = 0x7000
ADDRESS = 0xA0
# Bytes from line to line, by height, width and the bits of a number.
PITCHES = {(3, 4, 32): 1024, (3, 4, 16): 1024, (40, 5, 32): 128, (40, 5, 16): 64, (1, 7, 32): 128}
BITS = {cl.CL_FLOAT: 32, cl.CL_HALF_FLOAT: 16}
_INVALID = -30  # CL_INVALID_VALUE


class QualcommOpenCL:
    """In place of OpenCL's loader as long as the block runs."""

    context = cl.cl_context(CONTEXT)

    def __init__(self, platform):
        self._platform, self._fd = platform, platform.open("/dev/kgsl-3d0")
        self._objects = {}  # by handle: the bytes behind it, the driver's number, the host's bytes
        void, size = ctypes.c_void_p, ctypes.c_size_t
        code = ctypes.POINTER(ctypes.c_int32)
        image = (void, ctypes.POINTER(cl.cl_image_format), size, size)
        self.clCreateBuffer = ctypes.CFUNCTYPE(void, void, ctypes.c_uint64, size, void, code)(
            self._buffer
        )
        self.clCreateImage2D = ctypes.CFUNCTYPE(
            void, void, ctypes.c_uint64, *image[1:], size, void, code
        )(self._image)
        self.clReleaseMemObject = ctypes.CFUNCTYPE(ctypes.c_int32, void)(self._release)

    def __enter__(self):
        self._before, cl.library = cl.library, lambda: self
        self._forget()
        return self

    def __exit__(self, *_):
        cl.library = self._before
        self._forget()
        for handle in list(self._objects):
            self._release(handle)
        self._platform.close(self._fd)

    def _forget(self):
        """Functions that were looked up are looked up again."""
        for name in ("clCreateBuffer", "clCreateImage2D", "clReleaseMemObject"):
            vars(cl).pop(name, None)

    def bytes_of(self, handle):
        """The host's view of a cl_mem."""
        return self._objects[handle.value][2]

    def call(self, name, **values):
        request, layout = CALLS[name]
        argument = layout.pack(**values)
        self._platform.ioctl(self._fd, request, argument)
        return layout.unpack(argument)

    # -- the functions of the library

    def _buffer(self, context, flags, size, pointer, status):
        return self._make(context, size, status)

    def _image(self, context, flags, form, width, height, pitch, pointer, status):
        channels = form[0]
        if channels.image_channel_order != cl.CL_RGBA or pitch:
            status[0] = _INVALID
            return None
        key = height, width, BITS[channels.image_channel_data_type]
        return self._make(context, PITCHES[key] * height, status)

    def _make(self, context, size, status):
        if context != CONTEXT:
            status[0] = _INVALID
            return None
        whole = round_up(size, PAGE)
        number = self.call("alloc", size=whole)["id"]
        host = self._platform.reserve(whole, PAGE)
        self._platform.map(self._fd, whole, number * PAGE, host)
        block = (ctypes.c_uint64 * (0x100 // 8))()
        block[ADDRESS // 8] = self.call("info", id=number)["gpuaddr"]
        self._objects[ctypes.addressof(block)] = block, number, view(host, whole)
        status[0] = 0
        return ctypes.addressof(block)

    def _release(self, handle):
        _, number, memory = self._objects.pop(handle)
        self._platform.unmap(ctypes.addressof(ctypes.c_char.from_buffer(memory)), memory.nbytes)
        self.call("free", id=number)
        return 0
