"""Several AMD GPUs: copies from one to the other, in order, without the host."""

import gc
import threading

import numpy as np
import pytest
from tests.emulate.kfd.machine import Machine, download, upload

from treadle.runtime.base import Launch

COUNT = 64


def add_one(run):
    source, target = run.addresses(2)
    run.write(target, run.read(source, COUNT) + 1)


@pytest.fixture(params=range(6))
def machine(request):
    return Machine("gfx1100", "gfx90a", "gfx942", seed=request.param)


def test_a_copy_waits_for_the_work_that_makes_its_source(machine):
    first, second = machine.device(0), machine.device(1)
    phase = machine.kernel(first, add_one, slots=2)
    source = upload(first, np.arange(COUNT, dtype=np.int32))
    target = second.allocator.alloc(source.nbytes)
    first.run([Launch([phase], [source.argument] * 2)] * 3)
    assert second.copy_from(first, source, target, source.nbytes)
    assert (download(second, target) == np.arange(COUNT) + 3).all()


def test_what_overwrites_the_source_waits_for_the_copy(machine):
    first, second = machine.device(0), machine.device(1)
    source = upload(first, np.arange(COUNT, dtype=np.int32))
    target = second.allocator.alloc(source.nbytes)
    assert second.copy_from(first, source, target, source.nbytes)
    first.write(source, memoryview(np.zeros(COUNT, np.int32)).cast("B"))
    assert (download(second, target) == np.arange(COUNT)).all()
    assert (download(first, source) == 0).all()


def test_a_copy_goes_around_through_all_queues(machine):
    devices = [machine.device(index) for index in range(3)]
    phases = [machine.kernel(device, add_one, slots=2) for device in devices]
    buffers = [device.allocator.alloc(4 * COUNT) for device in devices]
    devices[0].write(buffers[0], memoryview(np.arange(COUNT, dtype=np.int32)).cast("B"))
    for step in range(6):
        here, there = step % 3, (step + 1) % 3
        devices[here].run([Launch([phases[here]], [buffers[here].argument] * 2)])
        assert devices[there].copy_from(devices[here], buffers[here], buffers[there], 4 * COUNT)
    assert (download(devices[0], buffers[0]) == np.arange(COUNT) + 6).all()


def test_memory_that_is_freed_behind_a_copy_waits_for_it(machine):
    first, second = machine.device(0), machine.device(1)
    target = second.allocator.alloc(4 * COUNT)
    second.synchronize()
    source = upload(first, np.arange(COUNT, dtype=np.int32))
    first.synchronize()
    machine.platform.scheduler.is_paused = True  # so that the copy has not begun
    assert second.copy_from(first, source, target, source.nbytes)
    machine.platform.scheduler.is_paused = False
    del source
    gc.collect()
    assert first.allocator.trim() > 0
    assert (download(second, target) == np.arange(COUNT)).all()


def test_threads_copy_in_both_directions(machine):
    devices = [machine.device(0), machine.device(1)]
    buffers = [upload(device, np.arange(COUNT, dtype=np.int32)) for device in devices]
    others = [device.allocator.alloc(4 * COUNT) for device in devices]
    failures = []

    def copy(here):
        there = 1 - here
        for _ in range(20):
            devices[there].copy_from(devices[here], buffers[here], others[there], 4 * COUNT)
            if (download(devices[there], others[there]) != np.arange(COUNT)).any():
                failures.append(here)

    threads = [threading.Thread(target=copy, args=(here,)) for here in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_a_copy_on_one_device_is_one_too(machine):
    device = machine.device()
    source = upload(device, np.arange(COUNT, dtype=np.int32))
    target = device.allocator.alloc(source.nbytes)
    assert device.copy_from(device, source, target, source.nbytes)
    assert (download(device, target) == np.arange(COUNT)).all()


def test_gpus_that_do_not_reach_each_other_copy_nothing():
    machine = Machine("gfx1100", "gfx1100", has_peers=False)
    first, second = machine.device(0), machine.device(1)
    source, target = upload(first, np.arange(4)), second.allocator.alloc(32)
    assert not second.copy_from(first, source, target, 32)


def test_another_runtimes_memory_is_not_copied():
    device = Machine("gfx1100").device()
    target = device.allocator.alloc(32)
    assert not device.copy_from(object(), target, target, 32)
