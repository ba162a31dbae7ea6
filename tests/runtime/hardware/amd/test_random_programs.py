"""Random programs on several emulated GPUs beside the same programs in NumPy.

A program writes, reads, launches, replays, copies between GPUs and frees memory. Nothing waits but
where a value is read. So every order that the runtime forgets to ask for shows at some seed.
"""

import gc
from random import Random

import numpy as np
import pytest
from tests.emulate.kfd.machine import Machine, download
from tests.thinning import chosen

from treadle.runtime.base import Launch

COUNT, STEPS = 32, 40
SEEDS = [seed for seed in range(240) if chosen(f"a program of emulated GPUs: {seed}", 10)]
CHIPS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")


def add(run):
    left, right, target = run.addresses(3)
    (number,) = run.integers(3, 1)
    run.write(target, run.read(left, COUNT) + run.read(right, COUNT) + number)


class Program:
    """One random program: `values` has what each buffer of each device has to hold."""

    def __init__(self, seed):
        self.random = Random(seed)
        chips = self.random.sample(CHIPS, 2)
        uses_aql = self.random.choice([None, True])
        self.machine = Machine(*chips, seed=seed, uses_aql=uses_aql, vram=64 << 20)
        self.devices = [self.machine.device(index) for index in range(2)]
        self.phases = [self.machine.kernel(one, add, 3, 1) for one in self.devices]
        self.buffers = [[], []]
        self.values = [[], []]
        for index in range(2):
            for _ in range(3):
                self.make(index)
        self.lists = [self.make_list(index) for index in range(2)]

    def any_values(self):
        return np.array([self.random.randrange(1000) for _ in range(COUNT)], np.int32)

    def make(self, index):
        """A new buffer with values."""
        buffer = self.devices[index].allocator.alloc(4 * COUNT)
        self.buffers[index].append(buffer)
        self.values[index].append(None)
        self.write(index, len(self.buffers[index]) - 1)

    def write(self, index, place):
        data = self.any_values()
        self.devices[index].write(self.buffers[index][place], memoryview(data).cast("B"))
        self.values[index][place] = data.copy()
        data[:] = -1  # it is free again

    def some(self, index, count):
        return [self.random.randrange(len(self.buffers[index])) for _ in range(count)]

    def launch_of(self, index):
        """A launch, and the values that it makes where."""
        left, right, target = self.some(index, 3)
        number, values = self.random.randrange(100), self.values[index]
        made = values[left] + values[right] + number
        values[target] = made
        addresses = [self.buffers[index][place].argument for place in (left, right, target)]
        return Launch([self.phases[index]], addresses, [number])

    def make_list(self, index):
        first = self.buffers[index][0].argument
        launches = [Launch([self.phases[index]], [first] * 3, [0])] * 2
        return self.devices[index].call_list(launches)

    def replay(self, index):
        for call in range(2):
            launch = self.launch_of(index)
            for slot, address in enumerate(launch.args):
                self.lists[index].set_arg(call, slot, address)
            self.lists[index].set_var(call, 0, launch.vars[0])
        self.lists[index].run()

    def send(self, index):
        (source,), (target,) = self.some(index, 1), self.some(1 - index, 1)
        here, there = self.devices[index], self.devices[1 - index]
        assert there.copy_from(
            here, self.buffers[index][source], self.buffers[1 - index][target], 4 * COUNT
        )
        self.values[1 - index][target] = self.values[index][source].copy()

    def free_and_make(self, index):
        place = self.some(index, 1)[0]
        del self.buffers[index][place], self.values[index][place]
        gc.collect(0)
        self.make(index)

    def check(self, index):
        (place,) = self.some(index, 1)
        found = download(self.devices[index], self.buffers[index][place])
        assert (found == self.values[index][place]).all()

    def run(self):
        for _ in range(STEPS):
            index = self.random.randrange(2)
            what = self.random.randrange(12)
            if what < 3:
                launches = [self.launch_of(index) for _ in range(self.random.randint(1, 4))]
                self.devices[index].run(launches)
            elif what < 5:
                self.replay(index)
            elif what < 7:
                self.send(index)
            elif what < 9:
                self.write(index, self.some(index, 1)[0])
            elif what < 10:
                self.free_and_make(index)
            else:
                self.check(index)
        for index in range(2):
            for place, buffer in enumerate(self.buffers[index]):
                found = download(self.devices[index], buffer)
                assert (found == self.values[index][place]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_computes_what_numpy_does(seed):
    Program(seed).run()
