"""NVIDIA's driver through cuda-bindings, as the protocol of driver.py.

    driver = open_driver()          # DeviceError where there is no package or no driver
    driver.devices()[0].name        -> "NVIDIA H100 80GB HBM3"
    context = driver.open(0)        # the device's primary context, which PyTorch uses, too

cuda-bindings is imported here and nowhere else, when the driver is opened; what calls its functions
gets them as an `Api`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from treadle.runtime.cuda.api import Api
from treadle.runtime.cuda.context import CudaContext
from treadle.runtime.cuda.driver import DeviceFacts, DriverError
from treadle.runtime.cuda.failures import opening_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CudaDriver", "open_driver"]


@cache
def open_driver() -> CudaDriver:
    """This process's driver, initialised. Raises DeviceError that says what is missing."""
    try:
        return _opened()
    except DriverError as error:
        raise opening_failed(error) from error


def _opened() -> CudaDriver:
    try:
        from cuda.bindings import __version__
        from cuda.bindings import driver as raw  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError as error:
        raise DriverError("MISSING_PACKAGE", "import", str(error)) from error
    try:
        raw.cuDriverGetVersion()
    except RuntimeError as error:
        raise DriverError("MISSING_LIBRARY", "dlopen") from error
    return CudaDriver(Api(raw), int(__version__.split(".")[0]))


class CudaDriver:
    """The driver of this machine. It counts the devices that CUDA_VISIBLE_DEVICES leaves.

    `needed` is the CUDA that cuda-bindings was made for: an older driver lacks functions.
    """

    is_emulated = False

    def __init__(self, api: Api, needed: int) -> None:
        self._api = api
        number = api("cuDriverGetVersion")
        self.version = (number // 1000, number % 1000 // 10)
        if self.version[0] < needed:  # functions that cuda-bindings calls are not there
            told = f"it serves CUDA {number // 1000}, and cuda-bindings is of CUDA {needed}"
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", "cuDriverGetVersion", told)
        api("cuInit", 0)
        self._handles = [api("cuDeviceGet", i) for i in range(api("cuDeviceGetCount"))]
        self._facts = [_facts(api, handle) for handle in self._handles]
        self._contexts: dict[int, CudaContext] = {}
        self._pid = os.getpid()

    def devices(self) -> Sequence[DeviceFacts]:
        """Those that CUDA_VISIBLE_DEVICES leaves, in CUDA's order."""
        return self._facts

    def open(self, index: int) -> CudaContext:
        """The primary context of a device, which stays as long as the process.

        A forked child has none of them: CUDA is of no use there.
        """
        if os.getpid() != self._pid:
            raise DriverError("FORKED", "cuInit")
        found = self._contexts.get(index)
        if found is None:
            found = CudaContext(self._api, self._handles[index], index, self._facts[index])
            self._contexts[index] = found
        return found


def _facts(api: Api, device: object) -> DeviceFacts:
    names = api.raw.CUdevice_attribute

    def number(name: str) -> int:
        return api("cuDeviceGetAttribute", getattr(names, "CU_DEVICE_ATTRIBUTE_" + name), device)

    return DeviceFacts(
        name=_text(api("cuDeviceGetName", 256, device)),
        capability=(number("COMPUTE_CAPABILITY_MAJOR"), number("COMPUTE_CAPABILITY_MINOR")),
        memory=api("cuDeviceTotalMem", device),
        multiprocessors=number("MULTIPROCESSOR_COUNT"),
        most_threads=number("MAX_THREADS_PER_BLOCK"),
        shared=number("MAX_SHARED_MEMORY_PER_BLOCK"),
        shared_optin=number("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_per_multiprocessor=number("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        l2=number("L2_CACHE_SIZE"),
        pci=_text(api("cuDeviceGetPCIBusId", 32, device)),
        has_pools=bool(number("MEMORY_POOLS_SUPPORTED")),
        has_watchdog=bool(number("KERNEL_EXEC_TIMEOUT")),
        is_emulated=False,
    )


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode(errors="replace")
