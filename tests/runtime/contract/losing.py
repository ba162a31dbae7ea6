"""How a device of each runtime is lost on purpose: through the runtime's own seam.

    lose = LOSING["WEBGPU"];  device = lose.open();  lose.lose(device)

A runtime with a driver needs a row. What its driver says of a lost device comes from there, or from
a stand-in for the driver's calls that says the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from treadle.engine.devices import request_of
from treadle.engine.selection import parse_choice


class Losing(NamedTuple):
    """`open` makes a device of the test's own by its name, `lose` loses that and no other."""

    open: Callable[[str], Any]
    lose: Callable[[Any], None]


def _open(name: str) -> Any:
    choice = parse_choice(name)
    backend = choice.backend
    assert backend.open is not None
    return backend.open(request_of(backend, backend.toolchain(choice.compiler), choice))


def _chip_of(name: str) -> str:
    """What a device of that name is, where it is emulated."""
    choice = parse_choice(name)
    backend = choice.backend
    emulation = request_of(backend, backend.toolchain(choice.compiler), choice).emulation
    return emulation.chip if emulation is not None else backend.emulated_chip or ""


class _Gone:
    """A stand-in for an object of a driver: what a device asks of it fails."""

    def __init__(self, error: Exception, facts: object = None) -> None:
        self._error, self.facts = error, facts

    def __getattr__(self, name: str) -> Any:
        def fail(*_: object, **__: object) -> Any:
            raise self._error

        return fail


def _lose_cuda(device: Any) -> None:
    from treadle.runtime.cuda.driver import DriverError

    gone = _Gone(DriverError("CUDA_ERROR_DEVICE_UNAVAILABLE", "a call"), device.facts)
    for part in (device, device.allocator, device._staging):
        for name in ("context", "_context"):
            if hasattr(part, name):
                setattr(part, name, gone)


def _lose_cl(device: Any) -> None:
    import pyopencl

    record = pyopencl._cl._ErrorRecord(
        msg="", code=pyopencl.status_code.DEVICE_NOT_AVAILABLE, routine="a call"
    )
    gone = _Gone(pyopencl.RuntimeError(record))
    asked = ("Buffer", "CommandQueue", "Kernel", "Program", "enqueue_copy")
    asked += ("enqueue_nd_range_kernel",)
    driver = SimpleNamespace(**{**vars(pyopencl), **{name: getattr(gone, name) for name in asked}})
    device.queue, device.driver, device.allocator.driver = gone, driver, driver


def _lose_webgpu(device: Any) -> None:
    from treadle.runtime.webgpu.dawn import view_of
    from treadle.runtime.webgpu.structures import StringView

    address = device.dawn.library.address("wgpuDeviceForceLoss")
    lose = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, StringView)(address)
    keep: list[Any] = []
    lose(device.handle, 1, view_of("unplugged", keep))


def _open_amd(name: str) -> Any:
    """A GPU of a machine of its own."""
    from treadle.emulate.amd.execute import Executor
    from treadle.emulate.kfd import EmulatedKFD
    from treadle.emulate.machine.platform import EmulatedPlatform
    from treadle.engine.host_code import compile_for_host
    from treadle.runtime.hardware.amd import KFD, AMDDevice, target_of

    platform = EmulatedPlatform()
    driver = EmulatedKFD(platform, [_chip_of(name)], Executor(compile_for_host))
    device = AMDDevice(name, KFD(platform), 0, lambda node: target_of(node, None, True))
    device.gpu = driver.gpus[0]  # type: ignore[attr-defined]
    return device


def _lose_emulated(device: Any) -> None:
    device.gpu.lose()


def _open_nv(name: str) -> Any:
    """A GPU of a machine of its own."""
    from treadle.emulate.machine.platform import EmulatedPlatform
    from treadle.emulate.nv import EmulatedNV
    from treadle.emulate.nv.execute import Executor
    from treadle.emulate.nv.programs import Programs
    from treadle.engine.host_code import compile_for_host
    from treadle.runtime.hardware.nv import RM, NVDevice, target_of

    platform, programs = EmulatedPlatform(), Programs(compile_for_host)
    driver = EmulatedNV(platform, [_chip_of(name)], Executor(programs))
    device = NVDevice(
        name, RM(platform), 0, lambda own, facts: target_of(own, facts, None, True),
        on_load=programs.record,
    )  # fmt: skip
    device.gpu = driver.gpus[0]  # type: ignore[attr-defined]
    return device


def _open_qcom(name: str) -> Any:
    """A GPU of a machine of its own."""
    from treadle.emulate.ir3.execute import Executor
    from treadle.emulate.kgsl import EmulatedKGSL
    from treadle.emulate.machine.platform import EmulatedPlatform
    from treadle.engine.host_code import compile_for_host
    from treadle.runtime.hardware.qcom import KGSL, QCOMDevice, target_of

    platform = EmulatedPlatform()
    driver = EmulatedKGSL(platform, _chip_of(name), Executor(compile_for_host))
    device = QCOMDevice(name, KGSL(platform), lambda chip_id: target_of(chip_id, None, True))
    device.gpu = driver.gpu  # type: ignore[attr-defined]
    return device


LOSING: dict[str, Losing] = {
    "AMD": Losing(_open_amd, _lose_emulated),
    "CL": Losing(_open, _lose_cl),
    "CUDA": Losing(_open, _lose_cuda),
    "NV": Losing(_open_nv, _lose_emulated),
    "QCOM": Losing(_open_qcom, _lose_emulated),
    "WEBGPU": Losing(_open, _lose_webgpu),
}
