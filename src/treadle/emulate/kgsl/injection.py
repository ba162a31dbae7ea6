"""What an emulated Adreno GPU can pass over on purpose.

    kgsl.inject(Injection("idle", every=3))      # every third wait for the GPU to be idle

The kinds:

* `idle`: what follows begins although kernels still run.
* `flush`: the end of work says nothing of what kernels wrote.
* `invalidate`: kernels read what their caches held before.
* `wait`: what follows begins although the memory that it waits for has not changed.
* `event`: the end of work is never written.
* `mapping`: an object has no address of the GPU's.
"""

from __future__ import annotations

from treadle.emulate.machine import injection

__all__ = ["KINDS", "Injection"]

KINDS = ("idle", "flush", "invalidate", "wait", "event", "mapping")


class Injection(injection.Injection):
    """Drops commands of one kind."""

    kinds = KINDS
