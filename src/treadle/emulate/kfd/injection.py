"""What an emulated AMD GPU can pass over on purpose.

    kfd.inject(Injection("wait", every=3))      # every third wait is passed over

The kinds:

* `release`: the end of work is signalled although its writes have reached nobody else yet.
* `signal`: the end of work is never signalled.
* `wait`: work begins although what it waits for has not happened.
* `barrier`: work runs beside the work before it, in either order.
* `acquire`: caches are not invalidated before a kernel reads what others wrote.
* `mapping`: memory is not mapped to a GPU.
"""

from __future__ import annotations

from treadle.emulate.machine import injection

__all__ = ["KINDS", "Injection"]

KINDS = ("release", "signal", "wait", "barrier", "acquire", "mapping")


class Injection(injection.Injection):
    """Drops commands of one kind."""

    kinds = KINDS
