"""Object code becomes callable addresses.

    load_object(object_bytes, ["kernel"]).address("kernel")  ->  140213...

One surprise: a `Library` unloads its code when it is garbage collected, so whoever holds an
address has to hold the Library too.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from typing import TYPE_CHECKING

from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.forks import fork_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from llvmlite.binding.orcjit import LLJIT, ResourceTracker

__all__ = ["Library", "load_object"]

# LLVM keeps about 10 KiB for each library it ever linked, until its linker goes: so a linker
# serves this many and is then left to go with the last of them.
_LIBRARIES_PER_LINKER = 64

# Every so many libraries the process's mappings are counted, and code is refused while there is
# still room for this many: LLVM ends the process that gets no mapping.
_LIBRARIES_PER_COUNT, _MAPPINGS_LEFT = 256, 4096

_LOCK = fork_safe(threading.RLock())
_NUMBERS = itertools.count()


class Library:
    """Loaded code. `address(symbol)` is valid for as long as the Library lives."""

    def __init__(self, linker: LLJIT, tracker: ResourceTracker, addresses: dict[str, int]) -> None:
        self._tracker = tracker
        self._linker = linker
        self._addresses = addresses
        self.needs: object = None  # libraries that this one calls into
        self.phases: Sequence[object] = ()  # what a Launch takes, made by the device that loads

    def address(self, symbol: str) -> int:
        """The address of a symbol that was asked for at loading."""
        return self._addresses[symbol]

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        tracker, linker = self._tracker, self._linker
        if exiting():  # a daemon thread may still be in the code: leave it where it is
            tracker.detach()
            linker.detach()
        else:
            # At once, so that the code goes before the linker that owns its memory.
            tracker.close()


def load_object(
    code: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None
) -> Library:
    """Loads one relocatable object. Names it leaves open come from `imports`, then the process.

    Raises InternalError if the object is broken or needs a symbol that is nowhere, OutOfMemory
    where the system has hardly a mapping left for this process.
    """
    llvm = _binding()
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    for name, address in (imports or {}).items():
        builder.import_symbol(name, address)
    with _LOCK:
        number = next(_NUMBERS)
        if number % _LIBRARIES_PER_COUNT == 0:
            _count_mappings()
        linker = _linker(number // _LIBRARIES_PER_LINKER)
        try:
            tracker = builder.link(linker, f"treadle{number}")
        except RuntimeError as error:
            # LLVM names the symbols that it missed on stderr only.
            raise InternalError(
                f"loading {', '.join(symbols)} failed (LLVM says why on stderr): {error}"
            ) from error
    return Library(linker, tracker, {symbol: tracker[symbol] for symbol in symbols})


def _count_mappings(folder: str = "/proc") -> None:
    """Raises OutOfMemory if this process has nearly as many mappings as Linux allows."""
    try:
        with open(f"{folder}/sys/vm/max_map_count") as limit:
            most = int(limit.read())
        with open(f"{folder}/self/maps", "rb") as maps:
            count = sum(1 for _ in maps)
    except OSError:  # not Linux, or one that does not show them
        return
    if count > most - _MAPPINGS_LEFT:
        raise OutOfMemory(
            f"this process has {count} memory mappings and Linux allows it {most}: each loaded "
            "kernel takes two. Captured functions keep their kernels loaded: delete those that you "
            "no longer need, or let the administrator raise `sysctl vm.max_map_count`"
        )


@functools.lru_cache(maxsize=1)
def _linker(generation: int) -> LLJIT:
    """One linker a generation; the last one only is kept here."""
    llvm = _binding()
    # JITLink places an object's sections side by side; the older linker may put them too far apart.
    return llvm.create_lljit_compiler(use_jit_link=os.name == "posix")


@functools.cache
def _binding() -> ModuleType:
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise DeviceError(
            "the CPU device needs llvmlite to load code: `pip install llvmlite` brings it"
        ) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm
