"""What stops a channel, by the numbers that the driver writes into its error notifier."""

from __future__ import annotations

from treadle.emulate.machine.faults import EngineFault
from treadle.emulate.nv import tables

__all__ = ["ChannelFault", "Status"]


class ChannelFault(EngineFault):
    """An error of a channel: `kind` is a name of `nverror.h` without ROBUST_CHANNEL_.

    `address` is that of a fault of the GPU's page tables, else None.
    """

    def __init__(self, kind: str, told: str, address: int | None = None) -> None:
        self.number = tables.number(f"ROBUST_CHANNEL_{kind}")
        self.address = address
        super().__init__(told)


class Status(Exception):
    """A call of RM's or UVM's is refused with a status."""

    def __init__(self, name: str, told: str = "") -> None:
        self.number = tables.number(f"NV_ERR_{name}")
        super().__init__(f"{name}{f': {told}' if told else ''}")
