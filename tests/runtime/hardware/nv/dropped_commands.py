"""python -m tests.runtime.hardware.nv.dropped_commands [SEEDS [PART...]]: faults put in on purpose.

A program of two copies and two kernels runs on an emulated GPU. A seed decides how the engines
interleave. Noticed means: a fault, a timeout, or a result that is not right. The parts:

* `kinds`: all commands of one kind are dropped. At how many seeds is that noticed?
* `words`, `acquires`, `releases`, `mappings`: one word of what the channels read, one semaphore,
  or the mapping of one memory. Each in turn, at each seed, on GPUs of three generations by turns.
* `handles`: one handle of one call of RM or UVM is another object's, a freed one, or none's. Each
  once; and at each seed twelve that it draws.
* `bits`: one bit of queue meta data (QMD) is another. Each, at each seed, for each version.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from functools import partial

import numpy as np
from tests.emulate.nv.machine import Machine, download, upload
from tests.runtime.hardware.nv.bad_handles import TIMEOUT, WAYS, drawn, places, replaced
from tests.runtime.hardware.nv.changed_bits import HARMLESS, changed_bits

from treadle.emulate.nv.injection import Injection
from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.base import Launch

ARCHS = ("sm_80", "sm_90a", "sm_120")  # one for each version of QMD
COUNT = 64
KINDS = ("acquire", "release", "order", "idle", "mapping")
ONCE = 1 << 40  # `every`: nothing but the first


def outcome(arch, injection=None, seed=0, from_start=False):
    """What a program comes to: "right", "wrong", or what was raised.

    The injection begins when the device is open, or `from_start`.
    """
    machine = Machine(arch, seed=seed, timeout=TIMEOUT)
    if from_start:
        machine.driver.inject(injection)
    try:
        device = machine.device()
        device.synchronize()
        phase = machine.kernel(device, "add_number")
        machine.driver.inject(injection)
        data = np.arange(COUNT, dtype=np.int32) + seed
        a, b = upload(device, data), device.allocator.alloc(4 * COUNT)
        steps = [Launch([phase], [a.argument, b.argument], [7])]
        device.run([*steps, Launch([phase], [b.argument, b.argument], [5])])
        found = download(device, b)
        device.synchronize()  # a fault behind a signal shows at the next call
        return "right" if (found == data + 12).all() else "wrong"
    except (DeviceError, InternalError, OutOfMemory) as error:
        return str(error)
    finally:
        machine.driver.inject(None)


def number_of(kind, arch, seed):
    """How many commands of a kind the program has, from the start of the device on."""
    injection = Injection(kind, every=ONCE, skip=ONCE)
    assert outcome(arch, injection, seed, from_start=True) == "right"
    return injection.seen


def dropped_one(kind, arch, seed):
    """The outcome for each command of a kind when that one alone is dropped."""
    return [
        outcome(arch, Injection(kind, every=ONCE, skip=number), seed, from_start=True)
        for number in range(number_of(kind, arch, seed))
    ]


def arch_of(seed):
    """The GPU whose turn it is."""
    return ARCHS[seed % len(ARCHS)]


def kinds(seeds):
    print("  ".join(["dropped ", *(arch.rjust(7) for arch in ARCHS)]))
    for kind in ("", *KINDS):
        works = [partial(_is_noticed, kind, arch) for arch in ARCHS]
        counts = [sum(of_each(work, seeds)) for work in works]
        cells = (str(count).rjust(7) for count in counts)
        print("  ".join([(kind or "nothing").ljust(8), *cells]), flush=True)


def _is_noticed(kind, arch, seed):
    return outcome(arch, Injection(kind) if kind else None, seed) != "right"


def of_each(work, seeds):
    """What a function gives for each seed. Few share a process: a device leaves reserved memory."""
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        return pool.map(work, seeds, chunksize=1)


def each(kind, seeds):
    found = Counter()
    for each_number in of_each(partial(_dropped_one, kind), seeds):
        for number, what in enumerate(each_number):
            found["right" if what == "right" else "noticed"] += 1
            if what == "right":
                found[f"{kind} {number}"] += 1
    print(f"one {kind} of each program: {dict(found)}", flush=True)


def _dropped_one(kind, seed):
    return dropped_one(kind, arch_of(seed), seed)


def handles(seeds):
    found = sum(of_each(_each_handle, ARCHS), Counter())
    print(f"each handle in {len(WAYS)} ways, once: {dict(found)}", flush=True)
    found = sum(of_each(_drawn_handles, seeds), Counter())
    print(f"12 handles at each seed: {dict(found)}", flush=True)


def _each_handle(arch):
    return Counter(
        _of_handle(place, way, replaced(arch, place, way, 0))
        for place in places(arch)
        for way in WAYS
    )


def _drawn_handles(seed):
    return Counter(_of_handle(*one) for one in drawn(arch_of(seed), seed, 12))


def _of_handle(place, way, what):
    return "noticed" if what != "right" else f"right: {place.about} {place.field} ({way})"


def bits(seeds):
    for arch in ARCHS:
        found, harmless, unknown = Counter(), Counter(), Counter()
        for seed in seeds:
            changed = changed_bits(arch, seed)
            found.update({what: len(those) for what, those in changed.items()})
            harmless.update({name for _, name in changed["right"]})
            unknown.update({name for _, name in changed["right"]} - {*HARMLESS})
        print(f"bits of QMD, {arch}: {dict(found)}")
        print(f"  right, by fields, at how many seeds: {dict(sorted(harmless.items()))}")
        print(f"  right without a reason: {dict(unknown)}", flush=True)


PARTS = {
    "kinds": kinds, "words": partial(each, "word"), "acquires": partial(each, "acquire"),
    "releases": partial(each, "release"), "mappings": partial(each, "mapping"),
    "handles": handles, "bits": bits,
}  # fmt: skip


def main():
    seeds = range(int(sys.argv[1]) if sys.argv[1:] else 200)
    assert {outcome(arch) for arch in ARCHS} == {"right"}  # and kernels are compiled before forks
    for part in sys.argv[2:] or PARTS:
        PARTS[part](seeds)


if __name__ == "__main__":
    main()
