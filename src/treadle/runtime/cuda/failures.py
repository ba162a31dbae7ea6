"""CUDA's failures as one clear sentence each, and what a broken context means for later uses.

    failures = Failures("CUDA", (13, 0))
    with failures.translated("launch a kernel"): context.launch(...)

Most failures leave the context as it was. Some break it for good, such as an illegal address: CUDA
then fails every later call, and so does `check`, which says what happened first. A kernel's fault
shows at a later call, so `launched` keeps the names of what may still run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from treadle.errors import DeviceError, InternalError, OutOfMemory, StaleCodeError
from treadle.runtime.cuda.driver import DriverError
from treadle.runtime.presence import Launching

__all__ = ["BREAKING", "Failures", "newer_error", "opening_failed"]

_INSTALL_DRIVER = "install NVIDIA's driver, or set EMULATE=1 to run CUDA programs on the processor"
_UPDATE = "update NVIDIA's driver"

# Why no device can be opened, and what mends it.
_OPENING = {
    "MISSING_PACKAGE": ("cuda-bindings is not installed", 'pip install "treadle[cuda]"'),
    "MISSING_LIBRARY": ("there is no NVIDIA driver here: libcuda was not found", _INSTALL_DRIVER),
    "FORKED": (
        "the driver was opened before this process was forked, and does not survive that",
        "use it in the child alone, or start that with 'spawn'",
    ),
    "CUDA_ERROR_NO_DEVICE": (
        "the driver sees no NVIDIA GPU",
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or set EMULATE=1",
    ),
    "CUDA_ERROR_STUB_LIBRARY": (
        "the libcuda that was found is the toolkit's stub", "take its folder off LD_LIBRARY_PATH"
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        "libcuda and the kernel's NVIDIA module are of different versions",
        "restart the machine, or reinstall the driver",
    ),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (
        "libcuda is newer than the kernel's NVIDIA module can serve on this GPU", _UPDATE
    ),
    "CUDA_ERROR_SYSTEM_NOT_READY": (
        "the system is not ready", "start NVIDIA's services (nvidia-fabricmanager on NVSwitch)"
    ),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": (
        "the GPU is in use by a process that has it alone", "wait for it, or choose another GPU"
    ),
    "CUDA_ERROR_NOT_SUPPORTED": (
        "the driver is too old for cuda-bindings",
        _UPDATE + ", or install the cuda-bindings of the CUDA that it serves",
    ),
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "the GPU has no memory left for a context", "end other programs that use it"
    ),
    "CUDA_ERROR_UNKNOWN": (
        "the driver could not start", "reload the module nvidia-uvm, or restart the machine"
    ),
}  # fmt: skip

# What breaks a context for good.
BREAKING = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel used memory that is not its own",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "a kernel ran longer than the system lets it with a display",
    "CUDA_ERROR_LAUNCH_FAILED": "a kernel failed",
    "CUDA_ERROR_ASSERT": "an assertion in a kernel failed",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a kernel's stack is broken or too small",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a kernel has an instruction that this GPU does not know",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel used an address that is not aligned",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "a kernel used an address of the wrong kind of memory",
    "CUDA_ERROR_INVALID_PC": "a kernel jumped to where no code is",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "the GPU's memory has an error that it could not correct",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": "a link between GPUs failed",
    "CUDA_ERROR_CONTAINED": "the GPU contained a hardware error",
    "CUDA_ERROR_EXTERNAL_DEVICE": "another device that the GPU works with failed",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": "somebody destroyed or reset its context",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "the GPU is gone",
    "CUDA_ERROR_UNKNOWN": "the driver failed for an unknown reason",
}  # fmt: skip

# Code that a driver refuses: it was made for another GPU or by a newer compiler.
_REFUSED = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "it was made for another architecture",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "its PTX is newer than this driver reads: " + _UPDATE
    + ", or install an older nvidia-cuda-nvrtc",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": "the driver has no compiler for PTX: " + _UPDATE,
    "CUDA_ERROR_JIT_COMPILATION_DISABLED": "CUDA_DISABLE_PTX_JIT forbids to compile PTX",
    "CUDA_ERROR_INVALID_PTX": "its PTX is not valid",
    "CUDA_ERROR_INVALID_IMAGE": "it is damaged, or newer than the driver",
    "CUDA_ERROR_INVALID_SOURCE": "it is damaged, or newer than the driver",
    "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC": "it is damaged, or newer than the driver",
}  # fmt: skip


def newer_error(number: int, call: str) -> DriverError:
    """A failure that only a newer cuda-bindings has a name for."""
    return DriverError(f"CUDA error {number}", call, "a newer cuda-bindings has its name")


def opening_failed(error: DriverError) -> DeviceError:
    """What to say where no device could be opened: the reason, `;`, and what mends it."""
    what, mend = _OPENING.get(error.code, ("the driver could not start", _UPDATE))
    known = error.code in ("MISSING_PACKAGE", "MISSING_LIBRARY", "FORKED")
    return DeviceError(f"CUDA: {what}{'' if known else f' ({error})'}; {mend}")


class Failures(Launching):
    """What has gone wrong on one device, and what runs there that may still fail."""

    def __init__(self, name: str, version: tuple[int, int]) -> None:
        super().__init__(name, "CUDA")
        self._version = version

    @contextmanager
    def translated(self, what: str) -> Iterator[None]:
        """A block whose DriverErrors are raised as what users are to read."""
        self.check()
        try:
            yield
        except DriverError as error:
            raise self._raised(error, what) from error

    def _raised(self, error: DriverError, what: str) -> Exception:
        code, name = error.code, self.name
        if code in BREAKING:
            self.lost = self._story(error)
            return DeviceError(self.lost)
        if code == "CUDA_ERROR_OUT_OF_MEMORY":
            return OutOfMemory(
                f"{name}: no memory to {what}: delete tensors that are no longer needed, or use "
                "smaller batches"
            )
        if code in _REFUSED:
            told = str(error).partition(": ")[2].partition(": ")[2]
            served = ".".join(map(str, self._version))
            return StaleCodeError(
                f"{name}: the driver, which serves CUDA {served}, refuses a kernel: "
                f"{_REFUSED[code]}{f' ({told})' if told else ''}"
            )
        if "CAPTURE" in code:
            return DeviceError(
                f"{name}: could not {what} while another library captures a CUDA graph ({error}): "
                "no work of treadle's can be a part of that; run it before or behind the capture"
            )
        if code == "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES":
            return DeviceError(
                f"{name}: a kernel needs more registers or shared memory than the GPU has for one "
                f"block: {', '.join(self._running) or 'it was not started'}"
            )
        if code in ("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_NOT_FOUND"):
            return InternalError(f"{name}: could not {what}: {error}")
        return DeviceError(f"{name}: could not {what}: {error}")

    def _story(self, error: DriverError) -> str:
        """What broke the context, and what may have done so."""
        suspects = list(dict.fromkeys(self._running))
        told = str(error).partition(error.code)[2].removeprefix(": ")
        who = ""
        if told:
            who = f": {told}"
        elif len(suspects) == 1:
            who = f": {suspects[0]}"
        elif suspects:
            who = (
                f": one of {', '.join(suspects)} (CUDA_LAUNCH_BLOCKING=1 in the environment names "
                "the one)"
            )
        return (
            f"{self.name}: {BREAKING[error.code]} ({error.code}){who}. The device's tensors are "
            "gone, and CUDA lets this process use the device no more: start it anew; other devices "
            "go on"
        )
