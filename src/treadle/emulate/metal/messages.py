"""Messages that the emulator answers itself, where pyobjc would send them to Metal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, cast
from weakref import WeakValueDictionary

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.air import needed_clang
from treadle.emulate.metal.code import CompileOptions, PipelineDescriptor
from treadle.emulate.metal.device import Device
from treadle.emulate.metal.indirect import IndirectDescriptor
from treadle.emulate.metal.objects import Object, perform, pool
from treadle.errors import DeviceError
from treadle.forks import fork_safe
from treadle.runtime.metal.messages import Handle, Messages
from treadle.target import host_target

if TYPE_CHECKING:
    from treadle.emulate.air import Cached
    from treadle.emulate.simt.execute import CompileIR

__all__ = ["EmulatedMetal"]

_CLASSES: dict[str, Callable[[], Object]] = {
    "MTLCompileOptions": CompileOptions,
    "MTLComputePipelineDescriptor": PipelineDescriptor,
    "MTLIndirectCommandBufferDescriptor": IndirectDescriptor,
}


class EmulatedMetal(Messages):
    """`devices` GPUs of one family.

    Raises ValueError for a family that is not emulated, DeviceError where there is no clang.

    `compile_ir` turns LLVM IR into an object for this machine. With `checks_races` data races in
    global memory are faults, too. `cached` keeps what clang makes of texts.
    """

    def __init__(
        self, family: str = "apple7", devices: int = 1, compile_ir: CompileIR | None = None,
        checks_races: bool = False, cached: Cached | None = None,
    ) -> None:  # fmt: skip
        needed_clang()
        compile_ir = compile_ir or LLVMCompiler(host_target()).compile
        self._devices = [Device(family, compile_ir, checks_races, cached) for _ in range(devices)]
        self._lock = fork_safe(threading.RLock())
        self._named: WeakValueDictionary[int, Object] = WeakValueDictionary()

    def answer(self, receiver: Handle, selector: str, arguments: tuple[object, ...]) -> object:
        with self._lock:
            return perform(receiver, selector, arguments)

    def made(self, class_name: str) -> Handle:
        return Handle(_CLASSES[class_name]())

    def devices(self) -> list[Handle]:
        return [Handle(one) for one in self._devices]

    def contents(self, buffer: Handle, nbytes: int) -> memoryview:
        return cast("memoryview", self.answer(buffer, "contents", ()))[:nbytes]

    def pointer_to(self, handle: Handle) -> int:
        """The address of an object, as another library would hand it over."""
        found = cast("Object", handle)
        self._named[id(found)] = found
        return id(found)

    def object_at(self, pointer: int) -> Handle:
        found = self._named.get(pointer)
        if found is None:
            raise DeviceError(f"METAL: there is no MTLBuffer at {pointer:#x}, but something else")
        return Handle(found)

    def pool(self) -> AbstractContextManager[object]:
        return pool()
