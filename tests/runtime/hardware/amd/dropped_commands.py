"""python -m tests.runtime.hardware.amd.dropped_commands [SEEDS]: commands that are forgotten.

A program of two copies and two kernels runs on an emulated GPU that drops commands of one kind. A
seed decides how the engines interleave. Printed is at how many seeds the device raised a fault or a
timeout, and at how many the result was not right. At the others it was right.

    dropped   gfx1100, PM4  gfx90a, PM4
    release        200 + 0      200 + 0
"""

from __future__ import annotations

import sys

import numpy as np
from tests.emulate.kfd.machine import Machine, download, upload

from treadle.emulate.kfd import Injection
from treadle.emulate.kfd.injection import KINDS
from treadle.errors import DeviceError
from treadle.runtime.base import Launch

COUNT = 16
GPUS = [("gfx1100", False), ("gfx90a", False), ("gfx942", True), ("gfx1201", True)]


def double(run):
    source, target = run.addresses(2)
    run.write(target, run.read(source, COUNT) * 2)


def add_one(run):
    source, target = run.addresses(2)
    run.write(target, run.read(source, COUNT) + 1)


def outcome(arch, uses_aql, seed, kind=None, **which):
    """What a program of copies and kernels comes to: "right", "wrong", or what was raised.

    Also how many commands were dropped.
    """
    machine = Machine(arch, seed=seed, uses_aql=uses_aql, timeout=5.0)
    device = machine.device()
    phases = [machine.kernel(device, one, slots=2) for one in (double, add_one)]
    a, b, c = (device.allocator.alloc(4 * COUNT) for _ in range(3))
    device.synchronize()
    injection = Injection(kind, **which) if kind is not None else None
    machine.driver.inject(injection)
    data = np.arange(COUNT, dtype=np.int32)
    try:
        device.write(a, memoryview(data).cast("B"))
        launches = [
            Launch([phases[0]], [a.argument, b.argument]),
            Launch([phases[1]], [b.argument, c.argument]),
        ]
        device.run(launches)
        result = download(device, c)
    except DeviceError as error:
        return str(error), injection.dropped if injection else 0
    is_right = (result == 2 * data + 1).all()
    return "right" if is_right else "wrong", injection.dropped if injection else 0


def unmapped(arch, uses_aql, seed):
    """What a kernel comes to that writes to memory which was not mapped; and its address."""
    machine = Machine(arch, seed=seed, uses_aql=uses_aql)
    device = machine.device()
    phase = machine.kernel(device, double, slots=2)
    a = upload(device, np.arange(COUNT, dtype=np.int32))
    device.synchronize()
    machine.driver.inject(Injection("mapping"))
    b = device.allocator.alloc(1 << 20)
    device.run([Launch([phase], [a.argument, b.argument])])
    try:
        download(device, b)
    except DeviceError as error:
        return str(error), b.argument
    return "right", b.argument


def noticed(kind, arch, uses_aql, seeds):
    """At how many of the seeds something was raised, and at how many a result was wrong."""
    if kind == "mapping":
        found = [unmapped(arch, uses_aql, seed)[0] for seed in range(seeds)]
    else:
        found = [outcome(arch, uses_aql, seed, kind or None)[0] for seed in range(seeds)]
    wrong = found.count("wrong")
    return f"{len(found) - found.count('right') - wrong} + {wrong}"


def main():
    seeds = int(sys.argv[1]) if sys.argv[1:] else 200
    names = [f"{arch}, {'AQL' if uses_aql else 'PM4'}" for arch, uses_aql in GPUS]
    print("  ".join(["dropped ", *names]))
    for kind in ("", *KINDS):
        counts = [noticed(kind, *gpu, seeds) for gpu in GPUS]
        cells = (count.rjust(len(name)) for count, name in zip(counts, names, strict=True))
        print("  ".join([(kind or "nothing").ljust(8), *cells]), flush=True)


if __name__ == "__main__":
    main()
