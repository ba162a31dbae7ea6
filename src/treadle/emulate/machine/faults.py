"""What stops an engine of an emulated device, other than memory that page tables refuse."""

from __future__ import annotations

__all__ = ["EngineFault", "OrderFault"]


class EngineFault(Exception):
    """What stops an engine: a command or an instruction that it cannot do."""


class OrderFault(EngineFault):
    """Two accesses to memory that nothing orders, or a read from stale caches."""
