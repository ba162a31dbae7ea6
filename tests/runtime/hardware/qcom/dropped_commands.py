"""python -m tests.runtime.hardware.qcom.dropped_commands [SEEDS]: commands that are forgotten.

The host writes, two kernels run, the host reads, on an emulated GPU that drops commands of one
kind. A seed decides how the engines interleave. Printed is at how many seeds the device raised a
fault or a timeout, and at how many the result was not right. At the others it was right.

    dropped       a630     a660
    idle       200 + 0  200 + 0
"""

import sys

import numpy as np
from tests.runtime.hardware.qcom.machine import Machine, download

from treadle.emulate.kgsl import Injection
from treadle.errors import DeviceError
from treadle.runtime.base import Launch

__all__ = ["CHIPS", "KINDS", "outcome", "unmapped"]

COUNT = 128
CHIPS = ("a610", "a630", "a660")
KINDS = ("idle", "flush", "invalidate", "event", "mapping")  # no submission waits for memory


def outcome(arch, seed, kind=None, **which):
    """What a program comes to: "right", "wrong", or what was raised. And how much was dropped."""
    machine = Machine(arch, seed=seed)
    device = machine.device(timeout=5.0)
    phase = machine.kernel(device, groups=2)
    a, b, c = (device.allocator.alloc(4 * COUNT) for _ in range(3))
    device.synchronize()
    injection = Injection(kind, **which) if kind is not None else None
    machine.driver.inject(injection)
    data = np.arange(COUNT, dtype=np.int32)
    try:
        device.write(a, memoryview(data).cast("B"))
        device.run([Launch([phase], [a.argument, b.argument], [3]),
                    Launch([phase], [b.argument, c.argument], [4])])  # fmt: skip
        result = download(device, c)
    except DeviceError as error:
        return str(error), injection.dropped if injection else 0
    is_right = (result == data + 7).all()
    return "right" if is_right else "wrong", injection.dropped if injection else 0


def unmapped(arch, seed):
    """What a kernel comes to that writes to memory which was not mapped; and its address."""
    machine = Machine(arch, seed=seed)
    device = machine.device()
    phase = machine.kernel(device)
    a = device.allocator.alloc(4 * COUNT)
    machine.driver.inject(Injection("mapping"))
    b = device.allocator.alloc(1 << 20)
    try:
        device.run([Launch([phase], [a.argument, b.argument], [1])])
        device.synchronize()
    except DeviceError as error:
        return str(error), b.argument
    return "right", b.argument


def noticed(kind, arch, seeds):
    """At how many of the seeds something was raised, and at how many a result was wrong."""
    if kind == "mapping":
        found = [unmapped(arch, seed)[0] for seed in range(seeds)]
    else:
        found = [outcome(arch, seed, kind or None)[0] for seed in range(seeds)]
    wrong = found.count("wrong")
    return f"{len(found) - found.count('right') - wrong} + {wrong}"


def main():
    seeds = int(sys.argv[1]) if sys.argv[1:] else 200
    print("  ".join(["dropped   ", *(arch.rjust(9) for arch in CHIPS)]))
    for kind in ("", *KINDS):
        cells = (noticed(kind, arch, seeds).rjust(9) for arch in CHIPS)
        print("  ".join([(kind or "nothing").ljust(10), *cells]), flush=True)


if __name__ == "__main__":
    main()
