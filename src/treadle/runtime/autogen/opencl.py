"""OpenCL's own C functions through ctypes, for programs that make `cl_mem` objects themselves.

    from treadle.runtime.autogen import opencl as cl
    status = ctypes.c_int32()
    buffer = cl.clCreateBuffer(context, cl.CL_MEM_READ_WRITE, 1024, None, status)

The signatures are those of Khronos' cl.h. Handles are void pointers, which are integers as well;
counts and flags are Python's integers. What C returns through a pointer needs a ctypes object with
`ctypes.byref`; a status is passed as it is, and so are an image's format and description. The
system's library is loaded with the first function that is asked for. treadle itself speaks to
OpenCL through pyopencl.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from treadle.errors import DeviceError

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

__all__ = ["cl_context", "cl_device_id", "cl_image_format", "cl_mem", "cl_platform_id", "library"]

_VOID = ctypes.c_void_p
_STATUS, _UINT, _BITS, _SIZE = ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t


class _Handle(_VOID):
    """A pointer to something that only the driver knows; 0 is none."""

    def __index__(self) -> int:
        return self.value or 0


cl_platform_id = cl_device_id = cl_context = cl_command_queue = cl_mem = _Handle
cl_program = cl_kernel = cl_event = cl_sampler = _Handle
cl_int, cl_uint, cl_ulong, cl_bitfield = _STATUS, _UINT, ctypes.c_uint64, _BITS


class cl_image_format(ctypes.Structure):
    """The channels of an image, and their type."""

    _fields_ = [("image_channel_order", _UINT), ("image_channel_data_type", _UINT)]


class cl_image_desc(ctypes.Structure):
    """The kind and the sizes of an image."""

    _fields_ = [
        ("image_type", _UINT), ("image_width", _SIZE), ("image_height", _SIZE),
        ("image_depth", _SIZE), ("image_array_size", _SIZE), ("image_row_pitch", _SIZE),
        ("image_slice_pitch", _SIZE), ("num_mip_levels", _UINT), ("num_samples", _UINT),
        ("buffer", _VOID),
    ]  # fmt: skip


# For such a pointer ctypes takes the object itself, too.
_CODE, _FORMAT = ctypes.POINTER(_STATUS), ctypes.POINTER(cl_image_format)
_WAIT = (_UINT, _VOID, _VOID)  # events to wait for, and the one that is made
_INFO = (_UINT, _SIZE, _VOID, _VOID)  # what is asked, room, where to, and how much it was

# What each function returns, and its parameters.
_FUNCTIONS: dict[str, tuple[type, tuple[type, ...]]] = {
    "clGetPlatformIDs": (_STATUS, (_UINT, _VOID, _VOID)),
    "clGetPlatformInfo": (_STATUS, (_VOID, *_INFO)),
    "clGetDeviceIDs": (_STATUS, (_VOID, _BITS, _UINT, _VOID, _VOID)),
    "clGetDeviceInfo": (_STATUS, (_VOID, *_INFO)),
    "clCreateContext": (_Handle, (_VOID, _UINT, _VOID, _VOID, _VOID, _CODE)),
    "clCreateContextFromType": (_Handle, (_VOID, _BITS, _VOID, _VOID, _CODE)),
    "clGetContextInfo": (_STATUS, (_VOID, *_INFO)),
    "clRetainContext": (_STATUS, (_VOID,)),
    "clReleaseContext": (_STATUS, (_VOID,)),
    "clCreateCommandQueue": (_Handle, (_VOID, _VOID, _BITS, _CODE)),
    "clRetainCommandQueue": (_STATUS, (_VOID,)),
    "clReleaseCommandQueue": (_STATUS, (_VOID,)),
    "clCreateBuffer": (_Handle, (_VOID, _BITS, _SIZE, _VOID, _CODE)),
    "clCreateSubBuffer": (_Handle, (_VOID, _BITS, _UINT, _VOID, _CODE)),
    "clCreateImage": (
        _Handle, (_VOID, _BITS, _FORMAT, ctypes.POINTER(cl_image_desc), _VOID, _CODE),
    ),
    "clCreateImage2D": (_Handle, (_VOID, _BITS, _FORMAT, _SIZE, _SIZE, _SIZE, _VOID, _CODE)),
    "clGetMemObjectInfo": (_STATUS, (_VOID, *_INFO)),
    "clGetImageInfo": (_STATUS, (_VOID, *_INFO)),
    "clRetainMemObject": (_STATUS, (_VOID,)),
    "clReleaseMemObject": (_STATUS, (_VOID,)),
    "clCreateProgramWithSource": (_Handle, (_VOID, _UINT, _VOID, _VOID, _CODE)),
    "clCreateProgramWithBinary": (_Handle, (_VOID, _UINT, _VOID, _VOID, _VOID, _VOID, _CODE)),
    "clBuildProgram": (_STATUS, (_VOID, _UINT, _VOID, ctypes.c_char_p, _VOID, _VOID)),
    "clGetProgramInfo": (_STATUS, (_VOID, *_INFO)),
    "clGetProgramBuildInfo": (_STATUS, (_VOID, _VOID, *_INFO)),
    "clReleaseProgram": (_STATUS, (_VOID,)),
    "clCreateKernel": (_Handle, (_VOID, ctypes.c_char_p, _CODE)),
    "clSetKernelArg": (_STATUS, (_VOID, _UINT, _SIZE, _VOID)),
    "clGetKernelInfo": (_STATUS, (_VOID, *_INFO)),
    "clGetKernelWorkGroupInfo": (_STATUS, (_VOID, _VOID, *_INFO)),
    "clReleaseKernel": (_STATUS, (_VOID,)),
    "clEnqueueReadBuffer": (_STATUS, (_VOID, _VOID, _UINT, _SIZE, _SIZE, _VOID, *_WAIT)),
    "clEnqueueWriteBuffer": (_STATUS, (_VOID, _VOID, _UINT, _SIZE, _SIZE, _VOID, *_WAIT)),
    "clEnqueueCopyBuffer": (_STATUS, (_VOID, _VOID, _VOID, _SIZE, _SIZE, _SIZE, *_WAIT)),
    "clEnqueueFillBuffer": (_STATUS, (_VOID, _VOID, _VOID, _SIZE, _SIZE, _SIZE, *_WAIT)),
    "clEnqueueReadImage": (
        _STATUS, (_VOID, _VOID, _UINT, _VOID, _VOID, _SIZE, _SIZE, _VOID, *_WAIT),
    ),
    "clEnqueueWriteImage": (
        _STATUS, (_VOID, _VOID, _UINT, _VOID, _VOID, _SIZE, _SIZE, _VOID, *_WAIT),
    ),
    "clEnqueueMapBuffer": (_VOID, (_VOID, _VOID, _UINT, _BITS, _SIZE, _SIZE, *_WAIT, _VOID)),
    "clEnqueueUnmapMemObject": (_STATUS, (_VOID, _VOID, _VOID, *_WAIT)),
    "clEnqueueNDRangeKernel": (_STATUS, (_VOID, _VOID, _UINT, _VOID, _VOID, _VOID, *_WAIT)),
    "clWaitForEvents": (_STATUS, (_UINT, _VOID)),
    "clGetEventProfilingInfo": (_STATUS, (_VOID, *_INFO)),
    "clReleaseEvent": (_STATUS, (_VOID,)),
    "clFlush": (_STATUS, (_VOID,)),
    "clFinish": (_STATUS, (_VOID,)),
}  # fmt: skip

CL_SUCCESS, CL_DEVICE_NOT_FOUND = 0, -1
CL_FALSE, CL_TRUE = 0, 1
CL_PLATFORM_PROFILE, CL_PLATFORM_VERSION = 0x0900, 0x0901
CL_PLATFORM_NAME, CL_PLATFORM_VENDOR, CL_PLATFORM_EXTENSIONS = 0x0902, 0x0903, 0x0904
CL_DEVICE_TYPE_DEFAULT, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU = 1, 2, 4
CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL = 8, 0xFFFFFFFF
CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DRIVER_VERSION = 0x102B, 0x102C, 0x102D
CL_DEVICE_VERSION, CL_DEVICE_EXTENSIONS = 0x102F, 0x1030
CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_MAX_COMPUTE_UNITS = 0x101F, 0x1002
CL_CONTEXT_PLATFORM, CL_CONTEXT_DEVICES = 0x1084, 0x1081
CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE = 1, 2
CL_MEM_READ_WRITE, CL_MEM_WRITE_ONLY, CL_MEM_READ_ONLY = 1, 2, 4
CL_MEM_USE_HOST_PTR, CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR = 8, 16, 32
CL_MEM_TYPE, CL_MEM_FLAGS, CL_MEM_SIZE, CL_MEM_HOST_PTR = 0x1100, 0x1101, 0x1102, 0x1103
CL_MEM_OBJECT_BUFFER, CL_MEM_OBJECT_IMAGE2D = 0x10F0, 0x10F1
CL_MAP_READ, CL_MAP_WRITE = 1, 2
CL_R, CL_RG, CL_RGBA = 0x10B0, 0x10B2, 0x10B5
CL_HALF_FLOAT, CL_FLOAT = 0x10DD, 0x10DE
CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES = 0x1165, 0x1166
CL_PROGRAM_BUILD_STATUS, CL_PROGRAM_BUILD_LOG = 0x1181, 0x1183
CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END = 0x1282, 0x1283


@functools.cache
def library() -> ctypes.CDLL:
    """The OpenCL loader that pyopencl brings, or the system's. Raises DeviceError."""
    if find_spec("pyopencl") is not None:
        import pyopencl as _  # sets the environment up that its loader needs  # noqa: F401

    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise DeviceError(
        "[opencl] there is no OpenCL library to load; install your system's OpenCL loader (Debian: "
        "ocl-icd-libopencl1), or run: pip install 'treadle[cl]'"
    )


def _candidates() -> list[str]:
    """pyopencl's own loader first: handles of the one library mean nothing to another."""
    found: list[str] = []
    spec = find_spec("pyopencl")
    if spec is not None and spec.origin is not None:
        bundled = os.path.join(os.path.dirname(spec.origin), ".libs")
        names = sorted(os.listdir(bundled)) if os.path.isdir(bundled) else []
        found += [os.path.join(bundled, name) for name in names if name.startswith("libOpenCL")]
    return [*found, ctypes.util.find_library("OpenCL") or "libOpenCL.so.1"]


def __getattr__(name: str) -> CFuncPtr:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(library(), name)
    function.restype, function.argtypes = _FUNCTIONS[name]
    globals()[name] = function
    return function
