"""The copy class: bytes from one address to another, as plain lines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.machine.work import After
from treadle.emulate.nv import tables
from treadle.emulate.nv.faults import ChannelFault

if TYPE_CHECKING:
    from treadle.emulate.machine.memory import AddressSpace
    from treadle.emulate.machine.work import Worklist
    from treadle.emulate.nv.engines import GPU

__all__ = ["CopyEngine"]

_PIPELINED, _NOT_PIPELINED = 1, 2
_PLAIN = {
    "SRC_MEMORY_LAYOUT": 1, "DST_MEMORY_LAYOUT": 1, "MULTI_LINE_ENABLE": 0, "REMAP_ENABLE": 0,
    "SRC_TYPE": 0, "DST_TYPE": 0, "SEMAPHORE_TYPE": 0, "INTERRUPT_TYPE": 0, "FLUSH_ENABLE": 1,
}  # fmt: skip


class CopyEngine:
    """An object of a copy class on one channel."""

    def __init__(self, gpu: GPU, space: AddressSpace, work: Worklist, number: int) -> None:
        self._gpu, self._space, self._work = gpu, space, work
        self._methods = tables.methods("copy", number)
        self._state: dict[str, int] = {}

    def method(self, at: int, value: int) -> None:
        """One method."""
        found = self._methods.get(at)
        if found is None:
            raise _wrong(f"the copy class has no method {at:#x}")
        try:
            fields = found.decode(value)
        except ValueError as error:
            raise _wrong(str(error)) from error
        self._state[found.name] = value
        if found.name == "LAUNCH_DMA":
            self._launch(fields)

    def _launch(self, fields: dict[str, int]) -> None:
        for name, value in fields.items():
            if name != "DATA_TRANSFER_TYPE" and value != _PLAIN.get(name, 0):
                raise _wrong(f"a copy with {name} {value} is not emulated")
        kind = fields["DATA_TRANSFER_TYPE"]
        if kind not in (_PIPELINED, _NOT_PIPELINED):
            raise _wrong(f"a copy of type {kind}")
        state = self._state
        wanted = ["LINE_LENGTH_IN"]
        wanted += [f"OFFSET_{way}_{half}" for way in ("IN", "OUT") for half in ("UPPER", "LOWER")]
        missing = [name for name in wanted if name not in state]
        if missing:
            raise _wrong(f"a copy without {', '.join(missing)}")
        source = state["OFFSET_IN_UPPER"] << 32 | state["OFFSET_IN_LOWER"]
        target = state["OFFSET_OUT_UPPER"] << 32 | state["OFFSET_OUT_LOWER"]
        nbytes = state["LINE_LENGTH_IN"]
        run = partial(self._copy, target, source, nbytes)
        what = f"copies {nbytes} bytes to {target:#x}"
        if kind == _NOT_PIPELINED:
            self._work.add(run, After.ALL, what=what)
            self._work.barrier()
        else:
            self._work.add(run, what=what)

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        self._space.write(target, self._space.read(source, nbytes))


def _wrong(told: str) -> ChannelFault:
    return ChannelFault("CE0_ERROR", told)
