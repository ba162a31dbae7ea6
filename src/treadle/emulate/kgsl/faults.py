"""What stops a context, other than memory."""

from __future__ import annotations

from treadle.emulate.machine.queue import EngineFault

__all__ = ["KernelFault"]


class KernelFault(EngineFault):
    """A command that cannot be done, or what stops a kernel, such as an illegal instruction."""
