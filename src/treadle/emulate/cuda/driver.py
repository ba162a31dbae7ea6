"""A driver whose devices are this processor: it runs PTX text, in order, and checks every access.

    driver = EmulatedDriver("sm_80", devices=2)
    context = driver.open(0)
    kernel = context.load(ptx).function("softmax")

Streams and events are there and mean nothing, since everything has happened when a call returns.
Faults have CUDA's names, and as on hardware a context in which a kernel failed stays broken: each
later call fails with the first error, which says what happened.
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.cuda.chips import chip
from treadle.emulate.cuda.context import EmulatedContext
from treadle.forks import fork_safe
from treadle.runtime.cuda.driver import DriverError
from treadle.target import available_cores, host_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.simt.execute import CompileIR
    from treadle.runtime.cuda.driver import DeviceFacts

__all__ = ["EmulatedDriver"]

_VERSION = (13, 0)


class EmulatedDriver:
    """`devices` GPUs of one architecture. Of `CUDA_VISIBLE_DEVICES` the numbers are respected.

    `compile_ir` turns LLVM IR into an object for this machine: a caller that has a cache of
    compiled code hands in a function that goes through it. `threads` run the blocks of a grid.
    With `checks_races` data races in global memory are faults, too.
    """

    is_emulated = True
    version = _VERSION

    def __init__(
        self,
        arch: str = "sm_80",
        devices: int = 1,
        compile_ir: CompileIR | None = None,
        threads: int | None = None,
        checks_races: bool = False,
    ) -> None:
        facts = chip(arch)
        self.arch = arch
        self._facts = [
            replace(facts, pci=f"0000:{number + 1:02x}:00.0") for number in _visible(devices)
        ]
        self.compile_ir = compile_ir or LLVMCompiler(host_target()).compile
        self.threads = available_cores() if threads is None else threads
        self.checks_races = checks_races
        self._contexts: dict[int, EmulatedContext] = {}
        self._lock = fork_safe(threading.Lock())

    def devices(self) -> Sequence[DeviceFacts]:
        """The devices, in CUDA's order."""
        return list(self._facts)

    def contexts(self) -> list[EmulatedContext]:
        """Those that are open."""
        with self._lock:
            return list(self._contexts.values())

    def open(self, index: int) -> EmulatedContext:
        """A device's primary context. DriverError CUDA_ERROR_INVALID_DEVICE if there is none."""
        if not 0 <= index < len(self._facts):
            raise DriverError("CUDA_ERROR_INVALID_DEVICE", "cuDeviceGet", f"no device {index}")
        with self._lock:
            if index not in self._contexts:
                self._contexts[index] = EmulatedContext(self, index, self._facts[index])
            return self._contexts[index]


def _visible(devices: int) -> list[int]:
    """The devices that CUDA_VISIBLE_DEVICES names, up to the first that does not exist."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return list(range(devices))
    names = [name.strip() for name in setting.split(",")]
    exists = lambda name: name.isdigit() and int(name) < devices
    return [int(name) for name in itertools.takewhile(exists, names)]
