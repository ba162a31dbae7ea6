"""The compute class: methods that set where windows and local memory are, and start launches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.nv import tables
from treadle.emulate.nv.dispatch import Dispatch
from treadle.emulate.nv.meta_data import MetaData, wrong

if TYPE_CHECKING:
    from treadle.emulate.machine.memory import AddressSpace
    from treadle.emulate.machine.work import Worklist
    from treadle.emulate.nv.engines import GPU

__all__ = ["ComputeEngine"]

# SEND_SIGNALING_PCAS2_B_PCAS_ACTION: those that schedule.
_SCHEDULING = (2, 3, 9, 10)
_KEPT = (
    "SET_SHADER_SHARED_MEMORY_WINDOW_A", "SET_SHADER_SHARED_MEMORY_WINDOW_B",
    "SET_SHADER_LOCAL_MEMORY_WINDOW_A", "SET_SHADER_LOCAL_MEMORY_WINDOW_B",
    "SET_SHADER_LOCAL_MEMORY_A", "SET_SHADER_LOCAL_MEMORY_B",
    "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A", "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B",
    "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C", "SEND_PCAS_A",
)  # fmt: skip
_MOST_CHAINED = 1 << 16


class ComputeEngine:
    """An object of a compute class on one channel."""

    def __init__(self, gpu: GPU, space: AddressSpace, work: Worklist, number: int) -> None:
        self._gpu, self.space, self._work = gpu, space, work
        self._methods = tables.methods("compute", number)
        self._state: dict[str, int] = {}
        self._fresh: set[str] = set()  # caches that were invalidated since the last launch

    def method(self, at: int, value: int) -> None:
        """One method."""
        found = self._methods.get(at)
        if found is None:
            raise wrong(f"the compute class has no method {at:#x}")
        try:
            fields = found.decode(value)
        except ValueError as error:
            raise wrong(str(error)) from error
        if found.name in _KEPT:
            self._state[found.name] = value
        elif found.name == "SEND_SIGNALING_PCAS2_B":
            self._send(fields)
        elif found.name == "WAIT_FOR_IDLE":
            if not self._gpu.drops("idle"):
                self._work.barrier()
        elif found.name == "INVALIDATE_SHADER_CACHES_NO_WFI":
            named = {"INSTRUCTION": "INSTRUCTION", "GLOBAL_DATA": "DATA", "CONSTANT": "CONSTANT"}
            self._fresh |= {cache for field, cache in named.items() if fields[field]}
        else:
            raise wrong(f"compute method {found.name} is not emulated")

    def _address(self, name: str) -> int:
        """What two methods set, or 0."""
        return self._state.get(f"{name}_A", 0) << 32 | self._state.get(f"{name}_B", 0)

    # -- launches ---------------------------------------------------------------------------------

    def _send(self, fields: dict[str, int]) -> None:
        action = fields["PCAS_ACTION"]
        if action not in _SCHEDULING or any(
            value for name, value in fields.items() if name != "PCAS_ACTION"
        ):
            raise wrong(f"SEND_SIGNALING_PCAS2_B with action {action} is not emulated")
        if "SEND_PCAS_A" not in self._state:
            raise wrong("a launch without the address of its meta data")
        fresh, self._fresh = self._fresh, set()
        address = self._state["SEND_PCAS_A"] << 8
        self._work.add(partial(self.start, address, fresh), what=f"launches by {address:#x}")

    def start(self, address: int, fresh: set[str]) -> None:
        """A launch, and those that its meta data name."""
        for _ in range(_MOST_CHAINED):
            following = self._run_one(address, fresh)
            if following is None:
                return
            address, fresh = following, set()
        raise wrong("meta data that name each other without an end")

    def _run_one(self, address: int, fresh: set[str]) -> int | None:
        meta = MetaData(self._gpu.chip, self._meta_data(address))
        stale = meta.stale - fresh
        if stale:
            names = ", ".join(sorted(stale)).lower()
            raise wrong(f"a launch that may find something old in caches of: {names}")
        self._check_local(meta)
        self._gpu.execute(
            Dispatch(
                self._gpu.chip, self.space, meta.program, meta.grid, meta.block, meta.registers,
                meta.barriers, meta.shared, meta.local, meta.banks,
                self._address("SET_SHADER_LOCAL_MEMORY_WINDOW"),
                self._address("SET_SHADER_SHARED_MEMORY_WINDOW"),
            )
        )  # fmt: skip
        return meta.next

    def _meta_data(self, address: int) -> bytes:
        nbytes = tables.qmd(self._gpu.chip.qmd).nbytes
        return self._gpu.changed("qmd", self.space.read(address, nbytes))

    def _check_local(self, meta: MetaData) -> None:
        """All multiprocessors' warps need their part of the local memory."""
        if not meta.local:
            return
        chip = self._gpu.chip
        of_tpc = self._address("SET_SHADER_LOCAL_MEMORY_NON_THROTTLED")
        needed = meta.local * 32 * chip.warps * 2
        if needed > of_tpc:
            raise wrong(
                f"{meta.local} bytes of local memory for each thread are {needed} for two "
                f"multiprocessors, and {of_tpc} are set"
            )
        base, whole = self._address("SET_SHADER_LOCAL_MEMORY"), of_tpc * chip.gpcs * chip.tpcs
        self.space.pieces(base, whole, 3)
