"""A CUDA driver made of Python objects: memory as bytearrays, a log of calls, faults on demand.

    driver = FakeDriver()
    driver.fail("launch", "CUDA_ERROR_ILLEGAL_ADDRESS")    # the next launch raises, once

An image is the names of kernels, b"add scale"; what they compute stands in KERNELS. Addresses are
no addresses of this process, so that nothing can use one by mistake.
"""

import ctypes
import itertools

import numpy as np

from treadle.runtime.cuda.driver import DeviceFacts, DriverError, KernelFacts


def _facts(name, memory):
    return DeviceFacts(
        name=name, capability=(8, 0), memory=memory, multiprocessors=4, most_threads=1024,
        shared=49152, shared_optin=166912, shared_per_multiprocessor=167936, l2=1 << 20,
        pci="0000:01:00.0", has_pools=True, has_watchdog=True, is_emulated=False,
    )  # fmt: skip


def _add(read, write, args, threads):
    (_, out), (_, x), (_, y), (_, n) = args
    write(out, (read(x, n) + read(y, n)).astype(np.int32))


def _scale(read, write, args, threads):
    (_, out), (_, x), (_, factor) = args
    write(out, (read(x, threads) * factor).astype(np.int32))


KERNELS = {"add": _add, "scale": _scale, "nothing": lambda *_: None}


class FakeDriver:
    is_emulated = False
    version = (13, 0)

    def __init__(self, devices=2, memory=1 << 30):
        self.log, self.faults, self.broken = [], {}, {}
        self._facts = [_facts(f"Fake {i}", memory) for i in range(devices)]
        self.contexts = [FakeContext(self, i) for i in range(devices)]

    def devices(self):
        return self._facts

    def open(self, index):
        self.called(self.contexts[index], "open")
        return self.contexts[index]

    def fail(self, call, code, message=""):
        self.faults.setdefault(call, []).append((code, message))

    def called(self, context, call, *about):
        self.log.append((context.index, call, *about))
        if self.faults.get(call):
            code, message = self.faults[call].pop(0)
            raise DriverError(code, call, message)

    def calls(self, *names):
        return [entry[1:] for entry in self.log if entry[1] in names]


class FakeContext:
    def __init__(self, driver, index):
        self.driver, self.index, self.handle = driver, index, 100 + index
        self.facts = driver.devices()[index]
        self.memory, self.pinned, self.freed = {}, {}, []
        self._next = itertools.count((index + 1) << 40, 1 << 20)
        self._numbers = itertools.count(7)
        self.peers, self.capturing = set(), set()

    def _did(self, call, *about):
        self.driver.called(self, call, *about)

    def _piece(self, address, nbytes):
        for start, block in self.memory.items():
            if start <= address and address + nbytes <= start + len(block):
                return memoryview(block)[address - start : address - start + nbytes]
        raise DriverError("CUDA_ERROR_ILLEGAL_ADDRESS", "access")

    # -- memory
    def alloc(self, nbytes, stream):
        self._did("alloc", nbytes, stream)
        if sum(map(len, self.memory.values())) + nbytes > self.facts.memory:
            raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", "cuMemAllocAsync")
        address = next(self._next)
        self.memory[address] = bytearray(b"\xcd" * nbytes)
        return address

    def free(self, address, stream):
        self._did("free", address, stream)
        del self.memory[address]

    def alloc_pinned(self, nbytes):
        self._did("alloc_pinned", nbytes)
        block = ctypes.create_string_buffer(nbytes)
        self.pinned[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def memory_info(self):
        used = sum(map(len, self.memory.values()))
        return self.facts.memory - used, self.facts.memory

    def trim(self, keep):
        self._did("trim", keep)

    def owner_of(self, address):
        for context in self.driver.contexts:
            for start, block in context.memory.items():
                if start <= address < start + len(block):
                    return context.index, start, len(block)
        return None

    def copy_in(self, target, host, nbytes, stream):
        self._did("copy_in", nbytes, stream)
        self._piece(target, nbytes)[:] = ctypes.string_at(host, nbytes)

    def copy_out(self, host, source, nbytes, stream):
        self._did("copy_out", nbytes, stream)
        ctypes.memmove(host, bytes(self._piece(source, nbytes)), nbytes)

    def copy(self, target, source, nbytes, stream):
        self._did("copy", nbytes, stream)
        self._piece(target, nbytes)[:] = bytes(self._piece(source, nbytes))

    def copy_peer(self, target, source, source_context, nbytes, stream):
        self._did("copy_peer", nbytes, stream)
        self._piece(target, nbytes)[:] = bytes(source_context._piece(source, nbytes))

    def reach_peer(self, other):
        self._did("reach_peer", other.index)
        return True

    # -- code
    def load(self, image):
        self._did("load", image)
        return FakeModule(image.decode().split())

    def launch(self, kernel, grid, block, shared, stream, args):
        self._did("launch", kernel.name, grid, block, stream, tuple(args))
        self._compute(kernel, grid, block, args)

    def _compute(self, kernel, grid, block, args):
        def read(address, count):
            return np.frombuffer(bytes(self._piece(address, 4 * count)), np.int32)

        def write(address, values):
            self._piece(address, values.nbytes)[:] = values.tobytes()

        KERNELS[kernel.name](read, write, args, grid[0] * block[0])

    # -- order
    def new_stream(self):
        self._did("new_stream")
        return next(self._numbers) + 1000 * self.index

    def delete_stream(self, stream):
        self._did("delete_stream", stream)

    def wait_stream(self, stream):
        self._did("wait_stream", stream)

    def is_capturing(self, stream):
        return stream in self.capturing

    def new_event(self, timed):
        self._did("new_event", timed)
        return f"event {next(self._numbers)}"

    def delete_event(self, event):
        self._did("delete_event", event)

    def record(self, event, stream):
        self._did("record", event, stream)

    def wait_event(self, stream, event):
        self._did("wait_event", stream, event)

    def elapsed(self, start, end):
        self._did("elapsed", start, end)
        return 1000.0 * (int(end.split()[1]) - int(start.split()[1]))

    def synchronize(self):
        self._did("synchronize")

    # -- graphs
    def new_graph(self):
        self._did("new_graph")
        return []

    def add_kernel(self, graph, after, kernel, grid, block, shared, args):
        places = [next(i for i, node in enumerate(graph) if node is one) for one in after]
        self._did("add_kernel", kernel.name, *places)
        graph.append([kernel, grid, block, list(args)])
        return graph[-1]

    def instantiate(self, graph):
        self._did("instantiate", len(graph))
        return graph

    def update_kernel(self, executable, node, args):
        self._did("update_kernel", node[0].name)
        node[3] = list(args)

    def launch_graph(self, executable, stream):
        self._did("launch_graph", len(executable), stream)
        for kernel, grid, block, args in executable:
            self._compute(kernel, grid, block, args)

    def delete_graph(self, graph, executable):
        self._did("delete_graph")


class FakeModule:
    def __init__(self, names):
        self.names = names

    def function(self, name):
        if name not in self.names:
            raise DriverError("CUDA_ERROR_NOT_FOUND", "cuModuleGetFunction")
        return FakeKernel(name)


class FakeKernel:
    facts = KernelFacts(32, 0, 0, 0, 1024)

    def __init__(self, name):
        self.name = name

    def blocks_per_multiprocessor(self, threads, shared):
        return 2048 // threads

    def allow_shared(self, nbytes):
        pass
